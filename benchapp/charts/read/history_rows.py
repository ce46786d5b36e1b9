"""Rows of histories: buckets, points, lines; what the API answers and charts are drawn from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta, Struct

from benchapp.catalog import Time
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.read.downsampling import SeriesPoints, list_known
from benchapp.charts.read.history import (
    ChosenSeries,
    HistoryColors,
    HistoryLine,
    HistoryPart,
    SeriesHistory,
    SmallStep,
)
from benchapp.charts.rules.downsampling import Buckets
from benchapp.framework.read.binary_columns import from_us
from benchapp.incidents.read.changes import ChangeMark
from benchapp.incidents.read.series_status import select_detected
from benchapp.models import ChangeState, DirectionName, PlannedEventKind
from benchapp.series.read.environment_changes import EnvironmentChange

Row = dict[str, Any]
Kind = TypeVar("Kind", bound=Struct)

MARKED_STATES: Final = [state.value for state in ChangeState if state != ChangeState.WITHDRAWN]

_BATCH_ROWS: Final = 1000

SPREAD: Final = ("n", "minimum", "p10", "median", "p90", "maximum", "minimum_run", "maximum_run")
BUCKET_COLUMNS: Final = ("from_at", "to_at", "n", "failed", "excluded", "doubtful")
POINT_COLUMNS: Final = ("run", "started_at", "error", "is_excluded", "badges")


class HistoryLevel(Struct, kw_only=True, frozen=True):
    """A level of a metric, in its base unit."""

    from_at: Time
    to_at: Time
    first_run: int
    n: int
    median: float
    p10: float
    p90: float
    latency_kind: Annotated[
        str, Meta(description="of a latency: lat (total), clat (completion); levels of both are not compared")
    ]


class HistoryChange(Struct, kw_only=True, frozen=True):
    """A detected change, without withdrawn ones."""

    id: int
    metric: str
    at: Time
    run: int | None
    state: Annotated[str, Meta(extra_json_schema={"enum": MARKED_STATES})]
    is_drift: Annotated[bool, Meta(description="a gradual change, not a new level")]
    is_regression: bool
    relative: Annotated[float, Meta(description="after / before − 1")]
    relative_low: Annotated[float | None, Meta(description="of its 95 % interval")]
    relative_high: float | None
    recovers_from: Annotated[
        float | None, Meta(description="the regression that this improvement ends; null if it ends none")
    ]
    before: Annotated[float, Meta(description="median of the previous level, in the base unit of the metric")]
    after: float
    incident: int | None
    page: str | None


class HistorySpreadIncrease(Struct, kw_only=True, frozen=True):
    """An increase of the standard deviation."""

    metric: str
    from_at: Annotated[Time, Meta(description="first run with the larger standard deviation; it lasts")]
    before: Annotated[
        float, Meta(description="standard deviation of the runs before it, relative to the level")
    ]
    after: Annotated[float, Meta(description="of those since")]


class HistorySeries(Struct, kw_only=True, frozen=True):
    """A series: title, levels, changes, environment changes."""

    id: int
    name: Annotated[str, Meta(description="the parts of the title that differ between the series")]
    title: str
    scope: str
    rw: str
    direction: DirectionName
    measurement_count: int
    first_at: Time
    last_at: Time
    runs: Annotated[int, Meta(description="runs in the time range")]
    levels: Annotated[
        Mapping[str, Sequence[HistoryLevel]], Meta(description="by metric, of the whole history")
    ]
    changes: Annotated[Sequence[HistoryChange], Meta(description="detected changes, without withdrawn ones")]
    small_steps: Annotated[
        Sequence[SmallStep],
        Meta(description="steps of the first metric below the reporting threshold: no changes"),
    ]
    spread_increases: Annotated[
        Sequence[HistorySpreadIncrease],
        Meta(description="increases of the standard deviation, at most one a metric"),
    ]
    environment_changes: Sequence[EnvironmentChange]
    environment_changes_left_out: int
    url: str
    page: str


class HistoryEvent(Struct, kw_only=True, frozen=True):
    """Maintenance, an expected change or a note."""

    id: int
    kind: PlannedEventKind
    reason: str
    filter: str
    from_at: Time
    ends_at: Annotated[Time, Meta(description="exclusive; a note of one time ends at its start")]
    series: Annotated[Sequence[int], Meta(description="ids of the lines that its filter matches")]
    page: str


class HistoryColor(Struct, kw_only=True, frozen=True):
    """A fact of the environment that colors points."""

    name: str
    label: str
    values: Annotated[Sequence[str], Meta(description="with the most runs, in order")]
    others: Annotated[
        int, Meta(description="number of further values; their points and unknown ones have the color null")
    ]


def make_document(history: SeriesHistory, chosen: ChosenSeries) -> Row:
    """Return all that a chart of histories is drawn from, as the API answers it."""
    rows = [row for batch in history_batches(history) for row in batch]
    daily = [row for batch in history_batches(history, is_daily=True) for row in batch]
    return {
        "metrics": [_metric_row(metric) for metric in history.metrics],
        "lines": [_make_series(line) for line in history.lines],
        "lines_left_out": chosen.left_out,
        "resolution": history.resolution,
        "newest_of_each": history.newest,
        "color": None if history.colors is None else _make_color(history.colors),
        "hidden": history.hidden,
        "planned_events": [
            _take(HistoryEvent, mark, series=mark.series_ids, page=f"/maintenance/{mark.id}/")
            for mark in history.planned
        ],
        "planned_events_left_out": history.planned_left_out,
        "points": rows if history.resolution is None else [],
        "buckets": [*daily, *([] if history.resolution is None else rows)],
        "daily_to_at": history.daily_to_at,
    }


def _take(kind: type[Kind], source: object, **values: Any) -> Kind:
    """Return a part of the document: the values, and attributes of the source."""
    names = (name for name in kind.__struct_fields__ if name not in values)
    return kind(**values, **{name: getattr(source, name) for name in names})


def history_batches(history: SeriesHistory, *, is_daily: bool = False) -> Iterator[list[Row]]:
    """Yield the points or the buckets of all lines, or their daily points, at most _BATCH_ROWS points at a time."""
    for line in history.lines:
        for part in (each for each in line.parts if each.is_daily == is_daily):
            own = {"series": line.row.id, **_color_part(history.colors, part)}
            for rows in [bucket_rows(part.buckets)] if part.buckets is not None else _split(part.points):
                yield [{**own, **row} for row in rows]


def _split(found: SeriesPoints) -> Iterator[list[Row]]:
    for start in range(0, len(found.error), _BATCH_ROWS):
        yield point_rows(found.select(slice(start, start + _BATCH_ROWS)))


def _color_part(colors: HistoryColors | None, part: HistoryPart) -> Row:
    if colors is None:
        return {}
    return {"color": None if part.value is None else colors.describe(part.value)}


def _make_color(colors: HistoryColors) -> HistoryColor:
    return HistoryColor(
        name=colors.dimension.name,
        label=colors.dimension.label,
        values=[colors.describe(value) for value in colors.values],
        others=colors.others,
    )


def spread_columns(metric: str) -> tuple[str, ...]:
    """Return the columns that a bucket has for a metric."""
    return tuple(f"{metric}_{name}" for name in SPREAD)


def bucket_rows(buckets: Buckets) -> list[Row]:
    """Return buckets as rows; null where none of a bucket's runs that count has a value."""
    columns: dict[str, list[Any]] = {
        "from_at": list(map(from_us, buckets.first_us.tolist())),
        "to_at": list(map(from_us, buckets.last_us.tolist())),
        "n": buckets.n.tolist(),
        "failed": buckets.failed.tolist(),
        "excluded": buckets.excluded.tolist(),
        "doubtful": buckets.doubtful.tolist(),
    }
    for metric, spread in buckets.spreads.items():
        for name, column in zip(SPREAD, spread_columns(metric), strict=True):
            values = getattr(spread, name)
            columns[column] = (
                [run or None for run in values.tolist()] if "run" in name else list_known(values)
            )
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def point_rows(found: SeriesPoints) -> list[Row]:
    """Return points as rows."""
    points = found.points
    values = {metric: list_known(column) for metric, column in points.values.items()}
    rows = zip(
        points.run_id.tolist(),
        map(from_us, points.at_us.tolist()),
        found.error.tolist(),
        points.is_excluded.tolist(),
        map(found.codes_at, range(len(points.at_us))),
        *values.values(),
        strict=True,
    )
    return [dict(zip((*POINT_COLUMNS, *values), row, strict=True)) for row in rows]


