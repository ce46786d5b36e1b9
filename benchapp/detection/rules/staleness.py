"""Whether a series is still measured, and from when a host is silent or failing. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
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


# Grace for the duration of the run, an unavailable server, and clock changes.
_GRACE_SHARE: Final = 0.25
_GRACE_MINIMUM: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ExpectedRun:
    """expected_at: earliest start of the next run; silent_at: time from which it is overdue."""

    expected_at: datetime
    silent_at: datetime

    def is_silent(self, now: datetime) -> bool:
        """Return whether the run is overdue; silent_at itself is still in time."""
        return now > self.silent_at


def expect_run(
    last_at: datetime | None, *, since_at: datetime, every_s: int, splay_s: int, now: datetime
) -> ExpectedRun:
    """Return the expected run after the last one, or after the schedule became known without a run since.

    A run may start splay_s late; the grace is a quarter of the interval, at least 1 h. A last run in the future
    (a host's clock) counts as now.
    """
    base = since_at if last_at is None else max(min(last_at, now), since_at)
    every = timedelta(seconds=every_s)
    grace = max(every * _GRACE_SHARE, _GRACE_MINIMUM)
    return ExpectedRun(base + every, base + every + timedelta(seconds=splay_s) + grace)


# Runs in a row: one or two may fail because of what happens on the host.
FAILED_RUNS: Final = 3


def find_failing_at(
    failed: Sequence[datetime], *, valid_at: datetime | None, every_s: int | None, splay_s: int, now: datetime
) -> datetime | None:
    """Return from when a profile fails: from its third run in a row without a value, or from a run without one on if
    twice its interval passed without a value; None if it does not.

    failed: runs without a value since the last value, oldest first. valid_at: of that value, or since when the schedule
    is known. every_s: None without a schedule.
    """
    moments = [failed[FAILED_RUNS - 1]] if len(failed) >= FAILED_RUNS else []
    if failed and valid_at is not None and every_s is not None:
        overdue_at = valid_at + INTERVALS * timedelta(seconds=every_s) + timedelta(seconds=splay_s)
        moments += [max(overdue_at, failed[0])] if now > overdue_at else []
    return min(moments, default=None)
