"""Noise before any change is known, spikes, and where levels may begin."""

import itertools

import numpy as np
import pytest

from benchapp.detection.changepoints.detector import eliminate
from benchapp.detection.changepoints.estimates import (
    clip_spikes,
    measure_spread,
    measure_spreads,
    replace_bad_runs,
)
from benchapp.detection.changepoints.segmentation import (
    Levels,
    arrange_groups,
    compare_sides,
    find_boundaries,
    partition,
    relocate,
    score_excursion,
    take_group_medians,
    take_median,
)
from benchmarks.histories import make_generator, make_history


def make_noise(points: int, *, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(points)


def spread_of(values: np.ndarray) -> float:
    return measure_spread(values, least=0.001)


def test_spread_of_normal_noise_is_its_deviation() -> None:
    assert spread_of(2 * make_noise(2000)) == pytest.approx(2, rel=0.05)


def test_steps_and_spikes_hardly_touch_the_spread() -> None:
    values = make_noise(500)
    values[200:] += 50
    values[[30, 90, 333, 401]] = 1000

    assert spread_of(values) == pytest.approx(1, rel=0.1)


def test_correlation_is_seen_through() -> None:
    generator = make_generator("spread", 1)
    values = make_history("correlated", 2000, variation=0.05, generator=generator)

    assert spread_of(np.log(values)) == pytest.approx(0.05, rel=0.15)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [3.0] * 50])
def test_spread_is_never_nothing(values: list[float]) -> None:
    assert spread_of(np.array(values)) == 0.001


@pytest.mark.parametrize("count", [0, 2, 3, 4, 9, 130])
def test_spreads_of_many_rows_are_exactly_those_of_each(count: int) -> None:
    rows = make_generator("rows", count).standard_normal((7, count))
    rows[3] = 1.0

    assert measure_spreads(rows, least=0.01) == [measure_spread(row, least=0.01) for row in rows]


