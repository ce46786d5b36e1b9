"""Titles and summaries of history charts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from benchapp.catalog.metrics import (
    CATALOG,
    Metric,
    ReferenceLimit,
    ReferenceLine,
    find_limit,
    find_references,
    format_change_size,
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
    format_value,
    format_with_unit,
)
from benchapp.charts.read.chart import ChartThreshold
from benchapp.charts.read.history import ChosenSeries, HistoryLine, SeriesHistory, SmallStep
from benchapp.charts.texts.levels import describe_kind, describe_mixed_kinds
from benchapp.framework.read.binary_columns import from_us
from benchapp.framework.times import format_day, format_moment
from benchapp.incidents.read.changes import ChangeRow
from benchapp.incidents.read.series_status import DetectionStatusRow, select_detected
from benchapp.models import Slope, name_scopes
from benchapp.models.measurement import are_same_kind
from benchapp.series.read.levels import DETECTION_RUNS_MINIMUM, LevelChange, LevelRow, find_level_before
from benchapp.series.read.series import SeriesRow

# A line of a threshold farther from the values is not drawn; also in js/charts/history/panel.js.
_THRESHOLD_REACH: float = 5.0
# Below this number of runs no spread is shown.
_FEW: int = 5
# Steps below the threshold that are named; more are counted.
_STEPS_NAMED: int = 3
# Series whose variability is described, in the order of the chart.
_SERIES_NAMED: int = 5


@dataclass(frozen=True, slots=True)
class ShownLevel:
    """The last level within a time range. before: the one before its change, None for the first; is_current: none is
    later.

    switched_at: start of its kind of latency; None if no other kind came before.
    """

    level: LevelRow
    before: LevelRow | None
    is_current: bool
    switched_at: datetime | None = None


def find_shown_level(
    levels: Sequence[LevelRow], *, from_at: datetime | None = None, to_at: datetime | None = None
) -> ShownLevel | None:
    """Return the last level that has runs within the time range; None without one. levels: oldest first."""
    found = [
        place
        for place, level in enumerate(levels)
        if (to_at is None or level.from_at < to_at) and (from_at is None or level.to_at >= from_at)
    ]
    if not found:
        return None
    place = found[-1]
    kind = levels[place].latency_kind
    others = [at for at in range(place) if not are_same_kind(levels[at].latency_kind, kind)]
    return ShownLevel(
        levels[place],
        find_level_before(levels, place),
        place == len(levels) - 1,
        levels[others[-1] + 1].from_at if others else None,
    )


def format_series_title(
    series: SeriesRow, metric: Metric, shown: ShownLevel | None, *, has_range: bool = False
) -> str:
    """Return the title of a series page: workload, host or pool, level, and its change or spread."""
    workload = series.workload_title.split(" · ")[0]
    if shown is None:
        where = " in this time range" if has_range else ""
        return f"{workload} on {series.place}: no {metric.label}{where}"
    # A value in ms does not show which latency it is.
    label = f"{metric.label} " if metric.unit == "ns" else ""
    return f"{workload} on {series.place}: {label}{_format_level(shown, metric)}"


def describe_level(shown: ShownLevel | None, metric: Metric, *, has_range: bool = False) -> list[str]:
    """Return sentences: the level with its runs, the level before, spread, last run, extremes."""
    if shown is None:
        where = " in this time range. Extend it, or" if has_range else ". Wait for the newest upload, or"
        return [f"No valid run with a value{where} select another metric."]
    level = shown.level
    name = "Current level" if shown.is_current else "Level at the end of the time range"
    is_gradual = level.change is not None and level.change.slope is not None
    since = "" if shown.before is None or is_gradual else f" since {format_moment(level.from_at)}"
    value, runs = format_with_unit(level.median, metric), format_count(level.n, "run")
    sentences = [f"{name}: {value}, median of {'the newest ' if is_gradual else ''}{runs}{since}."]
    if shown.before is not None:
        sentences.append(_describe_before(level, shown.before, metric))
    if level.n >= _FEW:
        low, high = format_with_unit(level.p10, metric), format_with_unit(level.p90, metric)
        sentences.append(f"80 % of its runs are between {low} and {high} (p10–p90).")
    elif level.n > 1:
        sentences.append("Too few runs for a spread.")
    sentences.append(_describe_last_run(metric, level))
    if level.n > 1:
        sentences.append(
            f"Min {format_with_unit(level.minimum, metric)}, max {format_with_unit(level.maximum, metric)};"
            f" {metric.better} is better."
        )
    return sentences


def _describe_time_range(line: HistoryLine, metric: Metric) -> list[str]:
    """Return a sentence about all runs of a selected time range; empty without a value."""
    values = line.points.points.values[metric.name][_find_valid(line, metric.name)]
    if not values.size:
        return []
    median, low, high = (
        format_with_unit(float(value), metric) for value in (np.median(values), values.min(), values.max())
    )
    runs = format_count(values.size, "run")
    return [f"Selected time range: {runs}, median {median}, min {low}, max {high}."]


def describe_small_steps(steps: Sequence[SmallStep]) -> list[str]:
    """Return a sentence about the newest steps of a series below its reporting threshold; empty without any."""
    if not steps:
        return []
    named = ", ".join(
        f"{format_signed_percent(step.relative)} on {format_moment(step.at)}"
        for step in reversed(steps[-_STEPS_NAMED:])
    )
    more = len(steps) - _STEPS_NAMED
    others = f" and {more} earlier" if more > 0 else ""
    threshold = format_percent(steps[-1].threshold)
    return [f"Steps below the threshold of {threshold}, not reported: {named}{others}."]


def _describe_before(level: LevelRow, before: LevelRow, metric: Metric) -> str:
    was = f"Was {format_with_unit(before.median, metric)} until {format_moment(before.to_at)}"
    change = level.change
    if change is None or change.metric != metric.name:
        return f"{was}."
    size = format_signed_percent(change.relative)
    if change.is_recovery:
        return f"{was}: recovered from {size}."
    # The change is measured on the nearest runs: the level before may have more and another median.
    verdict = "worse" if change.is_regression else "better"
    return f"{was}. Detected change: {describe_sides(change)}, {size} ({verdict})."


def describe_slope(slope: Slope) -> str:
    """Describe a drift: "gradually since 3 Nov 2026 12:00 UTC, −1.0 % a day, continuing"."""
    rate = f", {format_signed_percent(slope.per_day)} a day" if slope.per_day else ""
    start, end = format_moment(slope.from_at), format_moment(slope.to_at)
    span = f"since {start}{rate}, continuing" if slope.continues else f"between {start} and {end}{rate}"
    return f"gradually {span}"


def describe_sides(change: ChangeRow | LevelChange) -> str:
    """Describe both levels of a change: "33 415 IOPS (40 runs), then 28 400 IOPS (8 runs)"."""
    metric = CATALOG[change.metric]
    before, after = (
        format_with_unit(change.before_median, metric),
        format_with_unit(change.after_median, metric),
    )
    return f"{before} ({format_count(change.before_n, 'run')}), then {after} ({format_count(change.after_n, 'run')})"


def _format_level(shown: ShownLevel, metric: Metric) -> str:
    """Return a level with its change, else with its spread: "23 739 IOPS since 8 Nov 2026, −21.7 %"."""
    level, change = shown.level, shown.level.change
    value = format_with_unit(level.median, metric)
    if shown.before is None:
        if level.n < _FEW or level.spread is None:
            return f"median {value}"
        return f"median {value}, spread {format_percent(level.spread)}"
    since = f"{value} since {format_day(level.since_at)}"
    if change is None or change.metric != metric.name:
        return since
    size = format_signed_percent(change.relative)
    if change.slope:
        return f"{value}, {size} since {format_day(level.since_at)}{', continuing' if change.slope.continues else ''}"
    return f"{since}, recovered from {size}" if change.is_recovery else f"{since}, {size}"


def describe_latency_kind(shown: ShownLevel | None) -> list[str]:
    """Return which fio latency a level is of, and since when; empty for other metrics, and if unknown."""
    if shown is None or not shown.level.latency_kind:
        return []
    return [describe_kind(shown.level.latency_kind, shown.switched_at)]


def _describe_limit(limit: ReferenceLimit | None, metric: Metric, shown: ShownLevel | None) -> list[str]:
    """Return whether the level and its last run meet the limit of the profile; empty without a limit."""
    if limit is None or shown is None:
        return []
    last, median = (limit.is_met(value) for value in (shown.level.last, shown.level.median))
    results = {True: "pass", False: "fail"}
    both = "both" if last == median else f"level {results[median]}, last run"
    value = format_with_unit(limit.value, metric)
    return [f"Limit {value} ({limit.label}): {both} {results[last]}. Source: {limit.source}."]


def _describe_references(
    references: Sequence[ReferenceLine], metric: Metric, shown: ShownLevel | None
) -> list[str]:
    """Return the level relative to reference systems; empty without references."""
    if shown is None:
        return []
    return [
        f"{line.label[0].upper()}{line.label[1:]} ({format_with_unit(line.value, metric)}): the level is"
        f" {format_factor(shown.level.median / line.value)}. Source: {line.source}."
        for line in references
    ]


def _describe_threshold(found: ChartThreshold, names: Mapping[int, str]) -> str:
    start = f"Threshold {found.threshold.text}"
    if not found.violated:
        return f"{start}: not violated."
    if len(names) == 1:
        return f"{start}: violated since {format_moment(next(iter(found.violated.values())))}."
    places = "; ".join(
        f"{names[series_id]} since {format_moment(since_at)}"
        for series_id, since_at in found.violated.items()
    )
    return f"{start}: violated in {len(found.violated)} of {format_count(len(found.series_ids), 'series')}: {places}."


def name_threshold(found: ChartThreshold, *, series_count: int) -> str:
    """Return the label of a threshold's line: "threshold p99 latency < 5 ms (2 of 4 series)"."""
    concerned = len(found.series_ids)
    part = f" ({concerned} of {series_count} series)" if concerned < series_count else ""
    return f"threshold {found.threshold.text}{part}"


