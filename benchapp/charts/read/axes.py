"""The axes of a chart: one dimension, several combined ("volume_size_bytes,volume_type"), or named groups.

A table of series by column, from which Scaling and Matrix choose axes and fixed dimensions. Columns instead of rows:
the choice reads one dimension of 20 000 series after the other. A dimension is an array of codes of its few values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Final, Self

import numpy as np
from django.db.models import BigIntegerField, Case, QuerySet, When
from django.db.models import Value as Constant
from numpy.typing import NDArray

from benchapp.catalog.dimensions import CONDITIONS, DIMENSIONS, Dimension, find_dimension, name_pattern
from benchapp.catalog.grammar import BadFilter, Filter, Value, parse_filter, write_filter, write_value
from benchapp.catalog.grammar import Value as DimensionValue
from benchapp.catalog.metrics import Unit, format_value, lower_label
from benchapp.framework.read.binary_columns import from_us
from benchapp.models import Series
from benchapp.models.filtering import match_series
from benchapp.series.read.selected_levels import GroupLevel
from benchapp.series.read.titles import describe_setting, describe_value, order_value


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

    With facts of the environment a row is a group of runs of a series. id is the number of the row, series_id is the
    id of its series. group_levels has the levels by metric and id; None without such facts: then both ids are the same.
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
        group_levels: Mapping[str, Mapping[int, Any]],
    ) -> "SeriesTable":
        """Return a table of groups of runs. places: the row of each group's series; facts: values, and badges."""
        table = self.select(np.array(places, dtype=np.int64))
        numbers = np.arange(len(places), dtype=np.int64)
        arrays = {**table._arrays, "series_id": table.array("series_id"), "id": numbers}
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


PARTS_MAXIMUM: Final = 3
# The axis of groups that a reader names by filters (`group=NAME=FILTER`); a value is a name.
GROUP: Final = "group"
GROUPS_MAXIMUM: Final = 12
_GROUP_NAME_MAXIMUM: Final = 60
_GROUP_DIMENSION: Final = Dimension(GROUP, "Group", "text", "target")
_SEPARATOR: Final = ","
_LOG_POSITIONS: Final = ("count", "size")
_JOINT: Final = " · "

# Of conditions, by kind; times are short, in ns.
CONDITION_UNITS: Final[Mapping[str, Unit]] = {
    "count": "count",
    "size": "bytes",
    "percent": "percent",
    "seconds": "ns",
}

# A value of an axis: of one dimension, or one for each combined dimension; None: unknown.
AxisValue = Value | tuple[Value | None, ...] | None


class BadAxis(Exception):
    """Not the name of an axis; the message has the available ones."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis and its values in the chart, in order.

    dimension: a combined one is text. labels: for headers, without the parts that all values have in common;
    settings: for sentences; ticks: the parts of each label.
    """

    dimension: Dimension
    values: tuple[AxisValue, ...]
    labels: tuple[str, ...]
    settings: tuple[str, ...]
    ticks: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """Return the name as in the address: that of a dimension, or several separated by commas."""
        return self.dimension.name

    @property
    def positions(self) -> list[float]:
        """Return the place of each value: logarithmic for sizes and counts, evenly spaced for names."""
        numbers = [float(value) for value in self.values if isinstance(value, int | float)]
        if not self.dimension.is_continuous or len(numbers) != len(self.values):
            return [float(place) for place in range(len(self.values))]
        if self.dimension.kind in _LOG_POSITIONS and all(number > 0 for number in numbers):
            return [log2(number) for number in numbers]
        return numbers


