"""The reading of several histories, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from benchapp.metrics import Metric, format_value
from benchapp.queries.changes import ChangeMark
from benchapp.queries.history import History, HistoryLine
from benchapp.queries.levels import LevelRow
from benchapp.queries.series import SeriesRow
from benchapp.web.history_table import find_valid, list_levels
from benchapp.web.incident_words import say_signed
from benchapp.web.words import with_unit

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


def say_histories(history: History, metric: Metric) -> str:
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


def say_levels(history: History, metric: Metric) -> list[str]:
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


def list_drifts(history: History, metric: Metric) -> list[str]:
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
