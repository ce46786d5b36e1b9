"""Root executes, writes and believes nothing that another user can change."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from agent.exit_codes import ConfigurationError
from agent.trust import find_writer, require_trusted
from tests.agent.archives import build_archive
from tests.agent.conftest import FAKE_FIO, Machine

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")

NOBODY = 65534
JOB = "[x]\nrw=read\nsize=1m\nfilename=bench-agent.test\n"


@pytest.fixture
def place(machine: Machine, table: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a machine, with a directory for each thing that root uses."""
    for name, content in {
        "opt/agent.pyz": "",
        "tools/fio": FAKE_FIO,
        "etc/agent.ini": f"[run]\nfio = {machine.home}/tools/fio\nlog = {machine.home}/logs/run.log\n",
        "logs/run.log": "",
        "jobs/own.fio": JOB,
        "state/spool/pending/x": "",
    }.items():
        path = machine.home / name
        path.parent.mkdir(parents=True)
        path.write_text(content)
        path.chmod(0o755)
    program = (sys.executable, str(machine.home / "opt/agent.pyz"))
    # The module that the others import from is the last.
    for module in ("agent.scheduling.schedule_command", "agent.commands.self_check", "agent.programs"):
        monkeypatch.setattr(f"{module}.find_own_command", lambda: program)
    machine.environ.update(
        BENCH_AGENT_CONFIG=str(machine.home / "etc/agent.ini"),
        BENCH_AGENT_SPOOL=str(machine.home / "state/spool"),
        PATH=f"{table.parent}:{machine.environ['PATH']}",
    )
    return machine.home


PATHS = [
    ("opt", "program"),
    ("opt/agent.pyz", "program"),
    ("tools", "fio"),
    ("tools/fio", "fio"),
    ("etc", "configuration"),
    ("etc/agent.ini", "configuration"),
    ("logs", "log"),
    ("logs/run.log", "log"),
    ("state", "spool"),
    ("state/spool/pending", "spool"),
]


def own_by_nobody(path: Path) -> str:
    os.chown(path, NOBODY, NOBODY)
    return f"{path} belongs to user nobody, who could change what root uses; "


def open_to_all(path: Path) -> str:
    path.chmod(0o777)
    return f"{path} has mode 0777: any user can change what root uses; "


def open_to_group(path: Path) -> str:
    path.chmod(0o775)
    return f"{path} has mode 0775: its group can change what root uses; "


@pytest.mark.parametrize("change", [own_by_nobody, open_to_all, open_to_group])
@pytest.mark.parametrize(("name", "row"), PATHS)
def test_path_that_another_user_can_change_is_neither_scheduled_nor_used(
    machine: Machine, place: Path, table: Path, name: str, row: str, change: Callable[[Path], str]
) -> None:
    assert machine.measure("--no-send").returncode == 0
    reason = change(place / name)

    installed, measured, checked = machine.install(), machine.measure("--no-send"), machine.run("check")

    assert (installed.returncode, measured.returncode, table.exists()) == (2, 2, False)
    assert reason in installed.stderr
    assert reason in measured.stderr
    (line,) = [line for line in checked.stdout.splitlines() if line.startswith(f"FAILED   {row} ")]
    assert reason in line


@pytest.mark.parametrize(("name", "row"), PATHS)
def test_command_of_the_refusal_ends_it(machine: Machine, place: Path, name: str, row: str) -> None:
    own_by_nobody(place / name)
    open_to_all(place / name)
    refused = machine.measure("--no-send")

    (command,) = re.findall(r"run `([^`]+)`", refused.stderr)
    subprocess.run(command, shell=True, check=True)

    assert machine.measure("--no-send").returncode == 0
    assert machine.install().returncode == 0


def test_tools_job_files_and_schedules_of_systemd_are_checked_too(machine: Machine, place: Path) -> None:
    tool, job = place / "bin/crontab", place / "jobs/own.fio"
    reasons = [own_by_nobody(path) for path in (tool, job)]
    directory = ("--directory", str(machine.directory))

    with_tool = machine.install()
    with_job = machine.run("run", "--jobfile", str(job), "--no-send", *directory)
    checked = machine.run("check").stdout
    own_by_nobody(place / "opt/agent.pyz")
    units = machine.install("--dry-run", kind="--systemd")

    assert (with_tool.returncode, reasons[0] in with_tool.stderr) == (2, True)
    assert (with_job.returncode, reasons[1] in with_job.stderr) == (2, True)
    assert f"FAILED   tools         {reasons[0]}" in checked
    assert (units.returncode, units.stdout) == (2, "")


def test_one_file_agent_of_another_user_is_not_run_by_root_but_reports(tmp_path: Path) -> None:
    archive = tmp_path / "bench-agent.pyz"
    archive.write_bytes(build_archive())
    reason = own_by_nobody(archive)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    ended = {
        command: subprocess.run(
            [sys.executable, str(archive), command],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        for command in ("flush", "check", "status")
    }

    assert (ended["flush"].returncode, reason in ended["flush"].stderr) == (2, True)
    assert f"FAILED   program       {reason}" in ended["check"].stdout
    assert ended["status"].returncode == 0


def test_enrollment_writes_no_token_where_another_user_could_replace_it(
    machine: Machine, place: Path
) -> None:
    reason = own_by_nobody(place / "etc")
    (place / "etc/agent.ini").unlink()

    ended = machine.run("enroll", "http://127.0.0.1:9", stdin="enrol_0123456789\n")

    assert (ended.returncode, reason in ended.stderr) == (2, True)
    assert list((place / "etc").iterdir()) == []


@pytest.mark.parametrize("name", ["mine", "link", "directory"])
def test_sticky_directory_protects_what_belongs_to_root(tmp_path: Path, name: str) -> None:
    shared = tmp_path / "shared"
    (shared / "directory").mkdir(parents=True)
    (shared / "mine").touch()
    (shared / "link").symlink_to(shared / "mine")
    shared.chmod(0o1777)

    assert find_writer(str(shared / name)) is None
    os.chown(shared / name, NOBODY, NOBODY, follow_symlinks=False)
    option = "-h " if name == "link" else ""
    assert f"run `chown {option}root {shared / name}`" in str(find_writer(str(shared / name)))


def test_file_that_any_user_could_create_first_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)

    with pytest.raises(ConfigurationError, match=r"run\.log does not exist, and any user could create it in"):
        require_trusted(str(tmp_path / "shared/run.log"))
    require_trusted(str(tmp_path / "run.log"))


def test_path_with_blanks_is_quoted_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "my tools").mkdir()
    own_by_nobody(tmp_path / "my tools")

    assert f"`chown root '{tmp_path}/my tools'`" in str(find_writer(str(tmp_path / "my tools")))


def test_other_users_run_a_program_of_anybody(machine: Machine, place: Path) -> None:
    own_by_nobody(place / "opt/agent.pyz")
    with mock.patch("os.geteuid", return_value=NOBODY):
        own_by_nobody(place / "state/spool")
        own_by_nobody(place / "state/spool/pending")

        assert machine.run("flush").stderr.endswith("`bench-agent enroll URL`\n")
