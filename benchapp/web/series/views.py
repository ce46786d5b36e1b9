"""History pages: one series with details, and several series in one chart."""

from datetime import timedelta
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.metrics import CATALOGUE, Metric, find_limit, find_references
from benchapp.queries.charts.environment_changes import read_environment_changes, read_time_zone
from benchapp.queries.charts.history import ChosenSeries, choose_series, read_history
from benchapp.queries.charts.latency import has_latencies
from benchapp.queries.incidents.changes import list_changes_of_series
from benchapp.queries.incidents.detection_status import list_detection_statuses
from benchapp.queries.series.levels import find_level, read_levels
from benchapp.queries.series.points import read_points
from benchapp.queries.series.series import SeriesDetail, SeriesRow, read_series, summarize_series
from benchapp.queries.series_versions import read_series_versions
from benchapp.web.charts.history.figure import (
    describe_selection,
    list_references,
    make_history_figure,
    write_chart_query,
    write_series_query,
)
from benchapp.web.charts.history.latency import make_latency_figures
from benchapp.web.charts.history.point_table import make_point_table
from benchapp.web.charts.history.request import HistoryRequest, read_history_request, write_query
from benchapp.web.charts.history.table import make_environment_change_lines, make_history_table
from benchapp.web.charts.history.texts import (
    describe_history,
    describe_latency_kind,
    describe_level_changes,
    describe_limit,
    describe_references,
    describe_step,
    find_step,
    format_change_title,
    format_history_title,
    format_series_title,
)
from benchapp.web.incidents.detection_status_texts import describe_metric_detection
from benchapp.web.incidents.tables import make_change_lines
from benchapp.web.incidents.texts import describe_drift
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import say_first_steps
from benchapp.web.site.filter_bar import make_filter_bar, say_filter
from benchapp.web.site.filter_forms import keep_query
from benchapp.web.site.number_columns import SHORT_LABELS
from benchapp.web.site.page_context import make_base_url
from benchapp.web.site.pagination import turn_page

POINTS_ON_A_PAGE: Final = 30
_QUICK_SPANS: Final = (7, 30, 90, 365)
# Parameters of the history page that a change of the filter retains.
_RETAINED: Final = ("metric", "from", "to", "scale", "tz", "panels")
_Link = tuple[str, str, bool]


@require_safe
@may_read
def history(request: HttpRequest) -> HttpResponse:
    """Show up to 12 series: chart, summary, table."""
    bar = make_filter_bar(request, keep=_RETAINED)
    asked = read_history_request(request.GET)
    errors = [*bar.errors, *asked.errors]
    chosen = choose_series(bar.filter, ids=asked.ids)
    found = read_history(chosen, metrics=[asked.metric.name], **asked.span)
    base_url = make_base_url(request)
    title = format_history_title(found, asked.metric)
    figure = make_history_figure(
        asked,
        choice=write_series_query(asked, bar.text if bar.error is None else ""),
        base_url=base_url,
        title=title,
        filter=say_filter(bar.filter),
        file_name=f"history-{asked.metric.name}",
        has_several=len(chosen.rows) > 1,
        **_list_switches(request, asked),
    )
    context = {
        "title": title,
        "figure": figure if chosen.rows else None,
        "bar": bar,
        "errors": errors,
        "metrics": _list_metric_links(request, asked.metric, _list_common_metrics(chosen.rows)),
        "spans": _list_span_links(request),
        "choice": describe_selection(chosen),
        "study_query": _write_study_query(asked, chosen, text=bar.text if bar.error is None else ""),
        "is_named": asked.ids is not None,
        "words": describe_level_changes(found, asked.metric),
        "table": make_history_table(found, asked.metric),
        "changes": make_environment_change_lines(found),
        "metric": asked.metric,
        "history_request": asked,
        "retained": _list_retained(request, ("series", "q", "metric", "scale", "tz", "panels")),
        "steps": None if chosen.rows or bar.text else say_first_steps(base_url),
    }
    return render(request, "charts/history/history.html", context, status=400 if errors else 200)


@require_safe
@may_read
def series(request: HttpRequest, series_id: int) -> HttpResponse:
    """Show the history of one series: chart, summary, table, latencies."""
    detail = read_series(series_id)
    if detail is None:
        raise Http404(f"Series {series_id} does not exist or has no measurements.")
    default = _list_metrics(detail.row)
    asked = read_history_request(request.GET, default=default[0])
    errors = list(asked.errors)
    changes = list_changes_of_series(series_id, metric=asked.metric.name)
    context = {
        **_read_history(request, detail, asked, errors=errors),
        "series": detail.row,
        "detail": detail,
        "metric": asked.metric,
        "detection_statuses": [
            *describe_metric_detection(list_detection_statuses(series_id), asked.metric),
            *filter(None, map(describe_drift, changes)),
        ],
        "cells": make_change_lines(changes),
        "metrics": _list_metric_links(request, asked.metric, default),
        "spans": _list_span_links(request),
        "latency": make_latency_figures(
            detail.row, asked, has=has_latencies(series_id), base_url=make_base_url(request)
        ),
        "study_query": write_chart_query(asked, ids=[series_id]),
        "history_request": asked,
        "retained": _list_retained(request, ("metric", "scale", "tz", "panels")),
        "errors": errors,
    }
    return render(request, "series/series.html", context, status=400 if errors else 200)