def _make_series(line: HistoryLine) -> HistorySeries:
    row = line.row
    return _take(
        HistorySeries,
        row,
        name=line.name,
        rw=row.workload.rw,
        runs=len(line.points.points.at_us),
        levels={
            metric: [_take(HistoryLevel, level, first_run=level.first_run_id) for level in levels]
            for metric, levels in line.levels.items()
        },
        changes=list(map(_make_change, line.changes)),
        small_steps=line.small_steps,
        spread_increases=[
            _take(HistorySpreadIncrease, found.spread_increase, metric=metric)
            for metric in line.levels
            if (found := select_detected(line.variability, metric)) and found.spread_increase
        ],
        environment_changes=line.environments.changes,
        environment_changes_left_out=line.environments.left_out,
        url=f"/api/v1/series/{row.id}",
        page=f"/series/{row.id}/",
    )


def _make_change(mark: ChangeMark) -> HistoryChange:
    return _take(
        HistoryChange,
        mark,
        run=mark.run_id,
        before=mark.before_median,
        after=mark.after_median,
        incident=mark.incident_id,
        page=f"/incidents/{mark.incident_id}/" if mark.incident_id else None,
    )


def _metric_row(name: str) -> Row:
    metric = CATALOG[name]
    return {"name": metric.name, "unit": metric.unit, "better": metric.better, "label": metric.label}
