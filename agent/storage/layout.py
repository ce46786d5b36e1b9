"""The storage under a path: mount, block devices, RAID; None for values not in /proc and /sys.

All paths are relative to `root`, so that recorded trees can be read. Two programs are used if installed:
`dmsetup table` as root for a logical volume on several devices, and `zpool status` for ZFS.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from agent.programs import QueryTool, query_tool, run_no_tool
from agent.storage.devices import (
    Layer,
    choose_disks,
    describe_layer,
    find_btrfs,
    find_devices,
    find_node,
    trace_layers,
)
from agent.storage.disk_facts import Disk, agree, describe_disks, hash_identifier, identify, read_disk
from agent.storage.mounts import Mount, choose_mount, find_raw, read_mounts
from agent.storage.network_storage import describe_network, hide_ids, hide_login
from agent.storage.sysfs import keep_known, list_directory, read_choice, read_line, read_number

_MD_FACTS = (
    *("degraded", "sync_action", "metadata_version", "raid_disks", "layout", "consistency_policy"),
    *("stripe_cache_size", "group_thread_cnt"),
)
_STRIPED_LEVELS = ("raid0", "raid4", "raid5", "raid6", "raid10")
# Which of these is reported depends on writes within the last 200 ms.
_WORKING_STATES = ("clean", "active", "active-idle", "write-pending")
_SECTOR_BYTES = 512
# The smallest stripe that lvcreate makes.
_STRIPE_MINIMUM_BYTES = 4096
# raid5_ls, raid6_zr, raid10_far, raid0_meta: layouts of one level.
_RAID_LEVEL = re.compile(r"(raid\d+)(_\w+)?")
# BTRFS_STRIPE_LEN of the kernel, which is fixed.
_BTRFS_CHUNK_BYTES = 64 * 1024
_BTRFS_STRIPED_PROFILES = ("raid0", "raid5", "raid6", "raid10")
# Operations that move all data, with their states in validity.md.
_BTRFS_TROUBLES = {"balance": "reshaping", "device remove": "reshaping", "device replace": "rebuilding"}
# Groups of a pool that contain no data of a dataset, or only some.
_ZFS_ASIDE = ("logs", "cache", "spares", "special", "dedup")
_ZFS_ROW = re.compile(r"\t( *)(\S+)(?: +([A-Z]+)\b.*)?")
_ZFS_GROUP = re.compile(r"(mirror|raidz\d?|draid\d?)\b.*-\d+")
# States as in validity.md.
_ZFS_TROUBLES = {"DEGRADED": "degraded", "FAULTED": "failed", "SUSPENDED": "failed", "UNAVAIL": "failed"}
MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")
_RAM_DISK = re.compile(r"(ram|zram)\d+")
_DELETED = " (deleted)"
_IDENTIFIER_MAXIMUM = 200


@dataclass(frozen=True)
class Array:
    """A layer that distributes data over several devices.

    kind: md, lvm, btrfs or zfs; level: in the terms of that software, "raid0" for striping; None if unknown.
    members: number of devices including missing ones; found: number of present ones.
    trouble: a state of validity.md, such as degraded.
    """

    kind: str
    name: str
    level: str | None = None
    stripe_count: int | None = None
    chunk_size_bytes: int | None = None
    members: int | None = None
    found: int | None = None
    trouble: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_md(layer: Layer) -> Array:
    """Return an md array from its directory in sysfs."""
    level = read_line(layer.path, "md/level")
    members = read_number(layer.path, "md/raid_disks")
    is_striped = level in _STRIPED_LEVELS
    return Array(
        kind="md",
        name=layer.name,
        level=level,
        # Only in RAID0 every member is a stripe; in other levels it depends on the layout.
        stripe_count=members if level == "raid0" else None,
        chunk_size_bytes=(read_number(layer.path, "md/chunk_size") or None) if is_striped else None,
        members=members or None,
        found=len(layer.below),
        facts=_collect_md_facts(layer),
    )


def describe_target(arrays: Sequence[Array]) -> dict[str, Any]:
    """Return the target fields of a single array; {} for arrays on arrays, which have no single level."""
    array = arrays[0] if len(arrays) == 1 else Array("", "")
    return {
        "raid_level": array.level,
        "stripe_count": array.stripe_count,
        "chunk_size_bytes": array.chunk_size_bytes,
    }


def count_volumes(arrays: Sequence[Array], found: int) -> int | None:
    """Return the number of volumes of the storage; found: number of disks.

    A missing member of an array counts, a spare does not.
    """
    array = arrays[0] if len(arrays) == 1 else None
    if array and array.members and found and array.found == found:
        return array.members
    return found or None


def describe_arrays(arrays: Sequence[Array]) -> dict[str, Any]:
    """Return facts of arrays; several of one kind are listed by name."""
    facts: dict[str, Any] = {}
    for kind in dict.fromkeys(array.kind for array in arrays):
        alike = [array for array in arrays if array.kind == kind]
        if len(alike) == 1:
            facts[kind] = dict(alike[0].facts)
        else:
            facts[kind] = {**_sum_up(alike), **{array.name: _describe_array(array) for array in alike}}
    trouble = next((array.trouble for array in arrays if array.trouble), None)
    if trouble:
        facts["raid_state"] = trouble
    return facts


def _describe_array(array: Array) -> dict[str, Any]:
    known = keep_known(
        level=array.level,
        stripe_count=array.stripe_count,
        chunk_size_bytes=array.chunk_size_bytes,
        members=array.members,
    )
    return {**known, **array.facts}


def _sum_up(arrays: Sequence[Array]) -> dict[str, Any]:
    """Return the common state of md arrays: the sum of missing members, and the first action that is not idle."""
    missing = [int(array.facts["degraded"]) for array in arrays if _is_number(array.facts.get("degraded"))]
    actions = [array.facts["sync_action"] for array in arrays if "sync_action" in array.facts]
    facts: dict[str, Any] = {"degraded": str(sum(missing))} if missing else {}
    if actions:
        facts["sync_action"] = next((action for action in actions if action != "idle"), "idle")
    return facts


def _collect_md_facts(layer: Layer) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    state = read_line(layer.path, "md/array_state")
    action = read_line(layer.path, "md/sync_action")
    if state is not None:
        is_restless = action is not None and state in _WORKING_STATES
        facts["array_state"] = "active" if is_restless else state
    facts.update(
        (name, value) for name in _MD_FACTS if (value := read_line(layer.path, "md", name)) is not None
    )
    others = [f"{name[4:]} {state}" for name, state in _read_members(layer) if "in_sync" not in state]
    if others:
        facts["not_in_sync"] = others
    return facts


def _read_members(layer: Layer) -> list[tuple[str, str]]:
    names = [name for name in list_directory(layer.path, "md") if name.startswith("dev-")]
    states = [(name, read_line(layer.path, "md", name, "state")) for name in names]
    return [(name, state) for name, state in states if state is not None]


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit()


@dataclass(frozen=True)
class _Segment:
    """A segment of a logical volume. level: "linear", or as md calls it; members: 1 for linear."""

    level: str
    members: int
    chunk_size_bytes: int | None


def find_volumes(layers: Sequence[Layer]) -> list[Layer]:
    """Return the logical volumes on several devices, without pools, caches and snapshots."""
    by_path = {layer.path: layer for layer in layers}
    found = []
    for layer in layers:
        below = [by_path[path] for path in layer.below]
        if layer.kind == "lvm" and len(below) > 1 and not any(each.lvm_part for each in (layer, *below)):
            found.append(layer)
    return found


def read_volume(layer: Layer, layers: Sequence[Layer], *, query: QueryTool) -> Array:
    """Return the array of a logical volume on several devices; level: None if unknown."""
    below = [each for each in layers if each.path in layer.below]
    segments = parse_table(_read_table(layer, query))
    segment = _confirm(segments) if segments else _read_limits(layer, below)
    source = "table" if segments else "limits" if segment else None
    is_whole = segment is not None and segment.level != "linear"
    return Array(
        kind="lvm",
        name=layer.name,
        level=segment.level if segment else None,
        stripe_count=segment.members if segment and segment.level == "raid0" else None,
        chunk_size_bytes=segment.chunk_size_bytes if segment else None,
        members=segment.members if segment and is_whole else None,
        found=_count_data_parts(layer, below, segment),
        facts=keep_known(
            volume=read_line(layer.path, "dm/name"),
            minimum_io_size=read_line(layer.path, "queue/minimum_io_size"),
            optimal_io_size=read_line(layer.path, "queue/optimal_io_size"),
            layout_source=source,
        ),
    )


def parse_table(text: str) -> list[_Segment]:
    """Return the segments in the output of `dmsetup table`; [] if a target is not linear, striped or RAID."""
    segments = []
    for line in text.splitlines():
        segment = _parse_segment(line.split())
        if segment is None:
            return []
        segments.append(segment)
    return segments


def _parse_segment(words: Sequence[str]) -> _Segment | None:
    """Read "START LENGTH KIND PARAMETERS…", in sectors: the kernel's device-mapper/{linear,striped,dm-raid}.rst."""
    kind, parameters = words[2:3], words[3:]
    try:
        if kind == ["linear"]:
            return _Segment("linear", 1, None)
        if kind == ["striped"]:
            return _Segment("raid0", int(parameters[0]), int(parameters[1]) * _SECTOR_BYTES)
        if kind == ["raid"]:
            level = _RAID_LEVEL.fullmatch(parameters[0])
            members = int(parameters[2 + int(parameters[1])])
            chunk_bytes = int(parameters[2]) * _SECTOR_BYTES
            return _Segment(level.group(1), members, chunk_bytes or None) if level else None
    except (IndexError, ValueError):
        return None
    return None


