"""A series is evaluated run by run as if all its runs were evaluated at once; quiet runs do not read its history."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from benchapp.models import (
    Change,
    DetectionResult,
    DetectionState,
    Level,
    Measurement,
    PlannedEventKind,
    Run,
    Series,
)
from benchapp.pipeline import judge
from benchapp.pipeline.detection import histories
from benchapp.pipeline.detection.series import MetricHistory, SeriesOutcome, judge_series_metric
from benchapp.pipeline.exclusions import exclude_run
from benchapp.pipeline.judge import judge_due, judge_series
from benchapp.pipeline.maintenance.planned_events import schedule_planned_event
from tests.factories import NOON, make_host, make_run
from tests.pipeline.detection.judging import add_runs, make_cells, make_level, note_measurements

pytestmark = pytest.mark.django_db
RUNS = 140
# Of an evaluation itself, not of its result.
CLOCKS = ("judged_at", "updated_at")


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
        for model in (Change, DetectionResult, Level)
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
    """Return a steady series with a valid state, evaluated at its 96th run."""
    (series,) = make_cells(make_host(), [make_level(1000.0, runs)])
    judge_due()
    return series


def is_resumable(series: Series) -> bool:
    return Series.objects.values_list("judging_resumes", flat=True).get(pk=series.pk)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that has an entry for each time that the history is read."""
    reads: list[int] = []

    def read(ids: Sequence[int], **options: Any) -> Any:
        reads.append(len(ids))
        return histories.read_histories(ids, **options)

    monkeypatch.setattr(judge, "read_histories", read)
    return reads


def refuse_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*arguments: object, **options: object) -> None:
        raise AssertionError("the history is read")

    monkeypatch.setattr(judge, "read_histories", read)


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
    reads = count_reads(monkeypatch)
    compared = 0

    while first < RUNS:
        added = slice(first, first + sizes[first])
        add_runs(series, values[added], latencies=latencies[added])
        first += sizes[first]
        before = len(reads)
        judge_due()
        is_quiet = len(reads) == before
        compared += is_quiet
        # An evaluation that reads the history is a full one already: of these, some are repeated.
        if is_quiet or first % 5 == 0 or first >= RUNS:
            resumed = read_rows(series)
            judge_series([series.pk])
            assert read_rows(series) == resumed

    assert (compared > 0) == has_quiet_runs


def test_change_is_detected_in_the_metric_alone_whose_run_is_unusual(monkeypatch: pytest.MonkeyPatch) -> None:
    iops, latencies = make_level(1000.0, 99), make_level(5e6, 99, shift=3)
    series = make_series_of_two(iops[:97], latencies[:97])
    judge_due()
    iops[96:] = [value * 0.9 for value in iops[96:]]
    evaluated: list[str] = []

    def judge_metric(history: MetricHistory, *arguments: Any, **options: Any) -> SeriesOutcome:
        evaluated.extend([history.metric] if len(history.values) else [])
        return judge_series_metric(history, *arguments, **options)

    monkeypatch.setattr(judge, "judge_series_metric", judge_metric)
    add_runs(series, iops[97:], latencies=latencies[97:])
    judge_due()

    assert evaluated == ["iops"]
    resumed = read_rows(series)
    judge_series([series.pk])
    assert read_rows(series) == resumed
    latency = DetectionResult.objects.get(series=series, metric="latency_mean_ns")
    assert (latency.n, latency.level) == (99, float(np.median(latencies)))


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
    assert level.recent == make_noise("even", 3)[91:111]


def test_quiet_run_does_not_read_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    series = make_quiet_series()
    refuse_to_read(monkeypatch)

    add_runs(series, [1001.0])
    judged = judge_due()

    assert (judged.series_ids, judged.change_ids) == ((series.pk,), ())
    assert not Series.objects.filter(judging_is_due=True).exists()
    assert DetectionResult.objects.get(series=series).n == 101
    level = Level.objects.get(series=series, metric="iops")
    assert (level.n, level.last) == (101, 1001.0)
    assert level.to_at == series.measurements.latest("started_at").started_at


def judge_batches(values: Sequence[float], *, limit: int, batches: int) -> list[tuple[int, ...]]:
    """Evaluate series of 100 runs, then one run more in each in batches; return the series of each batch."""
    cells = make_cells(make_host(), [make_level(1000.0, 100)] * len(values))
    while judge_due(limit=limit).series_ids:
        pass
    for series, value in zip(cells, values, strict=True):
        add_runs(series, [value])
    return [judge_due(limit=limit).series_ids for _ in range(batches)]


def test_batch_extends_five_times_its_limit_of_quiet_series() -> None:
    batches = judge_batches([1001.0] * 12, limit=2, batches=3)

    assert [len(of) for of in batches] == [10, 2, 0]
    assert sorted(batches[0] + batches[1]) == sorted(Series.objects.values_list("pk", flat=True))
    assert set(DetectionResult.objects.filter(metric="iops").values_list("n", flat=True)) == {101}


