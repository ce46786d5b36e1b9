"""The points of a history as rows of a table, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from benchapp.metrics import Metric
from benchapp.queries.series import Point
from benchapp.web.columns import Cell, Scale, choose_scale, make_cell


class Level(Protocol):
    """Median and spread of the runs up to a point, as `read_rolling` gives them."""

    @property
    def median(self) -> float | None: ...
    @property
    def p10(self) -> float | None: ...
    @property
    def p90(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class PointLine:
    """One point: its value, the level (median, p10, p90) of the runs up to it, and how far it is from that median.

    codes: of its badges.
    """

    run_id: int
    started_at: datetime
    error: int
    value: Cell
    level: tuple[Cell, ...]
    difference_percent: float | None
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PointTable:
    """All rows in one unit."""

    scale: Scale
    lines: tuple[PointLine, ...]


def make_point_table(
    points: Sequence[Point], levels: Sequence[Sequence[Level]], metric: Metric
) -> PointTable:
    """Show points with their levels, one for one; points carry the value of this one metric."""
    scale = choose_scale([point.values[0] for point in points], metric.unit)
    lines = (
        _make_line(point, level, metric, scale=scale) for point, (level,) in zip(points, levels, strict=True)
    )
    return PointTable(scale, tuple(lines))


def _make_line(point: Point, level: Level, metric: Metric, *, scale: Scale) -> PointLine:
    value = point.values[0]
    difference = (
        None if value is None or not level.median or point.error else (value / level.median - 1) * 100
    )
    return PointLine(
        run_id=point.run_id,
        started_at=point.started_at,
        error=point.error,
        value=make_cell(value, scale, metric.name, reason="the run failed" if point.error else "see the run"),
        level=tuple(
            make_cell(each, scale, metric.name, reason="fewer than three runs so far")
            for each in (level.median, level.p10, level.p90)
        ),
        difference_percent=difference,
        codes=point.badges,
    )
