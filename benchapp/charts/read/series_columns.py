"""The series of a filter as columns, and which of them have a level of some metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from django.db import connection
from django.db.models import (
    BigIntegerField,
    Case,
    F,
    Func,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql

from benchapp.catalog.dimensions import SERIES_DIMENSIONS
from benchapp.catalog.grammar import Filter
from benchapp.charts.read.axes import Codes, SeriesGroup, SeriesTable, add_group_mask, number_groups
from benchapp.framework.read.binary_columns import fetch_arrays, write_ids
from benchapp.models import TARGET_FIELDS, WORKLOAD_FIELDS, Series
from benchapp.models.filtering import match_series
from benchapp.series.read.selected_levels import (
    NOW,
    LevelRange,
    match_span,
    read_group_badges,
    read_group_levels,
    read_run_groups,
)

# A chart of more series is less clear than one with a narrower filter.
SERIES_MAXIMUM: Final = 20_000
# Few series differ in these columns: each combination is read once, of one series that has it. Key → its columns.
_SHARED: Final[Mapping[str, tuple[str, ...]]] = {
    "target_id": tuple(name for name in TARGET_FIELDS if name in SERIES_DIMENSIONS),
    "workload_id": tuple(name for name in WORKLOAD_FIELDS if name in SERIES_DIMENSIONS),
    "scope_key": ("scope",),
    "direction_key": ("direction", "badges"),
}
# A single volume is one stripe without RAID, also if its host does not state it.
_DERIVED: Final = {
    "stripe_count": "coalesce(stripe_count, CASE WHEN volume_count = 1 THEN 1 END)",
    "raid_level": "coalesce(nullif(raid_level, ''), CASE WHEN volume_count = 1 THEN 'none' END)",
}


def _hash(expression: F | Func) -> Func:
    return Func(expression, Value(0), function="hashtextextended", output_field=BigIntegerField())


# Hashing texts of 20 000 series takes half of their query: numbers are used where they distinguish as well.
_KEYS: Final[Mapping[str, Case | Coalesce]] = {
    "scope_key": Coalesce("host_id", _hash(F("scope"))),
    "direction_key": Case(
        # The first letters of directions differ.
        When(badges=[], then=Func("direction", function="ascii", output_field=BigIntegerField())),
        # A direction has no space, as a badge.
        default=_hash(Func(Value(" "), F("direction"), F("badges"), function="concat_ws")),
    ),
}


def read_table(
    filter: Filter,
    metrics: Sequence[str],
    *,
    groups: Sequence[SeriesGroup] = (),
    maximum: int = SERIES_MAXIMUM,
    facts: Sequence[str] = (),
    span: LevelRange = NOW,
    is_split: bool = True,
) -> tuple[SeriesTable, bool]:
    """Return the measured series of a filter, most recent first, and whether more match than `maximum`.

    groups: adds the columns group and group_mask, a bit for each group that the series matches.
    facts: of the environment, on axes; with them, or with terms for them, a row is a group of runs of a series with the
    same facts: four more queries, up to three for each metric, and maintenance; not without is_split.
    span: only series with a run in it, and whether they have a level then; without an end if there are facts.
    Five queries beside Django's cursor, and one for each metric.
    """
    is_filtering = bool(filter.terms or filter.words or groups) or not span.is_open
    compose = _compose if is_filtering else _compose_unfiltered
    query = compose(filter, maximum=maximum, groups=tuple(groups), span=span)
    arrays = fetch_arrays(sql.SQL(query.text), query.values, columns=query.kinds)
    is_cut = len(arrays["id"]) > maximum
    arrays = {name: array[:maximum] for name, array in arrays.items()}
    keys = {name: arrays.pop(name) for name in _SHARED}
    for metric in dict.fromkeys(metrics):
        arrays[f"{metric}.has_level"] = _find_levels(arrays["id"], metric, span)
    shared = _fetch_shared(arrays["id"], keys)
    if groups:
        shared["group"] = number_groups(arrays["group_mask"], groups)
    table = SeriesTable(arrays, shared)
    if is_split and (facts or filter.fact_terms):
        table = _split_by_facts(table, filter, list(dict.fromkeys(metrics)), facts, span=span)
    return table, is_cut


@dataclass(frozen=True, slots=True)
class _Query:
    """A composed query. kinds: of its columns."""

    text: str
    values: Sequence[Any]
    kinds: Mapping[str, str]


def _compose(filter: Filter, *, maximum: int, groups: tuple[SeriesGroup, ...], span: LevelRange) -> _Query:
    """Return the query of the measured series of a filter; with terms for facts, after separate queries."""
    kinds = {
        "id": "bigint",
        "measurement_count": "integer",
        "last_at": "timestamptz",
        **dict.fromkeys(_SHARED, "bigint"),
    }
    series = (
        Series.objects.filter(last_at__isnull=False)
        .filter(match_series(filter, runs="any"), match_span(span))
        .annotate(**_KEYS)
    )
    if groups:
        series = add_group_mask(series, groups, name="group_mask")
        kinds["group_mask"] = "bigint"
    ordered = series.order_by("-last_at", "-id")[: maximum + 1]
    text, values = ordered.values_list(*kinds).query.sql_with_params()
    return _Query(text, values, kinds)


# The text without a filter depends on nothing else: to compose it takes Django 2 ms.
_compose_unfiltered: Final = lru_cache(maxsize=64)(_compose)


def _split_by_facts(
    table: SeriesTable, filter: Filter, metrics: Sequence[str], facts: Sequence[str], *, span: LevelRange
) -> SeriesTable:
    """Return the table of groups of runs that match the filter's terms for facts, by the values of some facts."""
    places = {series_id: place for place, series_id in enumerate(table.column("id"))}
    groups = read_run_groups(list(places), terms=filter.environment_terms, names=facts)
    levels = {
        metric: {
            number: level
            for number, level in enumerate(read_group_levels(groups, metric, terms=filter.run_terms))
            if level is not None and span.has_run(level.level.last_at)
        }
        for metric in metrics
    }
    values: dict[str, Sequence[Any]] = {
        name: [group.values[index] for group in groups] for index, name in enumerate(facts)
    }
    values["badges"] = read_group_badges(groups, terms=filter.run_terms)
    return table.split([places[group.series_id] for group in groups], values, levels)


