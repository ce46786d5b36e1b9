"""Levels: the runs of a series between two changes, with their statistics; runs divided by kind of latency. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Median, 10th and 90th percentile of n values."""

    median: float
    p10: float
    p90: float
    n: int


@dataclass(frozen=True, slots=True)
class LevelStatistics:
    """Statistics of the values [first, end) of a series, in their unit; n: end - first, at least 1. last: the newest.

    Percentiles are interpolated linearly, as by PostgreSQL's percentile_cont.
    """

    first: int
    end: int
    median: float
    p10: float
    p90: float
    minimum: float
    maximum: float
    last: float

    @property
    def n(self) -> int:
        """Return the number of values."""
        return self.end - self.first


def divide_levels(values: NDArray[np.float64], starts: Sequence[int]) -> tuple[LevelStatistics, ...]:
    """Return the levels of finite values, oldest first; none without values.

    starts: indices of the first value of each later level, ascending, between 1 and len(values) - 1.
    """
    if not len(values):
        return ()
    return tuple(describe_values(values, first, end) for first, end in pairwise((0, *starts, len(values))))


def describe_values(values: NDArray[np.float64], first: int, end: int) -> LevelStatistics:
    """Return the statistics of the finite values [first, end), at least one."""
    ascending = np.sort(values[first:end])
    return LevelStatistics(
        first=first,
        end=end,
        median=_interpolate(ascending, 0.5),
        p10=_interpolate(ascending, 0.1),
        p90=_interpolate(ascending, 0.9),
        minimum=float(ascending[0]),
        maximum=float(ascending[-1]),
        last=float(values[end - 1]),
    )


def _interpolate(ascending: NDArray[np.float64], share: float) -> float:
    """Return a quantile; numpy's percentile takes ten times as long for short arrays."""
    rank = share * (len(ascending) - 1)
    below = int(rank)
    low = float(ascending[below])
    if rank == below:
        return low
    return low + (rank - below) * (float(ascending[below + 1]) - low)


@dataclass(frozen=True, slots=True)
class KindSection:
    """The values of one kind, "" if all are of unknown kind. is_member: of each value."""

    kind: str
    is_member: NDArray[np.bool_]


def divide_kinds(
    kinds: NDArray[np.str_], times: NDArray[np.int64], is_known: NDArray[np.bool_]
) -> list[KindSection]:
    """Return the sections of the known values of a metric, the newest last; empty without known values.

    kinds: "clat", "lat", or "" for a value that belongs to either. times: ascending. The newest section has all values
    of the newest kind. What came before its first value is divided likewise. Values of another kind in between are in
    no section: a single run with other options ends no level.
    """
    sections: list[KindSection] = []
    is_left = is_known
    while (named := np.flatnonzero(is_left & (kinds != ""))).size:
        kind = str(kinds[named[-1]])
        first = times[np.flatnonzero(is_left & (kinds == kind))[0]]
        is_member = is_left & (times >= first) & ((kinds == kind) | (kinds == ""))
        sections.append(KindSection(kind, is_member))
        is_left = is_left & (times < first)
    if is_left.any():
        oldest = sections.pop() if sections else KindSection("", is_left)
        sections.append(KindSection(oldest.kind, oldest.is_member | is_left))
    return sections[::-1]


def find_newest_kind(kinds: Sequence[str]) -> str:
    """Return the newest known kind of values, oldest first; "" if all are unknown."""
    return next((kind for kind in reversed(kinds) if kind), "")


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
