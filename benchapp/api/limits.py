"""What the web process may still take: the backlog, the disk, and each host's quota."""

import shutil
import threading
import time
from typing import Final

from django.conf import settings

from benchapp.api.problems import RETRY_AFTER_S, Problem
from benchapp.pipeline.intake import count_backlog
from benchapp.pipeline.window_quota import WindowQuota

_CHECK_INTERVAL_S: Final = 1.0
_HOUR_S: Final = 3600


class Limits:
    """What this process may still take: backlog and disk, looked at once a second, and its own count per host."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checked_at = float("-inf")
        self._shortage: tuple[str, str] | None = None
        self._quota = WindowQuota(window_s=_HOUR_S)

    def check(self, host_id: int) -> None:
        """Raise Problem 429 or 503 when there is no room for one more of this host."""
        now = time.monotonic()
        with self._lock:
            is_due = now - self._checked_at >= _CHECK_INTERVAL_S
            if is_due:
                self._checked_at = now
        if is_due:
            self._shortage = find_shortage()
        if self._shortage is not None:
            # Made anew for each: an exception that is kept keeps, by its traceback, every body that it refused.
            raise try_later(*self._shortage)
        self._count(host_id)

    def _count(self, host_id: int) -> None:
        counted = self._quota.count(host_id)
        if counted.count > settings.HOST_QUOTA_PER_HOUR:
            raise Problem(
                429,
                "quota-exceeded",
                "Too many results",
                f"this host posted its {settings.HOST_QUOTA_PER_HOUR} results of this hour: try again in the next",
                headers={"Retry-After": str(counted.seconds_left)},
            )


def find_shortage() -> tuple[str, str] | None:
    """Return the code and the words for what is short, None where there is room."""
    if settings.DATA_DIR.exists() and shutil.disk_usage(settings.DATA_DIR).free < settings.DISK_RESERVE_BYTES:
        return ("disk-low", "the server's disk is nearly full; nothing was stored: try again later")
    if count_backlog(settings.BACKLOG_LIMIT) >= settings.BACKLOG_LIMIT:
        return ("backlog-full", f"{settings.BACKLOG_LIMIT} results wait to be worked in: try again later")
    return None


def try_later(code: str, detail: str) -> Problem:
    """Return a 503 that says when to come back."""
    return Problem(503, code, "Try again later", detail, headers={"Retry-After": str(RETRY_AFTER_S)})
