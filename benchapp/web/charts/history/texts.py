"""Titles and summaries of history charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from benchapp.metrics import PERCENTILES, Metric, ReferenceLimit, ReferenceLine, format_value
from benchapp.queries.charts.history import HistoryLine, SeriesHistory
from benchapp.queries.incidents.changes import ChangeMark
from benchapp.queries.series.levels import LevelRow
from benchapp.queries.series.series import PointSummary, SeriesRow
from benchapp.web.charts.history.table import find_valid, list_levels
from benchapp.web.site.value_texts import (
    format_count,
    format_percent,
    format_signed_percent,
    format_with_unit,
)

# Below this number of runs no spread is shown.
_FEW: int = 5


def format_series_title(series: SeriesRow, metric: Metric, summary: PointSummary) -> str:
    """Return the title of a series page: workload, host or pool, median, spread."""
    workload = series.workload_title.split(" · ")[0]
    if summary.median is None:
        return f"{workload} on {series.scope_name}: no {metric.label} in this time range"
    answer = format_with_unit(summary.median, metric)
    # A value in ms does not show which latency it is.
    median = f"{metric.label} {answer} (median)" if metric.unit == "ns" else f"median {answer}"
    return f"{workload} on {series.scope_name}: {median}{_format_spread(summary)}"


def describe_history(series: SeriesRow, metric: Metric, summary: PointSummary) -> list[str]:
    """Return sentences: number of runs, median, spread, last run."""
    if summary.median is None or summary.last is None:
        return [
            "No run in this time range has a value for this metric. Select another metric or extend the time range."
        ]
    sentences = [
        f"{format_count(summary.n, 'run')} with a value, median {format_with_unit(summary.median, metric)}."
    ]
    if summary.n >= _FEW and summary.p10 is not None and summary.p90 is not None:
        low, high = format_with_unit(summary.p10, metric), format_with_unit(summary.p90, metric)
        sentences.append(f"80 % of runs are between {low} and {high} (p10–p90).")
    elif summary.n > 1:
        sentences.append("Too few runs for a spread.")
    sentences.append(_describe_last_run(metric, summary))
    if summary.minimum is not None and summary.maximum is not None and summary.n > 1:
        sentences.append(
            f"Min {format_with_unit(summary.minimum, metric)}, max {format_with_unit(summary.maximum, metric)};"
            f" {metric.better} is better."
        )
    return sentences


def describe_latency_kind(metric: Metric) -> list[str]:
    """Return which fio latency a metric is based on; empty for other metrics."""
    if metric.name in PERCENTILES:
        kind = "Completion latency (clat), or total latency (lat) if the job sets lat_percentiles"
    elif metric.unit == "ns":
        kind = "Total latency (lat), or completion latency (clat) if fio printed no other or parser version 1 read it"
    else:
        return []
    return [f"{kind}; the run page shows which."]


def describe_limit(limit: ReferenceLimit | None, metric: Metric, summary: PointSummary) -> list[str]:
    """Return whether the median and the last run meet the limit of the profile; empty without a limit."""
    if limit is None or summary.last is None or summary.median is None:
        return []
    last, median = (limit.is_met(value) for value in (summary.last, summary.median))
    words = {True: "pass", False: "fail"}
    both = "both" if last == median else f"median {words[median]}, last run"
    return [
        f"Limit {format_with_unit(limit.value, metric)} ({limit.words}): {both} {words[last]}. Source: {limit.source}."
    ]


def describe_references(
    references: Sequence[ReferenceLine], metric: Metric, summary: PointSummary
) -> list[str]:
    """Return the median relative to reference systems; empty without references."""
    median = summary.median
    if median is None:
        return []
    return [
        f"{line.words[0].upper()}{line.words[1:]} ({format_with_unit(line.value, metric)}): median is"
        f" {format_factor(median / line.value)}. Source: {line.source}."
        for line in references
    ]


def format_factor(factor: float) -> str:
    """Format a ratio to a reference: in per cent below 2, as a factor from 2."""
    return f"{factor * 100:.0f} % of the reference" if factor < 2 else f"{factor:.1f}x the reference"


def _describe_last_run(metric: Metric, summary: PointSummary) -> str:
    last, median = summary.last, summary.median
    if last is None or not median or summary.n == 1:
        return f"Last run: {format_with_unit(last, metric)}."
    percent = (last / median - 1) * 100
    if abs(percent) < 0.05:
        return f"Last run: {format_with_unit(last, metric)}, equal to the median."
    way = "above" if percent > 0 else "below"
    assessment = "better" if (percent > 0) == (metric.better == "higher") else "worse"
    return (
        f"Last run: {format_with_unit(last, metric)}, {abs(percent):.1f} % {way} the median ({assessment})."
    )


def _format_spread(summary: PointSummary) -> str:
    if summary.n < _FEW or not summary.median or summary.p10 is None or summary.p90 is None:
        return ""
    return f", spread {format_percent((summary.p90 - summary.p10) / summary.median)}"


_SENTENCES_MAXIMUM = 8


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level: the levels before and after."""

    before: LevelRow
    now: LevelRow

    @property
    def percent(self) -> float:
        """Return the change in per cent."""
        return (self.now.median / self.before.median - 1) * 100


