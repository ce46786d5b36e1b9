"""Exit codes, and the exceptions that cause them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status for cron, systemd or a script."""

    OK = 0
    TRY_LATER = 1
    CONFIGURATION = 2
    REGRESSED = 3
    UNDECIDED = 4
    NOT_MEASURED = 5
    REJECTED = 6
    FAULT = 70


# A bad token blocks every later result, so it outranks a failed fio; a full queue empties automatically and comes last.
# A regression outranks the job that failed next to it; a gate without a decision says less than why there is none.
_SEVERITY = (
    ExitCode.FAULT,
    ExitCode.CONFIGURATION,
    ExitCode.REGRESSED,
    ExitCode.NOT_MEASURED,
    ExitCode.REJECTED,
    ExitCode.UNDECIDED,
    ExitCode.TRY_LATER,
    ExitCode.OK,
)


def worst(*codes: ExitCode) -> ExitCode:
    """Return the most severe code."""
    return min(codes, key=_SEVERITY.index)


class AgentError(Exception):
    """An error that is reported to the operator in one sentence, without a traceback.

    reason_code: for the server, if a scheduled run ends with it.
    """

    exit_code = ExitCode.FAULT
    reason_code = "error"

    def __init__(self, message: str, *, reason_code: str = "") -> None:
        super().__init__(message)
        self.reason_code = reason_code or self.reason_code


class ConfigurationError(AgentError):
    """Configuration, credentials or arguments are invalid; an operator must fix them."""

    exit_code = ExitCode.CONFIGURATION


class CannotMeasure(AgentError):
    """fio is missing, failed, or may not run here."""

    exit_code = ExitCode.NOT_MEASURED
    reason_code = "not-measured"


class StorageHangs(CannotMeasure):
    """I/O on the storage under test blocks forever: do not touch it again."""

    reason_code = "storage-hangs"


class ResultRejected(AgentError):
    """The server will never accept this result, or this enrollment."""

    exit_code = ExitCode.REJECTED


class TryLater(AgentError):
    """A temporary condition; a later attempt can succeed."""

    exit_code = ExitCode.TRY_LATER


class Interrupted(AgentError):
    """A signal asked the agent to stop; the exit status is 128 + signal, as in a shell."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
