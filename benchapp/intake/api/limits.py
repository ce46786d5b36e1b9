"""Limits of the web process: backlog, disk, quota of each host."""

import threading
import time
from typing import Final

from django.conf import settings

from benchapp.accounts.write.throttle import WindowQuota
from benchapp.framework.api.problems import RETRY_AFTER_S, Problem
from benchapp.framework.readiness import measure_disk
from benchapp.intake.posts.submissions import count_backlog

_CHECK_INTERVAL_S: Final = 1.0
_HOUR_S: Final = 3600


class Limits:
    """Limits of this process: backlog and disk, checked once per second, and its own count per host."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checked_at = float("-inf")
        self._shortage: tuple[str, str] | None = None
        self._quota = WindowQuota(window_s=_HOUR_S)

    def check(self, host_id: int) -> None:
        """Raise Problem 429 or 503 if a limit is reached for this host."""
        now = time.monotonic()
        with self._lock:
            is_due = now - self._checked_at >= _CHECK_INTERVAL_S
            if is_due:
                self._checked_at = now
        if is_due:
            self._shortage = find_shortage()
        if self._shortage is not None:
            # A new exception each time: the traceback of a reused one would keep every rejected body in memory.
            raise try_later(*self._shortage)
        self.count(host_id)

    def count(self, host_id: int, results: int = 1) -> None:
        """Count results of a host; raises Problem 429 if they exceed its quota, and counts none of them then."""
        quota = settings.HOST_QUOTA_PER_HOUR
        counted = self._quota.count(host_id, results, maximum=quota)
        if counted.is_over:
            raise Problem(
                429,
                "quota-exceeded",
                "Too many results",
                f"this host reached its quota of {quota} results per hour: try again later",
                headers={"Retry-After": str(counted.seconds_left)},
            )


def find_shortage() -> tuple[str, str] | None:
    """Return code and text of the limit that is reached, None if none is."""
    disk = measure_disk()
    if disk is not None and disk.is_low:
        return ("disk-low", "the server's disk is nearly full; nothing was stored: try again later")
    if count_backlog(settings.BACKLOG_LIMIT) >= settings.BACKLOG_LIMIT:
        return (
            "backlog-full",
            f"{settings.BACKLOG_LIMIT} results are waiting to be processed: try again later",
        )
    return None


def try_later(code: str, detail: str) -> Problem:
    """Return a 503 with Retry-After."""
    return Problem(503, code, "Try again later", detail, headers={"Retry-After": str(RETRY_AFTER_S)})
