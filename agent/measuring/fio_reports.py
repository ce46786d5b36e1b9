"""fio's reports: jobs that failed or are missing, several executions in one submission, and the results.

The JSON documents of several executions are concatenated.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from typing import Any, Iterator, Mapping, Sequence

from agent.measuring.fio import FioResult
from agent.measuring.jobfile import list_reported_jobs
from agent.results import ResultRow

# Old versions exit with status 0 after a signal, all of them after one that killed a job, as by the OOM killer.
_SIGNAL = re.compile(r"^fio: (?:terminating on signal |pid=\d{1,10}, got signal=)(\d{1,2})\b", re.MULTILINE)
_NAMED_MAXIMUM = 3
_DIRECTIONS = ("read", "write")
_SHOWN_DIRECTIONS = ("read", "write", "trim", "mixed")
# The server's rule: below ten expected samples above p99 it is hidden.
_P99_SAMPLES_MINIMUM = 1000
_TIMING = re.compile(r"^\$ time for .*?(cat|echo).*?^real\t(\d+)m(\d+\.\d+)s$", re.MULTILINE | re.DOTALL)


def list_reports(output: str) -> Iterator[Mapping[str, Any]]:
    """Yield the complete JSON documents; fio prints messages before and between them."""
    decoder, place = json.JSONDecoder(), output.find("{")
    while place >= 0:
        try:
            report, place = decoder.raw_decode(output, place)
        except ValueError:
            place += 1
        else:
            if isinstance(report, dict) and isinstance(report.get("jobs"), list):
                yield report
        place = output.find("{", place)


def find_job_problem(output: str, error_output: str, *, jobfile: str) -> str | None:
    """Return what fio printed of a job that failed, or that its report does not have; None if all succeeded."""
    stopped = _SIGNAL.search(output.partition("{")[0]) or _SIGNAL.search(error_output)
    if stopped:
        return f"or one of its jobs was stopped by signal {stopped.group(1)}"
    jobs = [job for report in list_reports(output) for job in report["jobs"] if isinstance(job, dict)]
    for job in jobs:
        error = job.get("error")
        if isinstance(error, int) and error:
            return f"reported error {error} ({os.strerror(abs(error))}) of job {job.get('jobname', '')}"
    reported = {str(job.get("jobname", "")) for job in jobs}
    missing = [name for name in dict.fromkeys(list_reported_jobs(jobfile)) if name not in reported]
    if not missing:
        return None
    others = f" and {len(missing) - _NAMED_MAXIMUM} more" if len(missing) > _NAMED_MAXIMUM else ""
    return f"reported no result of job {', '.join(missing[:_NAMED_MAXIMUM])}{others}"


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
        for direction in _SHOWN_DIRECTIONS:
            part = job.get(direction) if isinstance(job, dict) else None
            try:
                if part and _count_ios(part) >= 1:
                    error = int(job.get("error") or 0)
                    yield ResultRow(
                        f"{job.get('jobname', '')} {direction}".strip(), direction, error, _read_values(part)
                    )
            except (LookupError, TypeError, ValueError, AttributeError):
                continue  # not fio's: the server reports it


def _read_values(part: Mapping[str, Any]) -> dict[str, float]:
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
