"""Simultaneous changes are one incident, with common factors and suspects."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.incidents.actions.triage import reopen
from benchapp.incidents.actions.undo import undo
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.models import (
    Change,
    Incident,
    IncidentEvent,
    IncidentState,
    Measurement,
    PlannedEvent,
    PlannedEventKind,
    Severity,
    Verdict,
)
from tests.detection.write.judging import (
    WOBBLE,
    add_runs,
    get_incident,
    judge_all,
    make_cells,
    make_level,
    note_measurements,
)
from tests.factories import NOON, make_host, make_run
from tests.received_notices import list_told

pytestmark = pytest.mark.django_db
GOOD, BAD = 1000.0, 800.0


def steady(shift: int = 0, runs: int = 30) -> list[float]:
    return make_level(GOOD, runs, shift=shift)


def fallen(shift: int = 0, *, after: int = 6) -> list[float]:
    return make_level(GOOD, 24, shift=shift) + make_level(BAD, after, shift=shift)


def list_kinds(incident: Incident) -> list[str]:
    return list(IncidentEvent.objects.filter(incident=incident).order_by("id").values_list("kind", flat=True))


def test_simultaneous_changes_of_a_host_are_one_incident_with_the_kernel_as_suspect() -> None:
    host = make_host("db-1")
    kernels = ["6.1.0"] * 24 + ["6.12.0"] * 6
    make_cells(host, [fallen(0), fallen(3), fallen(6)], kernels=kernels)

    judged = judge_all()

    incident = get_incident()
    assert judged.incident_ids == (incident.pk,)
    assert incident.scope == "host:db-1"
    assert incident.title == "db-1: IOPS −20 % in 3 of 3 series"
    assert incident.started_at == NOON + timedelta(hours=24)
    assert (incident.change_count, incident.is_regression) == (3, True)
    assert incident.relative == pytest.approx(-0.2, abs=0.01)
    (suspect,) = incident.suspects
    assert (suspect["name"], suspect["before"], suspect["after"], suspect["share"]) == (
        "kernel",
        "6.1.0",
        "6.12.0",
        1.0,
    )
    assert suspect["text"] == "the kernel: 6.1.0 → 6.12.0, coincides with all changes"
    assert "opened" in list_kinds(incident)


def test_incident_without_environment_change_has_no_suspects() -> None:
    make_cells(make_host(), [fallen()])

    judge_all()

    assert get_incident().suspects == []


def test_volume_type_of_all_affected_series_is_a_common_factor() -> None:
    layouts = [{"volume_type": "standard"}, {"volume_type": "io1"}]
    values = [fallen(0), steady(1), fallen(2), steady(3), fallen(4), steady(5)]
    make_cells(make_host("db-1"), values, targets=layouts)

    judge_all()

    incident = get_incident()
    first = incident.common_factors[0]
    assert (first["dimension"], first["value"]) == ("volume_type", "standard")
    assert first["text"] == "volume type standard only"
    assert incident.title == "db-1: IOPS −20 % in 3 of 6 series, volume type standard only"


def test_peers_that_are_unaffected_are_counted() -> None:
    for name, line in (("db-1", fallen()), ("db-2", steady()), ("db-3", steady(3))):
        make_cells(make_host(name), [line])

    judge_all()

    words = [one["text"] for one in get_incident().common_factors]
    assert words == ["only this host (2 peers with the same workload and layout unaffected)"]


def test_peer_with_a_change_of_another_workload_is_unaffected() -> None:
    make_cells(make_host("db-1"), [fallen(), steady()])
    make_cells(make_host("db-2"), [steady(), fallen()])
    make_cells(make_host("db-3"), [fallen(), steady()])

    judge_all()

    (incident,) = Incident.objects.filter(scope="host:db-1")
    words = [one["text"] for one in incident.common_factors if one["dimension"] == "host"]
    assert words == ["1 of 2 peers with the same workload and layout also changed"]


def test_changes_days_apart_are_two_incidents() -> None:
    host = make_host()
    late = make_level(GOOD, 80) + make_level(BAD, 20)
    early = make_level(GOOD, 20) + make_level(BAD, 80)
    make_cells(host, [early, late])

    judge_all()

    assert Incident.objects.count() == 2


def test_improvements_are_separate_incidents_without_notices() -> None:
    make_cells(make_host(), [make_level(BAD, 24) + make_level(GOOD, 6), fallen(3)])

    judged = judge_all()

    assert sorted(Incident.objects.values_list("is_regression", flat=True)) == [False, True]
    assert list_told(judged.event_ids) == ["suspected"]


def test_many_weak_changes_at_once_are_significant_and_a_single_one_waits() -> None:
    weak = [make_level(GOOD, 24, shift=n) + make_level(930.0, 3, shift=n) for n in range(8)]
    quiet = [steady(n, runs=27) for n in range(32)]
    make_cells(make_host("alone"), [*weak[:1], *quiet, *quiet[:7]])
    make_cells(make_host("together"), [*weak, *quiet])

    judge_all()

    assert set(Change.objects.values_list("state", flat=True)) == {"provisional"}
    incident = get_incident()
    assert (incident.scope, incident.change_count) == ("host:together", 8)


def test_recovery_is_detected_and_opens_no_incident() -> None:
    (series,) = make_cells(make_host(), [fallen(after=12)])
    judge_all()
    assert get_incident().recovered_at is None

    add_runs(series, make_level(GOOD, 4))
    judged = judge_all()

    incident = get_incident()
    assert incident.recovered_at
    assert list_kinds(incident)[-1] == "recovered"
    assert len(judged.event_ids) == 1
    add_runs(series, make_level(GOOD, 8))
    judge_all()
    assert get_incident() == incident


def test_incident_that_begins_three_times_comes_and_goes() -> None:
    (series,) = make_cells(make_host(), [fallen(after=12)])
    judge_all()
    for level, runs in ((GOOD, 4), (BAD, 3), (GOOD, 4), (BAD, 5), (GOOD, 4), (BAD, 6), (GOOD, 4)):
        add_runs(series, make_level(level, runs))
        judge_all()

    incident = get_incident()
    kinds = [kind for kind in list_kinds(incident) if kind != "grew"]
    assert kinds[:7] == [
        *("opened", "confirmed", "recovered", "reopened", "recovered", "intermittent", "recovered")
    ]
    assert incident.recovered_at
    assert incident.phase == "intermittent"


def test_incident_that_was_confirmed_before_events_had_sizes_grows_from_what_it_is() -> None:
    (series,) = make_cells(make_host(), [fallen(after=12)])
    judge_all()
    IncidentEvent.objects.filter(kind="confirmed").update(before={})
    add_runs(series, make_level(BAD, 4))
    judge_all()
    event = IncidentEvent.objects.get(kind="confirmed")
    assert event.before["told"]["size"] == "−20 %"
    assert "grew" not in list_kinds(get_incident())

    event.before["told"]["multiple"] /= 2
    event.save()
    add_runs(series, make_level(BAD, 4))
    Change.objects.update(found_at=NOON)
    judge_all()

    assert list_kinds(get_incident())[-1] == "grew"


def test_incident_that_is_over_when_it_is_found_sends_nothing() -> None:
    make_cells(make_host(), [fallen(after=12) + make_level(GOOD, 4)])

    judged = judge_all()

    assert list_kinds(get_incident()) == ["opened", "recovered"]
    assert list_told(judged.event_ids) == []


def test_incident_without_changes_is_over_with_its_size() -> None:
    make_cells(make_host(), [fallen()])
    judge_all()
    incident = get_incident()

    Measurement.objects.filter(iops__lt=900).update(iops=GOOD)
    for change in Change.objects.all():
        note_measurements(change.series)
    judged = judge_all()

    incident.refresh_from_db()
    assert (incident.phase, incident.verdict, incident.change_count) == ("over", "", 1)
    assert incident.relative == pytest.approx(-0.2, abs=0.01)
    event = IncidentEvent.objects.get(pk__in=judged.event_ids)
    assert (event.kind, event.text) == ("recovered", "not confirmed by later runs")


def test_repeated_regression_of_a_resolved_incident_is_another_one() -> None:
    (series,) = make_cells(make_host(), [fallen(after=12)])
    judge_all()
    first = get_incident()
    Incident.objects.update(
        state=IncidentState.RESOLVED, verdict=Verdict.FIXED, resolved_at=Incident.objects.get().opened_at
    )
    add_runs(series, make_level(GOOD, 20))
    judge_all()

    add_runs(series, make_level(BAD, 6))
    judge_all()

    second = Incident.objects.exclude(pk=first.pk).get(is_regression=True)
    first.refresh_from_db()
    assert (first.state, second.state) == (IncidentState.RESOLVED, IncidentState.NEW)
    event = IncidentEvent.objects.get(incident=second, kind="opened")
    assert event.text == f"the same series as in incident {first.pk}"


def test_expected_change_is_recorded_without_notices() -> None:
    span = {"from_at": NOON + timedelta(hours=20), "to_at": NOON + timedelta(hours=30)}
    EVENTS.create(
        PlannedEvent(kind=PlannedEventKind.CHANGE, filter="host:db-1", **span, reason="smaller volumes"),
        by=None,
    )
    (series,) = make_cells(make_host("db-1"), [fallen()])

    judged = judge_all()
    add_runs(series, make_level(BAD, 5))
    again = judge_all()

    incident = get_incident()
    assert (incident.state, incident.verdict) == (IncidentState.RESOLVED, Verdict.EXPECTED)
    assert IncidentEvent.objects.get(incident=incident, kind="opened").text == "expected: smaller volumes"
    assert list_told([*judged.event_ids, *again.event_ids]) == []


@pytest.mark.parametrize(
    ("limits", "is_muted"),
    [
        ({}, True),
        ({"metric": "iops"}, True),
        ({"metric": "latency_p99_ns"}, False),
        ({"is_regression": True}, True),
        ({"is_regression": False}, False),
        ({"metric": "iops", "is_regression": True}, True),
    ],
)
def test_expected_change_mutes_only_its_metric_and_direction(limits: dict[str, Any], is_muted: bool) -> None:
    span = {"from_at": NOON + timedelta(hours=20), "to_at": NOON + timedelta(hours=30)}
    event = EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.CHANGE, filter="host:db-1", **span, reason="smaller volumes", **limits
        ),
        by=None,
    )
    make_cells(make_host("db-1"), [fallen()])

    judged = judge_all()

    incident = get_incident()
    assert (incident.planned_event_id == event.pk) is is_muted
    assert (incident.state == IncidentState.RESOLVED) is is_muted
    assert bool(list_told(judged.event_ids)) is not is_muted
    assert incident.changes.count() == 1


def test_canceled_and_expired_expected_changes_mute_nothing() -> None:
    early = {"from_at": NOON, "to_at": NOON + timedelta(hours=20)}
    EVENTS.create(
        PlannedEvent(kind=PlannedEventKind.CHANGE, filter="host:db-1", **early, reason="too early"), by=None
    )
    span = {"from_at": NOON + timedelta(hours=20), "to_at": NOON + timedelta(hours=30)}
    event = EVENTS.create(
        PlannedEvent(kind=PlannedEventKind.CHANGE, filter="host:db-1", **span, reason="canceled"), by=None
    )
    EVENTS.cancel(event.pk, by=None)
    make_cells(make_host("db-1"), [fallen()])

    judge_all()

    assert get_incident().state == IncidentState.NEW


def test_reopened_incident_is_no_longer_muted_until_the_reopening_is_undone() -> None:
    span = {"from_at": NOON + timedelta(hours=20), "to_at": NOON + timedelta(hours=30)}
    event = EVENTS.create(
        PlannedEvent(kind=PlannedEventKind.CHANGE, filter="", **span, reason="smaller volumes"), by=None
    )
    make_cells(make_host("db-1"), [fallen()])
    judge_all()
    incident = get_incident()

    reopened = reopen(incident.pk, by=None)
    open_again = get_incident().planned_event_id
    undo(reopened.pk, by=None)

    assert open_again is None
    assert get_incident().planned_event_id == event.pk


def test_changes_of_neighboring_runs_every_36_hours_are_one_incident() -> None:
    first = make_level(GOOD, 24) + make_level(BAD, 8)
    second = make_level(GOOD, 25, shift=3) + make_level(BAD, 7, shift=3)
    start_at = NOON - 40 * timedelta(hours=36)
    make_cells(make_host(), [first, second], step=timedelta(hours=36), start_at=start_at)

    judge_all()

    assert get_incident().change_count == 2


def test_old_change_is_recorded_as_resolved() -> None:
    values = make_level(GOOD, 40) + make_level(BAD, 60)
    make_cells(make_host(), [values], step=timedelta(days=1))

    judged = judge_all()

    incident = get_incident()
    assert (incident.state, incident.verdict) == (IncidentState.RESOLVED, Verdict.NONE)
    assert list_told(judged.event_ids) == []


def test_affected_host_of_a_pool_is_named() -> None:
    one, two = make_host("db-1", pool="fast"), make_host("db-2", pool="fast")
    (series,) = make_cells(one, [steady(runs=24)])
    # Nine runs of the bad host for one of the good one.
    for index in range(30):
        is_good = index % 10 == 9
        run = make_run(
            one if is_good else two, target=series.target, started_at=NOON + timedelta(hours=24 + index)
        )
        value = (GOOD if is_good else BAD) * (1 + WOBBLE[index % 10] / 100)
        Measurement.objects.create(run=run, series=series, started_at=run.started_at, position=0, iops=value)
    note_measurements(series)

    judge_all()

    incident = get_incident()
    assert incident.scope == "pool:fast"
    assert [one["text"] for one in incident.common_factors] == ["host db-2 only: rest of the pool unaffected"]
    assert [(one["name"], one["before"], one["after"]) for one in incident.suspects] == [
        ("host", "db-1", "db-2")
    ]


def test_weak_change_of_one_series_among_many_waits() -> None:
    """Three runs of one cell are what noise makes somewhere among forty cells, and of one cell nowhere."""
    lines = [make_level(GOOD, 24, shift=1) + make_level(900.0, 3)]
    make_cells(make_host("db-1"), [*lines, *[steady(n, runs=27) for n in range(39)]])
    judge_all()
    assert Change.objects.get().state == "provisional"
    assert not Incident.objects.exists()

    add_runs(Change.objects.get().series, make_level(900.0, 6))
    judge_all()

    assert get_incident().change_count == 1


def test_number_of_queries_does_not_grow_with_the_changes() -> None:
    counts = []
    for cells in (1, 2, 12):
        make_cells(make_host(), [fallen(n) for n in range(cells)])
        with CaptureQueriesContext(connection) as queries:
            judge_all()
        counts.append(len(queries))

    # Of the first host there is no other to compare with.
    assert counts[0] < counts[1] == counts[2] == 64


def test_severity_grows_with_what_is_confirmed() -> None:
    (series,) = make_cells(make_host(), [make_level(GOOD, 24) + make_level(600.0, 4)])
    judge_all()
    assert get_incident().severity == Severity.MEDIUM

    add_runs(series, make_level(600.0, 6))
    judge_all()

    incident = get_incident()
    assert incident.severity == Severity.HIGH
    assert list_kinds(incident) == ["opened", "confirmed"]


def test_incident_of_many_series_recovers_although_some_do_not() -> None:
    cells = make_cells(make_host(), [fallen(shift, after=12) for shift in range(8)])
    judge_all()
    assert get_incident().change_count == 8

    for number, series in enumerate(cells):
        add_runs(series, make_level(BAD if number == 7 else GOOD, 3))
    judged = judge_all()

    assert get_incident().recovered_at
    assert [IncidentEvent.objects.get(pk=pk).kind for pk in judged.event_ids] == ["recovered"]


def test_recovered_incident_is_neither_confirmed_nor_raised_afterwards() -> None:
    (series,) = make_cells(make_host(), [fallen(after=6)])
    judge_all()
    add_runs(series, make_level(GOOD, 3))
    judge_all()
    assert get_incident().recovered_at
    Incident.objects.update(severity=Severity.LOW)
    Change.objects.update(state="confirmed", relative=-0.6)

    add_runs(series, make_level(GOOD, 8))
    judge_all()

    assert (get_incident().severity, list_kinds(get_incident())) == ("low", ["opened", "recovered"])


def test_same_series_that_regress_after_a_recovery_reopen_the_incident() -> None:
    cells = make_cells(make_host(), [fallen(shift, after=12) for shift in range(4)])
    judge_all()
    for level, runs in ((GOOD, 40), (BAD, 6)):
        for series in cells:
            add_runs(series, make_level(level, runs))
        judge_all()

    incident = get_incident()
    assert (incident.state, incident.recovered_at) == ("new", None)
    assert list_kinds(incident).count("reopened") == 1


def test_regression_of_some_of_the_series_after_a_recovery_is_another_incident() -> None:
    cells = make_cells(make_host(), [fallen(shift, after=12) for shift in range(8)])
    judge_all()
    for series in cells:
        add_runs(series, make_level(GOOD, 40))
    judge_all()

    for number, series in enumerate(cells):
        add_runs(series, make_level(BAD if number < 4 else GOOD, 6))
    judge_all()

    first, second = Incident.objects.filter(is_regression=True).order_by("pk")
    assert (first.recovered_at is not None, "reopened" in list_kinds(first)) == (True, False)
    assert (second.change_count, second.recovered_at) == (4, None)


def test_regressions_of_others_do_not_add_up_to_a_return_of_the_incident() -> None:
    cells = make_cells(make_host(), [fallen(shift, after=12) for shift in range(8)])
    judge_all()
    for series in cells:
        add_runs(series, make_level(GOOD, 40))
    judge_all()

    # Each event concerns half of the series; after both, all are at their bad level.
    for earlier, later in (([], cells[:4]), (cells[:4], cells[4:])):
        for series in cells:
            is_bad = series in later or series in earlier
            add_runs(series, make_level(BAD if is_bad else GOOD, 12))
        judge_all()

    first, *others = Incident.objects.filter(is_regression=True).order_by("pk")
    assert first.recovered_at is not None
    assert [(one.change_count, one.recovered_at) for one in others] == [(4, None), (4, None)]


def test_some_of_the_series_reopen_the_incident_if_all_are_bad_again() -> None:
    cells = make_cells(make_host(), [fallen(shift, after=12) for shift in range(4)])
    judge_all()
    for series in cells:
        add_runs(series, make_level(GOOD, 40))
    judge_all()

    for number, series in enumerate(cells):
        add_runs(series, make_level(BAD, 6 if number < 2 else 3))
    judge_all()

    incident = get_incident()
    assert incident.recovered_at is None
    assert list_kinds(incident).count("reopened") == 1
