"""Recovery of a level."""

import pytest

from benchapp.detection.rules.recovery import (
    ChangedLevel,
    count_returned_runs,
    find_end,
    has_regressed_again,
    has_returned,
    have_changed_again,
    have_returned,
    measure_return,
)

BAD = [800.0, 801.0, 799.0]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([*BAD, 1000.0, 1001.0, 999.0], True),
        ([*BAD, 1200.0, 1201.0, 1199.0], True),  # better than it ever was
        ([*BAD, 1000.0, 1001.0], False),  # two are luck
        ([*BAD, 1000.0, 801.0, 999.0], False),
        ([*BAD, 920.0, 921.0, 919.0], False),  # half way
        ([*BAD, 700.0, 701.0, 699.0], False),  # worse still
        ([1000.0, 1001.0, 999.0], False),  # not even the first run is left of the change
        (BAD, False),
        ([], False),
    ],
)
def test_three_runs_at_the_old_level_are_a_recovery(after: list[float], expected: bool) -> None:
    assert has_returned(after, before_median=1000.0, after_median=800.0, spread=10.0) is expected


@pytest.mark.parametrize(
    ("after", "count"),
    [
        ([*BAD, 1000.0, 1001.0, 999.0], 3),
        ([*BAD, 1000.0, 801.0, 999.0, 1001.0], 4),  # one bad run ends no recovery
        ([*BAD, 1000.0, 1001.0, 999.0, *BAD, 1000.0, 1001.0, 999.0, 1000.0], 4),
        ([1000.0, 1001.0, 999.0], 3),
        ([], 0),
    ],
)
def test_runs_that_are_back_are_counted_from_the_newest_one(after: list[float], count: int) -> None:
    assert count_returned_runs(after, before_median=1000.0, after_median=800.0) == count


def test_small_change_in_high_noise_requires_more_runs() -> None:
    after = [*BAD, *[1000.0] * 13]

    assert not has_returned(after, before_median=1000.0, after_median=800.0, spread=100.0)
    assert has_returned([*after, 1000.0], before_median=1000.0, after_median=800.0, spread=100.0)


def test_latency_comes_down_again() -> None:
    assert has_returned([2e6, 2e6, 1e6, 1e6, 1e6], before_median=1e6, after_median=2e6, spread=1e4)


def test_change_without_shift_has_no_recovery() -> None:
    assert not has_returned([1.0] * 9, before_median=1.0, after_median=1.0, spread=0.0)


@pytest.mark.parametrize(
    ("after", "lasted"),
    [
        (BAD, 3),
        ([*BAD, 1000.0], 3),  # the newest may be the first good one
        ([*BAD, 1000.0, 1001.0, 999.0, 800.0], 3),
        ([*BAD, 1000.0, 801.0, 802.0], 6),  # one good run is a spike
        ([1000.0, 800.0, 800.0], 3),
        ([], 0),
    ],
)
def test_level_lasts_until_three_in_a_row_are_nearer_to_the_old(after: list[float], lasted: int) -> None:
    assert find_end(after, before_median=1000.0, after_median=800.0) == lasted


def test_three_bad_runs_end_a_recovery_and_one_does_not() -> None:
    levels = {"before_median": 1000.0, "after_median": 800.0}

    assert not has_regressed_again([*BAD, 1000.0, 1001.0, 800.0], **levels)
    assert not has_regressed_again([*BAD, 1000.0, 801.0, 800.0], **levels)
    assert has_regressed_again([*BAD, 1000.0, 801.0, 800.0, 799.0], **levels)


def make_levels(*newest: list[float], spread: float = 10.0) -> list[ChangedLevel]:
    """Return levels that fell from 1 000 to 800, one series each, with their newest values."""
    return [
        ChangedLevel(number, 1000.0, 800.0, spread, spread, values) for number, values in enumerate(newest)
    ]


def test_levels_have_returned_after_three_runs_although_a_noisy_tenth_has_not() -> None:
    good = make_levels(*[[1000.0, 1001.0, 999.0]] * 9)
    noisy = ChangedLevel(9, 1000.0, 800.0, 150.0, 150.0, [800.0, 790.0, 810.0])

    assert have_returned([*good, noisy])


@pytest.mark.parametrize(
    "newest",
    [
        [[1000.0, 1001.0]] * 9,  # two runs are luck
        [[1000.0] * 3] * 6 + [[800.0] * 3] * 4,  # four of ten are still there
        [[920.0] * 3] * 9,  # half way
        [[*BAD]] * 9,
        [],
    ],
)
def test_levels_have_not_returned(newest: list[list[float]]) -> None:
    assert not have_returned(make_levels(*newest))


