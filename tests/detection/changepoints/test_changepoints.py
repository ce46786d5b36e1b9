"""Change points: detected where they are, not elsewhere, and the same for incremental evaluation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.detection.changepoints.detector import (
    ValueHistory,
    bound_chance,
    change_indices,
    extend_history,
    judge_next,
    judge_values,
)
from benchapp.detection.changepoints.estimates import ShiftLevel
from benchmarks.histories import make_generator, make_history
from tests.changes import find_changes


def make_noise(points: int, *, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(points)


def make_levels(*levels: tuple[float, int], noise: float = 0.01, seed: int = 1) -> list[float]:
    """Return so many points of each level, with noise as a share of it."""
    flat = np.repeat([level for level, _ in levels], [points for _, points in levels])
    return (flat * (1 + noise * make_noise(len(flat), seed=seed))).tolist()


def test_change_is_the_first_point_of_the_new_level() -> None:
    assert change_indices([100.0] * 30 + [85.0] * 10) == [30]


def test_each_of_several_changes_is_found() -> None:
    assert change_indices(make_levels((100, 40), (85, 50), (100, 30), (120, 60))) == [40, 90, 120]


def test_change_has_both_levels_and_its_size() -> None:
    (change,) = find_changes([99.0, 100.0, 101.0] * 10 + [84.0, 85.0, 86.0] * 4)

    assert change.index == 30
    assert (change.before.median, change.before.points) == (100.0, 30)
    assert (change.after.median, change.after.points) == (85.0, 12)
    assert change.before.spread == pytest.approx(1.48, abs=0.01)
    assert change.shift.relative == pytest.approx(-0.15)
    assert (change.shift.low, change.shift.high) == pytest.approx((-0.159, -0.141), abs=0.002)
    assert change.confidence > 0.9999


def test_evidence_has_sixty_points_on_each_side() -> None:
    (change,) = find_changes(make_levels((100, 90), (85, 90)))

    assert (change.before.points, change.after.points) == (60, 60)


def test_evidence_ends_at_the_next_change() -> None:
    first, second = find_changes(make_levels((100, 90), (85, 20), (70, 30)))

    assert (first.after.points, second.before.points) == (20, 20)
    assert first.after == second.before


def test_weaker_change_has_less_confidence() -> None:
    (clear,) = find_changes(make_levels((100, 40), (90, 12)))
    (faint,) = find_changes(make_levels((100, 40), (98.6, 12)))

    assert faint.confidence < 0.9999 < clear.confidence


@pytest.mark.parametrize(
    ("score", "places", "chance"),
    # Two-sided tails of the normal distribution, as in every table of it.
    [(1.959964, 1, 0.05), (3.290527, 1, 0.001), (3.290527, 40, 0.04), (0.0, 1, 1.0), (-2.0, 9, 1.0)],
)
def test_chance_is_the_tail_of_the_normal_distribution_at_each_place(
    score: float, places: int, chance: float
) -> None:
    assert bound_chance(score, places) == pytest.approx(chance, rel=1e-6)


@pytest.mark.parametrize(
    "values", [[], [1.0], [1.0, 1.0, 1.0, 9.0, 9.0], [1.0] * 100, [0.0] * 50, [-3.0] * 50]
)
def test_too_short_histories_have_no_changes(values: list[float]) -> None:
    assert change_indices(values) == []


def test_two_new_points_are_not_yet_a_level() -> None:
    assert change_indices(make_levels((100, 40), (50, 2))) == []


def test_big_change_is_found_after_three_points() -> None:
    assert change_indices(make_levels((100, 40), (85, 3))) == [40]


def test_change_of_five_spreads_is_found_after_five_points() -> None:
    assert change_indices(make_levels((100, 40), (95, 5))) == [40]


def test_change_below_the_threshold_is_not_detected() -> None:
    values = make_levels((100, 60), (96, 60))

    assert [change.index for change in find_changes(values)] == [60]
    assert find_changes(values, least_relative_change=0.05) == []


def test_change_below_one_percent_is_never_detected() -> None:
    assert change_indices([100.0] * 50 + [100.9] * 50) == []
    assert find_changes([100.0] * 50 + [100.9] * 50, least_relative_change=0.0) == []
    assert change_indices([100.0] * 50 + [101.1] * 50) == [50]


def test_spikes_are_not_changes() -> None:
    values = make_levels((100, 120))
    values[30] = values[31] = 20.0
    values[77] = 900.0

    assert change_indices(values) == []


def test_spikes_do_not_hide_a_change() -> None:
    values = make_levels((100, 60), (92, 60))
    values[20], values[75], values[90] = 10.0, 500.0, 30.0

    assert change_indices(values) == [60]


def test_short_temporary_state_is_not_a_change() -> None:
    """A cache that misses for a few runs now and then."""
    values = make_levels((100, 20), (97, 4), (100, 15), (97, 2), (100, 30), (97, 5), (100, 40))

    assert change_indices(values) == []


def test_state_that_occurred_a_hundred_points_ago_is_not_a_change() -> None:
    values = make_levels((100, 40), (97.5, 6), (100, 90), (97.5, 6), seed=3)

    assert change_indices(values) == []
    assert change_indices(values[46:]) == [90]


def make_states(lows: list[bool], *, seed: int) -> list[float]:
    """Return a cache's hits at 100 and misses at 92, with noise of 1 %."""
    return [
        (92.0 if low else 100.0) * (1 + 0.01 * noise)
        for low, noise in zip(lows, make_noise(len(lows), seed=seed), strict=True)
    ]


