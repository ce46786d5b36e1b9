"""Ask another program: only where it is there, only for reading, and never for long."""

from __future__ import annotations

import os
import shutil
from typing import Protocol

# cron's PATH lacks the directories of the superuser's tools, which others may run as well.
_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


class Ask(Protocol):
    """Run a tool and return what it prints; "" where it is absent, fails or hangs."""

    def __call__(self, tool: str, *arguments: str) -> str: ...


def ask_tool(tool: str, *arguments: str, timeout_s: float = 2.0) -> str:
    """Return what a tool prints; "" where it is absent, fails or hangs."""
    found = shutil.which(tool, path=os.environ.get("PATH", "") + os.pathsep + _PATH)
    if found is None:
        return ""
    import subprocess

    try:
        answer = subprocess.run(
            [found, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": _PATH},
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.decode("utf-8", "replace") if answer.returncode == 0 else ""


def ask_nobody(tool: str, *arguments: str) -> str:
    """Run nothing: of a recorded tree no program of this machine knows anything."""
    return ""
