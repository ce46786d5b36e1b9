"""A table of series by column, from which Scaling and Matrix choose axes and fixed dimensions.

Columns instead of rows: the choice reads one dimension of 20 000 series after the other. A dimension is an array of
codes of its few values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from benchapp.catalog.dimensions import name_pattern
from benchapp.catalog.grammar import Value as DimensionValue
from benchapp.framework.read.binary_columns import from_us
from benchapp.series.read.selected_levels import GroupLevel


@dataclass(frozen=True, slots=True)
class Codes:
    """One column as indexes into its distinct values."""

    codes: NDArray[np.int64]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, own: Sequence[Any], places: NDArray[np.int64]) -> Self:
        """Return the column whose row i has own[places[i]]."""
        known: dict[Any, int] = {}
        codes = [known.setdefault(value, len(known)) for value in own]
        return cls(np.array(codes, dtype=np.int64)[places], tuple(known))

    def take(self, places: NDArray[Any]) -> "Codes":
        """Return the column of these rows; places: as numpy takes them."""
        return Codes(self.codes[places], self.values)

    def list_values(self) -> list[Any]:
        """Return the value of each row."""
        return [self.values[code] for code in self.codes.tolist()]

    def list_distinct(self) -> list[Any]:
        """Return the values that occur, each once."""
        return [self.values[code] for code in np.unique(self.codes).tolist()]

    def find(self, values: Iterable[Any]) -> NDArray[np.int64]:
        """Return the codes of some values, without values that are not in the column."""
        wanted = set(values)
        return np.array([code for code, value in enumerate(self.values) if value in wanted], dtype=np.int64)


class SeriesTable:
    """Series as columns of equal length, most recent first.

    Names: those of dimensions and of several combined (a value is a tuple; None if all parts are unknown), id,
    measurement_count, last_at, badges, and for each metric METRIC.has_level: whether it has a current level.

    With facts of the environment a row is a group of runs of a series: id is the number of the row, series_id that of
    the series; group_levels has the levels by metric and id. None without such facts: then both ids are the same.
    """

    def __init__(
        self,
        arrays: Mapping[str, NDArray[Any]],
        shared: Mapping[str, Codes],
        group_levels: Mapping[str, Mapping[int, GroupLevel]] | None = None,
    ) -> None:
        self._arrays = arrays
        self.group_levels = group_levels
        self._shared = dict(shared)
        self._columns: dict[str, Sequence[Any]] = {}
        self.length = len(arrays["id"])

    @property
    def places(self) -> range:
        """Return the indexes of all rows."""
        return range(self.length)

    def array(self, name: str) -> NDArray[Any]:
        """Return a column: id, measurement_count, last_at (microseconds since 1970), group_mask, METRIC.has_level."""
        return self._arrays["id" if name == "series_id" and self.group_levels is None else name]

    def shared(self, name: str) -> Codes:
        """Return the column of a dimension, or of badges, as codes."""
        if name not in self._shared:
            self._shared[name] = self._derive(name)
        return self._shared[name]

    def column(self, name: str) -> Sequence[Any]:
        """Return a column as values."""
        if name not in self._columns:
            self._columns[name] = self._list(name)
        return self._columns[name]

    def select(self, places: Iterable[int] | NDArray[Any]) -> "SeriesTable":
        """Return the table of some rows; places: their indexes, or an array that is true for them."""
        chosen = places if isinstance(places, np.ndarray) else np.fromiter(places, dtype=np.int64)
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        arrays = {name: array[chosen] for name, array in self._arrays.items()}
        shared = {name: each.take(chosen) for name, each in self._shared.items()}
        return SeriesTable(arrays, shared, self.group_levels)

    def split(
        self,
        places: Sequence[int],
        facts: Mapping[str, Sequence[Any]],
        group_levels: Mapping[str, Mapping[int, GroupLevel]],
    ) -> "SeriesTable":
        """Return a table of groups of runs. places: the row of each group's series; facts: values, and badges."""
        table = self.select(np.array(places, dtype=np.int64))
        numbers = np.arange(len(places), dtype=np.int64)
        arrays = {**table._arrays, "series_id": table.array("id"), "id": numbers}
        for metric, levels in group_levels.items():
            arrays[f"{metric}.has_level"] = np.isin(numbers, list(levels))
        shared = {name: Codes.of(values, numbers) for name, values in facts.items()}
        return SeriesTable(arrays, {**table._shared, **shared}, group_levels)

    def distinct(self, name: str) -> set[DimensionValue | None]:
        """Return the values of a dimension; None is unknown."""
        shared = self.shared(name)
        counts = np.bincount(shared.codes, minlength=len(shared.values)).tolist()
        return {value for value, count in zip(shared.values, counts, strict=True) if count}

    def _list(self, name: str) -> Sequence[Any]:
        if name == "series_id":
            ids: list[int] = self.array(name).tolist()
            return ids
        if name not in self._arrays:
            return self.shared(name).list_values()
        values = self._arrays[name].tolist()
        return [from_us(at_us) for at_us in values] if name == "last_at" else list(values)

    def _derive(self, name: str) -> Codes:
        if "," in name:
            return self._combine(name.split(","))
        if name == "pattern":
            rw, direction = self.shared("rw"), self.shared("direction")
            both, places = np.unique(rw.codes * len(direction.values) + direction.codes, return_inverse=True)
            own = [divmod(code, len(direction.values)) for code in both.tolist()]
            return Codes.of([name_pattern(rw.values[one], direction.values[two]) for one, two in own], places)
        scope, prefix = self.shared("scope"), f"{name}:"
        own = [each[len(prefix) :] if each.startswith(prefix) else None for each in scope.values]
        return Codes.of(own, scope.codes)

    def _combine(self, names: Sequence[str]) -> Codes:
        columns = [self.shared(name) for name in names]
        both, places = np.unique(np.stack([column.codes for column in columns]), axis=1, return_inverse=True)
        own = [
            tuple(column.values[code] for column, code in zip(columns, codes, strict=True))
            for codes in both.T.tolist()
        ]
        return Codes.of([None if set(value) == {None} else value for value in own], places.reshape(-1))
