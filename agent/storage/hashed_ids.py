"""Hashes of serial numbers and other ids, which allow comparison without disclosure."""

from __future__ import annotations

import hashlib

# 48 bits: among the million disks of a large company two of one hash are improbable (1 in 560).
_DIGITS = 12


def hash_identifier(name: str, value: str, *, is_plain: bool = False) -> str:
    """Return 12 hex digits of SHA-256 over "name:value", or the value itself if is_plain.

    The name makes equal values of different fields differ. Without another salt, a disk is recognized on another host;
    a list of candidates can be compared with the hashes.
    """
    if is_plain:
        return value
    return hashlib.sha256(f"{name}:{value}".encode("utf-8", "replace")).hexdigest()[:_DIGITS]
