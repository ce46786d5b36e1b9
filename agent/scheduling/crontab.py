"""Schedules in a crontab: a marked block of ours, and not a character of what others wrote.

The block sets no variable: in a user's crontab it would hold for every line after it, also those of others.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import Mapping, Sequence

from agent.exit_codes import CannotMeasure, ConfigurationError
from agent.files import find_command, replace_file
from agent.scheduling.timetable import Schedule, find_slots, read_mark, write_mark

BEGIN = (
    "# BEGIN bench-agent: written by `bench-agent schedule`, which may rewrite what is between these lines"
)
END = "# END bench-agent"
_SYSTEM_HEAD = """\
# Made by `bench-agent schedule`. MAILTO=somebody here says who is told of what goes wrong; else it is root.
SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
# Vixie cron takes no longer command (MAX_COMMAND).
_COMMAND_MAXIMUM = 998
_TIMEOUT_S = 20
_DAEMONS = ("cron", "crond", "fcron")


@dataclass(frozen=True)
class Table:
    """A crontab. command: argv of `crontab` with the user, () where path is a file of /etc/cron.d instead."""

    name: str
    command: tuple[str, ...]
    path: str
    user: str

    @property
    def is_system(self) -> bool:
        return not self.command


def find_table(*, user: str | None, is_root: bool, environ: Mapping[str, str], root: str = "/") -> Table:
    """Return the table of a user, None for who asks; ConfigurationError where there is none to write to."""
    found = find_command("crontab", environ, root=root)
    owner = user or ("root" if is_root else "")
    if found:
        whose = ("-u", user) if user else ()
        return Table(f"crontab of {owner or 'this user'}", (found, *whose), "", owner)
    path = os.path.join(root, "etc/cron.d/bench-agent")
    if is_root and os.path.isdir(os.path.dirname(path)):
        return Table(path, (), path, owner)
    raise ConfigurationError(
        "there is no cron here: neither the command crontab nor a /etc/cron.d that this user may write; "
        "install cron, or take --systemd"
    )


