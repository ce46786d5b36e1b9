"""Check whether devices may be measured, and whether a sweep may write them: their data and users.

/proc and /sys are read below `root`, so that recorded trees can be read.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Container, Iterator, Sequence

from agent.exit_codes import CannotMeasure
from agent.quantities import format_size
from agent.storage.devices import find_devices, find_name
from agent.storage.mounts import find_raw, read_mounts
from agent.storage.signatures import EMPTY, Content, Signature, read_content, read_signatures
from agent.storage.sysfs import list_directory, read_line, read_text

_SECTOR_BYTES = 512
DATA = "data of an unknown format"
_READ_ONLY = "is read-only"


@dataclass(frozen=True)
class Device:
    """A block device and its state.

    sysfs: its directory, "" if not in /sys; uses: reasons why it must not be written in any case; signatures, content:
    data that would be lost.
    """

    path: str
    sysfs: str
    size_bytes: int
    uses: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    content: Content = EMPTY

    def list_contents(self) -> list[str]:
        """Return the data that would be lost as text; data of unknown formats is one entry."""
        is_data = self.content.data_at is not None
        return [*(each.describe() for each in self.signatures), *([DATA] if is_data else [])]


@dataclass(frozen=True)
class DeviceCheck:
    """The result for all devices. objections: reasons to refuse the sweep; warnings: shown before confirmation."""

    objections: tuple[str, ...]
    warnings: tuple[str, ...]


def inspect_device(path: str, *, root: str = "/") -> Device:
    """Inspect a device without changing it; an unknown state counts as a use."""
    raw = find_raw(path)
    if raw is None:
        return Device(path, "", 0, ("is not a block device" if os.path.exists(path) else "does not exist",))
    devices = find_devices(raw, root=root)
    if not devices:
        return Device(path, "", 0, (f"is not in /sys ({raw.device_number}); its users are unknown",))
    sysfs = devices[0]
    size_bytes = int(read_line(sysfs, "size") or 0) * _SECTOR_BYTES
    uses = (*find_uses(path, sysfs, root=root), *_try_exclusively(path))
    try:
        signatures, content = read_signatures(path), read_content(path)
    except OSError as error:
        return Device(path, sysfs, size_bytes, (*uses, f"cannot be read: {error.strerror}"))
    return Device(path, sysfs, size_bytes, uses, signatures, content)


def check_raw_device(path: str, *, needed_bytes: int, is_destructive: bool) -> Device:
    """Return a device that may be measured without a filesystem; CannotMeasure if it is in use or too small."""
    device = inspect_device(path)
    uses = [use for use in device.uses if is_destructive or use != _READ_ONLY]
    if len(_find_above(device.sysfs)) > 1 and not uses:
        uses = ["has partitions; name one of them"]
    if device.size_bytes < needed_bytes and not uses:
        needed = format_size(needed_bytes)
        uses = [f"has {format_size(device.size_bytes)}, the profile needs {needed}; see --file-size"]
    if uses:
        raise CannotMeasure(f"{path} {'; '.join(uses)}", reason_code="device-in-use")
    return device


@contextmanager
def hold_device(path: str) -> Iterator[None]:
    """Keep others from mounting a device, as the kernel refuses two exclusive users; "" for none."""
    if not path:
        yield
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMeasure(f"cannot open {path}: {error.strerror}") from None
    try:
        yield
    finally:
        os.close(descriptor)


def find_uses(path: str, sysfs: str, *, root: str = "/") -> tuple[str, ...]:
    """Return uses of a device, its partitions and the layers above, from /proc and /sys."""
    uses = []
    if read_line(sysfs, "size") in (None, "0"):
        uses.append("has size 0 (no medium)")
    if read_line(sysfs, "ro") not in (None, "0"):
        uses.append(_READ_ONLY)
    parts = _find_above(sysfs)
    for part in parts[1:]:
        name = os.path.basename(part)
        if not os.path.exists(os.path.join(part, "partition")):
            uses.append(f"is in use by {read_line(part, 'dm/name') or name}")
    uses.extend(_find_mounts_of(parts, root))
    uses.extend(_find_swaps_of(parts, root))
    uses.extend(_find_loops_of(path, root))
    return tuple(dict.fromkeys(uses))


def check_devices(
    devices: Sequence[Device], *, wiped: Sequence[str], needed_bytes: int, left: Container[str] = ()
) -> DeviceCheck:
    """Check whether a sweep may write these devices.

    wiped: paths of --wipe, whose data may be lost; needed_bytes: minimum size of each; left: digests of contents that
    an earlier sweep left, which may be lost without --wipe.
    """
    paths = {device.path for device in devices}
    objections = [f"--wipe {path}: not one of --devices" for path in wiped if path not in paths]
    for device in devices:
        objections.extend(f"{device.path} {use}" for use in device.uses)
        if device.path not in wiped:
            objections.extend(_object_to_loss(device, left))
        if 0 < device.size_bytes < needed_bytes:
            size, needed = format_size(device.size_bytes), format_size(needed_bytes)
            objections.append(f"{device.path} has {size}; test file, filesystem and reserve need {needed}")
    objections.extend(_find_overlaps(devices))
    sizes = sorted({device.size_bytes for device in devices if device.size_bytes})
    warnings = []
    if len(sizes) > 1:
        range_ = f"{format_size(sizes[0])} to {format_size(sizes[-1])}"
        warnings.append(
            f"the devices have different sizes ({range_}); results over stripe counts are not comparable"
        )
    return DeviceCheck(tuple(objections), tuple(warnings))


def _object_to_loss(device: Device, left: Container[str]) -> Iterator[str]:
    if device.signatures:
        names = ", ".join(signature.describe() for signature in device.signatures)
        yield f"{device.path} contains {names}; to destroy it, add --wipe {device.path}"
    elif device.content.data_at is not None and device.content.digest not in left:
        yield (
            f"{device.path} contains data of an unknown format (byte {device.content.data_at} is not zero) that no "
            f"sweep of this spool left; to destroy it, add --wipe {device.path}"
        )


def _find_overlaps(devices: Sequence[Device]) -> Iterator[str]:
    counts = Counter(device.sysfs for device in devices if device.sysfs)
    for sysfs, count in counts.items():
        if count > 1:
            paths = ", ".join(device.path for device in devices if device.sysfs == sysfs)
            yield f"{paths}: the same device {count} times"
        if os.path.exists(os.path.join(sysfs, "partition")) and os.path.dirname(sysfs) in counts:
            yield f"{os.path.basename(sysfs)} is a partition of {os.path.basename(os.path.dirname(sysfs))}, also given"


def _find_above(sysfs: str) -> list[str]:
    """Return the device, its partitions, and all layers above them, without duplicates."""
    found = [sysfs]
    for device in found:
        above = [os.path.join(device, name) for name in list_directory(device)]
        partitions = [path for path in above if os.path.exists(os.path.join(path, "partition"))]
        holders = os.path.join(device, "holders")
        users = [os.path.realpath(os.path.join(holders, name)) for name in list_directory(holders)]
        found.extend(path for path in partitions + users if path not in found)
    return found


def _find_mounts_of(parts: Sequence[str], root: str) -> Iterator[str]:
    numbers = {read_line(part, "dev") for part in parts}
    names = {os.path.basename(part) for part in parts}
    for mount in read_mounts(root):
        # A filesystem over several devices has its own number; its source is one of them.
        is_source = mount.source.startswith("/dev/") and find_name(mount.source, root=root) in names
        if mount.device_number in numbers or is_source:
            yield f"is mounted at {mount.mount_point}"
    known = os.path.join(root, "sys/fs/btrfs")
    for uuid in list_directory(known):
        if names & set(list_directory(os.path.join(known, uuid, "devices"))):
            yield f"is part of the mounted btrfs {uuid}"


def _find_swaps_of(parts: Sequence[str], root: str) -> Iterator[str]:
    names = {os.path.basename(part) for part in parts}
    for line in read_text(root, "proc/swaps").splitlines()[1:]:
        path = line.split(" ")[0].split("\t")[0]
        if os.path.basename(os.path.realpath(path)) in names:
            yield f"is in use as swap ({path})"


def _find_loops_of(path: str, root: str) -> Iterator[str]:
    """Yield loop devices over a device, which do not open it exclusively."""
    blocks = os.path.join(root, "sys/block")
    for name in list_directory(blocks):
        if name.startswith("loop"):
            backing = read_line(blocks, name, "loop/backing_file")
            if backing and os.path.realpath(backing) == os.path.realpath(path):
                yield f"is in use by {name}"


def _try_exclusively(path: str) -> tuple[str, ...]:
    """Try to open exclusively: this also detects users in other containers."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return ("is in use (exclusive open failed)",)
        return (f"cannot be opened: {error.strerror}",)
    return ()
