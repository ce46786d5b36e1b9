"""Flat rows of histories: buckets, lines, columns of latencies; what the API answers and charts are drawn from."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchapp.metrics import CATALOG
from benchapp.queries.charts.downsampling import Buckets, SeriesPoints, from_us
from benchapp.queries.charts.environment_changes import EnvironmentHistory
from benchapp.queries.charts.history import (
    ChosenSeries,
    HistoryColors,
    HistoryLine,
    HistoryPart,
    SeriesHistory,
)
from benchapp.queries.charts.latency import FAN, Fan, Heat
from benchapp.queries.incidents.changes import ChangeMark
from benchapp.queries.incidents.detection_status import select_detected
from benchapp.queries.maintenance import PlannedMark
from benchapp.queries.series.levels import LevelRow

Row = dict[str, Any]

_BATCH_ROWS: Final = 1000

SPREAD: Final = ("n", "minimum", "p10", "median", "p90", "maximum", "minimum_run", "maximum_run")
BUCKET_COLUMNS: Final = ("from_at", "to_at", "n", "failed", "excluded", "doubtful")
POINT_COLUMNS: Final = ("run", "started_at", "error", "is_excluded", "badges")
FAN_COLUMNS: Final = ("from_at", "to_at", "runs", "last_run", *FAN)


def make_document(history: SeriesHistory, chosen: ChosenSeries) -> Row:
    """Return all that a chart of histories is drawn from, as the API answers it."""
    rows = [row for batch in history_batches(history) for row in batch]
    return {
        "metrics": [_metric_row(metric) for metric in history.metrics],
        "lines": [line_row(line) for line in history.lines],
        "lines_left_out": chosen.left_out,
        "resolution": history.resolution,
        "newest_of_each": history.newest,
        "color": None if history.colors is None else _color_row(history.colors),
        "hidden": history.hidden,
        "planned_events": list(map(planned_row, history.planned.items)),
        "planned_events_left_out": history.planned.left_out,
        "points": rows if history.resolution is None else [],
        "buckets": [] if history.resolution is None else rows,
    }


def history_batches(history: SeriesHistory) -> Iterator[list[Row]]:
    """Yield the points or the buckets of all lines, at most _BATCH_ROWS points at a time."""
    for line in history.lines:
        for part in line.parts:
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


def _color_row(colors: HistoryColors) -> Row:
    return {
        "name": colors.dimension.name,
        "label": colors.dimension.label,
        "values": [colors.describe(value) for value in colors.values],
        "others": colors.others,
    }


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
            columns[column] = [run or None for run in values.tolist()] if "run" in name else _known(values)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def point_rows(found: SeriesPoints) -> list[Row]:
    """Return points as rows."""
    points = found.points
    values = {metric: _known(column) for metric, column in points.values.items()}
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


def line_row(line: HistoryLine) -> Row:
    """Return a series of a chart: title, levels, changes, environment changes."""
    row = line.row
    return {
        "id": row.id,
        "name": line.name,
        "title": row.title,
        "scope": row.scope,
        "rw": row.workload.rw,
        "direction": row.direction,
        "measurement_count": row.measurement_count,
        "first_at": row.first_at,
        "last_at": row.last_at,
        "runs": len(line.points.points.at_us),
        "levels": {metric: list(map(level_row, levels)) for metric, levels in line.levels.items()},
        "changes": list(map(mark_row, line.changes)),
        "small_steps": [asdict(step) for step in line.small_steps],
        "spread_increases": [
            {"metric": metric, **asdict(found.spread_increase)}
            for metric in line.levels
            if (found := select_detected(line.variability, metric)) and found.spread_increase
        ],
        **environment_rows(line.environments),
        "url": f"/api/v1/series/{row.id}",
        "page": f"/series/{row.id}/",
    }


def mark_row(mark: ChangeMark) -> Row:
    """Return a change as a chart marks it."""
    return {
        "id": mark.id,
        "metric": mark.metric,
        "at": mark.at,
        "run": mark.run_id,
        "state": mark.state,
        "is_drift": mark.is_drift,
        "is_regression": mark.is_regression,
        "relative": mark.relative,
        "relative_low": mark.relative_low,
        "relative_high": mark.relative_high,
        "recovers_from": mark.recovers_from,
        "before": mark.before_median,
        "after": mark.after_median,
        "incident": mark.incident_id,
        "page": f"/incidents/{mark.incident_id}/" if mark.incident_id else None,
    }


def planned_row(mark: PlannedMark) -> Row:
    """Return a planned event as a chart marks it."""
    return {
        "id": mark.id,
        "kind": mark.kind.value,
        "reason": mark.reason,
        "filter": mark.filter,
        "from_at": mark.from_at,
        "ends_at": mark.ends_at,
        "series": mark.series_ids,
        "page": f"/maintenance/{mark.id}/",
    }


def level_row(level: LevelRow) -> Row:
    """Return a level."""
    return {
        "from_at": level.from_at,
        "to_at": level.to_at,
        "first_run": level.first_run_id,
        "n": level.n,
        "median": level.median,
        "p10": level.p10,
        "p90": level.p90,
        "latency_kind": level.latency_kind,
    }


def environment_rows(history: EnvironmentHistory) -> Row:
    """Return what changed around a series, and how much older is left out."""
    return {
        "environment_changes": list(map(asdict, history.changes)),
        "environment_changes_left_out": history.left_out,
    }


def fan_rows(fan: Fan) -> list[Row]:
    """Return the percentiles over time."""
    columns = [
        *_list_spans(fan.first_us, fan.last_us, fan.runs, fan.run_id),
        *(_known(fan.values[name]) for name in FAN),
    ]
    return [dict(zip(FAN_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def heat_columns(heat: Heat) -> list[Row]:
    """Return the columns of a heat map, each with its counts from the first bucket on."""
    names = ("from_at", "to_at", "runs", "last_run", "counts")
    columns = [
        *_list_spans(heat.first_us, heat.last_us, heat.runs, heat.run_id),
        heat.counts.tolist(),
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def heat_cells(heat: Heat) -> Iterator[Row]:
    """Yield the cells of a heat map that hold operations, for a table."""
    for column in heat_columns(heat):
        counts = column.pop("counts")
        for place, operations in enumerate(counts):
            if operations:
                bucket = heat.first_bucket + place
                yield {
                    **column,
                    "bucket": bucket,
                    "from_ns": 2.0 ** (bucket / 4),
                    "to_ns": 2.0 ** ((bucket + 1) / 4),
                    "operations": operations,
                }


def _metric_row(name: str) -> Row:
    metric = CATALOG[name]
    return {"name": metric.name, "unit": metric.unit, "better": metric.better, "label": metric.label}


def _list_spans(*columns: NDArray[np.int64]) -> Sequence[list[Any]]:
    first_us, last_us, runs, run_id = (column.tolist() for column in columns)
    return list(map(from_us, first_us)), list(map(from_us, last_us)), runs, run_id


def _known(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers with null for nan, which JSON has not."""
    return [None if value != value else value for value in values.tolist()]
