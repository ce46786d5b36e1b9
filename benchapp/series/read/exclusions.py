"""Which parts of a filter exclude everything, and the nearest values that find something."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from math import inf
from time import monotonic
from typing import Final

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from benchapp.catalog.dimensions import LABEL_PREFIX, find_filter_dimension, get_filter_dimension
from benchapp.catalog.grammar import Filter, Term, Test, Value, write_filter
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.models import Host, Run, Series
from benchapp.models.filtering import match_runs, match_series
from benchapp.series.read.dimension_values import RUNS_COUNTED, list_label_names, read_facet

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
        labels = (f"{LABEL_PREFIX}{name}" for name in _find_labels(part.words[0]))
        # Hosts name labels as they like; one with a space has no filter.
        return [Filter().with_value(name, part.words[0]) for name in labels if find_filter_dimension(name)]
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
