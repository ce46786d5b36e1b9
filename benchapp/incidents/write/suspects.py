"""Suspects: environment changes that coincide with an incident (kernel, firmware, mount, array, labels, conditions).

The last good and the first bad run of each change are compared, on the same host. The base rate of each environment
change is counted over earlier runs of these hosts. Conditions of a run (free memory, load, fill of the filesystem,
extents of the file) count from a change of 20 %.

Counter-evidence is other hosts with the same environment change: a kernel upgrade of five hosts of which one regressed
is a weaker suspect than an upgrade of that host alone. Labels and conditions belong to a run and have no
counter-evidence.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Case, Count, F, Q, QuerySet, Value, When

from benchapp.catalog.metrics import cut_text
from benchapp.detection.rules.recovery import CONFIRMED_AFTER_RUNS
from benchapp.incidents.rules.incidents import (
    Elsewhere,
    FactDifference,
    Suspect,
    find_event_window,
    rank_suspects,
    weigh_elsewhere,
)
from benchapp.incidents.write.common_factors import CHANGED_SHARE, read_shares
from benchapp.models import (
    ENVIRONMENT_FIELDS,
    RECENTLY_REPORTED,
    SWEEP_CONDITIONS,
    Change,
    ChangeState,
    DetectionResult,
    DetectionStatus,
    Environment,
    Host,
    Measurement,
    Run,
)
from benchapp.models.incident import ELSEWHERE
from benchapp.series.read.environment_changes import identify_disks, join_disk_changes

_TEXT_MAXIMUM: Final = 80
_DEPTH_MAXIMUM: Final = 4
_NUMBER: Final = re.compile(r"-?\d{1,18}(\.\d{1,9})?")
# Conditions of a run (load, free memory) always vary: a difference starts at 20 %.
_CONDITION_STEP: Final = 0.2
# Facts without influence on performance.
_IRRELEVANT: Final = frozenset({"time_zone"})


@dataclass(frozen=True, slots=True)
class RunFacts:
    """lasting: environment and labels by name; conditions: state at the time of the run."""

    lasting: Mapping[str, str]
    conditions: Mapping[str, str]


_flat: dict[bytes, Mapping[str, str]] = {}
# Environments are few and never change: a host has the same for months.
_CACHED_MAXIMUM: Final = 2000


def with_facts(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Select environment and conditions of runs, without their long columns."""
    return (
        runs.select_related("environment", "host")
        .defer("warnings", "command")
        .annotate(conditions=F("command__conditions"))
    )


def read_facts_of(run: Run) -> RunFacts:
    """Return the facts of a run from `with_facts`."""
    labels = {f"label {name}": _write(value) for name, value in (run.labels or {}).items()}
    conditions = getattr(run, "conditions", None)
    return RunFacts(
        {**flatten_environment(run.environment), **labels},
        dict(_flatten(conditions, "")) if isinstance(conditions, dict) else {},
    )


def compare_facts(before: RunFacts, after: RunFacts) -> tuple[FactDifference, ...]:
    """Return the differences by name. A condition of only one of the runs is not a difference."""
    lasting_before, lasting_after = join_disk_changes(before.lasting, after.lasting)
    pairs = {
        name: (lasting_before.get(name), lasting_after.get(name))
        for name in sorted(lasting_before.keys() | lasting_after.keys())
    }
    found = [
        FactDifference(name, was, now)
        for name, (was, now) in pairs.items()
        if was != now and not (name in RECENTLY_REPORTED and None in (was, now))
    ]
    for name in sorted((before.conditions.keys() & after.conditions.keys()).difference(SWEEP_CONDITIONS)):
        old, new = before.conditions[name], after.conditions[name]
        if _has_changed(old, new):
            found.append(FactDifference(name, old, new))
    return tuple(found)


