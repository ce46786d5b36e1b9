"""`bench-agent schedule`: start times, the scheduled command, and the report to the server."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from agent.programs import find_own_command, find_temporary_path
from agent.scheduling.schedule_command import Machine as Schedules
from agent.scheduling.timetable import (
    Schedule,
    find_next,
    find_slots,
    format_interval,
    read_clock,
    read_interval,
    read_mark,
    write_mark,
)
from tests.agent import server as replies
from tests.agent.archives import build_archive
from tests.agent.conftest import ROOT, Machine
from tests.agent.server import HostileServer

SATURDAY = datetime(2026, 11, 21, 14, 13)


def schedule(every_s: int = 21600, **fields: int) -> Schedule:
    return Schedule("quick", "/data", every_s, **fields)


@pytest.mark.parametrize(
    ("every", "at", "next_at"),
    [
        ("1m", "00:00", "2026-11-21 14:14"),
        ("15m", "00:00", "2026-11-21 14:15"),
        ("15m", "02:37", "2026-11-21 14:22"),
        ("1h", "00:13", "2026-11-21 15:13"),
        ("6h", "00:00", "2026-11-21 18:00"),
        ("6h", "02:30", "2026-11-21 14:30"),
        ("12h", "14:13", "2026-11-22 02:13"),
        ("24h", "02:30", "2026-11-22 02:30"),
        ("1d", "23:59", "2026-11-21 23:59"),
        ("7d", "02:30", "2026-11-22 02:30"),
        ("1440m", "00:00", "2026-11-22 00:00"),
    ],
)
def test_next_run_is_calculated(every: str, at: str, next_at: str) -> None:
    slots = find_slots(schedule(read_interval(every), at_minute=read_clock(at)))

    assert f"{find_next(slots, SATURDAY):%Y-%m-%d %H:%M}" == next_at


@pytest.mark.parametrize("every", ["45m", "7m", "90m", "5h", "7h", "2d", "14d", "90s", "0", "1"])
def test_unsupported_interval_is_refused_with_the_supported_ones(machine: Machine, every: str) -> None:
    ended = machine.install(every=every)

    assert ended.returncode == 2
    assert f"--every {every}: not supported by crontab and timers" in ended.stderr
    assert "1h, 2h, 3h, 4h, 6h, 8h, 12h; 24h or 1d; 7d (on Sundays)" in ended.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--at", "25:00"), "--at 25:00: not a time of day"),
        (("--at", "2:5"), "--at 2:5"),
        (("--splay", "soon"), "--splay: 'soon' is not a valid duration"),
        (("--splay", "6h"), "runs would overlap"),
        (("--set", "runtime=2x"), "not a valid duration"),
        (("--set", "runtime=9000"), "runs would overlap"),
        (("--profile", "nope"), "unknown profile 'nope'"),
        (("--directory", "/nonexistent"), "/nonexistent is not a directory"),
        (("--user", "no-such-user"), "unknown user"),
        (("--profile", "seqread-fragmentation"), "no file given; set --file"),
        (("--profile", "own", "--jobfile", "/nonexistent.fio"), "--jobfile /nonexistent.fio"),
        (("--allow-outside",), "--allow-outside requires --jobfile"),
    ],
)
def test_invalid_schedule_is_refused_before_writing(
    machine: Machine, table: Path, options: tuple[str, ...], message: str
) -> None:
    ended = machine.install(*options)

    assert ended.returncode == 2
    assert message in ended.stderr
    assert not table.exists()
    assert not (machine.spool / "schedule.json").exists()


def test_mark_is_read_as_it_was_written() -> None:
    odd = Schedule("quick", '/da"ta 50%\udcff', 900, splay_s=60, at_minute=150)

    assert read_mark(write_mark(odd)) == odd


@pytest.mark.parametrize(
    "line", ["", "# bench-agent", "# bench-agent {}", "# bench-agent {]", "0 * * * * true"]
)
def test_other_lines_are_not_marks(line: str) -> None:
    assert read_mark(line) is None


@pytest.mark.parametrize(
    ("seconds", "words"), [(21600, "6 h"), (900, "15 min"), (604800, "7 d"), (90, "90 s"), (5400, "90 min")]
)
def test_interval_is_formatted_in_its_largest_unit(seconds: int, words: str) -> None:
    assert format_interval(seconds) == words


def read_own_command(argv: list[str], cwd: Path, **environ: str) -> tuple[str, ...]:
    """Return the command that an agent started by argv would schedule."""
    ended = subprocess.run(
        [
            *(*argv, "schedule", "install", "--cron", "--every", "6h", "--profile", "quick"),
            *("--directory", str(cwd), "--dry-run", "--json"),
        ],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd), "PATH": f"{cwd}/bin:{os.environ['PATH']}", **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    (text,) = json.loads(ended.stdout)["would_write"].values()
    line = text.splitlines()[2]
    return tuple(line.split(" run ")[0].split(" ")[5:])


def test_scheduled_command_starts_this_agent_from_anywhere(table: Path, tmp_path: Path) -> None:
    archive = tmp_path / "bench-agent.pyz"
    archive.write_bytes(build_archive())

    by_zip = read_own_command([sys.executable, archive.name], tmp_path)
    by_module = read_own_command(
        [sys.executable, "-m", "agent"], tmp_path, PYTHONPATH=f"{ROOT}:{os.environ['PYTHONPATH']}"
    )

    assert by_zip == (sys.executable, str(archive))
    assert by_module == (sys.executable, str(ROOT / "agent" / "__main__.py"))
    for command in (by_zip, by_module):
        ended = subprocess.run(
            [*command, "version"], cwd="/", env={}, capture_output=True, text=True, check=True
        )
        assert ended.stdout.startswith("bench-agent ")


def test_installed_command_is_scheduled_by_its_own_path(tmp_path: Path) -> None:
    script = tmp_path / "bench-agent"
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)

    command = find_own_command([str(script), "schedule"], package="/usr/lib/python3/dist-packages/agent")

    assert command == (str(script),)


@pytest.mark.parametrize(
    ("command", "passing"),
    [
        (("/usr/bin/python3", "/tmp/bench-agent.pyz"), "/tmp/bench-agent.pyz"),
        (("/usr/bin/python3", "/opt/bench-agent.pyz"), None),
        (("/usr/local/bin/bench-agent",), None),
    ],
)
def test_agent_in_a_temporary_directory_is_a_warning(command: tuple[str, ...], passing: str) -> None:
    assert find_temporary_path(command) == passing


def test_schedule_is_reported_at_install_and_remove(
    host: Machine, table: Path, server: HostileServer
) -> None:
    ended = host.install("--splay", "10m")

    assert ended.returncode == 0
    entry = {"profile": "quick", "every_s": 21600, "splay_s": 600, "directory": str(host.directory)}
    entry.update(at_minute=0, parameters={})
    assert server.schedule == [entry]
    assert server.seen[-1].path == "/api/v1/hosts/me/schedule"
    host.run("schedule", "remove")
    assert server.schedule == []
    assert not (host.spool / "schedule.json").exists()


@pytest.mark.parametrize(
    "reply",
    [
        replies.reset,
        replies.reply_problem(503),
        replies.reply_problem(404),
        replies.reply_problem(401),
        replies.captive_portal,
    ],
)
def test_unreported_schedule_is_reported_with_the_next_run(
    host: Machine, table: Path, server: HostileServer, reply: replies.Reply
) -> None:
    server.script.append(reply)

    ended = host.install("--json")

    assert (ended.returncode, json.loads(ended.stdout)["is_reported"], server.schedule) == (0, False, None)
    assert host.measure().returncode == 0
    assert server.schedule == [
        {
            "profile": "quick",
            "every_s": 21600,
            "splay_s": 0,
            "directory": str(host.directory),
            "at_minute": 0,
            "parameters": {},
        }
    ]
    assert not (host.spool / "schedule.json").exists()


def test_unreported_schedule_is_reported_by_flush(
    machine: Machine, table: Path, server: HostileServer
) -> None:
    machine.install()
    machine.environ.update(BENCH_AGENT_URL=server.url, BENCH_AGENT_TOKEN=replies.TOKEN)

    assert machine.run("flush").returncode == 0
    assert server.schedule is not None


def test_rejected_schedule_is_not_sent_again(host: Machine, table: Path, server: HostileServer) -> None:
    # The second one without the members that earlier servers do not know.
    server.script.extend([replies.reply_problem(400, "value-invalid")] * 2)

    ended = host.install()

    assert ended.returncode == 0
    assert "the server rejected the schedule: status 400, it is value-invalid" in ended.stderr
    assert not (host.spool / "schedule.json").exists()


def test_refused_report_is_an_error(host: Machine, table: Path, server: HostileServer) -> None:
    host.install()
    server.script.extend([replies.reply_problem(400, "value-invalid")] * 2)

    ended = host.run("schedule", "report", "--json")

    assert (ended.returncode, json.loads(ended.stdout)["is_reported"]) == (6, False)


def test_directory_with_invalid_utf8_is_reported_with_replaced_bytes(
    host: Machine, table: Path, server: HostileServer
) -> None:
    odd = os.fsdecode(os.fsencode(host.home) + b"/disk\xff")
    Path(odd).mkdir()

    assert host.run(
        "schedule", "install", "--cron", "--every", "6h", "--profile", "quick", "--directory", odd
    )
    assert server.schedule is not None
    assert server.schedule[0]["directory"] == f"{host.home}/disk?"
    assert b"/disk\xff" in table.read_bytes()


def test_run_is_quiet_with_a_server_without_schedules(
    host: Machine, table: Path, server: HostileServer
) -> None:
    server.script.append(replies.reply_problem(404, "not-found"))
    host.install()
    server.script.extend([replies.accept, replies.reply_problem(404, "not-found")])

    ended = host.measure()

    assert (ended.returncode, ended.stderr) == (0, "")


def test_report_sends_the_schedules_again(host: Machine, table: Path, server: HostileServer) -> None:
    host.install()
    server.schedule = None

    assert host.run("schedule", "report").returncode == 0
    assert server.schedule is not None
    server.script.append(replies.reply_problem(503))
    assert host.run("schedule", "report").returncode == 1


def test_show_lists_all_schedules_and_the_next_run(machine: Machine, table: Path) -> None:
    machine.install("--at", "02:30", "--splay", "10m")

    ended = machine.run("schedule", "show")

    (line,) = ended.stdout.splitlines()
    assert line.startswith(f"cron     quick in {machine.directory} every 6 h, up to 10 min later; next 20")
    assert line.endswith(":30 local time, or up to 10 min later")
    (shown,) = machine.run_json("schedule", "show")["schedules"]
    assert (shown["kind"], shown["every_s"], shown["splay_s"]) == ("cron", 21600, 600)


def test_missing_schedule_is_reported(machine: Machine, table: Path) -> None:
    assert machine.run("schedule", "show").stdout.startswith("no schedules")
    assert machine.run("schedule", "remove", "--profile", "quick").stdout == "no schedule found for quick\n"


def test_check_lists_schedules_and_whether_they_start(
    host: Machine, table: Path, hide_own_schedules: Schedules
) -> None:
    assert "ok       schedule      none;" in host.run("check").stdout
    host.install()

    assert f"ok       schedule      cron: quick in {host.directory} every 6 h\n" in host.run("check").stdout
    (Path(hide_own_schedules.root) / "proc" / "77" / "comm").write_text("bash\n")
    ended = host.run("check")
    assert ended.returncode == 2
    assert "every 6 h; cron is not running: scheduled runs do not start" in ended.stdout


def test_proxy_of_this_shell_is_a_warning_unless_it_is_configured(host: Machine, table: Path) -> None:
    host.environ["https_proxy"] = "http://proxy:3128"
    host.environ["no_proxy"] = "127.0.0.1"
    alone = host.install()
    host.configure("server", proxy="http://proxy:3128")
    configured = host.install()

    assert "https_proxy is not set in scheduled runs; set proxy in" in alone.stderr
    assert "set proxy in" not in configured.stderr


def test_settings_of_this_shell_are_a_warning(host: Machine, table: Path) -> None:
    planned = host.install("--dry-run")
    ended = host.install()

    for each in (planned, ended):
        assert "BENCH_AGENT_TOKEN is not set in scheduled runs; set it in" in each.stderr
    assert replies.TOKEN not in table.read_text()
