"""Signatures on a device: generated images, and real ones if this machine can create them."""

import shutil
import struct
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from agent.storage.signatures import (
    Read,
    Signature,
    find_content,
    find_signatures,
    list_samples,
    read_signatures,
)
from agent.sweeping.stripe_commands import wipe_commands

MIB = 2**20
MD = 0xA92B4EFC
ZFS = 0x00BAB10C
BCACHE = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")


def look(size_bytes: int, **pieces: bytes) -> list[Signature]:
    """Return the signatures of an otherwise empty device; keyword names are offsets: at_1080=b"…"."""
    places = {int(name.partition("_")[2]): content for name, content in pieces.items()}
    return list(find_signatures(make_reader(size_bytes, places), size_bytes))


def make_reader(size_bytes: int, places: dict[int, bytes]) -> Read:
    """Return a read function of a device of zeros with some exceptions."""

    def read(offset: int, length: int) -> bytes:
        image = bytearray(max(0, min(length, size_bytes - offset)))
        for start, content in places.items():
            for index, byte in enumerate(content):
                if 0 <= start + index - offset < len(image):
                    image[start + index - offset] = byte
        return bytes(image)

    return read


def md(name: bytes) -> bytes:
    return struct.pack("<2I", MD, 1) + bytes(24) + name.ljust(32, b"\0")


def lvm(sector: int, group: bytes) -> dict[str, bytes]:
    """Return label and metadata of a physical volume, as LVM2's layout.h has them."""
    label = b"LABELONE" + struct.pack("<QII", sector, 0, 32) + b"LVM2 001"
    areas = struct.pack("<4Q", MIB, 0, 0, 0) + struct.pack("<4Q", 4096, MIB - 4096, 0, 0)
    header = b"u" * 32 + struct.pack("<Q", 64 * MIB) + areas
    text = group + b' {\nid = "x"\n'
    locations = struct.pack("<2Q2I", 512, len(text) if group else 0, 0, 0)
    metadata = struct.pack("<I", 0) + b" LVM2 x[5A%r0N*>" + struct.pack("<I2Q", 1, 4096, MIB) + locations
    return {f"at_{sector * 512}": label + header, "at_4096": metadata, "at_4608": text if group else b""}


FORMATS: list[tuple[dict[str, bytes], str, int, str]] = [
    ({"at_1080": b"\x53\xef", "at_1144": b"old"}, "ext2", 1080, "old"),
    ({"at_1080": b"\x53\xef", "at_1116": b"\x04"}, "ext3", 1080, ""),
    ({"at_1080": b"\x53\xef", "at_1116": b"\x04\0\0\0\x40", "at_1144": b"backup"}, "ext4", 1080, "backup"),
    ({"at_0": b"XFSB", "at_108": b"data"}, "XFS", 0, "data"),
    ({"at_65600": b"_BHRfS_M", "at_65835": b"pool"}, "btrfs", 65600, "pool"),
    ({"at_67108928": b"_BHRfS_M"}, "btrfs copy", 67108928, ""),
    ({"at_4086": b"SWAPSPACE2", "at_1052": b"swap1"}, "swap", 4086, "swap1"),
    ({"at_65526": b"SWAPSPACE2"}, "swap", 65526, ""),
    ({"at_4086": b"S1SUSPEND\0"}, "swap", 4086, ""),
    (lvm(1, b"vg0"), "LVM2", 512, "vg0"),
    (lvm(3, b""), "LVM2", 1536, ""),
    ({"at_0": md(b"box:fast")}, "md 1.1", 0, "box:fast"),
    ({"at_4096": md(b"fast")}, "md 1.2", 4096, "fast"),
    # The last 8 KiB to 12 KiB, at whole 4 KiB: 128 MiB − 8 KiB.
    ({"at_134209536": md(b"")}, "md 1.0", 134209536, ""),
    ({"at_134152192": struct.pack("<2I", MD, 0)}, "md 0.90", 134152192, ""),
    ({"at_134152192": struct.pack(">2I", MD, 0)}, "md 0.90", 134152192, ""),
    ({"at_0": b"LUKS\xba\xbe\x00\x01"}, "LUKS1", 0, ""),
    ({"at_0": b"LUKS\xba\xbe\x00\x02", "at_24": b"secret"}, "LUKS2", 0, "secret"),
    ({"at_16384": b"SKUL\xba\xbe\x00\x02"}, "LUKS2 copy", 16384, ""),
    ({"at_4194304": b"SKUL\xba\xbe\x00\x02"}, "LUKS2 copy", 4194304, ""),
    ({"at_4120": BCACHE}, "bcache", 4120, ""),
    ({"at_131072": struct.pack("<Q", ZFS)}, "ZFS", 131072, ""),
    ({"at_397312": struct.pack(">Q", ZFS)}, "ZFS", 397312, ""),
    # The last of four labels, at 128 MiB − 256 KiB.
    ({"at_134086656": struct.pack("<Q", ZFS)}, "ZFS", 134086656, ""),
    ({"at_510": b"\x55\xaa"}, "MBR partition table", 510, ""),
    ({"at_512": b"EFI PART"}, "GPT", 512, ""),
    ({"at_4096": b"EFI PART"}, "GPT", 4096, ""),
    ({"at_134217216": b"EFI PART"}, "GPT backup", 134217216, ""),
    ({"at_32769": b"CD001", "at_32808": b"DEBIAN"}, "ISO 9660", 32769, "DEBIAN"),
    ({"at_3": b"NTFS    ", "at_510": b"\x55\xaa"}, "NTFS", 3, ""),
    ({"at_3": b"EXFAT   ", "at_510": b"\x55\xaa"}, "exFAT", 3, ""),
    ({"at_54": b"FAT16   ", "at_43": b"STICK", "at_510": b"\x55\xaa"}, "FAT", 54, "STICK"),
    ({"at_82": b"FAT32   ", "at_71": b"STICK", "at_510": b"\x55\xaa"}, "FAT32", 82, "STICK"),
    ({"at_1024": b"\x10\x20\xf5\xf2"}, "f2fs", 1024, ""),
    ({"at_0": b"bluestore block device\n"}, "Ceph BlueStore", 0, ""),
]


