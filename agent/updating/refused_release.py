"""The releases that this host refused, so that automatic updates do not try them after each run."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Any

from agent.delivery.spool import Spool
from agent.files import read_json, write_durably

_NAME = "update.json"
# A server that was away during the check is no reason to wait for the next version.
_RETRY_AFTER_S = 86400
# The server ships one release at a time: older ones are not offered any more.
_REFUSALS_MAXIMUM = 50


@dataclass(frozen=True)
class _Refusal:
    """A release that is not installed automatically. refused_at: seconds since the epoch; is_final: never."""

    sha256: str
    reason: str
    refused_at: float
    is_final: bool

    def holds(self, now: float) -> bool:
        return self.is_final or now < self.refused_at + _RETRY_AFTER_S


def store_refusal(spool: Spool, sha256: str, reason: str, *, is_final: bool = False) -> None:
    """Remember that an archive is not to be installed automatically; requires the lock.

    is_final: never, otherwise not within a day. The newest 50 are kept, final ones before others.
    """
    now = time.time()
    known = [each for each in _read_refusals(spool) if each.holds(now)]
    if any(each.sha256 == sha256 and each.is_final for each in known):
        return
    others = [each for each in known if each.sha256 != sha256]
    added = _Refusal(sha256, reason, now, is_final)
    kept = sorted([*others, added], key=lambda each: (each.is_final, each.refused_at))[-_REFUSALS_MAXIMUM:]
    document = {"refusals": [asdict(each) for each in kept]}
    write_durably(os.path.join(spool.directory, _NAME), json.dumps(document).encode())


def find_refusal(spool: Spool, sha256: str) -> str | None:
    """Return why an archive is not to be installed automatically now, or None."""
    now = time.time()
    found = [each.reason for each in _read_refusals(spool) if each.sha256 == sha256 and each.holds(now)]
    return found[0] if found else None


def _read_refusals(spool: Spool) -> list[_Refusal]:
    """Return the stored refusals; none of a damaged file."""
    try:
        document = read_json(os.path.join(spool.directory, _NAME))
        # Earlier agents stored only the last one.
        rows = document.get("refusals", [document])
        return [_read_refusal(row) for row in rows]
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return []


def _read_refusal(row: Any) -> _Refusal:
    return _Refusal(str(row["sha256"]), str(row["reason"]), float(row["refused_at"]), row["is_final"] is True)
