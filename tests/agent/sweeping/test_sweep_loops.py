"""Real sweeps, as root: btrfs RAID0 over loop devices."""

import json
import os
import shutil
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.storage.signatures import read_content, read_signatures
from tests.agent.conftest import Machine, wait_for
from tests.agent.server import HostileServer
from tests.agent.sweeping.loops import OBSTACLE, SBIN, make_loop, run_tool
from tests.short_fio import write_short_fio

MIB = 2**20
# Sparse; the minimum of mkfs.xfs is 300 MiB.
IMAGE_BYTES = 320 * MIB
MakeLoops = Callable[..., list[str]]


pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=OBSTACLE or "")


@pytest.fixture
def make_loops(tmp_path: Path) -> Iterator[MakeLoops]:
    loops: list[str] = []

    def make(count: int, *options: str) -> list[str]:
        made = []
        for _ in range(count):
            made.append(make_loop(tmp_path / f"image{len(loops)}", IMAGE_BYTES, *options))
            loops.append(made[-1])
        return made

    yield make
    if os.path.ismount(tmp_path / "spool" / "sweeps" / "mount"):
        run_tool("umount", str(tmp_path / "spool" / "sweeps" / "mount"))
    for loop in loops:
        run_tool("losetup", "--detach", loop)


def sweep(loops: list[str], *arguments: str, profile: str = "quick") -> list[str]:
    layout = ["--devices", ",".join(loops), "--raid", "btrfs", "--profile", profile]
    return ["sweep", *layout, "--set", "runtime=1", "--file-sizes", "8m", *arguments]


def are_clean(loops: list[str]) -> bool:
    return not any(read_signatures(loop) for loop in loops)


def targets(server: HostileServer) -> list[tuple[Any, ...]]:
    names = ("filesystem", "raid_level", "volume_count", "stripe_count", "chunk_size_bytes")
    envelopes = [json.loads(body) for body in server.stored.values()]
    assert len({envelope["sweep"] for envelope in envelopes}) == 1
    return [tuple(envelope["target"][name] for name in names) for envelope in envelopes]


def test_raid0_over_1_2_and_4_devices_is_measured(
    host: Machine, server: HostileServer, make_loops: MakeLoops
) -> None:
    loops = make_loops(4)

    ended = host.run(*sweep(loops, "--yes"))

    assert ended.returncode == 0, ended.stderr
    measured = targets(server)
    assert measured[0][0] == "btrfs"
    assert measured[0][2:] == (1, 1, None)
    assert measured[1:] == [("btrfs", "raid0", 2, 2, 65536), ("btrfs", "raid0", 4, 4, 65536)]
    assert are_clean(loops)
    assert not os.path.ismount(host.spool / "sweeps" / "mount")


def test_stripe_is_removed_if_the_spool_is_a_link(
    host: Machine, server: HostileServer, make_loops: MakeLoops
) -> None:
    (host.home / "large disk").mkdir()
    host.spool.symlink_to(host.home / "large disk")
    loops = make_loops(2)

    ended = host.run(*sweep(loops, "--yes"))

    assert ended.returncode == 0, ended.stderr
    assert are_clean(loops)
    assert not os.path.ismount(host.spool / "sweeps" / "mount")


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio")
def test_raid0_over_16_devices_is_measured_with_fio(
    host: Machine, server: HostileServer, make_loops: MakeLoops
) -> None:
    write_short_fio(host.home / "fio")
    loops = make_loops(16)

    # One job instead of the four of `quick`.
    ended = host.run(*sweep(loops, "--stripes", "1,16", "--yes", "--set", "ramp=0", profile="netapp-iops"))

    assert ended.returncode == 0, ended.stderr
    assert [target[3] for target in targets(server)] == [1, 16]
    for body in server.stored.values():
        report = json.loads(body)["fio_output"]
        assert all(job["error"] == 0 for job in json.loads(report[report.index("{") :])["jobs"])
    assert are_clean(loops)


