"""The course of a run from fio's logs: equal buckets of time over all jobs, and whether it is steady."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Final

from benchapp.analysis.validity.inputs import Steadiness

# As many as a chart is wide; a database row of them stays under 50 KB.
BUCKETS_MAXIMUM: Final = 600
# fio's logs count in milliseconds: finer buckets would be empty or alike.
_RESOLUTION_S: Final = 0.001
# fio logs no window without I/O. Behind one there are two windows to the entry before, less what fio's clock sways.
_GAP_WINDOWS: Final = 1.9
# Distances near the lower quartile are windows; those beyond are gaps.
_SWAY: Final = 1.5
# Single I/Os in a bucket, so that its mean or its number says something.
_ENTRIES_A_BUCKET: Final = 10
# SNIA Solid State Storage Performance Test Specification 2.0: steady state is judged over five rounds.
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class TraceLog:
    """The entries of one job's log in one direction: parallel sequences, in the order of the log.

    at_s: end of the window, or of the I/O. values: ns, bytes/s or operations/s. sizes: bytes of each I/O, for the
    bandwidth of single I/Os, whose values are those of an instant; empty for all others. window_s: length of the
    windows; None where it is not known, and then that of `find_window`.
    """

    at_s: Sequence[float]
    values: Sequence[float]
    sizes: Sequence[float] = ()
    is_windowed: bool = True
    window_s: float | None = None


@dataclass(frozen=True, slots=True)
class TraceBuckets:
    """Equal buckets of time, lists of one length; at_s: end of each, s.

    Of latencies: mean, minimum, maximum and number of the entries of all jobs in a bucket; None in one without.
    Of rates: mean is the sum over jobs, and 0 where none did anything; minimum and maximum are None.
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
    """start_s: where the first bucket begins."""

    start_s: float
    bucket_s: float
    count: int

    def find(self, moment_s: float) -> int:
        """Return the bucket of a moment; the end of the last one belongs to it."""
        return min(max(int((moment_s - self.start_s) / self.bucket_s), 0), self.count - 1)

    def find_all(self, at_s: Iterable[float], *, before_s: float = 0.0) -> list[int]:
        """Return the buckets of the moments that lie so long before these."""
        start_s, bucket_s, last = self.start_s + before_s, self.bucket_s, self.count - 1
        return [min(max(int((moment_s - start_s) / bucket_s), 0), last) for moment_s in at_s]


def make_trace(
    logs: Sequence[TraceLog], *, is_rate: bool, buckets: int = BUCKETS_MAXIMUM
) -> TraceBuckets | None:
    """Combine the logs of all jobs of one kind and direction into at most `buckets` equal buckets of time.

    Latencies are pooled: each entry counts once, and is one I/O, or, in a windowed log, the mean of a window, so
    that the mean is one of means, and minimum and maximum are those of means. Percentiles cannot be had from either.
    Rates are averaged over time and added up over jobs: a window counts for the time that it covers, from the end
    of the one before; fio logs no window without I/O, so that a gap is 0. Single I/Os are counted, or their bytes.
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
    """Return how long the windows of a log are, s, by the ends of its entries in order; at least 0.001.

    What most entries are apart: the median of the distances near their lower quartile, as gaps are longer. The end
    itself of a single entry, whose window began with the log. Several directions may stand one behind the other.
    """
    distances = sorted([later - earlier for earlier, later in pairwise(at_s) if later > earlier])
    if not distances:
        return max(at_s[0] if len(at_s) else 0.0, _RESOLUTION_S)
    windows = distances[: bisect_right(distances, distances[len(distances) // 4] * _SWAY)]
    return max(windows[len(windows) // 2], _RESOLUTION_S)


def _choose_window(log: TraceLog) -> float:
    """Return how long a window of a log is, s; 0 for single I/Os."""
    if not log.is_windowed:
        return 0.0
    return max(log.window_s, _RESOLUTION_S) if log.window_s else find_window(log.at_s)


def _find_window_start(at_s: float, before_s: float, window_s: float) -> float:
    """Return where a window begins that ends at at_s: at the end of the one before, unless a gap is between."""
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
        # A window is where its middle is.
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
    # What was done in each bucket: operations, or bytes.
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
    """Add what was done in each window to the buckets that it covers, in proportion."""
    start_s, bucket_s = grid.start_s, grid.bucket_s
    before_s = from_s = 0.0
    for at_s, value in zip(log.at_s, log.values, strict=True):
        # One log for all jobs (per_job_logs=0) holds one after the other.
        if at_s < before_s:
            before_s = 0.0
        if at_s != before_s or at_s == 0:
            from_s = max(_find_window_start(at_s, before_s, window_s), start_s)
        before_s = at_s
        first = int((from_s - start_s) / bucket_s)
        if first == int((at_s - start_s) / bucket_s) < grid.count and at_s > from_s:
            # Nearly all, where there are more windows than buckets.
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
    """Measure how steady a trace is by SNIA's rule, over five equal rounds of it.

    values: of the buckets, in order; None where there is none. The first and the last bucket are left out, as the
    job starts and ends within them. A round is the mean of its known values. Excursion: greatest less least round;
    slope: what the least-squares line through the five gains from the first to the last, negative if it falls;
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
    )
