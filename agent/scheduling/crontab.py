"""Schedules in a crontab: one marked block; everything else stays unchanged.

The block sets no variable: in a user's crontab it would apply to all lines after it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import Mapping, Sequence

from agent.exit_codes import CannotMeasure, ConfigurationError
from agent.files import replace_file
from agent.programs import find_program
from agent.scheduling.timetable import Schedule, find_slots, read_mark, write_mark
from agent.storage.sysfs import read_text

BEGIN = "# BEGIN bench-agent: managed by `bench-agent schedule`; lines up to END may be rewritten"
END = "# END bench-agent"
_SYSTEM_HEAD = """\
# Created by `bench-agent schedule`. Set MAILTO=user here to receive errors; the default is root.
SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
# Limit of Vixie cron (MAX_COMMAND).
_COMMAND_MAXIMUM = 998
_TIMEOUT_S = 20
_DAEMONS = ("cron", "crond", "fcron")


@dataclass(frozen=True)
class Table:
    """A crontab. command: argv of `crontab` with the user, () if path is a file in /etc/cron.d."""

    name: str
    command: tuple[str, ...]
    path: str
    user: str

    @property
    def is_system(self) -> bool:
        return not self.command

    @property
    def title(self) -> str:
        """The table in a sentence: a path has no article."""
        return self.path if self.is_system else f"the {self.name}"


def find_table(*, user: str | None, is_root: bool, environ: Mapping[str, str], root: str = "/") -> Table:
    """Return the crontab of a user, None for the current one; ConfigurationError without a usable cron."""
    found = find_program("crontab", environ, root=root)
    owner = user or ("root" if is_root else "")
    if found:
        whose = ("-u", user) if user else ()
        return Table(f"crontab of {owner or 'this user'}", (found, *whose), "", owner)
    path = os.path.join(root, "etc/cron.d/bench-agent")
    if is_root and os.path.isdir(os.path.dirname(path)):
        return Table(path, (), path, owner)
    raise ConfigurationError(
        "no cron found: neither the command crontab nor a writable /etc/cron.d; install cron, "
        "or use --systemd"
    )