def _read_history(
    request: HttpRequest, detail: SeriesDetail, asked: HistoryRequest, *, errors: list[str]
) -> dict[str, Any]:
    row, metric = detail.row, asked.metric
    summary = summarize_series(row.id, metric=metric.name, **asked.span)
    page, links = turn_page(
        request,
        errors,
        read=lambda after: read_points(
            row.id,
            metrics=[metric.name],
            after=after,
            limit=POINTS_ON_A_PAGE,
            newest_first=True,
            **asked.span,
        ),
    )
    profile = row.latest.profile if row.latest else ""
    limit = find_limit(profile, metric.name)
    references = find_references(profile, metric.name, row.direction)
    versions = read_series_versions([row.id])
    levels = read_levels([row.id], [metric.name for metric in asked.metrics])[row.id][metric.name]
    step = find_step(levels, **asked.span)
    title = (
        format_series_title(row, metric, summary) if step is None else format_change_title(row, step, metric)
    )
    figure = make_history_figure(
        asked,
        choice=write_query(series=row.id),
        base_url=make_base_url(request),
        title=title,
        filter=row.title,
        file_name=f"series-{row.id}-{metric.name}",
        limit=limit,
        references=list_references(references),
        host_zone=read_time_zone(row.latest.run_id) if row.latest else "",
        **_list_switches(request, asked),
    )
    return {
        **links,
        "title": title,
        "words": [
            *([] if step is None else [describe_step(step, metric)]),
            *describe_history(row, metric, summary),
            *describe_latency_kind(metric),
            *describe_limit(limit, metric, summary),
            *describe_references(references, metric, summary),
        ],
        "figure": figure,
        "table": make_point_table(
            page.items, [find_level(levels, point.started_at) for point in page.items], metric
        ),
        "changes": make_environment_change_lines(read_environment_changes(versions)[row.id]),
        "points_csv_url": _link_points(row.id, asked),
    }


def _write_study_query(asked: HistoryRequest, chosen: ChosenSeries, *, text: str) -> str:
    """Return the query of the chart; without ids and filter, the ids of the displayed series."""
    ids = asked.ids or (() if text else tuple(row.id for row in chosen.rows))
    return write_chart_query(asked, ids=ids, text=text)


def _list_retained(request: HttpRequest, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the parameters that a change of the time range retains."""
    return [(name, request.GET[name]) for name in names if request.GET.get(name)]


def _link_points(series_id: int, asked: HistoryRequest) -> str:
    """Return the URL of all points of the time range as CSV, without downsampling."""
    query = write_query(metrics=asked.metric.name, limit=10_000, **asked.bounds, format="csv")
    return f"/api/v1/series/{series_id}/points?{query}"


def _list_switches(request: HttpRequest, asked: HistoryRequest) -> dict[str, str]:
    return {
        "linear_url": keep_query(request.GET, scale=None, after=None),
        "log_url": keep_query(request.GET, scale="log", after=None),
        "linked_url": keep_query(request.GET, panels="one" if asked.is_linked else None, after=None),
    }


def _list_metrics(row: SeriesRow) -> list[Metric]:
    """Return the available metrics, default first; a workload timed as a whole has elapsed time only."""
    is_timed = row.latest is not None and row.latest.elapsed_s is not None
    return [metric for metric in CATALOGUE.values() if (metric.name == "elapsed_s") == is_timed]


def _list_common_metrics(rows: tuple[SeriesRow, ...]) -> list[Metric]:
    """Return the available metrics of several series; elapsed time only if any of them is timed as a whole."""
    is_timed = any(row.latest is not None and row.latest.elapsed_s is not None for row in rows)
    return [metric for metric in CATALOGUE.values() if is_timed or metric.name != "elapsed_s"]


def _list_metric_links(
    request: HttpRequest, chosen: Metric, metrics: list[Metric]
) -> list[tuple[str, list[_Link]]]:
    """Return the metric selector: throughput and latency, each as (label, URL, is selected)."""
    links: dict[str, list[_Link]] = {}
    for metric in metrics:
        group = "Latency" if metric.name.startswith("latency_") else "Metric"
        url = keep_query(request.GET, metric=metric.name, after=None)
        links.setdefault(group, []).append((SHORT_LABELS[metric.name], url, metric is chosen))
    return list(links.items())


def _list_span_links(request: HttpRequest) -> list[_Link]:
    """Return time ranges that end now, with a fixed start day, so that a copied link keeps its start."""
    today = timezone.now().date()
    links = []
    for days in _QUICK_SPANS:
        first = (today - timedelta(days=days)).isoformat()
        is_chosen = request.GET.get("from") == first and not request.GET.get("to")
        url = keep_query(request.GET, **{"from": first, "to": None, "after": None})
        links.append((f"{days} days", url, is_chosen))
    is_all = not request.GET.get("from") and not request.GET.get("to")
    links.append(("all", keep_query(request.GET, **{"from": None, "to": None, "after": None}), is_all))
    return links