def test_one_noisy_series_needs_more_runs_to_return_than_many() -> None:
    assert have_returned(make_levels(*[[1000.0] * 3] * 9, spread=100.0))
    assert not have_returned(make_levels([1000.0] * 13, spread=100.0))
    assert have_returned(make_levels([1000.0] * 20, spread=100.0))


def test_metrics_of_one_series_are_one_observation() -> None:
    levels = [ChangedLevel(1, 1000.0, 800.0, 100.0, 100.0, [1000.0] * 3) for _ in range(9)]

    assert not have_returned(levels)


def test_levels_have_changed_again_if_most_are_there_for_three_runs() -> None:
    assert have_changed_again(make_levels(*[BAD] * 4))
    assert not have_changed_again(make_levels(*[BAD] * 4, *[[1000.0] * 3] * 4))
    assert not have_changed_again(make_levels(*[[1000.0, *BAD[:2]]] * 4, [1000.0] * 3))


def test_one_noisy_level_has_changed_again_after_more_runs() -> None:
    noisy = [840.0, 760.0] * 4

    assert not have_changed_again(make_levels(noisy[:4], spread=100.0))
    assert have_changed_again(make_levels(noisy, spread=100.0))
    assert not have_changed_again(make_levels([1000.0] * 5 + noisy[:4], spread=100.0))


def test_required_runs_must_be_there() -> None:
    assert have_changed_again(make_levels([1000.0, *[800.0] * 6]), runs=6)
    assert not have_changed_again(make_levels([*[1000.0] * 2, *[800.0] * 4]), runs=6)
    # What ended just now is not bad, however long it lasted.
    assert not have_changed_again(make_levels([*[800.0] * 17, *[1000.0] * 3]), runs=20)


# A pooled level that fell from 1.00 to 0.97.
LOW = [0.971, 0.968, 0.97, 0.969, 0.972]


def has_pooled_returned(*newest: float, spread: float = 0.008, correlation: float = 0.0) -> bool:
    """Return whether a level is back after five runs at 0.97 and these."""
    return measure_return(
        [*LOW, *newest], before_median=1.0, after_median=0.97, spread=spread, correlation=correlation
    ).has_returned


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        ([1.0, 0.999, 1.001], True),
        ([1.001, 0.988, 0.997], True),  # one of three is nearer to the lower level
        ([1.03, 1.02, 1.03], True),  # better than before
        ([1.0, 0.999], False),  # two are luck
        ([1.0, 0.971, 0.999], False),
        ([0.971, *[1.0] * 2], False),
        ([0.985, 0.986, 0.984, 0.985, 0.986, 0.984], False),  # half way, for any number of runs
        ([0.969, 0.971, 0.97], False),
        ([], False),
    ],
)
def test_level_has_returned_if_a_return_is_far_more_likely(newest: list[float], expected: bool) -> None:
    assert has_pooled_returned(*newest) is expected


def test_return_within_noise_needs_more_runs() -> None:
    assert not has_pooled_returned(*[1.0] * 3, spread=0.02)
    assert has_pooled_returned(*[1.0] * 6, spread=0.02)


def test_return_after_a_slow_rise_of_correlated_runs_is_less_likely_than_after_a_jump() -> None:
    rise = [0.976, 0.983, 0.99, 0.993, 0.994]

    assert has_pooled_returned(*rise)
    assert not has_pooled_returned(*rise, correlation=0.8)
    assert has_pooled_returned(*[0.993] * 3, correlation=0.8)


def test_level_half_way_back_has_not_returned_by_a_few_low_or_high_runs() -> None:
    assert not has_pooled_returned(0.986, 0.983, 0.987, 0.984, 0.985, 0.982, 0.991, 0.993, 0.99)


def test_one_extreme_run_is_no_return() -> None:
    assert not has_pooled_returned(0.97, 0.971, 1.5)


@pytest.mark.parametrize(
    ("after", "is_nearer"),
    [([*LOW, 1.0, 0.975, 0.99], True), ([*LOW, 1.0, 0.975, 0.975], False), (LOW[:3], False)],
)
def test_level_is_nearer_to_the_old_one_by_the_mean_of_three_runs(
    after: list[float], is_nearer: bool
) -> None:
    found = measure_return(after, before_median=1.0, after_median=0.97, spread=0.02, correlation=0.0)

    assert (found.has_returned, found.is_nearer) == (False, is_nearer)


def test_level_without_a_step_has_not_returned() -> None:
    found = measure_return([1.0] * 9, before_median=1.0, after_median=1.0, spread=0.0, correlation=0.0)

    assert not found.has_returned
