"""Texts about detection policies and dry runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.metrics import CATALOG
from benchapp.models import DetectionPolicy, DryRunState, name_scopes
from benchapp.pipeline.policies.dry_runs import DRY_RUN_DAYS
from benchapp.queries.policies import DryRunIncident, DryRunRow
from benchapp.web.site.value_texts import (
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
)


@dataclass(frozen=True, slots=True)
class DryRunIncidentLine:
    """One incident of a dry run. url: the stored incident, else the detection of its most changed series."""

    incident: DryRunIncident
    title: str
    url: str
    link: str


def format_policy_title(row: DetectionPolicy) -> str:
    """Return the title of one policy: "IOPS from 10 % on: pool:web"."""
    state = " (canceled)" if row.canceled_at else ""
    return f"{format_threshold(row.metric, row.smallest_change)}: {describe_target(row.filter, row.label)}{state}"


def format_threshold(metric: str, smallest_change: float) -> str:
    """Return a threshold in words: "IOPS from 10 % on"."""
    return f"{CATALOG[metric].label} from {format_percent(smallest_change)} on"


def describe_target(filter: str, label: str) -> str:
    """Return what a threshold applies to: "pool:web, label tier=prod"."""
    parts = [filter or "all series", *([f"label {label}"] if label else [])]
    return ", ".join(parts)


def format_dry_run_title(row: DryRunRow) -> str:
    """Return the result of a dry run in a sentence: "12 incidents instead of 5 with IOPS from 2 % on"."""
    threshold = format_threshold(row.metric, row.smallest_change)
    if row.state == DryRunState.RUNNING:
        done, total = format_integer(row.done_count), format_count(row.evaluated_count, "series")
        return f"Dry run of {threshold}: {done} of {total} evaluated"
    if row.state == DryRunState.FAILED:
        return f"Dry run of {threshold} failed"
    if row.state == DryRunState.CANCELED:
        return f"Dry run of {threshold} canceled"
    found = format_count(row.proposed or 0, "incident")
    if row.proposed == row.current and not row.added_count and not row.removed_count:
        return f"{found} with {threshold}, as with the thresholds of today"
    return f"{found} instead of {format_integer(row.current or 0)} with {threshold}"


def describe_dry_run(row: DryRunRow) -> list[str]:
    """Return what was evaluated, and what was not, in sentences."""
    texts = []
    if not row.evaluated_count:
        texts.append("No series match.")
    elif row.series_count > row.evaluated_count:
        total = format_count(row.series_count, "matching series")
        texts.append(
            f"Only the first {format_integer(row.evaluated_count)} of {total} are evaluated: narrow the filter."
        )
    texts.append(
        f"Regressions of level that began in the last {DRY_RUN_DAYS} days, calculated from the runs of today with both"
        " thresholds. Not included: drifts, pooled levels, changes that ended before they lasted 30 runs, and expected"
        " changes. Incidents of several hosts count once for each."
    )
    return texts


def list_dry_run_incidents(incidents: Sequence[DryRunIncident]) -> list[DryRunIncidentLine]:
    """Return the rows of added or removed incidents."""
    return [_make_line(incident) for incident in incidents]


def _make_line(incident: DryRunIncident) -> DryRunIncidentLine:
    metric = CATALOG[incident.metric].label
    size = format_signed_percent(incident.relative)
    title = f"{name_scopes([incident.scope])}: {metric} {size} in {format_count(incident.series, 'series')}"
    if incident.incident_id is not None:
        link = f"incident {incident.incident_id}"
        return DryRunIncidentLine(incident, title, reverse("incident", args=[incident.incident_id]), link)
    url = f"{reverse('series_detection', args=[incident.series_id])}?{urlencode({'metric': incident.metric})}"
    return DryRunIncidentLine(incident, title, url, f"series {incident.series_id}")
