"""Facts of disks: model, firmware, size, queue settings, transport, and hashed ids."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Sequence

from agent.storage.devices import Layer
from agent.storage.sysfs import (
    keep_known,
    list_directory,
    read_bytes,
    read_choice,
    read_line,
    read_link,
    read_number,
)

_SECTOR_BYTES = 512
_QUEUE_FACTS = (
    *("nr_requests", "rotational", "read_ahead_kb", "logical_block_size", "physical_block_size"),
    *("minimum_io_size", "optimal_io_size", "max_sectors_kb", "max_hw_sectors_kb", "write_cache"),
    *("fua", "wbt_lat_usec", "nomerges", "rq_affinity", "io_poll", "add_random", "discard_granularity"),
    *("discard_max_bytes", "zoned", "dax", "stable_writes", "chunk_sectors"),
)
# Drivers of disks of any controller, which say nothing about it.
_DISK_DRIVERS = ("sd", "ses")
# The server accepts at most 500 entries; of more disks than this, only common settings are sent.
_DISKS_MAXIMUM = 64
# Transport by the sysfs path of a device; the first match counts.
_BUSES = (
    (r"/session\d+/", "iscsi"),
    (r"/rport-", "fc"),
    (r"/end_device-", "sas"),
    (r"/ata\d+/", "sata"),
    (r"/usb\d+/", "usb"),
    (r"/virtio\d+/", "virtio"),
    (r"/vbd-\d+/", "xen"),
    (r"/mmc_host/", "mmc"),
    (r"/VMBUS:|/vmbus", "vmbus"),
)
# Disks at the other end of a network: transports, kernel names, and models of cloud volumes.
_NETWORK_TRANSPORTS = ("iscsi", "fc", "nvme-tcp", "nvme-rdma", "nvme-fc")
_NETWORK_NAMES = re.compile(r"(nbd|rbd)\d+")
_NETWORK_MODELS = re.compile(r"Amazon Elastic Block Store|nvme_card-pd|Google PersistentDisk")
# Hypervisors report their disks as rotating, whatever is below.
_VIRTUAL_TRANSPORTS = ("virtio", "xen", "vmbus")
_VIRTUAL_MODELS = re.compile(r"QEMU|VMware|VBOX|Virtual|Msft", re.IGNORECASE)
# 48 bits: among the million disks of a large company two of one hash are improbable (1 in 560).
_DIGITS = 12


@dataclass(frozen=True)
class Disk:
    """Properties of a disk; None if unknown. model: with vendor; multipath: values that all paths share.

    driver: of the controller, with the version of its module if that has one.
    """

    layer: Layer
    size_bytes: int | None
    model: str | None
    firmware: str | None
    driver: str | None
    scheduler: str | None
    device_class: str | None


def read_disk(layer: Layer) -> Disk:
    """Return the properties of a disk."""
    sectors = read_number(layer.path, "size")
    model = _ask_paths(layer, _read_model)
    return Disk(
        layer,
        size_bytes=sectors * _SECTOR_BYTES if sectors else None,
        model=model,
        firmware=_ask_paths(layer, _read_firmware),
        driver=_ask_paths(layer, _read_driver),
        scheduler=read_choice(layer.path, "queue/scheduler"),
        device_class=_find_class(layer, model or ""),
    )


def _find_class(layer: Layer, model: str) -> str | None:
    """Return network, nvme, hdd or ssd; None for a virtual disk: only its host knows."""
    transport = _ask_paths(layer, _find_transport)
    is_remote = transport in _NETWORK_TRANSPORTS or _NETWORK_NAMES.fullmatch(layer.name)
    if is_remote or _NETWORK_MODELS.match(model):
        return "network"
    if transport in _VIRTUAL_TRANSPORTS or _VIRTUAL_MODELS.search(model) or layer.kind == "loop":
        return None
    if layer.name.startswith("nvme"):
        return "nvme"
    return {"0": "ssd", "1": "hdd"}.get(read_line(layer.path, "queue/rotational") or "")


def identify(layers: Sequence[Layer], *, sends_serials: bool) -> str | None:
    """Return a name of the first layer that does not depend on the order in which the kernel finds disks."""
    layer = layers[0]
    if layer.kind == "partition":
        disk = identify([each for each in layers if each.path in layer.below], sends_serials=sends_serials)
        return disk and f"{disk}-part{read_line(layer.path, 'partition')}"
    name = read_line(layer.path, "dm/name")
    if name and layer.kind != "multipath":
        return f"dm-name-{name}"
    ids = _read_ids(layer, sends_serials=sends_serials)
    return next((f"{name}-{ids[name]}" for name in ("wwn", "serial") if name in ids), None)


def _read_ids(layer: Layer, *, sends_serials: bool) -> dict[str, str]:
    ids = {"serial": _read_serial(layer.path), "wwn": _read_wwn(layer)}
    return {
        name: hash_identifier(name, value, is_plain=sends_serials) for name, value in ids.items() if value
    }


def agree(values: Iterable[Any]) -> Any:
    """Return the common value, None if values differ or one is unknown."""
    found = None
    for value in values:
        if value is None or found not in (None, value):
            return None
        found = value
    return found


def describe_disks(disks: Sequence[Disk], *, sends_serials: bool) -> dict[str, Any]:
    """Return facts of disks: "queue" has their common settings, "disk" the properties of each by name."""
    paths = [disk.layer.path for disk in disks]
    queue = {name: agree(read_line(path, "queue", name) for path in paths) for name in _QUEUE_FACTS}
    queue["hardware_queues"] = agree(map(_count_hardware_queues, paths))
    queue["queue_depth"] = agree(read_line(path, "device/queue_depth") for path in paths)
    facts: dict[str, Any] = {"queue": keep_known(**queue)}
    if len(disks) <= _DISKS_MAXIMUM:
        facts["disk"] = {disk.layer.name: _describe_disk(disk, sends_serials=sends_serials) for disk in disks}
    return facts


def _describe_disk(disk: Disk, *, sends_serials: bool) -> dict[str, Any]:
    path = disk.layer.path
    return keep_known(
        size_bytes=disk.size_bytes,
        model=disk.model,
        firmware=disk.firmware,
        scheduler=disk.scheduler,
        **_read_ids(disk.layer, sends_serials=sends_serials),
        transport=_find_transport(path),
        numa_node=_find_numa_node(path),
        link_speed=_find_above(path, "current_link_speed"),
        link_width=_find_above(path, "current_link_width"),
        path_states=_read_path_states(disk.layer) or None,
    )


def _ask_paths(layer: Layer, read: Callable[[str], str | None]) -> str | None:
    """Return a property of a disk; for multipath, the common value of all paths."""
    if layer.kind == "loop":
        return None  # not available for files
    if layer.kind != "multipath":
        return read(layer.path)
    return agree(read(path) for path in _find_paths(layer))  # type: ignore[no-any-return]


def _find_paths(layer: Layer) -> list[str]:
    return [os.path.join(layer.path, "slaves", name) for name in list_directory(layer.path, "slaves")]


def _read_path_states(layer: Layer) -> list[str]:
    """Return the SCSI state of each path of a multipath: "sda running"."""
    if layer.kind != "multipath":
        return []
    states = [(os.path.basename(path), read_line(path, "device/state")) for path in _find_paths(layer)]
    return [f"{name} {state}" for name, state in states if state is not None]


def _read_model(path: str) -> str | None:
    model = read_line(path, "device/model") or read_line(path, "device/name")
    vendor = read_line(path, "device/vendor")
    # SATA disks give "ATA"; of virtio and NVMe this file is absent or a PCI number.
    if model and vendor and vendor != "ATA" and not vendor.startswith("0x"):
        return f"{vendor} {model}"
    return model


def _read_firmware(path: str) -> str | None:
    names = ("device/firmware_rev", "device/rev", "device/fwrev")
    return next((text for name in names if (text := read_line(path, name)) is not None), None)


def _read_driver(path: str) -> str | None:
    """Return the driver of a disk's controller, as "nvme 1.0" or "virtio_blk"; None for virtual devices."""
    for parent in _climb(os.path.realpath(path)):
        name = os.path.basename(read_link(parent, "driver"))
        if name and name not in _DISK_DRIVERS:
            version = read_line(parent, "driver/module/version")
            return f"{name} {version}" if version else name
    return None


