"""The course of a run within itself: a panel for each quantity, its reading in words, and its numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.metrics import format_value
from benchapp.queries.runs.runs import MeasurementRow
from benchapp.queries.runs.traces import Stretch, TraceRow, find_stretches
from benchapp.web.site.number_columns import Scale, choose_scale, format_scaled

# Of latencies the first that there is.
_PANELS: Final = (("iops",), ("bw",), ("lat", "clat", "slat"))
_LABELS: Final = {
    "iops": "IOPS",
    "bw": "Bandwidth",
    "lat": "Total latency (lat)",
    "clat": "Completion latency (clat)",
    "slat": "Submission latency (slat)",
}
_NAMES: Final = {"iops": "IOPS", "bw": "bandwidth"}
# A sentence names so many stretches; the chart shows the others.
_STRETCHES_SAID: Final = 3


@dataclass(frozen=True, slots=True)
class TraceTable:
    """One trace in numbers; rows: seconds, mean, least, greatest, entries."""

    direction: str
    scale: Scale
    has_band: bool
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TracePanel:
    """One quantity. patterns: direction → rw of its jobs, for the colours; empty where they differ."""

    kind: str
    label: str
    unit: str
    patterns: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    reading: str
    tables: tuple[TraceTable, ...]


def make_trace_panels(
    traces: Sequence[TraceRow], measurements: Sequence[MeasurementRow]
) -> tuple[TracePanel, ...]:
    """Return a panel for IOPS, bandwidth and latency as far as there are traces; none without any."""
    panels = []
    for kinds in _PANELS:
        kind = next((each for each in kinds if any(trace.kind == each for trace in traces)), None)
        if kind is not None:
            panels.append(_make_panel([trace for trace in traces if trace.kind == kind], measurements))
    return tuple(panels)


def say_course(trace: TraceRow, *, has_several_jobs: bool) -> str:
    """Say how one quantity held: its mean, and how far the means of five slices lie apart."""
    stretches = find_stretches(trace)
    noun = _NAMES.get(trace.kind, "latency")
    name = (
        f"Mean {trace.direction} {noun}" if trace.unit == "ns" else f"{trace.direction.capitalize()} {noun}"
    )
    if not stretches:
        return f"{name}: the logs hold no values."
    parts = [
        _say_stretch(stretch, trace, is_only=len(stretches) == 1, has_several_jobs=has_several_jobs)
        for stretch in stretches[:_STRETCHES_SAID]
    ]
    rest = len(stretches) - _STRETCHES_SAID
    more = f"; {rest} more {'stretch' if rest == 1 else 'stretches'}" if rest > 0 else ""
    return f"{name} {', then '.join(parts)}{more}."


def _make_panel(traces: Sequence[TraceRow], measurements: Sequence[MeasurementRow]) -> TracePanel:
    first = traces[0]
    counts = {
        trace.direction: sum(line.direction == trace.direction for line in measurements) for trace in traces
    }
    return TracePanel(
        kind=first.kind,
        label=_LABELS[first.kind],
        unit=first.unit,
        patterns=tuple((trace.direction, _find_pattern(trace.direction, measurements)) for trace in traces),
        words=tuple(say_course(trace, has_several_jobs=counts[trace.direction] > 1) for trace in traces),
        reading=_say_reading(first),
        tables=tuple(_make_table(trace) for trace in traces),
    )


def _find_pattern(direction: str, measurements: Iterable[MeasurementRow]) -> str:
    found = {line.workload.rw for line in measurements if line.direction == direction}
    return found.pop() if len(found) == 1 else ""


def _say_reading(trace: TraceRow) -> str:
    bucket = f"{trace.bucket_s:.3g} s"
    logs = "one log" if trace.jobs == 1 else f"{trace.jobs} logs"
    if trace.unit == "ns":
        return (
            f"A point is the mean of what fio logged within {bucket}, of {logs}; the band goes from the least to the"
            " greatest of these entries. ± is half of how far the means of five slices lie apart."
        )
    return (
        f"A point is the rate over {bucket}, added up over {logs}."
        " ± is half of how far the means of five slices lie apart."
    )


def _say_stretch(stretch: Stretch, trace: TraceRow, *, is_only: bool, has_several_jobs: bool) -> str:
    span = f"from {_seconds(stretch.from_s)} to {_seconds(stretch.to_s)} s"
    if stretch.mean is None or stretch.excursion_share is None or stretch.slope_share is None:
        return f"was logged {span}, too short to say how steady it was"
    value = format_value(stretch.mean, trace.unit)
    if stretch.is_steady:
        held = f"held {value} ± {_percent(stretch.excursion_share / 2)}"
        start_s = stretch.from_s - stretch.began_s
        if not is_only:
            return f"{held} {span}"
        return f"{held} after the first {_seconds(start_s)} s" if start_s > 0 else held
    apart = f"five slices lie {_percent(stretch.excursion_share)} of their mean ({value}) apart"
    if has_several_jobs:
        return f"changed {span}: {apart}; several jobs took part"
    way = "fell" if stretch.slope_share < 0 else "rose"
    return f"did not hold: {apart}, and it {way} by {_percent(abs(stretch.slope_share))} {span}"


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def _percent(share: float) -> str:
    percent = share * 100
    return f"{percent:.2g} %" if percent < 10 else f"{percent:.0f} %"


def _make_table(trace: TraceRow) -> TraceTable:
    scale = choose_scale(trace.mean, trace.unit)
    has_band = any(value is not None for value in trace.minimum)
    columns = (trace.mean, trace.minimum, trace.maximum) if has_band else (trace.mean,)
    return TraceTable(
        direction=trace.direction,
        scale=scale,
        has_band=has_band,
        rows=tuple(
            (
                f"{at_s:.1f}",
                *(format_scaled(values[place] if count else None, scale) for values in columns),
                str(count),
            )
            for place, (at_s, count) in enumerate(zip(trace.at_s, trace.count, strict=True))
        ),
    )
