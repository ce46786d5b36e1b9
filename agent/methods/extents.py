"""How a file lies on the disk, as filefrag or xfs_bmap tell; unknown where neither does."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

from agent.storage.layout import find_mount
from agent.storage.tools import ask_tool

# filefrag reads the map of a file of terabytes, xfs_db that of a whole filesystem.
_TIMEOUT_S = 30.0
_BLOCK_SIZE = re.compile(r"\bblocks? of (\d{1,9}) bytes\b")
_FILEFRAG_LINE = re.compile(r"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*(\d+):\s*(\d+):")
_XFS_BMAP_LINE = re.compile(r"\s*\d+: \[(\d+)\.\.(\d+)\]:\s+(?:(hole|delalloc)|(\d+)\.\.(\d+)\s.*)")
_XFS_SECTOR_BYTES = 512
_XFS_FACTOR = re.compile(r"fragmentation factor (\d{1,3}(?:\.\d{1,4})?)%")


@dataclass(frozen=True)
class Extent:
    """A piece of a file that lies in one piece on the disk, all in bytes."""

    logical_bytes: int
    physical_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Fragmentation:
    """How a file lies.

    extents: pieces that do not follow one another on the disk; contiguous_share: what the largest holds of the file.
    """

    extents: int
    mean_bytes: float
    largest_bytes: int
    contiguous_share: float


def parse_filefrag(text: str) -> list[Extent] | None:
    """Return the extents that `filefrag -v` lists; None where its output is another."""
    block = _BLOCK_SIZE.search(text)
    if block is None:
        return None
    size_bytes = int(block.group(1))
    return [
        Extent(int(logical) * size_bytes, int(physical) * size_bytes, int(length) * size_bytes)
        for logical, _, physical, _, length in _FILEFRAG_LINE.findall(text)
    ]


def parse_xfs_bmap(text: str) -> list[Extent] | None:
    """Return the extents that `xfs_bmap -v` lists, without holes; None where its output is another."""
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
    """Return per cent from what `xfs_db -c frag` prints; None where it does not tell."""
    match = _XFS_FACTOR.search(text)
    return float(match.group(1)) if match else None


def measure_fragmentation(extents: Sequence[Extent]) -> Fragmentation | None:
    """Return the numbers of a file; extents that follow one another on the disk are one. None without any."""
    lengths = list(_join_lengths(extents))
    if not lengths:
        return None
    total = sum(lengths)
    return Fragmentation(len(lengths), total / len(lengths), max(lengths), max(lengths) / total)


def describe_extents(path: str) -> dict[str, Any]:
    """Return what is known of a file's extents as facts; nothing where no tool tells."""
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
    """Return how fragmented the files of the whole filesystem are; only XFS tells, and only root may ask."""
    mount = find_mount(os.path.realpath(path))
    if mount is None or mount.filesystem != "xfs" or os.geteuid() != 0:
        return {}
    factor = parse_xfs_fragmentation(_ask("xfs_db", "-r", "-c", "frag", mount.source))
    return {} if factor is None else {"filesystem_fragmentation_percent": factor}


def _join_lengths(extents: Iterable[Extent]) -> Iterable[int]:
    """Yield the length of each run of extents that follow one another in the file and on the disk."""
    length, expected = 0, (-1, -1)
    for extent in extents:
        if length and (extent.logical_bytes, extent.physical_bytes) != expected:
            yield length
            length = 0
        length += extent.length_bytes
        expected = (
            extent.logical_bytes + extent.length_bytes,
            extent.physical_bytes + extent.length_bytes,
        )
    if length:
        yield length


def _ask(tool: str, *arguments: str) -> str:
    return ask_tool(tool, *arguments, timeout_s=_TIMEOUT_S)
