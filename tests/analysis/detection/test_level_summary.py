"""Summaries of levels, with values that can be checked by eye."""

import math

import numpy as np
import pytest

from benchapp.analysis.detection.level_summary import summarize_levels

NONE = math.nan


def summarize(*newest_first: float, width: int = 12):
    padded = [*newest_first, *[NONE] * (width - len(newest_first))]
    return summarize_levels(np.array([padded]))


def test_one_value_is_its_own_summary() -> None:
    found = summarize(7.0)

    assert (found.n[0], found.p10[0], found.median[0], found.p90[0], found.last[0]) == (1, 7.0, 7.0, 7.0, 7.0)
    assert math.isnan(found.recent_median[0]) and math.isnan(found.baseline_median[0])


@pytest.mark.parametrize(
    ("values", "percentiles"),
    [
        ((3.0, 1.0, 2.0), (1.2, 2.0, 2.8)),
        ((10.0, 20.0), (11.0, 15.0, 19.0)),
        ((5.0, 5.0, 5.0, 5.0), (5.0, 5.0, 5.0)),
    ],
)
def test_percentiles_lie_between_ranks(
    values: tuple[float, ...], percentiles: tuple[float, float, float]
) -> None:
    found = summarize(*values)

    assert (found.p10[0], found.median[0], found.p90[0]) == pytest.approx(percentiles)


def test_unknown_values_are_ignored() -> None:
    found = summarize(NONE, 4.0, NONE, 2.0, NONE)

    assert (found.n[0], found.last[0], found.minimum[0], found.maximum[0]) == (2, 4.0, 2.0, 4.0)
    assert (found.last_place[0], found.first_place[0]) == (1, 3)
    assert found.newest[0, :2].tolist() == [4.0, 2.0]


def test_newest_five_are_compared_with_the_rest_from_ten_values() -> None:
    nine, ten = summarize(*range(1, 10)), summarize(*range(1, 11))

    assert math.isnan(nine.recent_median[0])
    assert (ten.recent_median[0], ten.baseline_median[0]) == (3.0, 8.0)


def test_rows_are_independent() -> None:
    found = summarize_levels(np.array([[1.0, NONE], [5.0, 3.0]]))

    assert (found.n.tolist(), found.median.tolist(), found.last.tolist()) == ([1, 2], [1.0, 4.0], [1.0, 5.0])


def test_no_rows_give_empty_columns() -> None:
    assert summarize_levels(np.empty((0, 12))).median.tolist() == []
