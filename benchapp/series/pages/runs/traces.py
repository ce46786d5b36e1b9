"""Traces of a run: a panel per quantity, with summary and data table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.catalog.metrics import format_value
from benchapp.framework.pages.number_columns import Scale, choose_scale, format_scaled
from benchapp.framework.pages.value_texts import format_count, format_percent
from benchapp.models import Measurement
from benchapp.series.read.runs.traces import Stretch, TraceRow, find_stretches

# One panel each; of the latencies the first available.
_PANELS: Final = (("iops",), ("bw",), ("lat", "clat", "slat"))
_LABELS: Final = {
    "iops": "IOPS",
    "bw": "Bandwidth",
    "lat": "Total latency (lat)",
    "clat": "Completion latency (clat)",
    "slat": "Submission latency (slat)",
}
_NAMES: Final = {"iops": "IOPS", "bw": "bandwidth"}
# Number of stretches in a sentence; the chart shows all.
_STRETCHES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class TraceTable:
    """Data table of one trace. rows: seconds, mean, minimum, maximum, entries."""

    direction: str
    scale: Scale
    has_band: bool
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TracePanel:
    """One quantity. patterns: direction → rw of its jobs, for the colors; empty if they differ."""

    kind: str
    label: str
    unit: str
    patterns: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    reading: str
    tables: tuple[TraceTable, ...]


def make_trace_panels(
    traces: Sequence[TraceRow], measurements: Sequence[Measurement]
) -> tuple[TracePanel, ...]:
    """Return a panel for each of IOPS, bandwidth and latency that has a trace."""
    panels = []
    for kinds in _PANELS:
        kind = next((each for each in kinds if any(trace.kind == each for trace in traces)), None)
        if kind is not None:
            panels.append(_make_panel([trace for trace in traces if trace.kind == kind], measurements))
    return tuple(panels)


def describe_trace(trace: TraceRow, *, has_several_jobs: bool) -> str:
    """Return a sentence about one quantity: its mean and how steady it was over five slices."""
    stretches = find_stretches(trace)
    noun = _NAMES.get(trace.kind, "latency")
    name = (
        f"Mean {trace.direction} {noun}" if trace.unit == "ns" else f"{trace.direction.capitalize()} {noun}"
    )
    if not stretches:
        return f"{name}: the logs have no values."
    parts = [
        _describe_stretch(stretch, trace, is_only=len(stretches) == 1, has_several_jobs=has_several_jobs)
        for stretch in stretches[:_STRETCHES_SHOWN]
    ]
    rest = len(stretches) - _STRETCHES_SHOWN
    more = f"; {format_count(rest, 'more stretch')}" if rest > 0 else ""
    return f"{name} {', then '.join(parts)}{more}."


def _make_panel(traces: Sequence[TraceRow], measurements: Sequence[Measurement]) -> TracePanel:
    first = traces[0]
    counts = {
        trace.direction: sum(line.series.direction == trace.direction for line in measurements)
        for trace in traces
    }
    return TracePanel(
        kind=first.kind,
        label=_LABELS[first.kind],
        unit=first.unit,
        patterns=tuple((trace.direction, _find_pattern(trace.direction, measurements)) for trace in traces),
        sentences=tuple(
            describe_trace(trace, has_several_jobs=counts[trace.direction] > 1) for trace in traces
        ),
        reading=_describe_chart(first),
        tables=tuple(_make_table(trace) for trace in traces),
    )


def _find_pattern(direction: str, measurements: Iterable[Measurement]) -> str:
    found = {line.series.rw for line in measurements if line.series.direction == direction}
    return found.pop() if len(found) == 1 else ""


def _describe_chart(trace: TraceRow) -> str:
    bucket = f"{trace.bucket_s:.3g} s"
    logs = format_count(trace.jobs, "log")
    if trace.unit == "ns":
        return (
            f"Points: mean of the log entries within {bucket}, {logs}. Band: min to max of these entries."
            " ±: half the range of the means of five slices."
        )
    return f"Points: rate over {bucket}, sum of {logs}. ±: half the range of the means of five slices."


def _describe_stretch(stretch: Stretch, trace: TraceRow, *, is_only: bool, has_several_jobs: bool) -> str:
    span = f"from {_seconds(stretch.from_s)} to {_seconds(stretch.to_s)} s"
    if stretch.mean is None or stretch.excursion_share is None or stretch.slope_share is None:
        return f"was logged {span}, too short to assess steadiness"
    value = format_value(stretch.mean, trace.unit)
    if stretch.is_steady:
        level = f"was steady at {value} ± {format_percent(stretch.excursion_share / 2)}"
        start_s = stretch.from_s - stretch.began_s
        if not is_only:
            return f"{level} {span}"
        return f"{level} after the first {_seconds(start_s)} s" if start_s > 0 else level
    excursion = format_percent(stretch.excursion_share)
    deviation = f"the means of five slices range over {excursion} of their average ({value})"
    if has_several_jobs:
        return f"changed {span}: {deviation}; several jobs contributed"
    way = "fell" if stretch.slope_share < 0 else "rose"
    return f"was not steady: {deviation}, and it {way} by {format_percent(stretch.slope_share)} {span}"


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


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