def flatten_environment(environment: Environment) -> Mapping[str, str]:
    """Return an environment as flat text by name, without irrelevant facts."""
    key = bytes(environment.key)
    if key not in _flat:
        if len(_flat) >= _CACHED_MAXIMUM:
            _flat.clear()
        plain = {
            name: _write(value)
            for name in ENVIRONMENT_FIELDS
            if name != "facts" and (value := getattr(environment, name)) not in (None, "")
        }
        facts = identify_disks(environment.facts or {})
        for name in _IRRELEVANT:
            facts.pop(name, None)
        _flat[key] = {**dict(_flatten(facts, "")), **plain}
    return _flat[key]


def _flatten(facts: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and path.count(".") < _DEPTH_MAXIMUM:
            yield from _flatten(value, f"{path}.")
        elif value is not None and value != "":
            yield path, _write(value)


def _write(value: Any) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    )
    return cut_text(text, _TEXT_MAXIMUM)


def _has_changed(before: str, after: str) -> bool:
    if not (_NUMBER.fullmatch(before) and _NUMBER.fullmatch(after)):
        return before != after
    old, new = float(before), float(after)
    return abs(new - old) > _CONDITION_STEP * max(abs(old), abs(new))


# Around the changes: an upgrade rolls through a fleet within weeks.
WITHIN: Final = timedelta(days=14)
# Other hosts that are read, those of the same pools first.
HOSTS_MAXIMUM: Final = 200
_STEPS_MAXIMUM: Final = 2000
# Changes of a pool that are read for the share of each host.
_MEMBERS_MAXIMUM: Final = 50
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
    return {scope: read_shares(members[:_MEMBERS_MAXIMUM]) for scope, members in by_scope.items()}


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


# Changes of an incident that are compared, and earlier runs of its hosts.
_CHANGES_MAXIMUM: Final = 300
_HOSTS_MAXIMUM: Final = 10
_RUNS_MAXIMUM: Final = 600
# Runs around the changes, of all their series, that are read to compare the environments of neighbors.
_NEAR_RUNS_MAXIMUM: Final = 10_000
# Steps from run to run between the runs before and after a change, if its start may be off by one.
_NEAR_STEPS: Final = 3
# Share of the changes that the most frequent difference explains.
_MOST_SHARE: Final = 0.5
# Unaffected hosts listed by name.
_HOSTS_NAMED: Final = 5
_NAMES: Final = {
    "kernel": "the kernel",
    "os": "the operating system",
    "fio_version": "fio",
    "cpu_model": "the CPU",
    "cpu_count": "the number of CPUs",
    "memory_bytes": "the memory",
    "scheduler": "the I/O scheduler",
    "device_model": "the device",
    "device_firmware": "the firmware",
    "device_driver": "the driver",
    "device_class": "the device class",
    "governor": "the CPU governor",
    "virtualization": "the virtualization",
    "agent_version": "the agent",
    "md.degraded": "the array's missing members",
    "md.sync_action": "the array's activity",
    "raid_state": "the array's state",
    "host": "the host",
}


