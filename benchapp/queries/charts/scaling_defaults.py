"""The default axes of a scaling chart, and its fixed dimensions."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.dimensions import DIMENSIONS, SERIES_DIMENSIONS, is_fixable
from benchapp.grammar import Filter, Term, Test, Value, write_filter
from benchapp.queries.charts.axes import GROUP, AxisValue, split_axis
from benchapp.queries.charts.series_table import SeriesTable
from benchapp.queries.titles import order_value

# The usual dimensions to scale by, the most usual first.
_FIRST_X: Final = (
    "volume_count",
    "stripe_count",
    "iodepth",
    "block_size_bytes",
    "file_size_bytes",
    "numjobs",
)
_CANDIDATES_MAXIMUM: Final = 6
_PATTERN_FAMILY: Final = frozenset({"pattern", "rw", "direction"})
_USUAL_BLOCK_BYTES: Final = 4096
_CODE_MAXIMUM: Final = 2**62


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a chart, as of `find_axis`; None: one color, one panel.

    more: further dimensions of a matrix. in_groups: dimensions in the filters of the groups, if these are an axis.
    """

    x: str
    color: str | None
    facet: str | None
    more: tuple[str, ...] = ()
    in_groups: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns that determine a cell: the dimensions of the axes, and "group"."""
        axes = (self.x, self.color, self.facet, *self.more)
        return tuple(name for axis in axes if axis is not None for name in split_axis(axis))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return the dimensions that vary along the axes, also within groups."""
        return tuple(dict.fromkeys(name for name in (*self.names, *self.in_groups) if name != GROUP))


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a fixed dimension, and the number of series with it."""

    value: Value | None
    series_count: int


@dataclass(frozen=True, slots=True)
class FixedDimension:
    """A dimension with one value in the chart, chosen because the filter does not name it.

    values: one; several if it depends on the axes and had several values in some cells only.
    choices: all its values among the series, in order.
    """

    dimension: str
    values: tuple[Value | None, ...]
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class ChosenAxes:
    """Axes, fixed dimensions, and the remaining rows."""

    axes: Axes
    fixed: tuple[FixedDimension, ...]
    table: SeriesTable


def choose_axes(
    table: SeriesTable,
    *,
    x: str | None,
    color: str | None,
    facet: str | None,
    free: frozenset[str],
    in_groups: tuple[str, ...] = (),
) -> ChosenAxes:
    """Choose the axes that are not given. color, facet: "" for none. free: dimensions not to fix.

    table: series with a value. in_groups: as in Axes.
    """

    def make_axes(name: str) -> Axes:
        taken = (*split_axis(name), *in_groups)
        return Axes(name, _choose_color(taken, color), facet or None, in_groups=in_groups)

    if x is not None:
        return fix_dimensions(table, make_axes(x), free=free)
    candidates = _list_candidates(
        table, taken=frozenset(name for axis in (color, facet) if axis for name in split_axis(axis))
    )
    chosen = None
    for name in candidates[:_CANDIDATES_MAXIMUM]:
        found = fix_dimensions(table, make_axes(name), free=free)
        if len(found.table.distinct(name) - {None}) > 1:
            return found
        chosen = chosen or found
    if chosen is None:
        return fix_dimensions(table, make_axes("volume_count"), free=free)
    return chosen


def list_varying(table: SeriesTable, names: Sequence[str]) -> list[str]:
    """Return the dimensions with more than one value."""
    return [name for name in names if len(table.distinct(name)) > 1]


def list_mixed(table: SeriesTable, axes: Axes) -> tuple[str, ...]:
    """Return the dimensions with more than one value in a cell."""
    names = [name for name in SERIES_DIMENSIONS if name not in axes.names]
    return tuple(name for name in list_varying(table, names) if _find_conflict(table, axes, name))


def _choose_color(taken: Sequence[str], color: str | None) -> str | None:
    """Return the color; taken: the dimensions of x and of groups."""
    if color is not None:
        return color or None
    if "read_share_percent" in taken:
        return "direction"
    return None if _PATTERN_FAMILY.intersection(taken) else "pattern"


def _list_candidates(table: SeriesTable, taken: frozenset[str]) -> list[str]:
    known = {
        name: len(table.distinct(name) - {None})
        for name, dimension in SERIES_DIMENSIONS.items()
        if name not in _PATTERN_FAMILY | taken and not dimension.is_minor
    }
    first = [name for name in _FIRST_X if known.get(name, 0) > 1]
    others = [name for name, count in known.items() if count > 1 and name not in first]
    others.sort(key=lambda name: -known[name])
    alone = [name for name in _FIRST_X if known.get(name, 0) == 1]
    return [*first, *others, *alone[:1]]


def fix_dimensions(
    table: SeriesTable,
    axes: Axes,
    *,
    free: frozenset[str],
    single: Collection[str] = (),
    decisive: NDArray[np.bool_] | None = None,
) -> ChosenAxes:
    """Fix what varies beside the axes: at the values with most cells, then most measurements, then the newest.

    free: dimensions not to fix. single: dimensions with one value even where they depend on the axes, unless free.
    decisive: which rows are counted for that, if there are any.
    """
    known = ~np.isin(table.shared(axes.x).codes, table.shared(axes.x).find([None]))
    if known.any() and not known.all():
        table = table.select(known)
        decisive = None if decisive is None else decisive[known]
    if not table.length:
        return ChosenAxes(axes, (), table)
    whole = table
    names = [
        name
        for name in DIMENSIONS
        if (name in single or is_fixable(DIMENSIONS[name], over=axes.dimensions)) and name not in free
    ]
    names = list_varying(table, names)
    counted = table if decisive is None or not decisive.any() else table.select(decisive)
    best = dict(zip(names, _find_fullest(counted, axes, names), strict=True)) if names else {}
    fixed: list[tuple[str, tuple[Value | None, ...]]] = []
    # Known values first: a series of a pool has no host, which needs no term.
    for name in sorted(best, key=lambda name: best[name] is None):
        if len(table.distinct(name)) > 1:
            table = keep_values(table, name, {best[name]})
            fixed.append((name, (best[name],)))
    for name in _list_dependent(axes, free):
        values = _settle(table, axes, name)
        if values:
            table = keep_values(table, name, set(values))
            fixed.append((name, values))
    return ChosenAxes(
        axes, tuple(FixedDimension(name, values, _list_choices(whole, name)) for name, values in fixed), table
    )


def add_fixed_terms(filter: Filter, fixed: Sequence[FixedDimension]) -> Filter:
    """Return the filter with the fixed dimensions as terms."""
    for each in fixed:
        tests = tuple(Test("unknown") if value is None else Test("=", (value,)) for value in each.values)
        others = filter.without(each.dimension)
        filter = Filter((*others.terms, Term(each.dimension, tests)), others.words)
    return filter


def write_fixed(fixed: Sequence[FixedDimension]) -> str:
    """Write the fixed dimensions in the filter language."""
    return write_filter(add_fixed_terms(Filter(), fixed))


def _find_fullest(table: SeriesTable, axes: Axes, names: Sequence[str]) -> tuple[Value | None, ...]:
    _, firsts, combination = np.unique(
        number_combinations(table, names), return_index=True, return_inverse=True
    )
    cells, count = _number_cells(table, axes), len(firsts)
    filled = np.bincount(
        np.unique(combination * (cells.max() + 1) + cells) // (cells.max() + 1), minlength=count
    )
    measured = np.bincount(combination, weights=table.array("measurement_count"), minlength=count)
    # The most recent series come first in the table.
    newest = table.array("last_at")[firsts]
    block = table.shared("block_size_bytes")
    is_usual = np.isin(block.codes[firsts], block.find([_USUAL_BLOCK_BYTES]))
    best = np.lexsort((newest, measured, is_usual, filled))[-1]
    is_best = [column == column[best] for column in (newest, measured, is_usual, filled)]
    same = np.flatnonzero(np.logical_and.reduce(is_best)).tolist()
    shared = [table.shared(name) for name in names]
    combinations = [tuple(each.values[each.codes[firsts[place]]] for each in shared) for place in same]
    return max(combinations, key=str)


def _list_dependent(axes: Axes, free: frozenset[str]) -> Iterator[str]:
    """Yield the dimensions that depend on the axes and may have several values in a cell."""
    for name, dimension in SERIES_DIMENSIONS.items():
        is_dependent = any(name in DIMENSIONS[axis].companions for axis in axes.dimensions)
        if is_dependent and not dimension.is_minor and name not in free and name not in axes.dimensions:
            yield name


def _settle(table: SeriesTable, axes: Axes, name: str) -> tuple[Value | None, ...]:
    """Return the values to keep so that no cell has two: the one for most cells, and those of the other cells.

    () if no cell has several.
    """
    conflict = _find_conflict(table, axes, name)
    if not conflict:
        return ()
    settled: Counter[Value | None] = Counter()
    elsewhere: set[Value | None] = set()
    for values in _values_by_cell(table, axes, name).values():
        if len(values) > 1:
            settled.update(values)
        else:
            elsewhere |= values
    best = max(settled, key=lambda value: (settled[value], value is not None, value in elsewhere, str(value)))
    rest = {value for value in elsewhere if value not in settled}
    return tuple(sorted({best, *rest}, key=lambda value: order_value(name, value)))


def _find_conflict(table: SeriesTable, axes: Axes, name: str) -> bool:
    """Return whether a dimension has more than one value in a cell."""
    if len(table.distinct(name)) < 2:
        return False
    cells, shared = _number_cells(table, axes), table.shared(name)
    return len(np.unique(cells * len(shared.values) + shared.codes)) > int(cells.max()) + 1


def _values_by_cell(table: SeriesTable, axes: Axes, name: str) -> dict[int, set[Value | None]]:
    found: dict[int, set[Value | None]] = defaultdict(set)
    for cell, value in zip(_number_cells(table, axes).tolist(), table.column(name), strict=True):
        found[cell].add(value)
    return found


def _number_cells(table: SeriesTable, axes: Axes) -> NDArray[np.int64]:
    """Return the number of each row's cell, from 0 without gaps."""
    cells: NDArray[np.int64] = np.unique(number_combinations(table, axes.names), return_inverse=True)[1]
    return cells


def number_combinations(table: SeriesTable, names: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each row: the same where all of the dimensions are."""
    combined, count = np.zeros(table.length, dtype=np.int64), 1
    for name in names:
        shared = table.shared(name)
        if count * len(shared.values) > _CODE_MAXIMUM:
            combined = np.unique(combined, return_inverse=True)[1]
            count = table.length
        combined = combined * len(shared.values) + shared.codes
        count *= len(shared.values)
    return combined


def keep_values(table: SeriesTable, name: str, values: Collection[AxisValue]) -> SeriesTable:
    """Return the rows whose dimension has one of these values."""
    shared = table.shared(name)
    return table.select(np.isin(shared.codes, shared.find(values)))


def _list_choices(table: SeriesTable, name: str) -> tuple[Choice, ...]:
    shared = table.shared(name)
    counts = np.bincount(shared.codes, minlength=len(shared.values)).tolist()
    found = [Choice(value, count) for value, count in zip(shared.values, counts, strict=True) if count]
    return tuple(sorted(found, key=lambda choice: order_value(name, choice.value)))
