"""Data profile and devices of a btrfs, from /sys/fs/btrfs."""

from __future__ import annotations

import os
from typing import Any

from agent.storage.raid import Array
from agent.storage.sysfs import list_directory, read_line, read_number

# BTRFS_STRIPE_LEN of the kernel, which is fixed.
_CHUNK_BYTES = 64 * 1024
_STRIPED_PROFILES = ("raid0", "raid5", "raid6", "raid10")
# Operations that move all data, with their states in validity.md.
_TROUBLES = {"balance": "reshaping", "device remove": "reshaping", "device replace": "rebuilding"}


def read_btrfs(volume: str) -> Array:
    """Return the array of a mounted btrfs; volume: its directory in sysfs."""
    found = len(list_directory(volume, "devices"))
    missing = _count_missing(volume)
    members = found + (missing or 0)
    profile = _find_profile(volume, "data") or _find_profile(volume, "mixed")
    operation = read_line(volume, "exclusive_operation")
    is_raid = profile is not None and not (profile == "single" and members == 1)
    return Array(
        kind="btrfs",
        name=os.path.basename(volume),
        level=profile if is_raid else None,
        stripe_count=members if profile == "raid0" else None,
        chunk_size_bytes=_CHUNK_BYTES if profile in _STRIPED_PROFILES else None,
        members=members or None,
        found=found,
        trouble="degraded" if missing else _TROUBLES.get(operation or ""),
        facts=_collect_facts(volume, profile=profile, missing=missing, operation=operation),
    )


def _collect_facts(
    volume: str, *, profile: str | None, missing: int | None, operation: str | None
) -> dict[str, Any]:
    facts = {
        "data_profile": profile,
        "metadata_profile": _find_profile(volume, "metadata"),
        "missing_devices": missing,
        "exclusive_operation": operation,
        "node_size_bytes": read_number(volume, "nodesize"),
        "checksum": read_line(volume, "checksum"),
        "read_policy": read_line(volume, "read_policy"),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _find_profile(volume: str, use: str) -> str | None:
    """Return the profile of all block groups of one use; None without any, or during a conversion."""
    directory = os.path.join(volume, "allocation", use)
    sizes = {name: read_number(directory, name, "total_bytes") for name in list_directory(directory)}
    profiles = [name for name, size in sizes.items() if size]
    return profiles[0] if len(profiles) == 1 else None


def _count_missing(volume: str) -> int | None:
    """Return how many devices are missing; None before Linux 5.6, which does not report it."""
    states = [
        read_number(volume, "devinfo", device, "missing") for device in list_directory(volume, "devinfo")
    ]
    known = [state for state in states if state is not None]
    return sum(known) if known else None
