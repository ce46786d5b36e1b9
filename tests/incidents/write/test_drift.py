"""Drifts in incidents: one of each host, with the steps on its way; notices, baselines, undo."""

from datetime import timedelta
from itertools import pairwise

import pytest

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.incidents.actions import triage
from benchapp.incidents.actions.baselines import accept_level
from benchapp.incidents.actions.undo import undo
from benchapp.incidents.write.grouping import absorb_steps, assign_drifts
from benchapp.incidents.write.incidents import Events
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.judge import Judged
from benchapp.models import (
    Change,
    ChangeState,
    Host,
    Incident,
    IncidentEvent,
    PlannedEvent,
    PlannedEventKind,
    Series,
)
from benchapp.notices.write.incident_message import make_incident_message
from tests.detection.write.judging import add_runs, get_incident, judge_all, make_cells, make_level
from tests.detection.write.test_drift import RAMP, SLOPE, STEADY, make_pinned, make_step, read_drifts
from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_series,
    make_user,
    make_workload,
)
from tests.incidents.write.test_grouping import fallen, steady

pytestmark = pytest.mark.django_db


def test_expected_drift_is_recorded_without_notice() -> None:
    event = EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.CHANGE,
            filter="host:db-1",
            from_at=NOON,
            to_at=NOON + timedelta(days=30),
            reason="slow disk",
        ),
        by=None,
    )
    make_pinned(SLOPE)

    judged = judge_all()

    incident = get_incident()
    assert (incident.state, incident.verdict) == ("resolved", "expected")
    assert incident.planned_event_id == event.pk
    assert judged.event_ids == ()


def test_drift_opens_one_incident_with_one_notice() -> None:
    make_cells(make_host("db-1"), [SLOPE])

    first, again = judge_all(), judge_all()

    incident = get_incident()
    assert incident.title == "db-1: IOPS decreased by 7.9 % since 21 Nov, continuing, in 1 series"
    assert (len(first.event_ids), again) == (2, Judged())
    assert list(IncidentEvent.objects.order_by("id").values_list("kind", "text")) == [
        ("opened", "gradual change"),
        ("confirmed", "persists in later runs"),
    ]


def test_series_of_one_host_drift_into_one_incident() -> None:
    slower = [value * (1 - 0.0005 * index) for index, value in enumerate(make_level(1000.0, 208, shift=3))]
    cells = make_pinned(SLOPE, STEADY, slower)

    judge_all()

    assert get_incident().change_count == 2
    assert {drift.series_id for drift in read_drifts()} == {cells[0].pk, cells[2].pk}


def test_series_that_drifts_later_joins_the_open_incident() -> None:
    one, other = make_pinned(SLOPE, STEADY)
    judge_all()

    add_runs(other, SLOPE)
    judge_all()

    assert get_incident().change_count == 2
    assert {drift.series_id for drift in read_drifts()} == {one.pk, other.pk}


def test_weak_drift_of_one_series_waits_for_a_second_one() -> None:
    weak = [value * (1 - 0.00034 * index) for index, value in enumerate(make_level(1000.0, 208))]
    host = make_host()
    (one,) = make_cells(host, [weak])
    judge_all()
    (drift,) = read_drifts(series=one)
    assert (drift.evidence["is_clear"], drift.incident) == (False, None)

    make_cells(host, [STEADY, weak])
    judge_all()

    assert {drift.incident for drift in read_drifts()} == {get_incident()}
    assert get_incident().change_count == 2


def test_recovered_level_recovers_the_incident() -> None:
    (series,) = make_pinned(SLOPE)
    judge_all()

    add_runs(series, make_level(1000.0, 60))
    judge_all()

    (drift,) = read_drifts()
    incident = Incident.objects.get(pk=drift.incident_id)
    assert incident.recovered_at is not None
    assert (drift.evidence["is_back"], drift.relative < -0.05) == (True, True)
    assert "recovered" in incident.events.values_list("kind", flat=True)


