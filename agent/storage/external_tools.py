"""Run other programs: only if installed, only for reading, and with a time limit."""

from __future__ import annotations

import os
from typing import Protocol

from agent.programs import DIRECTORIES, find_program

_PATH = os.pathsep.join("/" + directory for directory in DIRECTORIES)


class QueryTool(Protocol):
    """Run a tool and return what it prints; "" if it is missing, fails or exceeds its time limit."""

    def __call__(self, tool: str, *arguments: str) -> str: ...


def query_tool(tool: str, *arguments: str, timeout_s: float = 2.0) -> str:
    """Return what a tool prints; "" if it is missing, fails or exceeds its time limit."""
    found = find_program(tool)
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


def run_no_tool(tool: str, *arguments: str) -> str:
    """Run nothing: used for recorded trees, which programs of this machine cannot read."""
    return ""
