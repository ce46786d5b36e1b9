"""Tell the server what this host is expected to run: at once, or with the next delivery."""

from __future__ import annotations

import json
import os
from typing import Any, Sequence

from agent.console import Console
from agent.delivery.client import Answer, Client
from agent.delivery.spool import Spool
from agent.exit_codes import ConfigurationError, ExitCode
from agent.files import replace_file

_NAME = "schedule.json"


def keep_entries(spool: Spool, entries: Sequence[dict[str, Any]]) -> None:
    """Remember durably what the server has yet to be told, in place of what it was not told before.

    Needs no lock: a run may hold that for hours, and this file is replaced whole.
    """
    spool.prepare()
    path = os.path.join(spool.directory, _NAME)
    try:
        replace_file(path, json.dumps({"entries": list(entries)}) + "\n", mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None


def send_kept(spool: Spool, client: Client, *, console: Console) -> ExitCode:
    """Tell the server what is kept and say how that went; a failure is no error of the run."""
    path = os.path.join(spool.directory, _NAME)
    text = _read(path)
    if text is None:
        return ExitCode.OK
    try:
        entries = json.loads(text)["entries"]
    except (ValueError, KeyError, TypeError):
        os.unlink(path)  # nothing of ours
        return ExitCode.OK
    answer = client.put_schedule(entries)
    if answer.status == 200 and "entries" in (answer.body or {}):  # a portal says 200, too
        _forget(path, text)
        return ExitCode.OK
    if _is_final(answer):
        console.warn(f"the server does not take the schedule: {answer.describe()}")
        _forget(path, text)
        return ExitCode.REJECTED
    console.note(f"the server does not know the schedule yet: {answer.describe()}")
    return ExitCode.TRY_LATER


def _is_final(answer: Answer) -> bool:
    """Say whether the same would be refused again; a server that knows no schedules may be a newer one tomorrow."""
    return answer.status in (400, 413, 422) and "code" in (answer.body or {})


def _forget(path: str, text: str) -> None:
    """Remove what was told, unless it was replaced meanwhile."""
    if _read(path) == text:
        os.unlink(path)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None
