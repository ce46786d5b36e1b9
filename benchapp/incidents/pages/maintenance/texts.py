"""Texts about maintenance windows, expected changes and notes."""

from collections.abc import Mapping

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.pages.value_texts import format_count
from benchapp.incidents.write.impact import RUNS_COUNTED, Impact
from benchapp.models import PlannedEvent, PlannedEventKind, PlannedEventState


def format_list_title(counts: Mapping[str, int]) -> str:
    """Return the title of the list with the number of active and upcoming windows."""
    running, coming = counts[PlannedEventState.ACTIVE], counts[PlannedEventState.UPCOMING]
    if not running and not coming:
        return "Maintenance & expected changes: none active or upcoming"
    parts = [f"{running} active"] if running else []
    parts += [f"{coming} upcoming"] if coming else []
    return f"Maintenance & expected changes: {', '.join(parts)}"


def format_title(row: PlannedEvent) -> str:
    """Return the title of one window."""
    return f"{row.get_kind_display()}: {row.filter or 'everything'} ({row.state})"


def describe_limits(row: PlannedEvent) -> str:
    """Return the metric and direction of an expected change: "IOPS, regressions only"; "" for all changes."""
    metric = CATALOG[row.metric].label if row.metric in CATALOG else row.metric
    direction = {None: "", True: "regressions only", False: "improvements only"}[row.is_regression]
    return ", ".join(part for part in (metric, direction) if part)


def describe_effect(kind: str) -> str:
    """Return what a kind of planned event does."""
    if kind == PlannedEventKind.NOTE:
        return (
            "Shown in the history charts of matching series, also in shared studies and images. Detection and "
            "notifications do not change."
        )
    if kind == PlannedEventKind.MAINTENANCE:
        return "Runs in this period are excluded from levels but remain in the charts. Silent hosts are not reported."
    return (
        "Changes that start in this period are recorded as incidents resolved as expected, without notifications. "
        "Detection continues from the new level."
    )


def describe_impact(impact: Impact) -> list[str]:
    """Return how many series, hosts and stored runs match."""
    if not impact.series and not impact.hosts:
        texts = ["No matching series or hosts yet. New ones that match are included."]
    else:
        texts = [f"Matches {format_count(impact.series, 'series')} on {_format_hosts(impact)}."]
    if impact.has_more_runs:
        texts.append(f"More than {RUNS_COUNTED} runs in this period.")
    else:
        texts.append(f"{format_count(impact.runs, 'run')} in this period.")
    return texts


def _format_hosts(impact: Impact) -> str:
    if not impact.hosts:
        return "no active hosts"
    names = ", ".join(impact.host_names)
    more = impact.hosts - len(impact.host_names)
    return f"{format_count(impact.hosts, 'host')} ({names}{f' and {more} more' if more else ''})"
