"""How this very agent is started again, from anywhere and by anybody: the .pyz, an installed command, or a checkout."""

from __future__ import annotations

import os
import sys
from typing import Sequence

# What the system empties at boot, or after some days.
_PASSING = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/")  # nosec B108: nothing is written there


def find_own_command(
    argv: Sequence[str] | None = None, *, package: str | None = None, python: str | None = None
) -> tuple[str, ...]:
    """Return the absolute command that starts this agent; the arguments are for tests."""
    source = os.path.abspath(package or os.path.dirname(__file__))
    interpreter = python or sys.executable
    archive = os.path.dirname(source)
    if os.path.isfile(archive):
        # Not by its first line: cron's PATH may hold another python3.
        return (interpreter, archive)
    script = os.path.abspath((argv or sys.argv)[0])
    is_command = os.path.isfile(script) and os.access(script, os.X_OK)
    if is_command and os.path.basename(script).startswith("bench-agent"):
        return (script,)
    return (interpreter, os.path.join(source, "__main__.py"))


def find_passing(command: Sequence[str]) -> str | None:
    """Return the part of a command that will not be there for long, None where all of it will."""
    return next((part for part in command if part.startswith(_PASSING)), None)
