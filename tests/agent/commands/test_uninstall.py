"""The command `uninstall`: what it removes, what it leaves, and when it is refused."""

import fcntl
from pathlib import Path

from agent.job_state import StateDirectory, SweepState
from agent.measuring.workspace import write_marker
from tests.agent.conftest import Machine
from tests.agent.server import TOKEN, HostileServer, reply_problem


def enroll(host: Machine) -> tuple[Path, Path]:
    """Write the configuration and the token as enroll does; return both files."""
    config, token = host.home / "agent.ini", host.home / "agent.token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    return config, token


def test_schedules_configuration_and_token_are_removed_and_the_spool_is_left(
    host: Machine, server: HostileServer, table: Path
) -> None:
    config, token = enroll(host)
    table.write_text("0 4 * * * backup\n")
    host.install()
    host.measure()

    ended = host.run("uninstall")

    assert ended.returncode == 0, ended.stderr
    assert (config.exists(), token.exists(), table.read_text()) == (False, False, "0 4 * * * backup\n")
    assert server.schedule == []
    assert f"the spool is left in {host.spool}" in ended.stdout
    assert host.spool.is_dir()
    assert host.directory.is_dir()


def test_server_that_cannot_be_told_of_removed_schedules_is_a_problem(
    host: Machine, server: HostileServer, table: Path
) -> None:
    config, _ = enroll(host)
    host.install()
    server.script.append(reply_problem(503))

    ended = host.run("uninstall")

    assert ended.returncode == 2
    assert "the server still expects runs: retire the host on its page" in ended.stderr
    assert "next delivery" not in ended.stderr + ended.stdout
    assert not config.exists()


def test_problem_of_uninstall_is_in_its_document(host: Machine, server: HostileServer, table: Path) -> None:
    enroll(host)
    host.install()
    server.script.append(reply_problem(422))

    document = host.run_json("uninstall", "--spool")

    assert document["exit_code"] == 2
    assert document["problems"] == ["the server still expects runs: retire the host on its page"]


def test_without_schedules_the_server_need_not_answer(
    host: Machine, server: HostileServer, table: Path
) -> None:
    enroll(host)
    server.script.append(reply_problem(503))

    assert host.run("uninstall").returncode == 0


def test_dry_run_removes_nothing(host: Machine, table: Path) -> None:
    config, token = enroll(host)
    host.install()
    before = table.read_text()

    document = host.run_json("uninstall", "--dry-run", "--spool")

    assert document["files"] == [str(config), str(token)]
    assert len(document["schedules"]) == 1
    assert document["spool"] == str(host.spool)
    assert (config.exists(), token.exists(), table.read_text()) == (True, True, before)


def test_spool_is_removed_on_request_without_files_of_others(host: Machine) -> None:
    enroll(host)
    host.measure()
    (host.spool / "notes.txt").write_text("mine")
    (host.spool / "sweeps").mkdir()
    (host.spool / "sweeps" / "mount").mkdir()

    ended = host.run("uninstall", "--spool")

    assert ended.returncode == 2
    assert f"{host.spool} contains other files, or a mount, and was not removed" in ended.stderr
    assert [path.name for path in host.spool.iterdir()] == ["notes.txt"]


def test_empty_spool_is_removed_completely(host: Machine) -> None:
    enroll(host)
    host.measure()

    assert host.run("uninstall", "--spool").returncode == 0
    assert not host.spool.exists()


def test_spool_with_pending_results_is_not_removed(host: Machine) -> None:
    config, _ = enroll(host)
    host.measure("--no-send")

    ended = host.run("uninstall", "--spool")

    assert ended.returncode == 2
    assert "results that are not delivered: 1; run bench-agent flush" in ended.stderr
    assert config.exists()
    assert len(host.pending()) == 1


def test_uninstall_is_refused_while_an_agent_runs(host: Machine) -> None:
    config, _ = enroll(host)
    host.measure()
    with (host.spool / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = host.run("uninstall")

    assert ended.returncode == 1
    assert "another bench-agent is running" in ended.stderr
    assert config.exists()


def test_uninstall_is_refused_while_a_stripe_may_exist(host: Machine) -> None:
    config, _ = enroll(host)
    states = StateDirectory(SweepState, str(host.spool))
    states.create("s1", request={}, steps=[], sizes={}, approved_contents={}, round=0)

    ended = host.run("uninstall", "--spool")

    assert ended.returncode == 2
    assert "bench-agent sweep --resume s1" in ended.stderr
    assert config.exists()


def test_uninstall_is_refused_while_the_state_of_a_sweep_cannot_be_read(host: Machine) -> None:
    config, _ = enroll(host)
    (host.spool / "sweeps").mkdir(parents=True)
    (host.spool / "sweeps" / "s1.json").touch()

    ended = host.run("uninstall")

    assert ended.returncode == 2
    assert f"{host.spool}/sweeps/s1.json: it is empty; the sweep cannot be continued" in ended.stderr
    assert config.exists()


def leave_test_file(host: Machine, name: str) -> Path:
    """Leave what a killed run leaves in the measured directory, and its marker in the spool."""
    directory = host.directory / f".bench-agent-{name}"
    directory.mkdir()
    (directory / "bench-agent.test").write_bytes(b"x" * 4096)
    (host.spool / "running").mkdir(mode=0o700, parents=True, exist_ok=True)
    write_marker(str(host.spool / "running" / f"{name}.json"), str(directory), inode=directory.stat().st_ino)
    return directory


def test_test_files_of_killed_runs_are_removed_and_those_of_other_spools_listed(
    host: Machine, table: Path
) -> None:
    enroll(host)
    host.install()
    own, other = leave_test_file(host, "run-1"), host.directory / ".bench-agent-run-2"
    other.mkdir()

    planned = host.run("uninstall", "--dry-run", "--spool")
    assert own.is_dir()
    ended = host.run("uninstall", "--spool")

    assert f"would remove  test file {own}\n" in planned.stdout
    assert f"removed  test file {own}\n" in ended.stdout
    for output in (planned.stdout, ended.stdout):
        assert f"left     {other}: test files of another spool" in output
    assert (ended.returncode, own.exists(), other.exists(), host.spool.exists()) == (0, False, True, False)


def test_test_file_that_cannot_be_removed_is_a_problem(host: Machine) -> None:
    enroll(host)
    own = leave_test_file(host, "run-1")
    own.rename(host.directory / "renamed")
    own.mkdir()

    ended = host.run("uninstall")

    assert (ended.returncode, own.exists()) == (2, True)
    assert f"{own} cannot be removed; remove it by hand" in ended.stderr
