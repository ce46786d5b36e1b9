"""Texts and table rows of incidents, changes and detection status."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.catalog.metrics import (
    CATALOG,
    Metric,
    format_change_size,
    format_count,
    format_integer,
    format_percent,
    format_range,
    format_signed_percent,
    format_value,
)
from benchapp.charts.texts.history import describe_slope, describe_variability
from benchapp.framework.times import format_age, format_moment
from benchapp.incidents.read.changes import ChangeRow, SeriesName, find_ended
from benchapp.incidents.read.incidents import IncidentDetail, Tab
from benchapp.incidents.read.series_status import COUNTED_MAXIMUM, DetectionStatusRow
from benchapp.incidents.write.incidents import format_metric_size
from benchapp.models import (
    Change,
    ChangeState,
    DetectionStatus,
    Incident,
    IncidentEvent,
    Severity,
    name_scopes,
)

# Confidence closer to 1 than this is shown as "> 99.99 %"; closer than the second one gets two digits.
_DOUBT_MINIMUM: Final = 0.0001
_DOUBT_TWO_DIGITS: Final = 0.001
STATES: Final = {
    ChangeState.SUSPECTED: "suspected",
    ChangeState.PROVISIONAL: "provisional",
    ChangeState.CONFIRMED: "confirmed",
    ChangeState.WITHDRAWN: "withdrawn",
}
_ACTIONS: Final = {
    "opened": "opened",
    "grew": "found it larger",
    "intermittent": "found that it comes and goes",
    "confirmed": "confirmed",
    "withdrawn": "withdrew changes",
    "recovered": "detected recovery",
    "reopened": "reopened",
    "acknowledged": "acknowledged",
    "resolved": "resolved",
    "assigned": "assigned",
    "commented": "commented",
    "linked": "set the link",
    "rated": "set the severity",
    "snoozed": "snoozed",
    "merged": "merged",
    "split": "split",
    "moved": "moved",
    "accepted": "accepted a new baseline",
    "undone": "undid",
}


def describe_incident(detail: IncidentDetail) -> str:
    """Describe an incident in one sentence: typical metric, place, median, start, and the coinciding change."""
    row, largest = detail.row, detail.largest
    if largest is None or not row.metric:
        return row.title
    way = "up" if row.relative > 0 else "down"
    workload = f"{detail.workloads[0]} " if len(detail.workloads) == 1 else ""
    what = f"{workload}{_name_metric(row.metric)} of {name_scopes(detail.scopes)}{_name_target(row)}"
    size = format_change_size(row.relative)
    if largest.is_drift and largest.accepted_from_at:
        accepted = format_moment(largest.accepted_from_at)
        return f"{what} drifted {way} {size} from the baseline of {accepted}{_describe_coincidence(row)}"
    if slope := largest.slope:
        verb = "decreased" if row.relative < 0 else "increased"
        start, end = format_moment(row.started_at), format_moment(slope.to_at)
        span = f"since {start}, continuing" if slope.continues else f"between {start} and {end}"
        return f"{what} {verb} by {size} {span}{_describe_coincidence(row)}"
    return f"{what} {way} {size} since {format_moment(row.started_at)}{_describe_coincidence(row)}"


def _name_target(row: Incident) -> str:
    """Return the target after its host, if the others of the host are not affected."""
    names = (
        one["value"] for one in row.common_factors if one["dimension"] == "target_name" and one["share"] == 1
    )
    return "".join(f", {name}" for name in names)


def format_confidence_interval(low: float | None, high: float | None) -> str:
    """Format the 95 % interval of a size; "" if unknown."""
    if low is None or high is None:
        return ""
    return f"{format_signed_percent(low).removesuffix(' %')} to {format_signed_percent(high)}"


def format_confidence(confidence: float) -> str:
    """Format the confidence of a change: "99.7 %", "> 99.99 %"."""
    doubt = 1 - confidence
    if doubt < _DOUBT_MINIMUM:
        return "> 99.99 %"
    return f"{confidence * 100:.{2 if doubt < _DOUBT_TWO_DIGITS else 1}f}".removesuffix(".0") + " %"


def describe_event(event: IncidentEvent) -> str:
    """Describe an event: who did what."""
    return f"{event.by_name or 'benchapp'} {_ACTIONS.get(event.kind, event.kind)}"


def describe_action(kind: str) -> str:
    """Return the past tense of an action: "acknowledged"."""
    return _ACTIONS.get(kind, kind)


def describe_sizes(detail: IncidentDetail) -> str:
    """Return the sizes by metric and the largest change; "" if all changes are of one metric and size.

    "IOPS −15 % (each −9.0 to −31 %) in 12 series; mean latency +17 % in 9 series. Largest: p99 latency +81 % on db-09."
    """
    sizes, largest = detail.row.metric_sizes, detail.largest
    if largest is None or not sizes or (len(sizes) == 1 and sizes[0]["low"] == sizes[0]["high"]):
        return ""
    texts = [format_metric_size(size) for size in sizes]
    change = f"{_name_metric(largest.metric)} {format_signed_percent(largest.relative)}"
    return (
        f"{'; '.join(texts)}. Largest: {change}, {largest.series.workload_title} on {largest.series.place}."
    )


def describe_pooled_levels(row: Incident) -> str:
    """Return the pooled levels that changed: "Pooled level of db-07: IOPS lower in 36 of 40 series, median −3.0 %."; ""
    if none did."""
    texts = [f"{level['scope'].partition(':')[2]}: {level['text']}" for level in row.pooled_levels]
    noun = "Pooled level of" if len(texts) == 1 else "Pooled levels of"
    return f"{noun} {'; '.join(texts)}." if texts else ""


def _name_metric(metric: str) -> str:
    label = CATALOG[metric].label
    return label if label[1].isupper() else label[0].lower() + label[1:]


def _describe_coincidence(row: Incident) -> str:
    suspect = describe_first_suspect(row)
    return f"; coincides with {suspect}" if suspect else ""


def describe_first_suspect(row: Incident) -> str:
    """Describe the most likely cause: "kernel 5.15 → 6.1"; "" without a recorded environment change."""
    return describe_suspect(row.suspects[0]) if row.suspects else ""


def describe_suspect(suspect: dict[str, Any]) -> str:
    """Describe an environment change: "kernel 5.15 → 6.1", "kernel 5.15 → 6.1 within a run"."""
    name = format_fact_name(str(suspect.get("name", "")))
    before, after = (suspect.get(side) or "unknown" for side in ("before", "after"))
    return f"{name} {before} → {after}{' within a run' if suspect.get('is_near') else ''}"


def _describe_support(suspect: Mapping[str, Any]) -> str:
    """Describe what speaks for a cause: "coincides with 86 % of the changes (12 of 14)"."""
    share = f"{float(suspect.get('share') or 0):.0%}".replace("%", " %")
    counts = f" ({suspect['coincides_with']} of {suspect['changes']})" if suspect.get("changes") else ""
    near = ", within a run" if suspect.get("is_near") else ""
    regressed = suspect.get("hosts_regressed") or 0
    others = f"; {format_count(regressed, 'other host')} also regressed" if regressed else ""
    return f"coincides with {share} of the changes{counts}{near}{others}"


def _describe_counter_evidence(suspect: Mapping[str, Any]) -> str:
    """Describe what speaks against a cause: "2 hosts with this change are unaffected: db-3, db-4"."""
    unaffected = suspect.get("hosts_unaffected") or 0
    if not unaffected:
        return "no unaffected host is known to have this change"
    names = [str(name) for name in suspect.get("unaffected_hosts") or ()]
    named = f": {', '.join(names)}{' and others' if unaffected > len(names) else ''}" if names else ""
    verb = "is" if unaffected == 1 else "are"
    return f"{format_count(unaffected, 'host')} with this change {verb} unaffected{named}"


def format_fact_name(name: str) -> str:
    """Format the name of an environment fact: "device firmware", "md degraded"."""
    return name.replace("_", " ").replace(".", " ")


def describe_incident_counts(detail: IncidentDetail) -> str:
    """Return the counts: "12 changes in 9 series"."""
    row = detail.row
    return f"{format_count(row.change_count, 'change')} in {row.series_count} series"


def describe_inbox(tab: Tab, counts: Mapping[Tab, int], rows: Sequence[Incident]) -> str:
    """Return the title of the inbox: "3 open regressions, 1 of high severity"."""
    noun = {
        Tab.OPEN: "open regression",
        Tab.NEW: "new regression",
        Tab.ACKNOWLEDGED: "acknowledged regression",
        Tab.SNOOZED: "snoozed regression",
        Tab.RECOVERED: "recovered regression",
    }.get(tab)
    if noun is None:
        return {
            Tab.RESOLVED: "Resolved regressions",
            Tab.IMPROVEMENTS: "Improvements",
            Tab.ALL: "All incidents",
        }[tab]
    count = counts.get(tab, len(rows))
    if not count:
        return f"No {noun}s"
    high = sum(row.severity == Severity.HIGH for row in rows)
    severe = f", {high} of high severity" if high else ""
    return f"{format_count(count, noun)}{severe}"


def describe_drift(change: ChangeRow) -> str:
    """Describe a drift, or its end; "" if the change is not a drift or withdrawn."""
    if not (change.is_live and change.is_drift):
        return ""
    interval = format_confidence_interval(change.relative_low, change.relative_high)
    size = f"{format_signed_percent(change.relative)}{f' ({interval})' if interval else ''}"
    baseline = "the level before"
    if change.accepted_from_at:
        baseline = f"the baseline of {format_moment(change.accepted_from_at)}"
    if without := change.evidence.get("without_incidents"):
        baseline += f", without the changes of incident{'s' if len(without) > 1 else ''} {', '.join(map(str, without))}"
    if change.evidence.get("is_back"):
        return f"Recovered from a drift of {size} from {baseline}."
    slope = f", {describe_slope(change.slope)}" if change.slope else ""
    return f"Drifted {size} from {baseline}{slope}."


def format_level(value: float, metric: str) -> str:
    """Format a level of a metric with its unit."""
    return format_value(value, CATALOG[metric].unit)


SEVERITIES: Final = {Severity.HIGH: "High", Severity.MEDIUM: "Medium", Severity.LOW: "Low"}


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a change. kind: worse or better; sign: direction, so that color is not the only cue.

    interval: of 95 %; of an incident the range over its series.
    """

    kind: str
    sign: str
    text: str
    interval: str

    @property
    def word(self) -> str:
        """Return the meaning of the color."""
        return "regression" if self.kind == "worse" else "improvement"


