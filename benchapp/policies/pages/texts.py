"""Texts about detection policies and dry runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.catalog.metrics import (
    CATALOG,
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
)
from benchapp.models import DetectionDryRun, DetectionPolicy, DryRunState, name_scopes
from benchapp.policies.write.dry_runs import DRY_RUN_DAYS


@dataclass(frozen=True, slots=True)
class DryRunIncidentLine:
    """One incident of a dry run. url: the stored incident, else the detection of its most changed series."""

    started_at: datetime
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


def format_dry_run_title(row: DetectionDryRun) -> str:
    """Return the result of a dry run in a sentence: "12 incidents instead of 5 with IOPS from 2 % on"."""
    threshold = format_threshold(row.metric, row.smallest_change)
    if row.state == DryRunState.RUNNING:
        done, total = format_integer(row.done_count), format_count(row.evaluated_count, "series")
        return f"Dry run of {threshold}: {done} of {total} evaluated"
    if row.state == DryRunState.FAILED:
        return f"Dry run of {threshold} failed"
    if row.state == DryRunState.CANCELED:
        return f"Dry run of {threshold} canceled"
    result = row.comparison
    found = format_count(result["proposed"] or 0, "incident")
    if result["proposed"] == result["current"] and not result["added_count"] and not result["removed_count"]:
        return f"{found} with {threshold}, as with the thresholds of today"
    return f"{found} instead of {format_integer(result['current'] or 0)} with {threshold}"


def describe_dry_run(row: DetectionDryRun) -> list[str]:
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


def list_dry_run_incidents(incidents: Sequence[Mapping[str, Any]]) -> list[DryRunIncidentLine]:
    """Return the rows of added or removed incidents, as `DetectionDryRun.comparison` has them."""
    return [_make_line(**incident) for incident in incidents]


def _make_line(
    *,
    scope: str,
    started_at: str,
    metric: str,
    relative: float,
    series: int,
    series_id: int,
    incident: int | None,
) -> DryRunIncidentLine:
    size = f"{format_signed_percent(relative)} in {format_count(series, 'series')}"
    title = f"{name_scopes([scope])}: {CATALOG[metric].label} {size}"
    url, link = reverse("series_detection", args=[series_id]), f"series {series_id}"
    url = f"{url}?{urlencode({'metric': metric})}"
    if incident is not None:
        url, link = reverse("incident", args=[incident]), f"incident {incident}"
    return DryRunIncidentLine(datetime.fromisoformat(started_at), title, url, link)
