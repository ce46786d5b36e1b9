"""Update incidents from their changes: title, severity, common factors, suspects, state."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median, median_low
from typing import Any, Final

from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES, format_integer, format_signed_percent
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.incidents.rules.severity import judge_severity
from benchapp.incidents.rules.typical_change import ChangeSize, MetricSize, summarize_metrics
from benchapp.incidents.write.common_factors import Breadth, measure_breadth
from benchapp.incidents.write.events import Events, describe_state, reopen_incident
from benchapp.incidents.write.pooled import describe_pooled_levels
from benchapp.incidents.write.recovery import count_bad_runs, has_regressed_again
from benchapp.incidents.write.suspects import find_suspects
from benchapp.models import (
    Change,
    ChangeState,
    Incident,
    IncidentEvent,
    IncidentState,
    Severity,
    Slope,
    Verdict,
    name_scopes,
    read_slope,
)

_RANKS: Final = {Severity.LOW: 0, Severity.MEDIUM: 1, Severity.HIGH: 2}
_TITLE_MAXIMUM: Final = 300
# Share of the usual interval within which changes began in the same run: a sweep of a host takes hours.
_SAME_RUN: Final = 0.75
_DESCRIPTION: Final = (
    "title",
    "severity",
    "started_at",
    "metric",
    "relative",
    "metric_sizes",
    "pooled_levels",
    "change_count",
    "common_factors",
    "suspects",
    "updated_at",
)


def refresh_incidents(ids: Iterable[int], events: Events) -> None:
    """Update these incidents and write events: confirmed, grew, withdrawn, reopened; recoveries are in recovery.py."""
    for incident in Incident.objects.select_for_update().filter(pk__in=set(ids)).order_by("pk"):
        if incident.merged_into_id is None:
            _refresh(incident, events)


def _refresh(incident: Incident, events: Events) -> None:
    rows = Change.objects.without_steps_of_drifts().filter(incident=incident).select_related("series")
    changes = list(rows.order_by("started_at", "id"))
    live = [change for change in changes if change.state != ChangeState.WITHDRAWN]
    if not live:
        if changes:
            _withdraw(incident, events)
        return
    is_confirmed = any(change.state == ChangeState.CONFIRMED for change in live)
    # What ended is confirmed by the good runs after it, too.
    if (
        _was_withdrawn(incident)
        and is_confirmed
        and has_regressed_again(incident, runs=count_bad_runs(incident))
    ):
        reopen_incident(incident, events, text="confirmed by later runs")
    since = incident.updated_at
    gone = [change for change in changes if change.withdrawn_at and change.withdrawn_at > since]
    _describe(incident, live, events)
    if incident.state == IncidentState.RESOLVED:
        return
    if gone:
        text = f"{len(gone)} of {len(changes)} changes not confirmed by later runs"
        events.add(incident, "withdrawn", text=text)
    # What recovered does not persist.
    if incident.recovered_at is None:
        _write_confirmed(incident, live, events)


def _describe(incident: Incident, live: Sequence[Change], events: Events) -> None:
    earlier = {name: getattr(incident, name) for name in ("change_count", "severity", "title")}
    breadth = measure_breadth(incident)
    sizes = measure_sizes(live)
    # The severity of a recovered incident is that before its recovery.
    if not incident.has_manual_severity and incident.recovered_at is None:
        is_confirmed = any(change.state == ChangeState.CONFIRMED for change in live)
        incident.severity = Severity(
            judge_severity(sizes, series=breadth.cells, reach=breadth.reach, is_confirmed=is_confirmed)
        )
    incident.title = write_title(sizes[0], breadth, slope=find_slope(live))
    incident.started_at = find_start(live, sizes[0].metric)
    incident.metric, incident.relative = sizes[0].metric, sizes[0].relative
    incident.metric_sizes = list_metric_sizes(sizes)
    incident.pooled_levels = describe_pooled_levels(live)
    incident.change_count = len(live)
    incident.common_factors = breadth.common_factors
    incident.suspects = find_suspects(live)
    incident.updated_at = events.now
    incident.save(update_fields=_DESCRIPTION)
    is_new = earlier["change_count"] == 0
    if not is_new and _RANKS[Severity(incident.severity)] > _RANKS[Severity(earlier["severity"])]:
        text = f"{earlier['severity']} → {incident.severity}; {earlier['change_count']} → {len(live)} changes"
        # The notice of an incident that opened in this batch already has the new severity.
        is_notified = _sends_notices(incident) and incident.pk not in events.to_notify
        events.add(incident, "grew", text=text, before=earlier, is_notified=is_notified)


def _write_confirmed(incident: Incident, live: Sequence[Change], events: Events) -> None:
    confirmed = sum(change.state == ChangeState.CONFIRMED for change in live)
    if 2 * confirmed <= len(live):
        return
    earlier = IncidentEvent.objects.filter(incident=incident, kind="confirmed", undone_at=None)
    if not earlier.exists():
        events.add(incident, "confirmed", text=f"{confirmed} of {len(live)} changes persist after five runs")


def _withdraw(incident: Incident, events: Events) -> None:
    """Resolve an incident without remaining changes, with a notice."""
    if incident.state == IncidentState.RESOLVED:
        # Changes may have come back for a while without reopening it.
        Incident.objects.filter(pk=incident.pk).exclude(change_count=0).update(change_count=0)
        return
    before = describe_state(incident)
    incident.state, incident.verdict = IncidentState.RESOLVED, Verdict.NOISE
    incident.resolved_at = incident.updated_at = events.now
    incident.change_count = 0
    incident.save(update_fields=["state", "verdict", "resolved_at", "updated_at", "change_count"])
    text = "all changes withdrawn: not confirmed by later runs"
    is_notified = incident.is_regression and incident.recovered_at is None
    events.add(incident, "resolved", text=text, before=before, is_notified=is_notified)


def _was_withdrawn(incident: Incident) -> bool:
    if incident.state != IncidentState.RESOLVED or incident.verdict != Verdict.NOISE:
        return False
    last = IncidentEvent.objects.filter(incident=incident, kind="resolved").order_by("-id").first()
    return last is not None and last.by_id is None


def _sends_notices(incident: Incident) -> bool:
    return incident.is_regression and incident.state != IncidentState.RESOLVED


def measure_sizes(changes: Sequence[Change]) -> tuple[MetricSize, ...]:
    """Return the sizes of changes by metric, the typical metric first."""
    return summarize_metrics(
        [
            ChangeSize(change.series_id, change.metric, change.relative, SMALLEST_CHANGES[change.metric])
            for change in changes
        ],
        preference=list(CATALOG),
    )


def list_metric_sizes(sizes: Sequence[MetricSize]) -> list[dict[str, Any]]:
    """Return sizes as `Incident.metric_sizes` has them."""
    return [
        {
            "metric": one.metric,
            "series": one.series,
            "relative": one.relative,
            "low": one.low,
            "high": one.high,
        }
        for one in sizes
    ]


def find_slope(changes: Sequence[Change]) -> Slope | None:
    """Return the median start and end of the slopes of drifts; None if more series have only steps than drifts.

    It continues if half of them do.
    """
    drifts = [change for change in changes if change.method == DRIFT_METHOD]
    drifting = {change.series_id for change in drifts}
    if not drifts or len({change.series_id for change in changes} - drifting) > len(drifting):
        return None
    slopes = [slope for change in drifts if (slope := read_slope(change.evidence))]
    if not slopes:
        return None
    return Slope(
        median_low(slope.from_at for slope in slopes),
        median_low(slope.to_at for slope in slopes),
        None,
        2 * sum(slope.continues for slope in slopes) >= len(slopes),
    )


def find_start(changes: Sequence[Change], metric: str) -> datetime:
    """Return when the typical change began: the median of the metric, and what began in the same run before it.

    A single change whose place is uncertain, or one of another metric, does not date the incident. Drifts have begun
    with the slope of the title.
    """
    if (slope := find_slope(changes)) is not None:
        return slope.from_at
    starts = [change.started_at for change in changes if change.metric == metric]
    typical = median_low(starts)
    intervals = [interval_s for change in changes if (interval_s := change.evidence.get("interval_s"))]
    reach = timedelta(seconds=_SAME_RUN * median(intervals or [0.0]))
    return min(start for start in starts if typical - start <= reach)


def write_title(typical: MetricSize, breadth: Breadth, *, slope: Slope | None) -> str:
    """Return the title: place, typical metric, median and range of its changes, number of its series, common factor.

    slope: of a gradual change.
    """
    scopes = breadth.scopes
    place = scopes[0].partition(":")[2] if len(scopes) == 1 else name_scopes(scopes)
    counts = [format_integer(count) for count in (typical.series, breadth.all_cells)]
    cells = f"{' of '.join(counts)} series" if breadth.all_cells > 1 else "1 series"
    size = format_signed_percent(typical.relative)
    if typical.series > 1:
        low, high = sorted((typical.low, typical.high), key=abs)
        ends = [format_signed_percent(end).removesuffix(" %") for end in (low, high)]
        size += f" ({ends[0]} to {ends[1]} %)" if ends[0] != ends[1] else ""
    if slope is not None:
        verb = "decreased" if typical.relative < 0 else "increased"
        size = f"{verb} by {size.replace('−', '').replace('+', '')} {_write_days(slope)}"
    title = f"{place}: {CATALOG[typical.metric].label} {size} in {cells}"
    factors: list[dict[str, Any]] = [one for one in breadth.common_factors if one["dimension"] != "scope"][:1]
    return (f"{title}, {factors[0]['text']}" if factors else title)[:_TITLE_MAXIMUM]


def _write_days(slope: Slope) -> str:
    """Return the days: "between 3 Mar and 2 Apr", "on 3 Mar"; with the year if the slope ends in another one.

    "since 3 Mar, continuing" if it has not ended.
    """
    first, last = slope.from_at.astimezone(UTC), slope.to_at.astimezone(UTC)
    if slope.continues:
        return f"since {first:%-d %b}, continuing,"
    if first.date() == last.date():
        return f"on {first:%-d %b}"
    return f"between {first:%-d %b{'' if first.year == last.year else ' %Y'}} and {last:%-d %b}"
