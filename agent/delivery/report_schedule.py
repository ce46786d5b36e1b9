"""Report the schedules of this host to the server: now, or with the next delivery."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Sequence

from agent.console import Console
from agent.delivery.client import EXCHANGE_MAXIMUM_S, Client, Response
from agent.delivery.spool import Spool
from agent.exit_codes import ConfigurationError, ExitCode
from agent.files import replace_file

_NAME = "schedule.json"
_FIRST_MEMBERS = ("profile", "every_s", "splay_s", "directory")


def store_pending_schedule(spool: Spool, entries: Sequence[dict[str, Any]]) -> None:
    """Store the schedules to be reported durably, replacing unreported earlier ones.

    Needs no lock, which a run may own for hours: the file is replaced atomically.
    """
    spool.prepare()
    path = os.path.join(spool.directory, _NAME)
    try:
        replace_file(path, json.dumps({"entries": list(entries)}) + "\n", mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error}") from None


def send_pending_schedule(
    spool: Spool, client: Client, *, console: Console, limit_s: float = EXCHANGE_MAXIMUM_S
) -> ExitCode:
    """Send stored schedules within limit_s and return the result; a failure does not fail the run."""
    path = os.path.join(spool.directory, _NAME)
    text = _read(path)
    if text is None:
        return ExitCode.OK
    deadline = time.monotonic() + limit_s
    try:
        entries = json.loads(text)["entries"]
    except (ValueError, KeyError, TypeError):
        os.unlink(path)  # not written by the agent
        return ExitCode.OK
    response = client.put_schedule(entries, limit_s=limit_s)
    if response.status == 400 and any(set(entry) - set(_FIRST_MEMBERS) for entry in entries):
        # A server of an earlier version refuses the members that it does not know.
        entries = [{name: entry[name] for name in _FIRST_MEMBERS} for entry in entries]
        response = client.put_schedule(entries, limit_s=deadline - time.monotonic())
    if response.status == 200 and "entries" in (response.body or {}):  # a captive portal returns 200, too
        _remove_if_unchanged(path, text)
        return ExitCode.OK
    if _is_final(response):
        console.warn(f"the server rejected the schedule: {response.describe()}")
        _remove_if_unchanged(path, text)
        return ExitCode.REJECTED
    # Not "the next": after `uninstall` there is none.
    console.note(f"the schedule is not reported: {response.describe()}; each delivery tries again")
    return ExitCode.TRY_LATER


def _is_final(response: Response) -> bool:
    """Return whether a retry would be rejected again; a server without schedules may be upgraded."""
    return response.status in (400, 413, 422) and "code" in (response.body or {})


def _remove_if_unchanged(path: str, text: str) -> None:
    """Remove the reported schedules unless they were replaced meanwhile."""
    if _read(path) == text:
        os.unlink(path)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None
