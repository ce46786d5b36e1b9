"""Storage under a path through several layers, from trees according to the kernel's documentation."""

from pathlib import Path

import pytest

from tests.agent.storage.layouts import (
    BLOCK,
    WWID,
    bcache,
    crypt_on_logical_volume,
    describe,
    hard_disks,
    loop,
    mounted,
    multipath,
    raid5,
    raid_of,
)
from tests.agent.storage.trees import disk, join, nvme, slaves


def test_raid5_has_members_and_chunk_but_no_stripes(tmp_path: Path) -> None:
    storage = describe(tmp_path, raid5())

    assert raid_of(storage) == (3, "raid5", None, 524288)
    assert storage.facts["md"] == {
        "array_state": "active",
        "degraded": "0",
        "sync_action": "idle",
        "metadata_version": "1.2",
        "raid_disks": "3",
        "layout": "2",
        "consistency_policy": "resync",
        "stripe_cache_size": "256",
    }


def test_degraded_array_keeps_its_number_of_volumes(tmp_path: Path) -> None:
    """Otherwise the days without a disk would be another series, and the chart would not show the loss."""
    storage = describe(tmp_path, raid5(missing=1))

    assert raid_of(storage) == (3, "raid5", None, 524288)
    assert storage.facts["md"]["degraded"] == "1"
    assert storage.facts["disks"] == ["sda", "sdb"]


def test_recovering_array_names_the_member(tmp_path: Path) -> None:
    storage = describe(tmp_path, raid5(sync_action="recover", member_states={"sdc": "spare"}))

    assert raid_of(storage) == (3, "raid5", None, 524288)
    assert (storage.facts["md"]["degraded"], storage.facts["md"]["sync_action"]) == ("1", "recover")
    assert storage.facts["md"]["not_in_sync"] == ["sdc spare"]


def test_spare_is_not_counted_as_a_volume(tmp_path: Path) -> None:
    files, links = raid5()
    extra, extra_links = disk("sdd", "8:48", gib=1000)
    links.update({**extra_links, **slaves("md5", "sdd")})

    storage = describe(tmp_path, ({**files, **extra, f"{BLOCK}/md5/md/dev-sdd/state": "spare\n"}, links))

    assert len(storage.facts["disks"]) == 4
    assert raid_of(storage)[0] == 3


@pytest.mark.parametrize("states", [("clean", "active"), ("active-idle", "write-pending")])
def test_states_that_alternate_with_every_write_are_merged(tmp_path: Path, states: tuple[str, str]) -> None:
    """The server creates an environment for each difference."""
    seen = set()
    for number, state in enumerate(states):
        files, links = raid5()
        files[f"{BLOCK}/md5/md/array_state"] = state + "\n"
        seen.add(str(describe(tmp_path / str(number), (files, links)).facts["md"]))

    assert len(seen) == 1


def test_encrypted_volume_is_seen_through(tmp_path: Path) -> None:
    storage = describe(tmp_path, crypt_on_logical_volume())

    assert raid_of(storage) == (3, "raid0", 3, 65536)
    assert storage.facts["chain"] == [
        "dm-1 crypt luks-data",
        "dm-0 lvm vg-data",
        "sda disk",
        "sdb disk",
        "sdc disk",
    ]


def test_array_of_arrays_has_no_single_level(tmp_path: Path) -> None:
    """A stripe over mirrors is neither raid0 nor raid1; the facts contain each."""
    mirrors = [
        disk(
            f"md{n}",
            f"9:{n}",
            md__level="raid1\n",
            md__raid_disks="2\n",
            md__degraded=degraded,
            md__sync_action=doing,
        )
        for n, degraded, doing in ((1, "0\n", "idle\n"), (2, "1\n", "recover\n"))
    ]
    stripe = disk("md0", "9:0", md__level="raid0\n", md__raid_disks="2\n", md__chunk_size="65536\n")
    files, links = join(stripe, *mirrors, *hard_disks(4))
    links.update(
        {**slaves("md0", "md1", "md2"), **slaves("md1", "sda", "sdb"), **slaves("md2", "sdc", "sdd")}
    )

    storage = describe(tmp_path, mounted((files, links), "9:0"))

    assert raid_of(storage) == (4, None, None, None)
    assert (storage.facts["md"]["degraded"], storage.facts["md"]["sync_action"]) == ("1", "recover")
    assert storage.facts["md"]["md0"] == {
        "level": "raid0",
        "stripe_count": 2,
        "chunk_size_bytes": 65536,
        "members": 2,
        "raid_disks": "2",
    }


