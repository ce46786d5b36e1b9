"""The pool of a ZFS dataset: state from /proc/spl, devices from `zpool`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agent.storage.external_tools import QueryTool
from agent.storage.mounts import Mount
from agent.storage.raid import Array
from agent.storage.sysfs import read_line

# Groups of a pool that contain no data of a dataset, or only some.
_ASIDE = ("logs", "cache", "spares", "special", "dedup")
_ROW = re.compile(r"\t( *)(\S+)(?: +([A-Z]+)\b.*)?")
_GROUP = re.compile(r"(mirror|raidz\d?|draid\d?)\b.*-\d+")
# States as in validity.md.
_TROUBLES = {"DEGRADED": "degraded", "FAULTED": "failed", "SUSPENDED": "failed", "UNAVAIL": "failed"}


@dataclass(frozen=True)
class Pool:
    """Output of `zpool status`. groups: types of the data vdevs; devices: nodes with data."""

    groups: tuple[str, ...]
    devices: tuple[str, ...]
    is_resilvering: bool

    @property
    def level(self) -> str | None:
        """Return the type of its groups, "stripe" for several single disks; None for one disk or different types."""
        kinds = set(self.groups)
        if len(kinds) != 1:
            return None
        kind = self.groups[0]
        if kind != "disk":
            return "raidz1" if kind == "raidz" else kind
        return "stripe" if len(self.groups) > 1 else None


def parse_status(text: str) -> Pool | None:
    """Return the data devices of the pool in the output of `zpool status -P -L POOL`; None without a pool."""
    groups: list[str] = []
    devices: list[str] = []
    is_data = True
    rows = [match.groups() for match in map(_ROW.fullmatch, map(str.rstrip, text.splitlines())) if match]
    for indent, name, state in rows:
        if name == "NAME" and state == "STATE":
            continue
        if not indent:
            is_data = name not in _ASIDE
        elif is_data:
            group = _GROUP.fullmatch(name)
            if len(indent) == 2:
                groups.append(group.group(1) if group else "disk")
            if name.startswith("/"):
                devices.append(name)
    if not groups:
        return None
    return Pool(
        tuple(groups), tuple(devices), re.search(r"^ *scan: resilver in progress", text, re.M) is not None
    )


def read_pool(mount: Mount, *, query: QueryTool, root: str = "/") -> tuple[Array, tuple[str, ...]]:
    """Return facts of a mounted dataset's pool, and its device nodes, () if unknown."""
    name = mount.source.partition("/")[0]
    state = read_line(root, "proc/spl/kstat/zfs", name, "state")
    pool = parse_status(query("zpool", "status", "-P", "-L", name)) if name else None
    facts: dict[str, Any] = {
        "pool": name,
        "dataset": mount.source,
        "state": state,
        "version": read_line(root, "sys/module/zfs/version"),
        "arc_max_bytes": read_line(root, "sys/module/zfs/parameters/zfs_arc_max"),
        "groups": list(pool.groups) if pool else None,
    }
    trouble = "rebuilding" if pool and pool.is_resilvering else _TROUBLES.get(state or "")
    array = Array(
        kind="zfs",
        name=name,
        level=pool.level if pool else None,
        found=len(pool.devices) if pool else None,
        trouble=trouble,
        facts={name: value for name, value in facts.items() if value is not None},
    )
    return array, pool.devices if pool else ()
