"""Whether a series is still measured. Pure."""

from datetime import datetime, timedelta
from typing import Final

# Two weeks: a weekly sweep may fail once.
STALE_AFTER: Final = timedelta(days=14)
# Of the usual interval: one run may be missed.
INTERVALS: Final = 2
# An interval is known from this number of measurements on.
INTERVAL_FROM: Final = 3


def find_stale_after(first_at: datetime, last_at: datetime, *, n: int) -> datetime:
    """Return after when a series is stale: not measured for 14 days, or for twice its usual interval if that is longer.

    n: measurements from first_at to last_at.
    """
    usual = (last_at - first_at) / (n - 1) if n >= INTERVAL_FROM else timedelta(0)
    return last_at + max(STALE_AFTER, INTERVALS * usual)


def is_stale(first_at: datetime, last_at: datetime, *, n: int, now: datetime) -> bool:
    """Return whether a series is stale, as of `find_stale_after`."""
    return now > find_stale_after(first_at, last_at, n=n)
