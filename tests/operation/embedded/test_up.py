"""`up` as a person runs it, in processes of its own."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command, execute_from_command_line

from benchapp.operation.embedded.child import PROJECT, can_run_code, choose_account
from benchapp.operation.embedded.home import Home
from benchapp.operation.embedded.preflight import Address, get, read_instance, read_start_time
from benchapp.operation.embedded.up import host_name, read_pages
from tests.clusters import make_place
from tests.ports import find_free_port
from tests.short_fio import write_short_fio


@dataclass
class Up:
    """One `up` in a process."""

    process: subprocess.Popen
    home: Home
    port: int
    output: Path

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port)

    @property
    def said(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str, timeout_s: float = 240) -> None:
        deadline = time.monotonic() + timeout_s
        while words not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {words!r}\n{self.said}"
            time.sleep(0.05)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(240)

    def children(self) -> dict[str, int]:
        return {name: pid for name, (pid, _) in self.home.read_state().children.items()}

    def query(self, sql: str):
        sockets = self.home.read_state().socket_directory
        with psycopg.connect(host=sockets, user="benchapp", dbname="benchapp", autocommit=True) as connection:
            return connection.execute(sql).fetchall()


def clean_environment() -> dict[str, str]:
    """Return this environment without what the tests' own servers have put there."""
    ours = ("BENCHAPP_", "BENCH_AGENT_", "DJANGO_", "PYTEST")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) and name not in ("DATABASE_URL", "BROKER_URL")
    }


def start_up(directory: Path, *options: str, port: int | None = None, **environ: str) -> Up:
    directory.mkdir(parents=True, exist_ok=True)
    port = port or find_free_port()
    if not can_run_code(sys.executable, choose_account()):  # the tests run as root on a Python below /root
        options = (*options, "--as-root")
    output = directory / f"said-{time.monotonic_ns()}"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchapp.operation.embedded",
                "--data-dir",
                directory,
                "--port",
                str(port),
                *options,
            ],
            cwd=PROJECT,
            env={**clean_environment(), **environ},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    return Up(process, Home(directory), port, output)