def _read_table(layer: Layer, query: QueryTool) -> str:
    # Requires root, and is only needed for volumes on several devices.
    if getattr(os, "geteuid", lambda: -1)() != 0:
        return ""
    name = read_line(layer.path, "dm/name")
    return query("dmsetup", "table", name) if name else ""


def _confirm(segments: Sequence[_Segment]) -> _Segment | None:
    """Return the common layout of all segments; None if they differ."""
    return segments[0] if all(segment == segments[0] for segment in segments) else None


def _read_limits(layer: Layer, below: Sequence[Layer]) -> _Segment | None:
    """Return the stripes according to the queue limits; None if these are inconclusive.

    The kernel's striped target sets the limits minimum_io_size (chunk size) and optimal_io_size (chunk size × stripes,
    dm-stripe.c, stripe_io_hints). A linear target passes on those of the devices below. Limits that match the number of
    devices, and that none of these devices has itself, therefore prove a striped target.
    """
    if any(each.kind == "lvm" for each in below):
        return None  # RAID of LVM, whose parts include its metadata
    chunk, width = _read_sizes(layer)
    if not chunk or chunk < _STRIPE_MINIMUM_BYTES or chunk & (chunk - 1) or width != chunk * len(below):
        return None
    if any(_read_sizes(each)[0] in (None, chunk) or _read_sizes(each)[1] == width for each in below):
        return None
    return _Segment("raid0", len(below), chunk)