def find_axis(text: str) -> str:
    """Return the full name of an axis from full or short names of dimensions. Raises BadAxis."""
    parts = [part.strip() for part in text.split(_SEPARATOR)]
    if GROUP in parts:
        if len(parts) > 1:
            raise BadAxis("groups cannot be combined with dimensions; use color or panels for these")
        return GROUP
    if len(parts) > PARTS_MAXIMUM:
        raise BadAxis(f"{len(parts)} dimensions combined, at most {PARTS_MAXIMUM} allowed")
    names = []
    for part in parts:
        dimension = find_dimension(part)
        if dimension is None:
            raise BadAxis(f"{part[:60]!r} is not a valid dimension; available: {', '.join(DIMENSIONS)}")
        names.append(dimension.name)
    if len(names) > len(set(names)):
        raise BadAxis("combined dimensions must be different")
    return _SEPARATOR.join(names)


def split_axis(name: str) -> tuple[str, ...]:
    """Return the dimensions of an axis."""
    return tuple(name.split(_SEPARATOR))


def make_axis(name: str, values: Sequence[AxisValue]) -> Axis:
    """Return an axis with its labels; name: full, as of `find_axis`."""
    parts = split_axis(name)
    if name == GROUP:
        names = tuple(str(value) for value in values)
        return Axis(_GROUP_DIMENSION, tuple(values), names, names, tuple((each,) for each in names))
    if name in CONDITIONS:
        dimension = CONDITIONS[name]
        labels = tuple(format_value(_number(value), CONDITION_UNITS[dimension.kind]) for value in values)
        settings = tuple(f"{lower_label(dimension.label)} {label}" for label in labels)
        return Axis(dimension, tuple(values), labels, settings, tuple((label,) for label in labels))
    if len(parts) == 1:
        labels = tuple(describe_value(name, _single(value)) for value in values)
        settings = tuple(describe_setting(name, _single(value)) for value in values)
        return Axis(DIMENSIONS[name], tuple(values), labels, settings, tuple((label,) for label in labels))
    shown = _find_varying(values, len(parts))
    are_numbers = sum(DIMENSIONS[parts[place]].is_number for place in shown) > 1
    own = [value if isinstance(value, tuple) else (None,) * len(parts) for value in values]
    described = [[(parts[place], value[place]) for place in shown] for value in own]
    ticks = tuple(tuple(_describe_part(*part, is_full=are_numbers) for part in each) for each in described)
    settings = tuple(
        _JOINT.join(
            _describe_part(*part, is_full=are_numbers or DIMENSIONS[part[0]].kind == "count") for part in each
        )
        for each in described
    )
    labels = tuple(_JOINT.join(tick) for tick in ticks)
    return Axis(_combine_dimensions(name), tuple(values), labels, settings, ticks)


def order_axis_value(name: str, value: AxisValue) -> tuple[Any, ...]:
    """Return the sort key of a value, by its parts in turn; unknown last."""
    parts = split_axis(name)
    if name in CONDITIONS:
        return (value is None, _number(value) or 0.0)
    if len(parts) == 1:
        return order_value(name, _single(value))
    if not isinstance(value, tuple):
        return (1,)
    return (0, *(order_value(part, each) for part, each in zip(parts, value, strict=True)))


def write_axis_value(name: str, value: AxisValue) -> str | None:
    """Return a value in filter syntax: "4k", text unchanged; a combined one as terms; None is unknown."""
    if isinstance(value, tuple):
        return write_filter(add_axis_value(Filter(), name, value))
    if name in CONDITIONS:
        return None if value is None else f"{_number(value):.6g}"
    return value if value is None or isinstance(value, str) else write_value(DIMENSIONS[name], value)


def add_axis_value(filter: Filter, name: str, value: AxisValue) -> Filter:
    """Return the filter of the series with this value."""
    parts = split_axis(name)
    own = value if isinstance(value, tuple) else (value,) * len(parts)
    for part, each in zip(parts, own, strict=True):
        filter = filter.with_value(part, each)
    return filter


def _number(value: AxisValue) -> float | None:
    return value if isinstance(value, int | float) else None


def _single(value: AxisValue) -> Value | None:
    return None if isinstance(value, tuple) else value


