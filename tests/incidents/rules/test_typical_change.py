"""The typical change of an incident."""

from dataclasses import replace

import pytest

from benchapp.incidents.rules.incidents import ChangeSize, measure_multiple, summarize_metrics

ORDER = ("iops", "mean", "p99")
SMALLEST = {"iops": 0.05, "mean": 0.1, "p99": 0.2}


def make(metric: str, *sizes: float) -> list[ChangeSize]:
    """Return one change of a metric in each of so many series."""
    return [ChangeSize(number, metric, size, SMALLEST[metric]) for number, size in enumerate(sizes)]


def test_one_noisy_series_and_another_metric_do_not_speak_for_the_incident() -> None:
    changes = [*make("iops", -0.79, -0.08, -0.07, -0.09, -0.08), *make("p99", 4.0)]

    typical, other = summarize_metrics(changes, preference=ORDER)

    assert (typical.metric, typical.series, typical.relative) == ("iops", 5, -0.08)
    assert (typical.low, typical.high) == (-0.79, -0.07)
    assert (other.metric, other.series) == ("p99", 1)


def test_metric_that_changed_in_the_most_series_is_the_typical_one() -> None:
    changes = [*make("iops", -0.37, -0.4), *make("p99", *[0.5] * 24)]

    assert [size.metric for size in summarize_metrics(changes, preference=ORDER)] == ["p99", "iops"]


def test_of_metrics_in_nearly_as_many_series_the_first_one_is_typical() -> None:
    changes = [*make("iops", *[-0.15] * 19), *make("mean", *[0.18] * 20), *make("p99", *[0.2] * 8)]

    assert [size.metric for size in summarize_metrics(changes, preference=ORDER)] == ["iops", "mean", "p99"]


def test_series_with_two_changes_of_a_metric_counts_once_by_the_larger_one() -> None:
    (size,) = summarize_metrics([*make("iops", -0.06), *make("iops", -0.2)], preference=ORDER)

    assert (size.series, size.relative) == (1, -0.2)


def test_no_changes_have_no_sizes() -> None:
    assert summarize_metrics([], preference=ORDER) == ()


def test_half_and_double_are_of_the_same_size() -> None:
    assert measure_multiple(-0.5, 0.05) == pytest.approx(measure_multiple(1.0, 0.05))
    assert measure_multiple(-1.0, 0.05) > 100


def test_interval_of_the_median_is_narrower_with_more_series_down_to_what_they_have_in_common() -> None:
    widths = []
    for count in (1, 2, 20, 2000):
        changes = [replace(change, deviation=0.02) for change in make("iops", *[-0.1] * count)]
        (size,) = summarize_metrics(changes, preference=ORDER)
        assert size.interval is not None
        low, high = size.interval
        assert low < -0.1 < high
        widths.append(high - low)

    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > 0.6 * widths[0]


def test_interval_is_unknown_if_that_of_a_series_is() -> None:
    one, other = make("iops", -0.1, -0.2)

    (size,) = summarize_metrics([replace(one, deviation=0.02), other], preference=ORDER)

    assert size.interval is None
