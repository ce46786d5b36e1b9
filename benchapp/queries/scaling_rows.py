"""The series of a filter with what one metric of each stands at, as columns: what scaling pictures are chosen from.

Columns and not rows, numbers and not objects: what a picture is chosen by is asked of 20 000 series at once, one
dimension after the other. A dimension is kept as codes into its few values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

import numpy as np
from django.db import connection
from django.db.models import BigIntegerField, F, FilteredRelation, Func, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql

from benchapp.dimensions import DIMENSIONS, name_pattern
from benchapp.grammar import Filter
from benchapp.grammar import Value as DimensionValue
from benchapp.models import TARGET_FIELDS, WORKLOAD_FIELDS, Series
from benchapp.models.filtering import match_series
from benchapp.queries.columns import fetch_arrays

# Beyond so many series a picture says less than its filter would.
SERIES_MAXIMUM: Final = 20_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEVELS: Final = ("median", "p10", "p90")
# What series share is fetched of one series each: the name of the key → the columns that it stands for.
_SHARED: Final[Mapping[str, tuple[str, ...]]] = {
    "target_id": tuple(name for name in TARGET_FIELDS if name in DIMENSIONS),
    "workload_id": tuple(name for name in WORKLOAD_FIELDS if name in DIMENSIONS),
    "scope_key": ("scope",),
    "direction_key": ("direction",),
    "badges_key": ("badges",),
}
_KEYS: Final[Mapping[str, Func]] = {
    name: Func(expression, Value(0), function="hashtextextended", output_field=BigIntegerField())
    for name, expression in (
        ("scope_key", F("scope")),
        ("direction_key", F("direction")),
        ("badges_key", Func(F("badges"), Value(" "), function="array_to_string")),
    )
}


@dataclass(frozen=True, slots=True)
class Codes:
    """One column as places in its values, which are all different."""

    codes: NDArray[np.int64]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, own: Sequence[Any], places: NDArray[np.int64]) -> Self:
        """Return the column whose row i has own[places[i]]."""
        known: dict[Any, int] = {}
        codes = [known.setdefault(value, len(known)) for value in own]
        return cls(np.array(codes, dtype=np.int64)[places], tuple(known))

    def find(self, values: Iterable[Any]) -> NDArray[np.int64]:
        """Return the codes of some values; those that there are not are left out."""
        wanted = set(values)
        return np.array([code for code, value in enumerate(self.values) if value in wanted], dtype=np.int64)


class SeriesTable:
    """Series as columns of equal length, the freshest first.

    Names: those of dimensions, id, measurement_count, last_at, badges, and for each metric METRIC.n, METRIC.median,
    METRIC.p10, METRIC.p90, METRIC.last_at (None where the series has no value).
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], shared: Mapping[str, Codes]) -> None:
        self._arrays = arrays
        self._shared = dict(shared)
        self._columns: dict[str, Sequence[Any]] = {}
        self.length = len(arrays["id"])

    @property
    def places(self) -> range:
        """Return the places of all rows."""
        return range(self.length)

    def array(self, name: str) -> NDArray[Any]:
        """Return a column of numbers: id, measurement_count, last_at (microseconds since 1970), METRIC.n (0: none)."""
        return self._arrays[name]

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
        """Return the table of these rows only; places: their places, or an array that is true for them."""
        chosen = places if isinstance(places, np.ndarray) else np.fromiter(places, dtype=np.int64)
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        arrays = {name: array[chosen] for name, array in self._arrays.items()}
        shared = {name: Codes(each.codes[chosen], each.values) for name, each in self._shared.items()}
        return SeriesTable(arrays, shared)

    def distinct(self, name: str) -> set[DimensionValue | None]:
        """Return the values that a dimension has; None is unknown."""
        shared = self.shared(name)
        counts = np.bincount(shared.codes, minlength=len(shared.values)).tolist()
        return {value for value, count in zip(shared.values, counts, strict=True) if count}

    def _list(self, name: str) -> Sequence[Any]:
        if name not in self._arrays:
            shared = self.shared(name)
            return [shared.values[code] for code in shared.codes.tolist()]
        values = self._arrays[name].tolist()
        metric, _, part = name.rpartition(".")
        if name == "last_at" or part == "last_at":
            values = [_EPOCH + timedelta(microseconds=count) for count in values]
        if not metric:
            return list(values)
        counts = self._arrays[f"{metric}.n"].tolist()
        return [value if count else None for value, count in zip(values, counts, strict=True)]

    def _derive(self, name: str) -> Codes:
        if name == "pattern":
            rw, direction = self.shared("rw"), self.shared("direction")
            both, places = np.unique(rw.codes * len(direction.values) + direction.codes, return_inverse=True)
            own = [divmod(code, len(direction.values)) for code in both.tolist()]
            return Codes.of([name_pattern(rw.values[one], direction.values[two]) for one, two in own], places)
        scope, prefix = self.shared("scope"), f"{name}:"
        own = [each[len(prefix) :] if each.startswith(prefix) else None for each in scope.values]
        return Codes.of(own, scope.codes)


