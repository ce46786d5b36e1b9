"""Commands and environment of the benchapp processes, as in docker-compose.yml."""

import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchapp.operation.embedded.account import PROJECT
from benchapp.operation.embedded.preflight import EVERYWHERE, Address

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


def allowed_hosts(address: Address) -> list[str]:
    """Return the allowed host names: loopback, and this machine's names if it listens on other addresses."""
    names = ["127.0.0.1", "localhost", "[::1]"]
    if not address.is_loopback:
        names += [socket.gethostname(), socket.getfqdn()]
        if address.host not in EVERYWHERE:
            names.append(f"[{address.host}]" if ":" in address.host else address.host)
    return list(dict.fromkeys(names))
