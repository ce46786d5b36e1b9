"""The text of service and timer, and the calls of systemctl."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.exit_codes import ConfigurationError
from agent.scheduling.schedule_command import Machine as Schedules
from agent.scheduling.systemd import (
    find_units,
    install_units,
    quote,
    remove_units,
    write_calendar,
    write_service,
    write_timer,
)
from agent.scheduling.timetable import Schedule, read_clock, read_interval
from tests.agent.conftest import ROOT, Machine
from tests.agent.server import HostileServer

MARK = '# bench-agent {"profile": "quick", "directory": "/data", "every_s": 21600, "splay_s": 600, "at_minute": 150}'
SERVICE = f"""\
{MARK}
[Unit]
Description=Storage benchmark quick in /data
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /opt/bench-agent.pyz run --profile quick --directory /data
SuccessExitStatus=1
Nice=19
IOSchedulingClass=best-effort
IOSchedulingPriority=4
KillMode=mixed
TimeoutStartSec=infinity
TimeoutStopSec=60
UMask=0077
NoNewPrivileges=yes
ProtectSystem=full
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_BOOT CAP_SYS_TIME CAP_NET_ADMIN
"""
USER_SERVICE = f"""\
{MARK}
[Unit]
Description=Storage benchmark quick in /data

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /opt/bench-agent.pyz run --profile quick --directory /data
SuccessExitStatus=1
Nice=19
IOSchedulingClass=best-effort
IOSchedulingPriority=4
KillMode=mixed
TimeoutStartSec=infinity
TimeoutStopSec=60
UMask=0077
NoNewPrivileges=yes
"""
TIMER = f"""\
{MARK}
[Unit]
Description=Storage benchmark quick every 6 h

[Timer]
OnCalendar=*-*-* 02,08,14,20:30:00
RandomizedDelaySec=600
Persistent=true

