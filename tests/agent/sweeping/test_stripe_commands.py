"""The commands that build and remove a stripe, compared with expected lists."""

import shlex
from pathlib import Path

import pytest

from agent.exit_codes import CannotMeasure, ConfigurationError, Interrupted
from agent.measuring.fio import StopSignals
from agent.storage.signatures import Signature
from agent.sweeping.stripe_commands import (
    Stripe,
    StripeState,
    build_commands,
    check_stripe,
    is_ours,
    list_tools,
    predict_state,
    undo_commands,
    wipe_commands,
)
from agent.sweeping.sweep_run import find_arrays, wait_until_named
from tests.agent.storage.trees import disk, join, slaves, write_tree

DEVICES = ("/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1", "/dev/nvme4n1")
GIB = 2**30


def make_stripe(count: int, raid: str, filesystem: str, chunk_bytes: int = 512 * 1024) -> Stripe:
    return Stripe(DEVICES[:count], raid, filesystem, chunk_bytes, "/mnt")


def lines(commands: tuple[tuple[str, ...], ...]) -> list[str]:
    return [shlex.join(argv) for argv in commands]


MDADM_4 = [
    (
        "mdadm --create /dev/md/bench-agent --run --level=0 --raid-devices=4 --chunk=512K --metadata=1.2 "
        "/dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1"
    ),
    "mkfs.xfs -f -q -L bench-agent /dev/md/bench-agent",
    "mount -t xfs -o noatime /dev/md/bench-agent /mnt",
]
MDADM_4_UNDONE = [
    "umount /mnt",
    "wipefs --all /dev/md/bench-agent",
    "mdadm --stop /dev/md/bench-agent",
    "mdadm --zero-superblock /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1",
]
LVM_2 = [
    "pvcreate --yes /dev/nvme1n1 /dev/nvme2n1",
    "vgcreate --yes bench-agent /dev/nvme1n1 /dev/nvme2n1",
    "lvcreate --yes --type striped --stripes 2 --stripesize 64k --extents 100%FREE --name stripe bench-agent",
    "mkfs.ext4 -F -q -E lazy_itable_init=0,lazy_journal_init=0 -L bench-agent /dev/bench-agent/stripe",
    "mount -t ext4 -o noatime /dev/bench-agent/stripe /mnt",
]
LVM_2_UNDONE = [
    "umount /mnt",
    "wipefs --all /dev/bench-agent/stripe",
    "vgremove --force --yes bench-agent",
    "pvremove --yes /dev/nvme1n1 /dev/nvme2n1",
]
BTRFS_2 = [
    "mkfs.btrfs -f -q -d raid0 -m raid0 -L bench-agent /dev/nvme1n1 /dev/nvme2n1",
    "mount -t btrfs -o noatime /dev/nvme1n1 /mnt",
]
BTRFS_2_UNDONE = [
    "umount /mnt",
    "wipefs --all /dev/nvme1n1 /dev/nvme2n1",
    "dd if=/dev/zero of=/dev/nvme1n1 bs=512 seek=131072 count=1 conv=notrunc,fsync status=none",
    "dd if=/dev/zero of=/dev/nvme2n1 bs=512 seek=131072 count=1 conv=notrunc,fsync status=none",
]
BTRFS_1 = [
    "mkfs.btrfs -f -q -d single -m single -L bench-agent /dev/nvme1n1",
    "mount -t btrfs -o noatime /dev/nvme1n1 /mnt",
]
BARE_1 = ["mkfs.xfs -f -q -L bench-agent /dev/nvme1n1", "mount -t xfs -o noatime /dev/nvme1n1 /mnt"]
BARE_1_UNDONE = ["umount /mnt", "wipefs --all /dev/nvme1n1"]
BTRFS_ON_MDADM = [
    (
        "mdadm --create /dev/md/bench-agent --run --level=0 --raid-devices=2 --chunk=64K --metadata=1.2 "
        "/dev/nvme1n1 /dev/nvme2n1"
    ),
    "mkfs.btrfs -f -q -d single -m single -L bench-agent /dev/md/bench-agent",
    "mount -t btrfs -o noatime /dev/md/bench-agent /mnt",
]


