"""Make the host one arm of an experiment: by a command of the operator, or by asking the operator."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

from agent.console import Console, is_confirmed
from agent.exit_codes import CannotMeasure, ConfigurationError

# A reinstallation of a package takes minutes.
_COMMAND_MAXIMUM_S = 3600
_CHECK_MAXIMUM_S = 60
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class SwitchFailed(CannotMeasure):
    """The host could not be made an arm; the experiment can be resumed."""


@dataclass(frozen=True)
class ArmSwitch:
    """How the host becomes an arm. Commands come from the operator's command line only, never from the server.

    command, check: shell commands with the arm in BENCH_AGENT_ARM, "" without one; the check succeeds if the host is
    the arm. reboots: the command ends before the host has become the arm, by a reboot.
    """

    command: str
    check: str
    reboots: bool

    def is_arm(self, arm: str) -> bool | None:
        """Return whether the host is an arm; None without a check."""
        if not self.check:
            return None
        return self._run(self.check, arm, "--check-command", maximum_s=_CHECK_MAXIMUM_S) == 0

    def switch(self, arm: str, console: Console) -> None:
        """Make the host an arm, or wait until the operator has. Raises SwitchFailed, ConfigurationError."""
        if self.command:
            console.note(f"arm {arm}: running --switch-command")
            status = self._run(self.command, arm, "--switch-command", maximum_s=_COMMAND_MAXIMUM_S)
            if status != 0:
                raise SwitchFailed(f"arm {arm}: --switch-command failed with exit status {status}")
        else:
            _ask(arm)

    def _run(self, command: str, arm: str, option: str, *, maximum_s: float) -> int:
        try:
            return subprocess.run(
                ["/bin/sh", "-c", command],
                env={**os.environ, "BENCH_AGENT_ARM": arm},
                stdin=subprocess.DEVNULL,
                # Standard output is for the result.
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
                timeout=maximum_s,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise SwitchFailed(f"arm {arm}: {option} was killed after {maximum_s:.0f} s") from None
        except OSError as error:
            raise SwitchFailed(f"arm {arm}: {option}: {error}") from None


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, AttributeError, ValueError):
        return False
    return True


def require_terminal(arm: str) -> None:
    """Raise ConfigurationError if nobody can confirm that the host is an arm."""
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"arm {arm}: there is no terminal to confirm it; give --switch-command, or run the command on a terminal"
        )


def _ask(arm: str) -> None:
    require_terminal(arm)
    if not is_confirmed(f"set up arm {arm}, then type yes:"):
        raise ConfigurationError(f"arm {arm}: not confirmed")


def read_boot_id(path: str = _BOOT_ID) -> str | None:
    """Return the id of this boot of the host; None if the system has none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, ValueError):
        return None
