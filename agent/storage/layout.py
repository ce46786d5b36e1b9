"""The storage under a path: mount, block devices, RAID; None for values not in /proc and /sys.

All paths are relative to `root`, so that recorded trees can be read. Two programs are used if installed:
`dmsetup table` as root for a logical volume on several devices, and `zpool status` for ZFS.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from agent.programs import QueryTool, query_tool, run_no_tool
from agent.storage.arrays import (
    Array,
    count_volumes,
    describe_arrays,
    describe_target,
    find_volumes,
    read_btrfs,
    read_md,
    read_pool,
    read_volume,
)
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
from agent.storage.sysfs import keep_known, read_choice, read_line

MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")
_RAM_DISK = re.compile(r"(ram|zram)\d+")
_DELETED = " (deleted)"
_IDENTIFIER_MAXIMUM = 200


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