def is_threshold_near(limit: float, values: Sequence[float]) -> bool:
    """Return whether the line of a threshold is drawn: a distant one would flatten the chart."""
    return bool(values) and min(values) / _THRESHOLD_REACH <= limit <= max(values) * _THRESHOLD_REACH


def format_factor(factor: float) -> str:
    """Format a ratio to a reference: in per cent below 2, as a factor from 2."""
    return f"{factor * 100:.0f} % of the reference" if factor < 2 else f"{factor:.1f}x the reference"


def _describe_last_run(metric: Metric, level: LevelRow) -> str:
    last, median = format_with_unit(level.last, metric), level.median
    if not median or level.n == 1:
        return f"Last run: {last}."
    difference = level.last / median - 1
    if abs(difference) < 0.0005:
        return f"Last run: {last}, equal to the median."
    way = "above" if difference > 0 else "below"
    assessment = "better" if (difference > 0) == (metric.better == "higher") else "worse"
    return f"Last run: {last}, {format_change_size(difference)} {way} the median ({assessment})."


def list_levels(line: HistoryLine, metric: str) -> tuple[LevelRow, ...]:
    """Return the levels that contain runs of the time range."""
    known = line.points.points.at_us[_find_valid(line, metric)]
    if not known.size:
        return ()
    first_at, last_at = from_us(known[0]), from_us(known[-1])
    return tuple(
        level for level in line.levels.get(metric, ()) if level.from_at <= last_at and level.to_at >= first_at
    )


