"""Histories: of one series with everything about it, and of several side by side."""

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
from benchapp.queries.charts.levels import find_level, read_levels
from benchapp.queries.incidents.changes import list_changes_of_series
from benchapp.queries.incidents.detection_status import list_judgements
from benchapp.queries.series.points import read_points
from benchapp.queries.series.series import SeriesDetail, SeriesRow, read_series, summarize_series
from benchapp.queries.series_versions import read_series_versions
from benchapp.web.charts.history.figure import (
    list_references,
    make_history_figure,
    say_choice,
    write_choice,
    write_picture,
)
from benchapp.web.charts.history.latency import make_latency_figures
from benchapp.web.charts.history.point_table import make_point_table
from benchapp.web.charts.history.request import HistoryRequest, read_history_request, write_query
from benchapp.web.charts.history.table import make_history_table, make_level_change_lines
from benchapp.web.charts.history.texts import (
    find_step,
    say_changed_title,
    say_histories,
    say_history,
    say_latency_kind,
    say_levels,
    say_limit,
    say_references,
    say_series_title,
    say_step,
)
from benchapp.web.incidents.detection_status_texts import say_standings
from benchapp.web.incidents.tables import make_change_lines
from benchapp.web.incidents.texts import say_drift
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import say_first_steps
from benchapp.web.site.filter_bar import make_filter_bar, say_filter
from benchapp.web.site.filter_forms import keep_query
from benchapp.web.site.number_columns import SHORT_LABELS
from benchapp.web.site.page_context import make_base_url
from benchapp.web.site.pagination import turn_page

POINTS_ON_A_PAGE: Final = 30
_QUICK_SPANS: Final = (7, 30, 90, 365)
# What a page of several keeps while its filter changes.
_KEPT: Final = ("metric", "from", "to", "scale", "tz", "panels")
_Link = tuple[str, str, bool]


@require_safe
@may_read
def history(request: HttpRequest) -> HttpResponse:
    """Show up to 12 series side by side: chart, reading in words, table."""
    bar = make_filter_bar(request, keep=_KEPT)
    asked = read_history_request(request.GET)
    errors = [*bar.errors, *asked.errors]
    chosen = choose_series(bar.filter, ids=asked.ids)
    found = read_history(chosen, metrics=[asked.metric.name], **asked.span)
    base_url = make_base_url(request)
    title = say_histories(found, asked.metric)
    figure = make_history_figure(
        asked,
        choice=write_choice(asked, bar.text if bar.error is None else ""),
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
        "metrics": _list_metric_links(request, asked.metric, _offer_metrics(chosen.rows)),
        "spans": _list_span_links(request),
        "choice": say_choice(chosen),
        "study_query": _write_study_query(asked, chosen, text=bar.text if bar.error is None else ""),
        "is_named": asked.ids is not None,
        "words": say_levels(found, asked.metric),
        "table": make_history_table(found, asked.metric),
        "changes": make_level_change_lines(found),
        "metric": asked.metric,
        "asked": asked,
        "kept": _list_kept(request, ("series", "q", "metric", "scale", "tz", "panels")),
        "steps": None if chosen.rows or bar.text else say_first_steps(base_url),
    }
    return render(request, "charts/history/history.html", context, status=400 if errors else 200)


