"""CPU, memory and I/O limits of control groups, version 1 and 2.

A limit applies to all groups below it: the smallest of each kind counts, up to the visible root.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Sequence

from agent.storage.mounts import Mount, read_mounts, split_options
from agent.storage.sysfs import keep_known, list_directory, read_line, read_number, read_text

# What version 1 shows without a limit: the largest whole number of pages.
_NO_MEMORY_LIMIT = 2**63 - 2**16
# systemd.service(5), docker, podman, LXC, Kubernetes with any runtime: names in the path of the group.
_GROUP_NAMES = (
    (re.compile(r"/kubepods"), "kubernetes"),
    (re.compile(r"/docker[/-]"), "docker"),
    (re.compile(r"/libpod-"), "podman"),
    (re.compile(r"/lxc(\.payload)?[./]"), "lxc"),
    (re.compile(r"/cri-containerd-"), "containerd"),
)
# Inode numbers of the initial namespaces (proc_ns.h): a process in all of them is not in a container.
_FIRST_NAMESPACES = {"pid": "pid:[4026531836]", "ipc": "ipc:[4026531839]", "uts": "uts:[4026531838]"}
_THROTTLES = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}


@dataclass(frozen=True)
class _Group:
    """The directories with limits of some controllers, from the process's own group up to the root."""

    version: int
    controllers: frozenset[str]
    directories: tuple[str, ...]

    def has(self, controller: str) -> bool:
        return self.version == 2 or controller in self.controllers


def describe_limits(*, root: str = "/") -> dict[str, Any]:
    """Return facts under "limits": number of CPUs, bytes of memory, and I/O by device; {} without any."""
    groups = list(_find_groups(root))
    cpus = [limit for group in groups for limit in _read_cpu_limits(group)]
    memory = [limit for group in groups for limit in _read_memory_limits(group)]
    known = keep_known(
        cpus=round(min(cpus), 3) if cpus else None,
        memory_bytes=min(memory, default=None),
        io=_read_io_limits(groups, root) or None,
    )
    return {"limits": known} if known else {}


def read_throttled_s(*, root: str = "/") -> float | None:
    """Return how long this process's groups have waited for CPU because of a quota; None without such a counter."""
    waits = []
    for group in _find_groups(root):
        for directory in group.directories if group.has("cpu") else ():
            counters = dict(
                line.partition(" ")[::2] for line in read_text(directory, "cpu.stat").splitlines()
            )
            # Version 2 counts microseconds, version 1 nanoseconds.
            for name, factor in (("throttled_usec", 1e-6), ("throttled_time", 1e-9)):
                if counters.get(name, "").isdigit():
                    waits.append(int(counters[name]) * factor)
    return max(waits, default=None)


def find_container(*, root: str = "/") -> str | None:
    """Return the container runtime; None if no container is detected."""
    runtime = read_line(root, "run/systemd/container")
    if runtime:
        return runtime
    # Kubernetes provides network and secrets of a pod, whatever its container runtime.
    if list_directory(root, "run/secrets/kubernetes.io") or list_directory(
        root, "var/run/secrets/kubernetes.io"
    ):
        return "kubernetes"
    for name, container in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        # Machines installed from container images have these files, too.
        if os.path.exists(os.path.join(root, name)) and not _is_outermost(root):
            return container
    groups = read_text(root, "proc/self/cgroup")
    return next((name for pattern, name in _GROUP_NAMES if pattern.search(groups)), None)


def _is_outermost(root: str) -> bool:
    try:
        spaces = {name: os.readlink(os.path.join(root, "proc/self/ns", name)) for name in _FIRST_NAMESPACES}
    except OSError:
        return False
    return spaces == _FIRST_NAMESPACES


def _find_groups(root: str) -> Iterator[_Group]:
    mounts = [mount for mount in read_mounts(root) if mount.filesystem in ("cgroup", "cgroup2")]
    for line in read_text(root, "proc/self/cgroup").splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        wanted = frozenset(name for name in names.split(",") if name)
        for mount in mounts:
            is_second = mount.filesystem == "cgroup2"
            if is_second != (not wanted) or not wanted <= set(split_options(mount.options)):
                continue
            directories = tuple(_climb(mount, path, root))
            yield _Group(2 if is_second else 1, wanted, directories)
            break


def _climb(mount: Mount, path: str, root: str) -> Iterable[str]:
    """Yield the mounted directories of a group and its parents."""
    top = os.path.join(root, mount.mount_point.lstrip("/"))
    # With version 1, a container sees its own group mounted, but the host's path in /proc.
    below = path
    if mount.root != "/":
        is_within = path == mount.root or path.startswith(mount.root + "/")
        below = path[len(mount.root) :] if is_within else ""
    parts = [part for part in below.split("/") if part and part != ".."]
    for count in range(len(parts), -1, -1):
        yield os.path.join(top, *parts[:count])


def _read_cpu_limits(group: _Group) -> Iterator[float]:
    for directory in group.directories if group.has("cpu") else ():
        if group.version == 2:
            quota, period = [*read_text(directory, "cpu.max").split(), "", ""][:2]
        else:
            quota, period = (read_text(directory, f"cpu.cfs_{part}_us") for part in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)


def _read_memory_limits(group: _Group) -> Iterator[int]:
    names = ("memory.max", "memory.high") if group.version == 2 else ("memory.limit_in_bytes",)
    for directory in group.directories if group.has("memory") else ():
        for name in names:
            limit = read_number(directory, name)
            if limit is not None and limit < _NO_MEMORY_LIMIT:
                yield limit


def _read_io_limits(groups: Sequence[_Group], root: str) -> dict[str, str]:
    """Return limits by device, as io.max writes them: {"nvme0n1": "rbps=1048576 wiops=100"}."""
    limits: dict[str, dict[str, int]] = {}
    for group in groups:
        for directory in group.directories:
            for number, name, value in _read_throttles(group, directory):
                device = limits.setdefault(number, {})
                device[name] = min(value, device.get(name, value))
    return {
        _find_name(number, root): " ".join(f"{name}={value}" for name, value in sorted(device.items()))
        for number, device in sorted(limits.items())
    }


def _read_throttles(group: _Group, directory: str) -> Iterator[tuple[str, str, int]]:
    if group.version == 2:
        for line in read_text(directory, "io.max").splitlines():
            number, _, rest = line.partition(" ")
            for name, value in (pair.partition("=")[::2] for pair in rest.split()):
                if value.isdigit():
                    yield number, name, int(value)
    elif group.has("blkio"):
        for name, file in _THROTTLES.items():
            for line in read_text(directory, file).splitlines():
                number, _, value = line.partition(" ")
                if value.isdigit():
                    yield number, name, int(value)


def _find_name(number: str, root: str) -> str:
    device = os.path.join(root, "sys/dev/block", number)
    return os.path.basename(os.path.realpath(device)) if os.path.exists(device) else number
