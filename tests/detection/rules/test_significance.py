"""Which changes of one scope are significant: many weak ones at once, one alone late."""

import pytest

from benchapp.detection.rules.significance import (
    ChangeClaim,
    ScopeTests,
    are_significant_drifts,
    count_required_series,
    count_separated,
    estimate_rate,
    filter_significant,
    find_belonging,
    find_required_chance,
    measure_joint_chance,
)


def make_family(tests: int, *, scopes: int = 1) -> ScopeTests:
    """Make the family of series with three metrics each."""
    return ScopeTests(tests=tests, series=tests // 3, scopes=scopes)


def claim(*chances: float) -> list[ChangeClaim]:
    """Give one claim for each chance, each of another cell."""
    return [ChangeClaim(key, key, chance) for key, chance in enumerate(chances)]


def test_estimated_rate_grows_with_the_cube_root_of_the_chance_and_below_1e_8_with_the_root() -> None:
    assert [estimate_rate(chance) for chance in (1.0, 1e-3, 1e-6, 1e-8, 1e-10, 0.0)] == pytest.approx(
        [1e-3, 2.5e-4, 2.5e-5, 5.386e-6, 5.386e-7, 0.0], rel=1e-3
    )


@pytest.mark.parametrize(
    ("chances", "expected"),
    [
        ([], 1.0),
        # Noise begins one that is so sure in one of 40 metrics: 40 · 2.5e-4.
        ([1e-3], 0.01),
        ([1e-6], 0.001),
        # Where one begins, P(another or more where 0.03 are expected); times 1 + log2(2).
        ([1e-3, 1e-3], 5.9e-4),
        ([1e-3] * 8, 1.69e-16),
        # The second is so weak that the surer one alone says more.
        ([1e-12, 1.0], 4.31e-6),
    ],
)
def test_surprise_of_so_many_cells_at_once(chances: list[float], expected: float) -> None:
    assert measure_joint_chance(claim(*chances), make_family(40)) == pytest.approx(expected, rel=0.02)


def test_metrics_of_one_series_count_once() -> None:
    one_cell = [ChangeClaim(1, 7, 1e-3), ChangeClaim(2, 7, 1e-2), ChangeClaim(3, 7, 1e-3)]

    assert measure_joint_chance(one_cell, make_family(40)) == measure_joint_chance(
        claim(1e-3), make_family(40)
    )


def test_claims_that_do_not_count_have_no_significance() -> None:
    assert measure_joint_chance([ChangeClaim(1, 1, 1e-30, counts=False)], make_family(40)) == 1.0


@pytest.mark.parametrize(
    ("cells", "chance", "tests", "scopes", "is_significant"),
    [
        (1, 1e-2, 3, 1, True),  # of three metrics on one host
        (1, 1e-2, 40, 1, False),
        (1, 1e-4, 40, 1, True),
        (2, 1.0, 6, 1, True),
        (8, 1e-3, 960, 20, True),  # a sweep on each of twenty hosts, in three metrics
        (7, 1e-3, 960, 20, False),
        (1, 1e-10, 960, 20, False),
        (1, 9e-11, 960, 20, True),
        (1, 1e-4, 320, 20, False),
        (1, 1e-9, 320, 20, False),
        (1, 1e-10, 320, 20, True),
        (3, 1e-5, 320, 20, True),
        (5, 1e-3, 320, 20, True),
        (12, 1.0, 320, 20, True),
        (6, 1.0, 320, 20, False),
    ],
)
def test_fewer_series_need_more_confidence(
    cells: int, chance: float, tests: int, scopes: int, is_significant: bool
) -> None:
    significant = filter_significant(claim(*[chance] * cells), make_family(tests, scopes=scopes))

    assert len(significant) == (cells if is_significant else 0)


def test_simultaneous_changes_by_noise_are_not_included() -> None:
    claims = claim(*[1e-6] * 20, 1e-2, 1.0)

    # 320 · 3 · 1e-3 = 0.96 of chance 1 are expected: a tenth of 22 would be 2.2; of 20 tests and less none is.
    assert find_belonging(claims, make_family(320)) == set(range(22))
    assert find_belonging(claims, make_family(2000)) == set(range(20))
    assert find_belonging(claim(1e-3), make_family(320)) == frozenset()


def test_only_certain_changes_join_a_known_incident() -> None:
    assert find_belonging(claim(1e-9, 1e-2), make_family(320)) == {0}


@pytest.mark.parametrize(
    ("before", "series", "scopes", "is_significant"),
    [
        (60, 320, 20, True),
        (40, 320, 20, False),  # fewer runs exclude fewer temporary states
        (40, 200, 20, True),
        (30, 24, 11, True),
        (60, 400, 20, False),
        (0, 320, 20, False),
    ],
)
def test_one_separated_change_is_significant_by_itself(
    before: int, series: int, scopes: int, is_significant: bool
) -> None:
    family = ScopeTests(tests=3 * series, series=series, scopes=scopes)

    significant = filter_significant([ChangeClaim(1, 1, 1e-4, separated_before=before)], family)

    assert significant == ({1} if is_significant else set())


@pytest.mark.parametrize(
    ("separation", "t_score", "before_n", "after_n", "expected"),
    [
        (0.4, 8.0, 60, 4, 60),
        (0.39, 8.0, 60, 4, 0),
        (0.4, 7.9, 60, 4, 0),
        (0.4, 8.0, 29, 4, 0),
        (0.4, 8.0, 60, 3, 0),
    ],
)
def test_separated_change_needs_a_gap_a_score_and_runs(
    separation: float, t_score: float, before_n: int, after_n: int, expected: int
) -> None:
    counted = count_separated(separation=separation, t_score=t_score, before_n=before_n, after_n=after_n)

    assert counted == expected


@pytest.mark.parametrize("tests", [30, 300, 3_000, 20 * 960])
def test_required_chance_is_that_of_the_weakest_significant_change_alone(tests: int) -> None:
    family = make_family(tests, scopes=20)
    chance = find_required_chance(family)

    assert filter_significant(claim(chance * 0.99), family) == {0}
    assert filter_significant(claim(chance * 1.01), family) == frozenset()


def test_any_change_is_significant_on_a_host_with_few_tests() -> None:
    assert find_required_chance(make_family(6)) == 1.0


def test_required_series_are_the_fewest_that_are_significant_together() -> None:
    family = make_family(960, scopes=20)

    count = count_required_series(ChangeClaim(0, 0, 1e-3), family)

    assert count is not None
    assert filter_significant(claim(*[1e-3] * count), family)
    assert not filter_significant(claim(*[1e-3] * (count - 1)), family)


def test_no_number_of_uncertain_changes_is_enough_in_a_small_family() -> None:
    assert count_required_series(ChangeClaim(0, 0, 1.0), make_family(9, scopes=10_000)) is None


@pytest.mark.parametrize(
    ("scores", "series", "hosts", "expected"),
    [
        # One of two series of a single host, beyond its 99 % interval.
        ([2.6], 2, 1, True),
        # The same in a large fleet: 320 · 0.01 · e^(−1.8 · 0.64) = 1 in two months.
        ([2.6], 320, 20, False),
        ([2.0, 2.0], 8, 11, True),
        ([2.0, 2.0], 320, 20, False),
        ([2.0] * 15, 320, 20, True),
        ([6.0], 320, 20, True),
        ([], 320, 20, False),
    ],
)
def test_more_or_clearer_drifts_are_required_in_a_larger_fleet(
    scores: list[float], series: int, hosts: int, *, expected: bool
) -> None:
    family = ScopeTests(tests=3 * series, series=series, scopes=hosts)

    assert are_significant_drifts(scores, family) is expected
