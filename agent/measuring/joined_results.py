"""Several executions of fio in one submission: their JSON documents are concatenated."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from agent.measuring.fio import FioResult

_DIRECTIONS = ("read", "write")


@dataclass(frozen=True)
class Figures:
    """The result of one execution: IOPS of all directions, p95 of the slower one.

    p95_ns: completion latency, None if fio did not report it.
    """

    iops: float
    p95_ns: float | None


def join_results(results: Sequence[FioResult]) -> FioResult:
    """Return executions joined to one: outputs in order, exit status of the last."""
    return replace(
        results[-1],
        stdout="".join(result.stdout for result in results),
        stderr="".join(result.stderr for result in results),
        started_at=results[0].started_at,
    )


def join_jobfiles(jobfiles: Sequence[str]) -> str:
    """Return the first job file, and of the others only the lines that differ."""
    first = jobfiles[0].splitlines()
    parts = [jobfiles[0]]
    for number, jobfile in enumerate(jobfiles[1:], 2):
        changed = [line for line in jobfile.splitlines() if line not in first]
        parts.append(f"# execution {number}: {', '.join(changed)}\n")
    return "".join(parts)


def read_figures(result: FioResult) -> Figures | None:
    """Return the figures of the first job of a report; None if the execution failed or did no I/O."""
    try:
        report, _ = json.JSONDecoder().raw_decode(result.stdout, result.stdout.index("{"))
        job = report["jobs"][0]
        parts = [job[name] for name in _DIRECTIONS if job[name]["total_ios"]]
        iops = sum(float(part["iops"]) for part in parts)
        latencies = [find_percentile(part, 95) for part in parts]
    except (ValueError, LookupError, TypeError):
        return None
    if result.failure or not iops:
        return None
    known = [latency for latency in latencies if latency is not None]
    return Figures(iops, max(known, default=None))


def find_percentile(part: Mapping[str, Any], percent: int) -> float | None:
    """Return a percentile of the latency of a direction, ns; None if fio did not report it.

    Of the completion latency, or else of the total latency; before fio 3.0 the values are in microseconds, and their
    names have no unit.
    """
    for name, factor in (("clat_ns", 1), ("clat", 1000), ("lat_ns", 1), ("lat", 1000)):
        value = part.get(name, {}).get("percentile", {}).get(f"{percent}.000000")
        if value is not None:
            return float(value) * factor
    return None
