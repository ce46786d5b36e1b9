"""The jobs in fio's reports: which failed, and which of the job file are missing."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Iterator, Mapping

from agent.measuring.jobfile import list_reported_jobs

# Old versions exit with status 0 after a signal, all of them after one that killed a job, as by the OOM killer.
_SIGNAL = re.compile(r"^fio: (?:terminating on signal |pid=\d{1,10}, got signal=)(\d{1,2})\b", re.MULTILINE)
_NAMED_MAXIMUM = 3


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
