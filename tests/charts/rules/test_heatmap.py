"""Heat maps: operations are added up, none is lost, each lands in its bucket."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchapp.charts.rules.downsampling import make_heat


def test_few_runs_have_a_column_each_over_the_buckets_of_all():
    heat = make_heat([(10, 1, [68, 5, 7]), (20, 2, [70, 3])], 10)

    assert heat.first_bucket == 68
    assert heat.counts.tolist() == [[5, 7, 0], [0, 0, 3]]
    assert (heat.runs.tolist(), heat.run_id.tolist()) == ([1, 1], [1, 2])


def test_runs_that_share_a_column_are_added_up():
    heat = make_heat([(0, 1, [68, 5]), (1, 2, [68, 6]), (100, 3, [68, 7])], 2)

    assert heat.counts.tolist() == [[11], [7]]
    assert (heat.first_us.tolist(), heat.last_us.tolist()) == ([0, 100], [1, 100])
    assert (heat.runs.tolist(), heat.run_id.tolist()) == ([2, 1], [2, 3])


def test_no_heat_map_without_operations():
    assert make_heat([], 5) is None
    assert make_heat([(0, 1, [68]), (1, 2, [68, 0, 0])], 5) is None


@given(
    runs=st.lists(
        st.tuples(st.integers(0, 10**12), st.integers(0, 200), st.lists(st.integers(0, 10**9), max_size=8)),
        max_size=30,
    ),
    count=st.integers(1, 12),
)
def test_no_operation_is_lost(runs, count):
    runs.sort()
    bins = [(at, place, [first, *counts]) for place, (at, first, counts) in enumerate(runs)]

    heat = make_heat(bins, count)

    total = sum(sum(counts) for _, _, counts in runs)
    assert (0 if heat is None else int(heat.counts.sum())) == total
    if heat is not None:
        assert len(heat.counts) <= count
        assert (np.diff(heat.first_us) >= 0).all()
