"""Counter-evidence: other hosts with the same environment change, and whether they regressed.

A kernel upgrade of five hosts of which one regressed is a weaker suspect than an upgrade of that host alone. Labels and
conditions belong to a run and have no counter-evidence.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Case, Count, Q, Value, When

from benchapp.detection.rules.suspicion_test import CONFIRMED_AFTER_RUNS
from benchapp.incidents.rules.grouping import find_event_window
from benchapp.incidents.rules.suspects import Elsewhere, FactDifference
from benchapp.incidents.write.common_factors import CHANGED_SHARE, read_shares
from benchapp.incidents.write.run_facts import flatten_environment
from benchapp.models import Change, ChangeState, DetectionResult, DetectionStatus, Environment, Host, Run

# Around the changes: an upgrade rolls through a fleet within weeks.
WITHIN: Final = timedelta(days=14)
# Other hosts that are read, those of the same pools first.
HOSTS_MAXIMUM: Final = 200
_STEPS_MAXIMUM: Final = 2000
# Changes of a pool that are read for the share of each host.
_CHANGES_MAXIMUM: Final = 50
# A change of daily runs is placed one run too early or late now and then.
_WINDOW_MINIMUM: Final = timedelta(days=2)
_STEPS: Final = (
    "SELECT host_id, was, environment_id, started_at FROM ("
    " SELECT host_id, environment_id, started_at, lag(environment_id) OVER"
    "  (PARTITION BY host_id, target_id ORDER BY started_at, id) AS was"
    " FROM benchapp_run WHERE host_id = ANY(%s) AND error = 0 AND started_at BETWEEN %s AND %s) AS stepped"
    " WHERE was <> environment_id ORDER BY started_at, host_id LIMIT %s"
)


@dataclass(frozen=True, slots=True)
class _HostChange:
    """An environment change on a host."""

    host: Host
    at: datetime


def find_elsewhere(
    differences: Collection[FactDifference], changes: Sequence[Change], *, involved: Collection[int]
) -> dict[FactDifference, Elsewhere]:
    """Return the other hosts with the same environment change within 14 days, regressed or unaffected.

    involved: ids of the affected hosts. A host is unaffected if five runs since its change show no change of level;
    undecided hosts are ignored. At most eight queries.
    """
    hosts = _list_hosts(involved)
    host_changes = _find_host_changes(differences, hosts, changes) if differences and hosts else {}
    if not host_changes:
        return {}
    everyone = [host_change for found in host_changes.values() for host_change in found]
    states = _HostStates(changes, everyone)
    return {
        difference: Elsewhere(
            regressed=tuple(sorted(one.host.name for one in found if states.has_changed(one))),
            unaffected=tuple(sorted(one.host.name for one in found if states.is_unaffected(one))),
            here=len(involved),
        )
        for difference, found in host_changes.items()
    }


def _list_hosts(involved: Collection[int]) -> dict[int, Host]:
    pools = set(Host.objects.filter(pk__in=involved).exclude(pool="").values_list("pool", flat=True))
    others = Host.objects.active().exclude(pk__in=involved)
    is_near = Case(When(pool__in=pools, then=Value(0)), default=Value(1))
    return {host.pk: host for host in others.order_by(is_near, "id")[:HOSTS_MAXIMUM]}


def _find_host_changes(
    differences: Collection[FactDifference], hosts: Mapping[int, Host], changes: Sequence[Change]
) -> dict[FactDifference, list[_HostChange]]:
    """Return the first occurrence of each difference on each host."""
    times = [change.started_at for change in changes]
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, [list(hosts), min(times) - WITHIN, max(times) + WITHIN, _STEPS_MAXIMUM])
        steps = list(cursor.fetchall())
    environments = Environment.objects.in_bulk({one for _, was, now, _ in steps for one in (was, now)})
    facts = {pk: flatten_environment(environment) for pk, environment in environments.items()}
    found: dict[FactDifference, dict[int, _HostChange]] = defaultdict(dict)
    for host_id, was, now, at in steps:
        for difference in differences:
            before, after = facts[was].get(difference.name), facts[now].get(difference.name)
            if (before, after) == (difference.before, difference.after):
                found[difference].setdefault(host_id, _HostChange(hosts[host_id], at))
    return {difference: list(host_changes.values()) for difference, host_changes in found.items()}


class _HostStates:
    """State of the hosts with an environment change: changes of level at that time, runs since, detection status."""

    def __init__(self, changes: Sequence[Change], host_changes: Sequence[_HostChange]) -> None:
        pools = _split_pools(changes)
        self.pools = set(pools)
        self.shares = {host: share for shares in pools.values() for host, share in shares.items()}
        scopes = {one.host.scope for one in host_changes}
        times = [one.at for one in host_changes]
        intervals = [change.evidence.get("interval_s") or 0.0 for change in changes]
        self.window = max(find_event_window(intervals), _WINDOW_MINIMUM)
        span = (min(times) - self.window, max(times) + self.window)
        self.times = _read_changes(scopes, changes[0].is_regression, span=span)
        steady = DetectionResult.objects.filter(
            series__scope__in=scopes, series__judging_is_due=False, status=DetectionStatus.STEADY
        )
        self.steady = set(steady.values_list("series__scope", flat=True).order_by().distinct())
        self.runs = _count_runs(host_changes)

    def has_changed(self, one: _HostChange) -> bool:
        """Return whether a level of the host changed in the same direction at that time."""
        if one.host.scope in self.pools:
            return self.shares.get(one.host.name, 0.0) >= CHANGED_SHARE
        return any(
            state != ChangeState.SUSPECTED and abs(at - one.at) <= self.window
            for state, at in self.times.get(one.host.scope, ())
        )

    def is_unaffected(self, one: _HostChange) -> bool:
        """Return whether enough runs since then show no change, not even a suspected one."""
        if self.runs.get(one.host.pk, 0) < CONFIRMED_AFTER_RUNS or one.host.scope not in self.steady:
            return False
        if one.host.scope in self.pools:
            return self.shares.get(one.host.name, 1.0) < CHANGED_SHARE
        return not any(abs(at - one.at) <= self.window for _, at in self.times.get(one.host.scope, ()))


def _split_pools(changes: Sequence[Change]) -> dict[str, dict[str, float]]:
    """Return the share of each host in the changes of its pool; hosts of a pool share series."""
    by_scope: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.series.scope.startswith("pool:") and "points_to" in change.evidence:
            by_scope[change.series.scope].append(change)
    return {scope: read_shares(members[:_CHANGES_MAXIMUM]) for scope, members in by_scope.items()}


def _read_changes(
    scopes: Collection[str], is_regression: bool, *, span: tuple[datetime, datetime]
) -> dict[str, list[tuple[str, datetime]]]:
    rows = Change.objects.filter(
        series__scope__in=scopes, is_regression=is_regression, started_at__range=span
    ).exclude(state=ChangeState.WITHDRAWN)
    found: dict[str, list[tuple[str, datetime]]] = defaultdict(list)
    for scope, state, at in rows.values_list("series__scope", "state", "started_at"):
        found[scope].append((state, at))
    return found


def _count_runs(host_changes: Sequence[_HostChange]) -> dict[int, int]:
    """Return the runs of each host since its last environment change."""
    latest: dict[int, datetime] = {}
    for one in host_changes:
        latest[one.host.pk] = max(one.at, latest.get(one.host.pk, one.at))
    since = Q()
    for host_id, at in latest.items():
        since |= Q(host_id=host_id, started_at__gte=at)
    rows = Run.objects.filter(since, error=0).values("host").annotate(count=Count("pk")).order_by()
    return dict(rows.values_list("host", "count"))
