"""Versions of the agent: which hosts have an older one than this server ships, and whom a roll-out has reached."""

import hashlib
from typing import Final

# 2⁶⁴: places are the first eight bytes of a digest.
_PLACES: Final = 2**64


def is_outdated(version: str, shipped: str) -> bool:
    """Return whether a version of numbers and dots is older than the one that the server ships; False for others."""
    try:
        return [int(part) for part in version.split(".")] < [int(part) for part in shipped.split(".")]
    except ValueError:
        return False


def is_in_rollout(host_name: str, percent: int) -> bool:
    """Return whether a roll-out to a percentage of the hosts, 0 to 100, has reached a host.

    By a hash of its name: a higher percentage keeps the hosts of a lower one and adds others.
    """
    place = int.from_bytes(hashlib.sha256(host_name.encode()).digest()[:8], "big")
    return place * 100 < percent * _PLACES