def _read_sizes(layer: Layer) -> tuple[int | None, int | None]:
    """Return minimum and optimal I/O size of a queue; a partition has its disk's queue."""
    path = layer.below[0] if layer.kind == "partition" else layer.path
    return read_number(path, "queue/minimum_io_size"), read_number(path, "queue/optimal_io_size")


def _count_data_parts(layer: Layer, below: Sequence[Layer], segment: _Segment | None) -> int:
    """Return the number of data devices: RAID of LVM has one more for metadata per device."""
    is_raid = segment is not None and any(each.kind == "lvm" for each in below)
    return segment.members if segment and is_raid else len(layer.below)


def read_btrfs(volume: str) -> Array:
    """Return the array of a mounted btrfs; volume: its directory in sysfs."""
    found = len(list_directory(volume, "devices"))
    missing = _count_missing(volume)
    members = found + (missing or 0)
    profile = _find_profile(volume, "data") or _find_profile(volume, "mixed")
    operation = read_line(volume, "exclusive_operation")
    is_raid = profile is not None and not (profile == "single" and members == 1)
    return Array(
        kind="btrfs",
        name=os.path.basename(volume),
        level=profile if is_raid else None,
        stripe_count=members if profile == "raid0" else None,
        chunk_size_bytes=_BTRFS_CHUNK_BYTES if profile in _BTRFS_STRIPED_PROFILES else None,
        members=members or None,
        found=found,
        trouble="degraded" if missing else _BTRFS_TROUBLES.get(operation or ""),
        facts=keep_known(
            data_profile=profile,
            metadata_profile=_find_profile(volume, "metadata"),
            missing_devices=missing,
            exclusive_operation=operation,
            node_size_bytes=read_number(volume, "nodesize"),
            checksum=read_line(volume, "checksum"),
            read_policy=read_line(volume, "read_policy"),
        ),
    )


