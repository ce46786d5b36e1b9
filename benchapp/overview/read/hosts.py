"""The hosts of the overview: all that are not retired, and how many are active."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.utils import timezone

from benchapp.catalog.grammar import Filter
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.storage.read.hosts import HostFilter, HostRow, filter_hosts, list_least_recently_seen

# Least recently seen first: these include the hosts whose runs are overdue.
HOSTS_MAXIMUM: Final = 1000
# A host with a run within this time is active.
ACTIVE_WITHIN: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class FleetHosts:
    """Hosts that are not retired, by name.

    hosts: at most 1 000, those seen least recently. count: of all. active_count: those with a run that started within
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


def read_fleet_hosts(filter: Filter | None = None, *, without: str = "") -> FleetHosts:
    """Return the hosts in at most five queries, whatever their number, and up to three of the filter.

    filter: as on the list of hosts. without: the name of a host to leave out.
    """
    ids = list(filter_hosts(HostFilter(match=filter)).values_list("pk", flat=True)) if filter else None
    # A step into the index run_by_host for each host, however many runs it has.
    ((count, active_count),) = fetch_rows(
        "SELECT count(*), count(*) FILTER (WHERE last.started_at >= %s) FROM benchapp_host host"
        " LEFT JOIN LATERAL (SELECT started_at FROM benchapp_run WHERE host_id = host.id"
        "  ORDER BY started_at DESC LIMIT 1) AS last ON TRUE WHERE retired_at IS NULL AND name <> %s"
        " AND (%s::bigint[] IS NULL OR host.id = ANY(%s))",
        [timezone.now() - ACTIVE_WITHIN, without, ids, ids],
    )
    hosts = list_least_recently_seen(without=without, limit=HOSTS_MAXIMUM, ids=ids)
    return FleetHosts(tuple(hosts), count, active_count)
