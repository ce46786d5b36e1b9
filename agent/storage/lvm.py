"""RAID level and stripes of a logical volume: from the device mapper's table as root, else from its queue limits.

The kernel's striped target sets the queue limits minimum_io_size (chunk size) and optimal_io_size (chunk size ×
stripes, dm-stripe.c, stripe_io_hints). A linear target passes on those of the devices below. Limits that match the
number of devices, and that none of these devices has itself, therefore prove a striped target; others are
inconclusive.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Sequence

from agent.storage.devices import Layer
from agent.storage.external_tools import QueryTool
from agent.storage.raid import Array
from agent.storage.sysfs import read_line, read_number

_SECTOR_BYTES = 512
# The smallest stripe that lvcreate makes.
_STRIPE_MINIMUM_BYTES = 4096
# raid5_ls, raid6_zr, raid10_far, raid0_meta: layouts of one level.
_RAID_LEVEL = re.compile(r"(raid\d+)(_\w+)?")


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
    facts: dict[str, Any] = {
        "volume": read_line(layer.path, "dm/name"),
        "minimum_io_size": read_line(layer.path, "queue/minimum_io_size"),
        "optimal_io_size": read_line(layer.path, "queue/optimal_io_size"),
    }
    table = _read_table(layer, query)
    segments = parse_table(table)
    if segments:
        facts["layout_source"] = "table"
        segment = _confirm(segments)
    else:
        segment = _read_limits(layer, below)
        facts["layout_source"] = "limits" if segment else None
    is_whole = segment is not None and segment.level != "linear"
    return Array(
        kind="lvm",
        name=layer.name,
        level=segment.level if segment else None,
        stripe_count=segment.members if segment and segment.level == "raid0" else None,
        chunk_size_bytes=segment.chunk_size_bytes if segment else None,
        members=segment.members if segment and is_whole else None,
        found=_count_data_parts(layer, below, segment),
        facts={name: value for name, value in facts.items() if value is not None},
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
    """Return the stripes according to the queue limits; None if these are inconclusive."""
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