def format_history_title(history: SeriesHistory, metric: Metric) -> str:
    """Return the title of a history chart: metric, and the range of medians."""
    medians = [
        float(np.median(values)) for line in history.lines if (values := find_valid(line, metric.name)).size
    ]
    if not medians:
        return f"{metric.label} over time: {'no valid runs' if history.run_count else 'no runs'}"
    if len(history.lines) == 1:
        step = find_step(list_levels(history.lines[0], metric.name))
        level = (
            f"median {format_with_unit(medians[0], metric)}" if step is None else _format_step(step, metric)
        )
        return f"{metric.label} over time: {level}"
    count = f"{len(history.lines)} series"
    if max(medians) <= min(medians) * 1.005:
        return f"{metric.label} of {count}: median {format_with_unit(medians[0], metric)}"
    low, high = format_with_unit(min(medians), metric), format_with_unit(max(medians), metric)
    return f"{metric.label} of {count}: medians {low.removesuffix(' IOPS')} to {high}"


def describe_level_changes(history: SeriesHistory, metric: Metric) -> list[str]:
    """Return a sentence for each series with a change, largest change first, and one for the unchanged."""
    changed: list[tuple[float, str]] = []
    steady = 0
    for line in history.lines:
        levels = list_levels(line, metric.name)
        step = find_step(levels)
        if step is None:
            steady += bool(levels) and not list_drift_marks(line, metric)
            continue
        changed.append((abs(step.percent), f"{line.name}: {describe_step(step, metric)}"))
    sentences = [sentence for _, sentence in sorted(changed, reverse=True)[:_SENTENCES_MAXIMUM]]
    sentences += list_drifts(history, metric)
    if steady:
        sentences.append(f"No change detected in {steady} of {len(history.lines)} series.")
    if history.newest is not None:
        sentences.append(
            f"Only the newest {format_value(history.newest, 'operations/s')} runs of each series are displayed."
            " Set From and To for older runs."
        )
    if not sentences and history.run_count:
        sentences.append("No valid runs in this time range: all failed, are excluded, or lack this metric.")
    return sentences


def list_drifts(history: SeriesHistory, metric: Metric) -> list[str]:
    """Return a sentence for each series that drifted from its baseline, largest drift first."""
    found = [
        (
            abs(mark.relative),
            f"{line.name} drifted {format_signed_percent(mark.relative)} from its baseline.",
        )
        for line in history.lines
        for mark in list_drift_marks(line, metric)
    ]
    return [sentence for _, sentence in sorted(found, reverse=True)[:_SENTENCES_MAXIMUM]]


def list_drift_marks(line: HistoryLine, metric: Metric) -> list[ChangeMark]:
    """Return the drift marks of a line in this metric."""
    return [mark for mark in line.changes if mark.is_drift and mark.metric == metric.name]


def find_step(
    levels: Sequence[LevelRow], *, from_at: datetime | None = None, to_at: datetime | None = None
) -> Step | None:
    """Return the last change of level within the time range; None without a change."""
    levels = [
        level
        for level in levels
        if (to_at is None or level.from_at < to_at) and (from_at is None or level.to_at >= from_at)
    ]
    return Step(levels[-2], levels[-1]) if len(levels) > 1 and levels[-2].median else None


def describe_step(step: Step, metric: Metric) -> str:
    """Return a sentence: the new level, its start, and the previous level."""
    assessment = "better" if (step.percent > 0) == (metric.better == "higher") else "worse"
    before = format_with_unit(step.before.median, metric)
    return f"{_format_step(step, metric, has_time=True)} from {before} ({assessment})."


def format_change_title(series: SeriesRow, step: Step, metric: Metric) -> str:
    """Return the title of a series page after a change: the new level and its start."""
    workload = series.workload_title.split(" · ")[0]
    label = f"{metric.label} " if metric.unit == "ns" else ""
    return f"{workload} on {series.scope_name}: {label}{_format_step(step, metric)}"


def _format_step(step: Step, metric: Metric, *, has_time: bool = False) -> str:
    since = f"{step.now.from_at:%-d %b %Y %H:%M} UTC" if has_time else f"{step.now.from_at:%-d %b %Y}"
    way = "up" if step.percent > 0 else "down"
    return f"{format_with_unit(step.now.median, metric)} since {since}, {way} {abs(step.percent):.1f} %"