def test_new_baseline_ends_the_drift_and_undo_restores_it() -> None:
    make_pinned(SLOPE)
    judge_all()
    event = accept_level(get_incident().pk, by=make_user())
    judge_all()
    assert [drift.state for drift in read_drifts()] == ["provisional"]
    assert get_incident().verdict == "expected"
    undo(event.pk, by=make_user())

    judge_all()

    assert (len(read_drifts()), get_incident().state) == (1, "new")


def test_resolved_drift_that_lasts_sends_no_further_notice() -> None:
    (series,) = make_pinned(SLOPE)
    judge_all()
    triage.resolve(get_incident().pk, by=make_user(), verdict="real")

    add_runs(series, make_level(915.0, 10))
    judge_all()

    assert (get_incident().state, len(read_drifts())) == ("resolved", 1)


def test_drift_after_a_recovery_is_a_new_one() -> None:
    (series,) = make_pinned(SLOPE)
    judge_all()
    first = get_incident()
    add_runs(series, make_level(1000.0, 70))
    judge_all()
    triage.resolve(first.pk, by=make_user(), verdict="fixed")

    add_runs(series, SLOPE)
    judge_all()

    one, other = read_drifts()
    assert other.incident is not None
    assert (one.incident_id, other.incident.state, other.evidence["is_back"]) == (first.pk, "new", False)
    first.refresh_from_db()
    assert first.state == "resolved"
    opened = other.incident.events.get(kind="opened")
    assert opened.text == f"gradual change; the same series as in incident {first.pk}"


def test_drift_that_improves_sends_no_notice() -> None:
    rise = [value * (1 + 0.0006 * index) for index, value in enumerate(make_level(1000.0, 208))]
    make_pinned(rise)

    judged = judge_all()

    assert (get_incident().is_regression, judged.event_ids) == (False, ())


def test_mail_names_the_baseline() -> None:
    make_pinned(SLOPE)
    judge_all()
    incident = get_incident()
    event = incident.events.get(kind="opened")
    changes = list(incident.changes.select_related("series"))

    message = make_incident_message(incident, event, changes=changes, change_count=1, base_url="")

    assert ", the level accepted on 21 Nov 2026" in message.sentence
    assert "gradual drift since" in message.sentence


def test_step_that_others_show_clearly_is_not_a_drift_of_noisy_series() -> None:
    noisy = [1000.0 + 90 * (-1) ** run * (run % 4 < 2) - (60 if run >= 100 else 0) for run in range(200)]
    step = make_level(1000.0, 100) + make_level(900.0, 100)
    make_cells(make_host(), [step, noisy, [value + 1 for value in noisy]])

    judge_all()

    incident = get_incident()
    assert not incident.changes.filter(method=DRIFT_METHOD).exists()
    assert all(drift.incident is None for drift in read_drifts())


def make_drifting_hosts(*, late: int = 0, hosts: int = 3) -> None:
    """Make hosts with two volume types, of which st1 drifts; the last host after `late` runs more."""
    layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
    for number in range(hosts):
        before = make_level(1000.0, late) if number == hosts - 1 else []
        slope, steady = [*before, *SLOPE], [*before, *STEADY]
        make_cells(make_host(f"db-{number}"), [slope, steady, slope, steady], targets=layouts)


def test_drifts_of_a_volume_type_on_three_hosts_are_one_incident() -> None:
    make_drifting_hosts()

    judge_all()

    wide = Incident.objects.get(merged_into=None)
    assert (wide.scope, wide.change_count) == ("", 6)
    assert "db-0 to db-2: IOPS decreased by 7.9 % since 21 Nov, continuing, in" in wide.title
    assert wide.title.endswith("in 6 of 12 series, volume type st1 only")


def test_drift_of_another_host_joins_the_wide_incident() -> None:
    make_drifting_hosts(hosts=3)
    judge_all()
    wide = Incident.objects.get(merged_into=None)
    layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
    make_cells(make_host("db-9"), [SLOPE, STEADY, SLOPE, STEADY], targets=layouts)

    judge_all()

    assert Incident.objects.get(merged_into=None).pk == wide.pk
    assert Change.objects.filter(incident=wide).count() == 8


