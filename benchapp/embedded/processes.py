"""The commands of our own processes, and the environment that they read: the same as docker-compose.yml's."""

import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchapp.embedded.preflight import EVERYWHERE, Address

# glibc gives every thread an arena of its own; two are enough here and save tens of MiB. A large block is mapped by
# itself and returned when it is freed; without a value glibc raises the size from which it does so up to 32 MiB.
ALLOCATOR: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "1048576"}


def web_command(address: Address) -> list[str]:
    """Return the command of the web process.

    HTTP/1 with a small buffer: what a connection may send before the body guard asks for it is memory that no limit
    of ours counts; of HTTP/2 granian takes 1 MiB of body and 16 MiB of headers.
    """
    return [
        *(sys.executable, "-m", "granian", "--interface", "asginl", "--host", address.host),
        *("--port", str(address.port), "--workers", "1", "--no-ws"),
        *("--http", "1", "--http1-buffer-size", "65536", "--log-level", "warning"),
        # Requests that are still running are given this long when the stack stops.
        *("--workers-kill-timeout", "8", "benchapp.asgi:application"),
    ]


def worker_command(schedule: Path) -> list[str]:
    """Return the command of the worker with beat inside: one process tree is enough for a laptop."""
    return [
        *(sys.executable, "-m", "celery", "-A", "benchapp", "worker", "--beat", "--schedule", str(schedule)),
        *("--pool", "prefork", "--concurrency", "1", "--loglevel", "WARNING"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    ]


def drain_command() -> list[str]:
    """Return the command that settles submissions where there is no broker."""
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
) -> dict[str, str]:
    """Return what every process of the stack reads; what the person has set stays as it is."""
    defaults = {
        "BENCHAPP_SECRET_KEY": secret_key,
        "BENCHAPP_ALLOWED_HOSTS": ",".join(allowed_hosts(address)),
        # On loopback only this machine's people can read, and the printed page opens without an account.
        "BENCHAPP_PUBLIC_READ": "1" if address.is_loopback else "0",
    }
    fixed = {
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        "BENCHAPP_DATA_DIR": str(data_directory),
        # Never collected, so that the pages show the checkout's files and not those of an earlier image.
        "BENCHAPP_STATIC_ROOT": str(data_directory / "static"),
        "BENCHAPP_INSTANCE_ID": instance,
        "DJANGO_SETTINGS_MODULE": "benchapp.settings",
        "PYTHONUNBUFFERED": "1",
        # The worker finishes what runs for 20 s and hands back the rest (CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT).
        "REMAP_SIGTERM": "SIGQUIT",
        **ALLOCATOR,
    }
    given = {name: value for name, value in base.items() if value}
    if given.get("BENCHAPP_SECRET_KEY_FILE"):
        del defaults["BENCHAPP_SECRET_KEY"]
    # Of another server than the embedded one, which would refuse it.
    for service, url in (("DATABASE", database_url), ("BROKER", broker_url)):
        if given.get(f"{service}_URL", "").strip() != url:
            given.pop(f"{service}_PASSWORD", None)
            given.pop(f"{service}_PASSWORD_FILE", None)
    return {**defaults, **given, **fixed}


def allowed_hosts(address: Address) -> list[str]:
    """Return the names under which a browser may ask: loopback, and this machine's own when it listens outside."""
    names = ["127.0.0.1", "localhost", "[::1]"]
    if not address.is_loopback:
        names += [socket.gethostname(), socket.getfqdn()]
        if address.host not in EVERYWHERE:
            names.append(f"[{address.host}]" if ":" in address.host else address.host)
    return list(dict.fromkeys(names))
