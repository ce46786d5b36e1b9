"""Whether a series is still measured."""

from datetime import UTC, datetime, timedelta

import pytest

from benchapp.detection.rules.levels import is_stale

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


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