def test_drifts_at_other_times_or_of_two_hosts_are_separate_incidents() -> None:
    make_drifting_hosts(late=300)

    judge_all()

    assert Incident.objects.filter(merged_into=None).count() == 3


def test_drifts_of_complete_hosts_are_separate_incidents() -> None:
    for number in range(3):
        make_cells(make_host(f"db-{number}"), [SLOPE, SLOPE])

    judge_all()

    assert Incident.objects.filter(merged_into=None, scope__startswith="host:").count() == 3


def make_drift_beside_steps(*, step: float, steps: int, at: int = 60) -> Change:
    """Make a drift of −10 % in one series, and steps in an incident in others of its host; its slope is 20 to 90 h."""
    host, moment = make_host("db-9"), NOON + timedelta(hours=at)
    series = [make_series([1000.0] * 100, host=host, workload=make_workload(iodepth=n + 1)) for n in range(4)]
    for each in series:
        make_detection_result(each)
    changes = [make_change(each, at=moment, after=1000 * (1 - step)) for each in series[1 : 1 + steps]]
    make_incident(changes=changes)
    return make_drift(series[0], slope=(20, 90), after=900.0)


def make_drift(series: Series, *, slope: tuple[int, int], after: float) -> Change:
    """Make a drift from 1 000, with its slope in hours."""
    first, last = (NOON + timedelta(hours=end) for end in slope)
    evidence = {"is_clear": True, "score": 6.0, "interval_s": 3600.0}
    evidence |= {"slope_from": first.isoformat(), "slope_to": last.isoformat()}
    return make_change(
        series, at=last, after=after, method=DRIFT_METHOD, state=ChangeState.PROVISIONAL, evidence=evidence
    )


@pytest.mark.parametrize(
    ("step", "steps", "waits"),
    [(0.08, 2, True), (0.08, 1, False), (0.03, 2, False)],
    ids=["explained", "step of one series", "steps too small"],
)
def test_long_slope_of_one_series_waits_if_steps_of_others_explain_it(
    step: float, steps: int, *, waits: bool
) -> None:
    drift = make_drift_beside_steps(step=step, steps=steps)

    assigned = assign_drifts([drift.series_id], Events(NOON + timedelta(hours=100)))

    drift.refresh_from_db()
    assert (not assigned, drift.incident is None) == (waits, waits)


def test_steps_of_two_incidents_explain_a_slope_together() -> None:
    drift = make_drift_beside_steps(step=0.03, steps=2)
    (first,) = Incident.objects.all()
    later = [
        make_change(each.series, at=NOON + timedelta(hours=75), after=970.0) for each in first.changes.all()
    ]
    make_incident(changes=later)

    assert assign_drifts([drift.series_id], Events(NOON + timedelta(hours=100))) == set()


@pytest.mark.parametrize(
    ("own_at", "waits"), [(62, True), (10, False)], ids=["within the slope", "before it"]
)
def test_slope_is_not_reported_besides_the_step_of_the_same_series(own_at: int, *, waits: bool) -> None:
    """As when the latency of a noisy series shows the step that its IOPS show as a slope."""
    drift = make_drift_beside_steps(step=0.08, steps=2)
    (incident,) = Incident.objects.all()
    own = make_change(
        drift.series, at=NOON + timedelta(hours=own_at), metric="latency_mean_ns", incident=incident
    )

    assigned = assign_drifts([drift.series_id], Events(NOON + timedelta(hours=100)))

    assert own.incident_id == incident.pk
    drift.refresh_from_db()
    assert (not assigned, drift.incident is None) == (waits, waits)


