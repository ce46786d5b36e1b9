"""The commands enroll, check, status and flush."""

import errno
import json
from pathlib import Path

import pytest

from agent.commands.installation import set_option
from agent.storage.layout import Storage
from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.server import ENROLLMENT_TOKEN, TOKEN, HostileServer


def test_enrolled_host_has_its_own_token(machine: Machine, server: HostileServer) -> None:
    ended = machine.run("enroll", server.url + "/", "--name", "rack1-host7", stdin=ENROLLMENT_TOKEN + "\n")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"enrolled as rack1-host7; configuration: {machine.home}/agent.ini\n"
    (seen,) = server.seen
    assert seen.path == "/api/v1/enrollments"
    assert json.loads(seen.body) == {"name": "rack1-host7", "agent_version": "0.1.0"}
    token_file = machine.home / "agent.token"
    assert (token_file.read_text(), token_file.stat().st_mode & 0o777) == (TOKEN + "\n", 0o600)
    assert machine.measure().returncode == 0
    assert len(server.stored) == 1


def test_configuration_keeps_its_comments(machine: Machine, server: HostileServer) -> None:
    machine.run("enroll", server.url, stdin=ENROLLMENT_TOKEN)

    text = (machine.home / "agent.ini").read_text()
    assert text.startswith("# mine\n[run]\n")
    assert f"[server]\ntoken_file = {machine.home}/agent.token\nurl = {server.url}\n" in text


def test_enrollment_token_comes_from_a_file_or_the_environment(
    machine: Machine, server: HostileServer
) -> None:
    (machine.home / "once").write_text(ENROLLMENT_TOKEN)

    from_file = machine.run("enroll", server.url, "--token-file", str(machine.home / "once"))
    from_environment = machine.run("enroll", server.url, "--force", BENCH_AGENT_ENROLL_TOKEN=ENROLLMENT_TOKEN)

    assert (from_file.returncode, from_environment.returncode) == (0, 0)


def test_missing_configuration_is_created(machine: Machine, server: HostileServer) -> None:
    path = machine.home / "deep" / "agent.ini"

    ended = machine.run("enroll", server.url, "--config", str(path), stdin=ENROLLMENT_TOKEN)

    assert ended.returncode == 0
    assert path.exists()
    assert path.with_suffix(".token").exists()


def test_relative_configuration_path_is_accepted(
    machine: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine.home)

    ended = machine.run("enroll", server.url, "--config", "here.ini", stdin=ENROLLMENT_TOKEN)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert (machine.home / "here.token").read_text() == TOKEN + "\n"


def test_full_disk_is_detected_before_the_enrollment_token_is_used(
    machine: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("agent.files.os.fsync", refuse)

    ended = machine.run("enroll", server.url, stdin=ENROLLMENT_TOKEN)

    assert ended.returncode == 2
    assert "is not writable: [Errno 28] No space left on device" in ended.stderr
    assert server.seen == []


def test_enrolled_machine_is_not_enrolled_again_without_force(
    machine: Machine, server: HostileServer
) -> None:
    machine.run("enroll", server.url, stdin=ENROLLMENT_TOKEN)

    again = machine.run("enroll", server.url, stdin=ENROLLMENT_TOKEN)

    assert again.returncode == 2
    assert "use --force" in again.stderr
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("reply", "status", "message"),
    [
        (replies.reply_problem(401), 2, "refused the enrollment"),
        (replies.reply_problem(409, "host-exists"), 6, "it is host-exists"),
        (replies.reply_problem(422), 6, "rejected the enrollment"),
        (replies.reply_problem(503), 1, "enrollment failed"),
        (replies.reset, 1, "cannot reach the server"),
        (replies.captive_portal, 1, "another service"),
        (replies.redirect(308, "https://x.example/"), 2, "redirects are not followed"),
    ],
)
def test_failed_enrollment_writes_nothing(
    machine: Machine, server: HostileServer, reply: replies.Reply, status: int, message: str
) -> None:
    server.usual = reply
    before = (machine.home / "agent.ini").read_text()

    ended = machine.run("enroll", server.url, stdin=ENROLLMENT_TOKEN)

    assert ended.returncode == status
    assert message in ended.stderr
    assert not (machine.home / "agent.token").exists()
    assert (machine.home / "agent.ini").read_text() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "[server]\nurl = U\n"),
        ("[server]\nurl = old\n", "[server]\nurl = U\n"),
        ("[server]\n# url = old\n", "[server]\nurl = U\n# url = old\n"),
        ("[run]\nurl = not mine\n\n[server]\nurl=old\n", "[run]\nurl = not mine\n\n[server]\nurl = U\n"),
        ("[server]\n\n[labels]\nurl = kept\n", "[server]\nurl = U\n\n[labels]\nurl = kept\n"),
        ("[labels]\na = b\n", "[labels]\na = b\n\n[server]\nurl = U\n"),
    ],
)
def test_one_option_is_set_and_the_others_are_unchanged(text: str, expected: str) -> None:
    assert set_option(text, "server", key="url", value="U") == expected


