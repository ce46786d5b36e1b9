"""Page of one series: its history in one metric, with details."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import (
    Metric,
    ReferenceLine,
    find_detected_metric,
    find_limit,
    find_references,
    list_judged_metrics,
)
from benchapp.charts.pages.history.controls import (
    describe_empty_range,
    list_series_metrics,
    list_switches,
    make_controls,
)
from benchapp.charts.pages.history.figure import (
    HistoryFigure,
    list_references,
    make_history_figure,
    write_chart_query,
)
from benchapp.charts.pages.history.latency import make_latency_figures
from benchapp.charts.pages.history.planned import link_note_form, make_planned_lines
from benchapp.charts.pages.history.point_table import make_point_table
from benchapp.charts.pages.history.request import HistoryRequest, read_history_request, write_query
from benchapp.charts.pages.history.table import make_environment_change_lines
from benchapp.charts.read.chart_thresholds import list_chart_thresholds
from benchapp.charts.read.latency import has_latencies
from benchapp.charts.read.small_steps import read_small_steps
from benchapp.charts.texts.history import (
    describe_latency_kind,
    describe_level,
    describe_limit,
    describe_references,
    describe_small_steps,
    describe_thresholds,
    describe_time_range,
    find_shown_level,
    format_series_title,
)
from benchapp.framework.pages.access import find_person_id, may_read
from benchapp.framework.pages.filter_bar import refuse_address
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.pagination import turn_page
from benchapp.framework.pages.series_marks import show_mark
from benchapp.incidents.pages.texts import describe_drift, describe_metric_detection, make_change_lines
from benchapp.incidents.read.changes import list_changes_of_series
from benchapp.incidents.read.maintenance import read_planned_marks
from benchapp.incidents.read.series_status import SeriesMark, list_detection_statuses, read_series_marks
from benchapp.requests.pages.panel import make_request_panel
from benchapp.requests.read.run_requests import RequestFilter
from benchapp.series.read.environment_changes import read_environment_changes, read_time_zone
from benchapp.series.read.levels import LevelRow, find_level, read_levels
from benchapp.series.read.points import read_points, summarize_series
from benchapp.series.read.series import SeriesRow, read_series, read_series_versions

POINTS_ON_A_PAGE: Final = 30


@require_safe
@may_read
def series(request: HttpRequest, series_id: int) -> HttpResponse:
    """Show the history of one series: chart, summary, table, latencies."""
    detail = read_series(series_id)
    if detail is None:
        raise Http404(f"Series {series_id} does not exist or has no measurements.")
    row = detail.row
    metrics = list_series_metrics(row)
    mark = _read_mark(series_id, metrics[0].name)
    asked = read_history_request(request.GET, default=_choose_metric(mark, metrics))
    if asked.errors:
        return refuse_address(request, asked.errors)
    metric = asked.metric
    if metric is not metrics[0]:
        mark = _read_mark(series_id, metric.name)
    errors: list[str] = []
    versions = read_series_versions([series_id])
    levels = read_levels([series_id], [metric.name])[series_id][metric.name]
    title, sentences = _describe(row, asked, levels)
    steps = read_small_steps(versions, metric.name, levels={series_id: levels})[series_id]
    changes = list_changes_of_series(series_id, metric=metric.name)
    context = {
        **make_controls(request, asked, metrics),
        **_read_point_table(request, row, asked, levels=levels, errors=errors),
        "series": row,
        "detail": detail,
        "metric": metric,
        "title": title,
        "mark": show_mark(mark, metric=metric.name),
        "sentences": [
            *sentences,
            *describe_thresholds(
                list_chart_thresholds(find_person_id(request), [series_id], [metric.name]), {series_id: ""}
            ),
        ],
        "figure": _make_figure(request, row, asked, title=title),
        "detection_statuses": [
            *describe_metric_detection(list_detection_statuses(series_id), metric),
            *describe_small_steps(steps),
            *filter(None, map(describe_drift, changes)),
        ],
        "detected_metric": find_detected_metric(
            metric.name,
            list_judged_metrics(has_one_block_size=row.workload.block_size_bytes is not None),
        ),
        "changes": make_environment_change_lines(read_environment_changes(versions)[series_id]),
        "planned": make_planned_lines(
            read_planned_marks([series_id], **asked.span),
            {series_id: ""},
            add_url=link_note_form(
                replace(asked, ids=(series_id,)), [row], filter=Filter(), return_to=request.get_full_path()
            ),
        ),
        "level_changes": make_change_lines(changes),
        "latency": make_latency_figures(
            row, asked, has=has_latencies(series_id), base_url=make_base_url(request)
        ),
        "study_query": write_chart_query(asked, ids=[series_id]),
        "panel": make_request_panel(
            request,
            RequestFilter(series_id=series_id),
            find_runs=lambda: [row.latest.run_id] if row.latest else [],
        ),
        "here": request.get_full_path(),
        "errors": errors,
    }
    return render(request, "series/series.html", context, status=400 if errors else 200)


def _read_mark(series_id: int, metric: str) -> SeriesMark | None:
    return read_series_marks([series_id], metric=metric).get(series_id)


def _choose_metric(mark: SeriesMark | None, metrics: Sequence[Metric]) -> Metric:
    """Return the metric of the open incident of a series, else its first one; the first one if both are open.

    mark: of the series and its first metric.
    """
    if mark is not None and mark.state != "open" and mark.metric == metrics[0].name:
        # It hides an open one of another metric.
        mark = _read_mark(mark.series_id, "")
    name = mark.metric if mark is not None and mark.state == "open" else ""
    return next((metric for metric in metrics if metric.name == name), metrics[0])


def _describe(row: SeriesRow, asked: HistoryRequest, levels: Sequence[LevelRow]) -> tuple[str, list[str]]:
    """Return title and summary: level, time range, limits, references."""
    metric = asked.metric
    shown = find_shown_level(levels, **asked.span)
    has_range = any(asked.span.values())
    summary = summarize_series(row.id, metric=metric.name, **asked.span) if has_range else None
    return format_series_title(row, metric, shown, has_range=has_range), [
        *describe_level(shown, metric, has_range=has_range),
        *(describe_time_range(summary, metric) if summary else ()),
        *describe_latency_kind(shown),
        *describe_limit(find_limit(_find_profile(row), metric.name), metric, shown),
        *describe_references(_find_references(row, metric), metric, shown),
    ]


def _make_figure(request: HttpRequest, row: SeriesRow, asked: HistoryRequest, *, title: str) -> HistoryFigure:
    return make_history_figure(
        asked,
        choice=write_query(series=row.id),
        base_url=make_base_url(request),
        title=title,
        filter=row.title,
        file_name=f"series-{row.id}-{asked.metric.name}",
        limit=find_limit(_find_profile(row), asked.metric.name),
        references=list_references(_find_references(row, asked.metric)),
        host_zone=read_time_zone(row.latest.run_id) if row.latest else "",
        **list_switches(request, asked),
    )


def _read_point_table(
    request: HttpRequest,
    row: SeriesRow,
    asked: HistoryRequest,
    *,
    levels: Sequence[LevelRow],
    errors: list[str],
) -> dict[str, Any]:
    """Return one page of points with their levels, the links to other pages, and the CSV link."""
    page, links = turn_page(
        request,
        errors,
        read=lambda after: read_points(
            row.id,
            metrics=[asked.metric.name],
            after=after,
            limit=POINTS_ON_A_PAGE,
            newest_first=True,
            **asked.span,
        ),
    )
    csv_query = write_query(metrics=asked.metric.name, limit=10_000, **asked.bounds, format="csv")
    return {
        **links,
        "empty_range": describe_empty_range(asked, run_count=len(page.items)),
        "table": make_point_table(
            page.items, [find_level(levels, point.started_at) for point in page.items], asked.metric
        ),
        "points_csv_url": f"/api/v1/series/{row.id}/points?{csv_query}",
    }


def _find_profile(row: SeriesRow) -> str:
    return row.latest.profile if row.latest else ""


def _find_references(row: SeriesRow, metric: Metric) -> Sequence[ReferenceLine]:
    return find_references(_find_profile(row), metric.name, row.direction)
