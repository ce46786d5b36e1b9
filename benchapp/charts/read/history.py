"""Histories of one or several series for one chart: points or buckets, levels, environment changes,
planned events.

Short names distinguish the series of one chart by the dimensions in which they differ.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Final, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from benchapp.catalog.dimensions import DIMENSIONS, SERIES_DIMENSIONS, Dimension, name_pattern
from benchapp.catalog.grammar import Filter, Term
from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.charts.read.axes import order_axis_value
from benchapp.charts.read.downsampling import SeriesPoints, read_columns, read_daily
from benchapp.charts.rules.downsampling import Buckets, SampledPoints, thin_points
from benchapp.detection.changepoints.detector import change_indices
from benchapp.framework.read.binary_columns import from_us, read_versioned, to_us
from benchapp.incidents.read.changes import ChangeMark, list_changes_of
from benchapp.incidents.read.maintenance import PlannedMark, read_planned_marks
from benchapp.incidents.read.series_status import DetectionStatusRow, SeriesMark, list_variability, list_worse
from benchapp.models import Environment
from benchapp.models.coverage import read_thresholds
from benchapp.models.filtering import asks_for_series, match_series
from benchapp.series.read.environment_changes import EnvironmentHistory, read_environment_changes
from benchapp.series.read.levels import LevelRow, read_levels
from benchapp.series.read.selected_levels import find_environment_ids, find_runs
from benchapp.series.read.series import SeriesRow, list_rows, read_rows, read_series_versions, with_points
from benchapp.series.read.shapes import TargetRow, WorkloadRow, names_of
from benchapp.series.read.titles import describe_setting, describe_value

# Of all series of a chart together: finding the steps of as many takes 0.15 s, once after each new run.
_STEP_RUNS_MAXIMUM: Final = 20_000
# Runs within which a step is that of a stored change.
_SAME_STEP_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class SmallStep:
    """A step below the threshold, in the base unit of the metric."""

    at: Annotated[datetime, Meta(tz=True, description="first run of the step")]
    relative: Annotated[float, Meta(description="after / before − 1")]
    before: Annotated[float, Meta(description="median of the runs since the last step, in the base unit")]
    after: Annotated[float, Meta(description="median of the runs until the next step")]
    from_at: Annotated[datetime, Meta(tz=True, description="first run of these")]
    to_at: Annotated[datetime, Meta(tz=True, description="first run of the next step, or the last run")]
    threshold: Annotated[float, Meta(description="reporting threshold of the series, relative")]


def read_small_steps(
    versions: Mapping[int, str], metric: str, *, levels: Mapping[int, Sequence[LevelRow]]
) -> dict[int, tuple[SmallStep, ...]]:
    """Return the steps of a metric, oldest first, of each series; queries as of `read_thresholds`, and one more if
    they are not cached.

    versions: as `read_series_versions` returns them. levels: those of the metric, whose starts are stored changes. Of
    each series its newest runs are read, 20 000 of all together. None for a metric without a threshold.
    """
    if metric not in SMALLEST_CHANGES or not versions:
        return dict.fromkeys(versions, ())
    newest = _STEP_RUNS_MAXIMUM // len(versions)
    thresholds = {series_id: of[metric] for series_id, of in read_thresholds(list(versions)).items()}
    starts = {
        series_id: tuple(to_us(level.from_at) for level in levels[series_id][1:]) for series_id in versions
    }

    def load() -> dict[int, tuple[SmallStep, ...]]:
        columns = read_columns(list(versions), metrics=[metric], newest=newest)
        return {
            series_id: _find_steps(
                columns[series_id].points, metric, starts[series_id], threshold=thresholds[series_id]
            )
            for series_id in versions
        }

    return read_versioned("small steps", metric, versions, starts, thresholds, load=load)


def _find_steps(
    points: SampledPoints, metric: str, starts: Sequence[int], *, threshold: float
) -> tuple[SmallStep, ...]:
    known = np.flatnonzero(points.counts & ~np.isnan(points.values[metric]))
    values, times = points.values[metric][known], points.at_us[known]
    stored = np.searchsorted(times, starts)
    indices = change_indices(values)
    steps = []
    for first, index, end in zip((0, *indices), indices, (*indices[1:], len(values)), strict=False):
        before, after = float(np.median(values[first:index])), float(np.median(values[index:end]))
        relative = after / before - 1 if before else 0.0
        is_stored = bool((np.abs(stored - index) <= _SAME_STEP_RUNS).any())
        if not is_stored and 0 < abs(relative) < threshold:
            steps.append(
                SmallStep(
                    at=from_us(times[index]),
                    relative=relative,
                    before=before,
                    after=after,
                    from_at=from_us(times[first]),
                    to_at=from_us(times[min(end, len(values) - 1)]),
                    threshold=threshold,
                )
            )
    return tuple(steps)


Value = str | int | float | bool | None

# Pattern says both.
_LEFT_OUT: Final = frozenset({"rw", "direction"})
_WORKLOAD_NAMES: Final = tuple(
    name for name in names_of(WorkloadRow) if name in SERIES_DIMENSIONS and name not in _LEFT_OUT
)
_TARGET_NAMES: Final = tuple(name for name in names_of(TargetRow) if name in SERIES_DIMENSIONS)


def order_rows(rows: Sequence[SeriesRow]) -> tuple[SeriesRow, ...]:
    """Return the series by what distinguishes them: 1, 2, 4, 8 volumes; unknown first."""
    chosen = _choose_dimensions([_list_values(row) for row in rows])

    def place(row: SeriesRow) -> list[tuple[bool, float, str]]:
        values = [_list_values(row)[name] for name in chosen]
        return [
            (value is not None, 0.0, value) if isinstance(value, str) else (value is not None, value or 0, "")
            for value in values
        ]

    return tuple(sorted(rows, key=place))


def name_lines(rows: Sequence[SeriesRow]) -> list[str]:
    """Return a name for each series, by the fewest dimensions that distinguish them; with its id where none does."""
    values = [_list_values(row) for row in rows]
    chosen = _choose_dimensions(values)
    if not chosen:
        chosen = ["host"] if rows and not rows[0].is_pool else ["pool"]
    if "host" in chosen:
        # Next to series of hosts, those of a pool have its name.
        values = [{**each, "host": each["host"] or each["pool"], "pool": None} for each in values]
    names = [
        " · ".join(_describe(name, each[name]) for name in chosen if each[name] is not None)
        for each in values
    ]
    counts = Counter(names)
    return [
        f"{name or 'series'} #{row.id}" if counts[name] > 1 or not name else name
        for name, row in zip(names, rows, strict=True)
    ]


def _choose_dimensions(values: Sequence[Mapping[str, Value]]) -> list[str]:
    chosen: list[str] = []
    # The number of each series' combination of the chosen values.
    numbers = [0] * len(values)
    distinct = 1
    for name in SERIES_DIMENSIONS:
        if name in _LEFT_OUT or distinct == len(values):
            continue
        combinations = [(number, each[name]) for number, each in zip(numbers, values, strict=True)]
        known = {combination: number for number, combination in enumerate(dict.fromkeys(combinations))}
        if len(known) > distinct:
            chosen.append(name)
            distinct = len(known)
            numbers = [known[combination] for combination in combinations]
    return chosen


def _list_values(row: SeriesRow) -> Mapping[str, Value]:
    own: dict[str, Value] = {
        "host": None if row.is_pool else row.scope_name,
        "pool": row.scope_name if row.is_pool else None,
        "pattern": name_pattern(row.workload.rw, row.direction),
    }
    for part, names in ((row.workload, _WORKLOAD_NAMES), (row.target, _TARGET_NAMES)):
        for name in names:
            value = getattr(part, name)
            # Empty text is as unknown as none.
            own[name] = None if value == "" else value
    return own


LINES_MAXIMUM: Final = 12
# Of a page that was asked for nothing: as many as have their labels at their ends.
LINES_DEFAULT: Final = 6
IDS_MAXIMUM: Final = 100
# A chart with more points gets buckets.
POINTS_MAXIMUM: Final = 2000
Resolution = int | Literal["auto"] | None
BUCKETS_DEFAULT: Final = 600
# Of all lines together, so many runs are read: 12 lines of 20 000, or 2 of 120 000. Each 100 000 take about 0.2 s and,
# of three metrics, 8 MB.
RUNS_MAXIMUM: Final = 240_000
_BUCKETS_LEAST: Final = 50
_COUNTED_MAXIMUM: Final = 1000
# Distinct colors beside the gray of unknown and further values.
COLORS_MAXIMUM: Final = 7


@dataclass(frozen=True, slots=True)
class ChosenSeries:
    """The series of a chart, named; versions: as `read_series_versions` gives them.

    total: how many were asked for, counted up to 1 000 (then has_more). worse: of a filter, the marks of all series
    with an open regression, the worst first; the rows begin with them.
    """

    rows: tuple[SeriesRow, ...]
    names: tuple[str, ...]
    versions: Mapping[int, str]
    total: int
    has_more: bool
    worse: tuple[SeriesMark, ...] = ()

    @property
    def left_out(self) -> int:
        """Return how many matching series are not in the chart."""
        return self.total - len(self.rows)

    @property
    def version(self) -> str:
        """Return text that changes whenever a point of one of them does, or another series matches."""
        versions = ",".join(f"{series_id}:{version}" for series_id, version in self.versions.items())
        return f"{versions} of {self.total}{'+' if self.has_more else ''}"


@dataclass(frozen=True, slots=True)
class HistoryColors:
    """A fact of the environment that colors points. values: those with the most runs, in order.

    others: number of further values, whose points share a color with those of unknown ones.
    """

    dimension: Dimension
    values: tuple[Value, ...]
    others: int

    def describe(self, value: Value) -> str:
        """Return a value as a legend shows it."""
        return describe_value(self.dimension.name, value)


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Points of a line with one color. value: None for unknown and further values, and without colors.

    buckets: None where the points are few enough to come one by one. is_daily: of points that a retention removed.
    """

    value: Value
    points: SeriesPoints
    buckets: Buckets | None
    is_daily: bool = False


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One series of a chart. points: all of them; parts: by color, one without colors.

    small_steps: of the first metric of the chart. variability: findings of all metrics. hidden: points in the span
    that the filter's terms for facts of runs do not match.
    """

    row: SeriesRow
    name: str
    points: SeriesPoints
    parts: tuple[HistoryPart, ...]
    levels: Mapping[str, tuple[LevelRow, ...]]
    environments: EnvironmentHistory
    changes: tuple[ChangeMark, ...] = ()
    small_steps: tuple[SmallStep, ...] = ()
    variability: tuple[DetectionStatusRow, ...] = ()
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """Data of a chart. run_count: points of all lines in the time range.

    resolution: buckets of all lines together; None: points.
    newest: where a line has more runs in the span than are read, how many of each are there, the newest; else None.
    planned: planned events of the span. from_at inclusive, to_at exclusive; None is open.
    """

    metrics: tuple[str, ...]
    lines: tuple[HistoryLine, ...]
    run_count: int
    planned: tuple[PlannedMark, ...]
    planned_left_out: int
    from_at: datetime | None = None
    to_at: datetime | None = None
    resolution: int | None = None
    newest: int | None = None
    colors: HistoryColors | None = None

    @property
    def hidden(self) -> int:
        """Return how many points of the span the terms for facts of runs hide."""
        return sum(line.hidden for line in self.lines)

    @property
    def daily_to_at(self) -> datetime | None:
        """Return the end of the newest day whose points a retention removed; None without one."""
        parts = [part.buckets for line in self.lines for part in line.parts if part.is_daily and part.buckets]
        return from_us(max(int(each.last_us[-1]) for each in parts) + 1) if parts else None

    @property
    def has_range(self) -> bool:
        """Return whether the time range is bounded."""
        return self.from_at is not None or self.to_at is not None


def choose_series(
    filter: Filter, *, ids: Sequence[int] | None = None, metric: str = "iops", limit: int = LINES_MAXIMUM
) -> ChosenSeries:
    """Return up to `limit` series: those of ids in that order, else those of a filter that got worse, the worst first,
    then the freshest by what they differ in.

    ids: at most 100. metric: whose regressions come first. A filter that asks for nothing gives six. Nine queries.
    """
    worse: Sequence[SeriesMark] = ()
    if ids is not None:
        wanted = with_points().filter(pk__in=ids)
    else:
        wanted = with_points().filter(match_series(filter, runs="any"))
        if not asks_for_series(filter):
            limit = min(limit, LINES_DEFAULT)
    counted = wanted.order_by()[: _COUNTED_MAXIMUM + 1].count()
    if ids is not None:
        found = {row.id: row for row in read_rows(ids)}
        rows = tuple(found[series_id] for series_id in dict.fromkeys(ids) if series_id in found)[:limit]
    else:
        worse = list_worse(wanted, metric=metric)
        first = [mark.series_id for mark in worse[:limit]]
        others = (
            list_rows(wanted.exclude(pk__in=first), limit=limit - len(first)) if len(first) < limit else ()
        )
        rows = (
            *(sorted(read_rows(first), key=lambda row: first.index(row.id)) if first else ()),
            *order_rows(others),
        )
    return ChosenSeries(
        rows=rows,
        names=tuple(name_lines(rows)),
        versions=read_series_versions([row.id for row in rows]),
        total=min(counted, _COUNTED_MAXIMUM),
        has_more=counted > _COUNTED_MAXIMUM,
        worse=tuple(worse),
    )


def read_history(
    chosen: ChosenSeries,
    *,
    metrics: Sequence[str],
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    resolution: Resolution = "auto",
    terms: Sequence[Term] = (),
    color: str | None = None,
) -> SeriesHistory:
    """Return the points of a span, or buckets.

    from_at inclusive, to_at exclusive; levels and changes are those of the whole history. resolution: buckets of all
    lines together, None for points; "auto": points, but buckets where the lines have more than 2 000. At most 240 000
    runs are read, as many of each line. terms: for facts of runs, which they match. color: name of a fact of the
    environment that divides the points. Daily points are a separate part; terms leave them out. Eleven queries and
    those of `read_planned_marks`, one for color, up to two for terms; with detection policies those of
    `read_thresholds`. Raises UnknownMetric.
    """
    ids = [row.id for row in chosen.rows]
    newest = _find_bound(chosen.rows)
    read = read_columns(
        ids,
        metrics=metrics,
        from_at=from_at,
        to_at=to_at,
        newest=newest,
        has_environment=bool(terms or color),
    )
    columns = _select_runs(read, terms)
    # Daily points have no facts of runs.
    daily = {} if terms else read_daily(ids, metrics=metrics, from_at=from_at, to_at=to_at)
    levels = read_levels(ids, metrics)
    environments = read_environment_changes(chosen.versions)
    changes = list_changes_of(ids, metrics=metrics)
    main = {series_id: by_metric[metrics[0]] for series_id, by_metric in levels.items()}
    small_steps = read_small_steps(chosen.versions, metrics[0], levels=main)
    variability = list_variability(ids)
    run_count = sum(len(columns[each].points.at_us) for each in ids)
    values, colors = _read_colors(columns.values(), color)
    least = _BUCKETS_LEAST if resolution == "auto" else 1
    if resolution == "auto":
        resolution = BUCKETS_DEFAULT if run_count > POINTS_MAXIMUM else None
    count = None if resolution is None else max(least, resolution // max(1, len(ids)))
    planned, planned_left_out = read_planned_marks(ids, from_at=from_at, to_at=to_at)
    return SeriesHistory(
        metrics=tuple(metrics),
        lines=tuple(
            HistoryLine(
                row=row,
                name=name,
                points=columns[row.id],
                parts=(
                    *_list_daily(columns[row.id], daily.get(row.id)),
                    *_divide(columns[row.id], values, colors, count=count, least=least),
                ),
                levels=levels.get(row.id, {}),
                environments=environments.get(row.id, EnvironmentHistory(())),
                changes=tuple(changes.get(row.id, ())),
                small_steps=small_steps.get(row.id, ()),
                variability=variability.get(row.id, ()),
                hidden=len(read[row.id].error) - len(columns[row.id].error),
            )
            for row, name in zip(chosen.rows, chosen.names, strict=True)
        ),
        run_count=run_count,
        resolution=resolution,
        newest=newest if any(len(read[each].points.at_us) == newest for each in ids) else None,
        colors=colors,
        planned=planned,
        planned_left_out=planned_left_out,
        from_at=from_at,
        to_at=to_at,
    )


def _select_runs(columns: Mapping[int, SeriesPoints], terms: Sequence[Term]) -> Mapping[int, SeriesPoints]:
    """Return the points whose runs match all terms; a query each for terms of the environment and others."""
    environment, own = Filter(tuple(terms)).environment_terms, Filter(tuple(terms)).run_terms
    if environment:
        allowed = find_environment_ids(environment)
        columns = {
            series_id: points.select(np.isin(_list_environments(points), allowed))
            for series_id, points in columns.items()
        }
    if own and columns:
        runs = find_runs(np.concatenate([each.points.run_id for each in columns.values()]), own)
        columns = {
            series_id: points.select(np.isin(points.points.run_id, runs))
            for series_id, points in columns.items()
        }
    return columns


def _list_environments(points: SeriesPoints) -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64) if points.environment_ids is None else points.environment_ids


def _read_colors(
    columns: Iterable[SeriesPoints], name: str | None
) -> tuple[Mapping[int, Value], HistoryColors | None]:
    """Return the value of each environment that has a color, and the colors; one query, none without a name."""
    if name is None:
        return {}, None
    counts: Counter[int] = Counter()
    for points in columns:
        ids, numbers = np.unique(_list_environments(points), return_counts=True)
        counts.update(dict(zip(ids.tolist(), numbers.tolist(), strict=True)))
    known = dict(Environment.objects.filter(pk__in=list(counts)).values_list("pk", name))
    runs: Counter[Value] = Counter()
    for pk, value in known.items():
        if value not in (None, ""):
            runs[value] += counts[pk]
    most = [value for value, _ in runs.most_common(COLORS_MAXIMUM)]
    values = tuple(sorted(most, key=lambda value: order_axis_value(name, value)))
    colors = HistoryColors(DIMENSIONS[name], values, others=len(runs) - len(values))
    return {pk: value for pk, value in known.items() if value in values}, colors


def _divide(
    points: SeriesPoints,
    values: Mapping[int, Value],
    colors: HistoryColors | None,
    *,
    count: int | None,
    least: int,
) -> tuple[HistoryPart, ...]:
    """Return the points by color, without colors that have none.

    count: of the buckets of all parts together; least: of each part.
    """
    if colors is None:
        return (_make_part(None, points, count),)
    places = {value: place for place, value in enumerate((*colors.values, None))}
    environments, inverse = np.unique(_list_environments(points), return_inverse=True)
    own = np.array([places[values.get(each)] for each in environments.tolist()], dtype=np.int64)[inverse]
    found = np.unique(own).tolist()
    share = None if count is None else max(least, count // max(1, len(found)))
    return tuple(
        _make_part(value, points.select(own == place), share)
        for value, place in places.items()
        if place in found
    )


def _list_daily(points: SeriesPoints, daily: Buckets | None) -> tuple[HistoryPart, ...]:
    return () if daily is None else (HistoryPart(None, points.select(slice(0)), daily, is_daily=True),)


def _make_part(value: Value, points: SeriesPoints, count: int | None) -> HistoryPart:
    return HistoryPart(value, points, None if count is None else thin_points(points.points, count))


def _find_bound(rows: Sequence[SeriesRow]) -> int | None:
    """Return how many runs of each series are read at most, None where all of them together are few enough."""
    if sum(row.measurement_count for row in rows) <= RUNS_MAXIMUM:
        return None
    return RUNS_MAXIMUM // len(rows)


# A list has a few values, each hundreds of times. typed: 1 is not True, nor 1.0.
@lru_cache(maxsize=4096, typed=True)
def _describe(name: str, value: Value) -> str:
    return str(value) if name in ("host", "pool") else describe_setting(name, value)
