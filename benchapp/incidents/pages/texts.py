"""Texts of incidents and changes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchapp.catalog.metrics import CATALOG, format_value
from benchapp.charts.texts.history import describe_slope
from benchapp.framework.pages.value_texts import (
    format_change_size,
    format_count,
    format_signed_percent,
)
from benchapp.framework.times import format_moment
from benchapp.incidents.read.changes import ChangeRow
from benchapp.incidents.read.shapes import EventRow, IncidentDetail, IncidentRow, MetricSizeRow, Tab
from benchapp.models import ChangeState, Severity, name_scopes

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
    "grew": "raised severity",
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
    what = f"{workload}{_name_metric(row.metric)} of {name_scopes(detail.scopes)}"
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


def describe_event(event: EventRow) -> str:
    """Describe an event: who did what."""
    return f"{event.by_name or 'benchapp'} {_ACTIONS.get(event.kind, event.kind)}"


def describe_action(kind: str) -> str:
    """Return the past tense of an action: "acknowledged"."""
    return _ACTIONS.get(kind, kind)


def describe_sizes(detail: IncidentDetail) -> str:
    """Return the sizes by metric and the largest change; "" if all changes are of one metric and size.

    "IOPS −15 % (−9 to −31 %) in 12 series; mean latency +17 % in 9 series. Largest: p99 latency +81 % on db-09."
    """
    sizes, largest = detail.row.metric_sizes, detail.largest
    if largest is None or not sizes or (len(sizes) == 1 and sizes[0].low == sizes[0].high):
        return ""
    texts = [_describe_metric_size(size) for size in sizes]
    change = f"{_name_metric(largest.metric)} {format_signed_percent(largest.relative)}"
    return f"{'; '.join(texts)}. Largest: {change}, {largest.series.workload_title} on {largest.series.scope_name}."


def describe_pooled_levels(row: IncidentRow) -> str:
    """Return the pooled levels that changed: "Pooled level of db-07: IOPS lower in 36 of 40 series, median −3.0 %."; ""
    if none did."""
    texts = [f"{level.scope.partition(':')[2]}: {level.text}" for level in row.pooled_levels]
    noun = "Pooled level of" if len(texts) == 1 else "Pooled levels of"
    return f"{noun} {'; '.join(texts)}." if texts else ""


def _describe_metric_size(size: MetricSizeRow) -> str:
    low, high = sorted((size.low, size.high), key=abs)
    span = format_confidence_interval(low, high) if size.low != size.high else ""
    text = f"{_name_metric(size.metric)} {format_signed_percent(size.relative)}"
    return f"{text}{f' ({span})' if span else ''} in {size.series} series"


def _name_metric(metric: str) -> str:
    label = CATALOG[metric].label
    return label if label[1].isupper() else label[0].lower() + label[1:]


def _describe_coincidence(row: IncidentRow) -> str:
    suspect = describe_first_suspect(row)
    return f"; coincides with {suspect}" if suspect else ""


def describe_first_suspect(row: IncidentRow) -> str:
    """Describe the most likely cause: "kernel 5.15 → 6.1"; "" without a recorded environment change."""
    return describe_suspect(row.suspects[0]) if row.suspects else ""


def describe_suspect(suspect: dict[str, Any]) -> str:
    """Describe an environment change: "kernel 5.15 → 6.1", "kernel 5.15 → 6.1 within a run"."""
    name = format_fact_name(str(suspect.get("name", "")))
    before, after = (suspect.get(side) or "unknown" for side in ("before", "after"))
    return f"{name} {before} → {after}{' within a run' if suspect.get('is_near') else ''}"


def describe_other_hosts(suspect: Mapping[str, Any]) -> str:
    """Describe other hosts with the same change: "1 also regressed; 2 unaffected: db-3, db-4"; "" if none."""
    regressed, unaffected = suspect.get("hosts_regressed") or 0, suspect.get("hosts_unaffected") or 0
    names = [str(name) for name in suspect.get("unaffected_hosts") or ()]
    parts = [f"{regressed} also regressed"] if regressed else []
    if unaffected:
        named = ", ".join(names) + (" and others" if unaffected > len(names) else "")
        parts.append(f"{unaffected} unaffected: {named}" if names else f"{unaffected} unaffected")
    return "; ".join(parts)


def format_fact_name(name: str) -> str:
    """Format the name of an environment fact: "device firmware", "md degraded"."""
    return name.replace("_", " ").replace(".", " ")


def describe_incident_counts(detail: IncidentDetail) -> str:
    """Return the counts: "12 changes in 9 series"."""
    row = detail.row
    return f"{format_count(row.change_count, 'change')} in {row.series_count} series"


def describe_inbox(tab: Tab, counts: Mapping[Tab, int], rows: Sequence[IncidentRow]) -> str:
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
