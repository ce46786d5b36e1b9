"""Common storage layouts, as trees of /proc and /sys according to the kernel's documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.storage.layout import Storage, describe_storage
from tests.agent.storage.trees import ROOT_MOUNT, disk, join, nvme, slaves, write_tree

Tree = tuple[dict[str, str], dict[str, str]]
BLOCK = "sys/devices/virtual/block"


def describe(tmp_path: Path, tree: Tree, path: str = "/data/bench", **options: Any) -> Storage:
    """Return the storage under a path of a machine with this tree."""
    return describe_storage(path, root=write_tree(tmp_path, *tree), **options)


def raid_of(storage: Storage) -> tuple[Any, ...]:
    """Return volume count, RAID level, stripe count and chunk size."""
    names = ("volume_count", "raid_level", "stripe_count", "chunk_size_bytes")
    return tuple(storage.target[name] for name in names)


def mounted(tree: Tree, number: str, *, filesystem: str = "xfs", source: str = "/dev/x") -> Tree:
    """Mount a device of a tree at /data."""
    files, links = tree
    line = f"40 27 {number} / /data rw,noatime shared:12 - {filesystem} {source} rw\n"
    return {**files, "proc/self/mountinfo": ROOT_MOUNT + line}, links


def mount_only(line: str) -> Tree:
    """Return a tree with a mount without a device."""
    return {"proc/self/mountinfo": ROOT_MOUNT + line + "\n"}, {}


def limits(minimum: int, optimal: int) -> dict[str, str]:
    """Return the queue limits from which stripes are recognized."""
    return {"queue__minimum_io_size": f"{minimum}\n", "queue__optimal_io_size": f"{optimal}\n"}


def hard_disks(count: int, *, minimum: int = 4096, optimal: int = 0) -> list[Tree]:
    return [
        disk(f"sd{letter}", f"8:{index * 16}", gib=1000, **limits(minimum, optimal))
        for index, letter in enumerate("abcdefgh"[:count])
    ]


def raid5(
    *, missing: int = 0, sync_action: str = "idle", member_states: dict[str, str] | None = None
) -> Tree:
    """Return md5 of three members, of which the last are missing, as XFS at /data."""
    present = hard_disks(3 - missing)
    states = {f"md__dev-sd{letter}__state": "in_sync\n" for letter in "abc"[: 3 - missing]}
    states.update({f"md__dev-{name}__state": f"{state}\n" for name, state in (member_states or {}).items()})
    degraded = missing + len(member_states or {})
    array = disk(
        "md5",
        "9:5",
        gib=2000,
        md__level="raid5\n",
        md__raid_disks="3\n",
        md__chunk_size="524288\n",
        md__layout="2\n",
        md__metadata_version="1.2\n",
        md__array_state="active\n",
        md__degraded=f"{degraded}\n",
        md__sync_action=f"{sync_action}\n",
        md__stripe_cache_size="256\n",
        md__consistency_policy="resync\n",
        **states,
    )
    files, links = mounted(join(array, *present), "9:5", source="/dev/md5")
    links.update(slaves("md5", *(f"sd{letter}" for letter in "abc"[: 3 - missing])))
    return files, links


def logical_volume(count: int, *, minimum: int, optimal: int, disks: list[Tree] | None = None) -> Tree:
    """Return dm-0, a logical volume over this number of disks, as XFS at /data."""
    volume = disk(
        "dm-0", "253:0", dm__uuid="LVM-aB3xYz09\n", dm__name="vg-data\n", **limits(minimum, optimal)
    )
    tree = mounted(join(volume, *(disks or hard_disks(count))), "253:0", source="/dev/mapper/vg-data")
    tree[1].update(slaves("dm-0", *(f"sd{letter}" for letter in "abcdefgh"[:count])))
    return tree


def crypt_on_logical_volume() -> Tree:
    """Return LUKS on a logical volume striped over three disks."""
    files, links = logical_volume(3, minimum=65536, optimal=196608)
    upper = disk("dm-1", "253:1", dm__uuid="CRYPT-LUKS2-0f3e-luks\n", dm__name="luks-data\n")
    tree = mounted(join((files, links), upper), "253:1", source="/dev/mapper/luks-data")
    tree[1].update(slaves("dm-1", "dm-0"))
    return tree


def multipath() -> Tree:
    """Return one disk of an array in a storage network, by two paths, of which one is down."""
    scsi = {"device__vendor": "NETAPP  \n", "device__model": "LUN C-Mode      \n", "device__rev": "9131\n"}
    paths = [
        disk("sda", "8:0", gib=7, device__state="running\n", **scsi),
        disk("sdb", "8:16", gib=7, device__state="offline\n", **scsi),
    ]
    upper = disk("dm-0", "253:0", gib=7, dm__uuid=f"mpath-{WWID}\n", dm__name=f"{WWID}\n")
    tree = mounted(join(upper, *paths), "253:0", source=f"/dev/mapper/{WWID}")
    tree[1].update(slaves("dm-0", "sda", "sdb"))
    return tree


WWID = "3600a098038304437415d4b6a59684a52"


def bcache(*, state: str = "dirty") -> Tree:
    """Return a hard disk with an NVMe cache."""
    hard, fast = disk("sda", "8:0", gib=4000), nvme(0)
    base = f"{BLOCK}/sda/bcache"
    hard[0].update({f"{base}/state": f"{state}\n", f"{base}/sequential_cutoff": "4.0M\n"})
    hard[0][f"{base}/cache_mode"] = "writethrough [writeback] writearound none\n"
    tree = mounted(join(disk("bcache0", "252:0", gib=4000), hard, fast), "252:0", source="/dev/bcache0")
    tree[1].update(slaves("bcache0", "sda", "nvme0n1"))
    tree[1][f"{BLOCK}/bcache0/bcache"] = base
    return tree


def loop(backing: str = "/srv/image") -> Tree:
    """Return a loop device at /data whose file is on a virtio disk."""
    files, links = join(
        disk("loop0", "7:0", gib=1, loop__backing_file=f"{backing}\n", loop__dio="0\n", loop__offset="0\n"),
        disk("vda", "254:0", gib=256, queue__rotational="1\n"),
    )
    files, links = mounted((files, links), "7:0", filesystem="ext4", source="/dev/loop0")
    return {**files, "srv/image": ""}, links


def btrfs(
    count: int, *, profile: str = "raid0", missing: int = 0, operation: str = "none", stale: str | None = None
) -> Tree:
    """Return a btrfs over NVMe volumes, of which the last are missing; stale: a profile without data."""
    present = count - missing
    files, links = join(*(nvme(index) for index in range(present)))
    base = "sys/fs/btrfs/1b2c-77"
    for index in range(present):
        links[f"{base}/devices/nvme{index}n1"] = f"{BLOCK}/nvme{index}n1"
    for index in range(count):
        files[f"{base}/devinfo/{index + 1}/missing"] = f"{int(index >= present)}\n"
    for name, size in ((profile, 2**30), (stale, 0)):
        if name:
            files[f"{base}/allocation/data/{name}/total_bytes"] = f"{size}\n"
    files[f"{base}/allocation/data/total_bytes"] = f"{2**30}\n"
    files[f"{base}/allocation/metadata/raid1/total_bytes"] = f"{2**28}\n"
    files.update({f"{base}/exclusive_operation": f"{operation}\n", f"{base}/nodesize": "16384\n"})
    files[f"{base}/checksum"] = "crc32c (crc32c-intel)\n"
    files["sys/fs/btrfs/features/raid1c34"] = "0\n"
    files["dev/nvme0n1"] = ""
    return mounted((files, links), "0:44", filesystem="btrfs", source="/dev/nvme0n1")


def zfs(*disks: str, state: str = "ONLINE") -> Tree:
    """Return the dataset tank/data; /proc and /sys do not contain the devices of its pool."""
    files, links = join(*(disk(name, f"8:{index * 16}", gib=500) for index, name in enumerate(disks)))
    files.update({f"dev/{name}": "" for name in disks})
    files["proc/spl/kstat/zfs/tank/state"] = f"{state}\n"
    files["sys/module/zfs/version"] = "2.1.11-1\n"
    return mounted((files, links), "0:55", filesystem="zfs", source="tank/data")


CONTAINER_MOUNTS = """\
900 800 0:300 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A,upperdir=\
/var/lib/docker/overlay2/x/diff,workdir=/var/lib/docker/overlay2/x/work
910 900 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate
"""


def container() -> Tree:
    """Return a Docker container with limits, as seen inside it with version 2 of control groups."""
    group = "sys/fs/cgroup"
    files = {
        "proc/self/mountinfo": CONTAINER_MOUNTS,
        "proc/self/cgroup": "0::/\n",
        ".dockerenv": "",
        f"{group}/cpu.max": "150000 100000\n",
        f"{group}/memory.max": "4294967296\n",
        f"{group}/memory.high": "max\n",
        f"{group}/io.max": "259:0 rbps=104857600 wbps=max riops=5000 wiops=max\n",
    }
    return files, {}
