from collections import Counter

import numpy as np
import pytest

from benchapp.charts.rules.scaling_models import LAYOUT_ERROR, NoModel, WidthValue, fit_scaling
from tests.charts.rules.ebs_series import leave_out_each_width

WIDTHS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32)
ONE, CONTENTION, COHERENCY, LIMIT = 2000.0, 0.1, 0.004, 14_000.0


def compute(model, count):
    if model == "saturation":
        return min(ONE * count, LIMIT)
    contention = CONTENTION if model in ("amdahl", "usl") else 0.0
    coherency = COHERENCY if model == "usl" else 0.0
    return ONE * count / (1 + contention * (count - 1) + coherency * count * (count - 1))


def make_points(model, *, noise=0.0, widths=WIDTHS, generator=None):
    """Return values of a model, scattered as their errors say."""
    scatter = np.hypot(noise, LAYOUT_ERROR) if generator is not None else 0.0
    shocks = generator.standard_normal(len(widths)) if generator is not None else np.zeros(len(widths))
    values = [
        compute(model, count) * float(np.exp(scatter * shock))
        for count, shock in zip(widths, shocks, strict=True)
    ]
    return [WidthValue(count, value, noise * value) for count, value in zip(widths, values, strict=True)]


@pytest.mark.parametrize("model", ["linear", "amdahl", "usl", "saturation"])
def test_exact_values_give_their_model_and_its_parameters(model):
    found = fit_scaling(make_points(model))

    assert found.name == model
    assert found.one.value == pytest.approx(ONE, rel=1e-6)
    assert found.misfit == pytest.approx(0, abs=1e-6)
    for part, expected in (
        (found.contention, CONTENTION),
        (found.coherency, COHERENCY),
        (found.limit, LIMIT),
    ):
        assert part is None or part.value == pytest.approx(expected, rel=1e-6)
    present = tuple(part is not None for part in (found.contention, found.coherency, found.limit))
    assert (
        present
        == {
            "linear": (False, False, False),
            "amdahl": (True, False, False),
            "usl": (True, True, False),
            "saturation": (False, False, True),
        }[model]
    )


@pytest.mark.parametrize(
    ("model", "selected"), [("linear", 34), ("amdahl", 36), ("usl", 28), ("saturation", 36)]
)
def test_true_parameters_are_within_their_intervals_in_nine_of_ten(model, selected):
    generator = np.random.default_rng(11)
    fits = [fit_scaling(make_points(model, noise=0.03, generator=generator)) for _ in range(40)]
    right = [fit for fit in fits if fit.name == model]

    assert len(right) >= selected
    truths = {"one": ONE, "contention": CONTENTION, "coherency": COHERENCY, "limit": LIMIT}
    for name, truth in truths.items():
        intervals = [interval for fit in right if (interval := getattr(fit, name)) is not None]
        held = sum(interval.low <= truth <= interval.high for interval in intervals)
        assert held >= 0.9 * len(intervals), name


def test_predictions_hold_a_new_layout_in_four_of_five():
    generator = np.random.default_rng(12)
    held = 0
    for model in ("linear", "amdahl", "usl", "saturation") * 25:
        throughput = fit_scaling(make_points(model, noise=0.03, generator=generator)).predict(14).throughput
        new = compute(model, 14) * np.exp(np.hypot(0.03, LAYOUT_ERROR) * generator.standard_normal())
        held += throughput.low <= new <= throughput.high

    assert 70 <= held <= 90


def test_intervals_of_the_same_values_are_the_same():
    points = make_points("amdahl", noise=0.05)

    first, second = fit_scaling(points), fit_scaling(points[::-1])

    assert first.one == second.one
    assert first.predict(5) == second.predict(5)


def test_peak_knee_and_shares_of_a_limit():
    found = fit_scaling(make_points("saturation"))

    assert found.find_peak() == 7
    assert found.find_share(4) == pytest.approx(8000 / 14_000)
    assert found.find_share(16) == pytest.approx(1)
    assert found.find_knee() == 7


