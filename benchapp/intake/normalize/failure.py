"""Whether a run failed, and why: decided here alone, of what the sender reports and fio printed. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from benchapp.catalog.metrics import INCOMPLETE, describe_error
from benchapp.fio.report import Report
from benchapp.series.validity.inputs import RunFailure

# fio exits with status 0 after a signal that killed one of its jobs, old versions after any signal.
_SIGNAL: Final = re.compile(
    r"^fio: (?:terminating on signal |pid=\d{1,10}, got signal=)(\d{1,2})\b", re.MULTILINE
)
# As agents without command.failure report what they stopped.
_STOPPED: Final = re.compile(r"^bench-agent: (stopped .+)$", re.MULTILINE)


def find_failure(report: Report, number: int, command: Mapping[str, Any]) -> RunFailure | None:
    """Return why the run of a document failed, None if it did not.

    command: as the agent sent it, {} without one. What it reports holds for all documents of a submission, a signal
    that only the output reports for the last one.
    """
    document = report.documents[number]
    job = next((job for job in document.jobs if job.error), None)
    is_last = number == len(report.documents) - 1
    signal = _SIGNAL.search("\n".join(report.messages)) if is_last else None
    if reason := command.get("failure") or describe_exit(command):
        pass
    elif signal:
        reason = f"fio or one of its jobs was stopped by signal {signal.group(1)}"
    elif job:
        reason = f"fio reported {describe_error(job.error)} of job {job.name}"
    elif document.is_partial and not document.has_faults:
        reason = "the report of fio is incomplete"
    else:
        return None
    return RunFailure(job.error if job else INCOMPLETE, reason)


def describe_exit(command: Mapping[str, Any]) -> str:
    """Return how the agent says that fio ended, "" if it ended normally."""
    error_output = str(command.get("stderr") or "")
    if stopped := _STOPPED.search(error_output):
        return f"fio was {stopped.group(1)}"
    if command.get("signal"):
        return f"fio was killed by signal {command['signal']}"
    if command.get("exit_status"):
        return f"fio exited with status {command['exit_status']}"
    signal = _SIGNAL.search(error_output)
    return f"fio or one of its jobs was stopped by signal {signal.group(1)}" if signal else ""
