"""Checks before the start of the stack, and the commands of its processes, as in docker-compose.yml."""

import errno
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.child import PROJECT, SystemAccount, can_run_code, find_inaccessible_part
from benchapp.operation.embedded.home import Home, read_boot
from benchapp.operation.embedded.servers import Valkey, make_url

# A new cluster takes 45 MiB, and its write-ahead log may grow to 512 MiB under load.
FREE_DISK_NEEDED_BYTES: Final = 700 * 2**20
_PORTS_TRIED: Final = 20
# PostgreSQL writes a checkpoint before it ends. Other servers have nothing to finish without it: a worker would wait
# 20 s for its task, then for the broker. Submissions that are not stored are processed after the start.
_LEFTOVERS_PATIENCE_S: Final = {"PostgreSQL": 60.0}
_OTHERS_PATIENCE_S: Final = 2.0
_KILL_PATIENCE_S: Final = 10.0
_EVERY_IPV4: Final = "0.0.0.0"  # noqa: S104
# Wildcard address → address for local requests.
EVERYWHERE: Final = {_EVERY_IPV4: "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class PreflightFailed(Exception):
    """A check failed; the message says what to do."""


@dataclass(frozen=True)
class Address:
    """The address of the web process."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Return the URL on this machine."""
        host = EVERYWHERE.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether it is a loopback address."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def choose_address(host: str, port: int | None, *, first_port: int = 8000) -> Address:
    """Return a free address: the given port, or the first free one from `first_port`."""
    if port is not None:
        _check_bind(host, port)
        return Address(host, port)
    for candidate in range(first_port, first_port + _PORTS_TRIED):
        try:
            _check_bind(host, candidate)
        except PortTaken:
            continue
        return Address(host, candidate)
    raise PreflightFailed(
        f"ports {first_port}–{first_port + _PORTS_TRIED - 1} are in use; choose one with --port (make up PORT=…)"
    )


class PortTaken(PreflightFailed):
    """The port is in use."""


def _check_bind(host: str, port: int) -> None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise PreflightFailed(f"--host {host} is not a valid address of this machine: {error}") from error
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Like the server, to allow recently closed connections; never SO_REUSEPORT: two stacks would share the port
        # and its requests.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise _describe_bind_error(error, host, port) from error


def _describe_bind_error(error: OSError, host: str, port: int) -> PreflightFailed:
    if error.errno == errno.EADDRINUSE:
        other = read_instance(Address(host, port))
        who = (
            "another program" if other is None else f"another benchapp (instance {other or 'without a name'})"
        )
        return PortTaken(
            f"port {port} on {host} is in use by {who}; choose another with --port (make up PORT=…)"
        )
    if error.errno == errno.EACCES:
        return PreflightFailed(
            f"port {port} requires root; choose one above 1023 with --port (make up PORT=…)"
        )
    return PreflightFailed(f"cannot listen on {host} port {port}: {error.strerror}")


def read_instance(address: Address, *, timeout_s: float = 2) -> str | None:
    """Return the instance id of /healthz at this address; None if it is not benchapp."""
    answer = get(address, "/healthz", timeout_s=timeout_s)
    if answer is None or answer[0] != http.client.OK:
        return None
    try:
        fields = json.loads(answer[1])
        return str(fields["instance"] or "")
    except (ValueError, KeyError, TypeError):
        return None


def get(address: Address, path: str, *, timeout_s: float = 2) -> tuple[int, bytes] | None:
    """Return status and body of a GET request, or None without an HTTP response."""
    host = EVERYWHERE.get(address.host, address.host)
    connection = http.client.HTTPConnection(host, address.port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(65_536)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def check_disk(path: Path, *, needed_bytes: int = FREE_DISK_NEEDED_BYTES) -> None:
    """Raise PreflightFailed if the disk is nearly full."""
    free = shutil.disk_usage(path).free
    if free < needed_bytes:
        raise PreflightFailed(
            f"{path} has {free // 2**20} MiB free, {needed_bytes // 2**20} MiB are needed; "
            f"free some space, or choose another disk with --data-dir (make up DATA=…)"
        )


def check_writable(path: Path) -> None:
    """Raise PreflightFailed if the data directory cannot be created or written."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        raise PreflightFailed(
            f"cannot write to {existing} (owner: {_read_owner(existing)}); start as that user, or choose "
            f"another directory with --data-dir (make up DATA=…)"
        )


def check_code(python: str, account: SystemAccount | None, project: Path = PROJECT) -> None:
    """Raise PreflightFailed if the servers' account cannot read the checkout or its Python."""
    if account is None or can_run_code(python, account):
        return
    inaccessible = find_inaccessible_part(project / "manage.py", account)
    if inaccessible is not None:
        cause, advice = inaccessible, "clone into a public directory, such as /srv/benchapp"
    else:
        cause = find_inaccessible_part(Path(python), account) or Path(sys.prefix)
        advice = "install the system's python3 (apt-get install python3), then run make clean up"
    raise PreflightFailed(
        f"account {account.name} of web and worker cannot read {cause}.\n"
        f"  Either {advice}\n"
        f"  or start as a user other than root\n"
        f"  or run web and worker as root: make up AS_ROOT=1 (--as-root)"
    )


def _read_owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return f"user {path.stat().st_uid}"


def stop_leftovers(children: Mapping[str, tuple[int, int]]) -> list[str]:
    """Stop the children of a killed supervisor; return the names of those that had to be killed.

    The kernel has already sent their death signal (PR_SET_PDEATHSIG).
    """
    begun = time.monotonic()
    killed: dict[str, float] = {}
    while alive := {
        name: pid for name, (pid, started) in children.items() if read_start_time(pid) == started
    }:
        now = time.monotonic()
        for name in alive.keys() - killed.keys():
            if now - begun > _LEFTOVERS_PATIENCE_S.get(name, _OTHERS_PATIENCE_S):
                _kill_group(alive[name])
                killed[name] = now
        # Wait for killed ones, because web occupies its port, but not for one that is stuck in the kernel.
        if all(now - killed.get(name, now) > _KILL_PATIENCE_S for name in alive):
            break
        time.sleep(0.05)
    # An ended leader may have left workers in its session; its process id is then not reused.
    for pid, started in children.values():
        if read_start_time(pid) in (None, started):
            _kill_group(pid)
    return sorted(killed)


def read_start_time(pid: int) -> int | None:
    """Return the start time of a process in ticks since boot; None without the process or /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def _kill_group(leader_pid: int) -> None:
    try:
        os.killpg(leader_pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


# By default glibc uses one arena per thread; two are enough and save tens of MiB. Blocks above the threshold are
# returned to the system when freed; by default glibc raises the threshold up to 32 MiB.
ALLOCATOR: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "1048576"}


# What a web process under `--reload` watches; not the whole checkout, in which the stack's own logs are.
_WATCHED: Final = tuple(str(PROJECT / name) for name in ("benchapp", "docs", "templates", "static"))
# The servers' account need not be able to read every __pycache__ of the checkout.
RELOADING: Final = {"WATCHFILES_IGNORE_PERMISSION_DENIED": "1"}


def web_command(address: Address, *, is_reloading: bool = False) -> list[str]:
    """Return the command of the web process.

    HTTP/1 with a small buffer: data received before the body guard reads it is not covered by any limit; with HTTP/2
    granian buffers 1 MiB of body and 16 MiB of headers.
    """
    return [
        *(sys.executable, "-m", "granian", "--interface", "asginl", "--host", address.host),
        *("--port", str(address.port), "--workers", "1", "--no-ws"),
        *("--http", "1", "--http1-buffer-size", "65536", "--log-level", "warning"),
        # Time for running requests when the stack stops.
        *("--workers-kill-timeout", "8"),
        *(("--reload", *(f"--reload-paths={path}" for path in _WATCHED)) if is_reloading else ()),
        "benchapp.asgi:application",
    ]


def worker_command(schedule: Path) -> list[str]:
    """Return the command of the worker with beat in one process tree."""
    return [sys.executable, "-m", "benchapp.operation.embedded.worker", str(schedule)]


def reload_command(command: Sequence[str]) -> list[str]:
    """Return the command that runs another and starts it again when the server's Python code changes."""
    return [
        *(sys.executable, "-m", "watchfiles", "--filter", "python", "--target-type", "command"),
        *(
            "--verbosity",
            "warning",
            "--ignore-permission-denied",
            shlex.join(command),
            str(PROJECT / "benchapp"),
        ),
    ]


def drain_command() -> list[str]:
    """Return the command that processes submissions without a broker."""
    return [sys.executable, "manage.py", "drain", "--loop"]


def build_environment(
    base: Mapping[str, str],
    *,
    database_url: str,
    broker_url: str,
    data_directory: Path,
    secret_key: str,
    address: Address,
    instance: str,
    static_root: Path,
) -> dict[str, str]:
    """Return the environment of all processes; variables of the caller have precedence."""
    defaults = {
        "BENCHAPP_SECRET_KEY": secret_key,
        "BENCHAPP_ALLOWED_HOSTS": ",".join(allowed_hosts(address)),
        # On loopback only local users can read, and the printed URL opens without an account.
        "BENCHAPP_PUBLIC_READ": "1" if address.is_loopback else "0",
    }
    fixed = {
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        "BENCHAPP_DATA_DIR": str(data_directory),
        "BENCHAPP_STATIC_ROOT": str(static_root),
        "BENCHAPP_INSTANCE_ID": instance,
        "DJANGO_SETTINGS_MODULE": "benchapp.settings",
        "PYTHONUNBUFFERED": "1",
        # The worker finishes running tasks for 20 s and returns the rest (CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT).
        "REMAP_SIGTERM": "SIGQUIT",
        **ALLOCATOR,
    }
    given = {name: value for name, value in base.items() if value}
    if given.get("BENCHAPP_SECRET_KEY_FILE"):
        del defaults["BENCHAPP_SECRET_KEY"]
    # Passwords of another server are not valid for the embedded one.
    for service, url in (("DATABASE", database_url), ("BROKER", broker_url)):
        if given.get(f"{service}_URL", "").strip() != url:
            given.pop(f"{service}_PASSWORD", None)
            given.pop(f"{service}_PASSWORD_FILE", None)
    return {**defaults, **given, **fixed}


def read_environment(home: Home) -> dict[str, str] | None:
    """Return the environment of the processes of a running `up`; None if none runs, or if it is another user's."""
    state, base = home.read_state(), read_caller_environment(home)
    # The key of another user's stack cannot be read, either.
    key = None if base is None else home.read_secret("secret-key")
    if state is None or key is None or base is None:
        return None
    sockets = Path(state.socket_directory)
    valkey = Valkey(Path(), sockets, Path())
    return build_environment(
        base,
        database_url=base.get("DATABASE_URL", "").strip() or make_url(sockets),
        broker_url=base.get("BROKER_URL", "").strip() or (valkey.url if valkey.socket.exists() else ""),
        data_directory=home.path,
        secret_key=key,
        address=Address(state.host, 0),
        instance=state.instance,
        static_root=home.path / "static",
    )


def read_caller_environment(home: Home) -> dict[str, str] | None:
    """Return the environment in which the running `up` was started; None if none runs, or if it is another user's."""
    state = home.read_state()
    started = read_start_time(state.pid) if state else None
    # Another process may have its number since it was killed; it began before its children.
    if state is None or started is None or state.boot not in ("", read_boot()):
        return None
    if any(started > other for _, other in state.children.values()):
        return None
    try:
        entries = Path(f"/proc/{state.pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)


def allowed_hosts(address: Address) -> list[str]:
    """Return the allowed host names: loopback, and this machine's names if it listens on other addresses."""
    names = ["127.0.0.1", "localhost", "[::1]"]
    if not address.is_loopback:
        names += [socket.gethostname(), socket.getfqdn()]
        if address.host not in EVERYWHERE:
            names.append(f"[{address.host}]" if ":" in address.host else address.host)
    return list(dict.fromkeys(names))