def test_returning_sticky_state_is_not_a_change() -> None:
    """Misses come in rows of four to six: six more of them, at the end, are no news."""
    visits = [4, 6, 5, 6, 4, 6]
    lows = [low for visit in visits for low in [False] * 9 + [True] * visit]

    alarms = [change_indices(make_states(lows, seed=seed)) for seed in range(20)]

    assert sum(bool(found) for found in alarms) <= 1


def test_state_far_longer_than_earlier_ones_is_a_change() -> None:
    """One run in four missed at random; then twenty in a row do."""
    found = 0
    for seed in range(20):
        lows = (np.random.default_rng(seed).random(60) < 0.25).tolist() + [True] * 20
        found += any(abs(index - 60) <= 5 for index in change_indices(make_states(lows, seed=seed)))

    assert found >= 18


def test_ten_misses_in_a_row_are_a_change_where_every_fourth_run_missed() -> None:
    """Never two of them in a row before."""
    lows = [place % 4 == 3 for place in range(40)] + [True] * 10

    found = [change_indices(make_states(lows, seed=seed)) for seed in range(20)]

    assert sum(any(39 <= index <= 40 for index in indices) for indices in found) >= 18


def test_shift_below_the_spread_of_single_runs_is_not_detected() -> None:
    """However many runs would tell it."""
    values = make_levels((100, 200), (97.5, 200), noise=0.05)

    assert change_indices(values) == []


def test_long_and_strong_excursion_is_two_changes() -> None:
    assert change_indices(make_levels((100, 50), (80, 12), (100, 50))) == [50, 62]


def test_steady_drift_is_not_a_change() -> None:
    values = (100 + 0.02 * np.arange(200) + make_noise(200)).tolist()

    assert change_indices(values) == []


def test_change_within_a_drift_is_found() -> None:
    values = (100 + 0.02 * np.arange(120) + make_noise(120)) * np.repeat([1, 0.9], 60)

    assert change_indices(values.tolist()) == [60]


def test_correlated_noise_alone_is_no_change() -> None:
    generator = make_generator("correlated", 3)

    found = [
        change_indices(make_history("correlated", 200, variation=0.03, generator=generator))
        for _ in range(20)
    ]

    assert sum(map(len, found)) <= 2


def test_values_in_buckets_are_judged_like_others() -> None:
    values = [1056.0, 1072.0, 1056.0, 1056.0, 1072.0, 1040.0] * 6 + [1120.0, 1136.0, 1120.0] * 4

    assert change_indices(values) == [36]


def test_ups_and_downs_are_found_alike() -> None:
    values = make_levels((100, 40), (93, 12), noise=0.015)

    assert change_indices(values) == change_indices([1 / value for value in values]) == [40]


def test_unit_does_not_matter() -> None:
    values = make_levels((100, 40), (97, 30), (100, 40))

    assert change_indices(values) == change_indices([value * 4096 for value in values])


@pytest.mark.parametrize(
    ("before", "after", "relative"),
    [(0.0, 3.0, None), (3.0, 0.0, -1.0), (-5.0, -7.0, -0.4), (-5.0, 5.0, 2.0), (1e-300, 2e-300, 1.0)],
)
def test_levels_of_any_sign_are_judged(before: float, after: float, relative: float | None) -> None:
    (change,) = find_changes([before] * 20 + [after] * 20)

    assert change.index == 20
    assert change.shift.relative == (relative if relative is None else pytest.approx(relative))


def test_what_is_no_number_is_passed_over_and_keeps_its_index() -> None:
    values = [100.0, math.nan, 100.0] * 10 + [math.inf, 80.0, -math.inf] * 10

    assert change_indices(values) == [31]


