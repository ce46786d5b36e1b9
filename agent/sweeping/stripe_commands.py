"""The commands that create a filesystem over devices and remove it; nothing here runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from agent.exit_codes import ConfigurationError
from agent.quantities import format_size
from agent.storage.signatures import Signature

# Name of the array, volume group and filesystem of a sweep. Nothing else is ever removed.
# XFS labels have at most 12 characters.
NAME = "bench-agent"
ARRAY = f"/dev/md/{NAME}"
VOLUME = f"/dev/{NAME}/stripe"
RAIDS = ("mdadm", "lvm", "btrfs")
FILESYSTEMS = ("xfs", "ext4", "btrfs")
# BTRFS_STRIPE_LEN of the kernel, which is fixed.
BTRFS_CHUNK_BYTES = 64 * 1024
CHUNK_DEFAULT_BYTES = 512 * 1024
_CHUNK_MINIMUM_BYTES = 4 * 1024
# lvcreate refuses stripes wider than an extent, which is 4 MiB.
_CHUNK_MAXIMUM_BYTES = 4 * 1024**2
# Minimum sizes of mkfs.btrfs (per device), mkfs.xfs since 5.19, and mkfs.ext4.
_SIZE_MINIMUM_BYTES = {"btrfs": 109 * 2**20, "xfs": 300 * 2**20, "ext4": 16 * 2**20}
_SECTOR_BYTES = 512
# A label of ZFS is 256 KiB, and ends with the ring of its uberblocks.
_ZFS_LABEL_SECTORS = 512


@dataclass(frozen=True)
class Stripe:
    """A filesystem over devices: striped by raid if there are several, else on the device itself.

    chunk_bytes: chunk size of the stripe.
    """

    devices: tuple[str, ...]
    raid: str
    filesystem: str
    chunk_bytes: int
    mount_point: str

    @property
    def layer(self) -> str | None:
        """Return the striping method; None for one device."""
        return self.raid if len(self.devices) > 1 else None

    @property
    def volume(self) -> str:
        """Return the mounted device."""
        return {"mdadm": ARRAY, "lvm": VOLUME}.get(self.layer or "", self.devices[0])

    def list_facts(self) -> dict[str, Any]:
        """Return the target fields that are known from building it."""
        count = len(self.devices)
        return {
            "raid_level": "raid0" if count > 1 else None,
            "stripe_count": count,
            "chunk_size_bytes": self.chunk_bytes if count > 1 else None,
            "volume_count": count,
            "filesystem": self.filesystem,
        }


@dataclass(frozen=True)
class StripeState:
    """The existing parts of a stripe. arrays: md devices over its devices; has_group: the volume group exists.

    volumes: arrays and logical volumes that can be opened; signatures: by device.
    """

    is_mounted: bool = False
    volumes: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    has_group: bool = False
    signatures: tuple[tuple[str, tuple[Signature, ...]], ...] = ()


def check_stripe(stripe: Stripe) -> None:
    """Raise ConfigurationError for unsupported combinations."""
    if stripe.raid == "btrfs" and stripe.filesystem != "btrfs":
        raise ConfigurationError(f"--raid btrfs cannot be combined with --fs {stripe.filesystem}")
    chunk = stripe.chunk_bytes
    if stripe.raid == "btrfs" and chunk != BTRFS_CHUNK_BYTES:
        raise ConfigurationError(f"--chunk {format_size(chunk)}: btrfs has a fixed chunk size of 64 KiB")
    if not _CHUNK_MINIMUM_BYTES <= chunk <= _CHUNK_MAXIMUM_BYTES or chunk & (chunk - 1):
        raise ConfigurationError(f"--chunk {format_size(chunk)}: must be a power of two from 4k to 4m")


def find_size_minimum(filesystem: str) -> int:
    """Return the bytes that each device needs for this filesystem alone."""
    return _SIZE_MINIMUM_BYTES[filesystem]


def list_tools(stripe: Stripe) -> tuple[str, ...]:
    """Return the programs that build_commands and undo_commands call."""
    tools = {"mdadm": ("mdadm",), "lvm": ("pvcreate", "vgcreate", "lvcreate", "vgremove", "pvremove", "vgs")}
    return (
        *tools.get(stripe.layer or "", ()),
        f"mkfs.{stripe.filesystem}",
        "mount",
        "umount",
        "wipefs",
        "dd",
    )


def build_commands(stripe: Stripe) -> tuple[tuple[str, ...], ...]:
    """Return the commands that build and mount the filesystem on empty devices, in order."""
    mount = ("mount", "-t", stripe.filesystem, "-o", "noatime", stripe.volume, stripe.mount_point)
    return (*_raid_commands(stripe), _mkfs_command(stripe), mount)


def undo_commands(stripe: Stripe, found: StripeState) -> tuple[tuple[str, ...], ...]:
    """Return the commands that remove the found parts, in order; () for empty devices."""
    commands: list[tuple[str, ...]] = []
    if found.is_mounted:
        commands.append(("umount", stripe.mount_point))
    commands.extend(("wipefs", "--all", volume) for volume in found.volumes)
    commands.extend(("mdadm", "--stop", array) for array in found.arrays)
    if found.has_group:
        commands.append(("vgremove", "--force", "--yes", NAME))
    members = [device for device, signatures in found.signatures if any(_is_md(each) for each in signatures)]
    if members:
        commands.append(("mdadm", "--zero-superblock", *members))
    physical = [
        device for device, signatures in found.signatures if any(_is_lvm(each) for each in signatures)
    ]
    if physical:
        commands.append(("pvremove", "--yes", *physical))
    rest = [
        (device, [each for each in signatures if not (_is_md(each) or _is_lvm(each))])
        for device, signatures in found.signatures
    ]
    copies = [(device, [each for each in signatures if _is_copy(each)]) for device, signatures in rest]
    return (*commands, *_wipefs_commands(rest), *_zero_commands(copies))


def wipe_commands(signatures: Sequence[tuple[str, Sequence[Signature]]]) -> tuple[tuple[str, ...], ...]:
    """Return the commands that remove all signatures from these devices.

    wipefs updates the kernel's partitions and knows more formats, but leaves half of an LVM label, part of ZFS, and
    signatures that it takes as damaged: the detected ones are therefore zeroed as well.
    """
    return (*_wipefs_commands(signatures), *_zero_commands(signatures))


def predict_state(stripe: Stripe, *, size_bytes: int) -> StripeState:
    """Return the state after the stripe is mounted, over devices of size_bytes each."""
    first = _predict_signature(stripe)
    copies = [Signature("btrfs copy", 64 * 2**20 + 64, NAME), Signature("btrfs copy", 256 * 2**30 + 64, NAME)]
    is_plain_btrfs = first.name == "btrfs"
    found = [first, *(each for each in copies if is_plain_btrfs and each.offset_bytes < size_bytes)]
    return StripeState(
        is_mounted=True,
        volumes=(stripe.volume,) if stripe.layer in ("mdadm", "lvm") else (),
        arrays=(ARRAY,) if stripe.layer == "mdadm" else (),
        has_group=stripe.layer == "lvm",
        signatures=tuple((device, tuple(found)) for device in stripe.devices),
    )


def is_ours(signature: Signature) -> bool:
    """Return whether a sweep wrote it: by its name, or an LVM volume without a group."""
    if signature.name == "LVM2":
        return signature.label in (NAME, "")
    # mdadm writes the host's name before that of the array.
    return signature.label.rpartition(":")[2] == NAME


def _raid_commands(stripe: Stripe) -> tuple[tuple[str, ...], ...]:
    count = len(stripe.devices)
    chunk = f"{stripe.chunk_bytes // 1024}K"
    if stripe.layer == "mdadm":
        create = ("mdadm", "--create", ARRAY, "--run", "--level=0", f"--raid-devices={count}")
        return ((*create, f"--chunk={chunk}", "--metadata=1.2", *stripe.devices),)
    if stripe.layer == "lvm":
        stripes = ("--type", "striped", "--stripes", str(count), "--stripesize", chunk.lower())
        return (
            ("pvcreate", "--yes", *stripe.devices),
            ("vgcreate", "--yes", NAME, *stripe.devices),
            ("lvcreate", "--yes", *stripes, "--extents", "100%FREE", "--name", "stripe", NAME),
        )
    return ()


def _mkfs_command(stripe: Stripe) -> tuple[str, ...]:
    if stripe.filesystem == "xfs":
        return ("mkfs.xfs", "-f", "-q", "-L", NAME, stripe.volume)
    if stripe.filesystem == "ext4":
        # Otherwise the kernel initializes tables during the measurement.
        now = "lazy_itable_init=0,lazy_journal_init=0"
        return ("mkfs.ext4", "-F", "-q", "-E", now, "-L", NAME, stripe.volume)
    profile = "raid0" if stripe.layer == "btrfs" else "single"
    devices = stripe.devices if stripe.layer == "btrfs" else (stripe.volume,)
    return ("mkfs.btrfs", "-f", "-q", "-d", profile, "-m", profile, "-L", NAME, *devices)


def _wipefs_commands(signatures: Sequence[tuple[str, Sequence[Signature]]]) -> list[tuple[str, ...]]:
    wiped = [device for device, found in signatures if any(not _is_copy(each) for each in found)]
    return [("wipefs", "--all", *wiped)] if wiped else []


def _zero_commands(signatures: Sequence[tuple[str, Sequence[Signature]]]) -> list[tuple[str, ...]]:
    """Return the commands that zero the sectors of signatures, without duplicates."""
    commands = (_zero_command(device, each) for device, found in signatures for each in found)
    return list(dict.fromkeys(commands))


def _zero_command(device: str, signature: Signature) -> tuple[str, ...]:
    sector = signature.offset_bytes // _SECTOR_BYTES
    # Otherwise the next uberblock would be detected.
    count = _ZFS_LABEL_SECTORS - sector % _ZFS_LABEL_SECTORS if signature.name == "ZFS" else 1
    place = (f"bs={_SECTOR_BYTES}", f"seek={sector}", f"count={count}")
    return ("dd", "if=/dev/zero", f"of={device}", *place, "conv=notrunc,fsync", "status=none")


def _predict_signature(stripe: Stripe) -> Signature:
    if stripe.layer == "mdadm":
        return Signature("md 1.2", 4096, NAME)
    if stripe.layer == "lvm":
        return Signature("LVM2", 512, NAME)
    return Signature(stripe.filesystem, 0, NAME)


def _is_copy(signature: Signature) -> bool:
    """Return whether it is a superblock copy of btrfs, which wipefs does not know."""
    return signature.name == "btrfs copy"


def _is_md(signature: Signature) -> bool:
    return signature.name.startswith("md ")


def _is_lvm(signature: Signature) -> bool:
    return signature.name == "LVM2"