def _find_varying(values: Sequence[AxisValue], count: int) -> tuple[int, ...]:
    """Return the places of the parts with several values; all of them if no part has."""
    known = [value for value in values if isinstance(value, tuple)]
    varying = tuple(place for place in range(count) if len({value[place] for value in known}) > 1)
    return varying or tuple(range(count))


def _describe_part(name: str, value: Value | None, *, is_full: bool) -> str:
    """Describe a part; is_full: with what it counts, as another part is a number too."""
    has_unit = value is None or (is_full and DIMENSIONS[name].is_number)
    return describe_setting(name, value) if has_unit else describe_value(name, value)


def _combine_dimensions(name: str) -> Dimension:
    first, *others = (DIMENSIONS[part] for part in split_axis(name))
    label = ", ".join([first.label, *(lower_label(other.label) for other in others)])
    return Dimension(name, label, "text", first.group)


class BadGroup(Exception):
    """A group that cannot be read; the message names it and what is wrong."""


@dataclass(frozen=True, slots=True)
class SeriesGroup:
    """The series of a filter under a name. text: as in the address."""

    name: str
    filter: Filter
    text: str


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many series with a value match a group, and in how many of them the chart has it.

    others: of its series, those that an earlier group took, by the name of that group.
    """

    group: SeriesGroup
    matching: int
    shown: int
    others: tuple[tuple[str, int], ...] = ()


def parse_group(text: str) -> SeriesGroup:
    """Read "NAME = FILTER"; an empty filter matches all series. Raises BadGroup."""
    name, equals, filter = (part.strip() for part in text.replace("\x00", "").partition("="))
    name = " ".join(name.split())
    if not equals or not name:
        raise BadGroup(f"{text[:60]!r} is not NAME = FILTER; write it as small = file_size:20G")
    if len(name) > _GROUP_NAME_MAXIMUM:
        raise BadGroup(f"the name {name[:40]!r}… is longer than {_GROUP_NAME_MAXIMUM} characters")
    try:
        return SeriesGroup(name, parse_filter(filter), text)
    except BadFilter as error:
        raise BadGroup(f"{name!r}: {error}") from error


def parse_groups(texts: Sequence[str]) -> tuple[tuple[SeriesGroup, ...], dict[int, str]]:
    """Read groups in order; return the valid ones, and what is wrong with the others, by index."""
    groups: dict[str, SeriesGroup] = {}
    errors: dict[int, str] = {}
    for place, text in enumerate(texts):
        try:
            group = parse_group(text)
        except BadGroup as error:
            errors[place] = str(error)
            continue
        if group.name in groups:
            errors[place] = f"{group.name!r} is the name of an earlier group; names must be different"
        elif len(groups) == GROUPS_MAXIMUM:
            errors[place] = f"{group.name!r} is left out: at most {GROUPS_MAXIMUM} groups are allowed"
        else:
            groups[group.name] = group
    return tuple(groups.values()), errors


def add_group_mask(series: QuerySet[Series], groups: Sequence[SeriesGroup], *, name: str) -> QuerySet[Series]:
    """Add a column with a bit for each group that a series matches: 1 for the first, 2 for the second, …"""
    mask = sum(
        (
            _match(group, Constant(1 << place, output_field=BigIntegerField()))
            for place, group in enumerate(groups)
        ),
        start=Constant(0, output_field=BigIntegerField()),
    )
    return series.annotate(**{name: mask})


def _match(group: SeriesGroup, bit: Constant) -> Case | Constant:
    condition = match_series(group.filter)
    # Django takes no empty condition.
    return Case(When(condition, then=bit), default=Constant(0)) if condition else bit


def number_groups(masks: NDArray[np.int64], groups: Sequence[SeriesGroup]) -> Codes:
    """Return the column of group names: the first group that each series matches, None if there is none."""
    codes = np.full(len(masks), len(groups), dtype=np.int64)
    for place in reversed(range(len(groups))):
        codes[(masks >> place) & 1 == 1] = place
    return Codes(codes, (*(group.name for group in groups), None))
