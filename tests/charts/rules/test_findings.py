"""Findings about curves: numbers of the published EBS series, and limits between findings."""

from dataclasses import replace

import pytest

from benchapp.charts.rules.findings import (
    Curve,
    CurvePlace,
    CurvePoint,
    Erratic,
    Falls,
    Grows,
    LimitFinding,
    Linear,
    Saturates,
    Steady,
    Unclear,
    find_at_limit,
    find_cliffs,
    find_contrast,
    find_extremes,
    list_places,
    read_curve,
)

VOLUMES = (1, 2, 4, 8, 16)


def curve(values, *, counts=VOLUMES, facet=0, line=0, is_higher_better=True):
    points = [
        CurvePoint(CurvePlace(facet, line, place), float(value), count)
        for place, (value, count) in enumerate(zip(values, counts, strict=False))
        if value is not None
    ]
    return Curve(tuple(points), is_higher_better)


def sizes(values, **options):
    return curve(values, counts=[None] * len(values), **options)


def test_gains_stop_where_the_next_value_is_no_better():
    found = read_curve(curve([14311, 24287, 30613, 30180, 30213]))

    assert isinstance(found, Saturates)
    assert (found.start.value, found.level) == (30613, 30213)
    assert list_places(found) == (CurvePlace(0, 0, 2), CurvePlace(0, 0, 4))


def test_bandwidth_saturates_from_where_all_values_lie_within_three_per_cent():
    found = read_curve(curve([50.941, 92.38, 116.796, 121.771, 122.54]))

    assert isinstance(found, Saturates)
    assert found.start.place.x == 3
    assert found.level == pytest.approx(122.1555)


def test_provisioned_volumes_are_linear():
    found = read_curve(curve([2064, 4114, 8150], counts=(1, 2, 4)))

    assert isinstance(found, Linear)
    assert found.efficiency == pytest.approx(0.987, abs=0.001)


def test_one_value_below_nine_tenths_of_ideal_is_not_linear():
    assert isinstance(read_curve(curve([1000, 1700, 3900], counts=(1, 2, 4))), Grows)


def test_sizes_are_never_linear():
    assert isinstance(read_curve(sizes([1000, 2000, 4000])), Grows)


def test_random_writes_of_standard_volumes_are_erratic():
    found = read_curve(curve([6450, 12345, 1736, 10193, 5139]))

    assert isinstance(found, Erratic)
    assert (found.high.value, found.low.value) == (12345, 1736)


def test_one_shallow_dip_is_not_erratic():
    assert isinstance(read_curve(curve([119, 430, 1436, 1148, 2034])), Grows)


def test_fall_is_measured_from_the_best_to_the_worst_later_value():
    found = read_curve(sizes([14311, 375]))

    assert isinstance(found, Falls)
    assert found.share == pytest.approx(0.0262, abs=0.0001)


def test_growth_has_its_factor_and_its_share_of_ideal():
    found = read_curve(curve([16730, 17854, 19830, 28315, 29210]))

    assert isinstance(found, Grows)
    assert found.factor == pytest.approx(1.746, abs=0.001)
    assert found.efficiency == pytest.approx(0.109, abs=0.001)


@pytest.mark.parametrize("values", [[1000, 1010, 990], [1000, 1050]])
def test_values_that_do_not_move_are_steady(values):
    assert isinstance(read_curve(sizes(values)), Steady)


@pytest.mark.parametrize("values", [[], [1000], [1000, 0], [None, 5]])
def test_no_finding_for_too_few_or_nonpositive_values(values):
    assert read_curve(curve(values)) is None


def test_latency_is_never_saturated_or_linear():
    found = read_curve(curve([100, 200, 400, 401, 402], is_higher_better=False))

    assert isinstance(found, Grows)


