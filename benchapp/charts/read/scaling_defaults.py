"""The default axes of a scaling chart, and its fixed dimensions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.catalog.dimensions import DIMENSIONS, SERIES_DIMENSIONS
from benchapp.catalog.grammar import Filter, Term, Test, Value, write_filter
from benchapp.charts.read.axes import GROUP, AxisValue, Codes, SeriesTable, split_axis
from benchapp.series.read.levels import read_current_columns
from benchapp.series.read.titles import order_value

# The usual dimensions to scale by, the most usual first.
_FIRST_X: Final = (
    "volume_count",
    "stripe_count",
    "iodepth",
    "block_size_bytes",
    "file_size_bytes",
    "numjobs",
)
_BLOCK: Final = ("block_size_bytes",)
LOADS: Final = ("iodepth", "numjobs")
SCOPE_DIMENSIONS: Final = frozenset({"host", "pool"})
_PATTERN_FAMILY: Final = frozenset({"pattern", "rw", "direction"})
# A page cache is no storage: direct I/O is shown wherever it was measured.
_PREFERRED: Final[Mapping[str, Value]] = {"is_direct": True}
# Shown where as many cells have another value.
_USUAL: Final[Mapping[str, Value]] = {"block_size_bytes": 4096}
# The share of reads is part of a pure pattern, the name of a target of its layout.
_STATED: Final = ("read_share_percent", "target_name")
_CODE_MAXIMUM: Final = 2**62


# The values of dimensions beside the axes, by name.
Settings = tuple[tuple[str, tuple[Value | None, ...]], ...]


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
    """One value of a fixed dimension, the number of series with it, and the range of their medians, if it was read."""

    value: Value | None
    series_count: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class FixedDimension:
    """A dimension that is fixed: some cell would otherwise combine series that differ in it.

    values: those of the shown series, in order; several if no value is in all cells. choices: of all series, in order.
    """

    dimension: str
    values: tuple[Value | None, ...]
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class ChosenAxes:
    """Axes, fixed dimensions, the remaining rows, and the ids of the rows that are not shown as others are."""

    axes: Axes
    fixed: tuple[FixedDimension, ...]
    table: SeriesTable
    hidden_ids: NDArray[np.int64]

    @property
    def varying(self) -> tuple[str, ...]:
        """Return the dimensions in which cells differ beside the axes."""
        return list_varying(self.table, self.axes)

    @property
    def named(self) -> tuple[str, ...]:
        """Return the dimensions that an answer names for each cell: fixed ones, and those in which cells differ."""
        return tuple(dict.fromkeys((*(each.dimension for each in self.fixed), *self.varying)))

    def keep_shown(self, table: SeriesTable) -> SeriesTable:
        """Return the rows with the fixed values, also those without a value of the metric, less the hidden ones."""
        for each in self.fixed:
            table = keep_values(table, each.dimension, each.values)
        return table.select(~np.isin(table.array("id"), self.hidden_ids))


def choose_axes(
    table: SeriesTable,
    *,
    x: str | None,
    color: str | None,
    facet: str | None,
    free: frozenset[str],
    in_groups: tuple[str, ...] = (),
    is_line: bool = False,
) -> ChosenAxes:
    """Choose the axes that are not given. color, facet: "" for none. free: dimensions not to fix.

    table: series with a value. in_groups: as in Axes. is_line: x is a number.
    """

    def make_axes(name: str) -> Axes:
        taken = (*split_axis(name), *in_groups)
        return Axes(name, _choose_color(taken, color), facet or None, in_groups=in_groups)

    taken = frozenset(name for axis in (color, facet) if axis for name in split_axis(axis))
    chosen = fix_dimensions(table, make_axes(x or _choose_x(table, taken)), free=free)
    if color is None and chosen.axes.color == "pattern" and _does_join(chosen, _BLOCK):
        axes = replace(chosen.axes, color=",".join(("pattern", *_BLOCK)))
        chosen = fix_dimensions(table, axes, free=free)
    chosen = _fix_lines(chosen, table, free=free)
    is_open = x is None and color is None and not is_line
    return _stand_curves_side_by_side(chosen, table, free=free) if is_open else chosen


def _stand_curves_side_by_side(chosen: ChosenAxes, table: SeriesTable, *, free: frozenset[str]) -> ChosenAxes:
    """Choose the color as x where no curve has two values: what varies is then compared."""
    axes = chosen.axes
    lines = number_combinations(chosen.table, _list_line(axes))
    if not axes.color or len(np.unique(lines)) < 2 or _find_conflict(chosen.table, lines, axes.x):
        return chosen
    return fix_dimensions(table, replace(axes, x=axes.color, color=None), free=free)


def _list_line(axes: Axes) -> list[str]:
    """Return the dimensions of a line."""
    return [name for axis in (axes.color, axes.facet) if axis for name in split_axis(axis)]


def _does_join(chosen: ChosenAxes, names: Iterable[str]) -> bool:
    """Return whether a line over numbers would join different values of one of these dimensions."""
    axes, table = chosen.axes, chosen.table
    if axes.x not in SERIES_DIMENSIONS or not SERIES_DIMENSIONS[axes.x].is_number:
        return False
    lines = number_combinations(table, _list_line(axes))
    return any(_find_conflict(table, lines, name) for name in names if name not in axes.dimensions)


def _fix_lines(chosen: ChosenAxes, table: SeriesTable, *, free: frozenset[str]) -> ChosenAxes:
    """Fix what a line over numbers would join: block sizes, and along a load everything else as well.

    table: with the rows that are not chosen.
    """
    axes = chosen.axes
    candidates = tuple(SERIES_DIMENSIONS) if axes.x in LOADS else _BLOCK
    if not _does_join(chosen, candidates):
        return chosen
    more, shown = fix_conflicts(
        chosen.table,
        _list_line(axes),
        free={*free, *axes.dimensions},
        candidates=candidates,
        ranked_by=axes.names,
    )
    names = dict.fromkeys(each.dimension for each in (*chosen.fixed, *more))
    fixed = tuple(_fix(name, shown, table) for name in names)
    left_out = np.setdiff1d(chosen.table.array("id"), shown.array("id"))
    return replace(chosen, fixed=fixed, table=shown, hidden_ids=np.union1d(chosen.hidden_ids, left_out))


def list_varying(table: SeriesTable, axes: Axes) -> tuple[str, ...]:
    """Return the dimensions in which cells differ beside the axes, without those that pattern or layout state."""
    return tuple(
        name
        for name, dimension in SERIES_DIMENSIONS.items()
        if name not in {*axes.names, *_PATTERN_FAMILY, *_STATED}
        and not dimension.is_minor
        and len(table.distinct(name)) > 1
        and not _is_striping_of(table, axes, name)
    )


def _is_striping_of(table: SeriesTable, axes: Axes, name: str) -> bool:
    """Return whether the number of volumes states it, or an axis of stripes: one stripe a volume, one RAID level."""
    has_axis = bool({"volume_count", "stripe_count"}.intersection(axes.dimensions))
    if name == "raid_level":
        # Without any level it says only which layouts are single volumes.
        return len(table.distinct(name) - {None, "none"}) < 1 + has_axis
    if name != "stripe_count" and not (name == "volume_count" and has_axis):
        return False
    counts = zip(table.column("volume_count"), table.column("stripe_count"), strict=True)
    return all(volumes == stripes or None in (volumes, stripes) for volumes, stripes in counts)


def list_mixed(table: SeriesTable, axes: Axes) -> tuple[str, ...]:
    """Return the dimensions with more than one value in a cell."""
    cells = number_combinations(table, axes.names)
    names = (name for name in SERIES_DIMENSIONS if name not in axes.names)
    return tuple(name for name in names if _find_conflict(table, cells, name))


def _choose_color(taken: Sequence[str], color: str | None) -> str | None:
    """Return the color; taken: the dimensions of x and of groups."""
    if color is not None:
        return color or None
    if "read_share_percent" in taken:
        return "direction"
    return None if _PATTERN_FAMILY.intersection(taken) else "pattern"


def _choose_x(table: SeriesTable, taken: frozenset[str]) -> str:
    """Return the dimension to scale by: one that varies within a pattern; the pattern if none does.

    One that is not usual must vary within color and facet, too: a target has one volume type, and some have none.
    """
    patterns = number_combinations(table, ("pattern",))
    panels = number_combinations(table, ("pattern", *sorted(taken.intersection(SERIES_DIMENSIONS))))
    names = [
        name
        for name, dimension in SERIES_DIMENSIONS.items()
        if name not in _PATTERN_FAMILY | taken and not dimension.is_minor
    ]
    known = {name: len(table.distinct(name) - {None}) for name in names}
    varying = [
        name
        for name in names
        if known[name] > 1 and _find_conflict(table, patterns if name in _FIRST_X else panels, name)
    ]
    if not varying and len(table.distinct("pattern")) > 1 and not _PATTERN_FAMILY & taken:
        return "pattern"
    usual = [*_FIRST_X, *sorted(varying, key=lambda name: -known[name])]
    alone = (name for name in _FIRST_X if known.get(name, 0) == 1)
    return next((name for name in usual if name in varying), next(alone, "volume_count"))


def fix_dimensions(table: SeriesTable, axes: Axes, *, free: Collection[str]) -> ChosenAxes:
    """Fix the dimensions that a cell of the axes would mix; series of unknown x are left out if any is known.

    free: dimensions not to fix.
    """
    known = ~_is_unknown(table, axes.x)
    if known.any():
        table = table.select(known)
    # A group of several volume counts has their stripes.
    named = (DIMENSIONS[name] for name in axes.in_groups if name in DIMENSIONS)
    moving = (companion for dimension in named for companion in dimension.companions)
    fixed, shown = fix_conflicts(table, axes.names, free={*free, *axes.dimensions, *moving})
    return ChosenAxes(axes, fixed, shown, np.setdiff1d(table.array("id"), shown.array("id")))


def fix_conflicts(
    table: SeriesTable,
    cell_names: Sequence[str],
    *,
    free: Collection[str] = (),
    candidates: Collection[str] = tuple(SERIES_DIMENSIONS),
    keeps_unknown: bool = False,
    ranked_by: Sequence[str] | None = None,
) -> tuple[tuple[FixedDimension, ...], SeriesTable]:
    """Keep one value of a dimension in each cell that has several; no cell loses all of its series.

    Each cell keeps direct I/O, else the value that most cells have: then the usual, the most measured, the newest one.
    The dimension whose known value is in most cells is settled first. cell_names: the dimensions that determine a
    cell; () for one cell. free: dimensions not to fix. candidates: those that may be fixed. keeps_unknown: series of
    unknown value stay beside those with the one that is kept. ranked_by: of the cells in which values are counted.
    """
    whole, cells = table, number_combinations(table, cell_names)
    counted = cells if ranked_by is None else number_combinations(table, ranked_by)
    names = [
        name
        for name in SERIES_DIMENSIONS
        if name in candidates and name not in {*free, *cell_names} and not SERIES_DIMENSIONS[name].is_minor
    ]
    settled = []

    def has_conflict(name: str) -> bool:
        if not keeps_unknown:
            return _find_conflict(table, cells, name)
        known = ~_is_unknown(table, name)
        return _find_conflict(table.select(known), cells[known], name)

    while names := list(filter(has_conflict, names)):
        ranked = {name: _rank_values(table, counted, name) for name in names}
        name = max(names, key=lambda name: ranked[name][1])
        ranks = ranked[name][0][table.shared(name).codes]
        is_unknown = _is_unknown(table, name) & keeps_unknown
        ranks[is_unknown] = len(ranks)
        _, places = np.unique(cells, return_inverse=True)
        best = np.full(places.max() + 1, len(ranks))
        np.minimum.at(best, places, ranks)
        is_kept = (ranks == best[places]) | is_unknown
        table, cells, counted = table.select(is_kept), cells[is_kept], counted[is_kept]
        settled.append(name)
    return tuple(_fix(name, table, whole) for name in settled), table


def _fix(name: str, shown: SeriesTable, whole: SeriesTable) -> FixedDimension:
    values = tuple(sorted(shown.distinct(name), key=partial(order_value, name)))
    return FixedDimension(name, values, _list_choices(whole, name))


def measure_choices(
    fixed: tuple[FixedDimension, ...], table: SeriesTable, metric: str
) -> tuple[FixedDimension, ...]:
    """Add the lowest and highest current median of each choice; one query, none where nothing is fixed.

    Groups of runs have no medians of their series.
    """
    if not fixed or table.group_levels is not None:
        return fixed
    ids = table.array("id")
    levels = read_current_columns(ids.tolist(), [metric])[metric]
    is_valued = np.isin(ids, levels["series_id"])
    medians = levels["median"][np.searchsorted(levels["series_id"], ids[is_valued])]

    def measure(choice: Choice, column: Codes) -> Choice:
        own = medians[np.isin(column.codes[is_valued], column.find([choice.value]))]
        return replace(choice, low=float(own.min()), high=float(own.max())) if len(own) else choice

    return tuple(
        replace(
            each,
            choices=tuple(measure(choice, table.shared(each.dimension)) for choice in each.choices),
        )
        for each in fixed
    )


def list_settings(table: SeriesTable, places: Sequence[int], names: Sequence[str]) -> Settings:
    """Return the values of some dimensions in some rows, in order."""
    columns = ((name, table.column(name)) for name in names)
    return tuple(
        (name, tuple(sorted({column[place] for place in places}, key=partial(order_value, name))))
        for name, column in columns
    )


def add_fixed_terms(filter: Filter, fixed: Sequence[FixedDimension]) -> Filter:
    """Return the filter with the fixed dimensions as terms."""
    return _add_terms(filter, [(each.dimension, each.values) for each in fixed])


def write_fixed(fixed: Sequence[FixedDimension]) -> str:
    """Write the fixed dimensions in the filter language."""
    return write_filter(add_fixed_terms(Filter(), fixed))


def write_settings(settings: Settings) -> str:
    """Write what a cell was measured with in the filter language."""
    return write_filter(_add_terms(Filter(), settings))


def _add_terms(filter: Filter, settings: Iterable[tuple[str, Sequence[Value | None]]]) -> Filter:
    for name, values in settings:
        tests = tuple(Test("unknown") if value is None else Test("=", (value,)) for value in values)
        filter = Filter((*filter.without(name).terms, Term(name, tests)), filter.words)
    return filter


def _rank_values(
    table: SeriesTable, cells: NDArray[np.int64], name: str
) -> tuple[NDArray[np.int64], tuple[bool, int]]:
    """Return the rank of each code of a dimension, 0 for the best; and whether the best is known, in how many cells.

    A series of a pool has no host: known values are better, as they need no term for the unknown one.
    """
    shared = table.shared(name)
    count = len(shared.values)
    pairs = np.unique(np.unique(cells, return_inverse=True)[1] * count + shared.codes)
    filled = np.bincount(pairs % count, minlength=count)
    preferred, usual = (
        np.array([value == known.get(name, value) for value in shared.values])
        for known in (_PREFERRED, _USUAL)
    )
    measured = np.bincount(shared.codes, weights=table.array("measurement_count"), minlength=count)
    newest = np.zeros(count, dtype=np.int64)
    np.maximum.at(newest, shared.codes, table.array("last_at"))
    # Equal in all: the same choice every time.
    texts = np.argsort(np.argsort([str(value) for value in shared.values]))
    order = np.lexsort((texts, newest, measured, usual, filled, preferred))[::-1]
    ranks = np.empty(count, dtype=np.int64)
    ranks[order] = np.arange(count)
    best = int(order[0])
    return ranks, (shared.values[best] is not None, int(filled[best]))


def _is_unknown(table: SeriesTable, name: str) -> NDArray[np.bool_]:
    """Return in which rows the value of a dimension is unknown."""
    shared = table.shared(name)
    return np.isin(shared.codes, shared.find([None]))


def _find_conflict(table: SeriesTable, cells: NDArray[np.int64], name: str) -> bool:
    """Return whether a dimension has more than one value in a cell."""
    shared = table.shared(name)
    numbers, places = np.unique(cells, return_inverse=True)
    return len(np.unique(places * len(shared.values) + shared.codes)) > len(numbers)


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