def test_multipath_is_one_volume_with_the_model_of_its_paths(tmp_path: Path) -> None:
    storage = describe(tmp_path, multipath())

    assert (storage.target["volume_count"], storage.target["volume_size_bytes"]) == (1, 7516192768)
    assert storage.environment["device_model"] == "NETAPP LUN C-Mode"
    assert storage.environment["device_firmware"] == "9131"
    assert storage.facts["disk"]["dm-0"]["path_states"] == ["sda running", "sdb offline"]


def test_serial_number_of_a_multipath_disk_is_not_sent(tmp_path: Path) -> None:
    """The node is named after it, too."""
    hidden = describe(tmp_path / "a", multipath())
    shown = describe(tmp_path / "b", multipath(), sends_serials=True)

    assert WWID not in str(hidden)
    assert hidden.facts["mount_source"] == "/dev/mapper/" + hidden.facts["disk"]["dm-0"]["wwn"]
    assert shown.facts["disk"]["dm-0"]["wwn"] == WWID
    assert shown.facts["mount_source"] == f"/dev/mapper/{WWID}"


def test_partition_of_a_multipath_disk_is_that_disk(tmp_path: Path) -> None:
    files, links = multipath()
    part, part_links = disk("dm-1", "253:1", dm__uuid=f"part1-mpath-{WWID}\n", dm__name=f"{WWID}-part1\n")
    # kpartx's mapping is a separate device, without the file of the kernel's partitions.
    links.update({**part_links, **slaves("dm-1", "dm-0")})
    tree = mounted(({**files, **part}, links), "253:1", source=f"/dev/mapper/{WWID}-part1")

    storage = describe(tmp_path, tree)

    assert storage.target["volume_count"] == 1
    assert storage.facts["chain"] == ["dm-1 partition", "dm-0 multipath"]
    assert WWID not in str(storage)


def test_cached_disk_is_described_with_its_cache(tmp_path: Path) -> None:
    storage = describe(tmp_path, bcache())

    assert storage.target["volume_count"] is None
    assert storage.facts["bcache"]["bcache0"] == {
        "backing_device": "sda",
        "cache_devices": ["nvme0n1"],
        "cache_mode": "writeback",
        "has_cache": 1,
        "sequential_cutoff": "4.0M",
    }
    assert storage.facts["disks"] == ["nvme0n1", "sda"]
    assert storage.environment["device_model"] is None


def test_detached_cache_is_reported(tmp_path: Path) -> None:
    assert describe(tmp_path, bcache(state="no cache")).facts["bcache"]["bcache0"]["has_cache"] == 0


def test_loop_device_is_described_with_the_storage_of_its_file(tmp_path: Path) -> None:
    storage = describe(tmp_path, loop())

    assert (storage.target["volume_count"], storage.target["volume_size_bytes"]) == (1, 2**30)
    assert storage.facts["loop"] == {
        "loop0": {
            "backing_file": "/srv/image",
            "direct_io": "0",
            "offset_bytes": "0",
            "filesystem": "ext4",
            "mount_options": "rw,relatime,discard",
            "disks": ["vda"],
        }
    }


@pytest.mark.parametrize("backing", ["/srv/image (deleted)", "/of/another/container"])
def test_loop_device_over_an_invisible_file_has_only_its_name(tmp_path: Path, backing: str) -> None:
    storage = describe(tmp_path, loop(backing))

    assert storage.facts["loop"] == {
        "loop0": {"backing_file": backing, "direct_io": "0", "offset_bytes": "0"}
    }


def test_bind_mount_has_its_root_directory(tmp_path: Path) -> None:
    files, links = disk("vda", "254:0")
    files["proc/self/mountinfo"] = "41 27 254:0 /srv/x /data rw - ext4 /dev/vda rw\n"

    assert describe(tmp_path, (files, links)).facts["mount_root"] == "/srv/x"


def test_mount_source_with_a_serial_number_is_hashed(tmp_path: Path) -> None:
    source = "/dev/disk/by-id/nvme-Samsung_SSD_S3Z8NB0K-part1"
    tree = mounted(nvme(0), "259:0", source=source)

    assert describe(tmp_path / "a", tree).facts["mount_source"] == "/dev/nvme0n1"
    assert describe(tmp_path / "b", tree, sends_serials=True).facts["mount_source"] == source
