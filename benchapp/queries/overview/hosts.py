"""The hosts of the overview: all that are not retired, and how many are active."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from benchapp.models import Host, Run
from benchapp.queries.hosts.hosts import HostRow, list_least_recently_seen

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


def read_fleet_hosts(*, without: str = "") -> FleetHosts:
    """Return the hosts in at most five queries, whatever their number. without: the name of a host to leave out."""
    listed = Host.objects.active().exclude(name=without)
    since = timezone.now() - ACTIVE_WITHIN
    is_active = Exists(Run.objects.filter(host=OuterRef("pk"), started_at__gte=since))
    totals = listed.aggregate(count=Count("pk"), active_count=Count("pk", filter=Q(is_active)))
    hosts = list_least_recently_seen(listed, HOSTS_MAXIMUM)
    return FleetHosts(tuple(hosts), totals["count"], totals["active_count"])
