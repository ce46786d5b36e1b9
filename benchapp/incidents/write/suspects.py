"""Suspects: environment changes that coincide with an incident (kernel, firmware, mount, array, labels, conditions).

The last good and the first bad run of each change are compared, on the same host. The base rate of each environment
change is counted over earlier runs of these hosts. Conditions of a run (free memory, load, fill of the filesystem,
extents of the file) count from a change of 20 %.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from benchapp.incidents.rules.suspects import (
    Elsewhere,
    FactDifference,
    Suspect,
    rank_suspects,
    weigh_elsewhere,
)
from benchapp.incidents.write.counter_evidence import find_elsewhere
from benchapp.incidents.write.run_facts import (
    RunFacts,
    compare_facts,
    flatten_environment,
    read_facts_of,
    with_facts,
)
from benchapp.models import Change, Environment, Measurement, Run

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
    return f"; same change on other hosts: {', '.join(parts)}"


def _count_hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