def read_table(table: Table) -> str:
    """Return the text of a table, "" where there is none yet."""
    if table.is_system:
        try:
            with open(table.path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ConfigurationError(f"{table.path} cannot be read: {error}") from None
    ended = _run_crontab(table, "-l")
    complaint = ended.stderr.decode("utf-8", "replace").strip()
    if ended.returncode == 0:
        return ended.stdout.decode("utf-8", "surrogateescape")
    if "no crontab" in complaint or not complaint:
        return ""
    raise ConfigurationError(f"the {table.name} cannot be read: {complaint}")


def write_table(table: Table, text: str) -> None:
    """Replace the text of a table; a file that would hold nothing is removed."""
    try:
        if not table.is_system:
            ended = _run_crontab(table, "-", stdin=text.encode("utf-8", "surrogateescape"))
            if ended.returncode:
                complaint = ended.stderr.decode("utf-8", "replace").strip()
                raise ConfigurationError(f"the {table.name} was not taken: {complaint}")
        elif text:
            replace_file(table.path, text, mode=0o644)
        elif os.path.exists(table.path):
            os.unlink(table.path)
    except OSError as error:
        raise ConfigurationError(f"{table.name} cannot be written: {error}") from None


def list_schedules(text: str) -> list[Schedule]:
    """Return the schedules of a table's text."""
    found = (read_mark(line) for line in text.splitlines())
    return [schedule for schedule in found if schedule is not None]


def put_schedule(text: str, schedule: Schedule, command: Sequence[str], *, table: Table) -> str:
    """Return the text with this schedule in it, in place of one of the same profile."""
    lines = _list_block(remove_schedule(text, schedule.profile, table=table))
    lines += [write_mark(schedule), write_line(schedule, command, user=table.user if table.is_system else "")]
    return _replace_block(text, lines, table=table)


def remove_schedule(text: str, profile: str | None, *, table: Table) -> str:
    """Return the text without the schedule of a profile, None for all; what others wrote stays as it is."""
    kept: list[str] = []
    block = iter(_list_block(text))
    for line in block:
        schedule = read_mark(line)
        if schedule is not None and profile in (None, schedule.profile):
            next(block, None)  # the line that the mark explains
        elif profile is not None:
            kept.append(line)
    return _replace_block(text, kept, table=table)


def write_line(schedule: Schedule, command: Sequence[str], *, user: str = "") -> str:
    """Return the line of a crontab; user only in a file of /etc/cron.d."""
    slots = find_slots(schedule)
    minutes = "*" if len(slots.minutes) == 60 else ",".join(map(str, slots.minutes))
    hours = "*" if slots.hours is None else ",".join(map(str, slots.hours))
    weekday = "*" if slots.weekday is None else str(slots.weekday)
    text = " ".join(quote(argument) for argument in command)
    if len(text) > _COMMAND_MAXIMUM:
        raise ConfigurationError(
            f"the command has {len(text)} characters and cron takes {_COMMAND_MAXIMUM}: put what --set says into "
            "a shorter form, or take --systemd"
        )
    return " ".join(part for part in (f"{minutes} {hours} * * {weekday}", user, text) if part)


def quote(argument: str) -> str:
    """Return an argument as sh takes it from a crontab, where a bare per cent sign is a line break.

    The backslash stands outside of the quotes: cron removes it, and a cron that does not leaves it to the shell.
    """
    if re.search(r"[\x00-\x1f\x7f\\]", argument):
        raise ConfigurationError(
            f"{argument!r} holds a backslash or a control character, which crons read differently"
        )
    if not argument:
        return "''"
    return "\\%".join(shlex.quote(part) if part else "" for part in argument.split("%"))


def find_block(text: str) -> str:
    """Return our block with its first and last line, "" where there is none."""
    block = _list_block(text)
    return "\n".join([BEGIN, *block, END]) if block else ""


def find_mail_aim(text: str) -> str | None:
    """Return what MAILTO is at our block; None where it is not set, and cron mails the owner."""
    aim = None
    for line in text.partition(BEGIN)[0].splitlines():
        match = re.match(r"\s*MAILTO\s*=\s*(.*?)\s*$", line)
        if match:
            aim = match.group(1).strip("\"'")
    return aim


def is_cron_running(root: str = "/") -> bool | None:
    """Say whether a cron daemon lives; None where /proc does not tell, or shows this user no others' processes."""
    try:
        names = [name for name in os.listdir(os.path.join(root, "proc")) if name.isdigit()]
    except OSError:
        return None
    if any(_read_process_name(os.path.join(root, "proc", name, "comm")) in _DAEMONS for name in names):
        return True
    # Process 1 is always there: where it is not shown (hidepid), others are not shown either.
    return False if "1" in names else None


def _read_process_name(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _find_block(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of our first and last line, None where they are not there."""
    if BEGIN not in lines:
        return None
    start = lines.index(BEGIN)
    if END not in lines[start:]:
        raise ConfigurationError(
            f"the crontab has our first line and not the last, {END!r}: put it back behind our lines by hand"
        )
    return start, lines.index(END, start)


def _list_block(text: str) -> list[str]:
    """Return the lines between our marks."""
    lines = text.split("\n")
    found = _find_block(lines)
    return lines[found[0] + 1 : found[1]] if found else []


def _replace_block(text: str, block: Sequence[str], *, table: Table) -> str:
    """Return the text with our block where it was, at the end where it is new, and gone where it is empty."""
    if not text and block and table.is_system:
        text = _SYSTEM_HEAD
    lines = text.split("\n")
    ours = [BEGIN, *block, END] if block else []
    found = _find_block(lines)
    if found:
        lines[found[0] : found[1] + 1] = ours
    elif ours:
        # What ends in a line break has an empty part behind it, which stays the last.
        lines[-1:] = [*([lines[-1]] if lines[-1] else []), *ours, ""]
    text = "\n".join(lines)
    return "" if table.is_system and text == _SYSTEM_HEAD else text


def _run_crontab(table: Table, argument: str, *, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [*table.command, argument],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The words by which an empty crontab is known are not to be translated.
            env={**os.environ, "LC_ALL": "C"},
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMeasure(f"{table.command[0]} does not work: {error}") from None
