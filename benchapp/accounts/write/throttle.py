"""Limits that all processes share: attempts counted in PostgreSQL, in windows that start with the first attempt."""

import hashlib
import math
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import F, Q

from benchapp.accounts.write.rate_limit import Counted
from benchapp.models import Throttle

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
