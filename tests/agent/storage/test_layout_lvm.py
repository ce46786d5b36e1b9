"""Stripes of logical volumes: from the device mapper's tables, and from limits of queues."""

from pathlib import Path
from typing import Any

import pytest

from agent.programs import run_no_tool
from agent.storage.layout import Storage, parse_table
from tests.agent.storage import layouts
from tests.agent.storage.layouts import Tree, hard_disks, limits, logical_volume, mounted, raid_of
from tests.agent.storage.trees import disk, join, nvme, slaves

STRIPED = "0 6291456 striped 3 128 8:0 2048 8:16 2048 8:32 2048\n"
LINEAR = "0 2097152 linear 8:0 2048\n2097152 2097152 linear 8:16 2048\n"
RAID5 = "0 8388608 raid raid5_ls 3 128 region_size 1024 3 253:1 253:2 253:3 253:4 253:5 253:6\n"


def describe(tmp_path: Path, tree: Tree, *, table: str | None = None, **options: Any) -> Storage:
    """Describe the storage as root if a table is given, else as a user who may not read it."""
    query = (lambda *_: table) if table is not None else run_no_tool
    return layouts.describe(tmp_path, tree, query=query, **options)


@pytest.fixture
def root_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


def test_striped_logical_volume_is_recognized_by_its_limits(tmp_path: Path) -> None:
    storage = describe(tmp_path, logical_volume(3, minimum=65536, optimal=196608))

    assert raid_of(storage) == (3, "raid0", 3, 65536)
    assert storage.facts["lvm"] == {
        "volume": "vg-data",
        "minimum_io_size": "65536",
        "optimal_io_size": "196608",
        "layout_source": "limits",
    }


@pytest.mark.parametrize(
    ("minimum", "optimal", "disks", "why"),
    [
        (4096, 0, None, "linear: the limits are those of the disks"),
        (65536, 131072, None, "two stripes and a third disk: extended with another layout"),
        (1000, 3000, None, "no size of a stripe"),
        (
            65536,
            196608,
            hard_disks(3, minimum=65536, optimal=196608),
            "the disks have these limits themselves",
        ),
        (
            65536,
            196608,
            [disk(f"sd{letter}", f"8:{n * 16}") for n, letter in enumerate("abc")],
            "disks without",
        ),
    ],
)
def test_logical_volume_with_ambiguous_limits_is_unknown(
    tmp_path: Path, minimum: int, optimal: int, disks: list[Tree] | None, why: str
) -> None:
    storage = describe(tmp_path, logical_volume(3, minimum=minimum, optimal=optimal, disks=disks))

    assert raid_of(storage) == (3, None, None, None), why
    assert "layout_source" not in storage.facts["lvm"]


@pytest.mark.usefixtures("root_user")
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (STRIPED, (3, "raid0", 3, 65536)),
        (LINEAR, (3, "linear", None, None)),
        ("0 8 linear 8:0 0\n" + STRIPED, (3, None, None, None)),
        ("0 8 zero\n", (3, "raid0", 3, 65536)),
        ("", (3, "raid0", 3, 65536)),
    ],
)
def test_known_table_overrides_limits(tmp_path: Path, table: str, expected: tuple[Any, ...]) -> None:
    storage = describe(tmp_path, logical_volume(3, minimum=65536, optimal=196608), table=table)

    assert raid_of(storage) == expected


def test_table_is_not_read_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    storage = describe(tmp_path, logical_volume(3, minimum=65536, optimal=196608), table=LINEAR)

    assert storage.facts["lvm"]["layout_source"] == "limits"


@pytest.mark.usefixtures("root_user")
def test_lvm_raid_is_recognized_by_its_table_only(tmp_path: Path) -> None:
    """Its parts for data and metadata are LVM volumes, too."""
    inner = [disk(f"dm-{n}", f"253:{n}", dm__uuid=f"LVM-part{n}\n") for n in range(1, 7)]
    outer = disk("dm-0", "253:0", dm__uuid="LVM-outer\n", dm__name="vg-data\n", **limits(65536, 131072))
    files, links = mounted(join(outer, *inner, *hard_disks(3)), "253:0")
    links.update(slaves("dm-0", *(f"dm-{n}" for n in range(1, 7))))
    for n in range(1, 7):
        links.update(slaves(f"dm-{n}", f"sd{'abc'[(n - 1) // 2]}"))

    with_table = describe(tmp_path / "a", (files, links), table=RAID5)
    without_table = describe(tmp_path / "b", (files, links))

    assert raid_of(with_table) == (3, "raid5", None, 65536)
    assert raid_of(without_table) == (3, None, None, None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 8 striped 4 1024 8:0 0 8:16 0 8:32 0 8:48 0", ("raid0", 4, 524288)),
        ("0 8 linear 8:0 2048", ("linear", 1, None)),
        ("0 8 raid raid1 2 0 nosync 2 - 253:1 - 253:2", ("raid1", 2, None)),
        ("0 8 raid raid6_zr 1 256 5 - 8:0 - 8:16 - 8:32 - 8:48 - 8:64", ("raid6", 5, 131072)),
        ("0 8 raid raid10_near 3 128 raid10_copies 2 4 - 8:0 - 8:16 - 8:32 - 8:48", ("raid10", 4, 65536)),
    ],
)
def test_table_is_read(line: str, expected: tuple[Any, ...]) -> None:
    (segment,) = parse_table(line)

    assert (segment.level, segment.members, segment.chunk_size_bytes) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "0 8",
        "0 8 striped",
        "0 8 striped x y",
        "0 8 raid raid5_ls 9",
        "0 8 thin 253:3 1",
        "0 8 raid x 1 8 3",
    ],
)
def test_table_of_another_kind_is_unknown(line: str) -> None:
    assert parse_table(line) == []


def test_thin_volume_has_the_layout_of_its_pool(tmp_path: Path) -> None:
    files, links = join(
        disk("dm-4", "253:4", dm__uuid="LVM-thin\n"),
        disk("dm-3", "253:3", dm__uuid="LVM-pool-tpool\n", **limits(65536, 65536)),
        disk("dm-1", "253:1", dm__uuid="LVM-pool-tmeta\n"),
        disk("dm-2", "253:2", dm__uuid="LVM-pool-tdata\n"),
        disk("md0", "9:0", md__level="raid0\n", md__raid_disks="2\n", md__chunk_size="524288\n"),
        *hard_disks(2),
    )
    for upper, lower in (("dm-4", "dm-3"), ("dm-1", "md0"), ("dm-2", "md0")):
        links.update(slaves(upper, lower))
    links.update({**slaves("dm-3", "dm-1", "dm-2"), **slaves("md0", "sda", "sdb")})

    assert raid_of(describe(tmp_path, mounted((files, links), "253:4"))) == (2, "raid0", 2, 524288)


def test_volume_with_a_cache_has_no_count_of_volumes(tmp_path: Path) -> None:
    files, links = join(
        disk("dm-0", "253:0", dm__uuid="LVM-slow\n"),
        disk("dm-1", "253:1", dm__uuid="LVM-fast-cdata\n"),
        disk("dm-2", "253:2", dm__uuid="LVM-slow-real\n"),
        nvme(0),
        *hard_disks(1),
    )
    links.update({**slaves("dm-0", "dm-1", "dm-2"), **slaves("dm-1", "nvme0n1"), **slaves("dm-2", "sda")})

    storage = describe(tmp_path, mounted((files, links), "253:0"))

    assert raid_of(storage) == (None, None, None, None)
    assert storage.facts["disks"] == ["nvme0n1", "sda"]
