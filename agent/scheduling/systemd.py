"""Schedules as systemd timers: bench-agent-PROFILE.service and .timer, for the system or one user."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from typing import Mapping, Sequence

from agent.exit_codes import ConfigurationError
from agent.files import replace_file
from agent.programs import find_program
from agent.quantities import format_place
from agent.scheduling.timetable import Schedule, find_slots, format_interval, read_mark, write_mark

_PREFIX = "bench-agent-"
_TIMEOUT_S = 60
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
# Directories that ProtectSystem=full makes read-only.
_PROTECTED = ("/usr", "/boot", "/efi", "/etc")

# Nice=19: other processes get CPU time first. I/O is not in the idle class: it would wait for all other I/O, and the
# run would measure the load of others. Class and priority are explicit, because the kernel would derive the priority
# from Nice, and 19 maps to the lowest (7); 4 is that of a run from cron or a shell.
# No option that installs a seccomp filter, such as RestrictAddressFamilies: it would run at every system call of fio,
# and before Linux 5.16 it enables mitigations that cost some percent. No option that hides devices or mounts, such as
# PrivateTmp: the detected layout would differ from that under cron, and create another series.
_SERVICE = """\
{mark}
[Unit]
Description={description}
{unit}
[Service]
Type=oneshot
ExecStart={command}
{user}SuccessExitStatus=1
Nice=19
IOSchedulingClass=best-effort
IOSchedulingPriority=4
KillMode=mixed
TimeoutStartSec=infinity
TimeoutStopSec=60
UMask=0077
NoNewPrivileges=yes
{hardening}"""
_NETWORK = """\
Wants=network-online.target
After=network-online.target
"""
_HARDENING = "CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_BOOT CAP_SYS_TIME CAP_NET_ADMIN\n"
_TIMER = """\
{mark}
[Unit]
Description={description} every {every}

[Timer]
OnCalendar={calendar}
RandomizedDelaySec={splay_s}
Persistent=true

