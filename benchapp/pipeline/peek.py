"""Look whether a text is an output of fio at all, while its sender still listens."""

from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog

from benchapp.fio import UnreadableOutput, read_output

log = structlog.get_logger(__name__)

# Of a longer text the beginning is read first: text is read at 20 MB/s, and the rest need not be read to know it.
_BEGINNING_BYTES: Final = 256 * 1024
_DIRECTIONS: Final = ("read", "write", "trim", "mixed")
# What has no trace of fio, as against a report that is damaged.
_FOREIGN_CODES: Final = frozenset({"no-report", "empty-output"})


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a text cannot be read; code is stable, detail a sentence for the operator."""

    code: str
    detail: str

    @property
    def is_foreign(self) -> bool:
        """Say whether fio printed no report into it at all."""
        return self.code in _FOREIGN_CODES


def find_fault(output: bytes) -> Fault | None:
    """Return why this can never be read, None where it can or where the reader itself failed.

    All formats that the reader knows. A fault of the reader must not lose a result: it is stored, and judged by
    the worker.
    """
    if _is_clean_report(output):
        return None
    if len(output) > _BEGINNING_BYTES and _read(output[:_BEGINNING_BYTES]) is None:
        return None
    return _read(output)


def _read(output: bytes) -> Fault | None:
    try:
        read_output(output)
    except UnreadableOutput as error:
        return Fault(error.code, error.detail)
    except Exception:
        log.exception("peek.reader_failed", size=len(output))
    return None


def _is_clean_report(output: bytes) -> bool:
    """Say whether this is one JSON report with results: nearly every post, at a seventh of what reading it takes."""
    try:
        content = orjson.loads(output)
    except orjson.JSONDecodeError:
        return False
    jobs = content.get("jobs") if isinstance(content, dict) else None
    return isinstance(jobs, list) and bool(jobs) and _has_results(jobs[0])


def _has_results(job: Any) -> bool:
    return isinstance(job, dict) and any(
        isinstance(values := job.get(name), dict) and "io_bytes" in values for name in _DIRECTIONS
    )
