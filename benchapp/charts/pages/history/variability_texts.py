"""Findings about the variability of a metric: an increase of its standard deviation, two states."""

from collections.abc import Iterator
from typing import Final

from benchapp.catalog.metrics import (
    CATALOG,
    Metric,
    format_count,
    format_percent,
    format_signed_percent,
    format_with_unit,
)
from benchapp.charts.read.history import SeriesHistory
from benchapp.framework.times import format_moment
from benchapp.incidents.read.series_status import DetectionStatusRow, select_detected

# Series that are named below a chart, in its order.
_SERIES_NAMED: Final = 5


def describe_variability(row: DetectionStatusRow, metric: Metric) -> Iterator[str]:
    """Yield what is known about the variability of the metric beside its spread."""
    if row.spread_increase is not None:
        found = row.spread_increase
        yield (
            f"The standard deviation increased from {format_percent(found.before)} to {format_percent(found.after)}"
            f" on {format_moment(found.from_at)}."
        )
    if row.two_states is not None:
        states = row.two_states
        yield (
            f"Alternates between two states: {format_with_unit(states.high, metric)} in"
            f" {format_percent(states.high_share)} of the runs, {format_with_unit(states.low, metric)} in the others"
            f" ({format_signed_percent(states.low / states.high - 1)}). The rarer one was"
            f" entered {format_count(states.visits, 'time')} since {format_moment(states.from_at)}."
        )


def describe_variability_of_lines(history: SeriesHistory, metric: Metric) -> list[str]:
    """Return the findings of the series of a chart in this metric, each with the name of its series; at most five."""
    sentences = [
        f"{line.name}: {sentence}"
        for line in history.lines
        if (row := select_detected(line.variability, metric.name)) is not None
        for sentence in describe_variability(row, CATALOG[row.metric])
    ]
    more = len(sentences) - _SERIES_NAMED
    others = [f"{format_count(more, 'more finding')} about the variability of series."] if more > 0 else []
    return [*sentences[:_SERIES_NAMED], *others]
