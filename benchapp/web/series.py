"""Series: the list, and the history of one metric of one of them."""

import json
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.metrics import CATALOGUE, Metric, find_limit, find_references
from benchapp.models import DirectionName
from benchapp.queries.badges import HARMLESS_CODES
from benchapp.queries.points import ROLLING_WINDOW
from benchapp.queries.runs import list_run_choices
from benchapp.queries.series import (
    SeriesDetail,
    SeriesRow,
    list_series,
    read_points,
    read_rolling,
    read_series,
    summarize_series,
)
from benchapp.web.access import may_read
from benchapp.web.columns import SHORT_LABELS, make_cells, make_columns
from benchapp.web.filters import (
    SeriesFilterForm,
    Span,
    SpanForm,
    is_filtering,
    keep_query,
    list_errors,
    read_form,
    read_span,
)
from benchapp.web.frame import make_base_url
from benchapp.web.lines import say_first_steps, say_request
from benchapp.web.paging import turn_page
from benchapp.web.point_table import make_point_table
from benchapp.web.words import say_history, say_latency_kind, say_limit, say_references, say_series_title

SERIES_ON_A_PAGE: Final = 50
POINTS_ON_A_PAGE: Final = 30
# What the API gives at once; the newest of a longer history.
POINTS_OF_A_CHART: Final = 10_000
_QUICK_SPANS: Final = (7, 30, 90, 365)
_Link = tuple[str, str, bool]
_LIST_METRICS: Final = ("iops", "bandwidth_bytes_per_s", "latency_p99_ns", "elapsed_s")


@require_safe
@may_read
def series_list(request: HttpRequest) -> HttpResponse:
    """List the series that the filters leave, the freshest first."""
    form = read_form(SeriesFilterForm, request.GET)
    errors = list_errors(form)
    asked = form.make_filter()
    page, links = turn_page(
        request, errors, read=lambda after: list_series(asked, after=after, limit=SERIES_ON_A_PAGE)
    )
    columns = make_columns((row.latest for row in page.items if row.latest), _LIST_METRICS)
    context = {
        **links,
        "title": _say_list(page.items, has_more=any(links.values())),
        "form": form,
        "errors": errors,
        "choices": list_run_choices(),
        "directions": DirectionName.values,
        "is_filtering": is_filtering(form),
        "columns": columns,
        "rows": [(row, make_cells(row.latest, columns) if row.latest else ()) for row in page.items],
        "steps": None if page.items else say_first_steps(make_base_url(request)),
    }
    return render(request, "series_list.html", context, status=400 if errors else 200)


@require_safe
@may_read
def series(request: HttpRequest, series_id: int) -> HttpResponse:
    """Show the history of one metric: chart, reading in words, table."""
    detail = read_series(series_id)
    if detail is None:
        raise Http404(f"There is no series {series_id}, or it has no measurements any more.")
    form = read_form(SpanForm, request.GET)
    errors = list_errors(form)
    usual = _list_metrics(detail.row)
    metric = CATALOGUE.get(request.GET.get("metric", usual[0].name))
    if metric is None:
        errors.append(
            f"There is no such metric; there are: {', '.join(CATALOGUE)}. Here is {usual[0].label}."
        )
        metric = usual[0]
    context = {
        **_read_history(request, detail, metric, span=read_span(form), errors=errors),
        "series": detail.row,
        "detail": detail,
        "metric": metric,
        "metrics": _list_metric_links(request, metric, usual),
        "spans": _list_span_links(request),
        "form": form,
        "is_log": request.GET.get("scale") == "log",
        "log_url": keep_query(request.GET, scale="log", after=None),
        "linear_url": keep_query(request.GET, scale=None, after=None),
        "errors": errors,
    }
    return render(request, "series.html", context, status=400 if errors else 200)


def _read_history(
    request: HttpRequest,
    detail: SeriesDetail,
    metric: Metric,
    *,
    span: Span,
    errors: list[str],
) -> dict[str, Any]:
    series_id = detail.row.id
    summary = summarize_series(series_id, metric=metric.name, **span)
    page, links = turn_page(
        request,
        errors,
        read=lambda after: read_points(
            series_id, metrics=[metric.name], after=after, limit=POINTS_ON_A_PAGE, newest_first=True, **span
        ),
    )
    profile = detail.row.latest.profile if detail.row.latest else ""
    limit = find_limit(profile, metric.name)
    references = find_references(profile, metric.name, detail.row.direction)
    levels = read_rolling(series_id, page.items, metrics=[metric.name])
    address = f"/api/v1/series/{series_id}/points?{_make_query(metric, span)}"
    return {
        **links,
        "title": say_series_title(detail.row, metric, summary),
        "words": [
            *say_history(detail.row, metric, summary),
            *say_latency_kind(metric),
            *say_limit(limit, metric, summary),
            *say_references(references, metric, summary),
        ],
        "limit": limit,
        "references": json.dumps([{"value": line.value, "words": line.words} for line in references]),
        "harmless": HARMLESS_CODES,
        "summary": summary,
        "table": make_point_table(page.items, levels, metric),
        "window": ROLLING_WINDOW,
        "points_url": f"{address}&sort=-started_at",
        "csv_url": f"{address}&format=csv",
        "api_line": say_request(f"{make_base_url(request)}{address}"),
    }


def _make_query(metric: Metric, span: Span) -> str:
    """Return the API's parameters for what the page shows."""
    bounds = {"from": span["from_at"], "to": span["to_at"]}
    said = {name: moment.strftime("%Y-%m-%dT%H:%M:%SZ") for name, moment in bounds.items() if moment}
    asked = {"metrics": metric.name, "rolling": ROLLING_WINDOW, "limit": POINTS_OF_A_CHART} | said
    return urlencode(asked, safe=":")


def _list_metrics(row: SeriesRow) -> list[Metric]:
    """Return the metrics that there are to choose from, the usual one first: work timed as a whole has no other."""
    is_timed = row.latest is not None and row.latest.elapsed_s is not None
    return [metric for metric in CATALOGUE.values() if (metric.name == "elapsed_s") == is_timed]


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
        links.append(
            (f"{days} days", keep_query(request.GET, **{"from": first, "to": None, "after": None}), is_chosen)
        )
    is_all = not request.GET.get("from") and not request.GET.get("to")
    links.append(("all", keep_query(request.GET, **{"from": None, "to": None, "after": None}), is_all))
    return links


def _say_list(rows: tuple[SeriesRow, ...], *, has_more: bool) -> str:
    if not rows:
        return "Series: none"
    count = "1 series" if len(rows) == 1 else f"{len(rows)} series"
    return f"{count}, by their last run" if has_more else f"{count}, all there are"
