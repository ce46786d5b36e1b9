"""The text of the block in a crontab, and the lines around it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agent.exit_codes import ConfigurationError
from agent.scheduling.crontab import (
    BEGIN,
    END,
    Table,
    find_mail_recipient,
    list_schedules,
    put_schedule,
    quote,
    remove_schedule,
    write_line,
)
from agent.scheduling.schedule_command import Machine as Schedules
from agent.scheduling.timetable import Schedule, read_clock, read_interval
from tests.agent.conftest import ROOT, Machine
from tests.agent.server import HostileServer

USERS = Table("crontab", ("/usr/bin/crontab",), "", "")
COMMAND = ("/usr/bin/python3", "/opt/bench-agent.pyz", "run", "--quiet")
OTHERS = "# mine\nMAILTO=ops@example.com\n0 4 * * * backup --to=100\\%full\n\n"
MARK = '# bench-agent {"profile": "quick", "directory": "/data", "every_s": 21600, "splay_s": 600, "at_minute": 150}'
LINE = "30 2,8,14,20 * * * /usr/bin/python3 /opt/bench-agent.pyz run --quiet"
BLOCK = f"""\
# BEGIN bench-agent: managed by `bench-agent schedule`; lines up to END may be rewritten
{MARK}
{LINE}
# END bench-agent
"""


def schedule(profile: str = "quick") -> Schedule:
    return Schedule(profile, "/data", 21600, splay_s=600, at_minute=150)


def put(text: str, one: Schedule, command: tuple[str, ...] = COMMAND) -> str:
    return put_schedule(text, one, command, table=USERS)


@pytest.mark.parametrize(
    ("every", "at", "spec"),
    [
        ("1m", "00:00", "* * * * *"),
        ("15m", "00:00", "0,15,30,45 * * * *"),
        ("15m", "02:37", "7,22,37,52 * * * *"),
        ("30m", "00:30", "0,30 * * * *"),
        ("1h", "00:17", "17 * * * *"),
        ("6h", "00:00", "0 0,6,12,18 * * *"),
        ("6h", "02:30", "30 2,8,14,20 * * *"),
        ("6h", "20:30", "30 2,8,14,20 * * *"),
        ("12h", "02:30", "30 2,14 * * *"),
        ("24h", "02:30", "30 2 * * *"),
        ("7d", "02:30", "30 2 * * 0"),
    ],
)
def test_interval_is_written_as_cron_fields(every: str, at: str, spec: str) -> None:
    one = Schedule("quick", "/data", read_interval(every), at_minute=read_clock(at))

    assert write_line(one, ("run",)) == f"{spec} run"
    assert write_line(one, ("run",), user="bench") == f"{spec} bench run"


def test_block_is_at_the_end_of_a_crontab() -> None:
    assert put("", schedule()) == BLOCK
    assert put(OTHERS, schedule()) == OTHERS + BLOCK
    assert put("0 4 * * * backup", schedule()) == "0 4 * * * backup\n" + BLOCK


def test_installed_twice_is_installed_once() -> None:
    text = put(OTHERS, schedule())

    assert put(text, schedule()) == text


def test_second_directory_of_a_profile_is_a_second_entry() -> None:
    text = put(put(OTHERS, schedule()), Schedule("quick", "/mnt/b", 21600))

    assert [one.directory for one in list_schedules(text)] == ["/data", "/mnt/b"]
    assert list_schedules(remove_schedule(text, "quick", "/data", table=USERS)) == [
        Schedule("quick", "/mnt/b", 21600)
    ]
    assert remove_schedule(text, None, "/mnt/b", table=USERS) == OTHERS + BLOCK


def test_reinstalled_profile_replaces_its_entry() -> None:
    text = put(put(OTHERS, schedule()), schedule("ebs-series"))

    changed = put(text, Schedule("quick", "/data", 86400))

    assert [(one.profile, one.every_s) for one in list_schedules(changed)] == [
        ("ebs-series", 21600),
        ("quick", 86400),
    ]
    assert changed.count("\n0 0 * * * /usr/bin/python3") == 1


@pytest.mark.parametrize("after", ["", "\n", "5 5 * * * later\n", "\n\n# the end"])
def test_other_lines_of_the_crontab_are_unchanged(after: str) -> None:
    text = OTHERS + BLOCK + after

    assert put(text, schedule()) == text
    assert remove_schedule(text, "quick", table=USERS) == OTHERS + after
    assert remove_schedule(text, None, table=USERS) == OTHERS + after
    assert remove_schedule(text, "other", table=USERS) == text


def test_foreign_lines_inside_the_block_remain() -> None:
    text = BLOCK.replace(MARK, f"# by hand\n{MARK}")

    assert "# by hand" in put(text, schedule())
    assert list_schedules(remove_schedule(text, "quick", table=USERS)) == []


def test_block_without_its_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="contains BEGIN but not"):
        put(BLOCK.replace(END, ""), schedule())


@pytest.mark.parametrize(
    "argument",
    [
        "/data",
        "/da ta",
        "it's",
        "100%",
        "%",
        "50% of %s",
        "",
        "$HOME",
        "a;b",
        "`id`",
        "--set",
        "a=b",
        "ümlaut",
        "#x",
    ],
)
def test_argument_is_unchanged_by_cron_and_shell(argument: str) -> None:
    """Vixie cron removes the backslash before a percent sign, other versions pass both: the shell reads the same."""
    quoted = quote(argument)
    assert "%" not in quoted.replace("\\%", "")

    for line in (quoted.replace("\\%", "%"), quoted):
        shown = subprocess.run(
            ["/bin/sh", "-c", f"printf %s {line}"], capture_output=True, text=True, check=True
        ).stdout
        assert shown == argument


@pytest.mark.parametrize("argument", ["a\nb", "a\\b", "a\x00b"])
def test_argument_that_cron_versions_read_differently_is_refused(argument: str) -> None:
    with pytest.raises(ConfigurationError, match="contains a backslash or control character"):
        quote(argument)


def test_command_above_the_limit_of_cron_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the limit of cron is 998"):
        write_line(schedule(), ("x" * 999,))


@pytest.mark.parametrize(
    ("text", "aim"),
    [
        (BLOCK, None),
        (OTHERS + BLOCK, "ops@example.com"),
        ('MAILTO=""\n' + BLOCK, ""),
        ("MAILTO=a\nMAILTO = 'b'\n" + BLOCK + "MAILTO=c\n", "b"),
    ],
)
def test_mail_recipient_is_read_from_the_lines_before_the_block(text: str, aim: str) -> None:
    assert find_mail_recipient(text) == aim


def test_crontab_has_the_expected_text(machine: Machine, table: Path) -> None:
    table.write_text(OTHERS)

    ended = machine.install("--at", "02:30", "--splay", "10m", "--set", "runtime=1")

    assert ended.returncode == 0
    agent = f"{shlex.quote(sys.executable)} {ROOT}/agent/__main__.py"
    config, directory = machine.environ["BENCH_AGENT_CONFIG"], machine.directory
    mark = MARK.replace('"/data"', f'"{directory}"').replace("150}", '150, "parameters": {"runtime": 1}}')
    line = (
        f"30 2,8,14,20 * * * {agent} run --quiet --config {config} --profile quick --directory {directory}"
        " --set runtime=1 --splay 600s --patience 10800s"
    )
    assert table.read_text() == OTHERS + f"{BEGIN}\n{mark}\n{line}\n{END}\n"


def run_line(host: Machine, table: Path) -> subprocess.CompletedProcess[str]:
    """Run the line of the crontab as cron does, in another working directory."""
    (line,) = [text for text in table.read_text().splitlines() if text.startswith("0 0,6")]
    return subprocess.run(
        ["/bin/sh", "-c", line.split(" ", 5)[5]],
        cwd="/",
        env={name: value for name, value in host.environ.items() if name != "PATH"}
        | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_scheduled_line_measures(host: Machine, table: Path) -> None:
    host.install()

    ended = run_line(host, table)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_scheduled_job_file_measures(
    host: Machine, server: HostileServer, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(host.home)
    (host.home / "every night.fio").write_text("[a]\nrw=read\nsize=1m\n")

    installed = host.run(
        *("schedule", "install", "--cron", "--every", "6h", "--directory", "disk"),
        *("--jobfile", "every night.fio", "--time-limit", "1h"),
    )

    assert installed.stdout.startswith(f"every-night in {host.directory} every 6 h: ")
    assert server.schedule is not None
    assert server.schedule[0]["profile"] == "every-night"
    ended = run_line(host, table)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert len(server.stored) == 1


def test_scheduled_seqread_measures(
    host: Machine, server: HostileServer, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(host.directory)
    (host.directory / "large").write_bytes(b"x" * 2**20)

    installed = host.run(
        *("schedule", "install", "--cron", "--every", "6h"),
        *("--profile", "seqread-fragmentation", "--set", "file=large"),
    )

    assert installed.returncode == 0, installed.stderr
    ended = run_line(host, table)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert len(server.stored) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root schedules for others")
def test_root_schedules_for_another_user_who_reports_to_the_server(host: Machine, table: Path) -> None:
    ended = host.install("--user", "nobody")

    assert ended.returncode == 0
    assert "`bench-agent schedule report` as nobody" in ended.stderr
    theirs = table.parent / "crontab-of-nobody.txt"
    assert [one.profile for one in list_schedules(theirs.read_text())] == ["quick"]
    assert not table.exists()
    assert not (host.spool / "schedule.json").exists()
    assert "every 6 h" in host.run("schedule", "show", "--user", "nobody").stdout


def test_installation_names_what_it_replaces_and_what_stays(
    machine: Machine, table: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    machine.install("--directory", str(other))
    machine.install()

    same, changed = machine.install(), machine.install("--json", every="12h")

    stays = f"stays: quick in {other} every 6 h; remove it with `bench-agent schedule remove --profile quick"
    assert f"{stays} --directory {other}`" in same.stderr
    assert "replaces" not in same.stderr
    assert f"replaces the schedule of cron: quick in {machine.directory} every 6 h" in changed.stderr
    assert [(one["directory"], one["every_s"]) for one in json.loads(changed.stdout)["replaced"]] == [
        (str(machine.directory), 21600)
    ]
    assert len(list_schedules(table.read_text())) == 2


def test_removal_does_not_change_other_lines(machine: Machine, table: Path) -> None:
    table.write_text(OTHERS)
    machine.install()

    ended = machine.run("schedule", "remove", "--profile", "quick")

    assert ended.stdout == f"removed: quick in {machine.directory} every 6 h\n"
    assert table.read_text() == OTHERS


def test_dry_run_shows_the_block_and_writes_nothing(machine: Machine, table: Path) -> None:
    table.write_text(OTHERS)

    ended = machine.install("--dry-run")

    assert "0 0,6,12,18 * * *" in ended.stdout
    assert "backup" not in ended.stdout
    assert table.read_text() == OTHERS
    assert not machine.spool.exists()


def test_stopped_cron_is_a_warning(machine: Machine, table: Path, hide_own_schedules: Schedules) -> None:
    (Path(hide_own_schedules.root) / "proc" / "77" / "comm").unlink()

    assert "cron is not running" in machine.install().stderr


def test_cron_is_unknown_if_processes_are_hidden(
    machine: Machine, table: Path, hide_own_schedules: Schedules
) -> None:
    (Path(hide_own_schedules.root) / "proc" / "77" / "comm").unlink()
    (Path(hide_own_schedules.root) / "proc" / "1").rmdir()

    assert "cron is not running" not in machine.install().stderr


def test_refused_crontab_is_an_error_with_the_reason(machine: Machine, table: Path) -> None:
    command = table.parent / "crontab"
    command.write_text("#!/bin/sh\n[ $1 = -l ] || { echo 'you (bench) are not allowed' >&2; exit 1; }\n")

    ended = machine.install()

    assert ended.returncode == 2
    assert "you (bench) are not allowed" in ended.stderr


def test_unreadable_crontab_is_not_written(machine: Machine, table: Path) -> None:
    """Treating it as empty would lose its contents."""
    command = table.parent / "crontab"
    command.write_text(f"#!/bin/sh\n[ $1 = - ] && touch {table}\necho 'spool: i/o error' >&2; exit 1\n")

    ended = machine.install()

    assert ended.returncode == 2
    assert "spool: i/o error" in ended.stderr
    assert not table.exists()


def test_root_without_crontab_writes_a_file_in_cron_d(
    machine: Machine, hide_own_schedules: Schedules
) -> None:
    path = Path(hide_own_schedules.root) / "etc" / "cron.d" / "bench-agent"
    path.parent.mkdir(parents=True)

    planned = machine.install("--dry-run")
    machine.install("--at", "02:30")

    assert planned.stdout.startswith(f"would write to {path}:\n")
    lines = path.read_text().splitlines()
    assert lines[1:4] == [
        "SHELL=/bin/sh",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        BEGIN,
    ]
    assert lines[5].startswith("30 2,8,14,20 * * * root ")
    assert lines[6:] == [END]
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in path.parent.iterdir()] == ["bench-agent"]
    machine.run("schedule", "remove")
    assert not path.exists()


def test_foreign_lines_of_that_file_remain(machine: Machine, hide_own_schedules: Schedules) -> None:
    path = Path(hide_own_schedules.root) / "etc" / "cron.d" / "bench-agent"
    path.parent.mkdir(parents=True)
    machine.install()
    path.write_text("MAILTO=ops\n" + path.read_text())

    machine.install("--at", "05:00")

    assert path.read_text().startswith("MAILTO=ops\n# Created by")
    machine.run("schedule", "remove")
    assert path.read_text().startswith("MAILTO=ops\n# Created by")


def test_missing_cron_is_an_error_with_the_remedy(machine: Machine) -> None:
    ended = machine.install()

    assert ended.returncode == 2
    assert "no cron found" in ended.stderr
    assert "use --systemd" in ended.stderr
