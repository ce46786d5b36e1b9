"""Available values of a dimension among the series that match the rest of a filter, or among the newest runs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Q, QuerySet

from benchapp.catalog.dimensions import Dimension, name_pattern
from benchapp.catalog.grammar import Filter, Test, Value, write_value
from benchapp.models import DirectionName, Run, Series, SeriesEnvironment
from benchapp.models.filtering import FIO_PREFIX, match_environment, match_runs, match_series, run_fact
from benchapp.series.read.titles import order_value

# Only the most frequent values are considered.
_GROUPS_MAXIMUM: Final = 1000
# Profiles, sweeps and labels are counted in the newest runs, as a filter may match millions. 15 ms.
RUNS_COUNTED: Final = 10_000
# Hosts name labels as they like: 50 for each run.
_LABELS_MAXIMUM: Final = 500
_SCOPES: Final = ("host", "pool")
_LAYOUT_TEXTS: Final = ("target_name", "volume_type", "filesystem", "raid_level", "instance_type")


@dataclass(frozen=True, slots=True)
class FacetValue:
    """One value, None if unknown. is_chosen: the filter contains it.

    series_count: None for profiles, sweeps and labels; run_count: None for all others.
    """

    value: Value | None
    series_count: int | None
    is_chosen: bool
    run_count: int | None = None


@dataclass(frozen=True, slots=True)
class Facet:
    """The most frequent values of a dimension. value_count: total number of values, at most 1 000.

    Of profiles, sweeps and labels value_count is at most RUNS_COUNTED. is_partial: more runs match than were
    counted, so that older ones may have other values.
    """

    values: tuple[FacetValue, ...]
    value_count: int
    is_partial: bool = False


def read_facet(dimension: Dimension, filter: Filter, *, prefix: str = "", limit: int = 20) -> Facet:
    """Return the values among series that match the filter without its terms for this dimension; one query.

    Facts of the environment are those of any run of the series, so that the values before an upgrade are among them.
    prefix: how the value begins as the filter's language writes it, whatever the case. Numbers come in their order,
    text by how many series have it. Of profiles, sweeps and labels the values of the newest RUNS_COUNTED runs that
    match.
    """
    if dimension.group == "run":
        return _read_run_facet(dimension, filter, prefix=prefix, limit=limit)
    columns = _list_columns(dimension)
    rows = _select_rows(dimension, filter.without(dimension.name))
    if dimension.kind == "text" and dimension.name != "pattern":
        rows = rows.filter(_begins(dimension, columns[0], prefix))
    counted = Count("series", distinct=True) if dimension.is_environment else Count("id")
    groups = (
        rows.order_by()
        .values(*columns)
        .annotate(count=counted)
        .order_by("-count", *columns)
        .values_list(*columns, "count")[:_GROUPS_MAXIMUM]
    )
    counts = _count(dimension, groups)
    shown, fitting = _choose(dimension, filter, counts, prefix=prefix, limit=limit)
    return Facet(
        tuple(FacetValue(value, counts[value], is_chosen) for value, is_chosen in shown), value_count=fitting
    )


def list_label_names() -> tuple[str, ...]:
    """Return the 500 most frequent labels of the newest RUNS_COUNTED runs, in alphabetical order; one query."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT jsonb_object_keys(labels) AS name FROM (SELECT labels FROM benchapp_run"
            " ORDER BY started_at DESC, id DESC LIMIT %s) AS newest WHERE labels <> '{}'"
            " GROUP BY name ORDER BY count(*) DESC, name LIMIT %s",
            [RUNS_COUNTED, _LABELS_MAXIMUM],
        )
        return tuple(sorted(row[0] for row in cursor.fetchall()))


@dataclass(frozen=True, slots=True)
class KnownValue:
    """A value of text of the installation. dimension: its name, or block_size_text, which is none."""

    dimension: str
    value: str


def list_known_values() -> tuple[str, ...]:
    """Return the values of text that words of a filter occur in: hosts, pools, layouts, workloads; one query."""
    return tuple(sorted({*DirectionName.values, *(known.value for known in read_known_values())}))


def read_known_values() -> list[KnownValue]:
    """Return the values of text of hosts, pools, layouts and workloads, in the order of their text; one query.

    The tables of hosts, layouts and workloads are small: 10 ms for 10 000 hosts.
    """
    layouts = ", ".join(f"('{name}', {name})" for name in _LAYOUT_TEXTS)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 'host', name FROM benchapp_host UNION SELECT 'pool', pool FROM benchapp_host"  # noqa: S608
            f" UNION SELECT one.* FROM benchapp_target CROSS JOIN LATERAL (VALUES {layouts}) AS one"
            " UNION SELECT one.* FROM benchapp_workload CROSS JOIN LATERAL (VALUES ('rw', rw), ('engine', engine),"
            " ('block_size_text', block_size_text)) AS one"
        )
        return sorted(
            (KnownValue(*row) for row in cursor.fetchall() if row[1]), key=lambda known: known.value.lower()
        )