[Install]
WantedBy=timers.target
"""
QUICK = Schedule("quick", "/data", 21600, splay_s=600, at_minute=150)
COMMAND = ("/usr/bin/python3", "/opt/bench-agent.pyz", "run", "--profile", "quick", "--directory", "/data")
SYSTEMCTL = """#!/bin/sh
# Replaces systemctl: records its arguments.
echo "$*" >> "$(dirname "$0")/calls"
[ -f "$(dirname "$0")/refusal" ] && { cat "$(dirname "$0")/refusal" >&2; exit 1; }
exit 0
"""


@pytest.fixture
def units(hide_own_schedules: Schedules) -> Path:
    """A machine with systemd; the directory is that of its units."""
    root = Path(hide_own_schedules.root)
    (root / "run/systemd/system").mkdir(parents=True)
    command = root / "usr/bin/systemctl"
    command.parent.mkdir(parents=True)
    command.write_text(SYSTEMCTL)
    command.chmod(0o755)
    return root / "etc/systemd/system"


def calls(units: Path) -> list[str]:
    log = units.parents[2] / "usr/bin/calls"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def test_units_have_the_expected_text() -> None:
    assert write_service(QUICK, COMMAND) == SERVICE
    assert write_service(QUICK, COMMAND, is_user=True) == USER_SERVICE
    assert write_timer(QUICK) == TIMER


def test_dry_run_shows_the_names_of_the_units_that_are_installed(machine: Machine, units: Path) -> None:
    names = []
    for place in "abc":
        (machine.home / place).mkdir()
        options = (
            "--systemd",
            "--every",
            "6h",
            "--profile",
            "quick",
            "--directory",
            str(machine.home / place),
        )
        planned = machine.run_json("schedule", "install", *options, "--dry-run")["would_write"]
        assert list(planned) == machine.run_json("schedule", "install", *options)["written"]
        names += [Path(path).name for path in planned]

    assert names[:2] == ["bench-agent-quick.service", "bench-agent-quick.timer"]
    assert all(re.fullmatch(r"bench-agent-quick-[0-9a-f]{8}\.(service|timer)", name) for name in names[2:])
    assert sorted(names) == sorted(path.name for path in units.iterdir() if path.is_file())


def test_service_of_a_user_names_the_user() -> None:
    assert "ExecStart=/bin/x\nUser=bench\nSuccessExitStatus=1\n" in write_service(
        QUICK, ("/bin/x",), user="bench"
    )


@pytest.mark.parametrize("place", ["/etc/spool", "/usr/data", "/usr"])
def test_directories_that_a_run_writes_are_not_protected(place: str) -> None:
    assert "ProtectSystem" not in write_service(Schedule("quick", place, 21600), COMMAND)
    assert "ProtectSystem" not in write_service(QUICK, COMMAND, written=[place])
    assert "ProtectSystem" in write_service(QUICK, COMMAND, written=["/usrdata", "/var/lib/bench-agent"])


@pytest.mark.parametrize(
    ("every", "at", "calendar"),
    [
        ("1m", "00:00", "*-*-* *:*:00"),
        ("15m", "00:00", "*-*-* *:00,15,30,45:00"),
        ("15m", "02:37", "*-*-* *:07,22,37,52:00"),
        ("1h", "00:17", "*-*-* *:17:00"),
        ("6h", "00:00", "*-*-* 00,06,12,18:00:00"),
        ("24h", "02:30", "*-*-* 02:30:00"),
        ("7d", "02:30", "Sun *-*-* 02:30:00"),
    ],
)
def test_interval_is_written_as_on_calendar(every: str, at: str, calendar: str) -> None:
    one = Schedule("quick", "/data", read_interval(every), at_minute=read_clock(at))

    assert write_calendar(one) == calendar


@pytest.mark.parametrize(
    ("argument", "quoted"),
    [
        ("/data", "/data"),
        ("a=b", "a=b"),
        ("/da ta", '"/da ta"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ('say "x"', '"say \\"x\\""'),
        ("a\\b", '"a\\\\b"'),
        ("it's", '"it\'s"'),
        ("", '""'),
        (";", '";"'),
    ],
)
def test_argument_is_quoted_for_a_unit(argument: str, quoted: str) -> None:
    assert quote(argument) == quoted


def test_argument_with_control_characters_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="control character"):
        quote("a\nExecStart=/bin/sh")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine"
)
@pytest.mark.parametrize("is_user", [False, True])
@pytest.mark.parametrize("every", ["15m", "6h", "24h", "7d"])
def test_systemd_accepts_the_units(tmp_path: Path, is_user: bool, every: str) -> None:
    one = Schedule("quick", '/da ta/50% of "it"', read_interval(every), splay_s=600, at_minute=150)
    command = (sys.executable, *COMMAND[1:-1], one.directory)
    paths = [tmp_path / f"bench-agent-quick.{kind}" for kind in ("service", "timer")]
    paths[0].write_text(write_service(one, command, is_user=is_user))
    paths[1].write_text(write_timer(one))

    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(["--user"] if is_user else []), *paths],
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert [line for line in ended.stderr.splitlines() if "bench-agent" in line] == []
    assert ended.returncode == 0


def test_timer_is_installed_and_started(machine: Machine, units: Path) -> None:
    ended = machine.install("--at", "02:30", "--splay", "10m", kind="--systemd")

    assert ended.returncode == 0
    assert calls(units) == ["daemon-reload", "enable --now bench-agent-quick.timer"]
    service = (units / "bench-agent-quick.service").read_text()
    start = f"ExecStart={sys.executable} {ROOT}/agent/__main__.py run --config {machine.environ['BENCH_AGENT_CONFIG']}"
    assert f"{start} --profile quick --directory {machine.directory} --patience 10800s\n" in service
    assert "RandomizedDelaySec=600\n" in (units / "bench-agent-quick.timer").read_text()
    assert (units / "bench-agent-quick.timer").stat().st_mode & 0o777 == 0o644


def test_reinstalled_timer_uses_its_new_times(machine: Machine, units: Path) -> None:
    machine.install(kind="--systemd")
    calls(units)

    machine.install(kind="--systemd", every="12h")

    assert calls(units) == [
        "daemon-reload",
        "enable --now bench-agent-quick.timer",
        "restart bench-agent-quick.timer",
    ]
    assert sorted(path.name for path in units.iterdir()) == [
        "bench-agent-quick.service",
        "bench-agent-quick.timer",
    ]


def test_second_directory_of_a_profile_has_its_own_units(
    machine: Machine, units: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    machine.install(kind="--systemd")

    second = machine.install("--directory", str(other), kind="--systemd")
    machine.install("--directory", str(other), kind="--systemd", every="12h")

    timers = sorted(path.name for path in units.glob("*.timer"))
    assert f"stays: quick in {machine.directory} every 6 h" in second.stderr
    assert len(timers) == len(list(units.glob("*.service"))) == 2
    assert re.fullmatch(r"bench-agent-quick-[0-9a-f]{8}\.timer", timers[0])
    assert timers[1] == "bench-agent-quick.timer"
    assert f"--directory {other} " in (units / timers[0].replace(".timer", ".service")).read_text()
    shown = machine.run_json("schedule", "show")["schedules"]
    assert [(one["directory"], one["every_s"]) for one in shown] == [
        (str(other), 43200),
        (str(machine.directory), 21600),
    ]


def test_schedule_of_one_directory_is_removed_alone(machine: Machine, units: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    machine.install(kind="--systemd")
    machine.install("--directory", str(other), kind="--systemd")

    ended = machine.run("schedule", "remove", "--profile", "quick", "--directory", str(machine.directory))
    machine.install(kind="--systemd")

    assert f"removed: quick in {machine.directory} every 6 h\n" in ended.stdout
    # The name is free again.
    assert len(list(units.glob("*.timer"))) == 2
    assert f"--directory {machine.directory} " in (units / "bench-agent-quick.service").read_text()


def test_removed_timer_is_stopped_and_deleted(host: Machine, units: Path, server: HostileServer) -> None:
    host.install(kind="--systemd")
    (units / "ssh.timer").write_text("[Timer]\n")
    (units / "bench-agent-mine.timer").write_text("# by hand\n[Timer]\n")
    calls(units)

    host.run("schedule", "remove")

    assert calls(units) == ["disable --now bench-agent-quick.timer", "daemon-reload"]
    assert sorted(path.name for path in units.iterdir()) == ["bench-agent-mine.timer", "ssh.timer"]
    assert server.schedule == []


@pytest.mark.parametrize(
    ("is_root", "environ", "stamps"),
    [
        (True, {"HOME": "/root"}, "var/lib/systemd/timers"),
        (False, {"HOME": "/home/joe"}, "home/joe/.local/share/systemd/timers"),
        (False, {"HOME": "/home/joe", "XDG_DATA_HOME": "/data/joe"}, "data/joe/systemd/timers"),
    ],
)
def test_removed_timer_leaves_no_stamp(
    tmp_path: Path, is_root: bool, environ: dict[str, str], stamps: str
) -> None:
    units = find_units(is_root=is_root, environ=environ, root=str(tmp_path))
    stamp = tmp_path / stamps / "stamp-bench-agent-quick.timer"
    stamp.parent.mkdir(parents=True)
    stamp.touch()
    schedule = Schedule("quick", "/data", 3600)
    install_units(units, schedule, service="", timer=write_timer(schedule))

    remove_units(units, None)

    assert not stamp.exists()


def test_schedule_of_a_profile_is_replaced_by_the_other_kind(
    machine: Machine, units: Path, table: Path
) -> None:
    machine.install()

    moved = machine.install(kind="--systemd")
    kinds = [one["kind"] for one in machine.run_json("schedule", "show")["schedules"]]
    back = machine.install()

    assert f"replaces the schedule of cron: quick in {machine.directory} every 6 h" in moved.stderr
    assert kinds == ["systemd"]
    assert f"replaces the schedule of systemd: quick in {machine.directory} every 6 h" in back.stderr
    assert [one["kind"] for one in machine.run_json("schedule", "show")["schedules"]] == ["cron"]
    assert list(units.iterdir()) == []


def test_units_are_written_without_a_running_systemd_with_a_warning(
    machine: Machine, hide_own_schedules: Schedules
) -> None:
    ended = machine.install(kind="--systemd")

    assert ended.returncode == 0
    assert "`systemctl enable --now bench-agent-quick.timer`" in ended.stderr
    assert (Path(hide_own_schedules.root) / "etc/systemd/system/bench-agent-quick.timer").exists()
    assert "systemd is not running" in machine.run("schedule", "show").stdout
    assert "systemd is not running: scheduled runs do not start" in machine.run("check").stdout


def test_error_of_systemctl_is_reported(machine: Machine, units: Path) -> None:
    (units.parents[2] / "usr/bin/refusal").write_text("Access denied\n")

    ended = machine.install(kind="--systemd")

    assert ended.returncode == 2
    assert "daemon-reload failed: Access denied" in ended.stderr


def test_user_has_its_own_timers(machine: Machine, units: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(units.parents[2])
    runtime = Path(root) / "run/user/1000"
    (runtime / "systemd").mkdir(parents=True)
    environ = {"HOME": "/home/ann", "XDG_RUNTIME_DIR": str(runtime)}
    monkeypatch.setattr(
        "agent.scheduling.schedule_command.find_machine",
        lambda: Schedules(root, is_root=False, environ=environ),
    )

    ended = machine.install(kind="--systemd")

    own = Path(root) / "home/ann/.config/systemd/user"
    assert "ProtectSystem" not in (own / "bench-agent-quick.service").read_text()
    assert calls(units) == ["--user daemon-reload", "--user enable --now bench-agent-quick.timer"]
    assert "loginctl enable-linger" in ended.stderr


def test_dry_run_shows_both_units(machine: Machine, units: Path) -> None:
    ended = machine.install("--dry-run", kind="--systemd")

    assert "OnCalendar=*-*-* 00,06,12,18:00:00" in ended.stdout
    assert "ExecStart=" in ended.stdout
    assert not units.exists()
    assert calls(units) == []
