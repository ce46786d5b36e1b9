"""Thinning: no extreme hidden, nothing lost, nothing out of order."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.charts.rules.downsampling import SampledPoints, thin_points

NAN = float("nan")


def make_points(values, *, times=None, failed=(), excluded=()):
    count = len(values)
    places = range(count)
    return SampledPoints(
        at_us=np.array(times if times is not None else places, dtype=np.int64),
        run_id=np.arange(1, count + 1),
        has_failed=np.array([place in failed for place in places], dtype=bool),
        is_excluded=np.array([place in excluded for place in places], dtype=bool),
        is_doubtful=np.zeros(count, dtype=bool),
        values={"iops": np.array(values, dtype=np.float64)},
    )


def test_bucket_holds_least_median_most_and_the_runs_of_its_extremes():
    buckets = thin_points(make_points([5.0, 1.0, 9.0, 4.0, 6.0]), 1)

    spread = buckets.spreads["iops"]
    assert (buckets.n.tolist(), buckets.first_us.tolist(), buckets.last_us.tolist()) == ([5], [0], [4])
    assert (spread.minimum[0], spread.median[0], spread.maximum[0]) == (1.0, 5.0, 9.0)
    assert (spread.minimum_run[0], spread.maximum_run[0]) == (2, 3)


def test_percentiles_lie_between_ranks_as_percentile_cont_has_them():
    spread = thin_points(make_points([10.0, 20.0, 30.0]), 1).spreads["iops"]

    assert (spread.p10[0], spread.p90[0]) == (12.0, 28.0)


def test_what_failed_or_is_excluded_is_counted_but_enters_no_number():
    buckets = thin_points(make_points([10.0, 9999.0, 0.0, NAN], failed=[1], excluded=[2]), 1)

    spread = buckets.spreads["iops"]
    assert (buckets.n[0], buckets.failed[0], buckets.excluded[0]) == (4, 1, 1)
    assert (spread.n[0], spread.minimum[0], spread.maximum[0]) == (1, 10.0, 10.0)


def test_bucket_without_a_value_has_no_numbers_and_no_runs():
    spread = thin_points(make_points([NAN, 7.0], failed=[1]), 1).spreads["iops"]

    assert spread.n.tolist() == [0]
    assert all(np.isnan(column[0]) for column in (spread.minimum, spread.p10, spread.median, spread.maximum))
    assert (spread.minimum_run[0], spread.maximum_run[0]) == (0, 0)


def test_stretch_without_points_makes_no_bucket():
    buckets = thin_points(make_points([1.0, 2.0, 3.0], times=[0, 1, 1_000_000]), 10)

    assert buckets.n.tolist() == [2, 1]


def test_no_points_make_no_buckets():
    assert thin_points(make_points([]), 5).n.tolist() == []


@pytest.mark.parametrize("count", [0, 10_001])
def test_number_of_buckets_has_bounds(count):
    with pytest.raises(ValueError, match="must be 1 to 10000"):
        thin_points(make_points([1.0]), count)


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 10**15),
            st.one_of(st.just(NAN), st.floats(-1e12, 1e12)),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=80,
    ),
    count=st.integers(1, 30),
)
def test_buckets_hold_every_point_once_in_order_and_hide_no_extreme(rows, count):
    rows.sort(key=lambda row: row[0])
    points = make_points(
        [value for _, value, _, _ in rows],
        times=[at for at, _, _, _ in rows],
        failed=[place for place, row in enumerate(rows) if row[2]],
        excluded=[place for place, row in enumerate(rows) if row[3]],
    )

    buckets = thin_points(points, count)

    spread = buckets.spreads["iops"]
    valid = sorted(
        value for _, value, failed, excluded in rows if not (failed or excluded) and value == value
    )
    assert len(buckets.n) <= count
    assert (buckets.n.sum(), spread.n.sum()) == (len(rows), len(valid))
    assert (buckets.first_us[0], buckets.last_us[-1]) == (rows[0][0], rows[-1][0])
    assert (buckets.first_us <= buckets.last_us).all()
    assert (buckets.last_us[:-1] < buckets.first_us[1:]).all()
    if valid:
        assert np.nanmin(spread.minimum) == valid[0]
        assert np.nanmax(spread.maximum) == valid[-1]
    known = spread.n > 0
    inside = [spread.minimum, spread.p10, spread.median, spread.p90, spread.maximum]
    for low, high in pairwise(inside):
        # Interpolating may round in the last digit.
        assert (low[known] <= high[known] + np.abs(high[known]) * 1e-12).all()
    for run, value in zip(spread.maximum_run[known], spread.maximum[known], strict=True):
        assert rows[run - 1][1] == value
