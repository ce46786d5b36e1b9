"""Hosts that match a filter of series."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchapp.grammar import Filter, Term, Test
from benchapp.models import Host, Series
from benchapp.models.filtering import match_series

_SCOPES: Final = ("host", "pool")


def match_hosts(filter: Filter, hosts: Sequence[Host]) -> set[int]:
    """Return the ids of the hosts that match a filter.

    What it says of hosts and pools is held against the host itself, also where its series are its pool's or it never
    ran; all else must hold of one of its series. One query where there is anything else.
    """
    named = [host for host in hosts if names_host(filter, host.name, host.pool)]
    rest = leave_scopes_out(filter)
    if not named or not (rest.terms or rest.words):
        return {host.pk for host in named}
    scopes = set(
        Series.objects.filter(match_series(rest), scope__in={host.scope for host in named})
        .values_list("scope", flat=True)
        .distinct()
    )
    return {host.pk for host in named if host.scope in scopes}


def names_host(filter: Filter, name: str, pool: str) -> bool:
    """Return whether a host matches the host and pool terms of a filter; one is enough if it has both."""
    return _names(filter, {"host": name, "pool": pool})


def names_scope(filter: Filter, scope: str) -> bool:
    """Return whether a scope matches the host and pool terms of a filter, as in `match_series`."""
    kind, _, name = scope.partition(":")
    return _names(filter, {kind: name})


def leave_scopes_out(filter: Filter) -> Filter:
    """Return the filter without its host and pool terms."""
    return Filter(tuple(term for term in filter.terms if term.dimension not in _SCOPES), filter.words)


def _names(filter: Filter, known: Mapping[str, str]) -> bool:
    terms = [term for term in filter.terms if term.dimension in _SCOPES]
    if any(term.is_negated and _holds(term, known) for term in terms):
        return False
    wanted = [term for term in terms if not term.is_negated]
    by_kind = [[term for term in wanted if term.dimension == kind] for kind in _SCOPES]
    return not wanted or any(all(_holds(term, known) for term in kind) for kind in by_kind if kind)


def _holds(term: Term, known: Mapping[str, str]) -> bool:
    return any(_fits(test, known.get(term.dimension)) for test in term.tests)


def _fits(test: Test, value: str | None) -> bool:
    if test.operator == "unknown":
        return not value
    if value is None:
        return False
    wanted = str(test.values[0])
    if test.operator != "like":
        return value == wanted
    return _fits_pattern(wanted.casefold().split("*"), value.casefold())


def _fits_pattern(parts: Sequence[str], value: str) -> bool:
    """Return whether the parts occur in this order, the first at the beginning and the last at the end.

    By hand, as a regular expression of eight stars takes for ever on a name that nearly fits.
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
