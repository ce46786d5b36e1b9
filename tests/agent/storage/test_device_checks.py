"""Checks of a sweep's devices: from recorded trees, and over plain values."""

from pathlib import Path

import pytest

from agent.storage.device_checks import Device, check_devices, find_uses, inspect_device
from agent.storage.signatures import Content, Signature
from tests.agent.storage.trees import ROOT_MOUNT, disk, join, write_tree

BASE = "sys/devices/virtual/block"
MIB = 2**20


def sdb(**files: str) -> tuple[dict[str, str], dict[str, str]]:
    return disk("sdb", "8:16", **{"dev": "8:16\n", "ro": "0\n", **files})


def uses(tmp_path: Path, *parts: tuple[dict[str, str], dict[str, str]], **files: str) -> tuple[str, ...]:
    """Return the uses of /dev/sdb; keyword names are paths in the tree with __ for a slash."""
    planted, links = join(*parts)
    planted["proc/self/mountinfo"] = ROOT_MOUNT
    planted.update({name.replace("__", "/"): text for name, text in files.items()})
    root = write_tree(tmp_path, planted, links)
    return find_uses("/dev/sdb", f"{root}/{BASE}/sdb", root=root)


def mount(number: str, source: str, filesystem: str = "xfs") -> str:
    return ROOT_MOUNT + f"40 27 {number} / /data rw - {filesystem} {source} rw\n"


def test_idle_disk_has_no_uses(tmp_path: Path) -> None:
    assert uses(tmp_path, sdb()) == ()


def test_mounted_disk_is_recognized_by_its_number(tmp_path: Path) -> None:
    found = uses(tmp_path, sdb(), proc__self__mountinfo=mount("8:16", "/dev/disk/by-id/x"))

    assert found == ("is mounted at /data",)


def test_mount_point_is_unescaped(tmp_path: Path) -> None:
    found = uses(tmp_path, sdb(), proc__self__mountinfo=mount("8:16", "x").replace("/data", r"/my\040data"))

    assert found == ("is mounted at /my data",)


def test_mounted_partition_is_a_use_of_its_disk(tmp_path: Path) -> None:
    part = {f"{BASE}/sdb/sdb1/partition": "1\n", f"{BASE}/sdb/sdb1/dev": "8:17\n"}

    found = uses(tmp_path, sdb(), (part, {}), proc__self__mountinfo=mount("8:17", "/dev/sdb1"))

    assert found == ("is mounted at /data",)


def test_array_on_a_disk_and_its_mount_are_uses(tmp_path: Path) -> None:
    holder = {f"{BASE}/sdb/holders/md0": f"{BASE}/md0"}

    found = uses(
        tmp_path,
        sdb(),
        disk("md0", "9:0", dev="9:0\n"),
        ({}, holder),
        proc__self__mountinfo=mount("9:0", "/dev/md0"),
    )

    assert found == ("is in use by md0", "is mounted at /data")


def test_mapping_is_named(tmp_path: Path) -> None:
    holder = {f"{BASE}/sdb/holders/dm-3": f"{BASE}/dm-3"}

    assert uses(tmp_path, sdb(), disk("dm-3", "253:3", dm__name="vg-data\n"), ({}, holder)) == (
        "is in use by vg-data",
    )


def test_second_device_of_a_mounted_btrfs_is_in_use(tmp_path: Path) -> None:
    member = {"sys/fs/btrfs/1b2c/devices/sdb": f"{BASE}/sdb"}

    found = uses(
        tmp_path, sdb(), ({}, member), proc__self__mountinfo=mount("0:44", "/dev/sda", filesystem="btrfs")
    )

    assert found == ("is part of the mounted btrfs 1b2c",)


def test_swap_is_a_use(tmp_path: Path) -> None:
    swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb                partition\t1024\t0\t-2\n"

    assert uses(tmp_path, sdb(), proc__swaps=swaps) == ("is in use as swap (/dev/sdb)",)


