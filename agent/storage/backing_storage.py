"""Backing storage of loop devices, overlays and bcache."""

from __future__ import annotations

import os
import re
from typing import Any, Mapping, Sequence

from agent.storage.devices import Layer, choose_disks, find_devices, trace_layers
from agent.storage.mounts import Mount, choose_mount
from agent.storage.sysfs import read_choice, read_line

MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")
_RAM_DISK = re.compile(r"(ram|zram)\d+")
_DELETED = " (deleted)"


def describe_loops(layers: Sequence[Layer], mounts: Sequence[Mount], *, root: str = "/") -> dict[str, Any]:
    """Return facts of the loop devices among layers under "loop": the file of each, and the storage under it."""
    facts = {}
    for layer in layers:
        backing = read_line(layer.path, "loop/backing_file") if layer.kind == "loop" else None
        if backing is None:
            continue
        facts[layer.name] = {
            "backing_file": backing,
            **_keep_known(
                direct_io=read_line(layer.path, "loop/dio"),
                offset_bytes=read_line(layer.path, "loop/offset"),
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
        facts[layer.name] = _keep_known(
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
        **_keep_known(disks=[disk.name for disk in disks] or None),
    }


def _keep_known(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