@pytest.mark.parametrize(("loud", "sizes"), [((0,), [2, 6, 0]), ((0, 1), [2, 6, 0]), ((3, 5), [4, 2, 2])])
def test_batch_claims_no_more_once_half_of_its_limit_is_to_be_evaluated(
    loud: tuple[int, ...], sizes: list[int]
) -> None:
    """With a limit of 2, one evaluated series is half of it."""
    values = [0.0 if number in loud else 1001.0 for number in range(8)]

    batches = judge_batches(values, limit=2, batches=3)

    assert [len(of) for of in batches] == sizes


def test_failed_run_is_quiet_and_extends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    series = make_quiet_series()
    refuse_to_read(monkeypatch)
    run = make_run(series.host, started_at=NOON + timedelta(days=9))

    Measurement.objects.create(
        run=run, series=series, started_at=run.started_at, position=0, iops=3.0, error=5
    )
    note_measurements(series)
    judge_due()

    assert DetectionResult.objects.get(series=series).n == 100
    assert Level.objects.get(series=series, metric="iops").n == 100


def test_run_of_a_maintenance_window_extends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule_planned_event(
        PlannedEventKind.MAINTENANCE,
        "host:db-1",
        from_at=NOON + timedelta(hours=100),
        to_at=NOON + timedelta(hours=101),
        reason="disk replaced",
        by=None,
    )
    (series,) = make_cells(make_host("db-1"), [make_level(1000.0, 100)])
    judge_due()
    refuse_to_read(monkeypatch)

    add_runs(series, [500.0, 1001.0])
    judge_due()

    assert DetectionResult.objects.get(series=series).n == 101
    assert Level.objects.get(series=series, metric="iops").last == 1001.0


@pytest.mark.parametrize("values", [[900.0] * 3, [950.0] * 15, [0.0], [1000.0] * 16])
def test_unusual_run_and_every_16th_are_evaluated(values: list[float]) -> None:
    series = make_quiet_series()
    written = DetectionState.objects.get(series=series).measurement_count

    add_runs(series, values)
    judge_due()

    resumed = read_rows(series)
    judge_series([series.pk])
    assert read_rows(series) == resumed
    assert DetectionState.objects.get(series=series).measurement_count != written or not is_resumable(series)


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
    schedule_planned_event(
        PlannedEventKind.MAINTENANCE,
        series.scope,
        from_at=NOON + timedelta(hours=10),
        to_at=NOON + timedelta(hours=20),
        reason="disk replaced",
        by=None,
    )


def add_late_run(series: Series) -> None:
    run = make_run(series.host, started_at=NOON + timedelta(hours=7, minutes=5))
    Measurement.objects.create(run=run, series=series, started_at=run.started_at, position=0, iops=700.0)
    note_measurements(series)


@pytest.mark.parametrize("act", [exclude_old_run, plan_maintenance, add_late_run])
def test_changed_history_is_evaluated_again(act: Callable[[Series], None]) -> None:
    series = make_quiet_series()
    assert is_resumable(series)

    act(series)
    add_runs(series, [1001.0])
    judge_due()

    valid = {exclude_old_run: 100, plan_maintenance: 91, add_late_run: 102}[act]
    resumed = read_rows(series)
    assert DetectionResult.objects.get(series=series).n == valid
    judge_series([series.pk])
    assert read_rows(series) == resumed


def test_state_of_other_settings_is_not_used() -> None:
    series = make_quiet_series()
    DetectionState.objects.update(fingerprint="changepoints-v1", content=b"")

    add_runs(series, [1001.0])
    judge_due()

    assert DetectionState.objects.get(series=series).measurement_count == 101


def test_repetitions_of_the_newest_run_are_merged() -> None:
    series = make_quiet_series()
    run = Run.objects.get(pk=series.measurements.latest("started_at").run_id)
    moment = run.started_at + timedelta(seconds=1)
    Measurement.objects.create(run=run, series=series, started_at=moment, position=1, ordinal=1, iops=900.0)
    note_measurements(series)

    judge_due()

    assert DetectionResult.objects.get(series=series).n == 101
    assert not is_resumable(series)


def test_history_longer_than_the_window_is_resumed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (histories, judge):
        monkeypatch.setattr(module, "EVALUATION_WINDOW", 115)
    monkeypatch.setattr("benchapp.pipeline.detection.quiet_runs.WINDOW", 100)
    (series,) = make_cells(make_host(), [make_noise("even", 4)[:118]])
    judge_due()

    for value in make_noise("even", 4)[118:]:
        add_runs(series, [value])
        judge_due()
        resumed = read_rows(series)
        judge_series([series.pk])
        assert read_rows(series) == resumed

    assert 100 <= Level.objects.get(series=series, metric="iops", is_current=True).n <= 115


def test_batch_has_at_most_the_measurements_of_one_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of 4, other series would be claimed until two are to be evaluated."""
    monkeypatch.setattr(histories, "_BATCH_POINTS", 100)

    batches = judge_batches([0.0] * 3, limit=4, batches=4)

    assert [len(of) for of in batches] == [1, 1, 1, 0]