def make_incident_lines(rows: Iterable[Incident]) -> list[dict[str, Any]]:
    """Return the rows of the inbox."""
    return [make_incident_line(row) for row in rows]


def make_incident_line(row: Incident) -> dict[str, Any]:
    """Return the row of one incident."""
    kind, _, name = row.scope.partition(":")
    return {
        "row": row,
        "severity": SEVERITIES[Severity(row.severity)],
        "metric": CATALOG[row.metric].short if row.metric else "",
        "size": replace(
            make_size(row.relative, None, None, is_regression=row.is_regression),
            interval=format_range(sizes[0]["low"], sizes[0]["high"]) if (sizes := row.metric_sizes) else "",
        ),
        "place": name,
        "is_pool": kind == "pool",
        "suspect": describe_first_suspect(row),
        "age": format_age(row.opened_at),
        "link": row.link if row.link.startswith(("https://", "http://")) else "",
    }


def make_change_lines(rows: Sequence[ChangeRow]) -> list[dict[str, Any]]:
    """Return the rows of an incident's or a series' changes."""
    ended = find_ended(rows)
    return [
        {
            "row": row,
            "label": CATALOG[row.metric].short,
            "before": format_level(row.before_median, row.metric),
            "after": format_level(row.after_median, row.metric),
            "size": make_size(
                row.relative, row.relative_low, row.relative_high, is_regression=row.is_regression
            ),
            "state": _describe_state(row),
            "confidence": format_confidence(row.confidence),
            "url": f"{reverse('series', args=[row.series.id])}?{urlencode({'metric': row.metric})}",
            "recovery": f"recovered from {format_signed_percent(ended[row.id].relative)}"
            if row.id in ended
            else "",
            "ended": ended.get(row.id),
        }
        for row in rows
    ]