def find_level_in_view(history: SeriesHistory, line: HistoryLine, metric: str) -> ShownLevel | None:
    """Return the last level with runs in the time range, beside those before and after it; None without such runs."""
    if not list_levels(line, metric):
        return None
    return find_shown_level(line.levels[metric], from_at=history.from_at, to_at=history.to_at)


def _find_valid(line: HistoryLine, metric: str) -> NDArray[np.bool_]:
    """Return which points count and have the metric."""
    points = line.points.points
    return points.counts & ~np.isnan(points.values[metric])


_SENTENCES_MAXIMUM = 8


def format_history_title(history: SeriesHistory, metric: Metric, chosen: ChosenSeries) -> str:
    """Return the title of a history: of one series its workload and level; of several how many got worse, else the
    range of their levels.
    """
    if len(history.lines) == 1:
        (line,) = history.lines
        shown_level = find_level_in_view(history, line, metric.name)
        return format_series_title(line.row, metric, shown_level, has_range=history.has_range)
    if chosen.worse and history.to_at is None:
        return _name_worse(chosen)
    found = [find_shown_level(list_levels(line, metric.name)) for line in history.lines]
    shown = [each for each in found if each is not None]
    if not shown:
        return f"{metric.label} over time: {'no valid runs' if history.run_count else 'no runs'}"
    medians = [each.level.median for each in shown]
    count = f"{len(history.lines)} series"
    if max(medians) <= min(medians) * 1.005:
        return f"{metric.label} of {count}: {format_with_unit(medians[0], metric)}"
    low, high = format_with_unit(min(medians), metric), format_with_unit(max(medians), metric)
    return f"{metric.label} of {count}: {low.removesuffix(' IOPS')} to {high}"


