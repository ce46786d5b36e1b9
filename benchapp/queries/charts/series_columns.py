"""The series of a filter with what some metrics of each stand at: asked for by version, and read where not kept."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import BigIntegerField, BooleanField, F, FilteredRelation, Func, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Filter
from benchapp.metrics import CATALOGUE
from benchapp.models import TARGET_FIELDS, WORKLOAD_FIELDS, Series
from benchapp.models.filtering import match_series
from benchapp.queries.binary_columns import fetch_arrays
from benchapp.queries.charts.series_cache import Columns, SeriesColumnCache, Versions
from benchapp.queries.charts.series_table import Codes, SeriesTable

# Beyond so many series a picture says less than its filter would.
SERIES_MAXIMUM: Final = 20_000
_LEVELS: Final = ("median", "p10", "p90")
_OWN: Final = "series"
# What PostgreSQL itself knows of a row; of these no table has columns.
_VERSION: Final = {
    "written_by": Func(template='"benchapp_series"."xmin"', output_field=BigIntegerField()),
    "place": Func(template='"benchapp_series"."ctid"', output_field=BigIntegerField()),
}
_KINDS: Final = {"id": "bigint", "written_by": "xid", "place": "tid"}
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


def read_table(
    filter: Filter, metrics: Sequence[str], *, maximum: int = SERIES_MAXIMUM
) -> tuple[SeriesTable, bool]:
    """Return the series that were measured and fit the filter, the freshest first, and whether some are left out.

    One query, beside Django's cursor, for the versions of the rows; of those that this process has not read since they
    were last written (at first all), two more for the series and one for each metric.
    """
    series = Series.objects.filter(last_at__isnull=False).filter(match_series(filter))
    wanted, _ = _fetch(series.order_by("-last_at", "-id")[: maximum + 1], {})
    is_cut = len(wanted.ids) > maximum
    wanted = wanted.take(np.arange(min(maximum, len(wanted.ids))))
    parts = _align([_KEPT[name].read(wanted) for name in (_OWN, *dict.fromkeys(metrics))])
    arrays = {"id": parts[0].versions.ids}
    for part in parts:
        arrays |= part.arrays
    return SeriesTable(arrays, parts[0].shared), is_cut


def _align(parts: Sequence[Columns]) -> Sequence[Columns]:
    """Leave out the rows that one of the parts has not: they were deleted while the parts were read."""
    if len({len(part) for part in parts}) == 1:
        return parts
    ids = parts[0].versions.ids
    for part in parts:
        ids = ids[np.isin(ids, part.versions.ids)]
    return [part.take(np.isin(part.versions.ids, ids)) for part in parts]


def _fetch(series: QuerySet[Series], kinds: Mapping[str, str]) -> tuple[Versions, dict[str, NDArray[Any]]]:
    """Return version and further columns of some series, in their order; kinds: as `fetch_arrays` takes them."""
    columns = {**_KINDS, **kinds}
    text, values = series.annotate(**_VERSION).values_list(*columns).query.sql_with_params()
    arrays = fetch_arrays(sql.SQL(text), values, columns=columns)
    return Versions(*(arrays.pop(name) for name in _KINDS)), arrays


def _select(ids: NDArray[np.int64]) -> QuerySet[Series]:
    """Return these series; their ids are one value of the query, not twenty thousand."""
    wanted = Value(ids.tolist(), output_field=ArrayField(BigIntegerField()))
    is_wanted = Func(
        F("id"), wanted, template="%(expressions)s)", arg_joiner=" = ANY(", output_field=BooleanField()
    )
    return Series.objects.filter(is_wanted, last_at__isnull=False)


def _load_series(ids: NDArray[np.int64]) -> Columns:
    kinds = {"measurement_count": "integer", "last_at": "timestamptz", **dict.fromkeys(_SHARED, "bigint")}
    versions, arrays = _fetch(_select(ids).annotate(**_KEYS), kinds)
    keys = {name: arrays.pop(name) for name in _SHARED}
    return Columns(versions, arrays, _fetch_shared(versions.ids, keys))


def _fetch_shared(ids: NDArray[np.int64], keys: Mapping[str, NDArray[Any]]) -> dict[str, Codes]:
    """Return the columns that series share, each fetched of one series that has it."""
    found = {key: np.unique(keys[key], return_index=True, return_inverse=True) for key in _SHARED}
    firsts = {key: ids[first] for key, (_, first, _) in found.items()}
    rows = _fetch_rows(sorted({each for some in firsts.values() for each in some.tolist()}))
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


def _load_standings(ids: NDArray[np.int64], *, metric: str) -> Columns:
    """Return what a metric of some series stands at; n is 0 where a series has no value of it."""
    relation = FilteredRelation("levels", condition=Q(levels__metric=metric, levels__is_current=True))
    parts: dict[str, Any] = {"n": Coalesce(F("standing__n"), Value(0))}
    parts |= {level: Coalesce(F(f"standing__{level}"), Value(float("nan"))) for level in _LEVELS}
    parts["at"] = Coalesce(F("standing__to_at"), F("last_at"))
    kinds = {"n": "integer", **dict.fromkeys(_LEVELS, "double precision"), "at": "timestamptz"}
    versions, arrays = _fetch(_select(ids).annotate(standing=relation).annotate(**parts), kinds)
    names = {"at": f"{metric}.last_at"}
    return Columns(versions, {names.get(name, f"{metric}.{name}"): each for name, each in arrays.items()}, {})


def make_kept() -> dict[str, SeriesColumnCache]:
    """Return where the columns of series are kept: their own, and those of each metric by its name; empty."""
    standings = {metric: SeriesColumnCache(partial(_load_standings, metric=metric)) for metric in CATALOGUE}
    return {_OWN: SeriesColumnCache(_load_series), **standings}


_KEPT: Final = make_kept()
