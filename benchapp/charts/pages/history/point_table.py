"""Points of a history as table rows, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from benchapp.catalog.metrics import Metric
from benchapp.framework.pages.number_columns import NumberCell, Scale, choose_scale, make_cell
from benchapp.series.read.points import Point


class PointLevel(Protocol):
    """Median and spread of the level of a point."""

    @property
    def median(self) -> float: ...
    @property
    def p10(self) -> float: ...
    @property
    def p90(self) -> float: ...


@dataclass(frozen=True, slots=True)
class PointLine:
    """One point: value, level (median, p10, p90), and difference from the median of the level.

    codes: of the badges.
    """

    run_id: int
    started_at: datetime
    error: int
    value: NumberCell
    level: tuple[NumberCell, ...]
    difference: float | None
    codes: tuple[str, ...]
    is_excluded: bool = False


@dataclass(frozen=True, slots=True)
class PointTable:
    """All rows, in one unit."""

    scale: Scale
    lines: tuple[PointLine, ...]


def make_point_table(
    points: Sequence[Point], levels: Sequence[PointLevel | None], metric: Metric
) -> PointTable:
    """Combine points with their levels, one level or None per point; points have this metric only."""
    scale = choose_scale([point.values[0] for point in points], metric.unit)
    lines = (
        _make_line(point, level, metric, scale=scale) for point, level in zip(points, levels, strict=True)
    )
    return PointTable(scale, tuple(lines))


def _make_line(point: Point, level: PointLevel | None, metric: Metric, *, scale: Scale) -> PointLine:
    value = point.values[0]
    is_compared = value is not None and level is not None and level.median and not point.error
    numbers = (None, None, None) if level is None else (level.median, level.p10, level.p90)
    return PointLine(
        run_id=point.run_id,
        started_at=point.started_at,
        error=point.error,
        value=make_cell(
            value, scale, metric.name, reason="the run failed" if point.error else "see run page"
        ),
        level=tuple(make_cell(each, scale, metric.name, reason="no level") for each in numbers),
        difference=value / level.median - 1 if is_compared and value and level else None,
        is_excluded=point.is_excluded,
        codes=point.badges,
    )
