"""How a command can end: exit codes, and the errors that stand for them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What cron, systemd or a script is told."""

    OK = 0
    TRY_LATER = 1
    CONFIGURATION = 2
    NOT_MEASURED = 3
    REJECTED = 4
    FAULT = 70


# A bad token hides every later result, so it outranks a failed fio; a full queue heals by itself and comes last.
_SEVERITY = (
    ExitCode.FAULT,
    ExitCode.CONFIGURATION,
    ExitCode.NOT_MEASURED,
    ExitCode.REJECTED,
    ExitCode.TRY_LATER,
    ExitCode.OK,
)


def worst(*codes: ExitCode) -> ExitCode:
    """Return the code that an operator must hear of first."""
    return min(codes, key=_SEVERITY.index)


class AgentError(Exception):
    """Something that the operator is told in one sentence; never a traceback."""

    exit_code = ExitCode.FAULT


class ConfigurationError(AgentError):
    """Configuration, credentials or arguments are wrong: a person must act."""

    exit_code = ExitCode.CONFIGURATION


class CannotMeasure(AgentError):
    """fio is missing, failed, or may not run here."""

    exit_code = ExitCode.NOT_MEASURED


class StorageHangs(CannotMeasure):
    """Whoever touches the storage under test waits for ever: leave it alone."""


class TryLater(AgentError):
    """Nothing is wrong here that the next try would not find healed."""

    exit_code = ExitCode.TRY_LATER


class Interrupted(AgentError):
    """A signal asked the agent to stop; the exit status is 128 + signal, as a shell says it."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
