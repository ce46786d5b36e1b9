"""Maintenance windows and expected changes on pages: schedule, preview, end, cancel."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.models import Change, PlannedEvent, PlannedEventKind, Role
from tests.factories import (
    NOON,
    make_change,
    make_host,
    make_incident,
    make_planned_event,
    make_series,
    make_user,
)

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
FORM = {
    "kind": "maintenance",
    "filter": "host:db-7",
    "from_at": "2026-11-21T12:00",
    "to_at": "2026-11-21T16:00",
    "zone": "UTC",
    "reason": "new disks",
}


@pytest.fixture(autouse=True)
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the hints instead of asking a broker."""
    calls: list[str] = []
    monkeypatch.setattr("benchapp.framework.pages.list_entries.wake_up", lambda: calls.append("judge"))
    return calls


@pytest.fixture
def anna() -> Client:
    client = Client()
    client.force_login(make_user(Role.EDITOR, username="anna"))
    return client


def read(client: Client, name: str, *arguments: Any, **query: str) -> str:
    return client.get(reverse(name, args=arguments), query).content.decode()


def post(client: Client, name: str, *arguments: Any, **form: str) -> str:
    return client.post(reverse(name, args=arguments), form, follow=True).content.decode()


def add(client: Client, **changes: str) -> Any:
    return client.post(reverse("add_planned_event"), {**FORM, **changes})


def make_running(**fields: Any) -> PlannedEvent:
    now = timezone.now()
    return make_planned_event(from_at=now - HOUR, to_at=now + HOUR, **fields)


def test_empty_list_explains_what_to_do(anna: Client, viewer: Client) -> None:
    page = read(anna, "planned_events")

    assert "none active or upcoming" in page
    assert f'href="{reverse("add_planned_event")}"' in page
    assert "Requires the editor role" in read(viewer, "planned_events")
    assert reverse("add_planned_event") not in read(viewer, "planned_events")


def test_note_of_the_history_page_returns_to_its_chart(anna: Client, viewer: Client) -> None:
    series = make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)
    chart = f"{reverse('history')}?q=host%3Adb-7&from=2026-11-21T12:00Z"
    link = html.unescape(
        re.search(r'href="([^"]*add[?]kind=note[^"]*)"', anna.get(chart).content.decode())[1]
    )
    form = anna.get(link).content.decode()
    fields = dict(re.findall(r'name="(filter|from_at|to_at|next)" value="([^"]*)"', form))

    saved = add(anna, kind="note", filter="host:db-7", to_at="", reason="new <rack>", next=chart)
    elsewhere = add(anna, kind="note", to_at="", reason="x", next="https://elsewhere.example/")
    page = anna.get(f"{reverse('history')}?q=host:db-7").content.decode()

    assert fields == {
        "filter": "host:db-7",
        "from_at": "2026-11-21T12:00",
        "to_at": "",
        "next": html.escape(chart),
    }
    assert (saved.status_code, saved.url) == (302, chart)
    assert elsewhere.url == reverse("planned_events")
    assert "new &lt;rack&gt;" in page
    assert "new &lt;rack&gt;" in anna.get(reverse("series", args=[series.pk])).content.decode()
    assert "kind=note" not in viewer.get(chart).content.decode()


def test_list_shows_active_and_upcoming_windows_and_other_tabs(anna: Client) -> None:
    now = timezone.now()
    make_running(reason="rebuild")
    make_planned_event(
        from_at=now + HOUR, to_at=now + 2 * HOUR, reason="rollout", kind=PlannedEventKind.CHANGE
    )
    make_planned_event(from_at=now - 9 * HOUR, to_at=now - 8 * HOUR, reason="moved racks")
    make_running(reason="mistaken", canceled_at=now)

    page = read(anna, "planned_events")
    assert "1 active, 1 upcoming" in page
    assert re.findall(r'/maintenance/\d+/">([^<]+)</a>', page) == ["rollout", "rebuild"]
    assert "moved racks" in read(anna, "planned_events", tab="past")
    assert "mistaken" in read(anna, "planned_events", tab="canceled")
    only = read(anna, "planned_events", kind="change")
    assert ("rollout" in only, "rebuild" in only) == (True, False)


def test_unknown_tab_is_rejected_with_the_available_values(anna: Client) -> None:
    response = anna.get(reverse("planned_events"), {"tab": "yesterday"})

    assert response.status_code == 400
    assert "Available: current, past, canceled" in response.content.decode()


