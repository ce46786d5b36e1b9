"""The series measured last, those with open changes first."""

from dataclasses import dataclass
from typing import Final

from benchapp.metrics import CATALOGUE, Metric
from benchapp.queries.incidents.series_marks import SeriesMark, read_series_marks
from benchapp.queries.series.levels import CurrentLevel, read_current_levels
from benchapp.queries.series.series import SeriesRow, list_rows, with_points

# Changes are searched in these only, not in a million series.
_RECENT_SERIES: Final = 100


@dataclass(frozen=True, slots=True)
class SeriesLevel:
    """One series with the current level of its main metric."""

    row: SeriesRow
    metric: Metric
    level: CurrentLevel
    mark: SeriesMark | None


def read_recent_series(*, limit: int = 10) -> list[SeriesLevel]:
    """Return series of the 100 most recent ones in at most seven queries.

    First those with an open regression, then with an open improvement, then the others by time.
    """
    rows = list_rows(with_points(), limit=_RECENT_SERIES)
    iops, elapsed = CATALOGUE["iops"], CATALOGUE["elapsed_s"]
    iops_levels = read_current_levels([row.id for row in rows], iops)
    others = [row.id for row in rows if row.id not in iops_levels]
    elapsed_levels = read_current_levels(others, elapsed) if others else {}
    marks = {
        **read_series_marks(list(elapsed_levels), metric=elapsed.name),
        **read_series_marks(list(iops_levels), metric=iops.name),
    }
    found = [
        SeriesLevel(row, iops if row.id in iops_levels else elapsed, level, marks.get(row.id))
        for row in rows
        if (level := iops_levels.get(row.id) or elapsed_levels.get(row.id))
    ]
    return sorted(found, key=_rank)[:limit]


def _rank(one: SeriesLevel) -> tuple[int, float]:
    if one.mark is None or one.mark.state != "open":
        # The sort is stable: these stay in order of time.
        return (2, 0.0)
    return (0 if one.mark.is_regression else 1, -abs(one.mark.relative))
