"""Look whether a text is an output of fio at all, while its sender still listens."""

from dataclasses import dataclass

import structlog

from benchapp.fio import UnreadableOutput, read_output

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a text cannot be read; code is stable, detail a sentence for the operator."""

    code: str
    detail: str


def find_fault(output: bytes) -> Fault | None:
    """Return why this can never be read, None where it can or where the reader itself failed.

    A fault of the reader must not lose a result: it is stored, and judged by the worker.
    """
    try:
        read_output(output)
    except UnreadableOutput as error:
        return Fault(error.code, error.detail)
    except Exception:
        log.exception("peek.reader_failed", size=len(output))
    return None
