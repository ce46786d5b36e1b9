"""Whether a logical volume is striped: from the device mapper's table where root may read it, else from its limits.

The kernel's striped target sets the limits of its queue: minimum_io_size is a stripe's size, optimal_io_size that times
the stripes (dm-stripe.c, stripe_io_hints). A linear one passes on those of the devices below. So limits that fit the
number of devices, and that none of these devices has itself, are the kernel's word for it; other limits say nothing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Sequence

from agent.storage.devices import Layer
from agent.storage.raid import Array
from agent.storage.sysfs import read_line, read_number
from agent.storage.tools import Ask

_SECTOR_BYTES = 512
# The smallest stripe that lvcreate makes.
_STRIPE_MINIMUM_BYTES = 4096
# raid5_ls, raid6_zr, raid10_far, raid0_meta: layouts of one level.
_RAID_LEVEL = re.compile(r"(raid\d+)(_\w+)?")


@dataclass(frozen=True)
class _Segment:
    """A piece of a logical volume. level: "linear", or as md calls it; members: 1 for linear."""

    level: str
    members: int
    chunk_size_bytes: int | None


def find_volumes(layers: Sequence[Layer]) -> list[Layer]:
    """Return the logical volumes that lie on several devices; pools, caches and snapshots only say where those lie."""
    by_path = {layer.path: layer for layer in layers}
    found = []
    for layer in layers:
        below = [by_path[path] for path in layer.below]
        if layer.kind == "lvm" and len(below) > 1 and not any(each.lvm_part for each in (layer, *below)):
            found.append(layer)
    return found


def read_volume(layer: Layer, layers: Sequence[Layer], *, ask: Ask) -> Array:
    """Return what is known of a logical volume on several devices; a level of None where nothing tells."""
    below = [each for each in layers if each.path in layer.below]
    facts: dict[str, Any] = {
        "volume": read_line(layer.path, "dm/name"),
        "minimum_io_size": read_line(layer.path, "queue/minimum_io_size"),
        "optimal_io_size": read_line(layer.path, "queue/optimal_io_size"),
    }
    table = _read_table(layer, ask)
    segments = parse_table(table)
    if segments:
        facts["told_by"] = "table"
        told = _agree(segments)
    else:
        told = _read_limits(layer, below)
        facts["told_by"] = "limits" if told else None
    is_whole = told is not None and told.level != "linear"
    return Array(
        kind="lvm",
        name=layer.name,
        level=told.level if told else None,
        stripe_count=told.members if told and told.level == "raid0" else None,
        chunk_size_bytes=told.chunk_size_bytes if told else None,
        members=told.members if told and is_whole else None,
        found=_count_data_parts(layer, below, told),
        facts={name: value for name, value in facts.items() if value is not None},
    )


def parse_table(text: str) -> list[_Segment]:
    """Return the segments that `dmsetup table` lists; none where one of them is of no kind that spreads data."""
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


def _read_table(layer: Layer, ask: Ask) -> str:
    # Only root may; and only of a volume whose layout makes a difference is it worth a program.
    if getattr(os, "geteuid", lambda: -1)() != 0:
        return ""
    name = read_line(layer.path, "dm/name")
    return ask("dmsetup", "table", name) if name else ""


def _agree(segments: Sequence[_Segment]) -> _Segment | None:
    """Return what all segments are; None where a volume was extended with another layout."""
    return segments[0] if all(segment == segments[0] for segment in segments) else None


def _read_limits(layer: Layer, below: Sequence[Layer]) -> _Segment | None:
    """Return the stripes that the limits of the queue tell; None where they tell none."""
    if any(each.kind == "lvm" for each in below):
        return None  # RAID of LVM, whose parts hold its metadata as well
    chunk, width = _read_sizes(layer)
    if not chunk or chunk < _STRIPE_MINIMUM_BYTES or chunk & (chunk - 1) or width != chunk * len(below):
        return None
    if any(_read_sizes(each)[0] in (None, chunk) or _read_sizes(each)[1] == width for each in below):
        return None
    return _Segment("raid0", len(below), chunk)


def _read_sizes(layer: Layer) -> tuple[int | None, int | None]:
    """Return minimum and optimal I/O size of a queue; a partition's is its disk's."""
    path = layer.below[0] if layer.kind == "partition" else layer.path
    return read_number(path, "queue/minimum_io_size"), read_number(path, "queue/optimal_io_size")


def _count_data_parts(layer: Layer, below: Sequence[Layer], told: _Segment | None) -> int:
    """Return how many devices hold data: RAID of LVM has one for metadata beside each."""
    is_raid = told is not None and any(each.kind == "lvm" for each in below)
    return told.members if told and is_raid else len(layer.below)