def _read_run_facet(dimension: Dimension, filter: Filter, *, prefix: str, limit: int) -> Facet:
    runs = Run.objects.filter(match_runs(filter.without(dimension.name))).order_by("-started_at", "-id")
    column = run_fact(dimension.name)
    values = list(runs.annotate(fact=column).values_list("fact", flat=True)[: RUNS_COUNTED + 1])
    counts: Counter[Value | None] = Counter(value or None for value in values[:RUNS_COUNTED])
    shown, fitting = _choose(dimension, filter, counts, prefix=prefix, limit=limit)
    return Facet(
        tuple(FacetValue(value, None, is_chosen, counts[value]) for value, is_chosen in shown),
        value_count=fitting,
        is_partial=len(values) > RUNS_COUNTED,
    )


def _choose(
    dimension: Dimension, filter: Filter, counts: Counter[Value | None], *, prefix: str, limit: int
) -> tuple[list[tuple[Value | None, bool]], int]:
    """Return the values to show and whether the filter has them, and how many fit the prefix."""
    fitting = [value for value in counts if _has_prefix(dimension, value, prefix.lower())]
    chosen = _list_chosen(filter, dimension.name)
    shown = sorted(fitting, key=lambda value: (-counts[value], order_value(dimension.name, value)))[:limit]
    if dimension.is_number:
        shown.sort(key=lambda value: order_value(dimension.name, value))
    return [(value, _fold(value) in chosen) for value in shown], len(fitting)


def _select_rows(dimension: Dimension, filter: Filter) -> QuerySet[Any]:
    """Return the series of a filter; for a fact of the environment their environments."""
    if not dimension.is_environment:
        return Series.objects.filter(last_at__isnull=False).filter(match_series(filter, runs="any"))
    terms = filter.environment_terms
    rest = filter.without_facts().with_terms(filter.run_terms)
    return SeriesEnvironment.objects.filter(
        match_series(rest, "series__"), match_environment(terms, "environment__")
    )


def _list_columns(dimension: Dimension) -> tuple[str, ...]:
    if dimension.is_environment:
        return (f"environment__{dimension.name}",)
    if dimension.name in _SCOPES:
        return ("scope",)
    return ("rw", "direction") if dimension.name == "pattern" else (dimension.name,)


def _begins(dimension: Dimension, column: str, prefix: str) -> Q:
    if dimension.name in _SCOPES:
        kind = Q(scope__startswith=f"{dimension.name}:")
        return kind & Q(scope__istartswith=f"{dimension.name}:{prefix}") if prefix else kind
    if not prefix:
        return Q()
    is_unknown = Q(**{f"{column}__isnull": True}) | Q(**{column: ""})
    begins = Q(**{f"{column}__istartswith": prefix})
    if dimension.name == "fio_version":
        begins |= Q(**{f"{column}__istartswith": f"{FIO_PREFIX}{prefix}"})
    return begins | is_unknown if "unknown".startswith(prefix.lower()) else begins


def _count(dimension: Dimension, groups: Iterable[tuple[Any, ...]]) -> Counter[Value | None]:
    counts: Counter[Value | None] = Counter()
    for *parts, count in groups:
        counts[_make_value(dimension, parts)] += count
    return counts


def _make_value(dimension: Dimension, parts: list[Any]) -> Value | None:
    if dimension.name in _SCOPES:
        return str(parts[0]).partition(":")[2]
    if dimension.name == "pattern":
        return name_pattern(*parts)
    # Empty text is unknown, too.
    return None if parts[0] == "" else parts[0]


def _has_prefix(dimension: Dimension, value: Value | None, prefix: str) -> bool:
    text = _format_value(dimension, value).lower()
    if dimension.name == "fio_version" and not prefix.startswith(FIO_PREFIX[0]):
        text = text.removeprefix(FIO_PREFIX)
    return text.startswith(prefix)


def _format_value(dimension: Dimension, value: Value | None) -> str:
    return str(value) if isinstance(value, str) else write_value(dimension, value)


def _list_chosen(filter: Filter, name: str) -> set[Value | None]:
    tests: list[Test] = [
        test for term in filter.terms if term.dimension == name and not term.is_negated for test in term.tests
    ]
    return {
        None if test.operator == "unknown" else _fold(test.values[0])
        for test in tests
        if test.operator in ("=", "unknown")
    }


def _fold(value: Value | None) -> Value | None:
    return value.casefold() if isinstance(value, str) else value
