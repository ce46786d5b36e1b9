import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.series.rules import RollingLevel, interpolate, roll_levels

NONE = RollingLevel(None, None, None)


def test_level_of_three_points_is_their_median_and_percentiles():
    assert list(roll_levels([1.0, 2.0, 3.0], window=20)) == [NONE, NONE, RollingLevel(2.0, 1.2, 2.8)]


def test_window_forgets_what_is_older():
    levels = list(roll_levels([100.0, 1.0, 2.0, 3.0], window=3))

    assert levels[3] == RollingLevel(2.0, 1.2, 2.8)


def test_point_without_a_value_keeps_the_level_before_it():
    levels = list(roll_levels([1.0, 2.0, 3.0, None, 4.0], window=3))

    assert levels[3] == levels[2]
    assert levels[4].median == 3.0


def test_no_values_give_no_levels():
    assert list(roll_levels([], window=20)) == []
    assert list(roll_levels([None, None], window=20)) == [NONE, NONE]


@pytest.mark.parametrize(("share", "value"), [(0, 10.0), (0.5, 20.0), (0.1, 12.0), (0.9, 28.0), (1, 30.0)])
def test_interpolation_as_percentile_cont_does(share, value):
    assert interpolate([10.0, 20.0, 30.0], share) == pytest.approx(value)


@given(
    values=st.lists(st.none() | st.floats(-1e12, 1e12), max_size=60),
    window=st.integers(3, 20),
)
def test_every_level_is_that_of_its_window_sorted_anew(values, window):
    levels = list(roll_levels(values, window=window))

    for index, level in enumerate(levels):
        known = sorted([value for value in values[: index + 1] if value is not None][-window:])
        assert level == (
            RollingLevel(*(interpolate(known, s) for s in (0.5, 0.1, 0.9))) if len(known) >= 3 else NONE
        )
