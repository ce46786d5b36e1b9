"""Data profiles of btrfs: from recorded trees, and over real loop devices."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.storage.layout import describe_storage
from tests.agent.storage.layouts import btrfs, describe, raid_of
from tests.agent.storage.trees import write_tree
from tests.agent.sweeping.loops import OBSTACLE, SBIN, make_loop, run_tool

MIB = 2**20
MakeStripe = Callable[..., str]


@pytest.mark.parametrize(
    ("count", "profile", "expected"),
    [
        (4, "raid0", (4, "raid0", 4, 65536)),
        (16, "raid0", (16, "raid0", 16, 65536)),
        (1, "raid0", (1, "raid0", 1, 65536)),
        (2, "raid1", (2, "raid1", None, None)),
        (4, "raid10", (4, "raid10", None, 65536)),
        (3, "single", (3, "single", None, None)),
        (1, "single", (1, None, None, None)),
        (1, "dup", (1, "dup", None, None)),
    ],
)
def test_profile_of_the_data_is_the_level(
    tmp_path: Path, count: int, profile: str, expected: tuple[Any, ...]
) -> None:
    storage = describe(tmp_path, btrfs(count, profile=profile))

    assert raid_of(storage) == expected
    assert storage.target["volume_size_bytes"] == 536870912000


def test_facts_include_profiles_and_the_running_operation(tmp_path: Path) -> None:
    assert describe(tmp_path, btrfs(4)).facts["btrfs"] == {
        "data_profile": "raid0",
        "metadata_profile": "raid1",
        "missing_devices": 0,
        "exclusive_operation": "none",
        "node_size_bytes": 16384,
        "checksum": "crc32c (crc32c-intel)",
    }


def test_missing_device_is_a_volume_of_a_degraded_array(tmp_path: Path) -> None:
    storage = describe(tmp_path, btrfs(2, profile="raid1", missing=1))

    assert raid_of(storage) == (2, "raid1", None, None)
    assert storage.facts["btrfs"]["missing_devices"] == 1
    assert storage.facts["raid_state"] == "degraded"
    assert storage.facts["disks"] == ["nvme0n1"]


@pytest.mark.parametrize(
    ("operation", "state"),
    [("none", None), ("balance", "reshaping"), ("device replace", "rebuilding"), ("swap activate", None)],
)
def test_operations_that_move_all_data_are_raid_states(
    tmp_path: Path, operation: str, state: str | None
) -> None:
    assert describe(tmp_path, btrfs(2, operation=operation)).facts.get("raid_state") == state


def test_profile_before_a_conversion_is_ignored(tmp_path: Path) -> None:
    assert raid_of(describe(tmp_path, btrfs(2, stale="single"))) == (2, "raid0", 2, 65536)


def test_profiles_during_a_conversion_are_unknown(tmp_path: Path) -> None:
    files, links = btrfs(2)
    files["sys/fs/btrfs/1b2c-77/allocation/data/single/total_bytes"] = "1024\n"

    assert raid_of(describe_storage("/data", root=write_tree(tmp_path, files, links))) == (
        2,
        None,
        None,
        None,
    )


def test_kernel_without_allocation_has_an_unknown_level(tmp_path: Path) -> None:
    files, links = btrfs(2)
    files = {
        name: text for name, text in files.items() if "/allocation/" not in name and "/devinfo/" not in name
    }

    storage = describe_storage("/data", root=write_tree(tmp_path, files, links))

    assert raid_of(storage) == (2, None, None, None)
    assert "missing_devices" not in storage.facts["btrfs"]


for_real = pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or "")


@pytest.fixture
def make_stripe(tmp_path: Path) -> Iterator[MakeStripe]:
    """Mount a new filesystem over loop devices, and remove it afterwards."""
    loops: list[str] = []
    mount_point = tmp_path / "mount"
    mount_point.mkdir()

    def make(count: int, *command: str, megabytes: int = 128) -> str:
        for number in range(count):
            loops.append(make_loop(tmp_path / f"image{number}", megabytes * MIB))
        run_tool(*command, *loops)
        run_tool("mount", loops[0], str(mount_point))
        return str(mount_point)

    yield make
    if os.path.ismount(mount_point):
        run_tool("umount", str(mount_point))
    for device in loops:
        run_tool("losetup", "--detach", device)


def measure_cost_ms(path: str) -> float:
    """Return the CPU time of one call, with kernel time, without that of other processes."""
    started = time.process_time()
    for _ in range(5):
        describe_storage(path)
    return (time.process_time() - started) * 1000 / 5


@for_real
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_real_btrfs_raid0_over_loop_devices_is_described(
    make_stripe: MakeStripe, tmp_path: Path, count: int
) -> None:
    path = make_stripe(count, "mkfs.btrfs", "-q", "-d", "raid0", "-m", "single")

    storage = describe_storage(path)

    assert storage.target["filesystem"] == "btrfs"
    assert raid_of(storage) == (count, "raid0", count, 65536)
    assert storage.target["volume_size_bytes"] == 128 * MIB
    assert len(storage.facts["disks"]) == count
    assert {part["backing_file"] for part in storage.facts["loop"].values()} == {
        str(tmp_path / f"image{number}") for number in range(count)
    }
    assert measure_cost_ms(path) < 30


@for_real
def test_real_btrfs_mirror_is_described(make_stripe: MakeStripe) -> None:
    path = make_stripe(2, "mkfs.btrfs", "-q", "-d", "raid1", "-m", "raid1")

    assert raid_of(describe_storage(path)) == (2, "raid1", None, None)


@for_real
def test_real_ext4_on_a_loop_device_is_described(make_stripe: MakeStripe) -> None:
    storage = describe_storage(make_stripe(1, "mkfs.ext4", "-q"))

    assert storage.target["filesystem"] == "ext4"
    assert raid_of(storage) == (1, None, None, None)


@for_real
@pytest.mark.skipif(
    shutil.which("mkfs.xfs", path=SBIN) is None, reason="mkfs.xfs is not installed: apt install xfsprogs"
)
def test_real_xfs_on_a_loop_device_is_described(make_stripe: MakeStripe) -> None:
    storage = describe_storage(make_stripe(1, "mkfs.xfs", "-q", megabytes=320))

    assert storage.target["filesystem"] == "xfs"
    assert raid_of(storage) == (1, None, None, None)
