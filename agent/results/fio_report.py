"""The results in the output of a run, read on this host: shown if the server has not stored the run."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

from agent.measuring.job_reports import list_reports
from agent.measuring.joined_results import find_percentile
from agent.results.result_row import ResultRow

_DIRECTIONS = ("read", "write", "trim", "mixed")
# The server's rule: below ten expected samples above p99 it is hidden.
_P99_SAMPLES_MINIMUM = 1000
_TIMING = re.compile(r"^\$ time for .*?(cat|echo).*?^real\t(\d+)m(\d+\.\d+)s$", re.MULTILINE | re.DOTALL)


def list_fio_results(output: str) -> tuple[ResultRow, ...]:
    """Return a row for each job and direction with I/O, or for each timing; () for output without a report."""
    if not output.startswith("$ time"):
        return tuple(row for report in list_reports(output) for row in _list_rows(report))
    return tuple(
        ResultRow(
            "small files read" if command == "cat" else "small files write",
            "read" if command == "cat" else "write",
            0,
            {"elapsed_s": int(minutes) * 60 + float(seconds)},
        )
        for command, minutes, seconds in _TIMING.findall(output)
    )


def _list_rows(report: Mapping[str, Any]) -> Iterator[ResultRow]:
    for job in report["jobs"]:
        for direction in _DIRECTIONS:
            part = job.get(direction) if isinstance(job, dict) else None
            try:
                if part and _count_ios(part) >= 1:
                    error = int(job.get("error") or 0)
                    yield ResultRow(
                        f"{job.get('jobname', '')} {direction}".strip(), direction, error, _read(part)
                    )
            except (LookupError, TypeError, ValueError, AttributeError):
                continue  # not fio's: the server reports it


def _read(part: Mapping[str, Any]) -> dict[str, float]:
    # Before fio 3.0 bw is in KiB/s only, and latencies are in microseconds.
    bandwidth = part["bw_bytes"] if "bw_bytes" in part else part["bw"] * 1024
    values = {"iops": float(part["iops"]), "bandwidth_bytes_per_s": float(bandwidth)}
    for name, factor in (("lat_ns", 1), ("lat", 1000)):
        if part.get(name, {}).get("mean"):
            values["latency_mean_ns"] = float(part[name]["mean"]) * factor
            break
    p99_ns = find_percentile(part, 99)
    if p99_ns is not None and _count_ios(part) >= _P99_SAMPLES_MINIMUM:
        values["latency_p99_ns"] = p99_ns
    return values


def _count_ios(part: Mapping[str, Any]) -> float:
    """Return the number of I/Os; fio before 2.1.14 prints only their rate and duration."""
    if "total_ios" in part:
        return float(part["total_ios"])
    return float(part["iops"]) * float(part["runtime"]) / 1000