@pytest.mark.parametrize(
    ("metrics", "waits"),
    [
        (["latency_mean_ns", "latency_mean_ns"], True),
        (["latency_mean_ns"], False),
        (["latency_mean_ns", "latency_mean_ns", "iops"], False),
    ],
    ids=["two steps", "one step", "also of the metric itself"],
)
def test_slope_waits_if_steps_of_other_metrics_of_the_series_add_up_to_half_of_it(
    metrics: list[str], *, waits: bool
) -> None:
    series = make_series([1000.0] * 100, host=make_host("db-9"))
    make_detection_result(series)
    for number, metric in enumerate(metrics):
        at = NOON + timedelta(hours=40 + 10 * number)
        step = make_change(series, at=at, metric=metric, after=1030.0, is_regression=True)
        make_incident(changes=[step])
    drift = make_drift(series, slope=(20, 90), after=900.0)
    drift.evidence["slope_advantage"] = 3.0
    drift.save()

    assign_drifts([series.pk], Events(NOON + timedelta(hours=100)))

    drift.refresh_from_db()
    assert (drift.incident is None) == waits


def test_step_of_several_hosts_explains_no_drift_without_its_factor() -> None:
    drift = make_drift_beside_steps(step=0.08, steps=2)
    factor = {"dimension": "volume_type", "value": "other", "share": 1.0, "text": ""}
    Incident.objects.update(scope="", common_factors=[factor])

    assigned = assign_drifts([drift.series_id], Events(NOON + timedelta(hours=100)))

    drift.refresh_from_db()
    assert assigned == {drift.incident_id}


def test_steps_of_a_slope_are_merged_into_its_drift() -> None:
    cells = make_cells(make_host("db-1"), [RAMP, RAMP])
    steps = [make_step(cell, at=130, before=900.0, after=840.0) for cell in cells]
    parts = [make_incident(changes=[step]) for step in steps]

    judge_all()

    incident = Incident.objects.get(merged_into=None)
    assert incident.title.startswith("db-1: IOPS decreased by 20 % between")
    assert incident.title.endswith("in 2 of 2 series")
    assert set(incident.events.values_list("kind", "text")) >= {
        ("opened", "gradual change"),
        ("merged", "2 incidents merged: steps of the gradual change"),
    }
    assert {part.merged_into_id for part in Incident.objects.filter(pk__in=[one.pk for one in parts])} == {
        incident.pk
    }
    (drift, _) = read_drifts()
    assert drift.evidence["slope_advantage"] > 2.5
    assert judge_all() == Judged()


def test_steps_of_slopes_on_three_hosts_are_merged_into_their_drift() -> None:
    layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
    steady = make_level(1000.0, 240)
    hosts = [
        make_cells(make_host(f"db-{number}"), [RAMP, steady, RAMP, steady], targets=layouts)
        for number in range(3)
    ]
    step = make_incident(changes=[make_step(hosts[0][0], at=130, before=900.0, after=840.0)])

    judge_all()

    wide = Incident.objects.get(merged_into=None)
    assert (wide.scope, "db-0 to db-2: IOPS decreased by 20 %" in wide.title) == ("", True)
    step.refresh_from_db()
    assert step.merged_into is not None


@pytest.mark.parametrize(
    ("step", "at", "fields", "is_merged"),
    [
        (0.08, 60, {}, True),
        (0.08, 5, {}, False),
        (0.15, 60, {}, False),
        (0.08, 60, {"suspects": [{"name": "kernel", "share": 0.9}]}, False),
        (0.08, 60, {"common_factors": [{"dimension": "volume_type", "value": "other"}]}, False),
        (0.08, 60, {"common_factors": [{"dimension": "host", "value": "db-9"}]}, True),
    ],
    ids=[
        "within the slope",
        "before the slope",
        "larger",
        "with a suspect",
        "with another volume type",
        "of the host only",
    ],
)
def test_incident_of_steps_is_merged_if_the_drift_explains_it(
    step: float, at: int, fields: dict[str, object], *, is_merged: bool
) -> None:
    drift = make_drift_beside_steps(step=step, steps=1, at=at)
    Incident.objects.update(**fields)
    incident = make_incident(changes=[drift])

    absorbed = absorb_steps(["host:db-9"], Events(NOON + timedelta(hours=100)))

    assert absorbed == ({incident.pk} if is_merged else set())


