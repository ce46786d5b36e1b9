"""The course of a run: equal buckets of time over all jobs, and SNIA's rule of steadiness."""

import pytest

from benchapp.series.validity.trace import TraceBuckets, TraceLog, find_window, judge_steady, make_trace


def make(*logs: TraceLog, is_rate: bool = True, buckets: int = 600) -> TraceBuckets:
    trace = make_trace(logs, is_rate=is_rate, buckets=buckets)
    assert trace is not None
    return trace


def make_windows(*values: float, window_s: float = 1.0) -> TraceLog:
    return TraceLog([window_s * (place + 1) for place in range(len(values))], values)


def test_rates_of_jobs_are_added_up() -> None:
    trace = make(make_windows(100, 110, 120), make_windows(10, 20, 30))

    assert (trace.bucket_s, trace.at_s) == (1.0, (1.0, 2.0, 3.0))
    assert trace.mean == (110, 130, 150)
    assert (trace.jobs, trace.entries, trace.count) == (2, 6, (2, 2, 2))
    assert trace.minimum == trace.maximum == (None, None, None)


def test_window_that_a_bucket_halves_counts_for_both() -> None:
    trace = make(TraceLog([2.0, 4.0], [100, 200], window_s=2.0), make_windows(1, 1, 1, 1), buckets=4)

    # The longest window decides.
    assert (trace.bucket_s, trace.mean) == (2.0, (101, 201))


def test_windows_that_sway_lose_nothing() -> None:
    trace = make(TraceLog([0.5, 1.003, 1.503, 2.004], [100, 100, 100, 100]))

    assert len(trace.mean) == 4
    assert trace.mean == pytest.approx([100, 100, 100, 100])


def test_windows_are_gathered_into_fewer_buckets() -> None:
    trace = make(make_windows(10, 30, 50, 70), buckets=2)

    assert (trace.at_s, trace.mean, trace.count) == ((2.0, 4.0), (20, 60), (2, 2))


def test_gap_in_a_rate_is_nothing_done() -> None:
    trace = make(TraceLog([1.0, 2.0, 5.0], [10, 10, 10]))

    assert trace.mean == (10, 10, 0, 0, 10)


def test_job_that_ended_early_adds_nothing_after() -> None:
    trace = make(make_windows(10, 10, 10, 10), make_windows(5, 5))

    assert trace.mean == (15, 15, 10, 10)


def test_log_that_starts_after_ramp_time_starts_there() -> None:
    trace = make(TraceLog([11.0, 12.0, 13.0], [10, 20, 30]))

    assert (trace.at_s, trace.mean) == ((11.0, 12.0, 13.0), (10, 20, 30))


def test_log_that_holds_one_job_after_the_other_is_their_sum() -> None:
    trace = make(TraceLog([1.0, 2.0, 3.0, 1.0, 2.0, 3.0], [10, 20, 30, 1, 2, 3]))

    assert trace.mean == (11, 22, 33)


def test_single_operations_are_counted_and_not_their_instant_rates() -> None:
    at_s = [place / 20 for place in range(40)]

    trace = make(TraceLog(at_s, [1e9] * 40, is_windowed=False))

    assert (len(trace.mean), sum(trace.count)) == (4, 40)
    assert trace.bucket_s == pytest.approx(0.4875)
    assert trace.mean[0] == pytest.approx(10 / 0.4875)


def test_bytes_of_single_operations_are_added_up() -> None:
    at_s = [place / 10 for place in range(20)]

    trace = make(TraceLog(at_s, [1e9] * 20, sizes=[4096] * 20, is_windowed=False))

    assert trace.mean == pytest.approx([10 * 4096 / 0.95] * 2)


def test_latencies_are_pooled_with_their_extremes() -> None:
    first = TraceLog([0.1, 0.2, 1.1, 1.9], [10, 30, 100, 300], window_s=1.0)
    second = TraceLog([0.5, 1.0, 1.9, 2.0], [80, 20, 500, 100], window_s=1.0)

    trace = make(first, second, is_rate=False, buckets=1)

    assert (trace.mean, trace.minimum, trace.maximum, trace.count) == ((142.5,), (10,), (500,), (8,))


