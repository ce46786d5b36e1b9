"""Search by name over hosts, series, runs, incidents and studies: one bounded query for each kind.

Every word of a search must occur, whatever the case. Order: exact, prefix, prefix of a word, any place; then newest.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_, or_
from typing import Final, Literal

from django.db.models import Case, IntegerField, Q, When

from benchapp.catalog.grammar import Filter
from benchapp.models import FormerName, Host, Incident, Run, Study
from benchapp.models.filtering import match_series
from benchapp.models.incident import hide_peers
from benchapp.series.read.series import SeriesRow, list_rows, with_points

SearchKind = Literal["host", "run", "incident", "study"]
# Words of runs are searched in the newest ones: a server may have millions.
RUNS_SEARCHED: Final = 2_000
WORDS_SEARCHED_MAXIMUM: Final = 8
# "42", "#42", "run 42".
_ID: Final = re.compile(r"(?:#|run |incident )?(\d{1,18})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One found row. key: the name of a host, else the id. note: pool, host or state; at: of its last event."""

    kind: SearchKind
    key: str
    title: str
    note: str
    at: datetime | None


def rank_match(text: str, candidate: str) -> int | None:
    """Return 0 if equal, 1 for a prefix, 2 for a prefix of a word, 3 for any place; None without a match.

    All words of the text must occur in the candidate; the text as a whole decides the rank.
    """
    wanted, found = text.lower().strip(), candidate.lower()
    if not all(word in found for word in wanted.split()):
        return None
    if found == wanted:
        return 0
    if found.startswith(wanted):
        return 1
    return 2 if re.search(rf"(?<![^\W_]){re.escape(wanted)}", found) else 3


def search_hosts(text: str, *, limit: int) -> list[SearchHit]:
    """Return the hosts whose name or pool has all words, retired ones last, by former names too; two queries."""
    renamed = FormerName.objects.filter(_match_words(text, "scope")).order_by("scope")
    former = {
        present: old
        for scope, present in renamed.values_list("scope", "present")[:limit]
        if rank_match(text, old := scope.partition(":")[2]) is not None
    }
    known = [present.split(":", 1) for present in former]
    matched = (
        _match_words(text, "name", "pool")
        | Q(name__in=[name for kind, name in known if kind == "host"])
        | Q(pool__in=[name for kind, name in known if kind == "pool"])
    )
    hosts = Host.objects.filter(matched).order_by(
        _first(Q(retired_at__isnull=True)), _rank(text, "name"), "name"
    )
    hits = []
    for host in hosts[:limit]:
        title, note = host.name, "retired" if host.retired_at else host.pool
        if rank_match(text, f"{host.name} {host.pool}") is None:
            if pool := former.get(f"pool:{host.pool}"):
                note = f"pool {pool}, now {host.pool}"
            if name := former.get(f"host:{host.name}"):
                title, note = name, f"now {host.name}"
        hits.append(SearchHit("host", host.name, title, note, host.last_seen_at))
    return hits


def search_studies(text: str, *, limit: int) -> list[SearchHit]:
    """Return the studies whose title has all words; one query."""
    studies = Study.objects.filter(_match_words(text, "title")).order_by(
        _rank(text, "title"), "-updated_at", "-id"
    )
    rows = studies.values_list("id", "title", "updated_at")[:limit]
    return [SearchHit("study", str(key), title, "", at) for key, title, at in rows]


def search_incidents(text: str, *, limit: int) -> list[SearchHit]:
    """Return the incident with this id, and those whose title or scope has all words, open ones first; one query."""
    own = _match_id(text)
    incidents = (
        Incident.objects.filter(merged_into__isnull=True)
        .filter(own | _match_words(text, "title", "scope"))
        .order_by(_first(own), _first(Q(is_open=True)), _rank(text, "title"), "-started_at", "-id")
    )
    rows = incidents.values_list("id", "title", "state", "started_at")[:limit]
    return [SearchHit("incident", str(key), hide_peers(title), state, at) for key, title, state, at in rows]


def search_runs(text: str, *, limit: int) -> list[SearchHit]:
    """Return the run with this id, and of the newest RUNS_SEARCHED those whose host or profile has all words.

    One query, newest first.
    """
    own = _match_id(text)
    newest = Run.objects.order_by("-started_at", "-id").values("id")[:RUNS_SEARCHED]
    words = Q(pk__in=newest) & _match_words(text, "host__name", "profile")
    runs = Run.objects.filter(own | words).order_by(_first(own), "-started_at", "-id")
    rows = runs.values_list("id", "host__name", "profile", "started_at")[:limit]
    return [
        SearchHit("run", str(key), f"Run {key}", ", ".join(filter(None, (host, profile))), at)
        for key, host, profile, at in rows
    ]


SEARCHES: Final[Mapping[SearchKind, Callable[..., list[SearchHit]]]] = {
    "host": search_hosts,
    "run": search_runs,
    "incident": search_incidents,
    "study": search_studies,
}


def search_series(filter: Filter, known: Sequence[str], *, limit: int) -> Sequence[SeriesRow]:
    """Return the series that match a filter, the freshest first; two queries.

    known: texts of hosts, pools, layouts and workloads. A word that occurs in none of them cannot match, and the series
    are not read.
    """
    if any(not any(word.lower() in value.lower() for value in known) for word in filter.words):
        return ()
    return list_rows(with_points().filter(match_series(filter)), limit=limit)


def _match_words(text: str, *columns: str) -> Q:
    """Return the condition that each word occurs in one of the columns; without words nothing matches."""
    words = text.split()[:WORDS_SEARCHED_MAXIMUM]
    if not words:
        return Q(pk__in=())
    each = (reduce(or_, (Q(**{f"{column}__icontains": word}) for column in columns)) for word in words)
    return reduce(and_, each)


def _match_id(text: str) -> Q:
    """Return the condition of the id that a text is; of no row if it is none."""
    found = _ID.fullmatch(text.strip())
    return Q(pk=int(found[1]) if found else 0)


def _first(condition: Q) -> Case:
    """Return 0 for rows that match, else 1."""
    return Case(When(condition, then=0), default=1, output_field=IntegerField())


def _rank(text: str, column: str) -> Case:
    """Return the rank of `rank_match` as an expression, for rows that match."""
    wanted = text.strip()
    return Case(
        When(**{f"{column}__iexact": wanted}, then=0),
        When(**{f"{column}__istartswith": wanted}, then=1),
        When(**{f"{column}__iregex": rf"(^|[^[:alnum:]]){re.escape(wanted)}"}, then=2),
        default=3,
        output_field=IntegerField(),
    )
