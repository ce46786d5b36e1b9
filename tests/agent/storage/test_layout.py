"""Storage under a path, from recorded trees."""

from pathlib import Path

import pytest

from agent.storage.layout import describe_storage
from agent.storage.mounts import find_mount
from tests.agent.storage.layouts import describe
from tests.agent.storage.trees import ROOT_MOUNT, disk, join, nvme, raid0, slaves, write_tree


def test_virtio_disk_is_one_volume_without_model(tmp_path: Path) -> None:
    files, links = disk("vda", "254:0", gib=256, queue__scheduler="[mq-deadline] none\n")
    files["proc/self/mountinfo"] = ROOT_MOUNT

    storage = describe(tmp_path, (files, links))

    assert storage.target == {
        "filesystem": "ext4",
        "mount_options": "rw,relatime,discard",
        "volume_count": 1,
        "volume_size_bytes": 274877906944,
        "raid_level": None,
        "stripe_count": None,
        "chunk_size_bytes": None,
    }
    assert storage.environment == {
        "scheduler": "mq-deadline",
        "device_model": None,
        "device_firmware": None,
        "device_driver": None,
        "device_class": None,
    }


def test_partition_is_measured_as_its_disk(tmp_path: Path) -> None:
    files, links = nvme(0)
    base = "sys/devices/virtual/block/nvme0n1"
    files[f"{base}/nvme0n1p1/partition"] = "1\n"
    files[f"{base}/nvme0n1p1/size"] = "2048\n"
    links["sys/dev/block/259:7"] = f"{base}/nvme0n1p1"
    files["proc/self/mountinfo"] = "40 27 259:7 / /data rw - xfs /dev/nvme0n1p1 rw\n"

    storage = describe(tmp_path, (files, links))

    assert (storage.target["volume_count"], storage.target["volume_size_bytes"]) == (1, 536870912000)
    assert storage.environment["device_model"] == "Amazon Elastic Block Store"
    assert storage.environment["device_firmware"] == "2.0"
    assert storage.facts["devices"] == ["nvme0n1p1"]


@pytest.mark.parametrize("count", [1, 4, 16])
def test_raid0_has_members_stripes_and_chunk(tmp_path: Path, count: int) -> None:
    storage = describe(tmp_path, raid0(count))

    assert storage.target == {
        "filesystem": "xfs",
        "mount_options": "rw,noatime,attr2,inode64,sunit=512,swidth=2048",
        "volume_count": count,
        "volume_size_bytes": 536870912000,
        "raid_level": "raid0",
        "stripe_count": count,
        "chunk_size_bytes": 262144,
    }
    assert storage.facts["md"] == {"array_state": "clean", "raid_disks": str(count)}
    assert len(storage.facts["disks"]) == count


def test_mirror_has_no_stripes_and_no_chunk(tmp_path: Path) -> None:
    files, links = join(disk("md1", "9:1", md__level="raid1\n", md__raid_disks="2\n", md__chunk_size="0\n"))
    files, links = join((files, links), nvme(0), nvme(1))
    links.update(slaves("md1", "nvme0n1", "nvme1n1"))
    files["proc/self/mountinfo"] = "40 27 9:1 / /data rw - ext4 /dev/md1 rw\n"

    target = describe(tmp_path, (files, links)).target

    assert (target["raid_level"], target["volume_count"]) == ("raid1", 2)
    assert (target["stripe_count"], target["chunk_size_bytes"]) == (None, None)


def test_logical_volume_on_raid0_is_seen_through(tmp_path: Path) -> None:
    files, links = raid0(4)
    upper, upper_links = disk("dm-0", "253:0", dm__uuid="LVM-abc\n")
    links.update(upper_links)
    links.update(slaves("dm-0", "md0"))
    files.update(upper)
    files["proc/self/mountinfo"] = "40 27 253:0 / /data rw - ext4 /dev/mapper/vg-data rw\n"

    target = describe(tmp_path, (files, links)).target

    assert (target["raid_level"], target["stripe_count"], target["volume_count"]) == ("raid0", 4, 4)


