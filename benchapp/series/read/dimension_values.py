"""Values of a dimension among series that match a filter or the newest runs; parts of a filter that find nothing."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from math import inf
from time import monotonic
from typing import Any, Final

from django.db import OperationalError, connection, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from psycopg.errors import QueryCanceled

from benchapp.catalog.dimensions import (
    LABEL_PREFIX,
    Dimension,
    find_filter_dimension,
    get_filter_dimension,
    name_pattern,
)
from benchapp.catalog.grammar import Filter, Term, Test, Value, write_filter, write_value
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.models import (
    DirectionName,
    Host,
    Measurement,
    Run,
    Series,
    SeriesEnvironment,
    read_present_scopes,
)
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
    match and are not excluded.
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


def list_known_values() -> tuple[str, ...]:
    """Return the values of text that words of a filter occur in: hosts, pools, layouts, workloads; one query."""
    return tuple(sorted({*DirectionName.values, *(value for _, value in read_known_values())}))


def read_known_values() -> list[tuple[str, str]]:
    """Return (dimension, value) of the texts of hosts, pools, layouts and workloads, by text; one query.

    block_size_text is no dimension. The tables of hosts, layouts and workloads are small: 10 ms for 10 000 hosts.
    """
    layouts = ", ".join(f"('{name}', {name})" for name in _LAYOUT_TEXTS)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 'host', name FROM benchapp_host UNION SELECT 'pool', pool FROM benchapp_host"  # noqa: S608
            f" UNION SELECT one.* FROM benchapp_target CROSS JOIN LATERAL (VALUES {layouts}) AS one"
            " UNION SELECT one.* FROM benchapp_workload CROSS JOIN LATERAL (VALUES ('rw', rw), ('engine', engine),"
            " ('block_size_text', block_size_text)) AS one"
        )
        return sorted((row for row in cursor.fetchall() if row[1]), key=lambda known: known[1].lower())


def _read_run_facet(dimension: Dimension, filter: Filter, *, prefix: str, limit: int) -> Facet:
    runs = Run.objects.filter(match_runs(filter.without(dimension.name)), excluded_at=None)
    runs = runs.order_by("-started_at", "-id")
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
    """Return the series of a filter with runs that count; for a fact of the environment their environments."""
    if not dimension.is_environment:
        rows = Series.objects.filter(last_at__isnull=False).filter(match_series(filter, runs="any"))
        runs = Measurement.objects.filter(series=OuterRef("series"), is_excluded=False)
        excluded = Measurement.objects.filter(run__excluded_at__isnull=False).exclude(Exists(runs))
        return rows.exclude(pk__in=excluded.values("series"))
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


INSTEAD_MAXIMUM: Final = 3
# Nearest values that are tried: a facet counts series, and a page may show only some of these.
_TRIED_MAXIMUM: Final = 6
_VALUES_MAXIMUM: Final = 1000
# Share of letters.
_DIFFERENCE_MAXIMUM: Final = 0.5
# An explanation is worth less than a page: of many millions of runs, a page without results has none.
_STATEMENT_MAXIMUM_MS: Final = 2000
_MAXIMUM_S: Final = 2.0

FindsAny = Callable[[Filter], bool]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Parts of a filter that match nothing together; one part matches nothing at all.

    instead: (another part, the whole filter with it), nearest values first.
    """

    parts: tuple[str, ...]
    instead: tuple[tuple[str, str], ...]


def has_series(filter: Filter) -> bool:
    """Return whether a series with measurements matches; one query."""
    return Series.objects.filter(match_series(filter), last_at__isnull=False).exists()


def has_runs(filter: Filter) -> bool:
    """Return whether a run matches; up to three queries."""
    return Run.objects.filter(match_runs(filter)).exists()


def find_exclusions(filter: Filter, finds_any: FindsAny) -> tuple[Exclusion, ...]:
    """Return what excludes everything: every part that matches nothing, or else the fewest parts that do together.

    finds_any: whether the page shows something for a filter; called up to twice for each part, and for the nearest
    values. () if the filter matches something, if nothing matches without it either, or if it takes longer than 2 s.
    """
    deadline = monotonic() + _MAXIMUM_S

    def finds_in_time(filter: Filter) -> bool:
        if monotonic() > deadline:
            raise TimeoutError
        return finds_any(filter)

    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(_STATEMENT_MAXIMUM_MS)])
            found = _find_exclusions(filter, finds_in_time)
            cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
            return found
    except TimeoutError:
        return ()
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            return ()
        raise


def _find_exclusions(filter: Filter, finds_any: FindsAny) -> tuple[Exclusion, ...]:
    parts = [*(Filter((term,)) for term in filter.terms), *(Filter((), (word,)) for word in filter.words)]
    if not parts or finds_any(filter) or not finds_any(Filter()):
        return ()
    alone = [[part] for part in parts if not finds_any(part)]
    return tuple(_explain(group, parts, finds_any) for group in alone or [_reduce(parts, finds_any)])


def _reduce(parts: Sequence[Filter], finds_any: FindsAny) -> list[Filter]:
    """Return parts that match nothing together, but do without any of them."""
    kept = list(parts)
    for part in parts:
        rest = [other for other in kept if other is not part]
        if not finds_any(_join(rest)):
            kept = rest
    return kept


