"""What a metric stands at, over values that a reader can check by eye."""

import math

import numpy as np
import pytest

from benchapp.analysis.detection.standing import find_standings

NONE = math.nan


def stand(*newest_first: float, width: int = 12):
    padded = [*newest_first, *[NONE] * (width - len(newest_first))]
    return find_standings(np.array([padded]))


def test_one_value_is_all_there_is_to_say() -> None:
    found = stand(7.0)

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
    found = stand(*values)

    assert (found.p10[0], found.median[0], found.p90[0]) == pytest.approx(percentiles)


def test_unknown_values_are_passed_over_and_the_places_are_of_known_ones() -> None:
    found = stand(NONE, 4.0, NONE, 2.0, NONE)

    assert (found.n[0], found.last[0], found.minimum[0], found.maximum[0]) == (2, 4.0, 2.0, 4.0)
    assert (found.last_place[0], found.first_place[0]) == (1, 3)
    assert found.newest[0, :2].tolist() == [4.0, 2.0]


def test_newest_five_are_set_against_the_rest_from_ten_values_on() -> None:
    nine, ten = stand(*range(1, 10)), stand(*range(1, 11))

    assert math.isnan(nine.recent_median[0])
    assert (ten.recent_median[0], ten.baseline_median[0]) == (3.0, 8.0)


def test_rows_are_judged_each_by_itself() -> None:
    found = find_standings(np.array([[1.0, NONE], [5.0, 3.0]]))

    assert (found.n.tolist(), found.median.tolist(), found.last.tolist()) == ([1, 2], [1.0, 4.0], [1.0, 5.0])


def test_no_rows_give_empty_columns() -> None:
    assert find_standings(np.empty((0, 12))).median.tolist() == []