def test_logical_volume_over_two_disks_has_unknown_stripes(tmp_path: Path) -> None:
    """Its table, which only root may read, contains whether it is striped or linear."""
    files, links = join(disk("dm-0", "253:0", dm__uuid="LVM-abc\n"), nvme(0), nvme(1))
    links.update(slaves("dm-0", "nvme0n1", "nvme1n1"))
    files["proc/self/mountinfo"] = "40 27 253:0 / /data rw - ext4 /dev/mapper/vg-data rw\n"

    target = describe(tmp_path, (files, links)).target

    assert (target["volume_count"], target["raid_level"], target["stripe_count"]) == (2, None, None)


def test_two_partitions_of_one_disk_are_one_volume(tmp_path: Path) -> None:
    files, links = join(disk("dm-0", "253:0", dm__uuid="LVM-abc\n"), nvme(0))
    for number in (1, 2):
        files[f"sys/devices/virtual/block/nvme0n1/nvme0n1p{number}/partition"] = f"{number}\n"
    links.update(slaves("dm-0", "nvme0n1/nvme0n1p1", "nvme0n1/nvme0n1p2"))
    files["proc/self/mountinfo"] = "40 27 253:0 / /data rw - ext4 /dev/mapper/vg-data rw\n"

    assert describe(tmp_path, (files, links)).target["volume_count"] == 1


def test_paths_to_one_disk_are_one_volume(tmp_path: Path) -> None:
    files, links = join(
        disk("dm-0", "253:0", gib=7, dm__uuid="mpath-3600\n"), disk("sda", "8:0"), disk("sdb", "8:16")
    )
    links.update(slaves("dm-0", "sda", "sdb"))
    files["proc/self/mountinfo"] = "40 27 253:0 / /data rw - ext4 /dev/mapper/mpatha rw\n"

    target = describe(tmp_path, (files, links)).target

    assert (target["volume_count"], target["volume_size_bytes"]) == (1, 7516192768)


def test_bcache_has_no_count_of_volumes(tmp_path: Path) -> None:
    files, links = join(disk("bcache0", "252:0"), disk("sda", "8:0"), nvme(0))
    links.update(slaves("bcache0", "sda", "nvme0n1"))
    files["proc/self/mountinfo"] = "40 27 252:0 / /data rw - ext4 /dev/bcache0 rw\n"

    assert describe(tmp_path, (files, links)).target["volume_count"] is None


def test_unequal_disks_have_no_common_model_size_or_firmware(tmp_path: Path) -> None:
    files, links = raid0(2)
    files["sys/devices/virtual/block/nvme1n1/size"] = "4096\n"
    files["sys/devices/virtual/block/nvme1n1/device/firmware_rev"] = "3.1\n"

    storage = describe(tmp_path, (files, links))

    assert storage.target["volume_size_bytes"] is None
    assert storage.environment["device_firmware"] is None
    assert storage.environment["device_model"] == "Amazon Elastic Block Store"


def test_btrfs_counts_all_its_devices(tmp_path: Path) -> None:
    files, links = join(nvme(0), nvme(1), nvme(2))
    base = "sys/devices/virtual/block"
    for index in (0, 1):
        links[f"sys/fs/btrfs/1b2c/devices/nvme{index}n1"] = f"{base}/nvme{index}n1"
    files["sys/fs/btrfs/features/raid1c34"] = "0\n"
    files["dev/nvme0n1"] = ""
    files["proc/self/mountinfo"] = "40 27 0:44 /@ /data rw - btrfs /dev/nvme0n1 rw,subvol=/@\n"

    target = describe(tmp_path, (files, links)).target

    assert (target["filesystem"], target["volume_count"], target["stripe_count"]) == ("btrfs", 2, None)


