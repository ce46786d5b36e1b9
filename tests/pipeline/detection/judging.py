"""Histories for detection tests: literal levels with deterministic noise."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from benchapp.models import Change, Host, Incident, Measurement, Run, Series
from benchapp.pipeline.judge import Judged, judge_due
from benchapp.pipeline.normalize.series_environments import recalculate_environments
from tests.factories import (
    NOON,
    make_environment,
    make_host,
    make_run,
    make_series,
    make_target,
    make_workload,
)

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
    cells = [
        make_series(
            host=host,
            pool=host.pool,
            target=layouts[number % len(layouts)],
            workload=make_workload(iodepth=number // len(layouts) + 1),
        )
        for number in range(len(values))
    ]
    for index in range(len(values[0])):
        environment = make_environment(kernel=kernels[index] if kernels else "6.1.0")
        moment = start_at + index * step
        run = make_run(host, target=layouts[0], started_at=moment, environment=environment)
        Measurement.objects.bulk_create(
            Measurement(run=run, series=cell, started_at=moment, position=place, **{metric: line[index]})
            for place, (cell, line) in enumerate(zip(cells, values, strict=True))
        )
    for cell in cells:
        note_measurements(cell)
    return cells


def note_measurements(series: Series) -> None:
    """Bring a series' count and times up to date and mark it, as the pipeline does."""
    times = list(series.measurements.order_by("started_at").values_list("started_at", flat=True))
    Series.objects.filter(pk=series.pk).update(
        measurement_count=len(times),
        first_at=times[0] if times else None,
        last_at=times[-1] if times else None,
        judging_is_due=True,
    )
    recalculate_environments([series.pk])


def add_runs(series: Series, values: Sequence[float], *, metric: str = "iops") -> list[Run]:
    """Measure a series again, an hour apart behind its newest run, and mark it."""
    host = series.host or make_host(pool=series.scope.partition(":")[2])
    newest = series.measurements.order_by("-started_at").first()
    assert newest
    runs = []
    for index, value in enumerate(values, start=1):
        moment = newest.started_at + timedelta(hours=index)
        run = make_run(host, target=series.target, started_at=moment)
        Measurement.objects.create(run=run, series=series, started_at=moment, position=0, **{metric: value})
        runs.append(run)
    note_measurements(series)
    return runs


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
