"""Levels of plain values."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.detection.rules.levels import divide_levels, is_stale


def interpolate(values: Sequence[float], share: float) -> float:
    """Return the value at a share of the ranks, as a textbook defines it."""
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (rank - math.floor(rank)) * (high - low)


def test_levels_are_the_values_between_the_starts() -> None:
    first, second = divide_levels(np.array([1.0, 2.0, 3.0, 10.0, 12.0]), [3])

    assert (first.first, first.end, first.n, first.median, first.last) == (0, 3, 3, 2.0, 3.0)
    assert (second.first, second.end, second.n, second.median, second.last) == (3, 5, 2, 11.0, 12.0)
    assert (second.p10, second.p90, second.minimum, second.maximum) == (10.2, 11.8, 10.0, 12.0)


def test_no_values_have_no_levels() -> None:
    assert divide_levels(np.array([]), []) == ()


@given(values=st.lists(st.floats(1.0, 1e9), min_size=1, max_size=60))
def test_percentiles_are_those_of_a_textbook(values: list[float]) -> None:
    (level,) = divide_levels(np.array(values), [])

    for found, share in ((level.p10, 0.1), (level.median, 0.5), (level.p90, 0.9)):
        assert found == pytest.approx(interpolate(values, share))


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
