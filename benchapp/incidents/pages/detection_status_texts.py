"""Texts of the detection status: learning, steady, too noisy, stale."""

from collections.abc import Iterator, Sequence
from typing import Final

from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.charts.pages.history.variability_texts import describe_variability
from benchapp.framework.pages.value_texts import (
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
)
from benchapp.framework.times import format_moment
from benchapp.incidents.read.detection_status import DetectionStatusCounts, DetectionStatusRow
from benchapp.models import DetectionStatus

# Difference from the usual run from which a phase of a season is named, and ranges of phases at most.
_SEASON_MINIMUM: Final = 0.02
_SEASON_RANGES: Final = 3
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def describe_status(counts: DetectionStatusCounts) -> list[tuple[str, str]]:
    """Return (status, text): "412 metrics monitored", "37 learning"; nothing if none is monitored."""
    known = counts.by_status
    total = sum(known.values())
    if not total:
        return []
    count = format_count(total - 1 if counts.has_more else total, "metric")
    parts = [("", f"{'more than ' if counts.has_more else ''}{count} monitored")]
    for status, text in (
        (DetectionStatus.LEARNING, "learning"),
        (DetectionStatus.NOISY, "too noisy"),
        (DetectionStatus.STALE, "stale"),
    ):
        if known.get(status):
            parts.append((status.value, f"{format_integer(known[status])} {text}"))
    return parts


def describe_metric_detection(rows: Sequence[DetectionStatusRow], metric: Metric) -> list[str]:
    """Describe the detection of a metric of a series; bandwidth and IOPS refer to each other."""
    by_metric = {row.metric: row for row in rows}
    if not by_metric:
        return ["Not evaluated yet: detection starts at 6 runs."]
    own = by_metric.get(metric.name)
    if own is not None:
        return [describe_detection(own), *describe_variability(own, metric), *_describe_seasons(own)]
    # With one block size IOPS and bandwidth are one signal, of which one is judged.
    twin = {"iops": "bandwidth_bytes_per_s", "bandwidth_bytes_per_s": "iops"}.get(metric.name, "")
    if twin in by_metric:
        row, judged_metric = by_metric[twin], CATALOG[twin]
        return [
            f"{metric.label} is detected by {judged_metric.label}. {describe_detection(row)}",
            *describe_variability(row, judged_metric),
            *_describe_seasons(row),
        ]
    judged = ", ".join(CATALOG[name].label for name in by_metric)
    return [f"No detection in this metric. Detected metrics: {judged}."]


def describe_detection(row: DetectionStatusRow) -> str:
    """Describe the status of a metric, the smallest detectable change, and the runs needed for a smaller one."""
    metric = CATALOG[row.metric]
    text = {
        DetectionStatus.LEARNING: _describe_learning,
        DetectionStatus.NOISY: _describe_noisy,
        DetectionStatus.STEADY: _describe_steady,
        DetectionStatus.STALE: _describe_stale,
    }[DetectionStatus(row.status)](row, metric)
    if row.baseline_from_at is not None:
        since = format_moment(row.baseline_from_at)
        text = f"{text} Baseline accepted from {since}; earlier runs are not compared."
    return text


def _describe_seasons(row: DetectionStatusRow) -> Iterator[str]:
    """Yield the seasons that are removed before detection: "Weekly pattern: Sat and Sun −15 %"."""
    for season, title in (("hour", "Daily pattern"), ("weekday", "Weekly pattern")):
        ranges = describe_phases(season, row.seasons.get(season, ()))
        if ranges:
            yield f"{title}: {', '.join(ranges)}; removed before detection."


def describe_phases(season: str, factors: Sequence[float]) -> list[str]:
    """Return the ranges of hours (UTC) or weekdays that differ from the usual run by 2 % or more, largest first.

    At most three, neighbors of the same sign together, with their mean difference.
    """
    ranges: list[list[int]] = []
    for phase, factor in enumerate(factors):
        if abs(factor - 1) < _SEASON_MINIMUM:
            continue
        last = ranges[-1] if ranges else []
        if last and last[-1] == phase - 1 and (factors[last[-1]] > 1) == (factor > 1):
            last.append(phase)
        else:
            ranges.append([phase])
    sized = [(sum(factors[phase] for phase in each) / len(each) - 1, each) for each in ranges]
    sized.sort(key=lambda item: -abs(item[0]))
    return [
        f"{_name_phases(season, each)} {format_signed_percent(size)}" for size, each in sized[:_SEASON_RANGES]
    ]


def _name_phases(season: str, phases: Sequence[int]) -> str:
    if season == "hour":
        return f"{phases[0]:02}:00–{(phases[-1] + 1) % 24:02}:00 UTC"
    names = [_WEEKDAYS[phase] for phase in phases]
    return " and ".join(names) if len(names) < 3 else f"{names[0]} to {names[-1]}"


def _describe_learning(row: DetectionStatusRow, metric: Metric) -> str:
    """Say what is detected already: from 6 runs on steps, which open incidents once they are confirmed."""
    runs = f"{row.n} of {row.n + (row.runs_needed or 0)} runs"
    return f"Learning: {runs}. Steps open incidents once they are confirmed.{_describe_drift_start(row)}"


def _describe_drift_start(row: DetectionStatusRow) -> str:
    return f" Drifts are judged from {row.drift_runs} runs on." if row.n < row.drift_runs else ""


def _describe_noisy(row: DetectionStatusRow, metric: Metric) -> str:
    least = (
        f"smallest detectable change: {format_percent(row.smallest_detectable_change)}"
        if row.smallest_detectable_change
        else ""
    )
    threshold = format_percent(row.threshold)
    more = f" Finding {threshold} needs {format_count(row.runs_needed, 'run')}." if row.runs_needed else ""
    return f"Too noisy: {least or 'the standard deviation is too large'}; threshold: {threshold}.{more}"


def _describe_steady(row: DetectionStatusRow, metric: Metric) -> str:
    # Not "spread": that is the width from p10 to p90 everywhere else on the page.
    deviation = f", standard deviation {format_percent(row.spread)}" if row.spread is not None else ""
    least = (
        f" Smallest detectable change: {format_percent(row.smallest_detectable_change)} after five runs."
        if row.smallest_detectable_change
        else ""
    )
    threshold = format_percent(row.threshold)
    more = f" Finding {threshold} needs {format_count(row.runs_needed, 'run')}." if row.runs_needed else ""
    return f"Steady{deviation}.{least}{more}{_describe_drift_start(row)}"


def _describe_stale(row: DetectionStatusRow, metric: Metric) -> str:
    return "Stale: no recent run."
