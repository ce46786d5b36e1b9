"""The knee of latency over throughput."""

import pytest

from benchapp.charts.rules.findings import find_knee


def test_corner_of_a_saturated_device_is_its_knee():
    throughputs = [10_000, 20_000, 40_000, 70_000, 80_000, 81_000, 81_500]
    latencies = [100.0, 100.0, 105.0, 115.0, 200.0, 400.0, 800.0]

    knee = find_knee(throughputs, latencies)

    assert knee == 4


@pytest.mark.parametrize(
    ("throughputs", "latencies"),
    [
        ([1, 2, 3], [1, 1, 9]),
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        ([5, 5, 5, 5], [1, 2, 3, 4]),
        ([1, 2, 3, 4], [7, 7, 7, 7]),
        ([4, 3, 2, 1], [1, 2, 3, 9]),
        ([1, 2, 3, 4], [1, 5, 7, 8]),
        ([1, 2, 3, 4], [1, 2, 3]),
        ([1, 2, 3, 9], [9, 3, 2, 1]),
    ],
    ids=[
        "three points",
        "straight",
        "no throughput gained",
        "no latency",
        "backwards",
        "arched above",
        "uneven",
        "latency falls",
    ],
)
def test_no_knee_is_reported_without_one(throughputs, latencies):
    assert find_knee(throughputs, latencies) is None


def test_gentle_arc_is_no_knee():
    assert find_knee([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 1.8, 2.7, 3.8, 5.0]) is None