def _name_worse(chosen: ChosenSeries) -> str:
    """Return "120 of 920 series got worse: IOPS −25 % to −26 % in the worst 6, on db-03"."""
    shown = chosen.worse[: len(chosen.rows)]
    metrics = dict.fromkeys(CATALOG[mark.metric].label for mark in shown)
    sizes = sorted({round(mark.relative, 2) for mark in shown}, key=abs)
    size = " to ".join(dict.fromkeys(format_signed_percent(each) for each in (sizes[0], sizes[-1])))
    total = f"{'more than ' if chosen.has_more else ''}{format_integer(chosen.total)}"
    least = f" in the worst {len(shown)}" if len(shown) < len(chosen.worse) else ""
    where = name_scopes(list(dict.fromkeys(row.scope for row in chosen.rows[: len(shown)])))
    return (
        f"{len(chosen.worse)} of {total} series got worse: {' and '.join(metrics)} {size}{least}, on {where}"
    )


def describe_history(
    history: SeriesHistory, metric: Metric, thresholds: Sequence[ChartThreshold] = ()
) -> list[str]:
    """Return the sentences beside a chart. thresholds: of the reader, of all metrics of the chart."""
    if len(history.lines) == 1:
        sentences = _describe_series(history, history.lines[0], metric)
    else:
        sentences = [
            *_describe_level_changes(history, metric),
            *_describe_variability_of_lines(history, metric),
        ]
    if history.newest is not None:
        sentences.append(
            f"Only the newest {format_value(history.newest, 'operations/s')} runs of each series are displayed."
            " Set From and To for older runs."
        )
    names = {line.row.id: line.name for line in history.lines}
    own = [each for each in thresholds if each.threshold.metric == metric.name]
    return [*sentences, *(_describe_threshold(each, names) for each in own)]


def _describe_series(history: SeriesHistory, line: HistoryLine, metric: Metric) -> list[str]:
    """Return the sentences of one series: level, time range, limits, references."""
    shown = find_level_in_view(history, line, metric.name)
    return [
        *describe_level(shown, metric, has_range=history.has_range),
        *(_describe_time_range(line, metric) if history.has_range else ()),
        *describe_latency_kind(shown),
        *_describe_limit(find_limit(line.row.profile, metric.name), metric, shown),
        *_describe_references(
            find_references(line.row.profile, metric.name, line.row.direction), metric, shown
        ),
    ]


def _describe_level_changes(history: SeriesHistory, metric: Metric) -> list[str]:
    """Return a sentence for each series with a change, largest change first, and one for the unchanged."""
    changed: list[tuple[float, str]] = []
    steady = young = 0
    kinds: Counter[str] = Counter()
    switched = []
    for line in history.lines:
        shown = find_shown_level(list_levels(line, metric.name))
        if shown is None:
            continue
        kinds[shown.level.latency_kind] += 1
        if shown.switched_at is not None:
            switched.append(f"{line.name}: {describe_kind(shown.level.latency_kind, shown.switched_at)}")
        if shown.before is None:
            is_young = shown.level.n < DETECTION_RUNS_MINIMUM
            young += is_young
            steady += not is_young
            continue
        size = shown.level.median / shown.before.median - 1 if shown.before.median else 0.0
        change = shown.level.change
        own = change if change is not None and change.metric == metric.name else None
        percent = format_signed_percent(own.relative if own else size)
        kind = "recovered from " if own and own.is_recovery else ""
        now, was = (format_with_unit(each.median, metric) for each in (shown.level, shown.before))
        since = format_moment(shown.level.since_at)
        changed.append((abs(size), f"{line.name}: {now} since {since}, {kind}{percent}. Was {was}."))
    sentences = [sentence for _, sentence in sorted(changed, reverse=True)[:_SENTENCES_MAXIMUM]]
    sentences += describe_mixed_kinds(kinds) + switched[:_SENTENCES_MAXIMUM]
    if (more := len(switched) - _SENTENCES_MAXIMUM) > 0:
        sentences.append(f"{format_count(more, 'more series')} with a switch of the kind.")
    if steady:
        sentences.append(f"No change detected in {steady} of {len(history.lines)} series.")
    if young:
        sentences.append(
            f"{young} of {len(history.lines)} series with fewer than {DETECTION_RUNS_MINIMUM} runs: not evaluated yet."
        )
    if not sentences and history.run_count:
        sentences.append("No valid runs in this time range: all failed, are excluded, or lack this metric.")
    return sentences


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


def _describe_variability_of_lines(history: SeriesHistory, metric: Metric) -> list[str]:
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
