"""The overview page: summary, open incidents, hosts, what needs attention, recent series and runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from textwrap import shorten
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import RFC3986_SUBDELIMS
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import describe_error, format_count, format_integer, lower_label
from benchapp.charts.texts.matrix import describe_previous, format_metric_value
from benchapp.framework.pages.access import can, may_read
from benchapp.framework.pages.command_lines import list_first_steps
from benchapp.framework.pages.filter_bar import RANGE, explain_empty, make_filter_bar, settle_filter
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.series_marks import make_sparkline, show_mark, show_scope_mark
from benchapp.framework.pages.time_range import DAY_PRESETS, make_time_range, read_time_range
from benchapp.framework.readiness import LATE_AFTER, read_readiness
from benchapp.framework.times import describe_age, format_age
from benchapp.incidents.pages.texts import make_incident_lines
from benchapp.incidents.read.incidents import IncidentFilter, Tab, count_tabs, list_most_severe
from benchapp.intake.normalize.reparse import count_outdated
from benchapp.models import SAMPLE_HOST, Incident, IncidentState, Role, Severity, Subscription
from benchapp.overview.pages.charts import CHART_TITLES
from benchapp.overview.read.page import (
    ACTIVE_WITHIN,
    COUNT_MAXIMUM,
    RECENT,
    FleetHosts,
    RecentChange,
    SeriesLevel,
    list_paused_subscriptions,
    list_recent_changes,
    read_backlog,
    read_fleet_hosts,
    read_installation,
    read_recent_series,
)
from benchapp.reports.pages.saved_views import list_view_lines
from benchapp.reports.read import list_pinned_charts, list_studies
from benchapp.series.pages.run_tables import make_run_lines
from benchapp.series.read.dimension_values import has_runs
from benchapp.series.read.environment_changes import link_comparison
from benchapp.series.read.runs import RunFilter, list_runs
from benchapp.series.read.titles import describe_value
from benchapp.storage.agent_archive import read_agent_version
from benchapp.storage.read.hosts import HostRow, is_outdated

# Of each kind; the page of the kind has all.
_LINES_MAXIMUM: Final = 4


@dataclass(frozen=True, slots=True)
class AttentionLine:
    """One line. state: the word that is marked; linked: text of the link to the action."""

    linked: str
    url: str
    state: str
    text: str
    is_bad: bool = True


def list_attention(
    *,
    incidents: Sequence[Incident],
    hosts: FleetHosts,
    backlog: tuple[Sequence[tuple[str, int]], int, datetime | None],
    outdated: int,
    paused: Sequence[Subscription],
    agent_version: str,
) -> list[AttentionLine]:
    """Return the lines, most urgent first. outdated: results of an older parser; agent_version: of this server."""
    return [
        *_list_unacknowledged(incidents),
        *_list_silent(hosts.silent),
        *_list_failing(hosts.failing),
        *_list_failed(hosts.hosts),
        *_list_dropped(hosts.hosts),
        *_list_uploads(*backlog),
        *_list_paused(paused),
        *_list_outdated(hosts.hosts, outdated, agent_version),
    ]


def _list_unacknowledged(incidents: Sequence[Incident]) -> Iterator[AttentionLine]:
    new = [row for row in incidents if row.severity == Severity.HIGH and row.state == IncidentState.NEW]
    if new:
        oldest = min(row.opened_at for row in new)
        yield AttentionLine(
            format_count(len(new), "incident"),
            reverse("incidents") + "?tab=new",
            "high severity",
            f"not acknowledged for {format_age(oldest)}",
        )


def _list_silent(silent: Sequence[HostRow]) -> Iterator[AttentionLine]:
    for host in silent[:_LINES_MAXIMUM]:
        if host.silent_since and host.schedule:
            missed = ", ".join(entry.name for entry in host.schedule.entries if entry.is_silent)
            text = f"for {format_age(host.silent_since)}: {shorten(missed, 120)}"
            yield AttentionLine(host.name, reverse("host", args=[host.name]), "silent", text)
    yield from _count_others(silent, "silent host", reverse("hosts"))


def _list_failing(failing: Sequence[HostRow]) -> Iterator[AttentionLine]:
    for host in failing[:_LINES_MAXIMUM]:
        worst = host.failing[0]
        text = f"for {format_age(worst.since_at)}: {worst.name}, {shorten(worst.reason, 120)}"
        yield AttentionLine(host.name, reverse("host", args=[host.name]), "failing", text)
    yield from _count_others(failing, "failing host", reverse("hosts") + "?failing=1")


def _list_failed(hosts: Sequence[HostRow]) -> Iterator[AttentionLine]:
    failed = [host for host in hosts if host.last_run and host.last_run.error and not host.failing]
    for host in failed[:_LINES_MAXIMUM]:
        if run := host.last_run:
            text = f"latest run of {host.name}, {describe_error(run.error)}"
            yield AttentionLine(f"Run {run.id}", reverse("run", args=[run.id]), "failed", text)
    yield from _count_others(failed, "host", reverse("runs") + "?failed=1", text="with a failed latest run")


def _list_dropped(hosts: Sequence[HostRow]) -> Iterator[AttentionLine]:
    since = timezone.now() - RECENT
    dropped = [host for host in hosts if host.dropped_at and host.dropped_at > since]
    for host in dropped[:_LINES_MAXIMUM]:
        yield AttentionLine(
            host.name,
            reverse("host", args=[host.name]),
            "dropped results",
            f"{format_integer(host.dropped_count)}: the spool of its agent was full",
        )
    yield from _count_others(dropped, "host", reverse("hosts"), text="with dropped results")


def _list_uploads(
    rejected: Sequence[tuple[str, int]], waiting: int, oldest_at: datetime | None
) -> Iterator[AttentionLine]:
    uploads = reverse("uploads")
    for reason, count in rejected[:_LINES_MAXIMUM]:
        query = urlencode({"state": "rejected", "reason": reason})
        yield AttentionLine(
            format_count(count, "upload"),
            f"{uploads}?{query}",
            "rejected",
            f"in the last {RECENT.days} days: {reason}",
        )
    if oldest_at is not None:
        least = "at least " if waiting == COUNT_MAXIMUM else ""
        is_late = timezone.now() - oldest_at > LATE_AFTER
        yield AttentionLine(
            f"{least}{format_count(waiting, 'upload')}",
            f"{uploads}?state=received",
            "waiting",
            f"to be processed, oldest received {describe_age(oldest_at)}",
            is_bad=is_late,
        )


def _list_paused(paused: Sequence[Subscription]) -> Iterator[AttentionLine]:
    for subscription in paused:
        yield AttentionLine(
            f"Subscription {subscription.pk}",
            reverse("subscription", args=[subscription.pk]),
            "paused",
            f"no notifications: {subscription.paused_reason}",
        )


def _list_outdated(hosts: Sequence[HostRow], outdated: int, agent_version: str) -> Iterator[AttentionLine]:
    if outdated:
        least = "at least " if outdated == COUNT_MAXIMUM else ""
        yield AttentionLine(
            f"{least}{format_count(outdated, 'upload')}",
            reverse("uploads"),
            "older parser",
            "the worker reads them again",
            is_bad=False,
        )
    older = [host for host in hosts if is_outdated(host.agent_version, agent_version)]
    for host in older[:_LINES_MAXIMUM]:
        yield AttentionLine(
            host.name,
            reverse("host", args=[host.name]),
            "outdated agent",
            f"{host.agent_version}; this server ships {agent_version}",
            is_bad=False,
        )
    yield from _count_others(older, "host", reverse("hosts") + "?outdated=1", text="with an outdated agent")


def _count_others(
    found: Sequence[HostRow], noun: str, url: str, *, text: str = ""
) -> Iterator[AttentionLine]:
    more = len(found) - _LINES_MAXIMUM
    if more > 0:
        yield AttentionLine(format_count(more, f"more {noun}"), url, "", text)


SHOWN_MAXIMUM: Final = 6
_NAMED_MAXIMUM: Final = 3


def make_change_links(changes: Sequence[RecentChange]) -> list[dict[str, Any]]:
    """Return the first changes as links."""
    return [
        {
            "text": f"{lower_label(DIMENSIONS[change.name].label)} {describe_value(change.name, change.before)} →"
            f" {describe_value(change.name, change.after)}",
            "where": _describe_scopes(change.scopes),
            "since_at": change.since_at,
            "url": link_comparison(change.name, change.before, change.after),
        }
        for change in changes[:SHOWN_MAXIMUM]
    ]


def _describe_scopes(scopes: Sequence[str]) -> str:
    if len(scopes) <= _NAMED_MAXIMUM:
        return f"on {', '.join(scopes)}"
    return f"on {format_count(len(scopes), 'host')}"


# From this size on a regression has the darker color.
LARGE_CHANGE: Final = 0.2
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)


def make_host_strip(hosts: FleetHosts) -> dict[str, Any]:
    """Return the strip of all hosts read."""
    now = timezone.now()
    cells = tuple(_make_cell(host, now) for host in hosts.hosts)
    omitted = hosts.count - len(cells)
    return {
        "cells": _link_cells(cells),
        "keys": _list_keys(cells),
        "omitted": f"{format_count(omitted, 'host')} seen more recently not shown." if omitted > 0 else "",
    }


def _link_cells(cells: Sequence[dict[str, Any]]) -> SafeString:
    # For 500 hosts a template takes ten times as long, format_html_join five times.
    before, after = (escape(part) for part in reverse("host", args=["*"]).split("*"))
    links = "".join(
        f'<a class="{cell["kind"]}" href="{before}{_quote_name(cell["name"])}{after}" title="{escape(cell["title"])}">'
        f'{escape(cell["text"])}<span class="visually-hidden"> {escape(cell["name"])}</span></a>'
        for cell in cells
    )
    return mark_safe(links)  # noqa: S308


def _quote_name(name: str) -> str:
    """Return a name as `reverse` writes it into an address."""
    return escape(quote(name, safe=f"{RFC3986_SUBDELIMS}:@"))


def _make_cell(host: HostRow, now: datetime) -> dict[str, Any]:
    mark = show_scope_mark(host.mark)
    run = host.last_run
    parts = [f"{host.name}:"]
    signs = ""
    if mark and host.mark:
        kind = "worse-2" if abs(host.mark.largest.relative) >= LARGE_CHANGE else "worse-1"
        signs = mark.text[0]
        scope = f" (pool {host.pool})" if host.pool else ""
        parts.append(f"{mark.text}{scope};")
    else:
        kind = _rate_age(run.started_at if run else None, now)
    if host.silent_since:
        kind = kind if mark else "silent"
        signs += "!"
        parts.append(f"silent for {format_age(host.silent_since, now=now)};")
    if host.failing_since:
        kind = kind if mark or host.silent_since else "failing"
        parts.append(f"failing for {format_age(host.failing_since, now=now)};")
    if run is None:
        signs = signs or "–"
        parts.append("no runs")
    else:
        signs = f"{signs}✕" if run.error or host.failing else signs or _format_short_age(run.started_at, now)
        failed = f", failed: {describe_error(run.error)}" if run.error else ""
        parts.append(f"last run {describe_age(run.started_at, now=now)}{failed}")
    return {"name": host.name, "kind": kind, "text": signs, "title": " ".join(parts)}


def _rate_age(last_at: datetime | None, now: datetime) -> str:
    if last_at is None:
        return "none"
    age = now - last_at
    return "fresh" if age < _DAY else "recent" if age < _WEEK else "old"


def _format_short_age(at: datetime, now: datetime) -> str:
    """Return "" within a day, else the age: "3d", "2y"."""
    return "" if now - at < _DAY else format_age(at, now=now).replace(" ", "")


_LABELS: Final = (
    ("worse-2", "▼", f"open regression, {LARGE_CHANGE * 100:.0f} % or more"),
    ("worse-1", "▼", f"open regression, less than {LARGE_CHANGE * 100:.0f} %"),
    ("silent", "!", "silent, no regression"),
    ("failing", "✕", "failing, no regression"),
    ("fresh", "", "run within a day"),
    ("recent", "3d", "run within 7 days"),
    ("old", "9d", "older"),
    ("none", "–", "no runs"),
)


def _list_keys(cells: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    counts = Counter(cell["kind"] for cell in cells)
    return tuple(
        {"kind": kind, "text": text, "label": label, "count": counts[kind]}
        for kind, text, label in _LABELS
        if counts[kind]
    )


@dataclass(frozen=True, slots=True)
class SummaryFact:
    """One fact: text before the link, the linked text ("" without a link), its address, text after it."""

    before: str
    linked: str = ""
    url: str = ""
    after: str = ""


def summarize_state(hosts: FleetHosts, open_incidents: int) -> str:
    """Return the finding: "2 open incidents, 1 silent host, 1 failing host"."""
    parts = [format_count(open_incidents, "open incident") if open_incidents else "No open incidents"]
    if silent := len(hosts.silent):
        parts.append(format_count(silent, "silent host"))
    if failing := len(hosts.failing):
        parts.append(format_count(failing, "failing host"))
    return ", ".join(parts)


def list_summary_facts(
    hosts: FleetHosts, *, open_incidents: int, most_severe: Sequence[Incident], suffix: str = ""
) -> list[SummaryFact]:
    """Return the facts of the summary: active hosts, open incidents, silent and failing hosts.

    suffix: query of links to lists, as the filter of the page.
    """
    facts = [_describe_active(hosts, suffix)]
    if not most_severe:
        facts.append(SummaryFact("No incident is open."))
    else:
        worst = most_severe[0]
        facts += [
            SummaryFact(
                "", format_count(open_incidents, "open incident"), f"{reverse('incidents')}{suffix}", "."
            ),
            SummaryFact(
                "Most severe: ",
                worst.title,
                reverse("incident", args=[worst.id]),
                f" ({worst.severity} severity).",
            ),
        ]
    facts += [_describe_hosts(hosts.silent, "silent"), _describe_hosts(hosts.failing, "failing")]
    return facts


def _describe_active(hosts: FleetHosts, suffix: str) -> SummaryFact:
    days = f"the last {ACTIVE_WITHIN.days} days"
    if not hosts.count and suffix:
        return SummaryFact("No hosts match the filter.")
    if not hosts.count:
        return SummaryFact("No hosts are ", "enrolled", reverse("hosts"), ".")
    verb = "has" if hosts.active_count == 1 else "have"
    return SummaryFact(
        "",
        f"{format_integer(hosts.active_count)} of {format_count(hosts.count, 'host')}",
        f"{reverse('hosts')}{suffix}",
        f" {verb} a run in {days}.",
    )


def _describe_hosts(hosts: Sequence[HostRow], state: str) -> SummaryFact:
    """Return how many hosts are silent or failing, with the first as a link."""
    if not hosts:
        return SummaryFact(f"No host is {state}.")
    first = hosts[0].name
    start = (
        f"1 host is {state}: "
        if len(hosts) == 1
        else f"{format_integer(len(hosts))} hosts are {state}, longest "
    )
    return SummaryFact(start, first, reverse("host", args=[first]), ".")


_RUNS: Final = 6
_STUDIES: Final = 6
_VIEWS: Final = 8
_INCIDENTS_SHOWN: Final = 5
# Read for the count of those that nobody acknowledged.
_INCIDENTS_READ: Final = 50


@require_safe
@may_read
def home(request: HttpRequest) -> HttpResponse:
    """Show the overview; above it, or alone without runs, the first steps of a new installation."""
    bar = make_filter_bar(request, keep=RANGE)
    errors: list[str] = []
    time_range = read_time_range(request.GET, errors)
    time_range.read_days(usual=1, errors=errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    page = list_runs(RunFilter(match=bar.filter), limit=_RUNS)
    installation = read_installation(sample_host=SAMPLE_HOST)
    context: dict[str, Any] = {
        "title": "Welcome to benchapp",
        "installation": installation,
        "sample_host": SAMPLE_HOST,
        "steps": list_first_steps(make_base_url(request)) if installation["is_new"] else None,
        "problems": read_readiness().problems if can(find_visitor(request), Role.ADMIN) else (),
    }
    if not page.items and not bar.text:
        return render(request, "overview/overview.html", context)
    filter = bar.filter if bar.filter.terms or bar.filter.words else None
    hosts = read_fleet_hosts(filter, without=SAMPLE_HOST)
    asked = IncidentFilter(tab=Tab.OPEN, match=bar.filter)
    severe = list_most_severe(asked, limit=_INCIDENTS_READ)
    incidents = severe.items
    open_count = count_tabs(asked)[Tab.OPEN] if severe.next_cursor else len(incidents)
    suffix = f"?{urlencode({'q': bar.text})}" if filter else ""
    columns, runs = make_run_lines(page.items)
    visitor = find_visitor(request)
    context |= {
        "title": summarize_state(hosts, open_count),
        "bar": bar,
        "has_content": True,
        "is_filtered": filter is not None,
        "suffix": suffix,
        "facts": list_summary_facts(hosts, open_incidents=open_count, most_severe=incidents, suffix=suffix),
        "incidents": make_incident_lines(incidents[:_INCIDENTS_SHOWN]),
        "open_count": open_count,
        "strip": make_host_strip(hosts),
        "excluded": () if page.items else explain_empty(bar, has_runs),
        "chart_names": CHART_TITLES.items(),
        # The charts have the whole query, so that their links to this page keep the filter.
        "chart_query": request.GET.urlencode() if time_range.query else "",
        "range": make_time_range(request.GET, presets=DAY_PRESETS),
        "retained": [("q", bar.text)] if bar.text else [],
        "pins": list_pinned_charts(visitor) if visitor else (),
        "attention": _read_attention(request, incidents, hosts),
        "environment_changes": make_change_links(list_recent_changes(filter)),
        "series": [_make_row(series) for series in read_recent_series(filter)],
        "columns": columns,
        "runs": runs,
        "studies": list_studies(limit=_STUDIES).items,
        "views": list_view_lines(visitor)[:_VIEWS],
    }
    return render(request, "overview/overview.html", context)


def _read_attention(
    request: HttpRequest, incidents: Sequence[Incident], hosts: FleetHosts
) -> list[AttentionLine]:
    visitor = find_visitor(request)
    return list_attention(
        incidents=incidents,
        hosts=hosts,
        backlog=read_backlog(),
        outdated=count_outdated(limit=COUNT_MAXIMUM),
        paused=list_paused_subscriptions(visitor) if visitor else [],
        agent_version=read_agent_version(),
    )


def _make_row(series: SeriesLevel) -> dict[str, Any]:
    level = series.level
    return {
        "series": series,
        "value": format_metric_value(level.median, series.metric),
        "title": f"median of {level.n} runs{describe_previous(level, series.metric)}",
        "mark": show_mark(series.mark, metric=series.metric.name),
        "sparkline": make_sparkline(level.recent),
        "age": format_age(level.last_at),
    }
