"""The state of every host: open regression, silence, last run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Exists, F, OuterRef, Q
from django.utils import timezone

from benchapp.models import Host, Run
from benchapp.queries.hosts.schedules import list_known, read_schedules
from benchapp.queries.incidents.series_marks import ScopeMark, read_scope_marks

# Least recently seen first: these include the hosts whose runs are overdue.
HOSTS_MAXIMUM: Final = 1000
# A host with a run within this time is active.
ACTIVE_WITHIN: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class NewestRun:
    """The newest run of a host. error: fio's first errno, 0 on success."""

    id: int
    started_at: datetime
    error: int


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One host. mark: the open regressions of its pool, else of the host. silent_since: None if it is not silent."""

    name: str
    pool: str
    agent_version: str
    mark: ScopeMark | None
    silent_since: datetime | None
    newest_run: NewestRun | None


@dataclass(frozen=True, slots=True)
class FleetHosts:
    """Hosts that are not retired, by name.

    hosts: at most 1 000, those seen least recently. count: of all. active_count: those with a run that
    started within seven days.
    """

    hosts: tuple[HostStatus, ...]
    count: int
    active_count: int

    @property
    def silent(self) -> list[HostStatus]:
        """Return the silent hosts, silent for longest first."""
        silent = [host for host in self.hosts if host.silent_since]
        return sorted(silent, key=lambda host: (host.silent_since, host.name))


def read_fleet_hosts(*, without: str = "") -> FleetHosts:
    """Return the hosts in at most five queries, whatever their number. without: the name of a host to leave out."""
    listed = Host.objects.active().exclude(name=without)
    since = timezone.now() - ACTIVE_WITHIN
    is_active = Exists(Run.objects.filter(host=OuterRef("pk"), started_at__gte=since))
    totals = listed.aggregate(count=Count("pk"), active_count=Count("pk", filter=Q(is_active)))
    rows: list[dict[str, Any]] = list(
        listed.order_by(F("last_seen_at").asc(nulls_last=True)).values(*_COLUMNS)[:HOSTS_MAXIMUM]
    )
    rows.sort(key=lambda row: row["name"])
    schedules = read_schedules(list_known(rows))
    newest = _read_newest_runs([row["id"] for row in rows])
    scopes = {row["id"]: f"pool:{row['pool']}" if row["pool"] else f"host:{row['name']}" for row in rows}
    marks = read_scope_marks(sorted(set(scopes.values())))
    hosts = tuple(
        HostStatus(
            name=row["name"],
            pool=row["pool"],
            agent_version=row["agent_version"],
            mark=marks.get(scopes[row["id"]]),
            silent_since=schedule.silent_since if (schedule := schedules.get(row["id"])) else None,
            newest_run=newest.get(row["id"]),
        )
        for row in rows
    )
    return FleetHosts(hosts, totals["count"], totals["active_count"])


_COLUMNS: Final = (
    *("id", "name", "pool", "agent_version", "retired_at"),
    *("schedule", "schedule_since_at", "schedule_reported_by"),
)


def _read_newest_runs(ids: Sequence[int]) -> dict[int, NewestRun]:
    """Return the newest run of each host that has one: one entry of the index run_by_host each."""
    if not ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT wanted.id, newest.* FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
            " SELECT id, started_at, error FROM benchapp_run WHERE host_id = wanted.id"
            " ORDER BY started_at DESC, id DESC LIMIT 1) AS newest",
            [list(ids)],
        )
        return {host_id: NewestRun(*rest) for host_id, *rest in cursor.fetchall()}