def test_medians_of_groups_are_exactly_those_of_each() -> None:
    generator = make_generator("groups", 1)
    values, groups = generator.standard_normal(100), generator.integers(0, 12, 100)
    groups[groups == 5] = 6

    medians = take_group_medians(values, arrange_groups(groups, count=13))

    assert np.isnan(medians[[5, 12]]).all()
    assert [medians[group] for group in np.unique(groups)] == [
        take_median(values[groups == group]) for group in np.unique(groups)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_partition_has_the_least_squares_of_all_choices(seed: int) -> None:
    values = make_noise(40, seed=seed)
    values[18:29] += 2
    candidates = [3, 5, 11, 18, 19, 24, 29, 37]

    def measure_cost(chosen: tuple[int, ...]) -> float:
        levels = np.split(values, chosen)
        penalty = 2 * np.log(40) * len(chosen)
        is_short = min(map(len, levels)) < 3
        return np.inf if is_short else penalty + sum(len(level) * np.var(level) for level in levels)

    choices = [each for count in range(9) for each in itertools.combinations(candidates, count)]
    best = min(choices, key=measure_cost)

    assert partition(Levels(values), np.array(candidates), spread=1.0) == list(best)


def test_lone_and_double_spikes_are_pulled_in() -> None:
    values = np.zeros(30)
    values[10], values[20:22] = 90.0, -50.0

    clipped = clip_spikes(values, 1.0)

    assert (clipped[10], clipped[20], clipped[21]) == (4.0, -4.0, -4.0)
    assert np.count_nonzero(clipped) == 3


def test_three_in_a_row_are_no_spike() -> None:
    values = np.zeros(30)
    values[10:13] = 90.0

    assert (clip_spikes(values, 1.0) == values).all()


def test_first_and_newest_points_are_left() -> None:
    values = np.zeros(30)
    values[0] = values[28] = values[29] = 90.0

    assert (clip_spikes(values, 1.0) == values).all()


def test_under_seven_points_nothing_is_clipped() -> None:
    values = np.array([0.0, 0.0, 90.0, 0.0, 0.0, 0.0])

    assert (clip_spikes(values, 1.0) == values).all()


def test_boundaries_are_where_levels_begin() -> None:
    values = np.repeat([0.0, 10.0, 4.0], [50, 30, 40]) + make_noise(120)

    assert {50, 80} <= set(find_boundaries(Levels(values - values.mean()), 1.0))


@pytest.mark.parametrize("points", range(6))
def test_too_few_points_have_no_boundary(points: int) -> None:
    assert find_boundaries(Levels(np.arange(points) * 100.0), 1.0) == []


def test_split_of_least_squares_is_found() -> None:
    levels = Levels(np.array([0.0] * 8 + [1.0] * 4))

    assert relocate(levels, 0, 12) == 8
    assert relocate(levels, 4, 9) is None


def test_contrast_is_that_of_a_t_test() -> None:
    """Squares 8 and a prior of 4: variance 12/10, freedom 10; t² = 4 / (1.2 · 1/2), as a normal score 2.21."""
    levels = Levels(np.array([-2.0, 0.0, -2.0, 0.0, 0.0, 2.0, 0.0, 2.0]))

    contrast = compare_sides(levels, 0, 4, end=8, spread=1.0)

    assert (contrast.shift, contrast.correlation) == (2.0, 0.0)
    assert contrast.t_score == pytest.approx(2.21, abs=0.01)


def test_correlated_sides_count_for_less() -> None:
    alternating = Levels(np.array([-1.0, 1.0] * 20 + [2.0, 4.0] * 20))
    sticky = Levels(np.array([-1.0] * 10 + [1.0] * 20 + [-1.0] * 10 + [2.0] * 10 + [4.0] * 20 + [2.0] * 10))

    loose, tight = (compare_sides(levels, 0, 40, end=80, spread=1.0) for levels in (alternating, sticky))

    assert (loose.shift, tight.shift) == (3.0, 3.0)
    assert (loose.correlation, tight.correlation) == (0.0, pytest.approx(0.76, abs=0.01))
    assert tight.t_score < loose.t_score / 2


def test_line_explains_a_drift_better_than_a_step() -> None:
    drift, step = Levels(np.arange(60.0)), Levels(np.array([0.0] * 30 + [9.0] * 30))

    assert compare_sides(drift, 0, 30, end=60, spread=1.0).gain_over_line < 0
    assert compare_sides(step, 0, 30, end=60, spread=1.0).gain_over_line > 100


def test_excursion_is_distinguished_from_two_steps() -> None:
    there_and_back = Levels(np.array([0.0] * 20 + [5.0] * 6 + [0.0] * 20))
    upstairs = Levels(np.array([0.0] * 20 + [5.0] * 6 + [10.0] * 20))

    assert score_excursion(upstairs, (0, 20, 26, 46), spread=1.0) is None
    assert (score_excursion(there_and_back, (0, 20, 26, 46), spread=1.0) or 0) > 8


def test_weakest_candidate_falls_and_its_neighbours_stand() -> None:
    values = np.repeat([0.0, 0.3, 6.0], [30, 30, 30]) + make_noise(90)

    standing = eliminate(Levels(values - values.mean()), [30, 58], spread=1.0, least_shift=0.01)

    assert standing == [60]


def make_bad_runs(places: list[int]) -> np.ndarray:
    """Return noise of 60 points with low ones at these places."""
    values = make_noise(60)
    values[places] -= 20
    return values


def test_lone_bad_runs_are_replaced_and_the_spread_is_that_of_the_others() -> None:
    places = [5, 14, 23, 31, 40, 41, 52]
    values = make_bad_runs(places)

    sound = replace_bad_runs(values, spread_of(values), least=0.001)

    assert sound is not None
    assert sound.spread == pytest.approx(1, rel=0.3)
    assert np.abs(sound.values).max() < 5
    others = np.delete(np.arange(60), places)
    assert (sound.values[others] == values[others]).all()


@pytest.mark.parametrize(
    "places",
    [
        [],
        [5, 14],  # too few to matter
        list(range(2, 58, 4)),  # more than a fifth
        [5, 6, 14, 15, 23, 24, 40, 41, 52],  # mostly in pairs: a state that comes and goes
    ],
)
def test_no_few_many_or_clustered_bad_runs_are_not_replaced(places: list[int]) -> None:
    values = make_bad_runs(places)

    assert replace_bad_runs(values, spread_of(values), least=0.001) is None


def test_too_short_history_has_no_bad_runs() -> None:
    assert replace_bad_runs(np.zeros(6), 1.0, least=0.001) is None