def read_table(
    filter: Filter, metrics: Sequence[str], *, maximum: int = SERIES_MAXIMUM
) -> tuple[SeriesTable, bool]:
    """Return the series that were measured and fit the filter, the freshest first, and whether some are left out.

    Two queries, beside Django's cursor: the numbers of all, and of what they share (layout, workload, whose they are)
    one series each.
    """
    arrays = _fetch(filter, metrics, limit=maximum + 1)
    is_cut = len(arrays["id"]) > maximum
    arrays = {name: array[:maximum] for name, array in arrays.items()}
    return SeriesTable(arrays, _fetch_shared(arrays)), is_cut


def _fetch(filter: Filter, metrics: Sequence[str], *, limit: int) -> dict[str, NDArray[Any]]:
    kinds = {"id": "bigint", "measurement_count": "integer", "last_at": "timestamptz"}
    kinds |= dict.fromkeys(_SHARED, "bigint")
    parts: dict[str, Any] = {}
    names = dict(zip(kinds, kinds, strict=True))
    for place, metric in enumerate(metrics):
        way = f"standing_{place}__"
        parts[f"n_{place}"] = Coalesce(F(f"{way}n"), Value(0))
        parts |= {f"{level}_{place}": Coalesce(F(f"{way}{level}"), Value(float("nan"))) for level in _LEVELS}
        parts[f"at_{place}"] = Coalesce(F(f"{way}last_at"), F("last_at"))
        kinds |= {f"n_{place}": "integer", f"at_{place}": "timestamptz"}
        kinds |= dict.fromkeys((f"{level}_{place}" for level in _LEVELS), "double precision")
        names |= {f"{level}_{place}": f"{metric}.{level}" for level in ("n", *_LEVELS)}
        names[f"at_{place}"] = f"{metric}.last_at"
    series = _select(filter, metrics).annotate(**_KEYS, **parts).order_by("-last_at", "-id")
    text, values = series.values_list(*kinds)[:limit].query.sql_with_params()
    arrays = fetch_arrays(sql.SQL(text), values, columns=kinds)
    return {names[name]: array for name, array in arrays.items()}


def _select(filter: Filter, metrics: Sequence[str]) -> QuerySet[Series]:
    relations = {
        f"standing_{place}": FilteredRelation("summaries", condition=Q(summaries__metric=metric))
        for place, metric in enumerate(metrics)
    }
    return Series.objects.filter(last_at__isnull=False).filter(match_series(filter)).annotate(**relations)


def _fetch_shared(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Codes]:
    """Return the columns that series share, each fetched of one series that has it."""
    found = {key: np.unique(arrays[key], return_index=True, return_inverse=True) for key in _SHARED}
    firsts = {key: arrays["id"][first] for key, (_, first, _) in found.items()}
    rows = _fetch_rows(sorted({each for ids in firsts.values() for each in ids.tolist()}))
    columns: dict[str, Codes] = {}
    for key, names in _SHARED.items():
        having = [rows[each] for each in firsts[key].tolist()]
        for name in names:
            columns[name] = Codes.of([row[name] for row in having], found[key][2])
    return columns


def _fetch_rows(ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    names = [name for names in _SHARED.values() for name in names]
    if not ids:
        return {}
    text, values = Series.objects.filter(pk__in=ids).values_list("id", *names).query.sql_with_params()
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        rows = cursor.execute(text, values).fetchall()
    return {row[0]: dict(zip(names, map(_plain, row[1:]), strict=True)) for row in rows}


def _plain(value: Any) -> Any:
    """Return what can be compared: badges as a tuple; empty text is as unknown as none."""
    return tuple(value) if isinstance(value, list) else None if value == "" else value