def read_table(table: Table) -> str:
    """Return the text of a crontab, "" if it does not exist."""
    if table.is_system:
        try:
            with open(table.path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ConfigurationError(f"cannot read {table.path}: {error}") from None
    ended = _run_crontab(table, "-l")
    error_text = ended.stderr.decode("utf-8", "replace").strip()
    if ended.returncode == 0:
        return ended.stdout.decode("utf-8", "surrogateescape")
    if "no crontab" in error_text or not error_text:
        return ""
    raise ConfigurationError(f"cannot read {table.title}: {error_text}")


def write_table(table: Table, text: str) -> None:
    """Replace the text of a crontab; an empty file is removed."""
    try:
        if not table.is_system:
            ended = _run_crontab(table, "-", stdin=text.encode("utf-8", "surrogateescape"))
            if ended.returncode:
                error_text = ended.stderr.decode("utf-8", "replace").strip()
                raise ConfigurationError(f"crontab rejected {table.title}: {error_text}")
        elif text:
            replace_file(table.path, text, mode=0o644)
        elif os.path.exists(table.path):
            os.unlink(table.path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {table.title}: {error}") from None


def list_schedules(text: str) -> list[Schedule]:
    """Return the schedules in the text of a crontab."""
    found = (read_mark(line) for line in text.splitlines())
    return [schedule for schedule in found if schedule is not None]


def put_schedule(text: str, schedule: Schedule, command: Sequence[str], *, table: Table) -> str:
    """Return the text with this schedule, replacing one of the same profile and directory."""
    lines = _list_block(remove_schedule(text, *schedule.key, table=table))
    lines += [write_mark(schedule), write_line(schedule, command, user=table.user if table.is_system else "")]
    return _replace_block(text, lines, table=table)


def remove_schedule(text: str, profile: str | None, directory: str | None = None, *, table: Table) -> str:
    """Return the text without the schedules of a profile and directory, None for any; other lines stay unchanged."""
    remaining: list[str] = []
    block = iter(_list_block(text))
    for line in block:
        schedule = read_mark(line)
        if schedule is not None and schedule.is_of(profile, directory):
            next(block, None)  # the crontab line of this mark
        elif (profile, directory) != (None, None):
            remaining.append(line)
    return _replace_block(text, remaining, table=table)


def write_line(schedule: Schedule, command: Sequence[str], *, user: str = "") -> str:
    """Return a crontab line; user only for a file in /etc/cron.d."""
    slots = find_slots(schedule)
    minutes = "*" if len(slots.minutes) == 60 else ",".join(map(str, slots.minutes))
    hours = "*" if slots.hours is None else ",".join(map(str, slots.hours))
    weekday = "*" if slots.weekday is None else str(slots.weekday)
    text = " ".join(quote(argument) for argument in command)
    if len(text) > _COMMAND_MAXIMUM:
        raise ConfigurationError(
            f"the command has {len(text)} characters, the limit of cron is {_COMMAND_MAXIMUM}; "
            "use fewer options, or --systemd"
        )
    return " ".join(part for part in (f"{minutes} {hours} * * {weekday}", user, text) if part)


def quote(argument: str) -> str:
    """Quote an argument for sh in a crontab, where an unescaped percent sign is a line break.

    The backslash is outside of the quotes: cron or, if not, the shell removes it.
    """
    if re.search(r"[\x00-\x1f\x7f\\]", argument):
        raise ConfigurationError(
            f"{argument!r} contains a backslash or control character, which cron versions handle differently; "
            "rename it, or use --systemd"
        )
    if not argument:
        return "''"
    return "\\%".join(shlex.quote(part) if part else "" for part in argument.split("%"))


def find_block(text: str) -> str:
    """Return the agent's block with BEGIN and END, "" without one."""
    block = _list_block(text)
    return "\n".join([BEGIN, *block, END]) if block else ""


def find_mail_recipient(text: str) -> str | None:
    """Return MAILTO as set before the block; None if not set: cron then mails the owner."""
    recipient = None
    for line in text.partition(BEGIN)[0].splitlines():
        match = re.match(r"\s*MAILTO\s*=\s*(.*?)\s*$", line)
        if match:
            recipient = match.group(1).strip("\"'")
    return recipient


def is_cron_running(root: str = "/") -> bool | None:
    """Return whether a cron daemon is running; None if /proc is missing or hides other users' processes."""
    try:
        names = [name for name in os.listdir(os.path.join(root, "proc")) if name.isdigit()]
    except OSError:
        return None
    if any(read_text(root, "proc", name, "comm") in _DAEMONS for name in names):
        return True
    # Process 1 always exists: if it is hidden (hidepid), others are, too.
    return False if "1" in names else None


def _find_block(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return the indexes of BEGIN and END, None without them."""
    if BEGIN not in lines:
        return None
    start = lines.index(BEGIN)
    if END not in lines[start:]:
        raise ConfigurationError(
            f"the crontab contains BEGIN but not {END!r}; restore this line after the bench-agent lines"
        )
    return start, lines.index(END, start)


def _list_block(text: str) -> list[str]:
    """Return the lines between BEGIN and END."""
    lines = text.split("\n")
    found = _find_block(lines)
    return lines[found[0] + 1 : found[1]] if found else []


def _replace_block(text: str, block: Sequence[str], *, table: Table) -> str:
    """Return the text with the block replaced, appended if new, or removed if empty."""
    if not text and block and table.is_system:
        text = _SYSTEM_HEAD
    lines = text.split("\n")
    own = [BEGIN, *block, END] if block else []
    found = _find_block(lines)
    if found:
        lines[found[0] : found[1] + 1] = own
    elif own:
        # Text with a final line break has an empty last part, which stays last.
        lines[-1:] = [*([lines[-1]] if lines[-1] else []), *own, ""]
    text = "\n".join(lines)
    return "" if table.is_system and text == _SYSTEM_HEAD else text


def _run_crontab(table: Table, argument: str, *, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [*table.command, argument],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The message for an empty crontab must not be translated.
            env={**os.environ, "LC_ALL": "C"},
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMeasure(f"{table.command[0]} failed: {error}") from None
