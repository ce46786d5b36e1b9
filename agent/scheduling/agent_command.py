"""The command that starts this agent from cron or systemd: a .pyz, an installed command, or a checkout."""

from __future__ import annotations

import os
import sys
from typing import Sequence

# Directories that are emptied at boot, or after some days.
_TEMPORARY_PREFIXES = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/")  # nothing is written there  # noqa: S108


def find_own_command(
    argv: Sequence[str] | None = None, *, package: str | None = None, python: str | None = None
) -> tuple[str, ...]:
    """Return the command that starts this agent, with absolute paths; the arguments are for tests."""
    source = os.path.abspath(package or os.path.dirname(os.path.dirname(__file__)))
    interpreter = python or sys.executable
    if os.path.isfile(os.path.dirname(source)):
        # With the interpreter: python3 on cron's PATH may be another version. The package itself is read from a
        # descriptor, whose path ends with this process.
        return (interpreter, os.path.abspath((argv or sys.argv)[0]))
    script = os.path.abspath((argv or sys.argv)[0])
    is_command = os.path.isfile(script) and os.access(script, os.X_OK)
    if is_command and os.path.basename(script).startswith("bench-agent"):
        return (script,)
    return (interpreter, os.path.join(source, "__main__.py"))


def find_temporary_path(command: Sequence[str]) -> str | None:
    """Return the part of a command in a temporary directory, or None."""
    return next((part for part in command if part.startswith(_TEMPORARY_PREFIXES)), None)
