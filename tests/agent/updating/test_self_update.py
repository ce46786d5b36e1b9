"""The command `self-update` and the update after a run, against a server that ships another version."""

import base64
import errno
import fcntl
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from agent import __version__
from agent.exit_codes import ConfigurationError
from agent.updating.release import check_transport, is_newer, read_archive_version
from tests.agent.archives import build_archive, make_archive
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer, captive_portal, reply_problem, reset, truncate
from tests.agent.test_ed25519 import VECTORS

INSTALLED = make_archive(__version__)
NEWER = make_archive("0.2.0")
KEY = base64.b64encode(bytes.fromhex(VECTORS[0][0])).decode()


@pytest.fixture
def program(host: Machine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the agent of this host was started from."""
    path = host.home / "opt" / "bench-agent.pyz"
    path.parent.mkdir()
    path.write_bytes(INSTALLED)
    monkeypatch.setattr("agent.updating.update_command.find_own_command", lambda: (sys.executable, str(path)))
    return path


def configure(host: Machine, lines: str) -> None:
    """Add lines to the configuration."""
    path = Path(host.environ["BENCH_AGENT_CONFIG"])
    path.write_text(f"{path.read_text()}\n{lines}\n")


def list_files(program: Path) -> list[str]:
    return sorted(path.name for path in program.parent.iterdir())


def test_newer_version_is_installed_and_the_previous_one_is_kept(
    host: Machine, server: HostileServer, program: Path
) -> None:
    server.ship("0.2.0", NEWER)

    document = host.run_json("self-update")

    assert (document["exit_code"], document["state"], document["version"]) == (0, "installed", "0.2.0")
    assert (program.read_bytes(), Path(document["previous"]).read_bytes()) == (NEWER, INSTALLED)
    assert list_files(program) == ["bench-agent.pyz", "bench-agent.pyz.previous"]


def test_rollback_exchanges_the_versions_and_the_server_s_is_not_installed_again_automatically(
    host: Machine, server: HostileServer, program: Path
) -> None:
    server.ship("0.2.0", NEWER)
    host.run("self-update")

    ended = host.run("self-update", "--rollback")

    assert ended.returncode == 0, ended.stderr
    assert (program.read_bytes(), program.with_name("bench-agent.pyz.previous").read_bytes()) == (
        INSTALLED,
        NEWER,
    )
    staged = host.run_json("self-update", "--staged")
    assert (staged["state"], program.read_bytes()) == ("refused", INSTALLED)
    assert host.run_json("self-update")["state"] == "installed"


def test_version_that_another_agent_has_installed_meanwhile_is_not_installed_again(
    host: Machine, server: HostileServer, program: Path
) -> None:
    configure(host, "[update]\nauto = yes")
    server.ship("0.2.0", NEWER)
    previous = program.with_name("bench-agent.pyz.previous")
    previous.write_bytes(INSTALLED)
    program.write_bytes(NEWER)

    assert host.measure().returncode == 0
    document = host.run_json("self-update")

    assert (document["state"], document["version"]) == ("current", "0.2.0")
    assert (program.read_bytes(), previous.read_bytes()) == (NEWER, INSTALLED)
    assert [seen.path for seen in server.seen if seen.path.startswith("/agent/")] == []


def test_rollback_is_shown_without_being_done_by_dry_run(
    host: Machine, server: HostileServer, program: Path
) -> None:
    server.ship("0.2.0", NEWER)
    assert "no previous version" in host.run("self-update", "--rollback", "--dry-run").stderr
    host.run("self-update")

    document = host.run_json("self-update", "--rollback", "--dry-run")

    assert (document["state"], program.read_bytes()) == ("available", NEWER)


def test_same_and_older_versions_are_installed_only_by_force(
    host: Machine, server: HostileServer, program: Path
) -> None:
    older = make_archive("0.0.9")
    server.ship("0.0.9", older)

    assert host.run_json("self-update")["state"] == "current"
    assert host.run_json("self-update", "--force", "--dry-run")["state"] == "available"
    assert program.read_bytes() == INSTALLED
    assert host.run_json("self-update", "--force")["version"] == "0.0.9"
    assert program.read_bytes() == older


@pytest.mark.parametrize(
    ("content", "announced", "status", "problem"),
    [
        (NEWER + b"x", NEWER, 1, "is not the announced one: SHA-256"),
        (make_archive("0.1.5"), None, 2, "is version 0.1.5, the server announced 0.2.0"),
        (b"PK not a zip", None, 2, "is version unknown"),
        (NEWER[:-30], None, 2, "is version unknown"),
        (make_archive("0.2.0", is_broken=True), None, 2, "does not run: status 1, SyntaxError"),
        (make_archive("0.2.0", failures={"spool": "is full"}), None, 2, "fails a check .* spool: is full"),
        (make_archive("0.2.0", failures={"new": "absent"}), None, 2, "fails a check .* new: absent"),
        (make_archive("0.2.0", reported="0.3.0"), None, 2, "reports version 0.3.0 .* 0.1.0 is restored"),
    ],
)
def test_download_that_cannot_replace_the_agent_leaves_it(
    host: Machine,
    server: HostileServer,
    program: Path,
    *,
    content: bytes,
    announced: bytes | None,
    status: int,
    problem: str,
) -> None:
    server.ship("0.2.0", content, announced=announced or content)

    ended = host.run("self-update")

    assert ended.returncode == status
    assert re.search(problem, ended.stderr), ended.stderr
    assert program.read_bytes() == INSTALLED
    assert [name for name in list_files(program) if name.startswith(".")] == []


def test_check_that_fails_with_both_versions_does_not_keep_the_old_one(
    host: Machine, server: HostileServer, program: Path
) -> None:
    program.write_bytes(make_archive(__version__, failures={"fio": "is absent"}))
    newer = make_archive("0.2.0", failures={"fio": "is absent"})
    server.ship("0.2.0", newer)

    assert host.run("self-update").returncode == 0
    assert program.read_bytes() == newer


@pytest.mark.parametrize(
    ("reply", "status"),
    [(reset, 1), (truncate, 1), (captive_portal, 1), (reply_problem(503), 1), (reply_problem(401), 2)],
)
def test_server_without_a_valid_answer_changes_nothing(
    host: Machine, server: HostileServer, program: Path, *, reply: object, status: int
) -> None:
    server.ship("0.2.0", NEWER)
    for part in ("release", "archive"):
        before = getattr(server, part)
        setattr(server, part, reply)
        assert host.run("self-update").returncode == status
        setattr(server, part, before)

    assert program.read_bytes() == INSTALLED


def test_update_waits_for_no_measurement(host: Machine, server: HostileServer, program: Path) -> None:
    server.ship("0.2.0", NEWER)
    host.run("flush")
    with (host.spool / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = host.run("self-update")

    assert ended.returncode == 1
    assert "another bench-agent is running" in ended.stderr
    assert program.read_bytes() == INSTALLED


def test_with_a_key_only_a_signed_file_is_installed(
    host: Machine, server: HostileServer, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(host, f"[update]\npublic_key = {KEY}")
    server.ship("0.2.0", NEWER)
    assert "has no signature" in host.run("self-update").stderr
    server.ship("0.2.0", NEWER, signature=bytes.fromhex(VECTORS[0][2]))
    assert "does not match [update] public_key" in host.run("self-update").stderr
    assert program.read_bytes() == INSTALLED
    seen = []
    monkeypatch.setattr("agent.ed25519.is_valid_signature", lambda *values: seen.append(values) or True)

    assert host.run("self-update").returncode == 0

    assert seen == [(bytes.fromhex(VECTORS[0][0]), NEWER, bytes.fromhex(VECTORS[0][2]))]
    assert program.read_bytes() == NEWER


@pytest.mark.parametrize("key", ["x", "AAAA", base64.b64encode(b"\xff" * 32).decode()])
def test_key_that_is_none_is_refused_with_the_configuration(host: Machine, key: str) -> None:
    configure(host, f"[update]\npublic_key = {key}")

    ended = host.run("status")

    assert ended.returncode == 2
    assert f"[update] public_key = {key}: not an Ed25519 public key" in ended.stderr


def test_unencrypted_server_needs_a_key() -> None:
    for url in ("https://bench.example.com", "http://127.0.0.1:8000", "http://localhost"):
        check_transport(url, key=None)
    check_transport("http://bench.example.com", key=b"k")
    with pytest.raises(ConfigurationError, match="is not encrypted"):
        check_transport("http://bench.example.com", key=None)


def test_run_installs_the_announced_version_if_it_is_offered(
    host: Machine, server: HostileServer, program: Path
) -> None:
    configure(host, "[update]\nauto = yes")
    server.ship("0.2.0", NEWER, is_offered=False)
    assert host.measure().returncode == 0
    assert program.read_bytes() == INSTALLED
    server.ship("0.2.0", NEWER)

    assert host.measure().returncode == 0

    assert program.read_bytes() == NEWER
    assert (host.pending(), len(server.stored)) == ([], 2)


def test_without_auto_a_person_is_told_of_the_newer_version_and_cron_is_not(
    host: Machine, server: HostileServer, program: Path
) -> None:
    server.ship("0.2.0", NEWER)

    shown = host.measure("--wait", "0", is_terminal=True)
    silent = host.measure()

    assert "the server ships bench-agent 0.2.0: run bench-agent self-update" in shown.stderr
    assert silent.stderr == ""
    assert program.read_bytes() == INSTALLED
    assert not any(request.path == "/api/v1/agent" for request in server.seen)


def test_refused_version_is_reported_once_and_fails_no_run(
    host: Machine, server: HostileServer, program: Path
) -> None:
    configure(host, "[update]\nauto = yes")
    server.ship("0.2.0", make_archive("0.2.0", is_broken=True))

    first, second = host.measure(), host.measure()

    assert (first.returncode, second.returncode) == (0, 0)
    assert "not updated: " in first.stderr
    assert second.stderr == ""
    server.ship("0.2.1", make_archive("0.2.1"))
    host.measure()
    assert read_archive_version(program.read_bytes()) == "0.2.1"


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("agent.updating.program_file.ProgramFile.stage", errno.ENOSPC),
        ("agent.updating.program_file.ProgramFile.stage", errno.EDQUOT),
        ("agent.updating.refused_release.write_durably", errno.EROFS),
    ],
)
def test_disk_that_cannot_be_written_fails_no_run_and_a_full_one_refuses_nothing(
    host: Machine,
    server: HostileServer,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    problem: int,
) -> None:
    configure(host, "[update]\nauto = yes")
    server.ship("0.2.0", make_archive("0.2.0", is_broken=problem == errno.EROFS))
    monkeypatch.setattr(place, mock.Mock(side_effect=OSError(problem, os.strerror(problem))))

    ended = host.measure()

    assert ended.returncode == 0
    assert program.read_bytes() == INSTALLED
    assert not (host.spool / "update.json").exists()


def test_check_names_the_newer_version(host: Machine, server: HostileServer) -> None:
    server.ship("0.2.0", NEWER)

    checks = {each["name"]: each for each in host.run_json("check")["checks"]}

    assert (checks["version"]["ok"], checks["version"]["warning"]) == (True, True)
    assert "the server ships 0.2.0" in checks["version"]["detail"]


@pytest.mark.parametrize(
    ("version", "installed", "expected"),
    [
        ("0.10.0", "0.9.9", True),
        ("1.0", "0.9.9", True),
        ("0.9.9", "0.9.9", False),
        ("0.9", "0.9.1", False),
        ("0.2.0rc1", "0.1.0", False),
        ("", "0.1.0", False),
        ("9" * 400, "0.1.0", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, installed: str, expected: bool) -> None:
    assert is_newer(version, installed) is expected


def test_agent_is_complete_whenever_the_update_is_killed(host: Machine, server: HostileServer) -> None:
    """Five instants of a real process; `python -m benchmarks agent_kills` has a hundred."""
    chance = random.Random(20261123)
    program = host.home / "bench-agent.pyz"
    installed = build_archive()
    program.write_bytes(installed)
    server.ship("0.2.0", NEWER)
    command = [sys.executable, str(program), "self-update"]
    started_at = time.monotonic()
    subprocess.run(command, env=host.environ, check=True, capture_output=True)
    duration_s = time.monotonic() - started_at
    for _ in range(5):
        program.write_bytes(installed)
        process = subprocess.Popen(
            command, env=host.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            process.wait(timeout=chance.uniform(0.2, 1.0) * duration_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

        assert program.read_bytes() in (installed, NEWER)

    program.write_bytes(installed)
    subprocess.run(command, env=host.environ, check=True, capture_output=True)
    assert hashlib.sha256(program.read_bytes()).digest() == hashlib.sha256(NEWER).digest()
    assert [path.name for path in host.home.iterdir() if path.name.startswith(".bench")] == []
