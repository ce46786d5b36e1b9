"""Limits of attempts, counted in PostgreSQL for all processes, and of requests, counted in each process."""

import hashlib
import math
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import F, Q

from benchapp.models import Throttle


@dataclass(frozen=True, slots=True)
class Counted:
    """count: of this key in the window, including this one. seconds_left: until the next window, at least 1.

    is_over: this one exceeds the maximum, and is not kept.
    """

    count: int
    seconds_left: int
    is_over: bool = False


@dataclass(slots=True)
class WindowQuota:
    """Counts keys in windows of window_s seconds that follow the clock: an hour's begin at the full hour.

    keys_maximum: in one window; further keys are counted as one, which bounds the memory and gives no extra
    quota. None: the number of keys is bounded elsewhere.
    """

    window_s: int
    keys_maximum: int | None = None
    _window: int = -1
    _counts: dict[object, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, key: object, times: int = 1, *, maximum: int | None = None) -> Counted:
        """Count one more of this key, or several; what would exceed the maximum is not kept."""
        now = time.time()
        window = int(now // self.window_s)
        with self._lock:
            if window != self._window:
                self._window, self._counts = window, {}
            if self.keys_maximum is not None and len(self._counts) >= self.keys_maximum:
                key = key if key in self._counts else None
            count = self._counts.get(key, 0) + times
            is_over = maximum is not None and count > maximum
            if not is_over:
                self._counts[key] = count
        return Counted(count, max(1, math.ceil((window + 1) * self.window_s - now)), is_over)


# The longest window of any limit: an older bucket counts for nothing.
LONGEST_WINDOW: Final = timedelta(days=1)
# Clocks of several servers differ by less. A window that starts later has a wrong clock.
_CLOCK_SKEW: Final = timedelta(minutes=1)

_COUNT: Final = """
INSERT INTO benchapp_throttle AS bucket (key, window_started_at, attempts) VALUES (%(key)s, %(now)s, 1)
ON CONFLICT (key) DO UPDATE SET
 attempts = CASE WHEN bucket.window_started_at > %(before)s AND bucket.window_started_at <= %(latest)s
  THEN bucket.attempts + 1 ELSE 1 END,
 window_started_at = CASE WHEN bucket.window_started_at > %(before)s AND bucket.window_started_at <= %(latest)s
  THEN bucket.window_started_at ELSE %(now)s END
RETURNING attempts, window_started_at
"""


class LimitReached(Exception):
    """Too many attempts. wait_s: seconds until the next one is possible."""

    def __init__(self, message: str, wait_s: int) -> None:
        super().__init__(f"{message}; try again in {format_wait(wait_s)}")
        self.wait_s = wait_s


def count_attempt(kind: str, who: str, *, window: timedelta, now: datetime) -> Counted:
    """Count one attempt and return the count in the window and the seconds until it ends."""
    values: dict[str, str | datetime] = {
        "key": _make_key(kind, who),
        "now": now,
        "before": now - window,
        "latest": now + _CLOCK_SKEW,
    }
    # One statement, so that attempts made at the same time are all counted.
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, values)
        count, started_at = cursor.fetchone()
    return Counted(int(count), max(1, math.ceil((started_at + window - now).total_seconds())))


def forget_attempt(kind: str, who: str) -> None:
    """Remove one counted attempt."""
    Throttle.objects.filter(key=_make_key(kind, who), attempts__gt=0).update(attempts=F("attempts") - 1)


def forget_old_attempts(*, now: datetime) -> int:
    """Delete buckets whose window is over or starts in the future; return their number."""
    deleted, _ = Throttle.objects.filter(
        Q(window_started_at__lte=now - LONGEST_WINDOW) | Q(window_started_at__gt=now + _CLOCK_SKEW)
    ).delete()
    return deleted


def format_wait(wait_s: int) -> str:
    """Format a waiting time: "1 minute", "3 hours"; rounded up."""
    hours, minutes = math.ceil(wait_s / 3600), math.ceil(wait_s / 60)
    number, unit = (hours, "hour") if minutes > 90 else (minutes, "minute")
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _make_key(kind: str, who: str) -> str:
    return f"{kind}:{hashlib.sha256(who.encode()).hexdigest()}"