def _describe_state(row: ChangeRow) -> str:
    """Describe the state of a change: "confirmed", "drift, confirmed", "provisional, young series"."""
    state = STATES[ChangeState(row.state)]
    if row.is_drift or row.is_pooled:
        return f"{'drift' if row.is_drift else 'pooled'}, {state}"
    return f"{state}, young series" if row.is_young else state


def list_suspects(row: Incident) -> list[dict[str, Any]]:
    """Return coinciding environment changes, most likely cause first."""
    return [
        {
            "name": format_fact_name(str(suspect.get("name", ""))),
            "before": str(suspect.get("before") or "unknown"),
            "after": str(suspect.get("after") or "unknown"),
            "support": _describe_support(suspect),
            "counter_evidence": _describe_counter_evidence(suspect),
        }
        for suspect in row.suspects
    ]


def make_accepted_lines(accepted: Sequence[Change], names: Mapping[int, SeriesName]) -> list[dict[str, Any]]:
    """Return the baselines that accepting would set, one row per series; names: by series id."""
    by_series: dict[int, list[Change]] = {}
    for level in accepted:
        by_series.setdefault(level.series_id, []).append(level)
    return [
        {
            "series_id": series_id,
            "title": name.workload_title if (name := names.get(series_id)) else f"series {series_id}",
            "place": f"{name.scope_name} · {name.target_title}" if name else "",
            "levels": tuple(
                {
                    "label": CATALOG[level.metric].short,
                    "before": format_level(level.before_median, level.metric),
                    "after": format_level(level.after_median, level.metric),
                    "size": make_size(level.relative, None, None, is_regression=level.is_regression),
                    "from_at": level.level_from_at,
                }
                for level in levels
            ),
        }
        for series_id, levels in by_series.items()
    ]


def make_size(relative: float, low: float | None, high: float | None, *, is_regression: bool) -> Size:
    """Return the size of a change for display."""
    return Size(
        kind="worse" if is_regression else "better",
        sign="▲" if relative > 0 else "▼",
        text=format_signed_percent(relative),
        interval=format_confidence_interval(low, high),
    )


# Difference from the usual run from which a phase of a season is named, and ranges of phases at most.
_SEASON_MINIMUM: Final = 0.02
_SEASON_RANGES: Final = 3
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def describe_status(known: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return (status, text): "412 metrics monitored", "37 learning"; nothing if none is monitored."""
    total = sum(known.values())
    if not total:
        return []
    count = format_count(min(total, COUNTED_MAXIMUM), "metric")
    parts = [("", f"{'more than ' if total > COUNTED_MAXIMUM else ''}{count} monitored")]
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
        f"the smallest detectable change is {format_percent(row.smallest_detectable_change)}"
        if row.smallest_detectable_change
        else "the standard deviation is too large"
    )
    threshold = format_percent(row.threshold)
    more = f" Finding {threshold} needs {format_count(row.runs_needed, 'run')}." if row.runs_needed else ""
    return f"Too noisy: {least}, the threshold {threshold}.{more}"


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
