"""Changes of young series: found with the usual spread of others as prior, and rarely without a change."""

import numpy as np
import pytest

from benchapp.detection.rules.evaluation_points import find_young_change

WOBBLE = (0.0, 1.2, -0.8, 0.4, -1.3, 0.9, -0.2, 1.5, -1.1, 0.3)


def make_values(*levels: tuple[float, int]) -> np.ndarray:
    """Return so many values of each level, with a spread of about 1 %."""
    flat = np.repeat([level for level, _ in levels], [runs for _, runs in levels]).astype(float)
    return flat * (1 + np.resize(WOBBLE, len(flat)) / 100)


def find(values: np.ndarray, *, usual_spread: float = 0.03) -> int | None:
    change = find_young_change(values, usual_spread=usual_spread, least_relative_change=0.05)
    return change.index if change else None


@pytest.mark.parametrize("known", [5, 7, 10, 11])
def test_large_loss_after_few_runs_is_found_at_its_third_run(known: int) -> None:
    assert find(make_values((100, known), (80, 2))) is None
    assert find(make_values((100, known), (80, 3))) == known


def test_improvement_is_found_too() -> None:
    assert find(make_values((100, 8), (130, 3))) == 8


def test_loss_within_the_usual_spread_is_not_a_change() -> None:
    assert find(make_values((100, 8), (80, 4)), usual_spread=0.1) is None


def test_overlapping_values_are_not_a_change() -> None:
    values = make_values((100, 8), (80, 4))
    values[2] = 84

    assert find(values) is None


@pytest.mark.parametrize("levels", [((100, 3), (80, 3)), ((100, 11), (80, 4)), ((100, 12),)])
def test_too_few_or_too_many_runs_or_no_loss_are_no_change(levels: tuple[tuple[float, int], ...]) -> None:
    assert find(make_values(*levels)) is None


def test_values_that_are_not_positive_are_not_judged() -> None:
    assert find(np.array([0.0] * 8 + [5.0] * 4)) is None


def test_certain_change_has_a_larger_score_and_gap() -> None:
    large = find_young_change(make_values((100, 8), (50, 4)), usual_spread=0.03, least_relative_change=0.05)
    small = find_young_change(make_values((100, 8), (80, 4)), usual_spread=0.03, least_relative_change=0.05)

    assert large
    assert small
    assert large.t_score > small.t_score > 4
    assert 1 > large.gap > small.gap > 0.25