def test_usl_has_its_peak_where_its_derivative_is_zero():
    found = fit_scaling(make_points("usl"))

    assert found.find_peak() == round(((1 - CONTENTION) / COHERENCY) ** 0.5)
    knee = found.find_knee()
    assert found.find_share(knee) >= 0.9 > found.find_share(knee - 1)


def test_growth_without_an_end_in_range_has_no_peak():
    found = fit_scaling(make_points("amdahl"))

    assert (found.find_peak(), found.find_knee(), found.find_share(8)) == (None, None, None)


def test_prediction_says_whether_its_width_was_measured():
    found = fit_scaling(make_points("linear"))

    assert found.predict(16).is_measured
    assert not found.predict(14).is_measured
    assert found.predict(48).throughput.value == pytest.approx(48 * ONE)


@pytest.mark.parametrize("count", [0, 49])
def test_width_outside_the_range_is_refused(count):
    with pytest.raises(NoModel, match="outside 1 to 48") as refused:
        fit_scaling(make_points("linear")).predict(count)

    assert refused.value.code == "outside"


def test_three_widths_are_refused():
    with pytest.raises(NoModel, match="3 widths were measured; a model needs at least 4") as refused:
        fit_scaling(make_points("linear", widths=(1, 2, 4)))

    assert refused.value.code == "few-widths"


def test_values_that_no_model_describes_are_refused():
    values = {1: 6450.0, 2: 12_345.0, 4: 1736.0, 8: 10_193.0, 16: 5139.0}

    with pytest.raises(NoModel, match="misses the one of width 4") as refused:
        fit_scaling([WidthValue(count, value) for count, value in values.items()])

    assert refused.value.code == "no-fit"


def test_value_of_zero_is_refused():
    with pytest.raises(NoModel, match="above zero"):
        fit_scaling([WidthValue(count, 0.0 if count == 4 else 10.0) for count in (1, 2, 4, 8)])


def test_four_widths_do_not_allow_three_parameters():
    found = fit_scaling(make_points("usl", widths=(1, 2, 4, 8)))

    assert {each.model for each in found.criteria} == {"linear", "amdahl", "saturation"}


def test_widths_of_the_ebs_series_that_were_left_out_are_predicted():
    left_out = leave_out_each_width()

    assert Counter(each.outcome for each in left_out) == {
        "predicted": 60,
        "outside": 41,
        "few-widths": 34,
        "no-fit": 19,
    }
    differences = [abs(each.predicted.value / each.measured - 1) for each in left_out if each.predicted]
    held = [each.predicted.low <= each.measured <= each.predicted.high for each in left_out if each.predicted]
    # benchmarks/README.md has these figures.
    assert float(np.median(differences)) == pytest.approx(0.045, abs=0.0005)
    assert float(np.mean(held)) == pytest.approx(0.82, abs=0.005)


def test_knee_of_a_peak_at_millions_is_found():
    found = fit_scaling([WidthValue(count, min(count, 180_000_000.0)) for count in (1, 1000, 10**6, 10**9)])

    assert found.find_peak() == 180_000_000
    assert found.find_knee() == 162_000_000


def test_flat_curve_has_its_maximum_at_the_first_width():
    found = fit_scaling([WidthValue(count, 100.0) for count in (1, 2, 4, 8)])

    assert (found.name, found.find_peak(), found.find_share(8)) == ("saturation", 1, pytest.approx(1))


def test_misfit_is_a_share_of_the_value():
    values = {1: 1000.0, 2: 2000.0, 4: 3250.0, 8: 8000.0, 16: 16_000.0}

    found = fit_scaling([WidthValue(count, value) for count, value in values.items()])

    modeled = found.predict(4).throughput.value
    assert (found.misfit_width, found.misfit) == (4, pytest.approx(modeled / 3250 - 1))
