"""Current levels of many series as columns, mixed by cell: without an object for each series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from benchapp.charts.read.scaling_shapes import SCALING_METRICS
from benchapp.charts.read.series_table import SeriesTable
from benchapp.framework.read.binary_columns import from_us, to_us
from benchapp.incidents.read.series_status import LevelValues
from benchapp.series.read.levels import read_current_columns

_COLUMNS: Final = ("median", "p10", "p90", "n", "to_at")


@dataclass(frozen=True, slots=True)
class RowLevels:
    """The current level of one metric of each row of a table, as arrays of its length. n: 0 without a level.

    to_at: microseconds since 1970.
    """

    metric: str
    median: NDArray[Any]
    p10: NDArray[Any]
    p90: NDArray[Any]
    n: NDArray[Any]
    to_at: NDArray[Any]

    @classmethod
    def read(cls, table: SeriesTable, metrics: Sequence[str]) -> list[Self]:
        """Read the levels of each metric; one query, of groups of runs none."""
        found: Mapping[str, Mapping[str, NDArray[Any]]] = (
            read_current_columns(table.column("id"), metrics)
            if table.group_levels is None
            else {metric: _list_groups(table, metric) for metric in metrics}
        )
        return [cls._align(metric, table.array("id"), found[metric]) for metric in metrics]

    @classmethod
    def _align(cls, metric: str, ids: NDArray[Any], found: Mapping[str, NDArray[Any]]) -> Self:
        """Return the levels in the order of some ids. found: by series_id."""
        if not len(found["series_id"]):
            return cls(metric, *(np.zeros(len(ids)) for _ in _COLUMNS))
        places = np.minimum(np.searchsorted(found["series_id"], ids), len(found["series_id"]) - 1)
        is_known = found["series_id"][places] == ids
        return cls(metric, *(np.where(is_known, found[name][places], 0) for name in _COLUMNS))

    def select(self, places: NDArray[Any]) -> "RowLevels":
        """Return the levels of some rows; places: as numpy takes them."""
        return RowLevels(self.metric, *(getattr(self, name)[places] for name in _COLUMNS))

    def mix(self, cells: NDArray[np.int64], count: int) -> list[LevelValues | None]:
        """Return one level for each of `count` cells, as `mix_spreads` does; None for one without a level.

        cells: of each row.
        """
        mixed: list[LevelValues | None] = [None] * count
        rows = np.flatnonzero(self.n)
        if not len(rows):
            return mixed
        rows = rows[np.lexsort((self.median[rows], cells[rows]))]
        numbers, starts, sizes = np.unique(cells[rows], return_index=True, return_counts=True)
        medians = self.median[rows]
        middles = (medians[starts + (sizes - 1) // 2] + medians[starts + sizes // 2]) / 2
        columns = (
            numbers,
            sizes,
            middles,
            np.minimum.reduceat(self.p10[rows], starts),
            np.maximum.reduceat(self.p90[rows], starts),
            np.add.reduceat(self.n[rows], starts),
            np.maximum.reduceat(self.to_at[rows], starts),
        )
        may_mix = SCALING_METRICS[self.metric].may_mix
        for cell, size, median, p10, p90, n, to_at in zip(*(each.tolist() for each in columns), strict=True):
            mixed[cell] = LevelValues(
                median if may_mix or size == 1 else None, p10, p90, int(n), from_us(to_at)
            )
        return mixed


def _list_groups(table: SeriesTable, metric: str) -> Mapping[str, NDArray[Any]]:
    """Return the levels of groups of runs as `read_current_columns` does, by the number of the group."""
    assert table.group_levels is not None
    levels = sorted(table.group_levels[metric].items())
    rows: Sequence[tuple[Any, ...]] = [
        (number, level.median, level.p10, level.p90, level.n, to_us(level.last_at))
        for number, group in levels
        for level in (group.level,)
    ]
    columns = list(zip(*rows, strict=True)) or [()] * (len(_COLUMNS) + 1)
    return {name: np.array(column) for name, column in zip(("series_id", *_COLUMNS), columns, strict=True)}