def test_maintenance_is_saved_with_its_creator_and_detection_is_started(
    anna: Client, hints: list[str]
) -> None:
    response = add(anna)

    event = PlannedEvent.objects.get()
    assert response.url == reverse("planned_event", args=[event.pk])
    assert (event.kind, event.filter, event.reason) == ("maintenance", "host:db-7", "new disks")
    assert (event.from_at, event.to_at) == (NOON, NOON + 4 * HOUR)
    assert event.created_by and event.created_by.username == "anna"
    assert hints == ["judge"]


@pytest.mark.parametrize(
    ("zone", "text", "moment"),
    [
        ("Europe/Berlin", "2026-11-21T12:00", datetime(2026, 11, 21, 11, tzinfo=UTC)),
        ("Asia/Kolkata", "2026-11-21 12:00", datetime(2026, 11, 21, 6, 30, tzinfo=UTC)),
        ("Europe/Berlin", "2026-11-21T12:00Z", NOON),
    ],
)
def test_times_are_read_in_the_selected_zone(anna: Client, zone: str, text: str, moment: datetime) -> None:
    add(anna, zone=zone, from_at=text)

    assert PlannedEvent.objects.get().from_at == moment


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"filter": "flavour:sweet"}, "flavour"),
        ({"to_at": "2026-11-21T11:00"}, "The end is not after the start"),
        ({"to_at": "tomorrow"}, "Not a valid time"),
        ({"to_at": ""}, "An end is required"),
        ({"zone": "Moon/Crater"}, "Unknown time zone"),
        ({"zone": "../../etc/passwd"}, "Unknown time zone"),
        (
            {"zone": "Europe/Berlin", "from_at": "2026-03-29T02:30"},
            "does not exist in Europe/Berlin",
        ),
        ({"reason": "  "}, "This field is required"),
        ({"kind": "party"}, "not one of the available choices"),
    ],
)
def test_invalid_value_is_reported_at_its_field_and_nothing_is_saved(
    anna: Client, changes: dict[str, str], words: str
) -> None:
    response = add(anna, **changes)

    assert response.status_code == 400
    (error,) = re.findall(r'<p class="field-error">([^<]+)</p>', response.content.decode())
    assert words in error
    assert not PlannedEvent.objects.exists()


def test_preview_shows_the_impact_and_saves_nothing(anna: Client, hints: list[str]) -> None:
    make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)

    response = add(anna, preview="yes", reason="")

    page = response.content.decode()
    assert response.status_code == 200
    assert "1 series on 1 host (db-7)" in page
    assert "2 runs in this period" in page
    assert (PlannedEvent.objects.count(), hints) == (0, [])


def test_form_starts_with_the_host_or_the_incident(anna: Client) -> None:
    series = make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)
    pooled = make_series([1.0], host=make_host("web-1", pool="web"), pool="web", start_at=NOON)
    incident = make_incident(changes=[make_change(series, at=NOON), make_change(pooled, at=NOON)])

    page = read(anna, "add_planned_event", host="db 7")
    assert 'value="host:&quot;db 7&quot;"' in page
    page = read(anna, "add_planned_event", incident=str(incident.pk))
    assert 'value="host:db-7 pool:web"' in page
    assert '<option value="change" selected>' in page
    assert 'value="2026-11-21T12:00"' in page
    assert Change.objects.count() == 2


def test_similar_changes_are_muted_from_an_incident_until_a_date_and_removed(anna: Client) -> None:
    series = make_series([1.0, 2.0], host=make_host("db-7"), start_at=NOON)
    incident = make_incident(changes=[make_change(series, at=NOON)])
    form = read(anna, "add_planned_event", incident=str(incident.pk))

    add(
        anna,
        kind="change",
        metric="iops",
        is_regression="true",
        incident=str(incident.pk),
        reason="smaller disk",
    )
    event = PlannedEvent.objects.get()
    page, listed = read(anna, "incident", incident.pk), read(anna, "planned_events", tab="past")
    post(anna, "cancel_planned_event", event.pk)

    assert '<option value="iops" selected>' in form
    assert '<option value="true" selected>' in form
    assert f'name="incident" value="{incident.pk}"' in form
    assert (event.metric, event.is_regression, event.incident_id) == ("iops", True, incident.pk)
    assert "<strong>Similar changes</strong> were muted by an" in page
    assert "of anna, until" in page
    assert "smaller disk" in page
    assert "IOPS, regressions only" in listed
    assert f"incident {incident.pk}</a>" in listed
    assert "(canceled) of anna" in read(anna, "incident", incident.pk)


