"""Mounts, from /proc/self/mountinfo."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Sequence

from agent.storage.sysfs import read_text

_OCTAL = re.compile(r"\\([0-7]{3})")
# These identify an instance (container layers, client address, user, random port), not a storage layout.
_INSTANCE_OPTIONS = {
    *("lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir", "clientaddr", "mountport", "fd"),
    *("domain", "username", "password", "password2", "credentials", "secret", "key"),
}
# CephFS: user (name=admin), cluster, and its current monitors.
_CEPH_INSTANCE_OPTIONS = {"name", "fsid", "mon_addr"}
_MOUNT_OPTIONS_MAXIMUM = 1000


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo. device_number: "259:1"; its major is 0 without a block device.

    root: the mounted directory of the filesystem (bind mounts, control groups of containers).
    upper_directory: upperdir of an overlay.
    """

    mount_point: str
    filesystem: str
    source: str
    options: str
    device_number: str
    root: str = "/"
    upper_directory: str | None = None


def find_mount(path: str, *, root: str = "/") -> Mount | None:
    """Return the mount with the longest mount point above path; of equal ones the last, which is on top."""
    return choose_mount(read_mounts(root), path)


def choose_mount(mounts: Sequence[Mount], path: str) -> Mount | None:
    """Return the mount that contains a path."""
    found = None
    for mount in mounts:
        is_above = path == mount.mount_point or path.startswith(mount.mount_point.rstrip("/") + "/")
        if is_above and (found is None or len(mount.mount_point) >= len(found.mount_point)):
            found = mount
    return found


def find_raw(path: str) -> Mount | None:
    """Return a block device as a mount without mount point and filesystem; None for a file or directory."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISBLK(state.st_mode):
        return None
    return Mount("", "", path, "", f"{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}")


def read_mounts(root: str = "/") -> list[Mount]:
    """Return the mounts visible to this process, in mount order."""
    mounts = []
    for line in read_text(root, "proc/self/mountinfo").splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6 or len(tail) < 3:
            continue
        mounts.append(
            Mount(
                mount_point=_unescape(fields[4]),
                filesystem=tail[0],
                source=_unescape(tail[1]),
                options=_merge_options(fields[5], tail[2], filesystem=tail[0]),
                device_number=fields[2],
                root=_unescape(fields[3]),
                upper_directory=_find_upper_directory(tail[2]) if tail[0] == "overlay" else None,
            )
        )
    return mounts


def split_options(options: str) -> dict[str, str]:
    """Return mount options by name; "" for one without a value."""
    return dict(option.partition("=")[::2] for option in options.split(","))


def _merge_options(mount_options: str, filesystem_options: str, *, filesystem: str) -> str:
    """Return the options like findmnt: those of the mount, then those of the filesystem."""
    options = mount_options.split(",")
    for option in filesystem_options.split(","):
        if option not in options and option not in ("rw", "ro"):
            options.append(option)
    hidden = _INSTANCE_OPTIONS | (_CEPH_INSTANCE_OPTIONS if filesystem == "ceph" else set())
    shown = [option for option in options if option.partition("=")[0] not in hidden]
    while len(",".join(shown)) > _MOUNT_OPTIONS_MAXIMUM:
        shown.pop()
    return ",".join(shown)


def _find_upper_directory(filesystem_options: str) -> str | None:
    path = split_options(filesystem_options).get("upperdir")
    return _unescape(path) if path else None


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)