@pytest.mark.parametrize(("pieces", "name", "offset", "label"), FORMATS)
def test_format_is_recognized_by_its_magic_number(
    pieces: dict[str, bytes], name: str, offset: int, label: str
) -> None:
    assert look(128 * MIB, **pieces) == [Signature(name, offset, label)]


@pytest.mark.parametrize("offset", [0, 1000, 4 * MIB - 1, 124 * MIB, 128 * MIB - 1])
def test_single_byte_at_either_end_is_data(offset: int) -> None:
    content = find_content(make_reader(128 * MIB, {offset: b"\x01"}), 128 * MIB)

    assert content.data_at == offset


def test_samples_are_spread_evenly_between_the_ends() -> None:
    samples = list_samples(2**40)

    assert samples[0] == (0, 4 * MIB)
    assert samples[-1] == (2**40 - 4 * MIB, 4 * MIB)
    assert samples[1] == (4 * MIB, 65536)
    assert samples[-2] == (2**40 - 4 * MIB - 65536, 65536)
    distances = [second[0] - first[0] for first, second in pairwise(samples[1:-1])]
    assert len(distances) == 63
    assert max(distances) - min(distances) <= 4096


@pytest.mark.parametrize("number", [1, 17, 64])
def test_byte_in_any_sample_is_data(number: int) -> None:
    offset, length = list_samples(2**40)[number]

    content = find_content(make_reader(2**40, {offset + length - 1: b"\xff"}), 2**40)

    assert content.data_at == offset + length - 1


@pytest.mark.parametrize("size_bytes", [0, 512, 8 * MIB, 12 * MIB, 12 * MIB + 4096, 2**40])
def test_zeros_are_not_data_at_any_size(size_bytes: int) -> None:
    assert find_content(make_reader(size_bytes, {}), size_bytes).data_at is None


def test_content_is_recognized_by_its_digest() -> None:
    digests = [
        find_content(make_reader(size, {at: b"x"}), size).digest
        for size, at in [(16 * MIB, 0), (16 * MIB, 0), (16 * MIB, 1), (17 * MIB, 0)]
    ]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.mark.skipif(shutil.which("wipefs") is None, reason="wipefs is not installed: apt install util-linux")
@pytest.mark.parametrize(
    "pieces",
    [
        *(pieces for pieces, *_ in FORMATS),
        {f"at_{131072 + 1024 * n}": struct.pack("<Q", ZFS) for n in range(128)},
    ],
)
def test_reported_signatures_are_removed_by_a_wipe(tmp_path: Path, pieces: dict[str, bytes]) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(128 * MIB)
        for name, content in pieces.items():
            file.seek(int(name.partition("_")[2]))
            file.write(content)

    for argv in wipe_commands([(str(image), read_signatures(str(image)))]):
        subprocess.run(argv, check=True, capture_output=True)

    assert read_signatures(str(image)) == ()


def test_btrfs_has_a_third_copy_on_a_large_device() -> None:
    assert look(2**40, at_274877907008=b"_BHRfS_M") == [Signature("btrfs copy", 274877907008)]


def test_empty_device_has_no_signatures() -> None:
    assert look(128 * MIB) == []


@pytest.mark.parametrize("size_bytes", [0, 1, 512, 4096, 65536])
def test_tiny_device_is_read_without_error(size_bytes: int) -> None:
    assert look(size_bytes) == []


def test_signatures_are_sorted_by_offset() -> None:
    found = look(128 * MIB, at_510=b"\x55\xaa", at_512=b"EFI PART", at_0=b"XFSB")

    assert [signature.name for signature in found] == ["XFS", "MBR partition table", "GPT"]


def test_label_loses_control_characters() -> None:
    (signature,) = look(128 * MIB, at_0=b"XFSB", at_108=b"\x1b[2Jx\xff")

    assert signature.describe() == "XFS “[2Jx�” at byte 0"


@pytest.mark.parametrize(
    ("command", "name", "label"),
    [
        (["mkfs.ext4", "-q", "-L", "real"], "ext4", "real"),
        (["mkfs.ext2", "-q", "-L", "real"], "ext2", "real"),
        (["mkfs.ext3", "-q", "-L", "real"], "ext3", "real"),
        (["mkfs.btrfs", "-q", "-L", "real"], "btrfs", "real"),
        (["mkswap", "-L", "real"], "swap", "real"),
        (["mkfs.xfs", "-q", "-L", "real"], "XFS", "real"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_real_format_is_recognized(tmp_path: Path, command: list[str], name: str, label: str) -> None:
    tool = shutil.which(command[0], path="/usr/sbin:/sbin:/usr/bin:/bin")
    if tool is None:
        pytest.skip(f"{command[0]} is not installed")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    subprocess.run([tool, *command[1:], str(image)], check=True, capture_output=True)

    first, *others = read_signatures(str(image))

    assert (first.name, first.label) == (name, label)
    assert [signature.name for signature in others] == (["btrfs copy"] if name == "btrfs" else [])