@pytest.mark.parametrize(
    ("stripe", "commands"),
    [
        (make_stripe(4, "mdadm", "xfs"), MDADM_4),
        (make_stripe(2, "lvm", "ext4", 64 * 1024), LVM_2),
        (make_stripe(2, "btrfs", "btrfs", 64 * 1024), BTRFS_2),
        (make_stripe(1, "btrfs", "btrfs", 64 * 1024), BTRFS_1),
        (make_stripe(1, "mdadm", "xfs"), BARE_1),
        (make_stripe(1, "lvm", "xfs"), BARE_1),
        (make_stripe(2, "mdadm", "btrfs", 64 * 1024), BTRFS_ON_MDADM),
    ],
)
def test_stripe_is_built_with_the_expected_commands(stripe: Stripe, commands: list[str]) -> None:
    assert lines(build_commands(stripe)) == commands


@pytest.mark.parametrize(
    ("stripe", "commands"),
    [
        (make_stripe(4, "mdadm", "xfs"), MDADM_4_UNDONE),
        (make_stripe(2, "lvm", "ext4", 64 * 1024), LVM_2_UNDONE),
        (make_stripe(2, "btrfs", "btrfs", 64 * 1024), BTRFS_2_UNDONE),
        (make_stripe(1, "mdadm", "xfs"), BARE_1_UNDONE),
    ],
)
def test_stripe_is_removed_with_the_expected_commands(stripe: Stripe, commands: list[str]) -> None:
    assert lines(undo_commands(stripe, predict_state(stripe, size_bytes=100 * GIB))) == commands


def test_third_copy_of_btrfs_is_expected_on_a_large_device() -> None:
    stripe = make_stripe(1, "btrfs", "btrfs")

    commands = lines(undo_commands(stripe, predict_state(stripe, size_bytes=500 * GIB)))

    assert commands[-1].startswith("dd if=/dev/zero of=/dev/nvme1n1 bs=512 seek=536870912 count=1")


@pytest.mark.parametrize(
    ("found", "commands"),
    [
        (StripeState(), []),
        (StripeState(is_mounted=True), ["umount /mnt"]),
        # Assembled after a reboot, with another number.
        (
            StripeState(
                arrays=("/dev/md127",), signatures=(("/dev/a", (Signature("md 1.2", 4096, "h:x"),)),)
            ),
            ["mdadm --stop /dev/md127", "mdadm --zero-superblock /dev/a"],
        ),
        # Killed between pvcreate and vgcreate.
        (StripeState(signatures=(("/dev/a", (Signature("LVM2", 512),)),)), ["pvremove --yes /dev/a"]),
        # Killed between mdadm and mkfs of the first round, with mkfs of the next one done.
        (
            StripeState(signatures=(("/dev/a", (Signature("XFS", 0),)), ("/dev/b", ()))),
            ["wipefs --all /dev/a"],
        ),
    ],
)
def test_only_existing_parts_are_removed(found: StripeState, commands: list[str]) -> None:
    assert lines(undo_commands(make_stripe(2, "mdadm", "xfs"), found)) == commands


def test_wipe_removes_all_signatures_of_the_named_devices_only() -> None:
    signatures = [
        ("/dev/a", [Signature("md 0.90", 65536), Signature("LVM2", 512)]),
        ("/dev/b", []),
        ("/dev/c", [Signature("btrfs", 65600), Signature("btrfs copy", 67108928)]),
    ]

    assert lines(wipe_commands(signatures)) == [
        "wipefs --all /dev/a /dev/c",
        "dd if=/dev/zero of=/dev/a bs=512 seek=128 count=1 conv=notrunc,fsync status=none",
        "dd if=/dev/zero of=/dev/a bs=512 seek=1 count=1 conv=notrunc,fsync status=none",
        "dd if=/dev/zero of=/dev/c bs=512 seek=128 count=1 conv=notrunc,fsync status=none",
        "dd if=/dev/zero of=/dev/c bs=512 seek=131072 count=1 conv=notrunc,fsync status=none",
    ]


