"""What `bench-agent check` of another version finds on this host."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Mapping, Sequence

from agent.exit_codes import ExitCode
from agent.updating.program_file import ProgramFile
from agent.updating.release import UpdateRefused

# `check` asks the server and tests the storage, whose own limits are shorter.
_CHECK_MAXIMUM_S = 180.0
_START_MAXIMUM_S = 60.0
_TEXT_MAXIMUM = 500


def find_new_failures(program: ProgramFile, candidate: str, *, options: Sequence[str]) -> Mapping[str, str]:
    """Return the checks that a candidate fails and the program passes, by name with their results.

    options: of `check`. UpdateRefused if the candidate does not run. Failures of both, as without a server, are no
    reason to keep the old one.
    """
    failed = _list_failures(program.python, candidate, options)
    if not failed:
        return {}
    known = _list_failures(program.python, program.path, options)
    return {name: detail for name, detail in failed.items() if name not in known}


def read_version(python: str, path: str) -> str:
    """Return the version that a program prints; UpdateRefused if it does not run."""
    return str(_run_json([python, path, "version", "--json"], limit_s=_START_MAXIMUM_S).get("version"))


def _list_failures(python: str, path: str, options: Sequence[str]) -> dict[str, str]:
    document = _run_json([python, path, "check", "--json", *options], limit_s=_CHECK_MAXIMUM_S)
    if "checks" not in document:
        # The configuration is not valid for this version.
        return {"check": str(document.get("error"))}
    return {each["name"]: each["detail"] for each in document["checks"] if not each["ok"]}


def _run_json(command: Sequence[str], *, limit_s: float) -> Mapping[str, Any]:
    """Return what a command prints as JSON; UpdateRefused if it prints none."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UpdateRefused(f"{command[1]} does not run: {error}") from None
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if not isinstance(document, dict) or done.returncode == ExitCode.FAULT:
        text = done.stderr.decode("utf-8", "replace").strip()[-_TEXT_MAXIMUM:]
        raise UpdateRefused(f"{command[1]} does not run: status {done.returncode}, {text or 'no output'}")
    return document
