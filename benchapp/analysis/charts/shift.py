"""The change of a series against its earlier measurements, and whether it is still measured. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import quantiles
from typing import Final, Literal

# The newest of a series' values are those of its recent level (analysis.standing.RECENT_COUNT).
_RECENT_COUNT: Final = 5
# Two weeks: a weekly sweep may fail once.
STALE_AFTER: Final = timedelta(days=14)
# Of the usual interval: one run may be missed.
INTERVALS: Final = 2
# An interval is known from so many measurements on.
INTERVAL_FROM: Final = 3

Meaning = Literal["better", "worse", "within"]


@dataclass(frozen=True, slots=True)
class RecentShift:
    """The change of the recent level against the baseline.

    percent: of the baseline, signed. meaning: "within" if it does not exceed the spread of the series.
    """

    percent: float
    meaning: Meaning


def find_shift(
    recent_median: float | None,
    baseline_median: float | None,
    *,
    values: Sequence[float],
    better: Literal["higher", "lower"],
) -> RecentShift | None:
    """Return the change of the recent level against the baseline; None with too few values for either.

    values: the newest in the order of time. The spread is from p10 to p90 of those before the recent ones, which are
    not in it, as a new level would hide itself. It is wide on purpose: among a hundred cells at rest hardly one moves.
    """
    if recent_median is None or not baseline_median:
        return None
    difference = recent_median - baseline_median
    percent = 100 * difference / baseline_median
    if abs(difference) <= _find_spread(values[:-_RECENT_COUNT]):
        return RecentShift(percent, "within")
    return RecentShift(percent, "better" if (difference > 0) == (better == "higher") else "worse")


def _find_spread(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    # The deciles, between ranks linearly as everywhere else.
    deciles = quantiles(values, n=10, method="inclusive")
    return deciles[-1] - deciles[0]


def is_stale(first_at: datetime, last_at: datetime, *, n: int, now: datetime) -> bool:
    """Say whether a series is no longer measured: not for 14 days, or for twice its usual interval if that is longer.

    n: measurements from first_at to last_at.
    """
    usual = (last_at - first_at) / (n - 1) if n >= INTERVAL_FROM else timedelta(0)
    return now - last_at > max(STALE_AFTER, INTERVALS * usual)
