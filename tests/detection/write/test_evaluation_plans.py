"""A series is evaluated run by run as if all its runs were evaluated at once; quiet runs do not detect again."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.test import override_settings

from benchapp import judge
from benchapp.detection.write import histories
from benchapp.detection.write.drift import judge_drift
from benchapp.detection.write.histories import StoredHistory
from benchapp.detection.write.series import MetricHistory, judge_series_metric
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.judge import judge_due, judge_series
from benchapp.models import (
    Change,
    DetectionPolicy,
    DetectionResult,
    Level,
    Measurement,
    NewestValues,
    PlannedEvent,
    PlannedEventKind,
    Run,
    Series,
)
from benchapp.series.write import exclude_run
from tests.detection.write.judging import add_runs, make_cells, make_level, note_measurements
from tests.factories import NOON, make_host, make_run

pytestmark = pytest.mark.django_db
RUNS = 140
# Of an evaluation itself, not of its result.
CLOCKS = ("judged_at", "updated_at", "input_hash")


def make_noise(kind: str, seed: int) -> list[float]:
    """Return 140 values around 1 000."""
    generator = np.random.default_rng(seed)
    shocks = generator.standard_normal(RUNS)
    place = np.arange(RUNS)
    if kind == "correlated":
        for index in range(1, RUNS):
            shocks[index] = 0.6 * shocks[index - 1] + 0.8 * shocks[index]
    noise = 1 + 0.02 * shocks
    factor = {
        "step": np.where(place < 100, 1.0, 0.85),
        "return": np.where((place < 95) | (place > 110), 1.0, 0.8),
        "slope": 1 - 0.0012 * place,
        "bad runs": np.where(generator.random(RUNS) < 0.08, 0.6, 1.0),
        "states": np.where(place // 12 % 3 == 1, 0.9, 1.0),
    }.get(kind, np.ones(RUNS))
    return [round(float(value), 3) for value in 1000 * noise * factor]


def read_rows(series: Series) -> dict[str, list[dict[str, Any]]]:
    """Return everything that detection stores of a series."""
    rows = {
        model.__name__: list(model.objects.filter(series=series).order_by("pk").values())
        for model in (Change, DetectionResult, Level, NewestValues)
    }
    for row in (row for of in rows.values() for row in of):
        for clock in CLOCKS:
            row.pop(clock, None)
        row.pop("id")
        if "evidence" in row:
            row["evidence"].pop("history")
    rows["Level"].sort(key=lambda row: (row["metric"], row["from_at"]))
    return rows


def make_series_of_two(values: Sequence[float], latencies: Sequence[float]) -> Series:
    """Return a series with these IOPS and mean latencies."""
    (series,) = make_cells(make_host(), [values])
    rows = list(series.measurements.order_by("started_at"))
    for row, latency in zip(rows, latencies, strict=True):
        row.latency_mean_ns = latency
    Measurement.objects.bulk_update(rows, ["latency_mean_ns"])
    return series


def make_quiet_series(runs: int = 100) -> Series:
    """Return a steady series, evaluated at its 96th run."""
    (series,) = make_cells(make_host(), [make_level(1000.0, runs)])
    judge_due()
    return series


def note_detections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the metric of each detection in values, and "drift" of each search for drifts."""
    noted: list[str] = []

    def judge_metric(history: MetricHistory, *arguments: Any, **options: Any) -> tuple[Any, ...]:
        noted.extend([history.metric] if len(history.values) else [])
        return judge_series_metric(history, *arguments, **options)

    def find_drifts(
        histories: Mapping[int, StoredHistory], *arguments: Any, **options: Any
    ) -> tuple[int, ...]:
        noted.extend("drift" for _ in histories)
        return judge_drift(histories, *arguments, **options)

    monkeypatch.setattr(judge, "judge_series_metric", judge_metric)
    monkeypatch.setattr(judge, "judge_drift", find_drifts)
    return noted