def test_cliff_is_the_deepest_fall_between_neighbouring_panels():
    small, large = curve([14311, 24287, 30613]), curve([375, 1644, 10912], facet=1)

    (cliff,) = find_cliffs([small, large], is_facet=True)

    assert (cliff.value.value, cliff.reference.value, round(cliff.share, 3)) == (375, 14311, 0.026)
    assert list_places(cliff) == (CurvePlace(1, 0, 0), CurvePlace(0, 0, 0))


def test_half_is_a_cliff_and_a_little_more_is_none():
    assert list(find_cliffs([curve([1000]), curve([500], facet=1)], is_facet=True))
    assert not list(find_cliffs([curve([1000]), curve([501], facet=1)], is_facet=True))


def test_panels_without_a_place_in_common_have_no_cliff():
    assert not list(find_cliffs([curve([1000]), curve([None, 1], facet=1)], is_facet=True))


def test_contrast_is_at_the_largest_distance_of_two_curves():
    found = find_contrast(curve([577, 1829]), curve([8094, 4000], line=1))

    assert found is not None
    assert (found.high.value, found.low.value, round(found.factor, 1)) == (8094, 577, 14.0)


def test_curves_that_lie_within_a_quarter_have_no_contrast():
    assert find_contrast(curve([1000]), curve([1200], line=1)) is None


def test_extremes_of_a_curve_whose_x_has_no_order():
    found = find_extremes(sizes([300, 100, 200]))

    assert found is not None
    assert (found.high.place.x, found.low.place.x, found.factor) == (0, 1, 3.0)


def test_ceiling_is_reached_from_where_all_values_are_at_it():
    limit = LimitFinding(0, "provisioned", (2000, 4000, 8000))

    found = find_at_limit(curve([1000, 4114, 8150], counts=(1, 2, 4)), limit)

    assert found is not None
    assert (found.start.place.x, found.start.value, found.limit) == (1, 4114, 4000)
    assert found.end.place.x == 2


@pytest.mark.parametrize("values", [(None, None), (8000, 16000), (100, 200)])
def test_ceiling_that_is_unknown_or_far_is_not_reached(values):
    assert find_at_limit(curve([2000, 4000]), LimitFinding(0, "limit", values)) is None


def noisy(values, error):
    clean = curve(values)
    points = [replace(point, error=error) for point in clean.points]
    return Curve(tuple(points), clean.is_higher_better)


def test_gains_that_chance_may_bring_are_none():
    values = [14311, 24287, 30613, 31900, 33000]

    assert isinstance(read_curve(curve(values)), Grows)
    assert isinstance(read_curve(noisy(values, 1000)), Saturates)


def test_turns_that_chance_may_bring_are_not_erratic():
    values = [1000, 1400, 950, 1500, 1000]

    assert isinstance(read_curve(curve(values)), Erratic)
    assert not isinstance(read_curve(noisy(values, 400)), Erratic)


def test_step_within_noise_is_unclear():
    found = read_curve(noisy([1000, 1150, 1180], 100))

    assert isinstance(found, Unclear)
    assert (found.low.value, found.high.value, round(found.margin)) == (1000, 1180, 283)
    assert list_places(found) == (CurvePlace(0, 0, 0), CurvePlace(0, 0, 2))


def test_fall_that_chance_may_bring_is_none():
    assert isinstance(read_curve(noisy([1000, 850], 20)), Falls)
    assert isinstance(read_curve(noisy([1000, 850], 80)), Unclear)


def test_contrast_and_cliff_that_chance_may_bring_are_none():
    one, other = noisy([1000], 300), noisy([400], 300)

    assert find_contrast(one, other) is None
    assert list(find_cliffs([one, other], is_facet=True)) == []
    assert find_contrast(curve([1000]), curve([400], line=1)) is not None


def test_limit_is_reached_within_noise():
    limit = LimitFinding(0, "provisioned", (2000,))

    assert find_at_limit(curve([1900]), limit) is None
    assert find_at_limit(noisy([1900], 60), limit) is not None
    assert find_at_limit(curve([2301]), limit) is None
