"""Hosts that match a filter of series."""

from collections.abc import Mapping, Sequence
from typing import Final

from django.db.models import OuterRef, Subquery

from benchapp.catalog.grammar import Filter, Term, Test
from benchapp.models import Host, Run, Series
from benchapp.models.filtering import match_facts, match_series

_SCOPES: Final = ("host", "pool")


def match_hosts(filter: Filter, hosts: Sequence[Host]) -> set[int]:
    """Return the ids of the hosts that match a filter.

    Its host and pool terms are compared with the host itself, even if its series belong to its pool or it has none;
    terms for facts of runs must match its newest run; all other terms must match one of its series. One
    query if there are other terms, and one for facts.
    """
    named = [host for host in hosts if matches_host(filter, host.name, host.pool)]
    if named and filter.fact_terms:
        ids = _find_by_newest_run(filter.fact_terms, named)
        named = [host for host in named if host.pk in ids]
    rest = remove_scope_terms(filter.without_facts())
    if not named or not (rest.terms or rest.words):
        return {host.pk for host in named}
    scopes = set(
        Series.objects.filter(match_series(rest), scope__in={host.scope for host in named})
        .values_list("scope", flat=True)
        .distinct()
    )
    return {host.pk for host in named if host.scope in scopes}


def _find_by_newest_run(terms: Sequence[Term], hosts: Sequence[Host]) -> set[int]:
    newest = Run.objects.filter(host=OuterRef("pk")).order_by("-started_at", "-id").values("pk")[:1]
    found = Host.objects.filter(pk__in=[host.pk for host in hosts]).annotate(newest=Subquery(newest))
    matched = Run.objects.filter(match_facts(terms), pk__in=found.values("newest"))
    return set(matched.values_list("host_id", flat=True))


def matches_host(filter: Filter, name: str, pool: str) -> bool:
    """Return whether a host matches the host and pool terms of a filter; one is enough if it has both."""
    return _matches_scopes(filter, {"host": name, "pool": pool})


def matches_scope(filter: Filter, scope: str) -> bool:
    """Return whether a scope matches the host and pool terms of a filter, as in `match_series`."""
    kind, _, name = scope.partition(":")
    return _matches_scopes(filter, {kind: name})


def remove_scope_terms(filter: Filter) -> Filter:
    """Return the filter without its host and pool terms."""
    return Filter(tuple(term for term in filter.terms if term.dimension not in _SCOPES), filter.words)


def _matches_scopes(filter: Filter, known: Mapping[str, str]) -> bool:
    terms = [term for term in filter.terms if term.dimension in _SCOPES]
    if any(term.is_negated and _matches_term(term, known) for term in terms):
        return False
    wanted = [term for term in terms if not term.is_negated]
    by_kind = [[term for term in wanted if term.dimension == kind] for kind in _SCOPES]
    return not wanted or any(all(_matches_term(term, known) for term in kind) for kind in by_kind if kind)


def _matches_term(term: Term, known: Mapping[str, str]) -> bool:
    return any(_matches_test(test, known.get(term.dimension)) for test in term.tests)


def _matches_test(test: Test, value: str | None) -> bool:
    if test.operator == "unknown":
        return not value
    if value is None:
        return False
    wanted, value = str(test.values[0]).casefold(), value.casefold()
    return _matches_parts(wanted.split("*"), value) if test.operator == "like" else value == wanted


def _matches_parts(parts: Sequence[str], value: str) -> bool:
    """Return whether the parts occur in this order, the first at the beginning and the last at the end.

    Not a regular expression: one with eight wildcards has exponential cost on a name that almost matches.
    """
    first, *middle, last = parts
    if len(first) + len(last) > len(value) or not (value.startswith(first) and value.endswith(last)):
        return False
    place, end = len(first), len(value) - len(last)
    for part in middle:
        found = value.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