@pytest.mark.parametrize(
    ("kind", "has_quiet_runs"),
    [
        ("even", True),
        ("correlated", True),
        ("step", True),
        ("return", True),
        ("slope", False),
        ("bad runs", True),
        ("states", False),
    ],
)
def test_runs_one_by_one_give_the_rows_of_a_full_evaluation(
    kind: str, has_quiet_runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, latencies = make_noise(kind, 1), make_noise("correlated", 2)
    series = make_series_of_two(values[:70], latencies[:70])
    judge_due()
    sizes = np.random.default_rng(1).choice([1, 1, 1, 2, 5], RUNS)
    first = 70
    detected = note_detections(monkeypatch)
    compared = 0

    while first < RUNS:
        added = slice(first, first + sizes[first])
        add_runs(series, values[added], latencies=latencies[added])
        first += sizes[first]
        before = len(detected)
        judge_due()
        is_quiet = len(detected) == before
        compared += is_quiet
        # Of those that detect, some are repeated.
        if is_quiet or first % 5 == 0 or first >= RUNS:
            resumed = read_rows(series)
            judge_series([series.pk])
            assert read_rows(series) == resumed

    assert (compared > 0) == has_quiet_runs


def test_resumed_levels_are_those_of_all_runs() -> None:
    (series,) = make_cells(make_host(), [make_noise("even", 3)[:96]])
    judge_due()

    for end in range(97, 112):
        add_runs(series, make_noise("even", 3)[end - 1 : end])
        judge_due()

    level = Level.objects.get(series=series, metric="iops")
    expected = np.quantile(make_noise("even", 3)[:111], (0.1, 0.5, 0.9))
    assert level.n == 111
    assert (level.p10, level.median, level.p90) == tuple(pytest.approx(each, rel=1e-12) for each in expected)
    newest = NewestValues.objects.get(series=series, metric="iops")
    assert (newest.to_at, newest.recent) == (level.to_at, make_noise("even", 3)[91:111])


def test_run_that_does_not_move_the_evaluation_point_is_not_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    series = make_quiet_series()
    detected = note_detections(monkeypatch)

    add_runs(series, [1001.0])
    judged = judge_due()

    assert (judged.series_ids, judged.change_ids, detected) == ((series.pk,), (), [])
    assert not Series.objects.filter(judging_is_due=True).exists()
    result = DetectionResult.objects.get(series=series)
    assert (result.n, result.evaluated_to_at) == (101, NOON + timedelta(hours=95))
    level = Level.objects.get(series=series, metric="iops")
    assert (level.n, level.last) == (101, 1001.0)
    assert level.to_at == series.measurements.latest("started_at").started_at


def test_failed_run_is_quiet_and_extends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    series = make_quiet_series()
    detected = note_detections(monkeypatch)
    run = make_run(series.host, started_at=NOON + timedelta(days=9))

    Measurement.objects.create(
        run=run, series=series, started_at=run.started_at, position=0, iops=3.0, error=5
    )
    note_measurements(series)
    judge_due()

    assert detected == []
    assert DetectionResult.objects.get(series=series).n == 100
    assert Level.objects.get(series=series, metric="iops").n == 100


def test_run_of_a_maintenance_window_extends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.MAINTENANCE,
            filter="host:db-1",
            from_at=NOON + timedelta(hours=100),
            to_at=NOON + timedelta(hours=101),
            reason="disk replaced",
        ),
        by=None,
    )
    (series,) = make_cells(make_host("db-1"), [make_level(1000.0, 100)])
    judge_due()
    detected = note_detections(monkeypatch)

    add_runs(series, [500.0, 1001.0])
    judge_due()

    assert detected == []
    assert DetectionResult.objects.get(series=series).n == 101
    assert Level.objects.get(series=series, metric="iops").last == 1001.0


@pytest.mark.parametrize("values", [[900.0] * 3, [950.0] * 15, [0.0], [1000.0] * 16])
def test_unusual_run_and_every_16th_are_evaluated(
    values: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    series = make_quiet_series()
    detected = note_detections(monkeypatch)

    add_runs(series, values)
    judge_due()

    assert detected == ["iops", "drift"]


def test_change_that_may_be_withdrawn_is_evaluated_with_every_run() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 90) + make_level(800.0, 4)])
    judge_due()
    (change,) = Change.objects.filter(series=series)

    add_runs(series, make_level(800.0, 1))
    judge_due()

    (after,) = Change.objects.filter(series=series)
    assert (change.after_n, after.after_n) == (4, 5)