def test_check_passes_on_a_working_machine(host: Machine, server: HostileServer) -> None:
    ended = host.run("check", "--directory", str(host.directory))

    assert ended.returncode == 0
    assert "FAILED" not in ended.stdout
    assert "fio-3.99" in ended.stdout
    assert f"{server.url} knows this host as rack1-host7" in ended.stdout
    assert "s ahead of the server" in ended.stdout or "s behind the server" in ended.stdout
    assert host.leftovers() == []


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        (
            Storage({"filesystem": "tmpfs"}, {}, {"memory_filesystem": "tmpfs"}),
            "is on tmpfs, in memory: a run measures",
        ),
        (Storage({"filesystem": "overlay"}, {}, {}), "is on an overlay, the layers of a container"),
        (Storage({"filesystem": "xfs"}, {}, {}), None),
    ],
)
def test_check_warns_of_a_directory_that_is_not_on_storage(
    host: Machine, monkeypatch: pytest.MonkeyPatch, storage: Storage, text: str | None
) -> None:
    monkeypatch.setattr("agent.commands.self_check.describe_storage", lambda path: storage)

    checked = host.run_json("check", "--directory", str(host.directory))
    shown = host.run("check", "--directory", str(host.directory)).stdout

    warnings = [each["detail"] for each in checked["checks"] if each["warning"]]
    assert checked["exit_code"] == 0
    assert [text in warning for warning in warnings] == ([True] if text else [])
    assert ("warning  storage" in shown) == (text is not None)


def test_check_reports_a_wrong_clock(host: Machine, server: HostileServer) -> None:
    server.server_time = "2020-01-01T00:00:00Z"

    ended = host.run("check")

    assert ended.returncode == 2
    assert "s ahead of the server" in ended.stdout


def test_check_reports_everything_that_is_missing(machine: Machine) -> None:
    (machine.home / "fio").unlink()

    outcome = machine.run_json("check", "--directory", "/nonexistent")

    assert outcome["exit_code"] == 2
    wrong = {finding["name"] for finding in outcome["checks"] if not finding["ok"]}
    assert wrong == {"fio", "directory", "server"}


def test_check_reports_a_token_readable_by_others(host: Machine) -> None:
    del host.environ["BENCH_AGENT_TOKEN"]
    token_file = Path(host.home / "agent.token")
    token_file.write_text(TOKEN)
    token_file.chmod(0o644)

    ended = host.run("check", "--quiet")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "chmod 600" in ended.stderr


def test_check_reports_an_unusable_ca_file(host: Machine) -> None:
    (host.home / "agent.ini").write_text("[server]\nca_file = missing.pem\n")

    checked = host.run_json("check", BENCH_AGENT_URL="https://127.0.0.1:9")

    assert checked["exit_code"] == 2
    (server,) = (each for each in checked["checks"] if each["name"] == "server")
    assert server["detail"].startswith(f"cannot use ca_file {host.home}/missing.pem")


def test_check_reports_a_spool_without_permission(host: Machine) -> None:
    host.spool.write_text("a file where a directory should be")

    checked = host.run_json("check", "--directory", str(host.directory))

    wrong = {each["name"]: each["detail"] for each in checked["checks"] if not each["ok"]}
    assert sorted(wrong) == ["directory", "spool"]
    assert f"cannot use the spool {host.spool}" in wrong["directory"]


def test_check_of_an_unreachable_server_is_temporary(host: Machine) -> None:
    assert host.run("check", BENCH_AGENT_URL="http://127.0.0.1:9").returncode == 1


def test_status_lists_pending_and_rejected_results(host: Machine, server: HostileServer) -> None:
    server.script.append(replies.reply_problem(422, "no-report"))
    host.measure()
    host.measure("--no-send")

    ended = host.run("status")
    outcome = host.run_json("status")

    assert ended.returncode == 0
    assert "it is no-report" in ended.stdout
    assert (len(outcome["pending"]), len(outcome["rejected"]), outcome["dropped"]) == (1, 1, 0)
    assert outcome["running_process"] is None


def test_status_of_an_unreadable_spool_is_an_error(host: Machine) -> None:
    host.spool.mkdir()
    (host.spool / "pending").write_text("root may read every directory, and this is none")

    ended = host.run("status")

    assert ended.returncode == 2
    assert "cannot read the spool" in ended.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_endless_budget_is_refused(host: Machine, seconds: str) -> None:
    with pytest.raises(SystemExit):
        host.run("flush", "--budget", seconds)


def test_flush_without_a_server_is_a_configuration_error(machine: Machine) -> None:
    ended = machine.run("flush")

    assert ended.returncode == 2
    assert "enroll this host" in ended.stderr


def test_python_for_windows_is_refused_with_the_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "win32")

    ended = machine.run("status")

    assert ended.returncode == 2
    assert ended.stderr.endswith("use Cygwin's Python\n")


def test_closed_output_is_not_an_error(machine: Machine) -> None:
    process = machine.start("profiles")
    assert process.stdout is not None
    process.stdout.close()

    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