def _explain(group: Sequence[Filter], parts: Sequence[Filter], finds_any: FindsAny) -> Exclusion:
    found = [_find_instead(part, group, parts, finds_any) for part in group]
    # The nearest of each part first.
    ranked = [each[rank] for rank in range(INSTEAD_MAXIMUM) for each in found if rank < len(each)]
    return Exclusion(tuple(map(write_filter, group)), tuple(ranked[:INSTEAD_MAXIMUM]))


def _find_instead(
    part: Filter, group: Sequence[Filter], parts: Sequence[Filter], finds_any: FindsAny
) -> list[tuple[str, str]]:
    """Return other parts that find something with the rest of the filter, or else with the rest of the group."""
    for base in (parts, group):
        rest = [other for other in base if other is not part]
        tried = (
            other for other in _list_nearest(part, _join(rest)) if finds_any(_replace(base, part, other))
        )
        if found := list(islice(tried, INSTEAD_MAXIMUM)):
            return [(write_filter(other), write_filter(_replace(parts, part, other))) for other in found]
    return []


def _replace(parts: Iterable[Filter], part: Filter, other: Filter) -> Filter:
    """Return the parts with another one; the name of a label before its value ("rack r1") is part of the label."""
    names = {term.dimension.removeprefix(LABEL_PREFIX).lower() for term in other.terms if part.words}
    kept = [other if each is part else each for each in parts]
    return _join(each for each in kept if not names.intersection(map(str.lower, each.words)))


def _join(parts: Iterable[Filter]) -> Filter:
    listed = list(parts)
    return Filter(
        tuple(term for part in listed for term in part.terms),
        tuple(word for part in listed for word in part.words),
    )


def _list_nearest(part: Filter, rest: Filter) -> list[Filter]:
    """Return parts with the nearest values among what matches the rest, nearest first; a few queries."""
    if part.words:
        scopes = [f"{kind}:{part.words[0]}" for kind in _SCOPES]
        present = [Filter().with_value(*each.split(":", 1)) for each in read_present_scopes(scopes).values()]
        labels = (f"{LABEL_PREFIX}{name}" for name in _find_labels(part.words[0]))
        # Hosts name labels as they like; one with a space has no filter.
        return [
            *present,
            *(Filter().with_value(name, part.words[0]) for name in labels if find_filter_dimension(name)),
        ]
    (term,) = part.terms
    if term.is_negated:
        return []
    return [Filter((other,)) for other in (*_list_other_names(term), *_list_other_values(term, rest))]


def _find_labels(word: str) -> list[str]:
    """Return the labels of the newest runs that have a word as their value, in any case; one query."""
    rows = fetch_rows(
        "SELECT DISTINCT label.key FROM (SELECT labels FROM benchapp_run ORDER BY started_at DESC, id DESC LIMIT %s)"
        " AS newest CROSS JOIN LATERAL jsonb_each_text(labels) AS label WHERE upper(label.value) = upper(%s)"
        " ORDER BY label.key LIMIT %s",
        [RUNS_COUNTED, word, _VALUES_MAXIMUM],
    )
    return [name for (name,) in rows]


def _list_other_names(term: Term) -> list[Term]:
    """Return the term with the name that was probably meant: a label in another case, the pool of a host."""
    if term.dimension.startswith(LABEL_PREFIX):
        name = term.dimension.removeprefix(LABEL_PREFIX)
        others = [other for other in list_label_names() if other != name and other.lower() == name.lower()]
        return [Term(f"{LABEL_PREFIX}{other}", term.tests) for other in others]
    if term.dimension != "host":
        return []
    names = [str(value) for test in term.tests if test.operator == "=" for value in test.values]
    pools = Host.objects.filter(name__in=names).exclude(pool="").order_by("pool")
    return [Term("pool", (Test("=", (pool,)),)) for pool in pools.values_list("pool", flat=True).distinct()]


def _list_other_values(term: Term, rest: Filter) -> list[Term]:
    dimension = get_filter_dimension(term.dimension)
    facet = read_facet(dimension, rest, limit=_VALUES_MAXIMUM)
    values = [each.value for each in facet.values if each.value is not None]
    if term.dimension == "host":
        # Hosts of pools, too: their runs are theirs, their series the pool's.
        values = list(dict.fromkeys([*values, *Host.objects.order_by("name").values_list("name", flat=True)]))
    distances = {value: min(_measure_distance(test, value) for test in term.tests) for value in values}
    if dimension.kind == "text" and len(values) > _TRIED_MAXIMUM:
        # Of a few values all may help; of hundreds of hosts only those with a similar name.
        values = [value for value in values if distances[value] <= _DIFFERENCE_MAXIMUM]
    nearest = sorted(values, key=distances.__getitem__)[:_TRIED_MAXIMUM]
    return [Term(term.dimension, (Test("=", (value,)),)) for value in nearest]


def _measure_distance(test: Test, value: Value) -> float:
    """Return how far a value is from those of a test: a difference of numbers, a share of letters; inf if unknown."""
    if not test.values:
        return inf
    if isinstance(value, str):
        other = str(test.values[0]).replace("*", "")
        return 1 - SequenceMatcher(None, value.lower(), other.lower()).ratio()
    return min(abs(value - bound) for bound in test.values if not isinstance(bound, str))
