import os
import signal
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from benchapp.operation.embedded import supervisor as supervisor_module
from benchapp.operation.embedded.child import ServerFailed, spawn
from benchapp.operation.embedded.supervisor import (
    Service,
    StopRequested,
    Supervisor,
    describe_status,
    trim_log,
)

SERVER = """
import signal, sys, time
name, journal, patience = sys.argv[1], sys.argv[2], float(sys.argv[3])
def note(word):
    with open(journal, "a") as file:
        file.write(f"{name} {word}\\n")
def end(number, frame):
    time.sleep(patience)
    note("ended")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
note("started")
time.sleep(60)
"""


@pytest.fixture
def journal(place):
    return place / "journal"


@pytest.fixture
def make_service(place, journal):
    def make(name, *, patience=0.0, command=None, **how):
        argv = command or [sys.executable, "-c", SERVER, name, str(journal), str(patience)]
        log = place / f"{name}.log"
        how.setdefault("is_ready", lambda: journal.exists() and f"{name} started" in journal.read_text())
        return Service(name=name, spawn=lambda: spawn(argv, log=log, account=None), log=log, **how)

    return make


@pytest.fixture
def said():
    return []


@pytest.fixture
def supervisor(said):
    supervisor = Supervisor(said.append)
    with supervisor.signals():
        yield supervisor
        supervisor.stop_all()


def test_services_end_in_the_opposite_order(supervisor, make_service, journal):
    for name in ("database", "broker", "web"):
        supervisor.launch(make_service(name))
        supervisor.wait_ready(name)

    supervisor.stop_all()

    assert journal.read_text().split("\n")[3:6] == ["web ended", "broker ended", "database ended"]


def test_service_that_was_killed_starts_again(supervisor, make_service, journal, said, monkeypatch):
    monkeypatch.setattr(supervisor_module, "_BACKOFF_S", (0.05,))
    supervisor.launch(make_service("web"))
    supervisor.wait_ready("web")
    os.kill(supervisor.pids()["web"], signal.SIGKILL)

    supervisor.watch(until=lambda: journal.read_text().count("web started") == 2)

    assert said[0].startswith("web was killed by SIGKILL; restarting in 0 s (see ")


def test_service_that_fails_again_and_again_is_started_ever_later(
    supervisor, make_service, said, monkeypatch
):
    monkeypatch.setattr(supervisor_module, "_BACKOFF_S", (0.01, 0.02, 0.4))
    monkeypatch.setattr(supervisor_module, "_TICK_S", 0.01)
    supervisor.launch(make_service("web", command=["false"]))

    started = time.monotonic()
    supervisor.watch(until=lambda: len(said) == 4)

    assert time.monotonic() - started > 0.4
    assert "ended with status 1" in said[3]


def test_service_that_hangs_is_killed_and_starts_again(supervisor, make_service, journal, said, monkeypatch):
    for name in ("_HUNG_AFTER_S", "_LIFE_CHECK_S", "_TICK_S"):
        monkeypatch.setattr(supervisor_module, name, 0.05)
    monkeypatch.setattr(supervisor_module, "_BACKOFF_S", (0.05,))
    service = make_service("web", is_alive=lambda: journal.read_text().count("web started") == 2)
    supervisor.launch(replace(service, ready_timeout_s=0))
    while not journal.exists():
        time.sleep(0.01)
    os.kill(supervisor.pids()["web"], signal.SIGSTOP)

    supervisor.watch(until=lambda: journal.read_text().count("web started") == 2)

    assert said[0] == "web does not answer for 0 s and is killed"
    assert said[1].startswith("web was killed by SIGKILL; restarting in 0 s")


def test_service_that_ends_before_it_is_ready_is_said_with_its_log(supervisor, make_service):
    supervisor.launch(make_service("web", command=["sh", "-c", "echo no module; exit 1"]))

    with pytest.raises(ServerFailed, match=r"web ended with status 1(.|\n)*no module"):
        supervisor.wait_ready("web")


def test_one_interrupt_ends_the_watch(supervisor, make_service, said):
    supervisor.launch(make_service("web"))
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    supervisor.watch()

    assert said == ["Stopping … (again to force)"]
    with pytest.raises(StopRequested):
        supervisor.check_stop()


def test_second_interrupt_does_not_wait_for_the_patient(supervisor, make_service):
    supervisor.launch(make_service("web", patience=30, patience_s=30))
    supervisor.wait_ready("web")
    supervisor.requests = 1
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    started = time.monotonic()
    supervisor.stop_all()

    assert time.monotonic() - started < 25


def test_what_a_service_left_in_its_session_is_killed(supervisor, make_service, place):
    script = f"sleep 60 & echo $! > {place}/orphan; sleep 60"
    supervisor.launch(make_service("web", command=["sh", "-c", script], is_ready=(place / "orphan").exists))
    supervisor.wait_ready("web")
    while not (orphan := (place / "orphan").read_text().strip()):
        time.sleep(0.01)

    supervisor.stop_all()

    deadline = time.monotonic() + 60
    while (state := read_state(orphan)) not in ("", "Z"):  # a busy machine lets the killed wait for their end
        assert time.monotonic() < deadline, state
        time.sleep(0.02)


def read_state(pid: str) -> str:
    """Return the letter of a process's state: Z is dead and not yet told to its parent, "" is gone."""
    return subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout[:1]


def test_log_is_read_by_its_owner_only_also_one_of_an_older_version(place):
    old = place / "old.log"
    old.write_text("kept\n")
    old.chmod(0o644)

    for log in (old, place / "new.log"):
        assert spawn(["echo", "line"], log=log, account=None).wait() == 0

    assert old.read_text() == "kept\nline\n"
    assert {stat.S_IMODE(log.stat().st_mode) for log in place.glob("*.log")} == {0o600}


def test_long_log_is_moved_aside_while_its_server_writes_on(place):
    log = place / "web.log"
    (place / "web.log.1").write_text("older\n")
    with log.open("ab", buffering=0) as server:
        server.write(b"old line\n" * 10)

        trim_log(log, limit_bytes=20)
        server.write(b"new line\n")

    assert log.read_text() == "new line\n"
    assert (place / "web.log.1").read_text() == "old line\n" * 10
    assert stat.S_IMODE((place / "web.log.1").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "ended with status 0"), (1, "ended with status 1"), (-9, "was killed by SIGKILL")],
)
def test_status_is_said_in_words(status, words):
    assert describe_status(status) == words
