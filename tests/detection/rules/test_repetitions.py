"""Repetitions: correlated runs in quick succession are one observation; independent ones are not."""

import numpy as np

from benchapp.detection.rules.evaluation_points import find_repetitions, merge_repetitions

MINUTE = 60_000_000
DAY = 1440 * MINUTE
NIGHTS = (100.0, 104.0, 97.0, 102.0, 95.0, 101.0)
WOBBLE = (0.0, 0.4, -0.3, 0.2)


def list_times(nights: int, runs: int) -> np.ndarray:
    return np.array([night * DAY + run * 10 * MINUTE for night in range(nights) for run in range(runs)])


def list_nights(levels: tuple[float, ...]) -> np.ndarray:
    """Return four runs of each night, close to its level."""
    return np.array([level + wobble for level in levels for wobble in WOBBLE])


def test_runs_of_a_night_that_agree_are_one_group() -> None:
    values = list_nights(NIGHTS)

    starts = find_repetitions(list_times(6, 4), values)

    assert starts is not None
    assert starts.tolist() == [0, 4, 8, 12, 16, 20]
    assert merge_repetitions(values, starts).tolist() == [100.1, 104.1, 97.1, 102.1, 95.1, 101.1]


def test_independent_runs_of_a_night_are_not_merged() -> None:
    values = np.resize([100.0, 104.0, 97.0, 102.0, 95.0], 24)

    assert find_repetitions(list_times(6, 4), values) is None


def test_runs_at_equal_intervals_are_not_repetitions() -> None:
    assert find_repetitions(np.arange(24) * 6 * 60 * MINUTE, list_nights(NIGHTS)) is None


def test_change_of_level_does_not_make_repetitions() -> None:
    independent = np.resize([100.0, 100.4, 99.7, 100.2, 99.9], 40)
    independent[20:] *= 0.7

    assert find_repetitions(list_times(10, 4), independent) is None


def test_few_nights_or_few_runs_are_not_repetitions() -> None:
    assert find_repetitions(list_times(4, 4), list_nights(NIGHTS[:4])) is None
    assert find_repetitions(list_times(12, 2), list_nights(NIGHTS)) is None
    assert find_repetitions(np.zeros(0, np.int64), np.zeros(0)) is None


def test_equal_values_are_not_repetitions() -> None:
    assert find_repetitions(list_times(6, 4), np.full(24, 5.0)) is None