def test_huge_and_tiny_values_do_no_harm() -> None:
    assert change_indices([1e308] * 20 + [1.7e308] * 20) == [20]
    assert change_indices([-1.7e308] * 20 + [1.7e308] * 20) == [20]
    assert change_indices([1e308, 5e-324] * 20) == []
    assert change_indices([0.0, -1e300, 1e300, 5e-324] * 20) == []


def test_input_is_not_modified_and_may_be_any_iterable() -> None:
    values = np.array([100.0] * 30 + [80.0] * 10)
    copy = values.copy()

    assert change_indices(values) == change_indices(iter(copy.tolist())) == [30]
    assert (values == copy).all()


def test_long_history_is_judged_throughout() -> None:
    places = [400, 511, 640, 1500, 5000, 9990]
    levels = 100 * 1.1 ** np.searchsorted(places, np.arange(10_000), side="right")

    assert change_indices((levels * (1 + 0.01 * make_noise(10_000))).tolist()) == places


def test_hundred_thousand_clean_points_give_hardly_an_alarm() -> None:
    assert len(change_indices((100 + make_noise(100_000)).tolist())) <= 5


VALUES = st.lists(
    st.one_of(
        st.floats(90, 110),
        st.sampled_from([100.0, 80.0, 120.0, 0.0, -5.0, math.nan, math.inf]),
    ),
    max_size=60,
)


@given(VALUES)
@settings(max_examples=40, deadline=None)
def test_point_by_point_gives_the_same_answer_as_all_at_once(values: list[float]) -> None:
    history = ValueHistory()
    for count, value in enumerate(values, start=1):
        result = judge_next(history, value)
        history = result.history
        assert list(result.changes) == find_changes(values[:count])


@given(
    st.lists(
        st.tuples(st.integers(3, 400), st.sampled_from([90.0, 97.0, 100.0, 130.0])), min_size=1, max_size=8
    ),
    st.lists(st.integers(0, 2000), max_size=5),
    st.sampled_from(["even", "sticky states", "correlated", "spikes"]),
)
@settings(max_examples=25, deadline=None)
def test_any_pieces_give_the_same_answer_as_all_at_once(
    levels: list[tuple[int, float]], cuts: list[int], kind: str
) -> None:
    """Long enough to be settled several times."""
    flat = np.repeat([level for _, level in levels], [points for points, _ in levels])
    noise = make_history(kind, len(flat), variation=0.01, generator=make_generator("pieces", kind))
    values = (flat * np.array(noise)).tolist()

    result = judge_values([])
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(values)], strict=True):
        result = extend_history(result.history, values[start:end])

    assert list(result.changes) == find_changes(values)
    assert [change.index for change in result.changes] == change_indices(values)


def test_long_history_grows_point_by_point_to_the_same_answer() -> None:
    values = make_levels((100, 500), (93, 150), (100, 400), (110, 5), (100, 245), noise=0.02)
    history = judge_values(values[:600]).history

    for count in range(601, 1301):
        result = judge_next(history, values[count - 1])
        history = result.history
        if count % 50 == 0 or 639 < count < 643:
            assert list(result.changes) == find_changes(values[:count])


def test_history_keeps_no_more_than_it_needs() -> None:
    history = judge_values(make_levels((100, 5000))).history

    assert (history.count, history.finite_count) == (5000, 5000)
    assert len(history.tail_values) <= 768


def test_settled_change_is_not_judged_again() -> None:
    result = judge_values(make_levels((100, 300), (85, 700)))

    assert [change.index for change in result.history.settled] == [300]
    assert result.history.settled[0].before == ShiftLevel(
        median=pytest.approx(100, abs=0.5), spread=pytest.approx(1, abs=0.4), points=60
    )


def test_result_is_deterministic_to_the_last_bit() -> None:
    values = make_levels((100, 300), (85, 100), (90, 400), noise=0.03)

    assert find_changes(values) == find_changes(values)


def make_bad(values: list[float], *, loss: float, step: int = 9) -> list[float]:
    """Lower every ninth value, or every other number of values."""
    return [value * (1 - loss * (place % step == 4)) for place, value in enumerate(values)]


def test_bad_runs_do_not_hide_a_change() -> None:
    values = make_bad(make_levels((100, 60), (90, 60), noise=0.02), loss=0.4)

    assert change_indices(values) == [60]


def test_bad_runs_are_not_changes() -> None:
    assert change_indices(make_bad(make_levels((100, 120), noise=0.02), loss=0.4)) == []


def test_three_bad_runs_in_a_row_are_no_change_if_such_runs_are_frequent() -> None:
    values = make_bad(make_levels((100, 80), noise=0.01), loss=0.2)

    assert change_indices([*values, 80.0, 80.5, 79.7]) == []
