"""What is under a path: mount, block devices, RAID; from /proc and /sys only, and None where they do not say.

Every path is read below `root`, so that a recorded tree can be read as well.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Sequence

_OCTAL = re.compile(r"\\([0-7]{3})")
# These name an instance (a container's layers, this client's address, a user), not a way of storing.
_INSTANCE_OPTIONS = {
    "lowerdir",
    "upperdir",
    "workdir",
    "clientaddr",
    "fd",
    "username",
    "password",
    "secret",
    "key",
}
_MOUNT_OPTIONS_MAXIMUM = 1000
_SECTOR_BYTES = 512
_QUEUE_FACTS = (
    "nr_requests",
    "rotational",
    "read_ahead_kb",
    "logical_block_size",
    "physical_block_size",
    "max_sectors_kb",
    "write_cache",
    "wbt_lat_usec",
    "nomerges",
    "rq_affinity",
)
_MD_FACTS = ("array_state", "degraded", "sync_action", "metadata_version", "raid_disks", "layout")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo. device_number: "259:1"; its major is 0 where no block device is under it."""

    mount_point: str
    filesystem: str
    source: str
    options: str
    device_number: str


@dataclass(frozen=True)
class Storage:
    """What is known of the storage under a path: fields of the target, and of the environment.

    target, environment: as the envelope names them; facts: more of it, which does not change from run to run.
    """

    target: Mapping[str, Any]
    environment: Mapping[str, Any]
    facts: Mapping[str, Any]


def describe_storage(path: str, *, root: str = "/") -> Storage:
    """Return the layout under an absolute path without links."""
    mount = find_mount(path, root=root)
    if mount is None:
        return Storage({}, {}, {})
    devices = _find_devices(mount, root)
    disks = _find_all_disks(devices)
    target = {
        "filesystem": mount.filesystem,
        "mount_options": mount.options,
        "volume_count": len(disks) or None,
        "volume_size_bytes": _agree(_read_disk_size(disk) for disk in disks),
        "raid_level": None,
        "stripe_count": None,
        "chunk_size_bytes": None,
    }
    raid = _find_raid(devices[0]) if len(devices) == 1 else None
    if raid:
        target.update(_describe_raid(raid))
    environment = {
        "scheduler": _agree(_read_scheduler(disk) for disk in disks),
        "device_model": _agree(_read_model(disk) for disk in disks),
        "device_firmware": _agree(_read_firmware(disk) for disk in disks),
    }
    return Storage(target, environment, _collect_facts(mount, devices, disks=disks, raid=raid))


def find_mount(path: str, *, root: str = "/") -> Mount | None:
    """Return the mount with the longest mount point above path; of equal ones the last, which lies on top."""
    found = None
    for mount in _read_mounts(root):
        is_above = path == mount.mount_point or path.startswith(mount.mount_point.rstrip("/") + "/")
        if is_above and (found is None or len(mount.mount_point) >= len(found.mount_point)):
            found = mount
    return found


def find_disks(device: str) -> tuple[str, ...]:
    """Return the sysfs directories of the disks under a device, each once; () where that cannot be told."""
    if os.path.exists(os.path.join(device, "partition")):
        device = os.path.dirname(device)
    if os.path.basename(device).startswith("bcache"):
        return ()  # its slaves are a disk and a cache, which are no equal volumes
    slaves = _list_directory(os.path.join(device, "slaves"))
    if not slaves or _is_multipath(device):
        return (device,)
    return _find_all_disks(os.path.realpath(os.path.join(device, "slaves", slave)) for slave in slaves)


def read_text(*parts: str) -> str:
    """Return a small file's text without NULs and the space around it; "" where it is absent or unreadable."""
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as file:
            return file.read().replace("\x00", "").strip()
    except OSError:
        return ""


def read_line(*parts: str) -> str | None:
    """Return what a file of one value holds; None where it is absent, unreadable or empty."""
    return read_text(*parts) or None


def _read_mounts(root: str) -> list[Mount]:
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
                options=_merge_options(fields[5], tail[2]),
                device_number=fields[2],
            )
        )
    return mounts


def _merge_options(mount_options: str, filesystem_options: str) -> str:
    """Return the options as findmnt shows them: those of the mount, then what the filesystem adds."""
    options = mount_options.split(",")
    for option in filesystem_options.split(","):
        if option not in options and option not in ("rw", "ro"):
            options.append(option)
    kept: list[str] = []
    for option in options:
        if option.partition("=")[0] not in _INSTANCE_OPTIONS:
            kept.append(option)
    while len(",".join(kept)) > _MOUNT_OPTIONS_MAXIMUM:
        kept.pop()
    return ",".join(kept)


