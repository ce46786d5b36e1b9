"""Network filesystems: server, export and protocol, without user names, and the round trip to the server."""

from __future__ import annotations

import os
import re
import socket
import statistics
import time
from typing import Any

from agent.storage.mounts import Mount, find_mount, split_options
from agent.storage.sysfs import read_line

_NFS = ("nfs", "nfs4")
_SMB = ("cifs", "smb3", "smbfs")
_COLON_SOURCES = (*_NFS, "fuse.glusterfs", "fuse.sshfs", "lustre")
_COLON = re.compile(r"(\[[^\]]*\]|[^/:]+):(.*)")
_LUSTRE = re.compile(r"(.*):(/[^:]*)")
_SMB_SHARE = re.compile(r"//(\[[^\]]*\]|[^/]+)(/.*)?")
# name@fsid.filesystem=/path since Linux 5.17; earlier versions list the monitors here.
_CEPH = re.compile(r"(?P<fsid>[^=]*)\.(?P<filesystem>[^=.]+)=(?P<path>.*)")
_LOGIN = re.compile(r"(^|//|#)[^/@]*@(?=[^/])")
_NFS_PORT, _SMB_PORT = 2049, 445
_PORTS = {"nfs": _NFS_PORT, "nfs4": _NFS_PORT, "cifs": _SMB_PORT, "smb3": _SMB_PORT}
_TRIES = 5
_TIMEOUT_S = 1.0


def describe_network(mount: Mount, *, root: str = "/") -> dict[str, Any]:
    """Return facts of a network filesystem under "network"; {} for others."""
    source = hide_login(mount.source)
    options = split_options(mount.options)
    facts: dict[str, Any]
    if mount.filesystem == "ceph":
        facts = _read_ceph(source)
    elif mount.filesystem in _SMB:
        facts = _read_pair(_SMB_SHARE, source)
    elif mount.filesystem in _COLON_SOURCES:
        facts = _read_pair(_LUSTRE if mount.filesystem == "lustre" else _COLON, source)
    else:
        return {}
    facts.update(
        address=options.get("addr") or options.get("ip"),
        version=options.get("vers"),
        transport=options.get("proto"),
        connections=options.get("nconnect"),
        # Set by the kernel: 128 KiB for NFS since Linux 5.4, independent of rsize.
        read_ahead_kb=read_line(root, "sys/class/bdi", mount.device_number, "read_ahead_kb"),
    )
    return {"network": {name: value for name, value in facts.items() if value}}


def hide_login(source: str) -> str:
    """Return the mount source without user and password, which some programs write before an @."""
    return _LOGIN.sub(r"\1", source)


def hide_ids(source: str, device: str, ids: dict[str, str]) -> str:
    """Return the mount source without disk ids: hashed, or replaced by the kernel's device name.

    ids: replacements by id. device: kernel name of the mounted device.
    """
    if "/by-id/" in source:
        return os.path.join("/dev", device)
    for value, shown in ids.items():
        source = source.replace(value, shown)
    return source


def _read_pair(pattern: re.Pattern[str], source: str) -> dict[str, Any]:
    match = pattern.fullmatch(source)
    return {"server": match.group(1).strip("[]"), "export": match.group(2)} if match else {}


def _read_ceph(source: str) -> dict[str, Any]:
    match = _CEPH.fullmatch(source)
    if match:
        return {"filesystem": match.group("filesystem"), "export": match.group("path")}
    monitors, _, path = source.partition(":/")
    return {"server": monitors, "export": "/" + path} if monitors != source else {}


def find_server(mount: Mount) -> tuple[str, int] | None:
    """Return address and port of the server of a mount; None if it is not a known network filesystem."""
    port = _PORTS.get(mount.filesystem)
    if port is None:
        return None
    options = split_options(mount.options)
    source = _read_pair(_SMB_SHARE if port == _SMB_PORT else _COLON, mount.source)
    # The address used by the kernel needs no name resolution.
    address = options.get("addr") or source.get("server")
    given = options.get("port", "")
    if given.isdigit() and 0 < int(given) < 65536:
        port = int(given)
    return (address, port) if address else None


def measure_round_trip(server: tuple[str, int]) -> float | None:
    """Return the median of five connections in seconds; None if one is refused or takes more than 1 s."""
    taken_s = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        try:
            socket.create_connection(server, timeout=_TIMEOUT_S).close()
        except OSError:
            return None
        taken_s.append(time.perf_counter() - started)
    return statistics.median(taken_s)


def describe_round_trip(directory: str) -> dict[str, float | None]:
    """Return the round trip to the server of a directory's filesystem as a fact; {} without a server."""
    mount = find_mount(directory)
    server = find_server(mount) if mount else None
    return {"storage_round_trip_s": measure_round_trip(server)} if server else {}
