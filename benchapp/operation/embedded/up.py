"""`up`: start the stack on this machine, run one benchmark, and print the URL of its chart."""

import hashlib
import json
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchapp.operation.embedded.child import (
    PROJECT,
    ServerFailed,
    SystemAccount,
    choose_account,
    create_private_directory,
    die_with_parent,
    identity,
    spawn,
    write_private_file,
)
from benchapp.operation.embedded.home import Home, HomeState, create_socket_directory, read_boot
from benchapp.operation.embedded.preflight import (
    RELOADING,
    PreflightFailed,
    build_environment,
    check_code,
    check_disk,
    check_writable,
    choose_address,
    drain_command,
    get,
    read_instance,
    read_start_time,
    reload_command,
    stop_leftovers,
    web_command,
    worker_command,
)
from benchapp.operation.embedded.servers import Broker, Postgres, Valkey, choose_broker, choose_directory
from benchapp.operation.embedded.supervisor import Service, StopRequested, Supervisor

# For the first run: the worker reacts to a task within a second, the sweep task runs every 10 s.
WAIT_S: Final = 60
_CONFIGURATION: Final = """\
; Written by `up` at every start. To run the agent manually:
;   python -m agent run --config {path}
[server]
url = {url}
token_file = agent.token
[spool]
directory = spool
[run]
directory = {directory}
profile = {profile}
"""


@dataclass
class AgentRun:
    """One run of the agent; `status` and `pages` are set at its end."""

    home: Home
    url: str
    token: str
    profile: str
    adjustments: tuple[str, ...]
    account: SystemAccount | None
    environ: Mapping[str, str]
    status: int = 0
    pages: tuple[str, ...] = ()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the agent; progress goes to the terminal, the JSON result to this process."""
        self._configure()
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "agent", "run", "--profile", self.profile),
                *("--directory", str(self.home.bench), "--wait", str(WAIT_S), "--json"),
                *[part for adjustment in self.adjustments for part in ("--set", adjustment)],
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=PROJECT,
            env={**_remove_server_variables(self.environ), "BENCH_AGENT_CONFIG": str(self._path)},
            # Not in the terminal's process group: the supervisor forwards Ctrl-C once.
            start_new_session=True,
            preexec_fn=die_with_parent(),
            **identity(self.account),
        )

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the agent, or terminate it, and remove its working directory."""
        if process.poll() is None:
            process.terminate()
        outcome, _ = process.communicate()
        self.status = process.returncode
        self.pages = read_pages(outcome)
        shutil.rmtree(self.home.bench, ignore_errors=True)

    @property
    def _path(self) -> Path:
        return self.home.agent / "agent.ini"

    def _configure(self) -> None:
        create_private_directory(self.home.bench, self.account)
        create_private_directory(self.home.agent, self.account)
        write_private_file(self.home.agent / "agent.token", self.token + "\n", self.account)
        configuration = _CONFIGURATION.format(
            path=self._path, url=self.url, directory=self.home.bench, profile=self.profile
        )
        write_private_file(self._path, configuration, self.account)


def read_pages(outcome: bytes) -> tuple[str, ...]:
    """Return the addresses of the pages that the agent's JSON names; () if it was stopped before."""
    try:
        return tuple(str(page) for page in json.loads(outcome)["pages"])
    except (ValueError, KeyError, TypeError):
        return ()


def _remove_server_variables(environ: Mapping[str, str]) -> dict[str, str]:
    # The agent is a client: it needs neither database URL nor secret key.
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(("BENCHAPP_", "BENCH_AGENT_", "DJANGO_", "DATABASE_", "BROKER_"))
    }


_SOURCES: Final = (
    "static",
    "templates",
    "uv.lock",
    "package-lock.json",
    "benchapp/framework/pages/static_files.py",
)
_STAMP: Final = "collected-from"
_TIMEOUT_S: Final = 120.0


