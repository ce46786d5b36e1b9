"""What the overview page shows: hosts, what needs attention, recent environment changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any, Final

from django.utils import timezone

from benchapp.catalog.dimensions import FACT_NAMES
from benchapp.catalog.grammar import Filter
from benchapp.framework.read.binary_columns import CHART_S, fetch_rows, read_cached
from benchapp.framework.read.days import DayRange
from benchapp.models import Environment, Host, Series, SeriesEnvironment, State, Subscription, User
from benchapp.models.filtering import match_series
from benchapp.storage.read.hosts import (
    HostFilter,
    HostRow,
    filter_hosts,
    find_failing_hosts,
    list_urgent_hosts,
)

RECENT: Final = timedelta(days=7)
COUNT_MAXIMUM: Final = 1000


def read_backlog() -> tuple[list[tuple[str, int]], int, datetime | None]:
    """Return the uploads that are not stored; two queries over the indexes of submissions by state.

    Reasons and counts of those rejected in the last seven days, most frequent first; how many wait, at most 1 000; when
    the first of these was received.
    """
    rejected = fetch_rows(
        "SELECT reason_code, count(*) FROM benchapp_submission WHERE state = %s AND received_at >= %s"
        " GROUP BY reason_code ORDER BY count(*) DESC, reason_code",
        [State.REJECTED.value, timezone.now() - RECENT],
    )
    ((waiting, oldest_at),) = fetch_rows(
        "SELECT count(*), min(received_at) FROM (SELECT received_at FROM benchapp_submission WHERE state = %s"
        " ORDER BY received_at LIMIT %s) AS waiting",
        [State.RECEIVED.value, COUNT_MAXIMUM],
    )
    return rejected, waiting, oldest_at


def list_paused_subscriptions(owner: User) -> list[Subscription]:
    """Return the subscriptions of a user that stopped after failed deliveries, without their addresses; one query."""
    rows = Subscription.objects.filter(owner=owner, is_active=False).exclude(paused_reason="")
    return list(rows.only("paused_reason").order_by("id"))


# The most urgent ones: seen least recently are also the hosts whose runs are overdue.
HOSTS_MAXIMUM: Final = 1000
# A host with a run within this time is active.
ACTIVE_WITHIN: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class FleetHosts:
    """Hosts that are not retired, by name.

    hosts: at most 1 000, the most urgent ones. count: of all. active_count: those with a run that started within
    seven days.
    """

    hosts: tuple[HostRow, ...]
    count: int
    active_count: int

    @property
    def silent(self) -> list[HostRow]:
        """Return the silent hosts, silent for longest first."""
        silent = [(host.silent_since, host.name, host) for host in self.hosts if host.silent_since]
        return [host for _, _, host in sorted(silent, key=lambda entry: entry[:2])]

    @property
    def failing(self) -> list[HostRow]:
        """Return the hosts with a failing profile, failing for longest first."""
        failing = [(host.failing_since, host.name, host) for host in self.hosts if host.failing_since]
        return [host for _, _, host in sorted(failing, key=lambda entry: entry[:2])]


def read_fleet_hosts(filter: Filter | None = None, *, without: str = "") -> FleetHosts:
    """Return the hosts in at most eight queries, three more beyond 1 000 hosts, and up to three of the filter.

    filter: as on the list of hosts. without: the name of a host to leave out. Of more than 1 000 hosts cached for 10 s.
    """
    load = partial(_read_fleet_hosts, filter, without)
    if Host.objects.active().count() <= HOSTS_MAXIMUM:
        return load()
    return read_cached("fleet hosts", filter, without, load=load, age_s=CHART_S)


def _read_fleet_hosts(filter: Filter | None, without: str) -> FleetHosts:
    ids = list(filter_hosts(HostFilter(match=filter)).values_list("pk", flat=True)) if filter else None
    # A step into the index run_by_host for each host, however many runs it has.
    ((count, active_count),) = fetch_rows(
        "SELECT count(*), count(*) FILTER (WHERE last.started_at >= %s) FROM benchapp_host host"
        " LEFT JOIN LATERAL (SELECT started_at FROM benchapp_run WHERE host_id = host.id"
        "  ORDER BY started_at DESC LIMIT 1) AS last ON TRUE WHERE retired_at IS NULL AND name <> %s"
        " AND (%s::bigint[] IS NULL OR host.id = ANY(%s))",
        [timezone.now() - ACTIVE_WITHIN, without, ids, ids],
    )
    failing = find_failing_hosts() if count > HOSTS_MAXIMUM else []
    hosts = list_urgent_hosts(without=without, limit=HOSTS_MAXIMUM, ids=ids, failing=failing)
    return FleetHosts(tuple(hosts), count, active_count)


# Of a series with so many runs a change opens an incident (detection.write): an installation with fewer runs in all
# has nothing to report yet.
NEW_BELOW: Final = 20


def read_installation(*, sample_host: str) -> dict[str, Any]:
    """Return what is stored; two queries for a new installation, else one. sample_host: the host of the sample.

    runs: without the sample, at most 20; is_new: whether there are fewer; sample_runs: of the sample, 0 unless is_new.
    """
    ((sample_id, runs),) = fetch_rows(
        "SELECT sample.id, (SELECT count(*) FROM ("
        "  SELECT FROM benchapp_run WHERE host_id IS DISTINCT FROM sample.id LIMIT %s) AS others)"
        " FROM (SELECT max(id) AS id FROM benchapp_host WHERE name = %s) AS sample",
        [NEW_BELOW, sample_host],
    )
    is_new, sample_runs = runs < NEW_BELOW, 0
    if is_new and sample_id is not None:
        ((sample_runs,),) = fetch_rows("SELECT count(*) FROM benchapp_run WHERE host_id = %s", [sample_id])
    return {"runs": runs, "sample_runs": sample_runs, "is_new": is_new}


_CHANGES_SINCE: Final = timedelta(days=90)
# Newest first: those of a host are as many as it has series.
_ROWS_MAXIMUM: Final = 2000
# The environment that began last before the new one; NEWEST: a query of the new ones.
_READ: Final = (
    "SELECT series.scope, earlier.environment_id, begun.environment_id, min(begun.first_at)"
    " FROM benchapp_seriesenvironment AS begun"
    " JOIN benchapp_series series ON series.id = begun.series_id"
    " CROSS JOIN LATERAL (SELECT environment_id FROM benchapp_seriesenvironment"
    "  WHERE series_id = begun.series_id AND first_at < begun.first_at"
    "  ORDER BY first_at DESC LIMIT 1) AS earlier WHERE begun.id IN (NEWEST) GROUP BY 1, 2, 3"
)


@dataclass(frozen=True, slots=True)
class RecentChange:
    """A fact that changed from one value to another. scopes: names of the hosts and pools; since_at: on the first."""

    name: str
    before: Any
    after: Any
    scopes: tuple[str, ...]
    since_at: datetime


def list_recent_changes(filter: Filter | None = None, days: DayRange | None = None) -> list[RecentChange]:
    """Return the changes of these days, by default the last 90, between known values, newest first; two queries.

    Of the newest 2 000 environments that began on a series of the filter.
    """
    begun = SeriesEnvironment.objects.filter(first_at__gte=timezone.now() - _CHANGES_SINCE)
    if days is not None:
        first_at = datetime.combine(days.first, time.min, UTC)
        begun = SeriesEnvironment.objects.filter(first_at__gte=first_at, first_at__lt=days.end_at)
    if filter:
        begun = begun.filter(series__in=Series.objects.filter(match_series(filter)))
    text, values = begun.order_by("-first_at").values("pk")[:_ROWS_MAXIMUM].query.sql_with_params()
    rows = fetch_rows(_READ.replace("NEWEST", text), values)
    if not rows:
        return []
    facts = Environment.objects.in_bulk({each for _, before, after, _ in rows for each in (before, after)})
    return _group(rows, facts)


def _group(rows: Sequence[tuple[Any, ...]], facts: Mapping[int, Environment]) -> list[RecentChange]:
    found: dict[tuple[str, Any, Any], dict[str, datetime]] = {}
    for scope, before_id, after_id, at in rows:
        for name in FACT_NAMES:
            before, after = (getattr(facts[each], name) for each in (before_id, after_id))
            # What only one agent version reports has not changed.
            if before == after or before in (None, "") or after in (None, ""):
                continue
            scopes = found.setdefault((name, before, after), {})
            own = scope.partition(":")[2]
            scopes[own] = min(at, scopes.get(own, at))
    changes = [
        RecentChange(*key, scopes=tuple(sorted(scopes)), since_at=min(scopes.values()))
        for key, scopes in found.items()
    ]
    order = {name: place for place, name in enumerate(FACT_NAMES)}
    return sorted(changes, key=lambda change: (-change.since_at.timestamp(), order[change.name]))
