"""Detection as runs arrive: each change once, in any order of events."""

from datetime import timedelta

import pytest

from benchapp.detection.write.histories import WINDOW
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.judge import has_judging_due, judge_due, judge_series
from benchapp.models import (
    Change,
    ChangeState,
    DetectionResult,
    DetectionStatus,
    Incident,
    Measurement,
    PlannedEvent,
    PlannedEventKind,
    Run,
    Series,
)
from benchapp.series.write import exclude_run, include_run
from tests.detection.write.judging import (
    WOBBLE,
    add_runs,
    judge_all,
    list_changes,
    make_level,
    note_measurements,
)
from tests.factories import NOON, make_host, make_points, make_run, make_series

pytestmark = pytest.mark.django_db


def make_judged(values: list[float], **fields: object) -> Series:
    series = make_series(values, **fields)
    note_measurements(series)
    judge_all()
    return series


def test_new_level_is_detected_with_its_evidence() -> None:
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 10))

    change = Change.objects.get()
    assert (change.series, change.metric, change.state) == (series, "iops", ChangeState.CONFIRMED)
    assert change.started_at == NOON + timedelta(hours=20)
    assert change.run and change.run.started_at == change.started_at
    assert change.last_good_run and change.last_good_run.started_at == NOON + timedelta(hours=19)
    assert change.is_regression
    assert (change.before_n, change.after_n) == (20, 10)
    assert change.relative == pytest.approx(-0.15, abs=0.005)
    assert change.confidence > 0.999


def test_change_is_one_row_from_suspected_to_confirmed() -> None:
    series = make_judged(make_level(1000.0, 20))
    seen = [list_changes(series)]

    for value in make_level(850.0, 8):
        add_runs(series, [value])
        judge_all()
        seen.append(list_changes(series))

    assert seen[:2] == [[], []]
    assert seen[2] == [(20, "suspected")]
    assert (20, "provisional") in [rows[0] for rows in seen[3:]]
    assert seen[-1] == [(20, "confirmed")]
    assert Change.objects.count() == 1


def test_spike_of_two_runs_is_suspected_and_withdrawn() -> None:
    series = make_judged([*make_level(1000.0, 20), 700.0, 702.0])
    assert list_changes(series) == [(20, "suspected")]

    add_runs(series, make_level(1000.0, 6))
    judge_all()

    assert list_changes(series) == [(20, "withdrawn")]
    assert Change.objects.get().withdrawn_at
    assert not Incident.objects.exists()


def test_detection_is_idempotent() -> None:
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 10))
    before = list(Change.objects.values()), list(Incident.objects.values())

    again = judge_series([series.pk])

    assert again.change_ids == ()
    assert (list(Change.objects.values()), list(Incident.objects.values())) == before


def test_late_run_updates_the_change() -> None:
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 10))
    run = Run.objects.get(started_at=NOON + timedelta(hours=19))
    Measurement.objects.filter(run=run).update(iops=851.0)
    note_measurements(series)

    judge_all()

    change = Change.objects.get()
    assert change.started_at == NOON + timedelta(hours=19)
    assert change.run == run


def test_exclusion_withdraws_the_change_and_inclusion_restores_it() -> None:
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 6))
    runs = list(Run.objects.filter(started_at__gte=NOON + timedelta(hours=20)))

    for run in runs:
        exclude_run(run.pk, None, reason="the array was rebuilding")
    assert has_judging_due()
    judge_all()
    assert list_changes(series) == [(20, "withdrawn")]

    for run in runs:
        include_run(run.pk, None)
    judge_all()
    assert [place for place, state in list_changes(series) if state != "withdrawn"] == [20]
    assert Change.objects.count() == 1


def test_runs_within_maintenance_are_ignored() -> None:
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 6))
    span = {"from_at": NOON + timedelta(hours=20), "to_at": NOON + timedelta(hours=26)}

    held = EVENTS.create(
        PlannedEvent(kind=PlannedEventKind.MAINTENANCE, filter="host:host-*", **span, reason="new disks"),
        by=None,
    )
    judge_all()
    assert list_changes(series) == [(20, "withdrawn")]

    EVENTS.cancel(held.pk, by=None)
    judge_all()
    assert list_changes(series) == [(20, "provisional")]


def test_series_without_valid_runs_has_its_changes_withdrawn() -> None:
    series = make_judged(make_level(1000.0, 20) + make_level(850.0, 10))
    Measurement.objects.update(error=5)
    note_measurements(series)

    judge_all()

    assert Change.objects.get().state == ChangeState.WITHDRAWN
    assert not DetectionResult.objects.exists()


