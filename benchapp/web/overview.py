"""The start page: what is new, what moved, what needs a look."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.queries.incidents.incidents import list_gravest
from benchapp.queries.incidents.shapes import IncidentFilter, Tab
from benchapp.queries.overview import Overview, SeriesStanding, read_overview
from benchapp.queries.runs.runs import RunFilter, list_runs
from benchapp.queries.studies import list_studies
from benchapp.web.charts.matrix.texts import ShiftWords, describe_shift, format_metric_value
from benchapp.web.incidents.tables import make_incident_lines
from benchapp.web.runs.tables import make_run_lines
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import say_first_steps
from benchapp.web.site.page_context import make_base_url
from benchapp.web.site.sparkline import make_sparkline
from benchapp.web.site.value_texts import say_age

_RUNS: Final = 6
_STUDIES: Final = 6
_SILENT: Final = 6
_INCIDENTS: Final = 8


@dataclass(frozen=True, slots=True)
class SeriesLine:
    """One series of the table. line: the points of its sparkline."""

    one: SeriesStanding
    value: str
    shift: ShiftWords | None
    line: str
    age: str


@require_safe
@may_read
def home(request: HttpRequest) -> HttpResponse:
    """Show what is new and what moved; the first steps where there is nothing yet."""
    page = list_runs(RunFilter(), limit=_RUNS)
    if not page.items:
        steps = say_first_steps(make_base_url(request))
        return render(request, "home.html", {"title": "Welcome to benchapp", "steps": steps})
    overview = read_overview()
    incidents = list_gravest(IncidentFilter(tab=Tab.OPEN), limit=_INCIDENTS)
    columns, lines = make_run_lines(page.items)
    context = {
        "title": _describe_title(overview, open_count=len(incidents.items)),
        "overview": overview,
        "lines": make_incident_lines(incidents.items),
        "silent": overview.silent[:_SILENT],
        "more_silent": max(0, len(overview.silent) - _SILENT),
        "series": [_make_line(one) for one in overview.series],
        "columns": columns,
        "runs": lines,
        "studies": list_studies(limit=_STUDIES).items,
    }
    return render(request, "home.html", context)


def _make_line(one: SeriesStanding) -> SeriesLine:
    standing = one.standing
    return SeriesLine(
        one=one,
        value=format_metric_value(standing.median, one.metric),
        shift=describe_shift(standing.shift, one.metric),
        line=make_sparkline(standing.recent),
        age=say_age(standing.last_at),
    )


def _describe_title(overview: Overview, *, open_count: int) -> str:
    """Say the answer first: "3 series got worse, 1 better; 2 hosts silent; 4 uploads rejected"."""
    moved = [
        f"{count} {word}"
        for count, word in ((overview.worse_count, "got worse"), (overview.better_count, "got better"))
        if count
    ]
    parts = [f"Of the freshest series {', '.join(moved)}" if moved else "No fresh series moved"]
    if open_count:
        # As many as are listed; the inbox has them all.
        more = " or more" if open_count == _INCIDENTS else ""
        parts.insert(0, f"{open_count}{more} open {'regression' if open_count == 1 else 'regressions'}")
        parts[1] = parts[1][0].lower() + parts[1][1:]
    if overview.silent:
        count = len(overview.silent)
        parts.append(f"{count} {'host' if count == 1 else 'hosts'} silent")
    if overview.rejected:
        parts.append(f"{overview.rejected} {'upload' if overview.rejected == 1 else 'uploads'} rejected")
    return "; ".join(parts)
