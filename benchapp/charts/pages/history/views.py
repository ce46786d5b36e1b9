"""History page: several series in one chart."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from benchapp.charts.pages.history.controls import (
    describe_empty_range,
    list_common_metrics,
    list_switches,
    make_controls,
)
from benchapp.charts.pages.history.figure import (
    describe_hidden,
    describe_selection,
    make_history_figure,
    write_chart_query,
    write_series_query,
)
from benchapp.charts.pages.history.planned import link_note_form, make_planned_lines
from benchapp.charts.pages.history.request import HistoryRequest, read_history_request
from benchapp.charts.pages.history.table import make_environment_change_lines, make_history_table
from benchapp.charts.pages.history.variability_texts import describe_variability_of_lines
from benchapp.charts.read.chart_thresholds import list_chart_thresholds
from benchapp.charts.read.history import ChosenSeries, choose_series, read_history
from benchapp.charts.texts.history import (
    describe_level_changes,
    describe_thresholds,
    format_history_title,
)
from benchapp.framework.pages.access import find_person_id, may_read
from benchapp.framework.pages.command_lines import list_first_steps
from benchapp.framework.pages.filter_bar import (
    describe_filter,
    explain_empty,
    make_filter_bar,
    refuse_address,
    settle_filter,
)
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.selection import BadSelection, find_history, read_selection
from benchapp.series.read.dimension_values import has_series

# Parameters that a change of the filter retains.
_RETAINED: Final = ("metric", "from", "to", "zone", "scale", "tz", "panels", "color")


@require_safe
@may_read
def history(request: HttpRequest) -> HttpResponse:
    """Show up to 12 series: chart, summary, table. A selection of a list redirects to its series."""
    bar = make_filter_bar(request, keep=_RETAINED, has_time_range=True, has_metric=True)
    asked = read_history_request(request.GET)
    if (answer := settle_filter(request, bar, asked.errors)) is not None:
        return answer
    try:
        if selection := read_selection(request.GET):
            return redirect(find_history(selection))
    except BadSelection as error:
        return refuse_address(request, [str(error)], bar=bar)
    chosen = choose_series(bar.filter, ids=asked.ids)
    found = read_history(
        chosen,
        metrics=[asked.metric.name],
        terms=() if asked.ids is not None else bar.filter.fact_terms,
        **asked.span,
    )
    base_url = make_base_url(request)
    names = dict(zip((row.id for row in chosen.rows), chosen.names, strict=True))
    thresholds = list_chart_thresholds(find_person_id(request), list(names), [asked.metric.name])
    title = format_history_title(found, asked.metric)
    figure = make_history_figure(
        asked,
        choice=write_series_query(asked, bar.text),
        base_url=base_url,
        title=title,
        filter=describe_filter(bar.filter),
        file_name=f"history-{asked.metric.name}",
        has_several=len(chosen.rows) > 1,
        **list_switches(request, asked),
    )
    context = {
        **make_controls(request, asked, list_common_metrics(chosen.rows)),
        "title": title,
        "figure": figure if chosen.rows else None,
        "bar": bar,
        "choice": f"{describe_selection(chosen)} {describe_hidden(found)}".strip(),
        "empty_range": describe_empty_range(asked, run_count=found.run_count),
        "study_query": _write_study_query(asked, chosen, text=bar.text),
        "is_named": asked.ids is not None,
        "sentences": [
            *describe_level_changes(found, asked.metric),
            *describe_variability_of_lines(found, asked.metric),
            *describe_thresholds(thresholds, names),
        ],
        "table": make_history_table(found, asked.metric),
        "changes": make_environment_change_lines(found),
        "planned": make_planned_lines(
            found.planned,
            names,
            add_url=link_note_form(asked, chosen.rows, filter=bar.filter, return_to=request.get_full_path()),
        ),
        "metric": asked.metric,
        "excluded": () if chosen.rows else explain_empty(bar, has_series),
        "steps": None if chosen.rows or bar.text else list_first_steps(base_url),
    }
    return render(request, "charts/history/history.html", context)


def _write_study_query(asked: HistoryRequest, chosen: ChosenSeries, *, text: str) -> str:
    """Return the query of the chart; without ids and filter, the ids of the displayed series."""
    ids = asked.ids or (() if text else tuple(row.id for row in chosen.rows))
    return write_chart_query(asked, ids=ids, text=text)
