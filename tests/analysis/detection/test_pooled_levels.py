"""Pooled levels: slots, aligned members, the weighted median, and the share of members that changed."""

import numpy as np
import pytest

from benchapp.analysis.changepoints.noise import measure_spread
from benchapp.analysis.detection.pooled_levels import (
    align_members,
    count_changed,
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


def test_slots_contain_one_sweep_each_however_long_it_takes() -> None:
    times = [make_times(30, offset=minutes * MINUTE) for minutes in (50, 55, 60, 70)]

    grid = find_grid(times)

    assert grid is not None
    assert grid.interval == HOUR
    assert [grid.find_slots(line)[5] for line in times] == [grid.find_slots(times[0])[5]] * 4
    assert grid.find_slot(int(times[3][7])) == grid.find_slots(times[0])[7]
    assert grid.find_start(grid.find_slot(int(times[0][7]))) < times[0][7]


def test_single_runs_have_no_slots() -> None:
    assert find_grid([make_times(1), make_times(0)]) is None


def test_members_are_aligned_by_slot_and_relative_to_their_own_level() -> None:
    times = [make_times(30), make_times(30, offset=MINUTE)[1::2], make_times(30, offset=MINUTE)]
    values = [np.full(30, 100.0), np.full(15, 7.0), np.full(30, 1.0)]
    grid = find_grid(times)
    assert grid is not None

    pooled = align_members(times, values, grid, slots_maximum=10)

    assert len(pooled.slots) == 10
    assert pooled.ratios[0].tolist() == [0.0] * 10
    assert np.isnan(pooled.ratios[1]).sum() == 5
    assert np.nansum(np.abs(pooled.ratios[1])) == 0


def test_member_with_gaps_has_the_spread_of_its_known_slots() -> None:
    """Members without gaps are calculated together; 13 slots of the last one are missing."""
    levels = make_levels(4, 40)
    is_there = np.arange(40) % 3 != 1
    times = [make_times(40), make_times(40), make_times(40), make_times(40)[is_there]]
    grid = find_grid(times)
    assert grid is not None

    pooled = align_members(times, [*levels[:3], levels[3][is_there]], grid, slots_maximum=40)

    expected = [np.log(line) for line in [*levels[:3], levels[3][is_there]]]
    assert pooled.weights.tolist() == [1 / measure_spread(line, least=0.005) for line in expected]
    for row, line in zip(pooled.ratios, expected, strict=True):
        assert row[np.isfinite(row)].tolist() == pytest.approx((line - np.median(line)).tolist(), abs=1e-15)


def test_incomplete_newest_slot_is_omitted() -> None:
    times = [make_times(31 if member < 5 else 30, offset=member * MINUTE) for member in range(10)]
    values = [np.full(len(line), 100.0) for line in times]
    grid = find_grid(times)
    assert grid is not None

    pooled = align_members(times, values, grid, slots_maximum=40)

    assert len(pooled.slots) == 30


def test_steady_member_counts_more_than_noisy_ones() -> None:
    ratios = np.array([[0.0, -0.03], [0.0, 0.2], [0.0, 0.3]])

    pooled = pool_ratios(ratios, np.array([10.0, 1.0, 1.0]))

    assert pooled.tolist() == pytest.approx([1.0, np.exp(-0.03)])


def test_missing_members_do_not_count() -> None:
    ratios = np.array([[0.1, np.nan], [0.1, -0.2], [0.1, np.nan]])

    assert pool_ratios(ratios, np.ones(3)).tolist() == pytest.approx([np.exp(0.1), np.exp(-0.2)])


def test_changed_members_are_counted_with_their_weight_and_the_median_of_all() -> None:
    before = np.zeros((4, 10))
    after = np.array([[-0.04], [-0.03], [-0.02], [0.05]]).repeat(5, axis=1)

    found = count_changed(np.hstack([before, after]), np.array([4.0, 3.0, 2.0, 1.0]), 10, is_rise=False)

    assert (found.members, found.changed, found.share) == (4, 3, pytest.approx(0.9))
    assert found.relative == pytest.approx(np.expm1(-0.025))


def test_no_member_with_values_on_both_sides() -> None:
    ratios = np.full((3, 4), np.nan)

    assert count_changed(ratios, np.ones(3), 2, is_rise=True).members == 0


@pytest.mark.parametrize(("shift", "runs", "asked"), [(0.0, 5, False), (-0.02, 3, True), (0.02, 30, True)])
def test_detector_is_asked_only_if_the_newest_runs_differ(shift: float, runs: int, asked: bool) -> None:
    values = make_levels(1, 100, spread=0.002)[0] / 100
    values[-runs:] *= 1 + shift

    assert may_have_changed(values, tolerated_change=0.02) == asked


def test_short_history_has_no_change() -> None:
    assert not may_have_changed(np.array([1.0, 2.0, 3.0, 4.0]), tolerated_change=0.02)
