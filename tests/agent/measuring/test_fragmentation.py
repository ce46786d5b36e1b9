"""Fragmentation of files, from recorded output of filefrag and xfs_bmap."""

import os
import shutil
from pathlib import Path

import pytest

from agent.measuring.methods import (
    Extent,
    describe_extents,
    describe_fragmentation,
    parse_filefrag,
    parse_xfs_bmap,
    parse_xfs_fragmentation,
)

FILEFRAG = """\
Filesystem type is: ef53
File size of /srv/file is 20480000 (5000 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..    2047:      34816..     36863:   2048:
   1:     2048..    4095:      36864..     38911:   2048:
   2:     4096..    4999:      90112..     91015:    904:      38912: last,eof
/srv/file: 2 extents found
"""
XFS_BMAP = """\
/srv/file:
 EXT: FILE-OFFSET      BLOCK-RANGE      AG AG-OFFSET        TOTAL FLAGS
   0: [0..2047]:       96..2143          0 (96..2143)        2048 000000
   1: [2048..4095]:    hole                                  2048
   2: [4096..8191]:    1048672..1052767  1 (96..4191)        4096 000000
"""
MIB = 2**20


def test_filefrag_lists_extents() -> None:
    extents = parse_filefrag(FILEFRAG)

    assert extents is not None
    assert extents[0] == Extent(0, 34816 * 4096, 8 * MIB)
    assert extents[2] == Extent(16 * MIB, 90112 * 4096, 904 * 4096)


def test_adjacent_extents_are_merged() -> None:
    assert describe_fragmentation(parse_filefrag(FILEFRAG) or ()) == {
        "extents": 2,
        "extent_mean_bytes": 2500 * 4096,
        "extent_largest_bytes": 4096 * 4096,
        "contiguous_share_percent": 81.92,
    }


def test_xfs_bmap_lists_extents_without_holes() -> None:
    assert parse_xfs_bmap(XFS_BMAP) == [Extent(0, 96 * 512, MIB), Extent(2 * MIB, 1048672 * 512, 2 * MIB)]


@pytest.mark.parametrize("text", ["", "/proc/version: FIBMAP/FIEMAP unsupported", "no such file"])
def test_other_output_gives_unknown_values(text: str) -> None:
    assert parse_filefrag(text) is None
    assert parse_xfs_bmap(text) is None
    assert parse_xfs_fragmentation(text) is None


def test_file_without_extents_has_no_fragmentation() -> None:
    assert describe_fragmentation([]) == {}


def test_fragmentation_of_an_xfs_is_read() -> None:
    text = "actual 1045, ideal 930, fragmentation factor 11.00%\nNote, this number is largely meaningless.\n"

    assert parse_xfs_fragmentation(text) == 11.0


@pytest.mark.skipif(shutil.which("filefrag") is None, reason="there is not a filefrag: apt install e2fsprogs")
def test_real_file_has_one_extent_or_more(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"x" * MIB)
        file.flush()
        os.fsync(file.fileno())

    facts = describe_extents(str(path))

    assert facts == {} or (facts["extents"] >= 1 and facts["extent_largest_bytes"] >= 4096)


def test_missing_tool_gives_no_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.programs.DIRECTORIES", ())
    monkeypatch.setenv("PATH", str(tmp_path))

    assert describe_extents(__file__) == {}
