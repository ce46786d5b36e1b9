import os
import pwd
import signal
import subprocess
import time

import pytest

from benchapp.operation.embedded import servers as postgres_module
from benchapp.operation.embedded.child import ServerFailed, spawn, stop
from benchapp.operation.embedded.preflight import read_start_time
from benchapp.operation.embedded.servers import (
    MAJOR,
    Postgres,
    WrongVersion,
    check_socket_path,
    choose_directory,
)


def ask(cluster: Postgres, query: str) -> str:
    return cluster.run("psql", "-XAtqd", "benchapp", "-c", query).stdout.strip()


def test_cluster_starts_answers_and_stops(postgres):
    process = postgres.start()

    version = ask(postgres, "SELECT current_setting('server_version_num')::int / 10000")
    addresses = ask(postgres, "SHOW listen_addresses")
    locale = ask(postgres, "SELECT datlocprovider, datlocale FROM pg_database WHERE datname = 'benchapp'")

    assert (version, addresses) == (MAJOR, "")
    assert locale == "b|C.UTF-8"
    assert stop(process, ask=signal.SIGINT) == 0
    assert not postgres.is_ready()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_only_the_servers_account_and_root_may_connect_also_to_a_cluster_of_an_older_version(postgres, place):
    # Made by an earlier version: run as nobody, and open to every process that reaches the socket.
    (postgres.directory / "pg_hba.conf").write_text("local all all trust\n")
    subprocess.run(["chown", "-R", "nobody", postgres.directory.parent], check=True)
    reachable = Postgres(
        postgres.directory,
        place / "run",
        postgres.log,
        postgres.account,
        {"fsync": "off", "unix_socket_permissions": "0777"},
    )
    process = reachable.start()
    (place / "run").chmod(0o755)

    by_nobody = connect_as("nobody", reachable)
    by_account = connect_as(postgres.account.name, reachable)
    by_root = connect_as("root", reachable)

    assert (by_account.stdout.strip(), by_root.stdout.strip()) == ("1", "1"), (
        by_account.stderr + by_root.stderr
    )
    assert by_nobody.returncode != 0
    assert "Peer authentication failed" in by_nobody.stderr
    stop(process, ask=signal.SIGINT)


def connect_as(name: str, cluster: Postgres) -> subprocess.CompletedProcess:
    entry = pwd.getpwnam(name)
    return subprocess.run(
        [cluster.installation / "bin" / "psql", "-XAtqd", "benchapp", "-c", "SELECT 1"],
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=[],
        cwd="/",
        env={
            "PGHOST": str(cluster.socket_directory),
            "PGUSER": "benchapp",
            "LD_LIBRARY_PATH": str(cluster.installation / "lib"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_history_survives_the_kill_of_every_process(postgres):
    process = postgres.start()
    ask(postgres, "CREATE TABLE kept (n int)")
    ask(postgres, "INSERT INTO kept VALUES (7)")
    process.kill()
    process.wait()

    # Its children notice by themselves; a start that comes earlier waits for the shared memory to be free.
    postgres.wait_for_predecessor()
    again = start_after_crash(postgres)

    assert ask(postgres, "SELECT n FROM kept") == "7"
    assert "redo" in postgres.log.read_text() or "not properly shut down" in postgres.log.read_text()
    stop(again, ask=signal.SIGINT)


def start_after_crash(cluster: Postgres):
    for _ in range(600):
        try:
            return cluster.start()
        except ServerFailed as error:
            if "shared memory" not in str(error):
                raise
            time.sleep(0.1)
    raise AssertionError("the shared memory of the killed server was never freed")


def test_half_made_cluster_of_an_earlier_crash_is_made_anew(place, account):
    cluster = Postgres(place / "pg" / "18", place / "run", place / "log", account, {"fsync": "off"})
    half = place / "pg" / "18.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")

    cluster.initialize()

    assert cluster.is_initialized
    assert not half.exists()


def test_cluster_of_another_version_is_refused_with_the_way_out(place, account):
    cluster = Postgres(place / "16", place / "run", place / "log", account)
    cluster.directory.mkdir()
    (cluster.directory / "PG_VERSION").write_text("16\n")

    with pytest.raises(WrongVersion, match=r"PostgreSQL 16.*\n.*backup history.dump.*\n?.*restore"):
        cluster.initialize()


def test_little_shared_memory_is_replaced_by_files(postgres, monkeypatch):
    monkeypatch.setattr(postgres_module, "_has_shared_memory", lambda: False)

    process = postgres.start()

    assert ask(postgres, "SHOW dynamic_shared_memory_type") == "mmap"
    stop(process, ask=signal.SIGINT)


def test_server_that_cannot_start_shows_the_end_of_its_log(postgres):
    broken = Postgres(
        postgres.directory,
        postgres.socket_directory,
        postgres.log,
        postgres.account,
        {"shared_buffers": "lots"},
    )

    with pytest.raises(ServerFailed, match=r"PostgreSQL ended with status 1(.|\n)*shared_buffers"):
        broken.start()


def test_running_server_is_known_by_its_directory(postgres):
    assert postgres.find_server() is None

    process = postgres.start()

    assert postgres.find_server() == process.pid
    stop(process, ask=signal.SIGINT)
    assert postgres.find_server() is None


def test_long_socket_path_is_refused(place):
    with pytest.raises(ServerFailed, match="the limit is 103"):
        check_socket_path(place / ("x" * 90) / ".s.PGSQL.5432")


def test_cluster_lies_in_the_data_directory_where_the_account_gets_there(place, account):
    assert choose_directory(place, account, state=place / "state") == place / "postgresql" / "18"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account to run servers as")
def test_closed_data_directory_gets_a_link_to_an_open_place(place, account):
    closed = place / "closed"
    closed.mkdir(mode=0o700)

    first = choose_directory(closed, account, state=place / "state")
    second = choose_directory(closed, account, state=place / "state")

    assert first == second
    assert first.is_relative_to(place / "state")
    assert (closed / "postgresql").is_symlink()
    assert first.parent.stat().st_mode & 0o777 == 0o700


def test_child_dies_with_the_process_that_started_it(place):
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        child = spawn(["sleep", "60"], log=place / "log", account=None)
        os.write(writer, str(child.pid).encode())
        os._exit(0)
    os.waitpid(parent, 0)
    child_pid = int(os.read(reader, 20))

    deadline = time.monotonic() + 60
    while read_start_time(child_pid) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert read_start_time(child_pid) is None
