"""Fragmentation of a file according to filefrag or xfs_bmap; unknown without these tools."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

from agent.programs import query_tool
from agent.storage.mounts import find_mount

# filefrag may read the map of a file of terabytes, xfs_db that of a whole filesystem.
_TIMEOUT_S = 30.0
_BLOCK_SIZE = re.compile(r"\bblocks? of (\d{1,9}) bytes\b")
_FILEFRAG_LINE = re.compile(r"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*(\d+):\s*(\d+):")
_XFS_BMAP_LINE = re.compile(r"\s*\d+: \[(\d+)\.\.(\d+)\]:\s+(?:(hole|delalloc)|(\d+)\.\.(\d+)\s.*)")
_XFS_SECTOR_BYTES = 512
_XFS_FACTOR = re.compile(r"fragmentation factor (\d{1,3}(?:\.\d{1,4})?)%")


@dataclass(frozen=True)
class Extent:
    """A contiguous part of a file on the disk, in bytes."""

    logical_bytes: int
    physical_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Fragmentation:
    """Fragmentation of a file.

    extents: number of parts that are not adjacent on the disk; contiguous_share: share of the largest part.
    """

    extents: int
    mean_bytes: float
    largest_bytes: int
    contiguous_share: float


def parse_filefrag(text: str) -> list[Extent] | None:
    """Return the extents that `filefrag -v` lists; None for other output."""
    block = _BLOCK_SIZE.search(text)
    if block is None:
        return None
    size_bytes = int(block.group(1))
    return [
        Extent(int(logical) * size_bytes, int(physical) * size_bytes, int(length) * size_bytes)
        for logical, _, physical, _, length in _FILEFRAG_LINE.findall(text)
    ]


def parse_xfs_bmap(text: str) -> list[Extent] | None:
    """Return the extents that `xfs_bmap -v` lists, without holes; None for other output."""
    if "EXT: FILE-OFFSET" not in text:
        return None
    extents = []
    for first, last, absent, physical, _ in _XFS_BMAP_LINE.findall(text):
        if not absent:
            sectors = int(last) - int(first) + 1
            extents.append(
                Extent(*(count * _XFS_SECTOR_BYTES for count in (int(first), int(physical), sectors)))
            )
    return extents


def parse_xfs_fragmentation(text: str) -> float | None:
    """Return percent from the output of `xfs_db -c frag`; None for other output."""
    match = _XFS_FACTOR.search(text)
    return float(match.group(1)) if match else None


def measure_fragmentation(extents: Sequence[Extent]) -> Fragmentation | None:
    """Return the fragmentation; extents that are adjacent on the disk count as one. None without extents."""
    lengths = list(_join_lengths(extents))
    if not lengths:
        return None
    total = sum(lengths)
    return Fragmentation(len(lengths), total / len(lengths), max(lengths), max(lengths) / total)


def describe_extents(path: str) -> dict[str, Any]:
    """Return extent facts of a file; {} without a tool."""
    extents = parse_filefrag(_ask("filefrag", "-v", path))
    if extents is None:
        extents = parse_xfs_bmap(_ask("xfs_bmap", "-v", path))
    found = measure_fragmentation(extents or ())
    if found is None:
        return {}
    return {
        "extents": found.extents,
        "extent_mean_bytes": round(found.mean_bytes),
        "extent_largest_bytes": found.largest_bytes,
        "contiguous_share_percent": round(found.contiguous_share * 100, 2),
    }


def describe_filesystem_fragmentation(path: str) -> dict[str, Any]:
    """Return the fragmentation of the whole filesystem; XFS and root only."""
    mount = find_mount(os.path.realpath(path))
    if mount is None or mount.filesystem != "xfs" or os.geteuid() != 0:
        return {}
    factor = parse_xfs_fragmentation(_ask("xfs_db", "-r", "-c", "frag", mount.source))
    return {} if factor is None else {"filesystem_fragmentation_percent": factor}


def _join_lengths(extents: Iterable[Extent]) -> Iterable[int]:
    """Yield the length of each sequence of extents that are adjacent in the file and on the disk."""
    length, expected = 0, (-1, -1)
    for extent in extents:
        if length and (extent.logical_bytes, extent.physical_bytes) != expected:
            yield length
            length = 0
        length += extent.length_bytes
        expected = (extent.logical_bytes + extent.length_bytes, extent.physical_bytes + extent.length_bytes)
    if length:
        yield length


def _ask(tool: str, *arguments: str) -> str:
    return query_tool(tool, *arguments, timeout_s=_TIMEOUT_S)
