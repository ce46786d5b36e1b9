"""The block devices under a mount, from the mounted one down to the disks, from /sys."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Iterable, Sequence

from agent.storage.mounts import Mount
from agent.storage.sysfs import list_directory, read_line

# Prefixes of device mapper ids: lvm2, cryptsetup, multipath-tools, kpartx.
_MAPPINGS = (
    (re.compile(r"LVM-"), "lvm"),
    (re.compile(r"CRYPT-"), "crypt"),
    (re.compile(r"mpath-"), "multipath"),
    (re.compile(r"part\d+-"), "partition"),
)
_LVM_PART = re.compile(r"LVM-[^-]+-(\w+)")
# Parts of a logical volume that are a cache on faster storage.
_CACHE_PARTS = ("cdata", "cpool", "cvol")


@dataclass(frozen=True)
class Layer:
    """One block device.

    path: its directory in sysfs; kind: disk, partition, md, lvm, crypt, multipath, bcache, loop, or dm for any other
    mapping; below: directories of its components, () for a disk; mapping: the device mapper's id.
    """

    path: str
    kind: str
    below: tuple[str, ...]
    mapping: str

    @property
    def name(self) -> str:
        """Return the kernel's name: nvme0n1p1."""
        return os.path.basename(self.path)

    @property
    def lvm_part(self) -> str | None:
        """Return the purpose of an inner logical volume, the suffix of its id: "tdata", "real"; else None."""
        match = _LVM_PART.match(self.mapping)
        return match.group(1) if match else None

    @property
    def is_tiered(self) -> bool:
        """Return whether it consists of storage and a cache, which are not equal volumes."""
        return self.kind == "bcache" or self.lvm_part in _CACHE_PARTS


def find_devices(mount: Mount, *, root: str = "/") -> tuple[str, ...]:
    """Return the sysfs directories of the mounted or raw block devices; several only for btrfs."""
    if not mount.device_number.startswith("0:"):
        device = os.path.realpath(os.path.join(root, "sys/dev/block", mount.device_number))
        return (device,) if os.path.isdir(device) else ()
    volume = find_btrfs(mount, root=root)
    if volume is None:
        return ()
    members = list_directory(volume, "devices")
    return tuple(os.path.realpath(os.path.join(volume, "devices", member)) for member in members)


def find_btrfs(mount: Mount, *, root: str = "/") -> str | None:
    """Return the directory in sysfs of a mounted btrfs; None for other filesystems."""
    if mount.filesystem != "btrfs":
        return None
    name = find_name(mount.source, root=root)
    known = os.path.join(root, "sys/fs/btrfs")
    for uuid in list_directory(known):
        if name in list_directory(known, uuid, "devices"):
            return os.path.join(known, uuid)
    return None


def find_name(node: str, *, root: str = "/") -> str:
    """Return the kernel's name of a device by its node or a link to it: /dev/mapper/x is dm-0."""
    return os.path.basename(os.path.realpath(os.path.join(root, node.lstrip("/"))))


def find_node(node: str, *, root: str = "/") -> str | None:
    """Return the sysfs directory of a device by its node; None if it is not in /sys."""
    device = os.path.realpath(os.path.join(root, "sys/class/block", find_name(node, root=root)))
    return device if os.path.isdir(device) else None


def trace_layers(devices: Iterable[str]) -> tuple[Layer, ...]:
    """Return devices and all devices below them without duplicates, upper before lower."""
    found: dict[str, Layer] = {}
    waiting = list(devices)
    for path in waiting:
        if path not in found:
            layer = _read_layer(path)
            found[path] = layer
            waiting.extend(layer.below)
    return tuple(found.values())


def choose_disks(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the lowest layers: the volumes."""
    return tuple(layer for layer in layers if not layer.below)


def describe_layer(layer: Layer) -> str:
    """Return a layer as text: "dm-0 lvm vg-data"; without the name of a multipath, which is its disk's id."""
    name = read_line(layer.path, "dm/name")
    if not name or "mpath-" in layer.mapping:
        return f"{layer.name} {layer.kind}"
    return f"{layer.name} {layer.kind} {name}"


def _read_layer(path: str) -> Layer:
    mapping = read_line(path, "dm/uuid") or ""
    name = os.path.basename(path)
    if os.path.exists(os.path.join(path, "partition")):
        return Layer(path, "partition", (os.path.dirname(path),), mapping)
    slaves = list_directory(path, "slaves")
    below = tuple(os.path.realpath(os.path.join(path, "slaves", slave)) for slave in slaves)
    for pattern, kind in _MAPPINGS:
        if pattern.match(mapping):
            # Several paths to a disk are one volume.
            return Layer(path, kind, () if kind == "multipath" else below, mapping)
    if os.path.isdir(os.path.join(path, "md")):
        return Layer(path, "md", below, mapping)
    if name.startswith("bcache"):
        return Layer(path, "bcache", below, mapping)
    if name.startswith("loop"):
        return Layer(path, "loop", below, mapping)
    return Layer(path, "dm" if below else "disk", below, mapping)
