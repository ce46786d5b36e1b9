"""Network round trip to the server of a network filesystem: the time of a TCP connection to its port."""

from __future__ import annotations

import re
import socket
import statistics
import time
from dataclasses import dataclass

from agent.storage.layout import Mount, find_mount

_NFS_PORT, _SMB_PORT = 2049, 445
_PORTS = {"nfs": _NFS_PORT, "nfs4": _NFS_PORT, "cifs": _SMB_PORT, "smb3": _SMB_PORT}
_TRIES = 5
_TIMEOUT_S = 1.0
_NFS_SOURCE = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^/:]+):.*")
_SMB_SOURCE = re.compile(r"//(\[[0-9A-Fa-f:.%\w]+\]|[^/]+)/.*")


@dataclass(frozen=True)
class Server:
    """The server of a network filesystem."""

    address: str
    port: int


def find_server(mount: Mount) -> Server | None:
    """Return the server of a mount; None if it is not a known network filesystem."""
    port = _PORTS.get(mount.filesystem)
    if port is None:
        return None
    options = dict(option.partition("=")[::2] for option in mount.options.split(","))
    source = (_SMB_SOURCE if port == _SMB_PORT else _NFS_SOURCE).fullmatch(mount.source)
    # The address used by the kernel needs no name resolution.
    address = options.get("addr") or (source.group(1).strip("[]") if source else "")
    given = options.get("port", "")
    if given.isdigit() and 0 < int(given) < 65536:
        port = int(given)
    return Server(address, port) if address else None


def measure_round_trip(server: Server) -> float | None:
    """Return the median of five connections in seconds; None if one is refused or takes more than 1 s."""
    taken_s = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        try:
            socket.create_connection((server.address, server.port), timeout=_TIMEOUT_S).close()
        except OSError:
            return None
        taken_s.append(time.perf_counter() - started)
    return statistics.median(taken_s)


def describe_round_trip(directory: str) -> dict[str, float | None]:
    """Return the round trip to the server of a directory's filesystem as a fact; {} without a server."""
    mount = find_mount(directory)
    server = find_server(mount) if mount else None
    return {"storage_round_trip_s": measure_round_trip(server)} if server else {}
