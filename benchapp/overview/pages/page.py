"""The overview page: summary, open incidents, hosts, what needs attention, recent series and runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.charts.texts.matrix import describe_previous, format_metric_value
from benchapp.framework.pages.access import can, may_read
from benchapp.framework.pages.command_lines import list_first_steps
from benchapp.framework.pages.filter_bar import RANGE, explain_empty, make_filter_bar, settle_filter
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.series_marks import ShownMark, make_sparkline, show_mark
from benchapp.framework.pages.time_range import DAY_PRESETS, make_time_range, read_time_range
from benchapp.framework.readiness import read_readiness
from benchapp.framework.times import format_age
from benchapp.incidents.pages.texts import make_incident_lines
from benchapp.incidents.read.incidents import count_tabs, list_most_severe
from benchapp.incidents.read.shapes import IncidentFilter, IncidentRow, Tab
from benchapp.intake.normalize.reparse import count_outdated
from benchapp.models import SAMPLE_HOST, Role
from benchapp.overview.pages.attention import AttentionLine, list_attention
from benchapp.overview.pages.charts import CHART_TITLES
from benchapp.overview.pages.environment_changes import make_change_links
from benchapp.overview.pages.host_strip import make_host_strip
from benchapp.overview.pages.summary import list_summary_facts, summarize_state
from benchapp.overview.read.attention import COUNT_MAXIMUM, list_paused_subscriptions, read_backlog
from benchapp.overview.read.environment_changes import list_recent_changes
from benchapp.overview.read.hosts import FleetHosts, read_fleet_hosts
from benchapp.overview.read.installation import read_installation
from benchapp.overview.read.recent_series import SeriesLevel, read_recent_series
from benchapp.reports.pages.panels import name_panel
from benchapp.reports.pages.saved_views.views import list_view_lines
from benchapp.reports.read.pinned_charts import list_pinned_charts
from benchapp.reports.read.studies import list_studies
from benchapp.series.pages.run_tables import make_run_lines
from benchapp.series.read.dimension_values import has_runs
from benchapp.series.read.runs import RunFilter, list_runs
from benchapp.storage.agent_archive import read_agent_version

_RUNS: Final = 6
_STUDIES: Final = 6
_VIEWS: Final = 8
_INCIDENTS_SHOWN: Final = 5
# Read for the count of those that nobody acknowledged.
_INCIDENTS_READ: Final = 50


@dataclass(frozen=True, slots=True)
class OverviewSeries:
    """One row of the table. sparkline: its points."""

    series: SeriesLevel
    value: str
    title: str
    mark: ShownMark | None
    sparkline: str
    age: str


@dataclass(frozen=True, slots=True)
class ShownPin:
    """A pinned chart before it is loaded. title: "" for the automatic title; name: what it is called until then."""

    id: int
    kind: str
    title: str
    name: str


@require_safe
@may_read
def home(request: HttpRequest) -> HttpResponse:
    """Show the overview; above it, or alone without runs, the first steps of a new installation."""
    bar = make_filter_bar(request, keep=RANGE, has_time_range=True)
    errors: list[str] = []
    range = read_time_range(request.GET, errors)
    range.read_days(usual=1, errors=errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    page = list_runs(RunFilter(match=bar.filter), limit=_RUNS)
    installation = read_installation(sample_host=SAMPLE_HOST)
    context: dict[str, Any] = {
        "title": "Welcome to benchapp",
        "installation": installation,
        "sample_host": SAMPLE_HOST,
        "steps": list_first_steps(make_base_url(request)) if installation.is_new else None,
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
        "chart_query": request.GET.urlencode() if range.query else "",
        "range": make_time_range(request.GET, presets=DAY_PRESETS),
        "retained": [("q", bar.text)] if bar.text else [],
        "pins": _list_pins(request),
        "attention": _read_attention(request, incidents, hosts),
        "environment_changes": make_change_links(list_recent_changes(filter)),
        "series": [_make_row(series) for series in read_recent_series(filter)],
        "columns": columns,
        "runs": runs,
        "studies": list_studies(limit=_STUDIES).items,
        "views": list_view_lines(find_visitor(request))[:_VIEWS],
    }
    return render(request, "overview/overview.html", context)


def _read_attention(
    request: HttpRequest, incidents: Sequence[IncidentRow], hosts: FleetHosts
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


def _list_pins(request: HttpRequest) -> list[ShownPin]:
    visitor = find_visitor(request)
    return [
        ShownPin(row.id, row.panel.kind, row.panel.title, name_panel(row.panel))
        for row in (list_pinned_charts(visitor) if visitor else ())
    ]


def _make_row(series: SeriesLevel) -> OverviewSeries:
    level = series.level
    return OverviewSeries(
        series=series,
        value=format_metric_value(level.median, series.metric),
        title=f"median of {level.n} runs{describe_previous(level, series.metric)}",
        mark=show_mark(series.mark, metric=series.metric.name),
        sparkline=make_sparkline(level.recent),
        age=format_age(level.last_at),
    )