class StaticFiles:
    """The collected files in one directory; collecting runs beside the start of the servers."""

    def __init__(self, directory: Path, account: SystemAccount | None) -> None:
        self.directory = directory
        self._account = account
        self._digest = _digest_sources()
        self._process: subprocess.Popen[str] | None = None

    def start(self, environ: Mapping[str, str]) -> None:
        """Start collecting, unless the files of this checkout are there."""
        if self._is_current():
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        create_private_directory(self.directory, self._account)
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=PROJECT,
            env={**environ, "BENCHAPP_STATIC_ROOT": str(self.directory)},
            **identity(self._account),
        )

    def wait(self) -> None:
        """Wait for the files.

        Raises:
            ServerFailed: they cannot be collected.
        """
        if self._process is None:
            return
        try:
            output, _ = self._process.communicate(timeout=_TIMEOUT_S)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        if self._process.returncode != 0:
            raise ServerFailed(f"cannot collect the static files:\n{output.strip()}")
        (self.directory / _STAMP).write_text(self._digest)

    def _is_current(self) -> bool:
        try:
            return (self.directory / _STAMP).read_text() == self._digest
        except OSError:
            return False


def _digest_sources() -> str:
    digest = hashlib.sha256(str(PROJECT).encode())
    for source in _SOURCES:
        path = PROJECT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(PROJECT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


_PREPARE_TIMEOUT_S: Final = 600.0
_OPEN_FILES: Final = 65_536
_HEARTBEAT_S: Final = 15.0


@dataclass(frozen=True)
class Options:
    """The options of `up`."""

    data_directory: Path
    host: str = "127.0.0.1"
    port: int | None = None
    is_run_wanted: bool = True
    is_exit_wanted: bool = False
    profile: str = "quick"
    adjustments: tuple[str, ...] = ()
    is_sample_wanted: bool = False
    is_root_allowed: bool = False
    is_reloading: bool = False


@dataclass
class Up:
    """One start of the stack, from preflight checks to shutdown."""

    options: Options
    environ: Mapping[str, str]
    supervisor: Supervisor
    home: Home
    started_at: float = field(default_factory=time.monotonic)
    instance: str = field(default_factory=lambda: secrets.token_hex(6))

    def run(self) -> int:
        """Start, run the benchmark, supervise until a stop request; return the exit status."""
        check_writable(self.options.data_directory)
        raise_file_limit()
        self.home.create(is_root=os.geteuid() == 0)
        self.supervisor.on_restart = self._write_state
        with self.home.lock(), self.supervisor.signals():
            left = self.home.read_state()
            if left is not None and left.boot == read_boot():
                stop_leftovers(left.children)
            self.home.remove_state()
            check_disk(self.home.path)
            try:
                return self._run_locked()
            except StopRequested:
                return 0
            finally:
                self.supervisor.stop_all()
                self.home.remove_state()
                self._report("Stopped.")

    def _run_locked(self) -> int:
        account = choose_account(report=self._report)
        self.code_account = self._choose_code_account(account)
        self.address = choose_address(self.options.host, self.options.port)
        self.sockets = create_socket_directory(self.home, account)
        self._write_state()
        static_files = StaticFiles(self.home.path / "static", self.code_account)
        if not self.options.is_reloading:
            static_files.start(self.environ)
        broker = choose_broker(self.environ, account)
        self.environment = build_environment(
            self.environ,
            database_url=self._launch_postgres(account),
            broker_url=self._launch_broker(broker, account),
            data_directory=self.home.path,
            secret_key=self.home.read_or_create_key(),
            address=self.address,
            instance=self.instance,
            # Without a directory, the checkout's files are used.
            static_root=static_files.directory if not self.options.is_reloading else Path(os.devnull),
        )
        static_files.wait()
        self.supervisor.check_stop()
        # Web starts while the tables are migrated, and is ready afterwards; the worker must not start before.
        self._launch_web()
        prepared = self._prepare()
        self._launch_worker()
        self._write_state()
        self.supervisor.wait_ready("web")
        self.supervisor.wait_ready("worker")
        self._report(f"Ready after {time.monotonic() - self.started_at:.1f} s ({broker.description}).")
        run = self._run_agent(prepared["token"])
        self._print_addresses(prepared["setup"], run, sample=prepared["sample"])
        if self.options.is_exit_wanted:
            return run.status if run is not None else 0
        self.supervisor.watch()
        return 0

    def _launch_postgres(self, account: SystemAccount | None) -> str:
        given = self.environ.get("DATABASE_URL", "").strip()
        if given:
            return given
        postgres = Postgres(
            directory=choose_directory(self.home.path, account),
            socket_directory=self.sockets,
            log=self.home.logs / "postgresql.log",
            account=account,
        )
        if not postgres.is_initialized:
            self._report(f"Creating a PostgreSQL cluster in {postgres.directory} …")
        postgres.initialize()
        self.supervisor.check_stop()
        postgres.wait_for_predecessor()
        self.supervisor.launch(
            Service(
                name="PostgreSQL",
                spawn=postgres.spawn,
                is_ready=postgres.is_ready,
                is_alive=postgres.is_alive,
                log=postgres.log,
                ready_timeout_s=120,
                ask=signal.SIGINT,
                patience_s=60,
                kill_signal=signal.SIGQUIT,
            )
        )
        self.supervisor.wait_ready("PostgreSQL")
        postgres.create_database()
        return postgres.url

    def _launch_broker(self, broker: Broker, account: SystemAccount | None) -> str:
        if broker.binary is None:
            return broker.url
        valkey = Valkey(broker.binary, self.sockets, self.home.logs / "valkey.log", account)
        self.supervisor.launch(
            Service(
                name="Valkey",
                spawn=valkey.spawn,
                is_ready=valkey.is_ready,
                is_alive=valkey.is_ready,
                log=valkey.log,
                patience_s=5,
            )
        )
        self.supervisor.wait_ready("Valkey")
        return valkey.url

    def _choose_code_account(self, account: SystemAccount | None) -> SystemAccount | None:
        try:
            check_code(sys.executable, account)
        except PreflightFailed as refused:
            if not self.options.is_root_allowed:
                raise
            self._report(f"Web and worker run as root (--as-root): {refused.args[0].splitlines()[0]}")
            return None
        return account

    def _prepare(self) -> dict[str, Any]:
        request = {
            "host": host_name(),
            "token": self.home.read_secret("host-token"),
            "is_sample_wanted": self.options.is_sample_wanted,
        }
        result = subprocess.run(
            [sys.executable, "-m", "benchapp.operation.embedded.prepare"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            cwd=PROJECT,
            env=self.environment,
            timeout=_PREPARE_TIMEOUT_S,
            check=False,
            **identity(self.code_account),
        )
        self.supervisor.check_stop()
        if result.returncode != 0:
            raise ServerFailed(f"cannot prepare the database:\n{result.stderr.strip()}")
        answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
        if answer["token"] != request["token"]:
            self.home.write_secret("host-token", answer["token"])
        return answer

    def _launch_worker(self) -> None:
        state = create_private_directory(self.home.path / "beat", self.code_account)
        command = worker_command(state / "schedule") if self.environment["BROKER_URL"] else drain_command()
        if self.options.is_reloading:
            command = reload_command(command)
        heartbeat = state / "worker-heartbeat"
        self.environment["BENCHAPP_HEARTBEAT_FILE"] = str(heartbeat)
        self.supervisor.launch(
            self._service(
                "worker",
                command,
                is_ready=self._can_store,
                is_alive=lambda: is_recent(heartbeat),
                ready_timeout_s=60,
                patience_s=25,
            )
        )

    def _launch_web(self) -> None:
        command = web_command(self.address, is_reloading=self.options.is_reloading)
        self.supervisor.launch(
            self._service(
                "web",
                command,
                is_ready=self._is_web_ready,
                is_alive=lambda: read_instance(self.address) is not None,
                patience_s=10,
            )
        )

    def _service(self, name: str, command: list[str], **how: Any) -> Service:
        log = self.home.logs / f"{name}.log"
        return Service(
            name=name,
            spawn=partial(
                spawn,
                command,
                log=log,
                account=self.code_account,
                env={
                    **self.environment,
                    **(RELOADING if self.options.is_reloading else {}),
                    "BENCHAPP_ROLE": name,
                },
                cwd=PROJECT,
            ),
            log=log,
            **how,
        )

    def _is_web_ready(self) -> bool:
        instance = read_instance(self.address)
        if instance is not None and instance != self.instance:
            raise ServerFailed(f"another benchapp is running at {self.address.url}; choose another port")
        if instance is None:
            return False
        ready = get(self.address, "/readyz", timeout_s=10)
        return ready is not None and ready[0] == 200

    def _can_store(self) -> bool:
        ready = get(self.address, "/readyz", timeout_s=10)
        return ready is not None and bool(json.loads(ready[1])["can_store"])

    def _run_agent(self, token: str) -> AgentRun | None:
        if not self.options.is_run_wanted:
            return None
        if shutil.which("fio", path=self.environment.get("PATH")) is None:
            self._report("fio is not installed; no benchmark was run. Install it and start again:")
            self._report("  sudo apt-get install --yes fio")
            return None
        run = AgentRun(
            home=self.home,
            url=self.address.url,
            token=token,
            profile=self.options.profile,
            adjustments=self.options.adjustments,
            account=self.code_account,
            environ=self.environment,
        )
        process = run.start()
        self.supervisor.watch(until=lambda: process.poll() is not None)
        run.finish(process)
        self.supervisor.check_stop()
        return run

    def _print_addresses(self, setup: str | None, run: AgentRun | None, *, sample: str) -> None:
        url = (self.environment.get("BENCHAPP_PUBLIC_URL") or self.address.url).rstrip("/")
        self._report("")
        if run is not None and run.status != 0:
            self._report(f"The benchmark exited with status {run.status}; see its output above.")
        self._report(f"  Overview         {url}/")
        for page in run.pages if run is not None else ():
            self._report(f"  Chart            {page}")
        if sample:
            self._report(f"  Sample           {url}/studies/  ({sample})")
        if setup is not None:
            self._report(f"  Create admin     {url}/setup/{setup}/  (one-time link, valid for 24 hours)")
        self._report(f"  Logs             {self.home.logs}")
        if not self.options.is_exit_wanted:
            self._report("  Press Ctrl-C to stop; results are kept.")

    def _write_state(self) -> None:
        children = {
            name: (pid, started)
            for name, pid in self.supervisor.pids().items()
            if (started := read_start_time(pid)) is not None
        }
        self.home.write_state(
            HomeState(
                pid=os.getpid(),
                instance=self.instance,
                address=self.address.url,
                socket_directory=str(self.sockets),
                boot=read_boot(),
                host=self.address.host,
                children=children,
            )
        )

    def _report(self, line: str) -> None:
        self.supervisor.report(line)


def raise_file_limit() -> None:
    """Raise the limit of open files, which the servers inherit: the usual one is below a connection per host."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def is_recent(heartbeat: Path) -> bool:
    """Return whether a file was touched within 15 s; a worker touches it every 5 s."""
    try:
        return time.time() - heartbeat.stat().st_mtime < _HEARTBEAT_S
    except FileNotFoundError:
        return False


def host_name() -> str:
    """Return this machine's name as a host name that enrollment accepts."""
    name = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in ".-_" else "-"
        for letter in socket.gethostname()
    )
    name = name.strip(".-_")[:253]
    # `me` is reserved (pipeline.enroll), which this process cannot import: Django is not set up in it.
    return name if name and name.lower() != "me" else "this-machine"
