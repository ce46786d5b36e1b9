"""Traces of a run, and the steadiness of their stretches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchapp.models import Run, Trace
from benchapp.series.validity.rules import MOST_EXCURSION_SHARE, MOST_SLOPE_SHARE
from benchapp.series.validity.trace import judge_steady

TRACE_UNITS: Final = {"iops": "operations/s", "bw": "bytes/s", "slat": "ns", "clat": "ns", "lat": "ns"}
_ORDER: Final = ("iops", "bw", "lat", "clat", "slat")
_DIRECTIONS: Final = ("read", "write", "trim", "mixed", "sync")
_RATES: Final = ("iops", "bw")
# Of a stretch: a start that takes longer is no start any more.
_LONGEST_START_SHARE: Final = 1 / 3


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One kind and direction of a run's logs, over all its jobs, as lists of one length in the base unit.

    kind: iops, bw, lat, clat or slat. at_s: end of each bucket, from the start of the run. mean: of rates the sum over
    jobs; minimum, maximum: of the entries of a latency, None for rates. count: entries; 0 is a gap.
    """

    kind: str
    direction: str
    jobs: int
    entries: int
    bucket_s: float
    at_s: tuple[float, ...]
    mean: tuple[float | None, ...]
    minimum: tuple[float | None, ...]
    maximum: tuple[float | None, ...]
    count: tuple[int, ...]

    @property
    def unit(self) -> str:
        """Return the base unit of the values."""
        return TRACE_UNITS[self.kind]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a trace without gaps. mean: over the five slices; None for all three where it is too short for five.

    from_s: where the judged part begins, behind what is left out as the start; is_steady by SNIA's rule.
    """

    began_s: float
    from_s: float
    to_s: float
    mean: float | None = None
    excursion_share: float | None = None
    slope_share: float | None = None

    @property
    def is_steady(self) -> bool:
        """Say whether the slices lie no further apart, and drift no more, than SNIA allows."""
        return (
            self.excursion_share is not None
            and self.slope_share is not None
            and self.excursion_share <= MOST_EXCURSION_SHARE
            and abs(self.slope_share) <= MOST_SLOPE_SHARE
        )


def read_traces(run_id: int) -> tuple[TraceRow, ...]:
    """Return the traces of a run: IOPS, bandwidth, latencies, and of each read before write; one query."""
    rows = Trace.objects.filter(run_id=run_id).values_list(
        "kind", "direction", "jobs", "entries", "bucket_s", "buckets"
    )
    made = [_make_row(row) for row in rows]
    return tuple(sorted(made, key=lambda row: (_ORDER.index(row.kind), _DIRECTIONS.index(row.direction))))


def read_host_name(run_id: int) -> str | None:
    """Return the host of a run, with traces or without; None if there is no such run."""
    return Run.objects.filter(pk=run_id).values_list("host__name", flat=True).first()


def find_stretches(trace: TraceRow) -> tuple[Stretch, ...]:
    """Return the stretches of a trace between its gaps, each with the longest part at its end that is steady."""
    return tuple(_judge(trace, first, last) for first, last in _find_spans(trace))


def _make_row(row: tuple[Any, ...]) -> TraceRow:
    kind, direction, jobs, entries, bucket_s, buckets = row
    lists = (tuple(buckets[name]) for name in ("at_s", "mean", "minimum", "maximum", "count"))
    return TraceRow(kind, direction, jobs, entries, bucket_s, *lists)


def _find_spans(trace: TraceRow) -> Iterator[tuple[int, int]]:
    """Yield the first and the last bucket of each stretch; of latencies a gap is two empty buckets or more.

    Windows drift against the buckets, so that one bucket may be empty by chance; of rates a window covers its time.
    """
    least_gap = 1 if trace.kind in _RATES else 2
    filled = [place for place, value in enumerate(trace.mean) if value]
    first = before = -1
    for place in filled:
        if first < 0:
            first = place
        elif place - before > least_gap:
            yield first, before
            first = place
        before = place
    if first >= 0:
        yield first, before


def _judge(trace: TraceRow, first: int, last: int) -> Stretch:
    began_s, to_s = trace.at_s[first] - trace.bucket_s, trace.at_s[last]
    whole: Stretch | None = None
    for start in range(int((last - first) * _LONGEST_START_SHARE) + 1):
        values = trace.mean[first + start : last + 1]
        found = judge_steady(values)
        if found is None:
            break
        # Steadiness ignores the first bucket, which is part of a start that was cut off.
        from_s = trace.at_s[first + start] if start else began_s
        stretch = Stretch(
            began_s, from_s, to_s, _average(values[1:-1]), found.excursion_share, found.slope_share
        )
        if stretch.is_steady:
            return stretch
        whole = whole or stretch
    return whole or Stretch(began_s, began_s, to_s)


def _average(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)
