"""The preview of a new baseline."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.incidents.pages import triage as baseline_page
from benchapp.models import Channel, Incident, IncidentState, Notice, NoticeState, Role, Series, Subscription
from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_series,
    make_target,
    make_user,
    make_workload,
)
from tests.pages import Page

pytestmark = pytest.mark.django_db


def make_open(count: int = 2, **fields) -> tuple[Incident, list[Series]]:
    host = make_host()
    work = make_workload(rw="randread", block_size_bytes=4096)
    cells = [
        make_series([1000.0, 850.0], host=host, target=make_target(volume_count=number), workload=work)
        for number in range(1, count + 1)
    ]
    for cell in cells:
        make_detection_result(cell)
    return make_incident(changes=[make_change(cell) for cell in cells], **fields), cells


def make_notice(incident: Incident, name: str, *, state: NoticeState = NoticeState.SENT) -> Notice:
    owner = make_user(Role.EDITOR, username=name)
    address = f"https://hooks.example/{name}/secret"
    subscription = Subscription.objects.create(owner=owner, channel=Channel.SLACK, address=address)
    return Notice.objects.create(
        subscription=subscription,
        incident=incident,
        key=f"incident {incident.pk}: opened",
        state=state,
        not_before_at=timezone.now(),
        created_at=timezone.now(),
    )


def preview(client: Client, incident: Incident, **form) -> Page:
    address = reverse("incident_baseline", args=[incident.pk])
    return Page(client.post(address, {"preview": "yes", **form}) if form else client.get(address))


def test_preview_has_old_and_new_level_of_each_series(editor: Client) -> None:
    incident, _ = make_open()

    words = preview(editor, incident).words

    assert "IOPS1\u202f000850▼ −15 %21 Nov 2026 13:00" in words
    assert "2 levels of 2 series become baselines" in words
    assert "Other open incidents of these series None." in words
    assert "None had a notice of this incident" in words


def test_preview_changes_nothing(editor: Client) -> None:
    incident, cells = make_open()

    preview(editor, incident)
    preview(editor, incident, series=[cells[0].pk])

    incident.refresh_from_db()
    assert incident.state == IncidentState.NEW
    assert cells[0].detection_results.get().baseline_from_at is None


def test_preview_names_other_incidents_of_the_same_series_and_metric(editor: Client) -> None:
    incident, (cell, other) = make_open()
    earlier = make_incident(changes=[make_change(cell, at=NOON - timedelta(days=2))], title="an earlier one")
    drift = make_change(cell, at=NOON + timedelta(days=2), method=DRIFT_METHOD)
    later = make_change(other, at=NOON + timedelta(days=2))
    make_incident(changes=[drift], title="a drift")
    make_incident(changes=[later], title="a later one")
    make_incident(changes=[make_change(cell, metric="latency_p99_ns")], title="another metric")
    make_incident(
        changes=[make_change(cell, at=NOON - timedelta(days=3))], title="over", state=IncidentState.RESOLVED
    )

    page = preview(editor, incident)

    assert "an earlier one: 1 change from before the new baseline: not evaluated any more" in page.words
    assert "a drift: 1 drift from the earlier baseline: withdrawn" in page.words
    assert "a later one: 1 later change: evaluated again, against the new baseline" in page.words
    assert "another metric" not in page.words
    assert "over:" not in page.words
    assert reverse("incident", args=[earlier.pk]) in page.links


def test_preview_of_a_selection_counts_only_these_series(editor: Client) -> None:
    incident, (cell, other) = make_open()
    make_incident(changes=[make_change(cell, at=NOON - timedelta(days=2))], title="an earlier one")

    page = preview(editor, incident, series=[other.pk], comment="new disks")

    assert "1 level of 1 series become baselines" in page.words
    assert "an earlier one" not in page.words


def test_preview_names_notified_subscriptions_without_their_address(editor: Client) -> None:
    incident, _ = make_open()
    make_notice(incident, "grace")
    make_notice(incident, "alan", state=NoticeState.WAITING)
    make_notice(incident, "bob", state=NoticeState.DROPPED)

    response = editor.get(reverse("incident_baseline", args=[incident.pk]))
    words = Page(response).words

    assert "grace: Slack-compatible webhook" in words
    assert "alan: Slack-compatible webhook; the waiting notice of this incident is still sent" in words
    assert "bob" not in words
    assert b"hooks.example" not in response.content


def test_selection_without_a_series_is_refused(editor: Client) -> None:
    incident, _ = make_open()

    response = editor.post(reverse("incident_baseline", args=[incident.pk]), {"preview": "yes"})

    assert response.status_code == 400
    assert "Select at least one series." in Page(response).words


def test_resolved_incident_and_one_without_levels_explain_it(editor: Client) -> None:
    resolved, _ = make_open(state=IncidentState.RESOLVED)
    suspected = make_incident(changes=[make_change(make_series([1.0]), state="suspected")])

    assert "The incident is resolved: reopen it first." in preview(editor, resolved).words
    assert "No new level to accept" in preview(editor, suspected).words


def test_many_series_are_accepted_without_checkboxes(editor: Client, monkeypatch) -> None:
    monkeypatch.setattr(baseline_page, "SELECTABLE_MAXIMUM", 2)
    incident, cells = make_open(3)

    page = editor.get(reverse("incident_baseline", args=[incident.pk])).content.decode()
    editor.post(reverse("triage_incident", args=[incident.pk, "accept"]), {"everything": "yes"})

    assert 'type="checkbox"' not in page
    assert 'name="everything" value="yes"' in page
    assert all(cell.detection_results.get().baseline_from_at for cell in cells)


def test_preview_takes_the_same_queries_for_any_number_of_series(
    editor: Client, django_assert_num_queries
) -> None:
    incident, _ = make_open(6)

    # session, person, incident, levels, their series, levels again, other incidents, subscriptions, count in the bar
    with django_assert_num_queries(9):
        preview(editor, incident)