def test_disk_under_a_loop_device_is_in_use(tmp_path: Path) -> None:
    found = uses(tmp_path, sdb(), sys__block__loop5__loop__backing_file="/dev/sdb\n")

    assert found == ("is in use by loop5",)


def test_read_only_disk_is_reported(tmp_path: Path) -> None:
    assert uses(tmp_path, sdb(ro="1\n")) == ("is read-only",)


def test_drive_without_a_medium_is_reported(tmp_path: Path) -> None:
    assert uses(tmp_path, sdb(size="0\n")) == ("has size 0 (no medium)",)


def test_regular_file_is_not_a_device(tmp_path: Path) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(b"x")

    assert inspect_device(str(path)).uses == ("is not a block device",)
    assert inspect_device("/dev/null").uses == ("is not a block device",)
    assert inspect_device("/nonexistent").uses == ("does not exist",)


UNKNOWN = "contains data of an unknown format (byte 8192 is not zero) that no sweep of this spool left"
EXT4 = Signature("ext4", 1080, "backup")
A = Device("/dev/a", "/sys/a", 128 * MIB)
B = Device("/dev/b", "/sys/b", 128 * MIB)


@pytest.mark.parametrize(
    ("devices", "wiped", "objections"),
    [
        ([A, B], [], ()),
        (
            [A, Device("/dev/b", "/sys/b", 128 * MIB, (), (EXT4,))],
            [],
            ("/dev/b contains ext4 “backup” at byte 1080; to destroy it, add --wipe /dev/b",),
        ),
        ([A, Device("/dev/b", "/sys/b", 128 * MIB, (), (EXT4,))], ["/dev/b"], ()),
        (
            [Device("/dev/a", "/sys/a", 128 * MIB, ("is mounted at /data",), (EXT4,))],
            ["/dev/a"],
            ("/dev/a is mounted at /data",),
        ),
        (
            [Device("/dev/a", "/sys/a", 128 * MIB, content=Content(8192, "of others"))],
            [],
            (f"/dev/a {UNKNOWN}; to destroy it, add --wipe /dev/a",),
        ),
        ([Device("/dev/a", "/sys/a", 128 * MIB, content=Content(8192, "of others"))], ["/dev/a"], ()),
        ([Device("/dev/a", "/sys/a", 128 * MIB, content=Content(8192, "left"))], [], ()),
        ([A], ["/dev/c"], ("--wipe /dev/c: not one of --devices",)),
        (
            [A, Device("/dev/disk/by-id/x", "/sys/a", 128 * MIB)],
            [],
            ("/dev/a, /dev/disk/by-id/x: the same device 2 times",),
        ),
        (
            [Device("/dev/a", "/sys/a", 64 * MIB)],
            [],
            ("/dev/a has 64 MiB; test file, filesystem and reserve need 109 MiB",),
        ),
    ],
)
def test_devices_are_checked(devices: list[Device], wiped: list[str], objections: tuple[str, ...]) -> None:
    assert check_devices(devices, wiped=wiped, needed_bytes=109 * MIB, left={"left"}).objections == objections


def test_partition_together_with_its_disk_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/a1/partition": "1\n"})
    devices = [
        Device("/dev/a", str(tmp_path / "a"), 128 * MIB),
        Device("/dev/a1", str(tmp_path / "a/a1"), 128 * MIB),
    ]

    verdict = check_devices(devices, wiped=[], needed_bytes=0)

    assert verdict.objections == ("a1 is a partition of a, also given",)


def test_different_sizes_are_a_warning() -> None:
    verdict = check_devices([A, Device("/dev/b", "/sys/b", 256 * MIB)], wiped=[], needed_bytes=0)

    assert verdict.objections == ()
    assert verdict.warnings == (
        "the devices have different sizes (128 MiB to 256 MiB); results over stripe counts are not comparable",
    )