@pytest.mark.parametrize(
    "filesystem",
    [
        "btrfs",
        "ext4",
        pytest.param(
            "xfs",
            marks=pytest.mark.skipif(
                shutil.which("mkfs.xfs", path=SBIN) is None,
                reason="mkfs.xfs is not installed: apt install xfsprogs",
            ),
        ),
    ],
)
def test_killed_sweep_is_cleaned_up_and_continued(
    host: Machine, server: HostileServer, make_loops: MakeLoops, filesystem: str
) -> None:
    loops = make_loops(2 if filesystem == "btrfs" else 1)
    raid = "btrfs" if filesystem == "btrfs" else "mdadm"
    arguments = [
        "--devices",
        ",".join(loops),
        "--stripes",
        str(len(loops)),
        "--raid",
        raid,
        "--fs",
        filesystem,
    ]
    mount = host.spool / "sweeps" / "mount"
    process = host.start(
        *("sweep", *arguments, "--profile", "quick", "--set", "iodepth=1,2", "--file-sizes", "8m", "--yes"),
        FAKE_FIO="hanging",
    )
    wait_for(lambda: list(mount.glob(".bench-agent-*/bench-agent.test")))
    process.kill()
    process.communicate()
    assert mount.is_mount()

    refused = host.run(*sweep(loops, "--yes"))
    ended = host.run("sweep", "--resume", "last", "--no-send")
    host.run("flush")

    assert refused.returncode == 2
    assert f"{loops[0]} is mounted at {mount}" in refused.stderr
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith(": 2 of 2 steps completed\n")
    assert [target[0] for target in targets(server)] == [filesystem] * 2
    assert (are_clean(loops), mount.is_mount()) == (True, False)


def test_signal_unmounts_and_wipes(host: Machine, server: HostileServer, make_loops: MakeLoops) -> None:
    loops = make_loops(2)
    mount = host.spool / "sweeps" / "mount"
    process = host.start(*sweep(loops, "--stripes", "2", "--yes"), FAKE_FIO="hanging")
    wait_for(lambda: list(mount.glob(".bench-agent-*/bench-agent.test")))

    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == 143
    assert "the devices are cleaned up; continue with: bench-agent sweep --resume " in stderr
    assert (are_clean(loops), mount.is_mount(), server.seen) == (True, False, [])


def test_failed_fio_is_stored_and_the_devices_are_cleaned(
    host: Machine, server: HostileServer, make_loops: MakeLoops
) -> None:
    loops = make_loops(1)

    ended = host.run(*sweep(loops, "--yes"), FAKE_FIO="failing")

    assert ended.returncode == 5
    assert "step 1 of 1, 1 stripe: fio failed with status 2: fio: ENOSPC on laying out file" in ended.stderr
    assert len(server.stored) == 1
    assert are_clean(loops)


def test_filesystem_is_refused_and_unchanged(machine: Machine, make_loops: MakeLoops) -> None:
    loops = make_loops(2)
    run_tool("mkfs.ext4", "-q", "-L", "precious", loops[1])

    ended = machine.run(*sweep(loops, "--yes", "--no-send"))

    assert ended.returncode == 2
    assert (
        f"{loops[1]} contains ext4 “precious” at byte 1080; to destroy it, add --wipe {loops[1]}"
        in ended.stderr
    )
    assert [signature.label for signature in read_signatures(loops[1])] == ["precious"]


@pytest.mark.parametrize(
    ("offset", "content"),
    [
        (2048, b"OCFSV2"),
        (65536, struct.pack(">I", 0x01161970)),  # GFS2
        (0x100000, struct.pack("<I", 0xC001D00D)),  # VMFS
        (IMAGE_BYTES - 4096, struct.pack(">2I", 0x8374026B, 0)),  # DRBD, metadata at the end
        (4096, b"!Stra0tis\x86\xff\x02^\x41rh"),
        (0, struct.pack(">I", 0x0BE5A941)),  # SGI
        (9000, b"\0\0raw data of a database"),
    ],
)
def test_data_of_unknown_formats_is_refused_and_unchanged(
    machine: Machine, make_loops: MakeLoops, offset: int, content: bytes
) -> None:
    loops = make_loops(1)
    with Path(loops[0]).open("r+b") as device:
        device.seek(offset)
        device.write(content)

    ended = machine.run(*sweep(loops, "--yes", "--no-send"))
    wiped = machine.run(*sweep(loops, "--wipe", loops[0], "--yes", "--no-send", "--dry-run"))

    assert ended.returncode == 2
    assert f"{loops[0]} contains data of an unknown format (byte " in ended.stderr
    assert f"to destroy it, add --wipe {loops[0]}" in ended.stderr
    with Path(loops[0]).open("rb") as device:
        device.seek(offset)
        assert device.read(len(content)) == content
    assert wiped.returncode == 0, wiped.stderr


