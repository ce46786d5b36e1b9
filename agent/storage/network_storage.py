"""Network filesystems: server, export and protocol, without user names."""

from __future__ import annotations

import os
import re
from typing import Any

from agent.storage.mounts import Mount, split_options
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
