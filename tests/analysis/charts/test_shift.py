"""Has a series moved from its baseline, and is it still measured?"""

from datetime import UTC, datetime, timedelta

import pytest

from benchapp.analysis.charts.shift import RecentShift, find_shift, is_stale

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
# p10 98, p90 102: a spread of 4 around 100.
BEFORE = [90.0, 98.0, 99.0, 99.0, 100.0, 100.0, 100.0, 101.0, 101.0, 102.0, 110.0]


@pytest.mark.parametrize(
    ("recent", "baseline", "better", "shift"),
    [
        (None, None, "higher", None),
        (90.0, None, "higher", None),
        (90.0, 0.0, "higher", None),
        (90.0, 100.0, "higher", RecentShift(-10.0, "worse")),
        (90.0, 100.0, "lower", RecentShift(-10.0, "better")),
        (110.0, 100.0, "higher", RecentShift(10.0, "better")),
        (110.0, 100.0, "lower", RecentShift(10.0, "worse")),
        (104.0, 100.0, "higher", RecentShift(4.0, "within")),
        (96.0, 100.0, "higher", RecentShift(-4.0, "within")),
        (104.5, 100.0, "higher", RecentShift(4.5, "better")),
        (100.0, 100.0, "higher", RecentShift(0.0, "within")),
    ],
)
def test_shift_counts_where_it_exceeds_the_spread(recent, baseline, better, shift) -> None:
    assert find_shift(recent, baseline, values=[*BEFORE, *[90.0] * 5], better=better) == shift


def test_new_level_does_not_hide_itself_in_the_spread() -> None:
    values = [100.0] * 5 + [50.0] * 5

    assert find_shift(50.0, 100.0, values=values, better="higher") == RecentShift(-50.0, "worse")


@pytest.mark.parametrize(
    ("days_ago", "n", "over_days", "stale"),
    [
        (13, 1, 0, False),
        (15, 1, 0, True),
        (15, 10, 1, True),
        (15, 3, 20, False),
        (21, 3, 20, True),
        (50, 4, 90, False),
        (61, 4, 90, True),
    ],
)
def test_series_is_stale_after_14_days_or_twice_its_interval(
    days_ago: int, n: int, over_days: int, stale: bool
) -> None:
    last_at = NOON - timedelta(days=days_ago)

    assert is_stale(last_at - timedelta(days=over_days), last_at, n=n, now=NOON) is stale