def _find_levels(ids: NDArray[np.int64], metric: str, span: LevelRange) -> NDArray[np.bool_]:
    """Return which of these series have a level of a metric in a range; one query.

    The index current_level_is_unique knows the current ones; joined to the series, they would all be sorted.
    """
    if not len(ids):
        return np.zeros(0, np.bool_)
    query = "SELECT series_id FROM benchapp_level WHERE metric = %s AND series_id BETWEEN %s AND %s"
    values = [metric, int(ids.min()), int(ids.max())]
    if span.to_at is None:
        query += " AND is_current"
    else:
        query, values = f"{query} AND from_at < %s", [*values, span.to_at]
    if span.from_at is not None:
        query, values = f"{query} AND to_at >= %s", [*values, span.from_at]
    found = fetch_arrays(sql.SQL(query), values, columns={"series_id": "bigint"})
    return np.isin(ids, found["series_id"])


def _fetch_shared(ids: NDArray[np.int64], keys: Mapping[str, NDArray[Any]]) -> dict[str, Codes]:
    """Return the shared columns, each value read from one series that has it; four queries."""
    shared = {}
    for key, names in _SHARED.items():
        _, first, places = np.unique(keys[key], return_index=True, return_inverse=True)
        own = ids[first].tolist()
        rows = _fetch_rows(own, names)
        for number, name in enumerate(names):
            shared[name] = Codes.of([rows[each][number] for each in own], places)
    return shared


def _fetch_rows(ids: Sequence[int], names: Sequence[str]) -> dict[int, list[Any]]:
    """Return these columns of each series."""
    query = sql.SQL("SELECT id, {names} FROM benchapp_series WHERE id = ANY(%s::bigint[])").format(
        names=sql.SQL(", ").join(map(sql.SQL, (_DERIVED.get(name, name) for name in names)))
    )
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        rows = cursor.execute(query, [write_ids(ids)]).fetchall()
    return {row[0]: list(map(_plain, row[1:])) for row in rows}


def _plain(value: Any) -> Any:
    """Return a hashable value: badges as a tuple; empty text is unknown, None."""
    return tuple(value) if isinstance(value, list) else None if value == "" else value
