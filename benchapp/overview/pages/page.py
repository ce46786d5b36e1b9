"""The overview page: what is wrong, where, and what changed; for a new installation its first results."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from itertools import groupby
from textwrap import shorten
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from benchapp.catalog.dimensions import DIMENSIONS, name_rw
from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.catalog.metrics import CATALOG, describe_error, format_count, format_integer
from benchapp.charts.texts.matrix import format_metric_value
from benchapp.framework.pages.access import can, may_read
from benchapp.framework.pages.command_lines import list_first_steps
from benchapp.framework.pages.filter_bar import describe_filter, explain_empty, make_filter_bar, settle_filter
from benchapp.framework.pages.live import updates_itself
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.series_marks import show_scope_mark
from benchapp.framework.pages.time_range import DAY_PRESETS, make_time_range, read_time_range
from benchapp.framework.readiness import LATE_AFTER, read_readiness
from benchapp.framework.times import describe_age, format_age
from benchapp.incidents.pages.texts import make_incident_lines, make_size
from benchapp.incidents.read.incidents import IncidentFilter, Tab, count_tabs, list_most_severe
from benchapp.incidents.read.series_status import rank_mark
from benchapp.intake.normalize.reparse import count_outdated
from benchapp.models import (
    SAMPLE_HOST,
    Incident,
    IncidentState,
    PanelKind,
    Role,
    Severity,
    StudyPanel,
    Subscription,
    name_scopes,
)
from benchapp.overview.pages.charts import letter_changes, name_range
from benchapp.overview.read.fleet import DAYS
from benchapp.overview.read.page import (
    ACTIVE_WITHIN,
    COUNT_MAXIMUM,
    NEW_BELOW,
    RECENT,
    FleetHosts,
    RecentChange,
    list_paused_subscriptions,
    list_recent_changes,
    read_backlog,
    read_fleet_hosts,
    read_installation,
)
from benchapp.reports.pages.panels import list_kinds, make_panel
from benchapp.reports.read import list_pinned_charts
from benchapp.series.read.dimension_values import has_runs
from benchapp.series.read.environment_changes import link_comparison
from benchapp.series.read.runs import RunFilter, RunRow, list_runs
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


def list_host_states(hosts: FleetHosts) -> list[dict[str, Any]]:
    """Return the states that hosts are in, each with the first hosts by name; a host may be in several of them."""
    marks = [(rank_mark(host.mark.largest), host.name, host) for host in hosts.hosts if host.mark]
    regressed = [host for _, _, host in sorted(marks, key=lambda entry: entry[:2])]
    failing, silent = hosts.failing, hosts.silent
    counts = Counter(map(_find_kind, hosts.hosts))
    states = (
        ("unchanged", "unchanged", counts["unchanged"], ()),
        ("regressed", "regressed", len(regressed), regressed),
        ("failing", "failing", len(failing), failing),
        ("silent", "silent", len(silent), silent),
        ("none", "without runs", counts["none"], ()),
    )
    return [
        {
            "kind": kind,
            "label": label,
            "count": count,
            "hosts": [
                (
                    host.name,
                    reverse("host", args=[host.name]),
                    "" if kind == "regressed" else _describe_state(kind, host),
                )
                for host in named[:_LINES_MAXIMUM]
            ],
            "more": len(named[_LINES_MAXIMUM:]),
        }
        for kind, label, count, named in states
        if count
    ]


def _describe_state(kind: str, host: HostRow) -> str:
    if kind == "failing":
        worst = host.failing[0]
        return f"{worst.name}, {shorten(worst.reason, 80)}, for {format_age(worst.since_at)}"
    if kind == "silent" and host.schedule and host.silent_since:
        late = [each.name for each in host.schedule.entries if each.is_silent]
        # One of several is named: the others run.
        which = f"{late[0]}, " if len(host.schedule.entries) > 1 else ""
        return f"{which}for {format_age(host.silent_since)}"
    mark = show_scope_mark(host.mark)
    return mark.text if mark else ""


def _find_kind(host: HostRow) -> str:
    """Return the state that the square of a host has."""
    if host.mark:
        return "regressed"
    if host.failing:
        return "failing"
    if host.silent_since:
        return "silent"
    return "unchanged" if host.last_run else "none"


# More groups of names than this are no order.
_GROUPS_MAXIMUM: Final = 8
_NUMBER: Final = re.compile(r"[\W_]*\d.*", re.DOTALL)


def group_hosts(hosts: Sequence[HostRow]) -> list[tuple[str, SafeString]]:
    """Return (name, squares) of hosts whose names differ in their numbers; without a name if there are many."""
    groups = [
        (name, list(found)) for name, found in groupby(hosts, key=lambda host: _NUMBER.sub("", host.name))
    ]
    if len(groups) > _GROUPS_MAXIMUM:
        groups = [("", list(hosts))]
    # For 500 hosts a template takes ten times as long.
    return [(name, mark_safe("".join(map(_make_square, found)))) for name, found in groups]  # noqa: S308


def _make_square(host: HostRow) -> str:
    run, kind = host.last_run, _find_kind(host)
    state = "" if kind in ("unchanged", "none") else f"{_describe_state(kind, host)}; "
    failed = f", failed: {describe_error(run.error)}" if run and run.error else ""
    last = f"last run {describe_age(run.started_at)}{failed}" if run else "no runs"
    return f'<i class="{kind}" title="{escape(f"{host.name}: {state}{last}")}"></i>'


def summarize_state(hosts: FleetHosts, incidents: Sequence[Incident], open_count: int) -> str:
    """Return the finding: "db-09: IOPS −18 % in 8 of 20 series; 2 more open incidents, 1 silent host"."""
    # What is in parentheses is in the list below.
    first = re.sub(r" \([^()]*\)", "", incidents[0].title) if incidents else "No open incidents"
    counts = (
        (open_count - 1, "more open incident"),
        (len(hosts.silent), "silent host"),
        (len(hosts.failing), "failing host"),
    )
    others = ", ".join(format_count(count, noun) for count, noun in counts if count > 0)
    return f"{first}{';' if incidents and others else ',' if others else ''} {others}".strip()


def make_change_rows(changes: Sequence[RecentChange], incidents: Sequence[Incident]) -> list[dict[str, Any]]:
    """Return the newest changes, each with the open incident whose most likely cause it is."""
    return [
        {
            "letter": letter,
            "since_at": change.since_at,
            "text": f"{DIMENSIONS[change.name].label} {describe_value(change.name, change.before)} →"
            f" {describe_value(change.name, change.after)}",
            "url": link_comparison(change.name, change.before, change.after),
            "where": name_scopes([f"host:{scope}" for scope in change.scopes]),
            "incident": (row := _find_caused(change, incidents)),
            "size": row and make_size(row.relative, None, None, is_regression=row.is_regression),
        }
        for letter, change in letter_changes(changes)
    ]


def _find_caused(change: RecentChange, incidents: Sequence[Incident]) -> Incident | None:
    wanted = (change.name, str(change.before), str(change.after))
    return next(
        (
            row
            for row in incidents
            for suspect in row.suspects[:1]
            if (suspect["name"], str(suspect["before"]), str(suspect["after"])) == wanted
        ),
        None,
    )


_INCIDENTS_SHOWN: Final = 5
# Read for the count of those that nobody acknowledged, and for the effects of changes.
_INCIDENTS_READ: Final = 50


@require_safe
@may_read
@updates_itself
def home(request: HttpRequest) -> HttpResponse:
    """Show the overview; of a new installation its first results, or those of the sample, and the next step."""
    bar = replace(make_filter_bar(request), time_range=make_time_range(request.GET, presets=DAY_PRESETS))
    errors: list[str] = []
    time_range = read_time_range(request.GET, errors)
    days = time_range.read_days(usual=DAYS, errors=errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    visitor = find_visitor(request)
    filter = bar.filter if bar.filter.terms or bar.filter.words else None
    hosts = read_fleet_hosts(filter, without=SAMPLE_HOST)
    asked = IncidentFilter(tab=Tab.OPEN, match=bar.filter)
    severe = list_most_severe(asked, limit=_INCIDENTS_READ)
    incidents = severe.items
    installation = read_installation(sample_host=SAMPLE_HOST)
    context: dict[str, Any] = {
        "problems": read_readiness().problems if can(visitor, Role.ADMIN) else (),
        "pins": list_pinned_charts(visitor) if visitor else (),
        "suffix": f"?{urlencode({'q': bar.text})}" if filter else "",
        "host_count": hosts.count,
        "host_groups": group_hosts(hosts.hosts),
        "host_states": list_host_states(hosts),
        "hosts_omitted": hosts.count - len(hosts.hosts),
        "attention": _read_attention(request, incidents, hosts),
    }
    if installation["is_new"] and not bar.text and not incidents:
        context |= _introduce(request, installation)
        context["has_trouble"] = context["attention"] or hosts.silent or hosts.failing
        return render(request, "overview/newcomer.html", context)
    open_count = count_tabs(asked)[Tab.OPEN] if severe.next_cursor else len(incidents)
    context |= {
        "title": summarize_state(hosts, incidents, open_count)
        if hosts.count or incidents
        else "No hosts match",
        "bar": bar,
        "scope": _describe_scope(bar.filter, hosts),
        "range_text": name_range(days),
        "incidents": make_incident_lines(incidents[:_INCIDENTS_SHOWN]),
        "open_count": open_count,
        "excluded": () if hosts.count else explain_empty(bar, has_runs),
        "chart_query": request.GET.urlencode(),
        "changes": make_change_rows(list_recent_changes(filter, days), incidents),
    }
    return render(request, "overview/overview.html", context)


def _describe_scope(filter: Filter, hosts: FleetHosts) -> str:
    """Return "Pool web · 47 of 48 hosts ran in the last 7 days"."""
    days = f"the last {ACTIVE_WITHIN.days} days"
    selected = f"{described} · " if (described := describe_filter(filter)) else ""
    return (
        f"{selected}{format_integer(hosts.active_count)} of {format_count(hosts.count, 'host')} ran in {days}"
    )


def _introduce(request: HttpRequest, installation: dict[str, Any]) -> dict[str, Any]:
    """Return what a new installation shows: its runs, else the sample, else how to get the first result."""
    steps = list_first_steps(make_base_url(request))
    if not installation["runs"] and not installation["sample_runs"]:
        return {"title": "Welcome to benchapp", "steps": steps, "installation": installation}
    sign = "-" if installation["runs"] else ""
    panel = make_panel(
        request, StudyPanel(PanelKind.SCALING, f"q={sign}host:{SAMPLE_HOST}"), 1, has_links=True
    )
    newest = list_runs(RunFilter(match=parse_filter(f"-host:{SAMPLE_HOST}")), limit=1).items
    return {
        "title": describe_first_run(newest[0])
        if newest
        else "No results of your hosts yet: this is the sample",
        "installation": installation,
        "panel": panel,
        "kinds": list_kinds([panel]),
        "run": newest[0] if newest else None,
        "sample_host": SAMPLE_HOST,
        "command": steps["agent"][-1],
        "needed": NEW_BELOW,
    }


def describe_first_run(run: RunRow) -> str:
    """Return the finding: "db-01: random read 73 200 IOPS, sequential read 1 240 MB/s"."""
    facts: list[str] = []
    for rw, metric in (("randread", "iops"), ("read", "bandwidth_bytes_per_s"), ("randwrite", "iops")):
        known = [each for each in run.measurements if each.rw == rw and getattr(each, metric) is not None]
        if known and len(facts) < 2:
            facts.append(f"{name_rw(rw)} {format_metric_value(getattr(known[0], metric), CATALOG[metric])}")
    return f"{run.host_name}: {', '.join(facts) if facts else 'first run stored'}"


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