def exclude_old_run(series: Series) -> None:
    run = series.measurements.order_by("started_at")[20].run
    exclude_run(run.pk, None, reason="noise")


def plan_maintenance(series: Series) -> None:
    EVENTS.create(
        PlannedEvent(
            kind=PlannedEventKind.MAINTENANCE,
            filter=series.scope,
            from_at=NOON + timedelta(hours=10),
            to_at=NOON + timedelta(hours=20),
            reason="disk replaced",
        ),
        by=None,
    )


def add_late_run(series: Series) -> None:
    run = make_run(series.host, started_at=NOON + timedelta(hours=7, minutes=5))
    Measurement.objects.create(run=run, series=series, started_at=run.started_at, position=0, iops=700.0)
    note_measurements(series)


def apply_another_policy(series: Series) -> None:
    DetectionPolicy.objects.create(metric="iops", smallest_change=0.3, reason="noisy")


def accept_baseline(series: Series) -> None:
    DetectionResult.objects.update(baseline_from_at=NOON + timedelta(hours=1))


@pytest.mark.parametrize(
    "act", [exclude_old_run, plan_maintenance, add_late_run, apply_another_policy, accept_baseline]
)
def test_anything_else_that_an_evaluation_depends_on_repeats_it(
    act: Callable[[Series], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    series = make_quiet_series()
    detected = note_detections(monkeypatch)

    act(series)
    add_runs(series, [1001.0])
    judge_due()

    assert detected == ["iops", "drift"]
    valid = {exclude_old_run: 100, plan_maintenance: 91, add_late_run: 102, accept_baseline: 100}
    assert DetectionResult.objects.get(series=series).n == valid.get(act, 101)


def test_another_setting_repeats_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    series = make_quiet_series()
    detected = note_detections(monkeypatch)

    add_runs(series, [1001.0])
    with override_settings(DETECTION_SEASONS=not settings.DETECTION_SEASONS):
        judge_due()

    assert detected == ["iops", "drift"]


def test_excluded_run_does_not_undo_the_newest_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one run less, the 96th is the newest but one: the evaluation point before it is the 80th."""
    series = make_quiet_series(96)

    exclude_old_run(series)
    judge_due()

    result = DetectionResult.objects.get(series=series)
    assert (result.n, result.evaluated_to_at) == (95, NOON + timedelta(hours=95))


def test_repetitions_of_the_newest_run_are_merged() -> None:
    series = make_quiet_series()
    run = Run.objects.get(pk=series.measurements.latest("started_at").run_id)
    moment = run.started_at + timedelta(seconds=1)
    Measurement.objects.create(run=run, series=series, started_at=moment, position=1, ordinal=1, iops=900.0)
    note_measurements(series)

    judge_due()

    assert DetectionResult.objects.get(series=series).n == 101


def test_history_longer_than_the_window_is_evaluated_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (histories, judge):
        monkeypatch.setattr(module, "EVALUATION_WINDOW", 115)
    monkeypatch.setattr("benchapp.detection.write.series.WINDOW", 100)
    (series,) = make_cells(make_host(), [make_noise("even", 4)[:118]])
    judge_due()

    for value in make_noise("even", 4)[118:]:
        add_runs(series, [value])
        judge_due()
        resumed = read_rows(series)
        judge_series([series.pk])
        assert read_rows(series) == resumed

    assert 100 <= Level.objects.get(series=series, metric="iops", is_current=True).n <= 115


def test_batch_has_at_most_so_many_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "_BATCH_POINTS", 100)
    make_cells(make_host(), [make_level(1000.0, 100)] * 3)

    batches = [judge_due(limit=4).series_ids for _ in range(4)]

    assert [len(of) for of in batches] == [1, 1, 1, 0]