def _find_profile(volume: str, use: str) -> str | None:
    """Return the profile of all block groups of one use; None without any, or during a conversion."""
    directory = os.path.join(volume, "allocation", use)
    sizes = {name: read_number(directory, name, "total_bytes") for name in list_directory(directory)}
    profiles = [name for name, size in sizes.items() if size]
    return profiles[0] if len(profiles) == 1 else None


def _count_missing(volume: str) -> int | None:
    """Return how many devices are missing; None before Linux 5.6, which does not report it."""
    states = [
        read_number(volume, "devinfo", device, "missing") for device in list_directory(volume, "devinfo")
    ]
    known = [state for state in states if state is not None]
    return sum(known) if known else None


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
    rows = [match.groups() for match in map(_ZFS_ROW.fullmatch, map(str.rstrip, text.splitlines())) if match]
    for indent, name, state in rows:
        if name == "NAME" and state == "STATE":
            continue
        if not indent:
            is_data = name not in _ZFS_ASIDE
        elif is_data:
            group = _ZFS_GROUP.fullmatch(name)
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
    trouble = "rebuilding" if pool and pool.is_resilvering else _ZFS_TROUBLES.get(state or "")
    array = Array(
        kind="zfs",
        name=name,
        level=pool.level if pool else None,
        found=len(pool.devices) if pool else None,
        trouble=trouble,
        facts=keep_known(
            pool=name,
            dataset=mount.source,
            state=state,
            version=read_line(root, "sys/module/zfs/version"),
            arc_max_bytes=read_line(root, "sys/module/zfs/parameters/zfs_arc_max"),
            groups=list(pool.groups) if pool else None,
        ),
    )
    return array, pool.devices if pool else ()


