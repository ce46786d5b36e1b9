"""Messages about incidents, from the incident, its event and its changes. Reads no database."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from benchapp.catalog.dimensions import DIMENSIONS, describe_pattern, name_pattern
from benchapp.catalog.grammar import write_value
from benchapp.catalog.metrics import (
    CATALOG,
    format_change_size,
    format_signed_percent,
    format_value,
    show_rates_in,
)
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.framework.times import format_utc_moment, to_iso
from benchapp.incidents.write.incidents import format_metric_size
from benchapp.models import Change, Incident, IncidentEvent, Phase, Series, Verdict, read_slope
from benchapp.notices.channels.transport import Message, MessageLevel, to_one_line

# The page has all of them.
LEVELS_SHOWN: Final = 5
SUSPECTS_SHOWN: Final = 5
POOLED_SHOWN: Final = 3


# It is made in the request of a user, who may have other units, and has several readers.
@show_rates_in("si")
def make_incident_message(
    incident: Incident,
    event: IncidentEvent,
    *,
    changes: Sequence[Change],
    change_count: int,
    base_url: str,
    allows_requests: bool = False,
) -> Message:
    """Return the message about an event of an incident.

    changes: the largest first, each with its series; change_count: of all. base_url: of this server, "" if unknown.
    allows_requests: one of its hosts allows requested runs.
    """
    shown = changes[:LEVELS_SHOWN]
    url = f"{base_url}/incidents/{incident.pk}/" if base_url else ""
    return Message(
        kind=f"incident.{incident.phase}",
        subject=f"{_format_heading(incident, event)}: {to_one_line(incident.title)}",
        sentence=_format_sentence(incident, event, changes, change_count),
        details=_list_details(
            incident, event, again=f"{url}#run-requests" if url and allows_requests else ""
        ),
        levels=tuple(_make_level(change, base_url) for change in shown),
        more_levels=max(change_count - len(shown), 0),
        suspects=tuple(_format_suspect(suspect) for suspect in incident.suspects[:SUSPECTS_SHOWN]),
        url=url,
        link_text=f"Incident {incident.pk}",
        settings_url=f"{base_url}/subscriptions/" if base_url else "",
        thread=f"incident-{incident.pk}",
        facts=_make_facts(incident, event, shown, url=url),
    )


def _format_heading(incident: Incident, event: IncidentEvent) -> str:
    if incident.phase != Phase.OVER:
        heading = "Grew" if event.kind == "grew" else incident.phase.label
        return f"{heading}, {incident.severity}"
    if event.kind == "accepted":
        return "Over (accepted)"
    return f"Over ({Verdict(incident.verdict).label.lower()})" if incident.verdict else "Over"


def _format_sentence(
    incident: Incident, event: IncidentEvent, largest: Sequence[Change], change_count: int
) -> str:
    """Return the typical change by metric, the largest change with its values, and the comment of the event."""
    sentences = [to_one_line(incident.title)]
    if largest and change_count == 1:
        sentences = [f"{_format_with_place(largest[0])}."]
    elif largest:
        since = format_utc_moment(incident.started_at)
        sizes = "; ".join(format_metric_size(size) for size in incident.metric_sizes)
        sentences = [f"{sizes}, since {since}." if sizes else f"{to_one_line(incident.title)}."]
        sentences.append(f"Largest of {change_count} changes: {_format_with_place(largest[0])}.")
    sentences += [
        f"Pooled level of {one['scope'].partition(':')[2]}: {one['text']}."
        for one in incident.pooled_levels[:POOLED_SHOWN]
    ]
    if event.kind == "resolved":
        sentences.insert(0, f"Resolved by {event.by.username}." if event.by else "Resolved automatically.")
    if incident.phase == Phase.INTERMITTENT:
        sentences.insert(0, "No more notices until it stays.")
    if event.kind == "accepted":
        sentences.insert(0, f"Accepted as new baseline{f' by {event.by.username}' if event.by else ''}.")
    if event.text:
        sentences.append(to_one_line(event.text)[:1000])
    return " ".join(sentences)


def _format_with_place(change: Change) -> str:
    since = f" since {format_utc_moment(change.started_at)}"
    if change.method == DRIFT_METHOD:
        accepted = change.evidence.get("accepted_from")
        if accepted:
            accepted_at = format_utc_moment(datetime.fromisoformat(accepted))
            since = f", the level accepted on {accepted_at}; gradual drift{since}"
        else:
            since = f", {_describe_slope(change)}"
    return f"{_format_change(change)}{since} ({name_series_briefly(change.series)})"


def _describe_slope(change: Change) -> str:
    """Describe a gradual change: "gradually since 3 Nov 2026 12:00 UTC, −1.0 % a day, continuing"."""
    slope = read_slope(change.evidence)
    if slope is None:
        return "gradually"
    rate = f", {format_signed_percent(slope.per_day)} a day" if slope.per_day else ""
    start = format_utc_moment(slope.from_at)
    if slope.continues:
        return f"gradually since {start}{rate}, continuing"
    return f"gradually between {start} and {format_utc_moment(slope.to_at)}{rate}"


def _format_change(change: Change) -> str:
    """Format one change: "p99 latency 2.90 ms, up 38 % from 2.10 ms"."""
    metric = CATALOG[change.metric]
    way = "up" if change.relative >= 0 else "down"
    return (
        f"{metric.label} {format_value(change.after_median, metric.unit)}, {way} {format_change_size(change.relative)} "
        f"from {format_value(change.before_median, metric.unit)}"
    )


def _list_details(incident: Incident, event: IncidentEvent, *, again: str) -> tuple[tuple[str, str], ...]:
    rows = [
        ("Severity", incident.severity),
        ("Scope", incident.scope.partition(":")[2]),
        ("Since", format_utc_moment(incident.started_at)),
        ("Common factor", "; ".join(str(each.get("text", "")) for each in incident.common_factors[:2])),
        ("Ticket", f"{incident.link_title}: {incident.link}" if incident.link else ""),
        ("User", event.by.username if event.by else ""),
        ("Run again to confirm it", again if incident.phase == Phase.SUSPECTED else ""),
    ]
    return tuple((name, value) for name, value in rows if value)


def _make_level(change: Change, base_url: str) -> MessageLevel:
    metric = CATALOG[change.metric]
    interval = ""
    if change.relative_low is not None and change.relative_high is not None:
        interval = f" ({format_signed_percent(change.relative_low)} to {format_signed_percent(change.relative_high)})"
    query = urlencode({"metric": change.metric})
    return MessageLevel(
        name=f"{metric.label} · {name_series_briefly(change.series)}",
        before=change.before_median,
        after=change.after_median,
        before_text=format_value(change.before_median, metric.unit),
        after_text=format_value(change.after_median, metric.unit),
        text=f"{format_signed_percent(change.relative)}{interval}",
        is_regression=change.is_regression,
        url=f"{base_url}/series/{change.series_id}/?{query}" if base_url else "",
    )


def name_series_briefly(series: Series) -> str:
    """Return a short name of a series: "4k random read · QD 8 · 4 × gp3 · db-07"."""
    block = series.block_size_text
    if series.block_size_bytes is not None:
        block = write_value(DIMENSIONS["block_size_bytes"], series.block_size_bytes)
    volumes = series.volume_type or ""
    if series.volume_count is not None:
        volumes = f"{series.volume_count} × {series.volume_type or 'volume'}"
    parts = (
        f"{block} {describe_pattern(name_pattern(series.rw, series.direction)) or series.direction}".strip(),
        "" if series.iodepth is None else f"QD {series.iodepth}",
        volumes,
        "" if series.stripe_count is None else f"{series.stripe_count} stripes",
        series.scope.partition(":")[2],
    )
    return " · ".join(part for part in parts if part)


def _format_suspect(suspect: Mapping[str, Any]) -> str:
    if suspect.get("text"):
        return to_one_line(str(suspect["text"]))
    return f"{suspect.get('name')}: {suspect.get('before')} → {suspect.get('after')}"


def _make_facts(
    incident: Incident, event: IncidentEvent, shown: Sequence[Change], *, url: str
) -> dict[str, Any]:
    """Return the values for programs: base units, ISO times."""
    return {
        "incident": {
            "id": incident.pk,
            "title": incident.title,
            "scope": incident.scope,
            "state": incident.state,
            "phase": incident.phase,
            "verdict": incident.verdict or None,
            "severity": incident.severity,
            "metric": incident.metric,
            "relative": incident.relative,
            "metric_sizes": incident.list_sizes(),
            "pooled_levels": incident.pooled_levels,
            "change_count": incident.change_count,
            "started_at": to_iso(incident.started_at),
            "common_factors": incident.common_factors,
            "suspects": incident.suspects,
            "link": incident.link or None,
            "link_label": incident.link_label or None,
            "url": url or None,
        },
        "event": {"id": event.pk, "kind": event.kind, "at": to_iso(event.at), "text": event.text},
        "changes": [
            {
                "id": change.pk,
                "series_id": change.series_id,
                "metric": change.metric,
                "before": change.before_median,
                "after": change.after_median,
                "relative": change.relative,
                "confidence": change.confidence,
                "started_at": to_iso(change.started_at),
            }
            for change in shown
        ],
    }
