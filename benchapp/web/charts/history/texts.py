"""The reading of a history, in words.

The reading of several histories, in words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from benchapp.metrics import PERCENTILES, Metric, ReferenceLimit, ReferenceLine, format_value
from benchapp.queries.charts.history import HistoryLine, SeriesHistory
from benchapp.queries.charts.levels import LevelRow
from benchapp.queries.incidents.changes import ChangeMark
from benchapp.queries.series.series import PointSummary, SeriesRow
from benchapp.web.charts.history.table import find_valid, list_levels
from benchapp.web.site.value_texts import say_signed, with_unit

# Below this a median and a spread pretend to know more than the runs say.
_FEW: int = 5


def say_series_title(series: SeriesRow, metric: Metric, summary: PointSummary) -> str:
    """Say what is shown and the answer: the median, and how far the runs lie apart."""
    workload = series.workload_title.split(" · ")[0]
    if summary.median is None:
        return f"{workload} on {series.scope_name}: no {metric.label} in this span"
    answer = with_unit(summary.median, metric)
    # Milliseconds alone do not say of which latency.
    said = f"{metric.label} {answer} (median)" if metric.unit == "ns" else f"median {answer}"
    return f"{workload} on {series.scope_name}: {said}{_say_spread(summary)}"


def say_history(series: SeriesRow, metric: Metric, summary: PointSummary) -> list[str]:
    """Return sentences: how many, how high, how steady, and where the last run stands."""
    if summary.median is None or summary.last is None:
        return ["No run in this span has a value for this metric. Choose another metric, or widen the days."]
    runs = "1 run" if summary.n == 1 else f"{summary.n:,} runs".replace(",", "\u202f")
    sentences = [f"{runs} with a value; median {with_unit(summary.median, metric)}."]
    if summary.n >= _FEW and summary.p10 is not None and summary.p90 is not None:
        sentences.append(
            f"Eight of ten runs lie between {with_unit(summary.p10, metric)} and {with_unit(summary.p90, metric)}."
        )
    elif summary.n > 1:
        sentences.append("Too few to speak of a spread.")
    sentences.append(_say_last(metric, summary))
    if summary.minimum is not None and summary.maximum is not None and summary.n > 1:
        sentences.append(
            f"Least {with_unit(summary.minimum, metric)}, most {with_unit(summary.maximum, metric)};"
            f" {metric.better} is better."
        )
    return sentences


def say_latency_kind(metric: Metric) -> list[str]:
    """Return of which of fio's latencies a metric is; nothing where it is no latency."""
    if metric.name in PERCENTILES:
        said = "Of completion latency (clat), unless fio was told to print percentiles of total latency (lat)"
    elif metric.unit == "ns":
        said = (
            "Of total latency (lat); of completion alone (clat) where fio gave no other, or parser 1 read it"
        )
    else:
        return []
    return [f"{said}: a run's page says which."]


def say_limit(limit: ReferenceLimit | None, metric: Metric, summary: PointSummary) -> list[str]:
    """Return where the last run and the median stand to the limit between good and bad; nothing without a limit."""
    if limit is None or summary.last is None or summary.median is None:
        return []
    last, median = (limit.is_met(value) for value in (summary.last, summary.median))
    words = {True: "good", False: "bad"}
    both = "both" if last == median else f"median {words[median]}, last run"
    return [
        f"Limit {with_unit(limit.value, metric)} ({limit.words}): {both} {words[last]}. Source: {limit.source}."
    ]


def say_references(references: Sequence[ReferenceLine], metric: Metric, summary: PointSummary) -> list[str]:
    """Return how the median stands to what known systems reached; nothing where none is known."""
    median = summary.median
    if median is None:
        return []
    return [
        f"{line.words[0].upper()}{line.words[1:]}, {with_unit(line.value, metric)}: the median is"
        f" {format_factor(median / line.value)}. Source: {line.source}."
        for line in references
    ]


def format_factor(factor: float) -> str:
    """Show a share of a reference: in per cent up to twice it, in times from there on."""
    return f"{factor * 100:.0f} % of it" if factor < 2 else f"{factor:.1f} times as much"


def _say_last(metric: Metric, summary: PointSummary) -> str:
    last, median = summary.last, summary.median
    if last is None or not median or summary.n == 1:
        return f"The last run: {with_unit(last, metric)}."
    percent = (last / median - 1) * 100
    if abs(percent) < 0.05:
        return f"The last run: {with_unit(last, metric)}, right at the median."
    way = "above" if percent > 0 else "below"
    judged = "better" if (percent > 0) == (metric.better == "higher") else "worse"
    return f"The last run: {with_unit(last, metric)}, {abs(percent):.1f} % {way} the median ({judged})."