def test_ext4_without_its_first_superblock_is_refused(machine: Machine, make_loops: MakeLoops) -> None:
    loops = make_loops(1)
    run_tool("mkfs.ext4", "-q", loops[0])
    run_tool(
        "dd", "if=/dev/zero", f"of={loops[0]}", "bs=4096", "count=1", "conv=notrunc,fsync", "status=none"
    )
    assert read_signatures(loops[0]) == ()
    before = read_content(loops[0])

    ended = machine.run(*sweep(loops, "--yes", "--no-send"))

    assert ended.returncode == 2
    assert "contains data of an unknown format" in ended.stderr
    assert read_content(loops[0]) == before


def test_second_sweep_over_the_same_devices_needs_no_wipe(machine: Machine, make_loops: MakeLoops) -> None:
    loops = make_loops(2)
    first = machine.run(*sweep(loops, "--yes", "--no-send"))
    assert all(read_content(loop).data_at is not None for loop in loops)

    second = machine.run(*sweep(loops, "--yes", "--no-send"))
    with Path(loops[1]).open("r+b") as device:
        device.write(b"mine now")
    third = machine.run(*sweep(loops, "--yes", "--no-send"))

    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    assert third.returncode == 2
    assert f"{loops[1]} contains data of an unknown format (byte 0 is not zero" in third.stderr
    assert f"{loops[0]} contains" not in third.stderr


def test_wipe_removes_the_named_filesystem(machine: Machine, make_loops: MakeLoops) -> None:
    loops = make_loops(2)
    for loop in loops:
        run_tool("mkfs.btrfs", "-q", "-L", "old", loop)

    ended = machine.run(*sweep(loops, "--stripes", "2", "--wipe", ",".join(loops), "--yes", "--no-send"))

    assert ended.returncode == 0, ended.stderr
    assert are_clean(loops)


def test_mounted_device_is_refused_with_any_options(
    machine: Machine, make_loops: MakeLoops, tmp_path: Path
) -> None:
    loops = make_loops(1)
    place = tmp_path / "place"
    place.mkdir()
    run_tool("mkfs.ext4", "-q", loops[0])
    run_tool("mount", loops[0], str(place))
    try:
        ended = machine.run(*sweep(loops, "--wipe", loops[0], "--yes", "--no-send"))
    finally:
        run_tool("umount", str(place))

    assert ended.returncode == 2
    assert f"{loops[0]} is mounted at {place}" in ended.stderr
    assert f"{loops[0]} is in use (exclusive open failed)" in ended.stderr
    assert [signature.name for signature in read_signatures(loops[0])] == ["ext4"]


def test_device_open_in_a_process_is_refused(machine: Machine, make_loops: MakeLoops) -> None:
    loops = make_loops(1)
    descriptor = os.open(loops[0], os.O_RDONLY | os.O_EXCL)
    try:
        ended = machine.run(*sweep(loops, "--yes", "--no-send"))
    finally:
        os.close(descriptor)

    assert ended.returncode == 2
    assert "is in use (exclusive open failed)" in ended.stderr


def test_read_only_device_is_refused(machine: Machine, make_loops: MakeLoops) -> None:
    loops = make_loops(1, "--read-only")

    ended = machine.run(*sweep(loops, "--yes", "--no-send"))

    assert ended.returncode == 2
    assert f"{loops[0]} is read-only" in ended.stderr


def test_device_under_two_names_is_refused(machine: Machine, make_loops: MakeLoops, tmp_path: Path) -> None:
    loops = make_loops(1)
    link = tmp_path / "alias"
    link.symlink_to(loops[0])

    ended = machine.run(*sweep([loops[0], str(link)], "--yes", "--no-send"))

    assert ended.returncode == 2
    assert f"{loops[0]}, {link}: the same device 2 times" in ended.stderr
