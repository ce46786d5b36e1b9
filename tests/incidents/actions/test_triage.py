"""Triage steps: checked against the state, recorded, and undone."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp.incidents.actions import triage
from benchapp.incidents.actions.baselines import accept_level, preview_accept
from benchapp.incidents.actions.triage import BadTriage, NotPossible, UnknownIncident
from benchapp.incidents.actions.undo import undo
from benchapp.models import Change, DetectionResult, Incident, IncidentEvent, IncidentState, Role, Verdict
from tests.detection.write.judging import add_runs, get_incident, judge_all, make_cells, make_level
from tests.factories import NOON, make_host, make_user

pytestmark = pytest.mark.django_db


def make_incident(cells: int = 1, *, name: str = "db-1") -> Incident:
    known = set(Incident.objects.values_list("pk", flat=True))
    lines = [make_level(1000.0, 24, shift=n) + make_level(800.0, 8, shift=n) for n in range(cells)]
    make_cells(make_host(name), lines)
    judge_all()
    return Incident.objects.exclude(pk__in=known).get()


def test_acknowledging_is_guarded_and_undone() -> None:
    incident, anna = make_incident(), make_user(Role.EDITOR)

    event = triage.acknowledge(incident.pk, by=anna)

    incident.refresh_from_db()
    assert (incident.state, event.kind, event.by) == (IncidentState.ACKNOWLEDGED, "acknowledged", anna)
    with pytest.raises(NotPossible, match="it is acknowledged already"):
        triage.acknowledge(incident.pk, by=anna)
    undo(event.pk, by=anna)
    incident.refresh_from_db()
    assert incident.state == IncidentState.NEW
    with pytest.raises(NotPossible, match="already undone"):
        undo(event.pk, by=anna)


def test_resolving_requires_a_verdict_and_reopening_clears_it() -> None:
    incident, anna = make_incident(), make_user(Role.EDITOR)
    with pytest.raises(BadTriage, match="'soon' is not a valid verdict"):
        triage.resolve(incident.pk, by=anna, verdict="soon")

    triage.resolve(incident.pk, by=anna, verdict="fixed", comment=" new kernel \x00")
    incident.refresh_from_db()
    assert (incident.state, incident.verdict) == (IncidentState.RESOLVED, Verdict.FIXED)
    assert incident.resolved_at
    assert IncidentEvent.objects.get(kind="resolved").text == "new kernel \ufffd"

    triage.reopen(incident.pk, by=anna)
    incident.refresh_from_db()
    assert (incident.state, incident.verdict, incident.resolved_at) == (IncidentState.NEW, "", None)


def test_later_action_on_the_same_fields_must_be_undone_first() -> None:
    incident = make_incident()
    first = triage.acknowledge(incident.pk, by=None)
    triage.resolve(incident.pk, by=None, verdict="real")

    with pytest.raises(NotPossible, match="it was resolved since: undo that first"):
        undo(first.pk, by=None)


def test_assignee_link_and_snooze_are_set_and_undone() -> None:
    incident, anna = make_incident(), make_user(Role.EDITOR)
    until = timezone.now() + timedelta(days=2)
    events = [
        triage.assign(incident.pk, by=anna, to=anna),
        triage.link(incident.pk, by=anna, url=" https://bugs.example.org/7 "),
        triage.snooze(incident.pk, by=anna, until=until),
    ]
    incident.refresh_from_db()
    assert (incident.assignee, incident.link, incident.snoozed_until) == (
        anna,
        "https://bugs.example.org/7",
        until,
    )

    for event in events:
        undo(event.pk, by=anna)

    incident.refresh_from_db()
    assert (incident.assignee, incident.link, incident.snoozed_until) == (None, "", None)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "ftp://example.org/", "bugs/7", "https://a b/", "x" * 600]
)
def test_link_must_be_an_http_or_https_url(url: str) -> None:
    with pytest.raises(BadTriage, match="http or https"):
        triage.link(make_incident().pk, by=None, url=url)


def test_comment_must_not_be_empty() -> None:
    incident = make_incident()

    event = triage.comment(incident.pk, by=None, text=" looked at it ")

    assert event.text == "looked at it"
    with pytest.raises(BadTriage):
        triage.comment(incident.pk, by=None, text="  ")
    with pytest.raises(NotPossible, match="cannot be undone"):
        undo(event.pk, by=None)


def test_snooze_ends_in_the_future() -> None:
    with pytest.raises(BadTriage, match="in the past"):
        triage.snooze(make_incident().pk, by=None, until=NOON - timedelta(days=400))


def test_unknown_ids_are_named() -> None:
    with pytest.raises(UnknownIncident, match="incident 4711 does not exist"):
        triage.acknowledge(4711, by=None)
    with pytest.raises(UnknownIncident, match="event 4711 does not exist"):
        undo(4711, by=None)


def test_merge_moves_changes_and_undo_returns_them() -> None:
    home, other = make_incident(), make_incident(2, name="db-2")

    event = triage.merge(other.pk, into=home.pk, by=None)

    home.refresh_from_db()
    other.refresh_from_db()
    assert (home.change_count, home.scope, other.merged_into) == (3, "", home)
    assert other.state == IncidentState.RESOLVED
    with pytest.raises(NotPossible, match="undo the merge there"):
        triage.reopen(other.pk, by=None)
    undo(event.pk, by=None)
    home.refresh_from_db()
    other.refresh_from_db()
    assert (home.change_count, home.scope, other.change_count) == (1, "host:db-1", 2)
    assert (other.merged_into, other.state) == (None, IncidentState.NEW)


def test_later_changes_of_a_merged_incident_join_its_target() -> None:
    home, other = make_incident(), make_incident(name="db-2")
    triage.merge(other.pk, into=home.pk, by=None)

    for change in Change.objects.all():
        add_runs(change.series, make_level(800.0, 3))
    judge_all()

    assert set(Change.objects.values_list("incident_id", flat=True)) == {home.pk}


def test_split_opens_a_new_incident_and_undo_merges_it() -> None:
    incident = make_incident(3)
    one = Change.objects.order_by("pk").first()
    assert one

    event = triage.split(incident.pk, change_ids=[one.pk], by=None)

    fresh = Incident.objects.get(pk=event.before["split_into"])
    incident.refresh_from_db()
    assert (incident.change_count, fresh.change_count) == (2, 1)
    undo(event.pk, by=None)
    incident.refresh_from_db()
    fresh.refresh_from_db()
    assert (incident.change_count, fresh.merged_into) == (3, incident)


def test_split_requires_some_but_not_all_changes() -> None:
    incident = make_incident(2)

    with pytest.raises(BadTriage, match="not all"):
        triage.split(incident.pk, change_ids=list(Change.objects.values_list("pk", flat=True)), by=None)
    with pytest.raises(BadTriage):
        triage.split(incident.pk, change_ids=[], by=None)
    with pytest.raises(UnknownIncident):
        triage.split(incident.pk, change_ids=[4711], by=None)


def test_accepted_level_is_the_new_baseline_and_undo_restores_the_old_one() -> None:
    incident = make_incident()
    (level,) = preview_accept(incident.pk)
    assert (level.metric, level.level_from_at) == ("iops", NOON + timedelta(hours=24))
    assert (level.before_median, level.after_median) == (
        pytest.approx(1000, rel=0.01),
        pytest.approx(800, rel=0.01),
    )

    event = accept_level(incident.pk, by=None, comment="smaller volumes")
    judge_all()

    incident.refresh_from_db()
    result = DetectionResult.objects.get()
    assert (incident.state, incident.verdict) == (IncidentState.RESOLVED, Verdict.EXPECTED)
    assert event.text == "1 level of 1 series: smaller volumes"
    assert (result.baseline_from_at, result.n) == (level.level_from_at, 8)
    assert Change.objects.get().state != "withdrawn"

    undo(event.pk, by=None)
    judge_all()
    incident.refresh_from_db()
    result.refresh_from_db()
    assert (result.baseline_from_at, result.n, incident.state) == (None, 32, IncidentState.NEW)


def test_regression_from_an_accepted_baseline_is_detected() -> None:
    incident = make_incident()
    accept_level(incident.pk, by=None)
    judge_all()
    series = Change.objects.get().series

    add_runs(series, make_level(800.0, 14) + make_level(600.0, 8))
    judge_all()

    assert Change.objects.count() == 2
    assert Incident.objects.filter(state=IncidentState.NEW).count() == 1
    assert get_newest().before_median == pytest.approx(800.0, rel=0.01)


def get_newest() -> Change:
    change = Change.objects.order_by("-started_at").first()
    assert change
    return change


def test_every_step_writes_an_event() -> None:
    incident = make_incident()
    triage.acknowledge(incident.pk, by=None)
    triage.resolve(incident.pk, by=None, verdict="noise")

    kinds = list(IncidentEvent.objects.order_by("pk").values_list("kind", flat=True))

    assert kinds == ["opened", "confirmed", "acknowledged", "resolved"]
    assert get_incident() == incident


def recover(incident: Incident, *, days: int) -> None:
    """Record the recovery of an incident some days ago, its last event."""
    at = timezone.now() - timedelta(days=days)
    IncidentEvent.objects.filter(incident=incident).update(at=at)
    Incident.objects.filter(pk=incident.pk).update(recovered_at=at)


@pytest.mark.parametrize(("quiet", "days", "count"), [(14, 15, 1), (14, 13, 0), (3, 4, 1), (0, 400, 0)])
def test_recovered_incident_is_resolved_after_quiet_days(
    quiet: int, days: int, count: int, settings: Any
) -> None:
    settings.RECOVERED_QUIET_DAYS = quiet
    incident = make_incident()
    recover(incident, days=days)

    assert triage.resolve_recovered() == count

    incident.refresh_from_db()
    assert (incident.state == IncidentState.RESOLVED, incident.verdict) == (bool(count), "")
    assert (
        list(IncidentEvent.objects.filter(kind="resolved").values_list("by", "text"))
        == [(None, f"recovered, and quiet for {quiet} days")] * count
    )


def test_undone_resolution_of_a_recovered_incident_begins_its_quiet_days_again() -> None:
    incident = make_incident()
    recover(incident, days=40)
    triage.resolve_recovered()

    undo(IncidentEvent.objects.get(kind="resolved").pk, by=make_user(Role.EDITOR))

    incident.refresh_from_db()
    assert (incident.state, incident.is_open, incident.recovered_at is None) == ("new", False, False)
    assert triage.resolve_recovered() == 0


def test_open_incident_is_never_resolved_by_itself() -> None:
    incident = make_incident()
    IncidentEvent.objects.update(at=timezone.now() - timedelta(days=400))

    assert triage.resolve_recovered() == 0

    incident.refresh_from_db()
    assert incident.is_open
