"""Detect data on block devices by magic numbers: filesystems, partition tables, RAID, LVM, encryption, swap.

No list of formats is complete, so the ends of a device and samples between them are also read: any byte other than
zero counts as data.

Offsets are from the specifications of the formats: the kernel's headers (ext4.h, xfs_format.h, btrfs_tree.h, md_p.h,
swap.h, bcache.h, f2fs_fs.h), the LUKS1 and LUKS2 on-disk formats, LVM2's label.h and layout.h, the ZFS on-disk
specification, UEFI's GPT, ECMA-119, and the boot sectors of FAT, exFAT and NTFS.
"""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable, Iterator, NamedTuple, Sequence

# Returns length bytes at offset, fewer at the end of the device.
Read = Callable[[int, int], bytes]

_KIB = 1024
_SECTOR_BYTES = 512
_PAGE_SIZES = (4 * _KIB, 8 * _KIB, 16 * _KIB, 32 * _KIB, 64 * _KIB)
# Includes swap with a hibernation image.
_SWAP_MAGICS = (b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001")
_BTRFS_MAGIC = b"_BHRfS_M"
_BTRFS_COPIES = (64 * _KIB, 64 * _KIB**2, 256 * _KIB**3)
_MD_MAGIC = 0xA92B4EFC
_LUKS_COPIES = tuple(0x4000 << shift for shift in range(9))
_BCACHE_MAGICS = {
    "bcache": bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"),
    "bcachefs": bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef"),
}
_ZFS_LABEL_BYTES = 256 * _KIB
_ZFS_UBERBLOCK = 0x00BAB10C
_LVM_MDA_MAGIC = b" LVM2 x[5A%r0N*>"
# The metadata of a volume group begins with its name, which has 127 characters at most.
_LVM_NAME_MAXIMUM = 128
# Formats not listed here start or end within this range; includes the tables of ext4 after its superblock.
_END_BYTES = 4 * _KIB**2
# Between the ends: together 4 MiB, and at most about a second of seeks on a hard disk.
_SAMPLES = 64
_SAMPLE_BYTES = 64 * _KIB
_ALIGNMENT_BYTES = 4 * _KIB
# Their boot sectors have the signature of an MBR.
_BOOT_SECTORS = ("FAT", "FAT32", "exFAT", "NTFS", "BitLocker")


@dataclass(frozen=True)
class Signature:
    """A detected magic number. label: the user-defined name, "" for none."""

    name: str
    offset_bytes: int
    label: str = ""

    def describe(self) -> str:
        """Return it as text: ext4 “backup” at byte 1080."""
        label = f" “{self.label}”" if self.label else ""
        return f"{self.name}{label} at byte {self.offset_bytes}"


@dataclass(frozen=True)
class Content:
    """The ends and samples of a device.

    data_at: offset of the first byte other than zero, or None; digest: SHA-256 of size and bytes, to compare contents.
    """

    data_at: int | None = None
    digest: str = ""


EMPTY = Content()


class _Magic(NamedTuple):
    """A constant at a fixed offset, from the end if negative. label: offset and length of the label."""

    name: str
    offset_bytes: int
    magic: bytes
    label: tuple[int, int] | None = None


_MAGICS = (
    _Magic("XFS", 0, b"XFSB", (108, 12)),
    _Magic("LUKS1", 0, b"LUKS\xba\xbe\x00\x01"),
    _Magic("LUKS2", 0, b"LUKS\xba\xbe\x00\x02", (24, 48)),
    _Magic("NTFS", 3, b"NTFS    "),
    _Magic("exFAT", 3, b"EXFAT   "),
    _Magic("BitLocker", 3, b"-FVE-FS-"),
    _Magic("FAT", 54, b"FAT", (43, 11)),
    _Magic("FAT32", 82, b"FAT32   ", (71, 11)),
    _Magic("GPT", 512, b"EFI PART"),
    _Magic("GPT", 4096, b"EFI PART"),
    _Magic("GPT backup", -512, b"EFI PART"),
    _Magic("GPT backup", -4096, b"EFI PART"),
    _Magic("f2fs", 1024, b"\x10\x20\xf5\xf2"),
    _Magic("f2fs", 5120, b"\x10\x20\xf5\xf2"),
    _Magic("ISO 9660", 0x8001, b"CD001", (0x8028, 32)),
    _Magic("UDF", 0x8001, b"BEA01"),
    _Magic("squashfs", 0, b"hsqs"),
    _Magic("erofs", 1024, b"\xe2\xe1\xf5\xe0"),
    _Magic("JFS", 0x8000, b"JFS1"),
    _Magic("ReiserFS", 0x10034, b"ReIsEr"),
    _Magic("HFS+", 1024, b"H+\x00\x04"),
    _Magic("APFS", 32, b"NXSB"),
    _Magic("Ceph BlueStore", 0, b"bluestore block device"),
    _Magic("Oracle ASM", 32, b"ORCLDISK"),
    _Magic("VDO", 0, b"dmvdo001"),
    _Magic("Intel RAID", -1024, b"Intel Raid ISM Cfg Sig. "),
    _Magic("DDF RAID", -512, b"\xde\x11\xde\x11"),
)


def read_signatures(path: str) -> tuple[Signature, ...]:
    """Return the signatures of the device or image at path; OSError if it cannot be read."""
    with _open_device(path) as (read, size_bytes):
        return find_signatures(read, size_bytes)


def read_content(path: str) -> Content:
    """Return the sampled content of the device or image at path; OSError if it cannot be read."""
    with _open_device(path) as (read, size_bytes):
        return find_content(read, size_bytes)


def find_signatures(read: Read, size_bytes: int) -> tuple[Signature, ...]:
    """Return all signatures of a device of size_bytes, by offset."""
    found: list[Signature] = []
    for detect in _DETECTORS:
        found.extend(detect(read, size_bytes))
    if not any(signature.name in _BOOT_SECTORS for signature in found):
        found.extend(_find_mbr(read))
    return tuple(sorted(set(found), key=lambda signature: (signature.offset_bytes, signature.name)))


def find_content(read: Read, size_bytes: int) -> Content:
    """Return the content of the first and last 4 MiB and of 64 samples of a device of size_bytes."""
    digest = hashlib.sha256(str(size_bytes).encode())
    data_at = None
    for offset, length in list_samples(size_bytes):
        piece = read(offset, length)
        digest.update(piece)
        # The comparison takes a tenth of the time of `lstrip`, and most samples are zeros.
        if data_at is None and piece != bytes(len(piece)):
            data_at = offset + len(piece) - len(piece.lstrip(b"\0"))
    return Content(data_at, digest.hexdigest())


def list_samples(size_bytes: int) -> list[tuple[int, int]]:
    """Return offset and length of the checked ranges of a device of size_bytes, in order."""
    if size_bytes <= 2 * _END_BYTES + _SAMPLES * _SAMPLE_BYTES:
        return [(0, size_bytes)]
    between_bytes = size_bytes - 2 * _END_BYTES - _SAMPLE_BYTES
    offsets = (_END_BYTES + between_bytes * number // (_SAMPLES - 1) for number in range(_SAMPLES))
    samples = [(offset // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES, _SAMPLE_BYTES) for offset in offsets]
    return [(0, _END_BYTES), *samples, (size_bytes - _END_BYTES, _END_BYTES)]


@contextmanager
def _open_device(path: str) -> Iterator[tuple[Read, int]]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
        # The page cache of this device does not show what an array wrote below it.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        yield lambda offset, length: os.pread(descriptor, length, offset), size_bytes
    finally:
        os.close(descriptor)


def _find_constants(read: Read, size_bytes: int) -> Iterator[Signature]:
    for name, offset, magic, label in _MAGICS:
        start = offset if offset >= 0 else size_bytes + offset
        if start >= 0 and read(start, len(magic)) == magic:
            yield Signature(name, start, _read_text(read, *label) if label else "")


def _find_mbr(read: Read) -> Iterator[Signature]:
    if read(510, 2) == b"\x55\xaa":
        yield Signature("MBR partition table", 510)


def _find_ext(read: Read, size_bytes: int) -> Iterator[Signature]:
    superblock = read(1024, 136)
    if superblock[56:58] != b"\x53\xef" or len(superblock) < 136:
        return
    compatible, incompatible, read_only = struct.unpack_from("<3I", superblock, 92)
    # Features that ext3 lacks: extents, 64 bit, flexible groups; huge files, group checksums.
    is_ext4 = incompatible & ~0x1F or read_only & ~0x7
    name = "ext4" if is_ext4 else "ext3" if compatible & 0x4 else "ext2"
    yield Signature(name, 1080, _clean(superblock[120:136]))


def _find_btrfs(read: Read, size_bytes: int) -> Iterator[Signature]:
    for start in _BTRFS_COPIES:
        if read(start + 64, 8) == _BTRFS_MAGIC:
            name = "btrfs" if start == _BTRFS_COPIES[0] else "btrfs copy"
            yield Signature(name, start + 64, _read_text(read, start + 299, 256))


def _find_swap(read: Read, size_bytes: int) -> Iterator[Signature]:
    for page_bytes in _PAGE_SIZES:
        if read(page_bytes - 10, 10).startswith(_SWAP_MAGICS):
            yield Signature("swap", page_bytes - 10, _read_text(read, 1052, 16))


def _find_lvm(read: Read, size_bytes: int) -> Iterator[Signature]:
    for sector in range(4):
        header = read(sector * _SECTOR_BYTES, _SECTOR_BYTES)
        if header[:8] == b"LABELONE":
            name = "LVM2" if header[24:32] == b"LVM2 001" else "LVM"
            yield Signature(name, sector * _SECTOR_BYTES, _read_volume_group(read, header))


def _read_volume_group(read: Read, header: bytes) -> str:
    """Return the name of the volume group by a label sector; "" for a volume without a group."""
    (start,) = struct.unpack_from("<I", header, 20)
    position = start + 40  # after the volume's id and size
    lists: list[list[int]] = [[], []]  # offsets of data areas, then of metadata areas
    for areas in lists:
        while position + 16 <= len(header):
            offset, length = struct.unpack_from("<2Q", header, position)
            position += 16
            if not (offset or length):
                break
            areas.append(offset)
    for offset in lists[1]:
        metadata = read(offset, 64)
        if metadata[4:20] == _LVM_MDA_MAGIC and len(metadata) == 64:
            text_offset, text_bytes = struct.unpack_from("<2Q", metadata, 40)
            if text_bytes:
                text = read(offset + text_offset, _LVM_NAME_MAXIMUM)
                return text.split(b" ")[0].split(b"\n")[0].decode("ascii", "replace")
    return ""


def _find_md(read: Read, size_bytes: int) -> Iterator[Signature]:
    places = {"md 1.1": 0, "md 1.2": 4096, "md 1.0": (size_bytes // _SECTOR_BYTES - 16 & ~7) * _SECTOR_BYTES}
    for name, offset in places.items():
        superblock = read(offset, 64) if offset >= 0 else b""
        if len(superblock) == 64 and struct.unpack_from("<2I", superblock) == (_MD_MAGIC, 1):
            yield Signature(name, offset, _clean(superblock[32:64]))
    last = size_bytes // (64 * _KIB) * 64 * _KIB - 64 * _KIB
    start = read(last, 8) if last >= 0 else b""
    # 0.90 uses the byte order of the machine that created it; its major version is 0, that of 1.0 is 1.
    if start in (struct.pack("<2I", _MD_MAGIC, 0), struct.pack(">2I", _MD_MAGIC, 0)):
        yield Signature("md 0.90", last)


def _find_luks_copies(read: Read, size_bytes: int) -> Iterator[Signature]:
    for offset in _LUKS_COPIES:
        if read(offset, 6) == b"SKUL\xba\xbe":
            yield Signature("LUKS2 copy", offset, _read_text(read, offset + 24, 48))


def _find_bcache(read: Read, size_bytes: int) -> Iterator[Signature]:
    found = read(4096 + 24, 16)
    for name, magic in _BCACHE_MAGICS.items():
        if found == magic:
            yield Signature(name, 4096 + 24)


def _find_zfs(read: Read, size_bytes: int) -> Iterator[Signature]:
    """Search the uberblocks, a ring of 128 KiB in each of the four labels; one per label is enough."""
    end = size_bytes // _ZFS_LABEL_BYTES * _ZFS_LABEL_BYTES
    magics = (struct.pack("<Q", _ZFS_UBERBLOCK), struct.pack(">Q", _ZFS_UBERBLOCK))
    for start in (0, _ZFS_LABEL_BYTES, end - 2 * _ZFS_LABEL_BYTES, end - _ZFS_LABEL_BYTES):
        ring = read(start + 128 * _KIB, 128 * _KIB) if start >= 0 else b""
        for position in range(0, len(ring), _KIB):
            if ring[position : position + 8] in magics:
                yield Signature("ZFS", start + 128 * _KIB + position)
                break


_DETECTORS: Sequence[Callable[[Read, int], Iterator[Signature]]] = (
    _find_constants,
    _find_ext,
    _find_btrfs,
    _find_swap,
    _find_lvm,
    _find_md,
    _find_luks_copies,
    _find_bcache,
    _find_zfs,
)


def _read_text(read: Read, offset: int, length: int) -> str:
    return _clean(read(offset, length))


def _clean(text: bytes) -> str:
    """Return a label up to its NUL, without control characters."""
    name = text.split(b"\0")[0].decode("utf-8", "replace")
    return "".join(character for character in name if character.isprintable()).strip()