@pytest.mark.parametrize(
    ("signature", "answer"),
    [
        (Signature("XFS", 0, "bench-agent"), True),
        (Signature("md 1.2", 4096, "box:bench-agent"), True),
        (Signature("md 1.2", 4096, "bench-agent"), True),
        (Signature("LVM2", 512, "bench-agent"), True),
        (Signature("LVM2", 512, ""), True),
        (Signature("LVM2", 512, "vg0"), False),
        (Signature("XFS", 0, ""), False),
        (Signature("ext4", 1080, "bench-agent-2"), False),
        (Signature("GPT", 512), False),
    ],
)
def test_signatures_of_a_sweep_are_recognized_by_their_name(signature: Signature, answer: bool) -> None:
    assert is_ours(signature) is answer


@pytest.mark.parametrize(
    ("stripe", "message"),
    [
        (make_stripe(2, "btrfs", "xfs"), "--raid btrfs cannot be combined with --fs xfs"),
        (make_stripe(2, "btrfs", "btrfs"), "--chunk 512 KiB: btrfs has a fixed chunk size of 64 KiB"),
        (make_stripe(2, "mdadm", "xfs", 5000), "--chunk 4.88 KiB: must be a power of two"),
        (make_stripe(2, "mdadm", "xfs", 2048), "--chunk 2 KiB: must be a power of two from 4k"),
        (make_stripe(2, "lvm", "xfs", 8 * 2**20), "--chunk 8 MiB: must be a power of two from 4k to 4m"),
    ],
)
def test_invalid_stripe_is_refused(stripe: Stripe, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_stripe(stripe)


def test_facts_describe_the_built_stripe() -> None:
    assert make_stripe(4, "mdadm", "xfs").list_facts() == {
        "raid_level": "raid0",
        "stripe_count": 4,
        "chunk_size_bytes": 524288,
        "volume_count": 4,
        "filesystem": "xfs",
    }


def test_one_device_is_one_stripe_without_raid_and_chunk() -> None:
    assert make_stripe(1, "mdadm", "xfs").list_facts() == {
        "raid_level": None,
        "stripe_count": 1,
        "chunk_size_bytes": None,
        "volume_count": 1,
        "filesystem": "xfs",
    }


def test_one_device_needs_no_tool_for_raid() -> None:
    assert list_tools(make_stripe(1, "mdadm", "xfs")) == ("mkfs.xfs", "mount", "umount", "wipefs", "dd")
    assert list_tools(make_stripe(2, "mdadm", "xfs"))[0] == "mdadm"
    assert "vgcreate" in list_tools(make_stripe(2, "lvm", "xfs"))


def test_array_is_found_by_its_members(tmp_path: Path) -> None:
    files, links = join(
        disk("md127", "9:127", md__level="raid0\n"),
        disk("nvme1n1", "259:1", holders__md127=""),
        disk("nvme2n1", "259:2", holders__md127=""),
    )
    links.update(
        {**slaves("md127", "nvme1n1", "nvme2n1"), "sys/class/block/md127": "sys/devices/virtual/block/md127"}
    )
    root = write_tree(tmp_path, files, links)

    assert find_arrays(["/dev/nvme1n1", "/dev/nvme2n1"], root=root) == ("/dev/md127",)
    assert find_arrays(["/dev/nvme1n1"], root=root) == ()
    assert find_arrays([], root=root) == ()


def test_partly_assembled_array_is_found(tmp_path: Path) -> None:
    files, links = join(
        disk("md127", "9:127", md__level="\n", md__array_state="inactive\n"),
        disk("nvme1n1", "259:1", holders__md127=""),
    )
    root = write_tree(tmp_path, files, {**links, **slaves("md127", "nvme1n1")})

    assert find_arrays(["/dev/nvme1n1", "/dev/nvme2n1"], root=root) == ("/dev/md127",)


def test_filesystem_is_not_created_before_the_array_is_named(tmp_path: Path) -> None:
    node = tmp_path / "bench-agent"

    wait_until_named(str(node), stop=StopSignals(), tick=node.touch)

    assert node.exists()


def test_array_without_a_link_of_udev_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.sweeping.sweep_run._NAMED_S", -1.0)

    with pytest.raises(CannotMeasure, match="/dev/md/x was created but does not exist"):
        wait_until_named("/dev/md/x", stop=StopSignals(), tick=lambda: None)


def test_signal_ends_the_wait_for_a_name() -> None:
    stop = StopSignals()
    stop.received = 15

    with pytest.raises(Interrupted, match="stopped before /dev/md/x existed"):
        wait_until_named("/dev/md/x", stop=stop, tick=lambda: None)