@pytest.mark.parametrize(
    ("line", "filesystem", "options"),
    [
        (
            "40 27 0:52 / /data rw,relatime - nfs4 filer:/export rw,vers=4.2,rsize=1048576,clientaddr=10.0.0.9",
            "nfs4",
            "rw,relatime,vers=4.2,rsize=1048576",
        ),
        ("40 27 0:53 / /data rw,nosuid - tmpfs tmpfs rw,size=4k", "tmpfs", "rw,nosuid,size=4k"),
        (
            "40 27 0:54 / /data rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d,index=off",
            "overlay",
            "rw,index=off",
        ),
        ("40 27 0:55 / /data rw - zfs tank/data rw,xattr,noacl", "zfs", "rw,xattr,noacl"),
        ("40 27 0:56 / /data rw - cifs //nas/x rw,username=me,vers=3.1.1", "cifs", "rw,vers=3.1.1"),
    ],
)
def test_filesystem_without_a_device_has_no_volumes(
    tmp_path: Path, line: str, filesystem: str, options: str
) -> None:
    target = describe(tmp_path, ({"proc/self/mountinfo": ROOT_MOUNT + line + "\n"}, {})).target

    assert (target["filesystem"], target["mount_options"]) == (filesystem, options)
    assert (target["volume_count"], target["volume_size_bytes"]) == (None, None)


UPPER = "upperdir=/up/u,workdir=/up/w"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("40 27 0:53 / /data rw - tmpfs tmpfs rw\n", "tmpfs"),
        (
            f"39 27 0:53 / /up rw - tmpfs tmpfs rw\n40 27 0:54 / /data rw - overlay overlay rw,lowerdir=/a,{UPPER}\n",
            "tmpfs",
        ),
        ("40 27 1:0 / /data rw - ext4 /dev/ram0 rw\n", "ram0"),
        ("40 27 0:52 / /data rw - nfs4 filer:/export rw\n", None),
    ],
)
def test_files_in_memory_are_a_fact(tmp_path: Path, lines: str, found: str | None) -> None:
    files, links = disk("ram0", "1:0")

    storage = describe(
        tmp_path, ({"proc/self/mountinfo": ROOT_MOUNT + lines, "up/u/x": "", "up/w/x": "", **files}, links)
    )

    assert storage.facts.get("memory_filesystem") == found


@pytest.mark.parametrize(
    ("path", "mount_point"),
    [("/", "/"), ("/data", "/data"), ("/data/x", "/data"), ("/database", "/"), ("/my disk/x", "/my disk")],
)
def test_longest_mount_point_above_a_path_is_found(tmp_path: Path, path: str, mount_point: str) -> None:
    lines = ["40 27 8:1 / /data rw - xfs /dev/sda1 rw", r"41 27 8:2 / /my\040disk rw - xfs /dev/sda2 rw"]
    root = write_tree(tmp_path, {"proc/self/mountinfo": ROOT_MOUNT + "\n".join(lines) + "\n"})

    mount = find_mount(path, root=root)

    assert mount is not None
    assert mount.mount_point == mount_point


def test_mount_on_top_of_another_hides_it(tmp_path: Path) -> None:
    lines = "40 27 8:1 / /data rw - xfs /dev/sda1 rw\n41 40 0:44 / /data rw - tmpfs tmpfs rw\n"
    root = write_tree(tmp_path, {"proc/self/mountinfo": lines})

    mount = find_mount("/data", root=root)

    assert mount is not None
    assert mount.filesystem == "tmpfs"


@pytest.mark.parametrize("text", ["", "nonsense\n", "1 2 3\n", "40 27 8:1 / /data rw - xfs\n"])
def test_unreadable_mounts_are_unknown(tmp_path: Path, text: str) -> None:
    storage = describe(tmp_path, ({"proc/self/mountinfo": text}, {}))

    assert (storage.target, storage.environment, storage.facts) == ({}, {}, {})


def test_device_that_sysfs_does_not_show_is_unknown(tmp_path: Path) -> None:
    """A container without /sys."""
    target = describe(tmp_path, ({"proc/self/mountinfo": ROOT_MOUNT}, {})).target

    assert (target["filesystem"], target["volume_count"]) == ("ext4", None)


def test_this_machine_is_described() -> None:
    storage = describe_storage(str(Path(__file__).resolve()))

    assert storage.target["filesystem"]