def test_bucket_without_latencies_is_not_known() -> None:
    trace = make(TraceLog([1.0, 2.0, 5.0], [10, 20, 30]), is_rate=False)

    assert trace.mean == (10, 20, None, None, 30)
    assert (trace.minimum[2], trace.maximum[2], trace.count) == (None, None, (1, 1, 0, 0, 1))


def test_latencies_of_single_operations_have_ten_to_a_bucket() -> None:
    at_s = [place / 10 for place in range(30)]

    trace = make(TraceLog(at_s, range(30), is_windowed=False), is_rate=False)

    assert (trace.count, trace.mean) == ((10, 10, 10), (4.5, 14.5, 24.5))


def test_number_of_buckets_is_bounded() -> None:
    trace = make(make_windows(*[100.0] * 10_000, window_s=0.5))

    assert len(trace.mean) == len(trace.at_s) == len(trace.count) == 600
    assert trace.mean == pytest.approx([100.0] * 600)


@pytest.mark.parametrize("at_s", [[0.0], [0.0, 0.0], [5.0, 1.0, 3.0], [1e-9, 1e9], [-5.0, 0.0]])
def test_odd_times_give_a_trace(at_s: list[float]) -> None:
    for is_windowed in (True, False):
        trace = make(TraceLog(at_s, [1.0] * len(at_s), is_windowed=is_windowed))
        assert sum(trace.count) == len(at_s)


@pytest.mark.parametrize(
    ("at_s", "window_s"),
    [
        ([0.5, 1.0, 1.5, 2.0], 0.5),
        ([0.5, 1.003, 1.503, 2.004], 0.501),
        ([1.0, 2.0, 3.0, 9.0, 20.0, 31.0], 1.0),
        ([1.0, 2.0, 1.0, 2.0], 1.0),
        ([5.0], 5.0),
        ([0.0, 0.0], 0.001),
        ([], 0.001),
    ],
)
def test_window_is_what_most_entries_are_apart_and_gaps_do_not_count(
    at_s: list[float], window_s: float
) -> None:
    assert find_window(at_s) == pytest.approx(window_s)


def test_no_entries_are_no_trace() -> None:
    assert make_trace([], is_rate=True) is None
    assert make_trace([TraceLog([], [])], is_rate=False) is None


def test_level_trace_is_steady() -> None:
    found = judge_steady([0, 100, 100, 100, 100, 100, 3])

    assert found is not None
    assert (found.excursion_share, found.slope_share) == (0.0, 0.0)


def test_excursion_is_greatest_less_least_round_over_the_average() -> None:
    found = judge_steady([0, 90, 110, 100, 110, 90, 0])

    assert found is not None
    assert (found.excursion_share, found.slope_share) == (0.2, 0.0)


def test_slope_is_what_the_straight_line_gains() -> None:
    found = judge_steady([0, 80, 90, 100, 110, 120, 0])

    assert found is not None
    assert (found.excursion_share, found.slope_share) == (0.4, 0.4)


def test_falling_trace_has_a_negative_slope() -> None:
    found = judge_steady([0, 120, 110, 100, 90, 80, 0])

    assert found is not None and found.slope_share == -0.4


def test_rounds_are_means_of_equal_parts_without_unknown_values() -> None:
    found = judge_steady([0, 90, 110, 100, None, 100, 100, 100, 100, 100, 100, 0])

    assert found is not None
    assert found.excursion_share == 0.0


@pytest.mark.parametrize(
    "values",
    [[], [1, 2, 3], [1, 2, 3, 4, 5, 6], [0, 1, None, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0]],
)
def test_too_little_to_judge_is_not_judged(values: list[float | None]) -> None:
    assert judge_steady(values) is None