def _read_serial(path: str) -> str | None:
    """Return the serial number: of NVMe and MMC, of virtio, or of SCSI from VPD page 80, after a header of 4 bytes."""
    serial = read_line(path, "device/serial") or read_line(path, "serial")
    page = read_bytes(path, "device/vpd_pg80")[4:]
    return serial or page.decode("ascii", "replace").replace("\x00", "").strip() or None


def _read_wwn(layer: Layer) -> str | None:
    if layer.kind == "multipath":
        return layer.mapping.partition("-")[2] or None
    return read_line(layer.path, "wwid") or read_line(layer.path, "device/wwid")


def _find_transport(path: str) -> str | None:
    transport = read_line(path, "device/transport")
    if transport:
        return f"nvme-{transport}" if os.path.basename(path).startswith("nvme") else transport
    return next((bus for pattern, bus in _BUSES if re.search(pattern, path)), None)


def _find_numa_node(path: str) -> str | None:
    """Return the NUMA node of a disk's controller; None for -1."""
    node = _find_above(path, "numa_node")
    return node if node and node.isdigit() else None


def _find_above(path: str, name: str) -> str | None:
    """Return an attribute of the nearest parent device that has it; None for virtual devices."""
    value = next((value for parent in _climb(path) if (value := read_line(parent, name)) is not None), None)
    return None if value in ("Unknown", "0") and name.startswith("current_link") else value


def _climb(path: str) -> Iterator[str]:
    """Yield a device's directory and those of its parents; nothing for virtual devices."""
    while "/devices/virtual/" not in path and os.path.basename(path) not in ("devices", "sys", ""):
        yield path
        path = os.path.dirname(path)


def _count_hardware_queues(path: str) -> str | None:
    count = len(list_directory(path, "mq"))
    return str(count) if count else None


def hash_identifier(name: str, value: str, *, is_plain: bool = False) -> str:
    """Return 12 hex digits of SHA-256 over "name:value", or the value itself if is_plain.

    The name makes equal values of different fields differ. Without another salt, a disk is recognized on another host;
    a list of candidates can be compared with the hashes.
    """
    if is_plain:
        return value
    return hashlib.sha256(f"{name}:{value}".encode("utf-8", "replace")).hexdigest()[:_DIGITS]