def test_detection_starts_at_six_runs_and_is_learning_below_twenty() -> None:
    make_judged([1000.0, 1001.0, 999.0, 500.0, 501.0])

    result = DetectionResult.objects.get()
    assert (result.status, result.n, result.smallest_detectable_change) == (DetectionStatus.LEARNING, 5, None)
    assert not Change.objects.exists()


def test_detection_status_has_spread_and_smallest_change() -> None:
    make_judged(make_level(1000.0, 30))

    result = DetectionResult.objects.get()
    assert (result.status, result.n) == (DetectionStatus.STEADY, 30)
    assert result.spread == pytest.approx(0.01, abs=0.003)
    assert result.smallest_detectable_change and 0.02 < result.smallest_detectable_change < 0.05
    assert result.runs_needed is None


def test_noisy_series_opens_no_incident() -> None:
    values = [1000.0, 300.0, 2500.0, 700.0, 1900.0, 450.0, 1200.0, 3100.0] * 5

    make_judged(values + [value * 0.7 for value in values])

    assert DetectionResult.objects.get().status == DetectionStatus.NOISY
    assert not Incident.objects.exists()


def test_change_below_the_threshold_is_not_reported() -> None:
    make_judged(make_level(1000.0, 40) + make_level(970.0, 40))

    assert not Change.objects.exists()


def test_bandwidth_is_evaluated_without_a_single_block_size() -> None:
    series = make_series(make_level(1e8, 20) + make_level(8e7, 10), metric="bandwidth_bytes_per_s")
    note_measurements(series)
    judge_all()
    assert not Change.objects.exists()

    Series.objects.update(block_size_bytes=None, judging_is_due=True)
    judge_all()

    assert Change.objects.get().metric == "bandwidth_bytes_per_s"


def test_higher_latency_is_a_regression_and_lower_an_improvement() -> None:
    host = make_host()
    for level, after in ((1e6, 2e6), (1e6, 5e5)):
        series = make_series(
            make_level(level, 20) + make_level(after, 10), metric="latency_mean_ns", host=host
        )
        note_measurements(series)
    judge_all()

    assert list(Change.objects.order_by("series_id").values_list("is_regression", flat=True)) == [True, False]


def test_batch_is_limited_to_the_given_number_of_series() -> None:
    for _ in range(3):
        note_measurements(make_series([1.0]))

    assert [len(judge_due(limit=2).series_ids) for _ in range(3)] == [2, 1, 0]


def test_confirmed_change_is_not_withdrawn_after_its_end() -> None:
    """Twelve bad runs between good ones are no plain level to the detector; they happened all the same."""
    before = [1030.0, 970.0, 1010.0, 985.0, 1045.0, 960.0, 1020.0, 990.0, 1005.0, 975.0] * 2
    bad = [value * 0.85 for value in before[:12]]
    series = make_judged(before + bad)
    assert list_changes(series) == [(20, "confirmed")]
    level = Change.objects.get().after_median

    for value in before:
        add_runs(series, [value])
        judge_all()

    assert (20, "confirmed") in list_changes(series)
    change = Change.objects.get(started_at=NOON + timedelta(hours=20))
    assert change.evidence["is_back"] is True
    assert change.after_median == pytest.approx(level)


def test_repetitions_within_a_run_are_one_value() -> None:
    series = make_series(make_level(1000.0, 30))
    run = Run.objects.order_by("-started_at").first()
    assert run
    for ordinal in (1, 2, 3):
        Measurement.objects.create(
            run=run, series=series, started_at=run.started_at, ordinal=ordinal, position=ordinal, iops=500.0
        )
    note_measurements(series)

    judge_all()

    assert DetectionResult.objects.get().n == 30
    assert not Change.objects.exists()


def test_changes_before_the_window_are_not_updated() -> None:
    series, run = make_series(), make_run()
    times = [NOON + timedelta(hours=hour) for hour in range(WINDOW + 300)]
    make_points(
        series,
        run,
        times,
        iops=lambda index: (500.0 if index < 200 else 1000.0) * (1 + WOBBLE[index % 10] / 100),
    )
    note_measurements(series)
    judge_all()
    assert (DetectionResult.objects.get().n, Change.objects.count()) == (WINDOW, 0)
    old = Change.objects.create(
        series=series,
        metric="iops",
        started_at=times[200],
        state=ChangeState.CONFIRMED,
        is_regression=False,
        before_median=500.0,
        before_n=60,
        before_spread=5.0,
        after_median=1000.0,
        after_n=60,
        after_spread=10.0,
        relative=1.0,
        confidence=1.0,
        method="changepoints-v1",
        found_at=NOON,
        updated_at=NOON,
    )

    judge_series([series.pk])

    old.refresh_from_db()
    assert (old.state, Change.objects.count()) == (ChangeState.CONFIRMED, 1)
