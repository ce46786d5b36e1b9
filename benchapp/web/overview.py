"""The overview page: open regressions, recent changes, what needs attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.queries.incidents.incidents import list_most_severe
from benchapp.queries.incidents.shapes import IncidentFilter, IncidentRow, Tab
from benchapp.queries.overview import Overview, SeriesLevel, read_overview
from benchapp.queries.runs.runs import RunFilter, list_runs
from benchapp.queries.studies import list_studies
from benchapp.web.charts.matrix.texts import describe_previous, format_metric_value
from benchapp.web.incidents.tables import make_incident_lines
from benchapp.web.runs.tables import make_run_lines
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import list_first_steps
from benchapp.web.site.page_context import make_base_url
from benchapp.web.site.series_marks import ShownMark, show_mark
from benchapp.web.site.sparkline import make_sparkline
from benchapp.web.site.value_texts import format_age, format_count

_RUNS: Final = 6
_STUDIES: Final = 6
_SILENT: Final = 6
_INCIDENTS: Final = 8


@dataclass(frozen=True, slots=True)
class OverviewSeries:
    """One row of the table. sparkline: its points."""

    series: SeriesLevel
    value: str
    title: str
    mark: ShownMark | None
    sparkline: str
    age: str


@require_safe
@may_read
def home(request: HttpRequest) -> HttpResponse:
    """Show the overview; the first steps while the server has no runs."""
    page = list_runs(RunFilter(), limit=_RUNS)
    if not page.items:
        steps = list_first_steps(make_base_url(request))
        return render(request, "site/overview.html", {"title": "Welcome to benchapp", "steps": steps})
    overview = read_overview()
    incidents = list_most_severe(IncidentFilter(tab=Tab.OPEN), limit=_INCIDENTS)
    columns, runs = make_run_lines(page.items)
    context = {
        "title": _format_title(overview, incidents.items),
        "overview": overview,
        "incidents": make_incident_lines(incidents.items),
        "silent": overview.silent[:_SILENT],
        "more_silent": max(0, len(overview.silent) - _SILENT),
        "series": [_make_row(series) for series in overview.series],
        "columns": columns,
        "runs": runs,
        "studies": list_studies(limit=_STUDIES).items,
    }
    return render(request, "site/overview.html", context)


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


def _format_title(overview: Overview, incidents: Sequence[IncidentRow]) -> str:
    """Summarize: "41 series regressed in 5 open incidents; 2 hosts silent"."""
    parts = []
    if incidents:
        # The list is limited; the page Incidents has all of them.
        least = "at least " if len(incidents) == _INCIDENTS else ""
        affected = format_count(sum(row.series_count for row in incidents), "series")
        parts.append(f"{least}{affected} regressed in {format_count(len(incidents), 'open incident')}")
    else:
        parts.append("no open regressions")
    if overview.silent:
        parts.append(f"{format_count(len(overview.silent), 'host')} silent")
    if overview.rejected:
        parts.append(f"{format_count(overview.rejected, 'upload')} rejected")
    title = "; ".join(parts)
    return title[0].upper() + title[1:]