@require_safe
@may_read
def series(request: HttpRequest, series_id: int) -> HttpResponse:
    """Show the history of one series: chart, reading in words, table, latencies."""
    detail = read_series(series_id)
    if detail is None:
        raise Http404(f"There is no series {series_id}, or it has no measurements any more.")
    usual = _list_metrics(detail.row)
    asked = read_history_request(request.GET, usual=usual[0])
    errors = list(asked.errors)
    changes = list_changes_of_series(series_id, metric=asked.metric.name)
    context = {
        **_read_history(request, detail, asked, errors=errors),
        "series": detail.row,
        "detail": detail,
        "metric": asked.metric,
        "standings": [
            *say_standings(list_judgements(series_id), asked.metric),
            *filter(None, map(say_drift, changes)),
        ],
        "cells": make_change_lines(changes),
        "metrics": _list_metric_links(request, asked.metric, usual),
        "spans": _list_span_links(request),
        "latency": make_latency_figures(
            detail.row, asked, has=has_latencies(series_id), base_url=make_base_url(request)
        ),
        "study_query": write_picture(asked, ids=[series_id]),
        "asked": asked,
        "kept": _list_kept(request, ("metric", "scale", "tz", "panels")),
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
    levels = read_levels(versions, metrics=[metric.name for metric in asked.metrics])[row.id][metric.name]
    step = find_step(levels, **asked.span)
    title = say_series_title(row, metric, summary) if step is None else say_changed_title(row, step, metric)
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
            *([] if step is None else [say_step(step, metric)]),
            *say_history(row, metric, summary),
            *say_latency_kind(metric),
            *say_limit(limit, metric, summary),
            *say_references(references, metric, summary),
        ],
        "figure": figure,
        "table": make_point_table(
            page.items, [find_level(levels, point.started_at) for point in page.items], metric
        ),
        "changes": make_level_change_lines(read_environment_changes(versions)[row.id]),
        "points_csv_url": _link_points(row.id, asked),
    }


def _write_study_query(asked: HistoryRequest, chosen: ChosenSeries, *, text: str) -> str:
    """Return the address of a picture; where nothing was asked for, the series that happened to be the freshest."""
    ids = asked.ids or (() if text else tuple(row.id for row in chosen.rows))
    return write_picture(asked, ids=ids, text=text)


def _list_kept(request: HttpRequest, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the parameters that another span leaves as they are."""
    return [(name, request.GET[name]) for name in names if request.GET.get(name)]


def _link_points(series_id: int, asked: HistoryRequest) -> str:
    """Return where all points of the span are as CSV, never thinned."""
    query = write_query(metrics=asked.metric.name, limit=10_000, **asked.bounds, format="csv")
    return f"/api/v1/series/{series_id}/points?{query}"


def _list_switches(request: HttpRequest, asked: HistoryRequest) -> dict[str, str]:
    return {
        "linear_url": keep_query(request.GET, scale=None, after=None),
        "log_url": keep_query(request.GET, scale="log", after=None),
        "linked_url": keep_query(request.GET, panels="one" if asked.is_linked else None, after=None),
    }


def _list_metrics(row: SeriesRow) -> list[Metric]:
    """Return the metrics that there are to choose from, the usual one first: work timed as a whole has no other."""
    is_timed = row.latest is not None and row.latest.elapsed_s is not None
    return [metric for metric in CATALOGUE.values() if (metric.name == "elapsed_s") == is_timed]


def _offer_metrics(rows: tuple[SeriesRow, ...]) -> list[Metric]:
    """Return what several series can be compared by: elapsed time where any of them is timed as a whole."""
    is_timed = any(row.latest is not None and row.latest.elapsed_s is not None for row in rows)
    return [metric for metric in CATALOGUE.values() if is_timed or metric.name != "elapsed_s"]


def _list_metric_links(
    request: HttpRequest, chosen: Metric, offered: list[Metric]
) -> list[tuple[str, list[_Link]]]:
    """Return the metric chooser: throughput and latency, each as (label, address, is chosen)."""
    links: dict[str, list[_Link]] = {}
    for metric in offered:
        group = "Latency" if metric.name.startswith("latency_") else "Metric"
        url = keep_query(request.GET, metric=metric.name, after=None)
        links.setdefault(group, []).append((SHORT_LABELS[metric.name], url, metric is chosen))
    return list(links.items())


def _list_span_links(request: HttpRequest) -> list[_Link]:
    """Return spans that end now, as days of the calendar, so that a copied link goes on showing the same."""
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