[Install]
WantedBy=timers.target
"""


@dataclass(frozen=True)
class Units:
    """Location of units. is_user: those of a user's own systemd; is_running: whether systemd is running.

    stamps: where systemd notes when a persistent timer last elapsed.
    """

    directory: str
    stamps: str
    is_user: bool
    is_running: bool
    systemctl: str | None


def find_units(*, is_root: bool, environ: Mapping[str, str], root: str = "/") -> Units:
    """Return the location of units: the system's for root, else the user's own."""
    systemctl = find_program("systemctl", environ, root=root)
    has_system = os.path.isdir(os.path.join(root, "run/systemd/system"))
    if is_root:
        directory = os.path.join(root, "etc/systemd/system")
        stamps = os.path.join(root, "var/lib/systemd/timers")
        return Units(directory, stamps, False, has_system and systemctl is not None, systemctl)
    home = environ.get("HOME") or os.path.expanduser("~")
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    state = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local/share")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    has_own = bool(runtime) and os.path.exists(os.path.join(runtime, "systemd"))
    directory = os.path.join(root, config.lstrip("/"), "systemd/user")
    stamps = os.path.join(root, state.lstrip("/"), "systemd/timers")
    return Units(directory, stamps, True, has_system and has_own and systemctl is not None, systemctl)


def name_unit(units: Units, schedule: Schedule, kind: str) -> str:
    """Return the file name of a unit: bench-agent-quick.timer, with a digest of the directory if that is taken."""
    taken = {name: _read_schedule(os.path.join(units.directory, name)) for name in _list_timers(units)}
    for name, other in taken.items():
        if other and other.key == schedule.key:
            return _name_beside(name, kind)
    stem = _PREFIX + re.sub(r"[^A-Za-z0-9_.-]", "_", schedule.profile)
    if f"{stem}.timer" in taken:
        stem += f"-{hashlib.sha256(schedule.directory.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return f"{stem}.{kind}"


def _name_beside(timer: str, kind: str) -> str:
    return f"{timer[: -len('.timer')]}.{kind}"


def write_service(
    schedule: Schedule,
    command: Sequence[str],
    *,
    written: Sequence[str] = (),
    user: str | None = None,
    is_user: bool = False,
    units_directory: str | None = None,
) -> str:
    """Return the text of a service. units_directory: of the units, which it may replace; None if it may not.

    written: paths that a run writes besides the directory under test; user: for User=, None for root; is_user: for a
    user's own systemd, which cannot create a sandbox.
    """
    places = (schedule.directory, *written)
    protects = not is_user and not any(_is_below(place, _PROTECTED) for place in places)
    protection = "ProtectSystem=full\n" if protects else ""
    if protects and units_directory:
        # The run adopts schedules of the server.
        protection += f"ReadWritePaths={units_directory}\n"
    hardening = protection + ("" if is_user else _HARDENING)
    return _SERVICE.format(
        mark=write_mark(schedule),
        description=_describe(schedule)
        + ("" if schedule.is_poll else f" {format_place(_escape(schedule.directory))}"),
        unit="" if is_user else _NETWORK,
        command=" ".join(quote(argument) for argument in command),
        user=f"User={user}\n" if user else "",
        hardening=hardening,
    )


def write_timer(schedule: Schedule) -> str:
    """Return the text of a timer; systemd adds the splay, and starts missed runs (Persistent)."""
    return _TIMER.format(
        mark=write_mark(schedule),
        description=_describe(schedule),
        every=format_interval(schedule.every_s),
        calendar=write_calendar(schedule),
        splay_s=schedule.splay_s,
    )


def write_calendar(schedule: Schedule) -> str:
    """Return the start times in the format of systemd.time(7): *-*-* 00,06,12,18:00:00."""
    slots = find_slots(schedule)
    day = "" if slots.weekday is None else f"{_WEEKDAYS[slots.weekday]} "
    hours = "*" if slots.hours is None else ",".join(f"{hour:02d}" for hour in slots.hours)
    minutes = "*" if len(slots.minutes) == 60 else ",".join(f"{minute:02d}" for minute in slots.minutes)
    return f"{day}*-*-* {hours}:{minutes}:00"


def quote(argument: str) -> str:
    """Quote an argument for ExecStart: no specifier, no variable, one word."""
    if re.search(r"[\x00-\x1f\x7f]", argument):
        raise ConfigurationError(
            f"{argument!r} contains a control character, which units do not support; rename it"
        )
    text = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[\w@%+=:,./$-]+", argument, re.ASCII) else f'"{text}"'


def list_schedules(units: Units) -> list[Schedule]:
    """Return the schedules that have a timer."""
    found = (_read_schedule(os.path.join(units.directory, name)) for name in _list_timers(units))
    return [schedule for schedule in found if schedule is not None]


def install_units(
    units: Units, schedule: Schedule, *, service: str, timer: str
) -> tuple[tuple[str, ...], list[str]]:
    """Write both units and start the timer if systemd is running; return paths and problems."""
    paths = (
        os.path.join(units.directory, name_unit(units, schedule, "service")),
        os.path.join(units.directory, name_unit(units, schedule, "timer")),
    )
    is_new = not os.path.exists(paths[1])
    try:
        os.makedirs(units.directory, exist_ok=True)
        for path, text in zip(paths, (service, timer)):
            replace_file(path, text, mode=0o644)
    except OSError as error:
        raise ConfigurationError(f"cannot write {units.directory}: {error}") from None
    if not units.is_running:
        return paths, []
    return paths, _start_timer(units, os.path.basename(paths[1]), is_new=is_new)


def remove_units(
    units: Units, profile: str | None, directory: str | None = None
) -> tuple[list[Schedule], list[str]]:
    """Stop and remove the units of a profile and directory, None for any; return removed schedules and problems."""
    removed: list[Schedule] = []
    problems: list[str] = []
    for name in _list_timers(units):
        schedule = _read_schedule(os.path.join(units.directory, name))
        if schedule is None or not schedule.is_of(profile, directory):
            continue
        if units.is_running:
            problems += _run_systemctl(units, "disable", "--now", name)
        _remove(os.path.join(units.directory, "timers.target.wants", name))
        # Otherwise a timer that is installed again would immediately start a missed run.
        _remove(os.path.join(units.stamps, f"stamp-{name}"))
        _remove(os.path.join(units.directory, _name_beside(name, "service")))
        # Last: the schedule is read from it, so that a removal that was killed is repeated.
        _remove(os.path.join(units.directory, name))
        removed.append(schedule)
    if removed and units.is_running:
        problems += _run_systemctl(units, "daemon-reload")
    return removed, problems


def reload_units(units: Units, schedule: Schedule) -> None:
    """Let systemd read the units of a schedule again, and start its timer."""
    if units.is_running:
        _start_timer(units, name_unit(units, schedule, "timer"), is_new=False)


def _start_timer(units: Units, name: str, *, is_new: bool) -> list[str]:
    """Start a timer; one that was running would keep its previous times. Return problems."""
    steps = [("daemon-reload",), ("enable", "--now", name), *([] if is_new else [("restart", name)])]
    return [problem for step in steps for problem in _run_systemctl(units, *step)]


def _list_timers(units: Units) -> list[str]:
    try:
        names = sorted(os.listdir(units.directory))
    except OSError:
        return []
    return [name for name in names if name.startswith(_PREFIX) and name.endswith(".timer")]


def _read_schedule(path: str) -> Schedule | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return read_mark(file.readline().rstrip("\n"))
    except OSError:
        return None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigurationError(f"cannot remove {path}: {error}") from None


def _run_systemctl(units: Units, *arguments: str) -> list[str]:
    """Run systemctl and return its errors; the units are written in any case."""
    argv = [units.systemctl or "systemctl", *(["--user"] if units.is_user else []), *arguments]
    try:
        ended = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"{' '.join(argv)} failed: {error}"]
    if ended.returncode == 0:
        return []
    error_text = ended.stderr.decode("utf-8", "replace").strip() or f"status {ended.returncode}"
    return [f"{' '.join(argv)} failed: {error_text}"]


def _describe(schedule: Schedule) -> str:
    return "Poll for benchmarks" if schedule.is_poll else f"Storage benchmark {_escape(schedule.profile)}"


def _escape(text: str) -> str:
    """Escape text for a description, in which a percent sign starts a specifier."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", text).replace("%", "%%")


def _is_below(path: str, parents: Sequence[str]) -> bool:
    return any(path == parent or path.startswith(parent + "/") for parent in parents)
