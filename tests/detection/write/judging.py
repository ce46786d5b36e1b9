"""Histories for detection tests: literal levels with deterministic noise."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from benchapp.judge import Judged, judge_due
from benchapp.models import Change, Host, Incident, Measurement, Run, Series
from tests.factories import (
    NOON,
    add_measurements,
    fill_series,
    make_environment,
    make_host,
    make_runs,
    make_target,
    make_workload,
    note_measurements,
)
from tests.row_insertion import copy_rows, copy_values

# Around a level, in per cent: a spread of about 1 %.
WOBBLE = (0.0, 1.2, -0.8, 0.4, -1.3, 0.9, -0.2, 1.5, -1.1, 0.3)


def make_level(level: float, runs: int, *, shift: int = 0) -> list[float]:
    """Return values around a level; shift: another beginning of the same noise."""
    return [level * (1 + WOBBLE[(index + shift) % 10] / 100) for index in range(runs)]


def make_cells(
    host: Host,
    values: Sequence[Sequence[float]],
    *,
    targets: Sequence[dict[str, Any]] = (),
    metric: str = "iops",
    kernels: Sequence[str] = (),
    start_at: datetime = NOON,
    step: timedelta = timedelta(hours=1),
) -> list[Series]:
    """Make series of one host that are measured together, a run for each moment; kernels: of each run."""
    layouts = [make_target(**fields) for fields in targets] or [make_target()]
    cells = copy_rows(
        fill_series(
            scope=host.scope,
            host=host,
            target=layouts[number % len(layouts)],
            workload=make_workload(iodepth=number // len(layouts) + 1),
            direction="read",
        )
        for number in range(len(values))
    )
    environments = {kernel: make_environment(kernel=kernel) for kernel in dict.fromkeys(kernels)}
    runs = make_runs(
        host,
        [start_at + index * step for index in range(len(values[0]))],
        target=layouts[0],
        environments=[environments[kernel] for kernel in kernels],
    )
    copy_values(
        Measurement,
        (
            _fill_measurement(run, cell, place, {metric: line[index]})
            for index, run in enumerate(runs)
            for place, (cell, line) in enumerate(zip(cells, values, strict=True))
        ),
    )
    note_measurements(*cells)
    return cells


def add_runs(
    series: Series, values: Sequence[float], *, metric: str = "iops", latencies: Sequence[float] = ()
) -> list[Run]:
    """Measure a series again, an hour apart behind its newest run, and mark it; latencies: mean of each run, ns."""
    host = series.host or make_host(pool=series.scope.partition(":")[2])
    newest_at = series.measurements.values_list("started_at", flat=True).latest("started_at")
    times = [newest_at + timedelta(hours=index + 1) for index in range(len(values))]
    runs = make_runs(host, times, target=series.target)
    rows: list[dict[str, Any]] = [{metric: value, "latency_kind": ""} for value in values]
    if latencies:
        rows = [{**row, "latency_mean_ns": latency} for row, latency in zip(rows, latencies, strict=True)]
    add_measurements(series, runs, rows)
    return runs


def add_common_run(cells: Sequence[Series], values: Sequence[float], *, metric: str = "iops") -> None:
    """Measure series of one host in one run, an hour behind the newest run of the first."""
    newest = cells[0].measurements.latest("started_at")
    (run,) = make_runs(newest.run.host, [newest.started_at + timedelta(hours=1)], target=cells[0].target)
    copy_values(
        Measurement,
        (
            _fill_measurement(run, cell, place, {metric: value})
            for place, (cell, value) in enumerate(zip(cells, values, strict=True))
        ),
    )
    note_measurements(*cells)


def _fill_measurement(run: Run, series: Series, place: int, value: dict[str, float]) -> dict[str, Any]:
    return {
        "run_id": run.pk,
        "series_id": series.pk,
        "started_at": run.started_at,
        "position": place,
        **value,
    }


def judge_all() -> Judged:
    """Judge everything anew that is due."""
    return judge_due()


def list_changes(series: Series) -> list[tuple[int, str]]:
    """Return place and state of each change of a series, by place."""
    times = list(series.measurements.order_by("started_at").values_list("started_at", flat=True))
    rows = (
        Change.objects.filter(series=series).order_by("started_at", "id").values_list("started_at", "state")
    )
    return [(times.index(moment), state) for moment, state in rows]


def get_incident() -> Incident:
    """Return the only incident."""
    return Incident.objects.get()