def _say_spread(summary: PointSummary) -> str:
    if summary.n < _FEW or not summary.median or summary.p10 is None or summary.p90 is None:
        return ""
    percent = (summary.p90 - summary.p10) / summary.median * 100
    return f", spread {percent:.2g} %" if percent < 10 else f", spread {percent:.0f} %"


_SAID_MAXIMUM = 8


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level: what the runs stood at before, and since then."""

    before: LevelRow
    now: LevelRow

    @property
    def percent(self) -> float:
        """Return how much more it is than before."""
        return (self.now.median / self.before.median - 1) * 100


def say_histories(history: SeriesHistory, metric: Metric) -> str:
    """Say what is shown and the answer: from which median to which."""
    medians = [
        float(np.median(values)) for line in history.lines if (values := find_valid(line, metric.name)).size
    ]
    if not medians:
        return f"{metric.label} over time: {'no run that counts' if history.run_count else 'nothing to show'}"
    if len(history.lines) == 1:
        step = find_step(list_levels(history.lines[0], metric.name))
        said = f"median {with_unit(medians[0], metric)}" if step is None else _say_step(step, metric)
        return f"{metric.label} over time: {said}"
    count = f"{len(history.lines)} series"
    if max(medians) <= min(medians) * 1.005:
        return f"{metric.label} of {count}: medians at {with_unit(medians[0], metric)}"
    low, high = with_unit(min(medians), metric), with_unit(max(medians), metric)
    return f"{metric.label} of {count}: medians {low.removesuffix(' IOPS')} to {high}"


def say_levels(history: SeriesHistory, metric: Metric) -> list[str]:
    """Return a sentence for each line whose level has changed, the largest change first, and one for the steady."""
    changed: list[tuple[float, str]] = []
    steady = 0
    for line in history.lines:
        levels = list_levels(line, metric.name)
        step = find_step(levels)
        if step is None:
            steady += bool(levels) and not list_drift_marks(line, metric)
            continue
        changed.append((abs(step.percent), f"{line.name}: {say_step(step, metric)}"))
    sentences = [sentence for _, sentence in sorted(changed, reverse=True)[:_SAID_MAXIMUM]]
    sentences += list_drifts(history, metric)
    if steady:
        sentences.append(f"{steady} of {len(history.lines)} series stayed at one level.")
    if history.newest is not None:
        sentences.append(
            f"Of a line with more runs in this span the newest {format_value(history.newest, 'operations/s')} are read"
            " and drawn; choose From and To for older ones."
        )
    if not sentences and history.run_count:
        sentences.append(
            "No run of this span counts: all of them failed, are excluded, or have no such value."
        )
    return sentences


def list_drifts(history: SeriesHistory, metric: Metric) -> list[str]:
    """Return a sentence for each line that drifted from an accepted level, the furthest first."""
    found = [
        (
            abs(mark.relative),
            f"{line.name} drifted {say_signed(mark.relative)} from the level that was accepted.",
        )
        for line in history.lines
        for mark in list_drift_marks(line, metric)
    ]
    return [sentence for _, sentence in sorted(found, reverse=True)[:_SAID_MAXIMUM]]


def list_drift_marks(line: HistoryLine, metric: Metric) -> list[ChangeMark]:
    """Return where a line drifted from an accepted level in this metric."""
    return [mark for mark in line.changes if mark.is_drift and mark.metric == metric.name]


def find_step(
    levels: Sequence[LevelRow], *, from_at: datetime | None = None, to_at: datetime | None = None
) -> Step | None:
    """Return the last change of level within a span; None where the runs stayed at one."""
    levels = [
        level
        for level in levels
        if (to_at is None or level.from_at < to_at) and (from_at is None or level.to_at >= from_at)
    ]
    return Step(levels[-2], levels[-1]) if len(levels) > 1 and levels[-2].median else None


def say_step(step: Step, metric: Metric) -> str:
    """Return a sentence: the new level, since when, and what it was before."""
    judged = "better" if (step.percent > 0) == (metric.better == "higher") else "worse"
    before = with_unit(step.before.median, metric)
    return f"{_say_step(step, metric, has_time=True)} from {before} ({judged})."


def say_changed_title(series: SeriesRow, step: Step, metric: Metric) -> str:
    """Say what is shown of one series and the answer: the level it is at, where it was at another before."""
    workload = series.workload_title.split(" · ")[0]
    label = f"{metric.label} " if metric.unit == "ns" else ""
    return f"{workload} on {series.scope_name}: {label}{_say_step(step, metric)}"


def _say_step(step: Step, metric: Metric, *, has_time: bool = False) -> str:
    since = f"{step.now.from_at:%-d %b %Y %H:%M} UTC" if has_time else f"{step.now.from_at:%-d %b %Y}"
    way = "up" if step.percent > 0 else "down"
    return f"{with_unit(step.now.median, metric)} since {since}, {way} {abs(step.percent):.1f} %"