def _find_devices(mount: Mount, root: str) -> tuple[str, ...]:
    """Return the sysfs directories of the block devices that are mounted; several only for btrfs."""
    if not mount.device_number.startswith("0:"):
        device = os.path.realpath(os.path.join(root, "sys/dev/block", mount.device_number))
        return (device,) if os.path.isdir(device) else ()
    if mount.filesystem != "btrfs":
        return ()
    name = os.path.basename(os.path.realpath(os.path.join(root, mount.source.lstrip("/"))))
    known = os.path.join(root, "sys/fs/btrfs")
    for uuid in _list_directory(known):
        members = _list_directory(os.path.join(known, uuid, "devices"))
        if name in members:
            return tuple(os.path.realpath(os.path.join(known, uuid, "devices", member)) for member in members)
    return ()


def _find_all_disks(devices: Iterable[str]) -> tuple[str, ...]:
    disks: list[str] = []
    for device in devices:
        below = find_disks(device)
        if not below:
            return ()
        disks.extend(disk for disk in below if disk not in disks)
    return tuple(disks)


def _find_raid(mounted: str) -> str | None:
    """Return the directory of the md array that is mounted, also through partitions and mappings of one device."""
    device: str | None = mounted
    while device:
        if os.path.exists(os.path.join(device, "partition")):
            device = os.path.dirname(device)
        if os.path.isdir(os.path.join(device, "md")):
            return device
        slaves = _list_directory(os.path.join(device, "slaves"))
        device = os.path.realpath(os.path.join(device, "slaves", slaves[0])) if len(slaves) == 1 else None
    return None


def _describe_raid(device: str) -> dict[str, Any]:
    level = read_line(device, "md/level")
    is_striped = level in ("raid0", "raid4", "raid5", "raid6", "raid10")
    return {
        "raid_level": level,
        # Only in RAID0 is every member a stripe; what the others stripe over depends on their layout.
        "stripe_count": _to_number(read_line(device, "md/raid_disks")) if level == "raid0" else None,
        "chunk_size_bytes": (_to_number(read_line(device, "md/chunk_size")) or None) if is_striped else None,
    }


def _collect_facts(
    mount: Mount, devices: Sequence[str], *, disks: Sequence[str], raid: str | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {"mount_point": mount.mount_point, "mount_source": mount.source}
    if devices:
        facts["devices"] = [os.path.basename(device) for device in devices]
    if disks:
        facts["disks"] = [os.path.basename(disk) for disk in disks]
        queue = {name: _agree(read_line(disk, "queue", name) for disk in disks) for name in _QUEUE_FACTS}
        facts["queue"] = {name: value for name, value in queue.items() if value is not None}
    if raid:
        facts["md"] = {
            name: value for name in _MD_FACTS if (value := read_line(raid, "md", name)) is not None
        }
    return facts


def _read_disk_size(disk: str) -> int | None:
    sectors = _to_number(read_line(disk, "size"))
    return sectors * _SECTOR_BYTES if sectors else None


def _read_scheduler(disk: str) -> str | None:
    text = read_line(disk, "queue/scheduler")
    match = re.search(r"\[([^\]]+)\]", text or "")
    return match.group(1) if match else text


def _read_model(disk: str) -> str | None:
    model = read_line(disk, "device/model") or read_line(disk, "device/name")
    vendor = read_line(disk, "device/vendor")
    # SATA disks give "ATA"; of virtio and NVMe this file is absent or a PCI number.
    if model and vendor and vendor != "ATA" and not vendor.startswith("0x"):
        return f"{vendor} {model}"
    return model


def _read_firmware(disk: str) -> str | None:
    names = ("device/firmware_rev", "device/rev", "device/fwrev")
    return next((text for name in names if (text := read_line(disk, name)) is not None), None)


def _is_multipath(device: str) -> bool:
    """Several paths to one disk are one volume."""
    return (read_line(device, "dm/uuid") or "").startswith("mpath-")


def _agree(values: Iterable[Any]) -> Any:
    """Return the value that all share, None where they differ or one is unknown."""
    found = list(values)
    return found[0] if found and all(value == found[0] for value in found) else None


def _list_directory(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _to_number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)
