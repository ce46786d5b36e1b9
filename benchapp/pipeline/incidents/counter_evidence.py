"""Counter-evidence: the other hosts to which the same thing came at that time, and whether they moved too.

A kernel that came to five hosts of which one became slower is a weaker suspect than one that came to that one alone. Of
the environment alone is this asked: a label or a condition belongs to a run.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Case, Count, Q, Value, When

from benchapp.analysis.detection.suspicion_test import CONFIRMED_AFTER_RUNS
from benchapp.analysis.incidents.suspects import Elsewhere, FactDifference
from benchapp.models import Change, ChangeState, DetectionStatus, Environment, Host, Judgement, Run
from benchapp.pipeline.incidents.common_factors import CHANGED_SHARE, read_shares
from benchapp.pipeline.incidents.run_facts import flatten_environment

# Around the changes: an upgrade rolls through a fleet within weeks.
WITHIN: Final = timedelta(days=14)
# Other hosts that are looked at, those of the same pools first.
HOSTS_MAXIMUM: Final = 200
_STEPS_MAXIMUM: Final = 2000
# Of a pool, which say how far each of its hosts moved.
_CHANGES_MAXIMUM: Final = 50
# A change of daily runs is placed one run too early or late now and then.
_TOGETHER: Final = timedelta(days=2)
_STEPS: Final = (
    "SELECT host_id, was, environment_id, started_at FROM ("
    " SELECT host_id, environment_id, started_at, lag(environment_id) OVER"
    "  (PARTITION BY host_id, target_id ORDER BY started_at, id) AS was"
    " FROM benchapp_run WHERE host_id = ANY(%s) AND error = 0 AND started_at BETWEEN %s AND %s) AS stepped"
    " WHERE was <> environment_id ORDER BY started_at, host_id LIMIT %s"
)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A thing came to a host."""

    host: Host
    at: datetime


def find_elsewhere(
    differences: Collection[FactDifference], changes: Sequence[Change], *, involved: Collection[int]
) -> dict[FactDifference, Elsewhere]:
    """Return what became of the other hosts to which the same came within 14 days of these changes.

    involved: ids of the hosts whose changes these are. A host stayed fine if five runs since it came show no change in
    what is judged there; one of which that is not known yet counts in nothing. At most eight queries.
    """
    hosts = _list_hosts(involved)
    arrivals = _find_arrivals(differences, hosts, changes) if differences and hosts else {}
    if not arrivals:
        return {}
    everyone = [arrival for found in arrivals.values() for arrival in found]
    judged = _Judged(changes, everyone)
    return {
        difference: Elsewhere(
            moved=tuple(sorted(one.host.name for one in found if judged.has_moved(one))),
            fine=tuple(sorted(one.host.name for one in found if judged.is_fine(one))),
            here=len(involved),
        )
        for difference, found in arrivals.items()
    }


def _list_hosts(involved: Collection[int]) -> dict[int, Host]:
    pools = set(Host.objects.filter(pk__in=involved).exclude(pool="").values_list("pool", flat=True))
    others = Host.objects.active().exclude(pk__in=involved)
    is_near = Case(When(pool__in=pools, then=Value(0)), default=Value(1))
    return {host.pk: host for host in others.order_by(is_near, "id")[:HOSTS_MAXIMUM]}


def _find_arrivals(
    differences: Collection[FactDifference], hosts: Mapping[int, Host], changes: Sequence[Change]
) -> dict[FactDifference, list[_Arrival]]:
    """Return when each difference came to each host for the first time."""
    times = [change.started_at for change in changes]
    with connection.cursor() as cursor:
        cursor.execute(_STEPS, [list(hosts), min(times) - WITHIN, max(times) + WITHIN, _STEPS_MAXIMUM])
        steps = list(cursor.fetchall())
    environments = Environment.objects.in_bulk({one for _, was, now, _ in steps for one in (was, now)})
    facts = {pk: flatten_environment(environment) for pk, environment in environments.items()}
    found: dict[FactDifference, dict[int, _Arrival]] = defaultdict(dict)
    for host_id, was, now, at in steps:
        for difference in differences:
            before, after = facts[was].get(difference.name), facts[now].get(difference.name)
            if (before, after) == (difference.before, difference.after):
                found[difference].setdefault(host_id, _Arrival(hosts[host_id], at))
    return {difference: list(arrivals.values()) for difference, arrivals in found.items()}


class _Judged:
    """What is known of the hosts to which something came: changes at that time, runs since, what is judged there."""

    def __init__(self, changes: Sequence[Change], arrivals: Sequence[_Arrival]) -> None:
        pools = _split_pools(changes)
        self.pools = set(pools)
        self.shares = {host: share for shares in pools.values() for host, share in shares.items()}
        scopes = {one.host.scope for one in arrivals}
        times = [one.at for one in arrivals]
        span = (min(times) - _TOGETHER, max(times) + _TOGETHER)
        self.times = _read_changes(scopes, changes[0].is_regression, span=span)
        steady = Judgement.objects.filter(
            series__scope__in=scopes, series__judging_is_due=False, standing=DetectionStatus.STEADY
        )
        self.steady = set(steady.values_list("series__scope", flat=True).order_by().distinct())
        self.runs = _count_runs(arrivals)

    def has_moved(self, one: _Arrival) -> bool:
        """Say whether the host moved the same way when it came."""
        if one.host.scope in self.pools:
            return self.shares.get(one.host.name, 0.0) >= CHANGED_SHARE
        return any(
            state != ChangeState.SUSPECTED and abs(at - one.at) <= _TOGETHER
            for state, at in self.times.get(one.host.scope, ())
        )

    def is_fine(self, one: _Arrival) -> bool:
        """Say whether enough runs since it came show that the host did not move, not even by suspicion."""
        if self.runs.get(one.host.pk, 0) < CONFIRMED_AFTER_RUNS or one.host.scope not in self.steady:
            return False
        if one.host.scope in self.pools:
            return self.shares.get(one.host.name, 1.0) < CHANGED_SHARE
        return not any(abs(at - one.at) <= _TOGETHER for _, at in self.times.get(one.host.scope, ()))


def _split_pools(changes: Sequence[Change]) -> dict[str, dict[str, float]]:
    """Return of the pools that moved how far each host went: they share the series in which it is seen."""
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


def _count_runs(arrivals: Sequence[_Arrival]) -> dict[int, int]:
    """Return how many runs each host has had since the last thing came to it."""
    latest: dict[int, datetime] = {}
    for one in arrivals:
        latest[one.host.pk] = max(one.at, latest.get(one.host.pk, one.at))
    since = Q()
    for host_id, at in latest.items():
        since |= Q(host_id=host_id, started_at__gte=at)
    rows = Run.objects.filter(since, error=0).values("host").annotate(count=Count("pk")).order_by()
    return dict(rows.values_list("host", "count"))