@dataclass(frozen=True)
class Storage:
    """The storage under a path.

    target, environment: fields of the envelope; facts: further properties that do not vary between runs. identifier: of
    the device, or server and export.
    """

    target: Mapping[str, Any]
    environment: Mapping[str, Any]
    facts: Mapping[str, Any]
    identifier: str | None = None

    def describe_opened(self, path: str, layout: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry of a path in `targets` of the envelope. layout: fields of the target."""
        devices = self.facts.get("devices", ())
        device = {
            "kernel_name": devices[0] if len(devices) == 1 else None,
            "identifier": self.identifier,
            "model": self.environment.get("device_model"),
            "class": self.environment.get("device_class"),
        }
        return {
            "path": path,
            "mount_point": self.facts.get("mount_point"),
            "device": device if any(device.values()) else None,
            "layout": {
                name: value for name, value in layout.items() if name not in ("name", "instance_type")
            },
            "memory_filesystem": self.facts.get("memory_filesystem"),
        }


@dataclass(frozen=True)
class _Stack:
    """A mount, its devices with all layers below, and the arrays among them."""

    mount: Mount
    devices: Sequence[str]
    layers: Sequence[Layer]
    disks: Sequence[Disk]
    arrays: Sequence[Array]

    @property
    def is_tiered(self) -> bool:
        return any(layer.is_tiered for layer in self.layers)


def describe_storage(
    path: str, *, root: str = "/", query: QueryTool | None = None, sends_serials: bool = False
) -> Storage:
    """Return the layout under an absolute path without links, or of the block device there.

    query: runs a tool; not used for recorded trees by default. sends_serials: return ids of disks without hashing.
    """
    mounts = read_mounts(root)
    mount = find_raw(path) or choose_mount(mounts, path)
    if mount is None:
        return Storage({}, {}, {})
    stack = _build_stack(mount, root=root, query=query or (query_tool if root == "/" else run_no_tool))
    volumes = () if stack.is_tiered else stack.disks
    target = {
        "filesystem": mount.filesystem or None,
        "mount_options": mount.options or None,
        "volume_count": count_volumes(stack.arrays, len(volumes)),
        "volume_size_bytes": agree(disk.size_bytes for disk in volumes),
        **describe_target(stack.arrays),
    }
    environment: dict[str, Any] = {
        "scheduler": agree(disk.scheduler for disk in stack.disks),
        "device_model": agree(disk.model for disk in stack.disks),
        "device_firmware": agree(disk.firmware for disk in stack.disks),
        "device_driver": agree(disk.driver for disk in stack.disks),
        "device_class": agree(disk.device_class for disk in stack.disks),
    }
    facts: dict[str, Any] = {
        **_describe_stack(stack, sends_serials=sends_serials),
        **describe_network(mount, root=root),
        **describe_loops(stack.layers, mounts, root=root),
        **describe_overlay(mount, mounts, root=root),
    }
    memory_filesystem = find_memory_filesystem(mount, stack.layers, facts)
    if memory_filesystem:
        facts["memory_filesystem"] = memory_filesystem
        environment["device_class"] = "memory"
    identifier = identify(stack.layers, sends_serials=sends_serials) if len(stack.devices) == 1 else None
    network = facts.get("network")
    if network:
        environment["device_class"] = "network"
        server = network.get("server") or network.get("filesystem", "")
        identifier = f"{server}:{network.get('export', '')}"[:_IDENTIFIER_MAXIMUM]
    return Storage(target, environment, facts, identifier)


def _build_stack(mount: Mount, *, root: str, query: QueryTool) -> _Stack:
    devices = find_devices(mount, root=root)
    arrays: list[Array] = []
    volume = find_btrfs(mount, root=root)
    if volume:
        arrays.append(read_btrfs(volume))
    if mount.filesystem == "zfs":
        pool, nodes = read_pool(mount, query=query, root=root)
        arrays.append(pool)
        found = [find_node(node, root=root) for node in nodes]
        # If one is unknown, the number of volumes would be wrong.
        devices = tuple(device for device in found if device) if all(found) else ()
    layers = trace_layers(devices)
    arrays.extend(read_md(layer) for layer in layers if layer.kind == "md")
    arrays.extend(read_volume(layer, layers, query=query) for layer in find_volumes(layers))
    disks = tuple(map(read_disk, choose_disks(layers)))
    return _Stack(mount, devices, layers, disks, arrays)


def _describe_stack(stack: _Stack, *, sends_serials: bool) -> dict[str, Any]:
    names = {layer.path: layer.name for layer in stack.layers}
    source = hide_login(stack.mount.source)
    if stack.devices and not sends_serials:
        source = hide_ids(source, names[stack.devices[0]], _hash_names(stack.layers))
    mounted = {"mount_point": stack.mount.mount_point, "mount_source": source}
    facts: dict[str, Any] = mounted if stack.mount.mount_point else {}
    if stack.mount.root != "/":
        facts["mount_root"] = stack.mount.root
    if stack.devices:
        facts["devices"] = [names[device] for device in stack.devices]
        facts["chain"] = [describe_layer(layer) for layer in stack.layers]
    if stack.disks:
        facts["disks"] = [disk.layer.name for disk in stack.disks]
        facts.update(describe_disks(stack.disks, sends_serials=sends_serials))
    facts.update(describe_arrays(stack.arrays))
    facts.update(describe_caches(stack.layers))
    return facts


def _hash_names(layers: Sequence[Layer]) -> dict[str, str]:
    """Return the ids of multipath disks, which may be part of device names, with their hashes."""
    ids = {layer.mapping.partition("mpath-")[2] for layer in layers}
    return {value: hash_identifier("wwn", value) for value in ids if value}


def describe_loops(layers: Sequence[Layer], mounts: Sequence[Mount], *, root: str = "/") -> dict[str, Any]:
    """Return facts of the loop devices among layers under "loop": the file of each, and the storage under it."""
    facts = {}
    for layer in layers:
        backing = read_line(layer.path, "loop/backing_file") if layer.kind == "loop" else None
        if backing is None:
            continue
        facts[layer.name] = {
            "backing_file": backing,
            **keep_known(
                direct_io=read_line(layer.path, "loop/dio"), offset_bytes=read_line(layer.path, "loop/offset")
            ),
            **_describe_place(backing, mounts, root),
        }
    return {"loop": facts} if facts else {}


def describe_overlay(mount: Mount, mounts: Sequence[Mount], *, root: str = "/") -> dict[str, Any]:
    """Return facts of an overlay under "overlay": its upper directory; {} in a container, where that is not visible."""
    upper = mount.upper_directory
    if upper is None:
        return {}
    place = _describe_place(upper, [other for other in mounts if other != mount], root)
    return {"overlay": {"upper_directory": upper, **place}} if place else {}


def find_memory_filesystem(mount: Mount, layers: Sequence[Layer], facts: Mapping[str, Any]) -> str | None:
    """Return what keeps the files in memory: a filesystem (also below an overlay or loop device), or a RAM disk.

    facts: of describe_loops and describe_overlay.
    """
    below = [facts.get("overlay", {}), *facts.get("loop", {}).values()]
    filesystems = [mount.filesystem, *(str(place.get("filesystem")) for place in below)]
    found = next((name for name in filesystems if name in MEMORY_FILESYSTEMS), None)
    return found or next((layer.name for layer in layers if _RAM_DISK.fullmatch(layer.name)), None)


def describe_caches(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return facts of the bcache devices among layers under "bcache": backing device, cache devices and mode."""
    facts = {}
    for layer in layers:
        if layer.kind != "bcache":
            continue
        # The link points to the backing device's directory.
        backing = os.path.dirname(os.path.realpath(os.path.join(layer.path, "bcache")))
        state = read_line(layer.path, "bcache/state")
        others = [os.path.basename(path) for path in layer.below if path != backing]
        facts[layer.name] = keep_known(
            backing_device=os.path.basename(backing) if backing in layer.below else None,
            cache_devices=others if backing in layer.below and others else None,
            cache_mode=read_choice(layer.path, "bcache/cache_mode"),
            # Clean and dirty alternate every second; whether a cache exists does not.
            has_cache=None if state is None else int(state != "no cache"),
            sequential_cutoff=read_line(layer.path, "bcache/sequential_cutoff"),
        )
    return {"bcache": facts} if facts else {}


def _describe_place(path: str, mounts: Sequence[Mount], root: str) -> dict[str, Any]:
    """Return filesystem and disks of a file or directory; {} if it is not visible from here."""
    if path.endswith(_DELETED) or not os.path.exists(os.path.join(root, path.lstrip("/"))):
        return {}
    mount = choose_mount(mounts, path)
    return _describe_mount(mount, root) if mount else {}


def _describe_mount(mount: Mount, root: str) -> dict[str, Any]:
    disks = choose_disks(trace_layers(find_devices(mount, root=root)))
    return {
        "filesystem": mount.filesystem,
        "mount_options": mount.options,
        **keep_known(disks=[disk.name for disk in disks] or None),
    }
