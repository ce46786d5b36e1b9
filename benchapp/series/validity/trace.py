"""Traces from fio logs: equal time buckets over all jobs, and steadiness."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Final

from benchapp.series.validity.rules import Steadiness

# The width of a chart in pixels; a database row stays under 50 KB.
BUCKETS_MAXIMUM: Final = 600
# fio logs have millisecond resolution: finer buckets would be empty or equal.
_RESOLUTION_S: Final = 0.001
# fio logs no window without I/O: after one, the distance to the previous entry is two windows, minus clock jitter.
_GAP_WINDOWS: Final = 1.9
# Distances near the lower quartile are windows; longer ones are gaps.
_JITTER: Final = 1.5
# Minimum of single I/Os per bucket for a meaningful mean or count.
_ENTRIES_A_BUCKET: Final = 10
# SNIA Solid State Storage Performance Test Specification 2.0: steady state is judged over five rounds.
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class TraceLog:
    """The entries of one job's log in one direction: parallel sequences, in the order of the log.

    at_s: end of the window, or of the I/O. values: ns, bytes/s or operations/s. sizes: bytes of each I/O, for the
    bandwidth of single I/Os; empty for all others. window_s: length of the windows; None if unknown, then
    estimated by `find_window`.
    """

    at_s: Sequence[float]
    values: Sequence[float]
    sizes: Sequence[float] = ()
    is_windowed: bool = True
    window_s: float | None = None


@dataclass(frozen=True, slots=True)
class TraceBuckets:
    """Equal time buckets, sequences of one length; at_s: end of each, s.

    Latencies: mean, minimum, maximum and number of the entries of all jobs in a bucket; None in an empty one.
    Rates: mean is the sum over jobs, 0 without I/O; minimum and maximum are None.
    jobs: logs with entries. entries: of all of them.
    """

    bucket_s: float
    jobs: int
    entries: int
    at_s: tuple[float, ...]
    mean: tuple[float | None, ...]
    minimum: tuple[float | None, ...]
    maximum: tuple[float | None, ...]
    count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Grid:
    """start_s: start of the first bucket."""

    start_s: float
    bucket_s: float
    count: int

    def find(self, moment_s: float) -> int:
        """Return the bucket of a time; the end of the last bucket is inclusive."""
        return min(max(int((moment_s - self.start_s) / self.bucket_s), 0), self.count - 1)

    def find_all(self, at_s: Iterable[float], *, before_s: float = 0.0) -> list[int]:
        """Return the buckets of the times minus before_s."""
        start_s, bucket_s, last = self.start_s + before_s, self.bucket_s, self.count - 1
        return [min(max(int((moment_s - start_s) / bucket_s), 0), last) for moment_s in at_s]


def make_trace(
    logs: Sequence[TraceLog], *, is_rate: bool, buckets: int = BUCKETS_MAXIMUM
) -> TraceBuckets | None:
    """Combine the logs of all jobs of one kind and direction into at most `buckets` equal time buckets.

    Latencies are pooled: each entry counts once. It is one I/O or, in a windowed log, the mean of a window; then
    mean, minimum and maximum are those of means. Percentiles cannot be derived from either.
    Rates are averaged over time and added up over jobs: a window counts for the time from the end of the previous
    one; fio logs no window without I/O, so that a gap is 0. Single I/Os are counted, or their bytes.
    None without entries. Time in entries (sorted, where windowed) plus buckets.
    """
    used = [log for log in logs if len(log.at_s)]
    if not used:
        return None
    windows = [_choose_window(log) for log in used]
    grid = _lay_grid(used, windows, max(buckets, 1))
    if is_rate:
        return _add_rates(used, windows, grid)
    return _pool(used, windows, grid)


def find_window(at_s: Sequence[float]) -> float:
    """Return the window length of a log, s, from the ends of its entries in order; at least 0.001.

    The median of the distances near their lower quartile, as gaps are longer. For a single entry its end, as its
    window started with the log. The entries of several directions may follow one another.
    """
    distances = sorted([later - earlier for earlier, later in pairwise(at_s) if later > earlier])
    if not distances:
        return max(at_s[0] if len(at_s) else 0.0, _RESOLUTION_S)
    windows = distances[: bisect_right(distances, distances[len(distances) // 4] * _JITTER)]
    return max(windows[len(windows) // 2], _RESOLUTION_S)


def _choose_window(log: TraceLog) -> float:
    """Return the window length of a log, s; 0 for single I/Os."""
    if not log.is_windowed:
        return 0.0
    return max(log.window_s, _RESOLUTION_S) if log.window_s else find_window(log.at_s)


def _find_window_start(at_s: float, before_s: float, window_s: float) -> float:
    """Return the start of a window that ends at at_s: the end of the previous one, unless there is a gap."""
    return before_s if 0 < at_s - before_s <= window_s * _GAP_WINDOWS else at_s - window_s


def _lay_grid(logs: Sequence[TraceLog], windows: Sequence[float], buckets: int) -> _Grid:
    start_s = min(
        _find_window_start(min(log.at_s), 0.0, window_s) if log.is_windowed else 0.0
        for log, window_s in zip(logs, windows, strict=True)
    )
    span_s = max(max(max(log.at_s) for log in logs) - start_s, _RESOLUTION_S)
    finest_s = max(*windows, _RESOLUTION_S)
    count = round(span_s / finest_s)
    singles = sum(len(log.at_s) for log in logs if not log.is_windowed)
    if singles:
        count = min(count, singles // _ENTRIES_A_BUCKET)
    count = min(max(count, 1), buckets)
    return _Grid(start_s, span_s / count, count)


def _pool(logs: Sequence[TraceLog], windows: Sequence[float], grid: _Grid) -> TraceBuckets:
    sums, counts = array("d", bytes(8 * grid.count)), [0] * grid.count
    minima, maxima = [math.inf] * grid.count, [-math.inf] * grid.count
    for log, window_s in zip(logs, windows, strict=True):
        # A window belongs to the bucket of its middle.
        places = grid.find_all(log.at_s, before_s=window_s / 2)
        _count(places, counts)
        for place, value in zip(places, log.values, strict=True):
            sums[place] += value
            if value < minima[place]:
                minima[place] = value
            if value > maxima[place]:
                maxima[place] = value
    return _make_buckets(
        logs,
        grid,
        mean=[total / count if count else None for total, count in zip(sums, counts, strict=True)],
        minimum=[value if count else None for value, count in zip(minima, counts, strict=True)],
        maximum=[value if count else None for value, count in zip(maxima, counts, strict=True)],
        count=counts,
    )


def _add_rates(logs: Sequence[TraceLog], windows: Sequence[float], grid: _Grid) -> TraceBuckets:
    # Operations or bytes in each bucket.
    done, counts = array("d", bytes(8 * grid.count)), [0] * grid.count
    for log, window_s in zip(logs, windows, strict=True):
        if log.is_windowed:
            _spread_windows(log, window_s, grid, done)
            _count(grid.find_all(log.at_s, before_s=window_s / 2), counts)
            continue
        places = grid.find_all(log.at_s)
        _count(places, counts)
        for place, size in zip(places, log.sizes if len(log.sizes) else repeat(1.0), strict=False):
            done[place] += size
    nothing = [None] * grid.count
    mean = [amount / grid.bucket_s for amount in done]
    return _make_buckets(logs, grid, mean=mean, minimum=nothing, maximum=nothing, count=counts)


def _count(places: Iterable[int], counts: list[int]) -> None:
    for place, count in Counter(places).items():
        counts[place] += count


def _spread_windows(log: TraceLog, window_s: float, grid: _Grid, done: "array[float]") -> None:
    """Distribute the amount of each window over the buckets that it covers, in proportion."""
    start_s, bucket_s = grid.start_s, grid.bucket_s
    before_s = from_s = 0.0
    for at_s, value in zip(log.at_s, log.values, strict=True):
        # One log for all jobs (per_job_logs=0) has them one after the other.
        if at_s < before_s:
            before_s = 0.0
        if at_s != before_s or at_s == 0:
            from_s = max(_find_window_start(at_s, before_s, window_s), start_s)
        before_s = at_s
        first = int((from_s - start_s) / bucket_s)
        if first == int((at_s - start_s) / bucket_s) < grid.count and at_s > from_s:
            # The usual case with more windows than buckets.
            done[first] += value * (at_s - from_s)
            continue
        for place in range(grid.find(from_s), grid.find(at_s) + 1):
            begin_s = start_s + place * bucket_s
            covered_s = min(at_s, begin_s + bucket_s) - max(from_s, begin_s)
            done[place] += value * max(covered_s, 0.0)


def _make_buckets(
    logs: Sequence[TraceLog],
    grid: _Grid,
    *,
    mean: Sequence[float | None],
    minimum: Sequence[float | None],
    maximum: Sequence[float | None],
    count: Sequence[int],
) -> TraceBuckets:
    return TraceBuckets(
        bucket_s=grid.bucket_s,
        jobs=len(logs),
        entries=sum(len(log.at_s) for log in logs),
        at_s=tuple(round(grid.start_s + (place + 1) * grid.bucket_s, 6) for place in range(grid.count)),
        mean=tuple(mean),
        minimum=tuple(minimum),
        maximum=tuple(maximum),
        count=tuple(count),
    )


def judge_steady(values: Sequence[float | None]) -> Steadiness | None:
    """Return the steadiness of a trace by SNIA's rule, over five equal rounds.

    values: of the buckets, in order; None if empty. The first and the last bucket are omitted, as the
    job starts and ends within them. A round is the mean of its known values. Excursion: maximum minus minimum round;
    slope: change of the least-squares line from the first to the last round, negative if it falls;
    both as shares of their average. Steady is at most 0.20 and 0.10 (SNIA SSS PTS 2.0).
    None with fewer than five values between the ends, a round without any, or an average of 0.
    """
    inner = values[1:-1]
    if len(inner) < _ROUNDS:
        return None
    rounds = []
    for number in range(_ROUNDS):
        part = inner[number * len(inner) // _ROUNDS : (number + 1) * len(inner) // _ROUNDS]
        known = [value for value in part if value is not None]
        if not known:
            return None
        rounds.append(sum(known) / len(known))
    average = sum(rounds) / _ROUNDS
    if not average:
        return None
    middle = (_ROUNDS - 1) / 2
    places = [number - middle for number in range(_ROUNDS)]
    slope = sum(place * value for place, value in zip(places, rounds, strict=True)) / sum(
        place * place for place in places
    )
    return Steadiness(
        excursion_share=(max(rounds) - min(rounds)) / average,
        slope_share=slope * (_ROUNDS - 1) / average,
        average=average,
    )
