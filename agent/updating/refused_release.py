"""The release that this host refused, so that automatic updates do not try it after each run."""

from __future__ import annotations

import json
import os
import time

from agent.delivery.spool import Spool
from agent.files import write_durably

_NAME = "update.json"
# A server that was away during the check is no reason to wait for the next version.
_RETRY_AFTER_S = 86400


def store_refusal(spool: Spool, sha256: str, reason: str, *, is_final: bool = False) -> None:
    """Remember that an archive is not to be installed automatically; requires the lock.

    is_final: never, otherwise not within a day.
    """
    document = {"sha256": sha256, "reason": reason, "refused_at": time.time(), "is_final": is_final}
    write_durably(os.path.join(spool.directory, _NAME), json.dumps(document).encode())


def find_refusal(spool: Spool, sha256: str) -> str | None:
    """Return why an archive is not to be installed automatically now, or None."""
    try:
        with open(os.path.join(spool.directory, _NAME), encoding="utf-8") as file:
            document = json.load(file)
        is_recent = time.time() < document["refused_at"] + _RETRY_AFTER_S
        is_refused = document["sha256"] == sha256 and (document["is_final"] is True or is_recent)
        return str(document["reason"]) if is_refused else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
