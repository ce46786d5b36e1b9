"""The reading of several histories, in words."""

from dataclasses import dataclass

import numpy as np

from benchapp.metrics import Metric
from benchapp.queries.history import History, HistoryLine
from benchapp.queries.levels import LevelRow
from benchapp.web.history_table import find_valid, list_levels
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
        step = find_step(history.lines[0], metric)
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
        step = find_step(line, metric)
        if step is None:
            steady += bool(list_levels(line, metric.name))
            continue
        judged = "better" if (step.percent > 0) == (metric.better == "higher") else "worse"
        before = with_unit(step.before.median, metric)
        sentence = f"{line.name}: {_say_step(step, metric, has_time=True)} from {before} ({judged})."
        changed.append((abs(step.percent), sentence))
    sentences = [sentence for _, sentence in sorted(changed, reverse=True)[:_SAID_MAXIMUM]]
    if steady:
        sentences.append(f"{steady} of {len(history.lines)} series stayed at one level.")
    if not sentences and history.run_count:
        sentences.append("No run of this span counts: all of them failed, are excluded, or have no such value.")
    return sentences


def find_step(line: HistoryLine, metric: Metric) -> Step | None:
    """Return the last change of level within the span; None where the runs stayed at one."""
    levels = list_levels(line, metric.name)
    return Step(levels[-2], levels[-1]) if len(levels) > 1 and levels[-2].median else None


def _say_step(step: Step, metric: Metric, *, has_time: bool = False) -> str:
    since = f"{step.now.from_at:%-d %b %Y %H:%M} UTC" if has_time else f"{step.now.from_at:%-d %b %Y}"
    way = "up" if step.percent > 0 else "down"
    return f"{with_unit(step.now.median, metric)} since {since}, {way} {abs(step.percent):.1f} %"