def test_muted_incident_names_who_muted_it(anna: Client) -> None:
    event = make_planned_event(kind="change", reason="<b>smaller</b>", created_by=make_user(username="grace"))
    make_incident(state="resolved", verdict="expected", planned_event=event)
    incident = make_incident(state="resolved", verdict="expected", planned_event=event)

    page = read(anna, "incident", incident.pk)

    assert "<strong>Muted</strong> by an" in page
    assert "of grace, until" in page
    assert "&lt;b&gt;smaller&lt;/b&gt;" in page
    assert ">muted</span>" in read(anna, "incidents", tab="resolved")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metric": "iops"}, "Maintenance is of all metrics"),
        ({"is_regression": "true"}, "Maintenance is of all changes"),
        ({"kind": "change", "metric": "speed"}, "is not one of the available choices"),
        ({"kind": "change", "incident": "999"}, "Incident 999 does not exist."),
    ],
)
def test_invalid_limits_of_an_expected_change_are_rejected(
    changes: dict[str, str], reason: str, anna: Client
) -> None:
    response = add(anna, **changes)

    assert response.status_code == 400
    assert reason in response.content.decode()
    assert not PlannedEvent.objects.exists()


def test_page_of_one_shows_its_impact_and_activity(anna: Client) -> None:
    add(anna)
    event = PlannedEvent.objects.get()

    page = read(anna, "planned_event", event.pk)

    assert "Maintenance: host:db-7" in page
    assert "No matching series or hosts yet" in page
    assert re.search(r"anna</td><td>scheduled</td>", page)


def test_active_window_is_ended_and_resumed(anna: Client) -> None:
    event = make_running()

    page = post(anna, "end_planned_event", event.pk)
    assert "ended early; planned until" in page
    page = post(anna, "resume_planned_event", event.pk)
    assert "ended early; planned until" not in page
    event.refresh_from_db()
    assert event.ended_at is None


def test_window_is_canceled_and_restored(anna: Client) -> None:
    event = make_running()

    page = post(anna, "cancel_planned_event", event.pk)
    assert "host:db-7 (canceled)" in page
    assert reverse("cancel_planned_event", args=[event.pk]) not in page
    page = post(anna, "restore_planned_event", event.pk)
    assert "host:db-7 (active)" in page


def test_action_that_is_not_possible_is_reported(anna: Client) -> None:
    event = make_planned_event(from_at=NOON - 9 * HOUR, to_at=NOON - 8 * HOUR)

    assert "Not changed: " in post(anna, "end_planned_event", event.pk)


def test_viewer_reads_without_a_form(viewer: Client) -> None:
    event = make_running()

    page = read(viewer, "planned_event", event.pk)

    assert "new disks" in page
    assert "<form" not in page.split("<main")[1]


def test_host_page_lists_its_maintenance_and_links_to_the_form(anna: Client, viewer: Client) -> None:
    make_host("db-7")
    make_host("db-8")
    make_running(reason="new disks")

    page = read(anna, "host", "db-7")
    assert "new disks</a>: since" in page
    assert f"{reverse('add_planned_event')}?host=db-7" in page
    assert "No maintenance scheduled." in read(anna, "host", "db-8")
    assert reverse("add_planned_event") not in read(viewer, "host", "db-7")


def test_silent_host_in_maintenance_is_labeled(anna: Client) -> None:
    entry = {"profile": "quick", "every_s": 3600, "splay_s": 0, "directory": "/data"}
    make_host("db-7", schedule=[entry], schedule_since_at=NOON - timedelta(days=30))
    assert ", in maintenance" not in read(anna, "host", "db-7")

    make_running()

    assert re.search(r"silent since .+, in maintenance</h1>", read(anna, "host", "db-7"))


def test_incident_page_links_to_the_form(anna: Client, viewer: Client) -> None:
    incident = make_incident()
    link = f"{reverse('add_planned_event')}?incident={incident.pk}"

    assert link in read(anna, "incident", incident.pk)
    assert link not in read(viewer, "incident", incident.pk)


def test_list_costs_three_queries_more_than_an_empty_page(
    anna: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(20):
        make_running()

    with django_assert_max_num_queries(6):
        read(anna, "planned_events")
