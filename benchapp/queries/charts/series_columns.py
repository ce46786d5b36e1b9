"""The series of a filter as columns, and which of them have a level of some metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from django.db import connection
from django.db.models import BigIntegerField, Exists, F, FilteredRelation, Func, OuterRef, Q, QuerySet, Value
from numpy.typing import NDArray
from psycopg import Cursor as PsycopgCursor
from psycopg import sql

from benchapp.dimensions import SERIES_DIMENSIONS
from benchapp.grammar import Filter
from benchapp.models import TARGET_FIELDS, WORKLOAD_FIELDS, Level, Series
from benchapp.models.filtering import match_series
from benchapp.queries.binary_columns import fetch_arrays
from benchapp.queries.charts.axes import SeriesGroup, add_group_mask, number_groups
from benchapp.queries.charts.series_table import Codes, SeriesTable
from benchapp.queries.series.environment_levels import (
    read_group_badges,
    read_group_levels,
    read_run_groups,
)
from benchapp.queries.series.level_range import NOW, LevelRange, match_span

# A chart of more series is less clear than one with a narrower filter.
SERIES_MAXIMUM: Final = 20_000
# Few series differ in these columns: each combination is read once, of one series that has it. Key → its columns.
_SHARED: Final[Mapping[str, tuple[str, ...]]] = {
    "target_id": tuple(name for name in TARGET_FIELDS if name in SERIES_DIMENSIONS),
    "workload_id": tuple(name for name in WORKLOAD_FIELDS if name in SERIES_DIMENSIONS),
    "scope_key": ("scope",),
    "direction_key": ("direction", "badges"),
}
_KEYS: Final[Mapping[str, Func]] = {
    name: Func(expression, Value(0), function="hashtextextended", output_field=BigIntegerField())
    for name, expression in (
        ("scope_key", F("scope")),
        # A direction has no space, as a badge.
        ("direction_key", Func(Value(" "), F("direction"), F("badges"), function="concat_ws")),
    )
}


def read_table(
    filter: Filter,
    metrics: Sequence[str],
    *,
    groups: Sequence[SeriesGroup] = (),
    maximum: int = SERIES_MAXIMUM,
    facts: Sequence[str] = (),
    span: LevelRange = NOW,
) -> tuple[SeriesTable, bool]:
    """Return the measured series of a filter, most recent first, and whether more match than `maximum`.

    groups: adds the columns group and group_mask, a bit for each group that the series matches.
    facts: of the environment, on axes; with them, or with terms for them, a row is a group of runs of a series with the
    same facts: four more queries, up to three for each metric, and maintenance.
    span: only series with a run in it, and whether they have a level then; without an end if there are facts.
    Two queries beside Django's cursor. 4 000 series with one metric: about 6 ms, of which PostgreSQL takes 4.
    """
    is_filtering = bool(filter.terms or filter.words or groups) or not span.is_open
    compose = _compose if is_filtering else _compose_unfiltered
    query = compose(filter, tuple(dict.fromkeys(metrics)), maximum=maximum, groups=tuple(groups), span=span)
    arrays = fetch_arrays(sql.SQL(query.text), query.values, columns=query.kinds)
    is_cut = len(arrays["id"]) > maximum
    arrays = {query.names.get(name, name): array[:maximum] for name, array in arrays.items()}
    keys = {name: arrays.pop(name) for name in _SHARED}
    shared = _fetch_shared(arrays["id"], keys)
    if groups:
        shared["group"] = number_groups(arrays["group_mask"], groups)
    table = SeriesTable(arrays, shared)
    if facts or filter.fact_terms:
        table = _split_by_facts(table, filter, list(dict.fromkeys(metrics)), facts, span=span)
    return table, is_cut


@dataclass(frozen=True, slots=True)
class _Query:
    """A composed query. kinds: of its columns; names: of the columns of the table that are named otherwise."""

    text: str
    values: Sequence[Any]
    kinds: Mapping[str, str]
    names: Mapping[str, str]


def _compose(
    filter: Filter,
    metrics: tuple[str, ...],
    *,
    maximum: int,
    groups: tuple[SeriesGroup, ...],
    span: LevelRange,
) -> _Query:
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
    names: dict[str, str] = {}
    for number, metric in enumerate(metrics):
        column = f"has_level_{number}"
        series = _join_level(series, metric, column=column, span=span)
        kinds[column] = "boolean"
        names[column] = f"{metric}.has_level"
    ordered = series.order_by("-last_at", "-id")[: maximum + 1]
    text, values = ordered.values_list(*kinds).query.sql_with_params()
    return _Query(text, values, kinds, names)


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


def _join_level(series: QuerySet[Series], metric: str, *, column: str, span: LevelRange) -> QuerySet[Series]:
    """Add whether a series has a level of a metric in a range; the index current_level_is_unique knows current ones."""
    if span.to_at is not None:
        begun = Level.objects.filter(series=OuterRef("pk"), metric=metric, from_at__lt=span.to_at)
        return series.annotate(
            **{column: Exists(begun if span.from_at is None else begun.filter(to_at__gte=span.from_at))}
        )
    alias = f"of_{column}"
    condition = Q(levels__metric=metric, levels__is_current=True)
    if span.from_at is not None:
        condition &= Q(levels__to_at__gte=span.from_at)
    relation = FilteredRelation("levels", condition=condition)
    return series.annotate(**{alias: relation}).annotate(**{column: Q(**{f"{alias}__series__isnull": False})})


def _fetch_shared(ids: NDArray[np.int64], keys: Mapping[str, NDArray[Any]]) -> dict[str, Codes]:
    """Return the shared columns, each value read from one series that has it; one query."""
    found = {key: np.unique(keys[key], return_index=True, return_inverse=True) for key in _SHARED}
    firsts = {key: ids[first].tolist() for key, (_, first, _) in found.items()}
    rows = _fetch_rows(sorted({each for some in firsts.values() for each in some}))
    return {
        name: Codes.of([rows[each][name] for each in firsts[key]], found[key][2])
        for key, names in _SHARED.items()
        for name in names
    }


def _fetch_rows(ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    names = [name for names in _SHARED.values() for name in names]
    if not ids:
        return {}
    query = sql.SQL("SELECT id, {names} FROM benchapp_series WHERE id = ANY(%s)").format(
        names=sql.SQL(", ").join(map(sql.Identifier, names))
    )
    with connection.wrap_database_errors, PsycopgCursor(connection.connection) as cursor:
        rows = cursor.execute(query, [list(ids)]).fetchall()
    values = {row[0]: dict(zip(names, map(_plain, row[1:]), strict=True)) for row in rows}
    for each in values.values():
        # A single volume is one stripe without RAID, also if its host does not state it.
        each["stripe_count"] = each["stripe_count"] or (1 if each["volume_count"] == 1 else None)
        each["raid_level"] = each["raid_level"] or ("none" if each["volume_count"] == 1 else None)
    return values


def _plain(value: Any) -> Any:
    """Return a hashable value: badges as a tuple; empty text is unknown, None."""
    return tuple(value) if isinstance(value, list) else None if value == "" else value