def find_suspects(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the suspects, as in `Incident.suspects`; [] without a recorded environment change.

    The start of a small change may be off by a run: if less than half of the changes coincide exactly, those within a
    run are counted. Five queries, one or two more then, up to eight for other hosts with the same change, and for a
    pool one more for each pair of runs.
    """
    selected = sorted(changes, key=lambda change: (-change.confidence, change.pk))[:_CHANGES_MAXIMUM]
    pairs = _pair_runs(selected)
    if not pairs:
        return []
    runs = _read_runs({run_id for pair in pairs for run_id in pair if run_id is not None})
    # Series that changed at the same run share their pair.
    compared = {pair: _compare_pair(runs, pair[1], pair[0]) for pair in set(pairs) if pair[0] in runs}
    differences = [compared[pair] for pair in pairs if pair in compared]
    near = [] if _do_most_differ(differences) else _compare_near(selected, runs)
    if not any(differences) and not any(near):
        return []
    steps, counts = _count_steps(list(runs.values()))
    suspects = rank_suspects(differences, steps=steps, step_counts=counts)
    # Three steps from run to run instead of one: three times as many changes of a fact by chance.
    wide = rank_suspects(
        near,
        steps=steps,
        step_counts={name: min(_NEAR_STEPS * count, steps) for name, count in counts.items()},
    )
    is_near = bool(wide) and wide[0].share >= _MOST_SHARE
    if is_near:
        suspects = wide
    elsewhere = find_elsewhere(
        [suspect.difference for suspect in suspects],
        selected,
        involved={runs[bad].host_id for bad, _ in pairs if bad in runs},
    )
    return [
        _describe(suspect, changes=len(differences), is_near=is_near)
        for suspect in weigh_elsewhere(suspects, elsewhere)
    ]


def _do_most_differ(differences: Sequence[Sequence[FactDifference]]) -> bool:
    """Return whether most changes coincide with the same difference."""
    counts = Counter(difference for found in differences for difference in set(found))
    return bool(counts) and max(counts.values()) >= _MOST_SHARE * len(differences)


def _compare_near(changes: Sequence[Change], runs: Mapping[int, Run]) -> list[tuple[FactDifference, ...]]:
    """Compare the environments of the run before the last good one and of the run after the first bad one.

    One item for each change whose first bad run is stored; () if the last good run is not of the same host, as in a
    pool. Conditions and labels vary more. One query if all hosts have the same environment before and after, else two.
    """
    known = [change for change in changes if change.run_id in runs]
    same_host = [change for change in known if _is_of_one_host(change, runs)]
    if not same_host:
        return [()] * len(known)
    lines = _read_lines(same_host, runs)
    pairs = [
        _find_environments(lines[change.series_id, runs[change.run_id or 0].host_id], change)
        if _is_of_one_host(change, runs)
        else (0, 0)
        for change in known
    ]
    wanted = {environment_id for pair in pairs if pair[0] != pair[1] for environment_id in pair}
    facts = (
        {
            environment.pk: RunFacts(flatten_environment(environment), {})
            for environment in Environment.objects.filter(pk__in=wanted)
        }
        if wanted
        else {}
    )
    return [
        compare_facts(facts[before], facts[after]) if before in facts and after in facts else ()
        for before, after in pairs
    ]


def _is_of_one_host(change: Change, runs: Mapping[int, Run]) -> bool:
    bad, good = runs.get(change.run_id or 0), runs.get(change.last_good_run_id or 0)
    return bad is not None and good is not None and bad.host_id == good.host_id


def _read_lines(
    changes: Sequence[Change], runs: Mapping[int, Run]
) -> Mapping[tuple[int, int], dict[int, int]]:
    """Return run → environment of the runs around the changes, oldest first, by series and host; one query."""
    margin = 2 * timedelta(seconds=max(change.evidence.get("interval_s") or 0.0 for change in changes))
    around = Measurement.objects.filter(
        series_id__in={change.series_id for change in changes},
        started_at__gte=min(runs[change.last_good_run_id or 0].started_at for change in changes) - margin,
        started_at__lte=max(runs[change.run_id or 0].started_at for change in changes) + margin,
        error=0,
    ).order_by("started_at", "id")
    lines: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for series_id, host_id, run_id, environment_id in around.values_list(
        "series_id", "run__host_id", "run_id", "run__environment_id"
    )[:_NEAR_RUNS_MAXIMUM]:
        lines[series_id, host_id][run_id] = environment_id
    return lines


def _find_environments(line: Mapping[int, int], change: Change) -> tuple[int, int]:
    """Return the environments a run before the last good run, and a run after the first bad one; equal if unknown."""
    places = {run_id: place for place, run_id in enumerate(line)}
    good, bad = places.get(change.last_good_run_id or 0), places.get(change.run_id or 0)
    if good is None or bad is None:
        return 0, 0
    environments = list(line.values())
    return environments[max(good - 1, 0)], environments[min(bad + 1, len(environments) - 1)]


def _pair_runs(changes: Iterable[Change]) -> list[tuple[int, int | None]]:
    """Return the first bad and the last good run of each change with stored runs."""
    return [(change.run_id, change.last_good_run_id) for change in changes if change.run_id is not None]


def _read_runs(ids: Iterable[int]) -> dict[int, Run]:
    return {run.pk: run for run in with_facts(Run.objects.filter(pk__in=list(ids)))}


def _compare_pair(runs: Mapping[int, Run], good_id: int | None, bad_id: int) -> tuple[FactDifference, ...]:
    bad = runs[bad_id]
    good = runs.get(good_id) if good_id is not None else None
    if good is not None and good.host_id == bad.host_id:
        return compare_facts(read_facts_of(good), read_facts_of(bad))
    # In a pool the previous run can be of another host: compare with this host's previous run, or report the host.
    earlier = Run.objects.filter(
        host_id=bad.host_id, target_id=bad.target_id, started_at__lt=bad.started_at, error=0
    )
    before = with_facts(earlier).order_by("-started_at", "-id").first()
    if before is None:
        return (FactDifference("host", good.host.name if good else None, bad.host.name),)
    return compare_facts(read_facts_of(before), read_facts_of(bad))


def _count_steps(around: Sequence[Run]) -> tuple[int, dict[str, int]]:
    """Return the number of steps from run to run, and of those at which each fact changed."""
    hosts = sorted({run.host_id for run in around})[:_HOSTS_MAXIMUM]
    newest = max(run.started_at for run in around)
    runs = with_facts(Run.objects.filter(host_id__in=hosts, started_at__lte=newest))
    rows = runs.order_by("-started_at", "-id")[:_RUNS_MAXIMUM]
    steps, counts = 0, dict[str, int]()
    for before, after in _list_steps(rows):
        steps += 1
        for difference in compare_facts(before, after):
            counts[difference.name] = counts.get(difference.name, 0) + 1
    return steps, counts


def _list_steps(newest_first: Iterable[Run]) -> Iterator[tuple[RunFacts, RunFacts]]:
    """Yield each run of a host on a target with its successor."""
    after: dict[tuple[int, int], RunFacts] = {}
    for run in newest_first:
        line, facts = (run.host_id, run.target_id), read_facts_of(run)
        if line in after:
            yield facts, after[line]
        after[line] = facts


def _describe(suspect: Suspect, *, changes: int, is_near: bool) -> dict[str, Any]:
    difference = suspect.difference
    return {
        "name": difference.name,
        "before": difference.before,
        "after": difference.after,
        "share": round(suspect.share, 4),
        "coincides_with": suspect.count,
        "changes": changes,
        "hosts_regressed": len(suspect.elsewhere.regressed),
        "hosts_unaffected": len(suspect.elsewhere.unaffected),
        "unaffected_hosts": list(suspect.elsewhere.unaffected[:_HOSTS_NAMED]),
        "is_near": is_near,
        "text": _describe_text(suspect, changes, is_near=is_near),
    }


def _describe_text(suspect: Suspect, changes: int, *, is_near: bool) -> str:
    difference = suspect.difference
    name = _NAMES.get(difference.name) or difference.name.replace("_", " ").replace(".", ": ")
    share = "all changes" if suspect.count == changes else f"{suspect.count} of {changes} changes"
    before, after = (value or "unknown" for value in (difference.before, difference.after))
    coincides = "coincides within a run with" if is_near else "coincides with"
    return f"{name}: {before} → {after}, {coincides} {share}{_describe_elsewhere(suspect.elsewhere)}"


def _describe_elsewhere(elsewhere: Elsewhere) -> str:
    """Describe other hosts with the same environment change; "" if none is known."""
    regressed, unaffected = len(elsewhere.regressed), len(elsewhere.unaffected)
    if not regressed and not unaffected:
        return ""
    named = ", ".join(elsewhere.unaffected[:_HOSTS_NAMED]) + (", …" if unaffected > _HOSTS_NAMED else "")
    parts = [f"{_count_hosts(regressed)} also regressed"] if regressed else []
    parts += [f"{_count_hosts(unaffected)} unaffected ({named})"] if unaffected else []
    return ELSEWHERE + ", ".join(parts)


def _count_hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
