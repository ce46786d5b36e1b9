"""Pooled levels: slots, aligned members, the weighted median, and the share of members that changed."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchapp.detection.changepoints.estimates import measure_spread
from benchapp.detection.rules.pooled_levels import (
    PooledRatios,
    SlotGrid,
    align_members,
    count_changed,
    do_others_follow,
    find_grid,
    may_have_changed,
    pool_ratios,
)

HOUR = 3_600_000_000
MINUTE = HOUR // 60


def make_times(runs: int, *, offset: int = 0) -> np.ndarray:
    return np.arange(runs, dtype=np.int64) * HOUR + offset


def make_levels(members: int, runs: int, *, spread: float = 0.02, seed: int = 1) -> np.ndarray:
    return 100 * np.exp(spread * np.random.default_rng(seed).standard_normal((members, runs)))


def number_runs(histories: Sequence[np.ndarray]) -> np.ndarray:
    """Return the number of the series of each run."""
    return np.repeat(np.arange(len(histories)), [len(history) for history in histories])


def find_slots_of(times: Sequence[np.ndarray]) -> SlotGrid:
    """Return the slots of these series, which have them."""
    grid = find_grid(number_runs(times), np.concatenate(times))
    assert grid is not None
    return grid


def align(times: Sequence[np.ndarray], values: Sequence[np.ndarray], *, slots_maximum: int) -> PooledRatios:
    """Return the ratios of series with these times and values of their runs."""
    slots = find_slots_of(times).find_slots(np.concatenate(times))
    return align_members(
        number_runs(times), slots, np.concatenate(values), count=len(times), slots_maximum=slots_maximum
    )


def test_slots_contain_one_sweep_each_however_long_it_takes() -> None:
    times = [make_times(30, offset=minutes * MINUTE) for minutes in (50, 55, 60, 70)]

    grid = find_slots_of(times)

    assert grid.interval == HOUR
    assert [grid.find_slots(line)[5] for line in times] == [grid.find_slots(times[0])[5]] * 4
    assert grid.find_slot(int(times[3][7])) == grid.find_slots(times[0])[7]
    assert grid.find_start(grid.find_slot(int(times[0][7]))) < times[0][7]


def test_single_runs_have_no_slots() -> None:
    assert find_grid(np.zeros(1, np.intp), make_times(1)) is None
    assert find_grid(np.arange(3), make_times(3)) is None
    assert find_grid(np.zeros(0, np.intp), make_times(0)) is None


def test_interval_is_that_of_most_series_by_their_newest_runs() -> None:
    """Series without runs, with one, and with earlier runs at another interval do not count."""
    changed = np.concatenate([make_times(40) - 40 * HOUR, np.arange(70, dtype=np.int64) * 2 * HOUR])
    daily = np.arange(9, dtype=np.int64) * 24 * HOUR
    members = np.array([1] * 110 + [3] * 110 + [4] + [6] * 9)

    grid = find_grid(members, np.concatenate([changed, changed, make_times(1), daily]))

    assert grid is not None
    assert grid.interval == 2 * HOUR


def test_members_are_aligned_by_slot_and_relative_to_their_own_level() -> None:
    times = [make_times(30), make_times(30, offset=MINUTE)[1::2], make_times(30, offset=MINUTE)]
    values = [np.full(30, 100.0), np.full(15, 7.0), np.full(30, 1.0)]

    pooled = align(times, values, slots_maximum=10)

    assert len(pooled.slots) == 10
    assert pooled.ratios.shape == (10, 3)
    assert pooled.ratios[:, 0].tolist() == [0.0] * 10
    assert np.isnan(pooled.ratios[:, 1]).sum() == 5
    assert np.nansum(np.abs(pooled.ratios[:, 1])) == 0


def test_last_value_of_a_member_in_a_slot_counts() -> None:
    times = [make_times(30), np.sort(np.append(make_times(30), 12 * HOUR + MINUTE))]
    values = [np.full(30, 5.0), np.full(31, 5.0)]
    values[1][12:14] = 10.0, 20.0

    pooled = align(times, values, slots_maximum=30)

    assert pooled.ratios[12].tolist() == pytest.approx([0.0, np.log(4.0)])


def test_member_without_values_is_unknown_in_each_slot() -> None:
    slots = np.concatenate([np.arange(20), np.arange(20)])

    pooled = align_members(np.repeat([0, 2], 20), slots, np.full(40, 3.0), count=3, slots_maximum=30)

    assert pooled.slots.tolist() == list(range(20))
    assert np.isnan(pooled.ratios[:, 1]).all()
    assert not np.isnan(pooled.ratios[:, [0, 2]]).any()
    assert np.isfinite(pooled.weights).all()


def test_member_with_gaps_has_the_spread_of_its_known_slots() -> None:
    """Members with equally many known slots are calculated together, wherever their gaps are."""
    levels = make_levels(5, 40)
    is_there = [np.ones(40, np.bool_)] * 3 + [np.arange(40) % 3 != 1, np.arange(40) % 3 != 1]
    is_there[4] = np.roll(is_there[4], 2)
    times = [make_times(40)[has] for has in is_there]
    values = [line[has] for line, has in zip(levels, is_there, strict=True)]

    pooled = align(times, values, slots_maximum=40)

    expected = [np.log(line) for line in values]
    assert pooled.weights.tolist() == [1 / measure_spread(line, least=0.005) for line in expected]
    for column, line in zip(pooled.ratios.T, expected, strict=True):
        assert column[np.isfinite(column)].tolist() == pytest.approx(
            (line - np.median(line)).tolist(), abs=1e-15
        )


def test_incomplete_newest_slot_is_omitted() -> None:
    times = [make_times(31 if member < 5 else 30, offset=member * MINUTE) for member in range(10)]

    pooled = align(times, [np.full(len(line), 100.0) for line in times], slots_maximum=40)

    assert len(pooled.slots) == 30


def test_steady_member_counts_more_than_noisy_ones() -> None:
    ratios = np.array([[0.0, 0.0, 0.0], [-0.03, 0.2, 0.3]])

    pooled = pool_ratios(ratios, np.array([10.0, 1.0, 1.0]))

    assert pooled.tolist() == pytest.approx([1.0, np.exp(-0.03)])


def test_missing_members_do_not_count() -> None:
    ratios = np.array([[0.1, 0.1, 0.1], [np.nan, -0.2, np.nan]])

    assert pool_ratios(ratios, np.ones(3)).tolist() == pytest.approx([np.exp(0.1), np.exp(-0.2)])


def test_changed_members_are_counted_with_their_weight_and_the_median_of_all() -> None:
    before = np.zeros((10, 4))
    after = np.array([[-0.04, -0.03, -0.02, 0.05]]).repeat(5, axis=0)

    found = count_changed(np.vstack([before, after]), np.array([4.0, 3.0, 2.0, 1.0]), 10, is_rise=False)

    assert (found.members, found.changed, found.share) == (4, 3, pytest.approx(0.9))
    assert found.relative == pytest.approx(np.expm1(-0.025))


def test_no_member_with_values_on_both_sides() -> None:
    ratios = np.full((4, 3), np.nan)

    assert count_changed(ratios, np.ones(3), 2, is_rise=True).members == 0


@pytest.mark.parametrize(("shift", "runs", "asked"), [(0.0, 5, False), (-0.02, 3, True), (0.02, 30, True)])
def test_detector_is_asked_only_if_the_newest_runs_differ(shift: float, runs: int, asked: bool) -> None:
    levels = make_levels(1, 100, spread=0.002) / 100
    levels[:, -runs:] *= 1 + shift

    assert may_have_changed(levels, tolerated_changes=np.array([0.02])).tolist() == [asked]


def test_each_pooled_level_is_compared_with_its_own_tolerated_change() -> None:
    levels = np.ones((3, 100))
    levels[:2, -10:] = 0.97

    assert may_have_changed(levels, tolerated_changes=np.array([0.02, 0.2, 0.02])).tolist() == [
        True,
        False,
        False,
    ]


def test_short_history_has_no_change() -> None:
    levels = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]])

    assert not may_have_changed(levels, tolerated_changes=np.full(2, 0.02)).any()


@pytest.mark.parametrize(("shift", "follows"), [(-0.03, True), (-0.02, True), (-0.01, False), (0.0, False)])
def test_others_follow_a_pooled_change_by_half_of_its_size(shift: float, follows: bool) -> None:
    ratios = np.zeros((40, 9))
    ratios[30:] += shift
    # Noisy members weigh less.
    ratios[30:, 7:] = 0.5
    weights = np.array([20.0] * 7 + [1.0] * 2)

    assert do_others_follow(ratios, weights, 30, relative=-0.03) is follows


def test_members_without_values_on_both_sides_follow_nothing() -> None:
    ratios = np.full((40, 2), np.nan)
    ratios[:30, 0] = 0.0
    ratios[30:, 1] = -0.1

    assert not do_others_follow(ratios, np.ones(2), 30, relative=-0.03)
    assert not do_others_follow(ratios[:, :0], np.ones(0), 30, relative=-0.03)
