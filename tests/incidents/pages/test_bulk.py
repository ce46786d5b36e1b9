"""Triage of several incidents at once."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.incidents.actions import triage
from benchapp.incidents.pages import triage as actions
from benchapp.models import Incident, IncidentEvent, Role
from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_series,
    make_user,
)
from tests.pages import Page

pytestmark = pytest.mark.django_db


def make_one(**fields) -> Incident:
    series = make_series([1000.0, 850.0], host=make_host())
    make_detection_result(series)
    return make_incident(changes=[make_change(series)], **fields)


def post(client: Client, incidents: list[Incident], action: str, **form):
    selected = [incident.pk for incident in incidents]
    return client.post(reverse("bulk_triage"), {"incident": selected, "action": action, **form}, follow=True)


def undo_last(client: Client):
    page = client.get(reverse("incidents") + "?tab=all").content.decode()
    bulk = page.split('name="bulk" value="')[1].split('"')[0]
    return client.post(reverse("undo_bulk_triage"), {"bulk": bulk}, follow=True)


def list_states(*incidents: Incident) -> list[str]:
    states = dict(Incident.objects.values_list("pk", "state"))
    return [states[incident.pk] for incident in incidents]


def test_selected_incidents_are_acknowledged_and_undone_together(editor: Client) -> None:
    one, two, other = make_one(), make_one(), make_one()

    page = Page(post(editor, [one, two], "acknowledge"))
    acknowledged = list_states(one, two, other)
    undone = Page(undo_last(editor))

    assert acknowledged == ["acknowledged", "acknowledged", "new"]
    assert "2 incidents: acknowledged." in page.words
    assert "Last action: acknowledged, 2 incidents" in page.words
    assert "2 incidents: restored." in undone.words
    assert list_states(one, two, other) == ["new", "new", "new"]
    assert "Last action" not in undone.words


def test_what_is_not_possible_is_reported_by_reason_and_the_rest_is_done(editor: Client) -> None:
    fresh, known, over = make_one(), make_one(state="acknowledged"), make_one(state="resolved")

    page = Page(
        editor.post(
            reverse("bulk_triage"),
            {"incident": [fresh.pk, known.pk, over.pk, 99_999], "action": "acknowledge"},
            follow=True,
        )
    )

    assert "1 incident: acknowledged." in page.words
    assert f"Not changed: incident {known.pk}: it is acknowledged already." in page.words
    assert f"Not changed: incident {over.pk}: it is resolved already." in page.words
    assert "Not changed: incident 99999: it does not exist." in page.words
    assert list_states(fresh, known, over) == ["acknowledged", "acknowledged", "resolved"]


def test_incidents_with_the_same_reason_are_named_together(editor: Client) -> None:
    closed = [make_one(state="resolved") for _ in range(3)]
    first, second, third = (incident.pk for incident in closed)

    words = Page(post(editor, closed, "acknowledge")).words

    assert f"Not changed: incidents {first}, {second} and {third}: it is resolved already." in words


def test_selected_incidents_are_assigned_resolved_and_reopened(editor: Client) -> None:
    both, grace = [make_one(), make_one()], make_user(Role.EDITOR, username="grace")

    post(editor, both, "assign", assignee=grace.pk)
    post(editor, both, "resolve", verdict="noise")
    resolved = list(Incident.objects.values_list("state", "verdict", "assignee__username"))
    post(editor, both, "reopen")

    assert resolved == [("resolved", "noise", "grace")] * 2
    assert list_states(*both) == ["new", "new"]


def test_new_baselines_are_shown_before_they_are_accepted(editor: Client) -> None:
    one, two, over = make_one(), make_one(), make_one(state="resolved")

    response = post(editor, [one, two, over], "accept")
    words = Page(response).words
    before = list_states(one, two)
    accepted = Page(post(editor, [one, two, over], "accept", everything="yes", comment="new disks"))
    after, event = list_states(one, two), IncidentEvent.objects.filter(kind="accepted").first()
    baselines = [each.changes.get().series.detection_results.get().baseline_from_at for each in (one, two)]

    assert "2 levels of 2 series become baselines" in words
    assert "2 incidents are resolved as expected" in words
    assert "not possible: resolved already" in words
    assert before == ["new", "new"]
    assert after == ["resolved", "resolved"]
    assert "2 incidents: accepted a new baseline." in accepted.words
    assert f"incident {over.pk}: it is resolved already: reopen it first." in accepted.words
    assert event is not None
    assert event.text == "1 level of 1 series: new disks"
    assert baselines == [NOON + timedelta(hours=1)] * 2
    undo_last(editor)
    assert list_states(one, two) == ["new", "new"]
    assert one.changes.get().series.detection_results.get().baseline_from_at is None


def test_undo_reports_what_changed_since_and_restores_the_rest(editor: Client) -> None:
    one, two = make_one(), make_one()
    post(editor, [one, two], "acknowledge")
    triage.resolve(one.pk, by=None, verdict="fixed")

    words = Page(undo_last(editor)).words

    assert "1 incident: restored." in words
    assert f"Not changed: incident {one.pk}: it was resolved since: undo that first." in words
    assert list_states(one, two) == ["resolved", "new"]


def test_undo_of_another_person_changes_nothing(editor: Client) -> None:
    incident = make_one()
    post(editor, [incident], "acknowledge")
    bulk = IncidentEvent.objects.get(kind="acknowledged").before["bulk"]
    other = Client()
    other.force_login(make_user(Role.EDITOR))

    words = Page(other.post(reverse("undo_bulk_triage"), {"bulk": bulk}, follow=True)).words

    assert "Nothing was changed: it is already undone." in words
    assert list_states(incident) == ["acknowledged"]


def test_single_event_of_several_is_undone_on_its_page(editor: Client) -> None:
    one, two = make_one(), make_one()
    post(editor, [one, two], "acknowledge")
    event = IncidentEvent.objects.get(incident=one, kind="acknowledged")

    editor.post(reverse("triage_incident", args=[one.pk, "undo"]), {"event": event.pk})

    assert list_states(one, two) == ["new", "acknowledged"]


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"action": "acknowledge"}, "select at least one incident"),
        ({"action": "explode", "incident": ["1"]}, "is not a valid action. Valid: acknowledge, assign"),
        ({"action": "acknowledge", "incident": ["x"]}, "is not a valid number"),
        ({"action": "assign", "assignee": "999", "incident": ["1"]}, "must be an editor or admin"),
    ],
)
def test_invalid_form_changes_nothing_and_explains_it(
    form: dict[str, str], reason: str, editor: Client
) -> None:
    page = Page(editor.post(reverse("bulk_triage"), form, follow=True))

    assert "Nothing was changed: " in page.words
    assert reason in page.words


def test_invalid_verdict_is_reported(editor: Client) -> None:
    incident = make_one()

    words = Page(post(editor, [incident], "resolve", verdict="gone")).words

    assert "'gone' is not a valid verdict" in words
    assert list_states(incident) == ["new"]


def test_more_than_the_maximum_are_refused(editor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "BULK_MAXIMUM", 1)
    both = [make_one(), make_one()]

    words = Page(post(editor, both, "acknowledge")).words

    assert "2 incidents exceed the maximum of 1 at once" in words
    assert list_states(*both) == ["new", "new"]


def test_list_has_boxes_for_editors_only(editor: Client, viewer: Client) -> None:
    incident = make_one()
    box = f'name="incident" value="{incident.pk}" form="bulk"'

    assert box in editor.get(reverse("incidents")).content.decode()
    assert "At most 200 incidents at once" in Page(editor.get(reverse("incidents"))).words
    assert box not in viewer.get(reverse("incidents")).content.decode()
    assert (
        viewer.post(reverse("bulk_triage"), {"incident": [incident.pk], "action": "acknowledge"}).status_code
        == 403
    )
    assert list_states(incident) == ["new"]


def test_list_of_an_editor_takes_the_same_queries_for_any_number_of_incidents(
    editor: Client, django_assert_num_queries
) -> None:
    incidents = [make_one() for _ in range(4)]
    post(editor, incidents[:2], "assign")

    # session, person, incidents, their changes, tabs, editors, last action, its incidents, count in the bar
    with django_assert_num_queries(8):
        editor.get(reverse("incidents"))


def test_preview_of_baselines_takes_the_same_queries_for_any_number(
    editor: Client, django_assert_num_queries
) -> None:
    incidents = [make_one() for _ in range(4)]

    # session, person, incidents, their changes, levels, other incidents, subscriptions, count in the bar
    with django_assert_num_queries(7):
        post(editor, incidents, "accept")