def wait_until_gone(pids, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while alive := [pid for pid in pids if read_start_time(pid) is not None]:
        assert time.monotonic() < deadline, f"still running: {alive}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def open_place(tmp_path_factory) -> Iterator[Path]:
    directory = make_place("bu-")
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def up(open_place) -> Iterator[Up]:
    """Return one stack that runs for all the tests which leave it as it is."""
    up = start_up(open_place / "var", "--no-run", BENCHAPP_NOTICE_RETENTION_DAYS="90")
    try:
        up.wait_for("Press Ctrl-C to stop")
        yield up
    finally:
        if up.process.poll() is None:
            up.interrupt()


@dataclass
class Restored:
    """A stack in a fresh directory into which a backup of the other was restored, started without fio."""

    restoring: subprocess.CompletedProcess
    up: Up


@dataclass
class BackedUp:
    """A backup of the running stack, and the hosts in it."""

    file: Path
    hosts: list[tuple[str, str]]
    ended: subprocess.CompletedProcess


@pytest.fixture(scope="module")
def backed_up(up, open_place) -> BackedUp:
    file = open_place / "history.dump"
    hosts = up.query("UPDATE benchapp_host SET pool = 'restored' RETURNING name, pool")
    return BackedUp(file, hosts, manage("backup", file, "--data-dir", up.home.path))


@pytest.fixture(scope="module")
def restored(up, backed_up, open_place) -> Iterator[Restored]:
    fresh = open_place / "fresh"
    restoring = manage("restore", backed_up.file, "--data-dir", fresh)
    # `up` need not collect what it has collected for the other.
    subprocess.run(["cp", "-a", up.home.path / "static", fresh], check=True)
    (open_place / "path").mkdir()
    started = start_up(fresh, PATH=str(open_place / "path"))
    try:
        started.wait_for("Press Ctrl-C to stop")
        yield Restored(restoring, started)
    finally:
        if started.process.poll() is None:
            started.interrupt()


@pytest.fixture(scope="module")
def after_kill(restored) -> Iterator[tuple[list[int], Up]]:
    """Return the children of the restored stack, whose supervisor is killed, and the next start in its directory."""
    killed = restored.up
    pids = list(killed.children().values())
    killed.query("UPDATE benchapp_host SET pool = 'kept' RETURNING 1")
    killed.process.kill()
    second = start_up(killed.home.path, "--no-run", port=killed.port)
    try:
        second.wait_for("Press Ctrl-C to stop")
        yield pids, second
    finally:
        if second.process.poll() is None:
            second.interrupt()


@dataclass
class Again:
    """The second start in a directory: what was there before, and its status at the end."""

    before: list[str]
    up: Up
    status: int


@pytest.fixture(scope="module")
def again(up) -> Again:
    """Interrupt the stack; the second start loads the sample, measures where there is a fio, and ends."""
    if up.process.poll() is None:
        up.interrupt()
    before = read_secrets(up)
    programs = up.home.path.parent / "bin"
    programs.mkdir()
    if shutil.which("fio"):
        write_short_fio(programs / "fio")
    path = f"{programs}:{os.environ['PATH']}"
    second = start_up(up.home.path, "--exit-after-run", "--sample", "--set", "size=8m", PATH=path)
    return Again(before, second, second.process.wait(240))


@pytest.fixture
def embedded_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands in this process, which saves the imports, find the database of their data directory."""
    monkeypatch.delenv("DATABASE_URL")


def read_secrets(up: Up) -> list[str]:
    return [(up.home.path / name).read_text() for name in ("secret-key", "host-token")]


def test_pages_answer_under_the_printed_address(up):
    assert f"http://127.0.0.1:{up.port}/" in up.said
    assert get(up.address, "/runs/")[0] == 200
    assert read_instance(up.address) == up.home.read_state().instance


def test_doctor_checks_the_running_stack_with_its_settings(up):
    deadline = time.monotonic() + 120
    # Beat sends its first task within 10 s.
    while (ended := manage("doctor", "--data-dir", up.home.path)).returncode and time.monotonic() < deadline:
        assert ended.stdout.count("warning  ") == 1, ended.stdout

    assert ended.returncode == 0, ended.stdout
    assert "No setting is dangerous." in ended.stdout
    assert "The broker takes messages." in ended.stdout


def test_printed_link_opens_the_form_of_the_first_admin(up):
    path = re.search(r"http://127\.0\.0\.1:\d+(/setup/\S+/)", up.said)[1]

    status, page = get(up.address, path)

    assert status == 200
    assert b"password" in page.lower()


def test_this_machine_is_enrolled_with_a_token_that_nobody_else_reads(up):
    token = up.home.path / "host-token"

    assert token.stat().st_mode & 0o777 == 0o600
    assert up.query("SELECT count(*) FROM benchapp_host") == [(1,)]
    assert up.query("SELECT scope FROM benchapp_apitoken") == [("ingest",)]


def test_no_other_account_reads_anything_in_the_data_directory(up):
    paths = [up.home.path, *up.home.path.rglob("*")]
    modes = {
        str(path.relative_to(up.home.path)): path.lstat().st_mode for path in paths if not path.is_symlink()
    }
    # As root the servers' account walks through the directory itself, and nothing else.
    passable = {".": 0o011} if os.geteuid() == 0 else {}

    opened = {
        name: oct(mode)
        for name, mode in modes.items()
        if mode & 0o077 & ~passable.get(name, 0) and "/" not in name and not name.startswith("said-")
    }

    assert opened == {}
    assert {mode & 0o777 for name, mode in modes.items() if name.startswith("logs/")} == {0o600}
    assert modes["logs"] & 0o777 == 0o700


def open_files(pid):
    """Give what a process has open; a file that it closes meanwhile is left out."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(entry.readlink())


def test_nothing_but_the_web_listens_on_the_network(up):
    session = {up.process.pid, *up.children().values()}
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    inodes = {line.split()[9] for line in listening.splitlines() if line.split()[3:4] == ["0A"]}
    owners = {
        name
        for name, pid in up.children().items()
        for target in open_files(pid)
        if (match := re.match(r"socket:\[(\d+)\]", target)) and match[1] in inodes
    }

    assert len(session) == 5
    assert owners <= {"web"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account to run servers as")
def test_servers_of_root_run_as_an_account_of_their_own(up):
    if not can_run_code(sys.executable, choose_account()):
        pytest.skip("other accounts cannot read the Python of these tests")

    owners = {name: Path(f"/proc/{pid}").stat().st_uid for name, pid in up.children().items()}

    assert owners == dict.fromkeys(("PostgreSQL", "Valkey", "web", "worker"), choose_account().uid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account to run servers as")
def test_root_is_refused_with_a_python_that_the_account_cannot_read(place):
    python = place / "closed" / "python"
    python.parent.mkdir(mode=0o700)
    python.symlink_to(sys.executable)
    refused = subprocess.run(
        [python, "-m", "benchapp.operation.embedded", "--no-run", "--data-dir", place / "var"],
        cwd=PROJECT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert refused.returncode == 1
    assert f"cannot read {python.parent}" in refused.stderr
    assert "--as-root" in refused.stderr
    assert not (place / "var" / "postgresql").exists()


def test_second_up_in_the_same_directory_is_told_of_the_first(up):
    second = start_up(up.home.path, "--no-run")

    assert second.process.wait(240) == 1
    assert f"benchapp is already running in {up.home.path}: open http://127.0.0.1:{up.port}" in second.said
    assert read_instance(up.address) is not None


def test_port_of_the_first_is_refused_to_another_directory(up, open_place):
    second = start_up(open_place / "other", "--no-run", port=up.port)

    assert second.process.wait(240) == 1
    instance = up.home.read_state().instance
    assert f"port {up.port} on 127.0.0.1 is in use by another benchapp (instance {instance})" in second.said


def test_web_that_was_killed_comes_back(up):
    killed = up.children()["web"]
    os.kill(killed, signal.SIGKILL)

    up.wait_for("web was killed by SIGKILL; restarting in 1 s")
    deadline = time.monotonic() + 120
    while read_instance(up.address) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert up.children()["web"] != killed


def test_backup_of_the_running_stack_replaces_what_is_there_only_with_force(up, backed_up, embedded_database):
    up.query("UPDATE benchapp_host SET name = 'changed' RETURNING 1")
    up.query(
        "INSERT INTO benchapp_user (username, password, role, is_superuser, first_name, last_name, email, is_staff,"
        " is_active, date_joined, time_zone, rate_units, theme, default_filter)"
        " VALUES ('ann', '', 'viewer', false, '', '', '', false, true, now(), '', 'si', 'system', '')"
        " RETURNING 1"
    )

    with pytest.raises(CommandError, match="back it up first, then restore with --force"):
        call_command("restore", backed_up.file, data_dir=up.home.path)
    forced = manage("restore", backed_up.file, "--force", "--data-dir", up.home.path)

    assert backed_up.ended.returncode == 0, backed_up.ended.stderr
    assert backed_up.file.stat().st_mode & 0o777 == 0o600
    assert forced.returncode == 0, forced.stderr
    assert up.query("SELECT name, pool FROM benchapp_host") == backed_up.hosts
    assert up.query("SELECT count(*) FROM benchapp_user") == [(0,)]
    assert get(up.address, "/runs/")[0] == 200


def test_backup_is_restored_into_a_fresh_directory_that_up_then_serves(backed_up, restored):
    hosts = restored.up.query("SELECT name, pool FROM benchapp_host")

    assert restored.restoring.returncode == 0, restored.restoring.stderr
    assert hosts == backed_up.hosts
    assert [pool for _, pool in hosts] == ["restored"]
    assert "Creating a PostgreSQL cluster" not in restored.up.said
    assert get(restored.up.address, "/hosts/")[0] == 200


def test_backup_has_the_settings_of_the_running_stack_and_its_secret_key(up, restored):
    fresh, settings = restored.up.home, restored.up.home.path / "settings.env"

    assert fresh.read_secret("secret-key") == up.home.read_secret("secret-key")
    assert settings.read_text() == "BENCHAPP_NOTICE_RETENTION_DAYS=90\n"
    assert settings.stat().st_mode & 0o777 == 0o600
    assert f"Its settings, with secrets, are in {settings}" in restored.restoring.stdout


def test_without_fio_the_line_to_install_it_is_said_and_the_rest_goes_on(restored):
    said = restored.up.said

    assert "sudo apt-get install --yes fio" in said
    assert f"http://127.0.0.1:{restored.up.port}/" in said
    assert restored.up.process.poll() is None


@pytest.mark.chaos
def test_children_of_a_killed_supervisor_end_and_the_next_start_keeps_the_history(after_kill):
    pids, second = after_kill

    wait_until_gone(pids)
    assert second.query("SELECT pool FROM benchapp_host") == [("kept",)]
    assert get(second.address, "/hosts/")[0] == 200


@pytest.mark.chaos
def test_postgresql_that_was_killed_comes_back_with_the_history(after_kill):
    _, up = after_kill
    killed = up.children()["PostgreSQL"]

    os.kill(killed, signal.SIGKILL)

    up.wait_for("PostgreSQL was killed by SIGKILL; restarting in 1 s")
    deadline = time.monotonic() + 120
    while b'"can_store": true' not in (get(up.address, "/readyz") or (0, b""))[1]:
        assert time.monotonic() < deadline, up.said
        time.sleep(0.1)
    assert up.children()["PostgreSQL"] != killed
    assert up.query("SELECT pool FROM benchapp_host") == [("kept",)]


def test_restore_of_a_missing_file_creates_nothing(open_place):
    with pytest.raises(CommandError, match="file not found"):
        call_command("restore", open_place / "missing.dump", data_dir=open_place / "nothing")

    assert not (open_place / "nothing").exists()


def test_file_that_is_no_backup_changes_nothing(up, open_place, embedded_database):
    file = open_place / "letter.txt"
    file.write_text("Dear reader")

    with pytest.raises(CommandError, match="is not a valid backup"):
        call_command("restore", file, force=True, data_dir=up.home.path)

    assert up.query("SELECT count(*) FROM benchapp_host") == [(1,)]


def test_interrupt_ends_everything(up):
    pids = list(up.children().values())

    assert up.interrupt() == 0
    wait_until_gone(pids)
    assert up.home.read_state() is None


def test_second_start_keeps_the_history_and_loads_the_sample(again):
    assert again.status == 0, again.up.said
    assert "Creating a PostgreSQL cluster" not in again.up.said
    assert "/studies/  (8 studies; 154 new measurements)" in again.up.said
    assert read_secrets(again.up) == again.before


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")
def test_first_run_is_measured_stored_and_its_page_printed(again):
    assert re.search(rf"Chart +http://127\.0\.0\.1:{again.up.port}/runs/\d+/", again.up.said), again.up.said
    assert not (again.up.home.path / "bench").exists()
    assert list((again.up.home.path / "agent" / "spool").rglob("*.json*")) == []


def test_backup_of_a_stopped_stack_starts_postgresql_for_itself(up, open_place):
    file = open_place / "stopped.dump"
    if up.process.poll() is None:
        up.interrupt()

    assert manage("backup", file, "--data-dir", up.home.path).returncode == 0

    assert file.read_bytes()[:5] == b"PGDMP"
    assert not (up.home.path / "postgresql" / "18" / "postmaster.pid").exists()


def test_backup_where_nothing_is_says_so(open_place, embedded_database):
    with pytest.raises(CommandError, match="`up` has not been started there"):
        call_command("backup", open_place / "no.dump", data_dir=open_place / "empty")


@pytest.mark.parametrize(
    ("outcome", "pages"),
    [
        (b'{"pages": ["http://h/runs/1/"]}', ("http://h/runs/1/",)),
        (b'{"pages": []}', ()),
        (b'{"exit_code": 2, "error": "no"}', ()),
        (b"", ()),
        (b"Traceback", ()),
        (b"[]", ()),
    ],
)
def test_pages_are_read_from_what_the_agent_says(outcome, pages):
    assert read_pages(outcome) == pages


def manage(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "manage.py", *map(str, arguments)],
        cwd=PROJECT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_options_of_manage_py_up_are_the_same(capsys):
    with pytest.raises(SystemExit):
        execute_from_command_line(["manage.py", "up", "--help"])
    said = capsys.readouterr().out

    assert all(
        option in said
        for option in ("--host", "--port", "--data-dir", "--no-run", "--exit-after-run", "--sample")
    )


@pytest.mark.parametrize(
    ("machine", "name"),
    [("db 1.", "db-1"), ("...", "this-machine"), ("Me", "this-machine"), ("me-2", "me-2")],
)
def test_machine_is_enrolled_under_a_name_that_is_valid_and_not_reserved(
    machine: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: machine)

    assert host_name() == name
