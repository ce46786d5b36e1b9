"""Thresholds: their texts, and when the newest runs violate one."""

import pytest

from benchapp.catalog.thresholds import BadThreshold, find_start, is_violated, parse_threshold


@pytest.mark.parametrize(
    ("written", "metric", "comparison", "limit", "text"),
    [
        ("p99 < 5 ms", "latency_p99_ns", "<", 5e6, "p99 latency < 5 ms"),
        ("p99 5ms", "latency_p99_ns", "<", 5e6, "p99 latency < 5 ms"),
        ("P99 Latency ≤ 5 MS", "latency_p99_ns", "<=", 5e6, "p99 latency <= 5 ms"),
        ("latency_p99_9_ns < 1500us", "latency_p99_9_ns", "<", 1.5e6, "p99.9 latency < 1.5 ms"),
        ("p99.9 < 0.25 µs", "latency_p99_9_ns", "<", 250.0, "p99.9 latency < 250 ns"),
        ("iops > 10k", "iops", ">", 1e4, "IOPS > 10k"),
        ("iops 33415", "iops", ">", 33415.0, "IOPS > 33415"),
        ("IOPS >= 1.5M IOPS", "iops", ">=", 1.5e6, "IOPS >= 1.5M"),
        ("bandwidth >= 200 MB/s", "bandwidth_bytes_per_s", ">=", 2e8, "bandwidth >= 200 MB/s"),
        ("bw 200 MiB/s", "bandwidth_bytes_per_s", ">", 209_715_200.0, "bandwidth > 200 MiB/s"),
        ("bw 4096 KiB/s", "bandwidth_bytes_per_s", ">", 4_194_304.0, "bandwidth > 4 MiB/s"),
        ("bw 3 GiB/s", "bandwidth_bytes_per_s", ">", 3_221_225_472.0, "bandwidth > 3 GiB/s"),
        ("bw 3 GB/s", "bandwidth_bytes_per_s", ">", 3e9, "bandwidth > 3 GB/s"),
        ("bw 7 KB/s", "bandwidth_bytes_per_s", ">", 7e3, "bandwidth > 7 kB/s"),
        ("bw 7 B/s", "bandwidth_bytes_per_s", ">", 7.0, "bandwidth > 7 B/s"),
        ("mean < 1 s", "latency_mean_ns", "<", 1e9, "mean latency < 1 s"),
        ("elapsed < 10 s", "elapsed_s", "<", 10.0, "elapsed time < 10 s"),
        ("p99 < 33142290.03518 ns", "latency_p99_ns", "<", 33142290.03518, "p99 latency < 33142.29003518 µs"),
        ("p99 < 1000000 s", "latency_p99_ns", "<", 1e15, "p99 latency < 1000000 s"),
    ],
)
def test_threshold_is_read_and_written(
    written: str, metric: str, comparison: str, limit: float, text: str
) -> None:
    threshold = parse_threshold(written)

    assert (threshold.metric, threshold.comparison, threshold.limit) == (metric, comparison, limit)
    assert threshold.text == text
    assert parse_threshold(text) == threshold


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "is not a threshold"),
        ("p99 <", "is not a threshold"),
        ("p99 < 5 ms; drop", "is not a threshold"),
        ("p99 < 5", "a unit is required for p99 latency: use one of ns, µs, ms, s"),
        ("p99 < 5 MB/s", "unknown unit 'MB/s' of p99 latency"),
        ("bandwidth > 800 Mb/s", "unknown unit 'Mb/s' of bandwidth: use one of B/s"),
        ("iops > 5 ms", "unknown unit 'ms' of IOPS"),
        ("flavor > 5", "unknown metric 'flavor'"),
        ("iops > 0", "must be greater than 0"),
        ("mean < 999999999999999 s", "at most 10^15"),
        ("p99 > 5ms", "write p99 latency < 5 ms, which notifies when p99 latency is 5 ms or more"),
        ("elapsed => 10 s", "write elapsed time < 10 s, which notifies when elapsed time is 10 s or more"),
        ("iops < 10k", "higher is better: write IOPS > 10k, which notifies when IOPS is 10k or less"),
        ("p99 < 5 ms" + " " * 60, "has more than 60 characters"),
    ],
)
def test_text_that_is_no_threshold_is_refused_with_the_reason(written: str, words: str) -> None:
    with pytest.raises(BadThreshold) as caught:
        parse_threshold(written)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("values", "was_violated", "expected"),
    [
        ([], False, False),
        ([9, 9], False, False),
        ([9, 9], True, True),
        ([1, 1, 9], False, False),
        ([1, 9, 9], False, True),
        ([9, 1, 9], False, True),
        ([9, 9, 9, 1, 1], True, True),
        ([9, 9, 9, 1, 1], False, False),
        ([9, 1, 1, 1], True, False),
        ([5, 5, 5], False, True),
    ],
)
def test_two_of_three_runs_begin_a_violation_and_three_end_it(
    values: list[float], was_violated: bool, expected: bool
) -> None:
    threshold = parse_threshold("elapsed < 5 s")

    assert is_violated(threshold, values, was_violated=was_violated) is expected


@pytest.mark.parametrize(
    ("values", "start"),
    [
        ([1, 1, 1], None),
        ([9, 9], None),
        ([1, 1, 9, 9], 2),
        ([9, 1, 9, 1, 1, 9], 0),
        ([9, 9, 9, 1, 1, 1], None),
        ([9, 9, 9, 1, 1, 1, 9, 9, 1], 6),
    ],
)
def test_violation_starts_with_its_first_run_that_misses(values: list[float], start: int | None) -> None:
    assert find_start(parse_threshold("elapsed < 5 s"), values) == start