@pytest.mark.parametrize("is_drift_taken", [True, False])
def test_incident_that_a_person_took_takes_the_drift_of_its_steps(*, is_drift_taken: bool) -> None:
    drift = make_drift_beside_steps(step=0.08, steps=1)
    (step,) = Incident.objects.all()
    Incident.objects.update(state="acknowledged")
    incident = make_incident(changes=[drift], state="acknowledged" if is_drift_taken else "new")

    absorbed = absorb_steps(["host:db-9"], Events(NOON + timedelta(hours=100)))

    assert absorbed == (set() if is_drift_taken else {step.pk})
    drift.refresh_from_db()
    assert drift.incident == (incident if is_drift_taken else step)


def test_drift_sends_one_notice_for_each_doubling() -> None:
    (series,) = make_pinned(SLOPE)
    judge_all()
    slope = [915.0 * (1 - 0.0008 * index) for index in range(360)]

    for first in range(0, 360, 20):
        add_runs(series, slope[first : first + 20])
        judge_all()
        Change.objects.filter(method=DRIFT_METHOD).update(found_at=NOON)

    incident = Incident.objects.get(merged_into=None)
    told = [event.before["told"] for event in incident.events.order_by("id") if "told" in event.before]
    assert [one["size"] for one in told] == ["−7.9 %", "−16 %", "−30 %"]
    assert all(later["multiple"] >= 2 * one["multiple"] for one, later in pairwise(told))


def test_step_with_a_factor_is_merged_into_the_drift_once_its_series_drift() -> None:
    drift = make_drift_beside_steps(step=0.08, steps=1)
    (step,) = Incident.objects.all()
    Incident.objects.update(common_factors=[{"dimension": "volume_type", "value": "other"}])
    incident = make_incident(changes=[drift])
    now = NOON + timedelta(hours=100)
    assert absorb_steps(["host:db-9"], Events(now)) == set()

    late = make_drift(step.changes.get().series, slope=(20, 90), after=900.0)
    Change.objects.filter(pk=late.pk).update(incident=incident)

    assert absorb_steps(["host:db-9"], Events(now)) == {incident.pk}


def test_step_of_three_hosts_is_not_merged_into_the_drift_of_one() -> None:
    layouts = [{"volume_type": "st1"}, {"volume_type": "io2"}]
    for number in range(3):
        values = [fallen(number), steady(1), fallen(number + 3), steady(3)]
        make_cells(make_host(f"db-{number}"), values, targets=layouts)
    host = Host.objects.get(name="db-0")
    line = [1000.0] * 24 + [700.0] * 6
    others = [make_series(line, host=host, workload=make_workload(iodepth=64 << n)) for n in range(2)]
    drifting = make_incident(changes=[make_drift(other, slope=(0, 26), after=700.0) for other in others])
    Series.objects.filter(pk__in=[other.pk for other in others]).update(judging_is_due=False)

    judge_all()

    drift, step = Incident.objects.filter(merged_into=None).order_by("pk")
    assert (drift.pk, drift.changes.count()) == (drifting.pk, 2)
    assert (step.scope, step.change_count) == ("", 6)


def test_steps_of_a_metric_that_does_not_drift_are_not_merged() -> None:
    drift = make_drift_beside_steps(step=0.08, steps=1)
    drift.metric, drift.relative = "latency_mean_ns", 0.3
    drift.save()
    make_incident(changes=[drift])

    assert absorb_steps(["host:db-9"], Events(NOON + timedelta(hours=100))) == set()


def test_incident_that_a_person_separated_is_not_merged_again() -> None:
    drift = make_drift_beside_steps(step=0.08, steps=1)
    incident = make_incident(changes=[drift])
    absorb_steps(["host:db-9"], Events(NOON + timedelta(hours=100)))
    undo(incident.events.get(kind="merged").pk, by=make_user())

    assert absorb_steps(["host:db-9"], Events(NOON + timedelta(hours=101))) == set()
