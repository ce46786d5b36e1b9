"""The history of series: one series with its runs and its detection, or several in one chart."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import numpy as np
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from benchapp.catalog.dimensions import DIMENSIONS, FACT_NAMES, name_pattern
from benchapp.catalog.grammar import Filter, Term, Test, write_filter
from benchapp.catalog.metrics import (
    CATALOG,
    Metric,
    find_detected_metric,
    find_limit,
    find_references,
    format_count,
    format_value,
    list_judged_metrics,
)
from benchapp.charts.pages.history import (
    HistoryFigure,
    HistoryRequest,
    list_references,
    make_history_figure,
    make_history_table,
    read_history_request,
    write_chart_query,
    write_query,
    write_series_query,
)
from benchapp.charts.pages.matrix import link_surface
from benchapp.charts.read.chart import list_chart_thresholds
from benchapp.charts.read.history import (
    LINES_MAXIMUM,
    ChosenSeries,
    HistoryLine,
    SeriesHistory,
    choose_series,
    read_history,
)
from benchapp.charts.read.latency import FAN, Fan, has_latencies, read_fan, read_heat
from benchapp.charts.rules.downsampling import Heat
from benchapp.charts.texts.history import (
    describe_history,
    describe_latency_kind,
    describe_small_steps,
    find_shown_level,
    format_history_title,
)
from benchapp.framework.pages.access import find_person_id, may_read
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image, list_first_steps
from benchapp.framework.pages.filter_bar import (
    FilterBar,
    Span,
    describe_filter,
    explain_empty,
    keep_query,
    make_filter_bar,
    refuse_address,
    settle_filter,
    write_scopes,
)
from benchapp.framework.pages.list_entries import read_page_number
from benchapp.framework.pages.number_columns import NumberCell, Scale, choose_scale, make_cell
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.selection import BadSelection, find_history, read_selection
from benchapp.framework.pages.series_marks import show_mark
from benchapp.framework.pages.time_range import describe_bounds
from benchapp.framework.read.binary_columns import from_us
from benchapp.framework.times import format_moment, to_iso
from benchapp.incidents.pages.texts import describe_drift, describe_metric_detection, make_change_lines
from benchapp.incidents.read.changes import list_changes_of_series
from benchapp.incidents.read.maintenance import PlannedMark
from benchapp.incidents.read.series_status import SeriesMark, list_detection_statuses, read_series_marks
from benchapp.models import Measurement
from benchapp.models.filtering import asks_for_series
from benchapp.requests.pages.run_requests import make_request_panel
from benchapp.requests.read.failing import read_failing_hosts
from benchapp.requests.read.run_requests import RequestFilter
from benchapp.series.pages.run_tables import BADGES
from benchapp.series.read.dimension_values import has_series
from benchapp.series.read.environment_changes import EnvironmentChange, list_alternating_disks, read_time_zone
from benchapp.series.read.levels import find_level, read_levels
from benchapp.series.read.series import SeriesRow, read_relatives, varies_in_depth_and_jobs
from benchapp.series.read.shapes import make_badges
from benchapp.series.validity.rules import SEVERAL_TARGETS

T = TypeVar("T")

RUNS_ON_A_PAGE: Final = 30
FAN_RUNS: Final = 30
HEAT_RUNS: Final = 12
# All percentiles and histograms of a run are of one kind.
_KIND_OF: Final = "latency_p99_ns"
# Heat map buckets per doubling of the latency.
_PER_DOUBLING: Final = 4


def make_run_table(line: HistoryLine, metric: Metric, *, page: int) -> dict[str, Any]:
    """Return a page of the runs of a series in the time range. page: from 1."""
    count = len(line.points.error)
    end = max(0, count - (page - 1) * RUNS_ON_A_PAGE)
    start = max(0, end - RUNS_ON_A_PAGE)
    values = line.points.points.values[metric.name]
    scale = choose_scale([_known(value) for value in values[start:end].tolist()], metric.unit)
    lines = (_make_run_line(line, metric, place, scale=scale) for place in reversed(range(start, end)))
    return {"scale": scale, "lines": tuple(lines), "has_older": start > 0}


def _make_run_line(line: HistoryLine, metric: Metric, place: int, *, scale: Scale) -> dict[str, Any]:
    points = line.points.points
    started_at, error = from_us(points.at_us[place]), int(line.points.error[place])
    value = _known(float(points.values[metric.name][place]))
    level = find_level(line.levels.get(metric.name, ()), started_at)
    is_compared = value is not None and level is not None and level.median and not error
    numbers = (None, None, None) if level is None else (level.median, level.p10, level.p90)
    return {
        "run_id": int(points.run_id[place]),
        "started_at": started_at,
        "error": error,
        "is_excluded": bool(points.is_excluded[place]),
        "value": make_cell(value, scale, metric.name, reason="the run failed" if error else "see run page"),
        "level": tuple(make_cell(each, scale, metric.name, reason="no level") for each in numbers),
        "difference": value / level.median - 1 if is_compared and value and level else None,
        "codes": line.points.codes_at(place),
    }


def _known(value: float) -> float | None:
    return None if value != value else value


# An environment change or a planned event, with the names of the series of the chart that it concerns.
Named = tuple[T, tuple[str, ...]]


def list_environment_changes(history: SeriesHistory) -> list[Named[EnvironmentChange]]:
    """Return the environment changes of the series of a chart, newest first; each run once."""
    names: dict[int, list[str]] = defaultdict(list)
    changes: dict[int, EnvironmentChange] = {}
    for line in history.lines:
        for change in line.environments.changes:
            names[change.run].append(line.name)
            changes[change.run] = change
    newest = sorted(changes.values(), key=lambda change: change.at, reverse=True)
    return [(change, tuple(names[change.run])) for change in newest]


def list_planned_events(history: SeriesHistory) -> list[Named[PlannedMark]]:
    """Return the planned events of a chart, latest start first; without names those that match all its series."""
    return [
        (mark, tuple(line.name for line in history.lines if line.row.id in mark.series_ids))
        if len(mark.series_ids) < len(history.lines)
        else (mark, ())
        for mark in history.planned
    ]


def link_note_form(
    asked: HistoryRequest, rows: Sequence[SeriesRow], *, filter: Filter, return_to: str
) -> str:
    """Return the address of the form for a note with the chart's filter and time.

    filter: of the chart; a chart of series by id has their hosts and pools instead. The time is the range of the chart;
    without one, that of the newest run. return_to: address to go back to.
    """
    latest_at = max((row.last_at for row in rows), default=None)
    from_at = asked.from_at or (None if asked.to_at else latest_at)
    query = write_query(
        kind="note",
        filter=write_filter(filter.without_facts())
        if asked.ids is None
        else write_scopes(sorted({row.scope for row in rows})),
        **{
            name: to_iso(moment)
            for name, moment in {"from": from_at, "to": asked.to_at}.items()
            if moment is not None
        },
        next=return_to,
    )
    return f"{reverse('add_planned_event')}?{query}"


def read_fan_table(series_id: int, span: Span) -> dict[str, Any]:
    """Return the percentiles of the newest 30 runs of a time range; one query."""
    # One more row shows whether older runs exist.
    fan = read_fan(series_id, count=FAN_RUNS + 1, newest=FAN_RUNS + 1, **span)
    return _make_table(
        fan, [f"p{percent:g}" for percent in FAN.values()], _show_percentiles(fan), most=FAN_RUNS
    )


def read_heat_table(series_id: int, span: Span) -> dict[str, Any] | None:
    """Return the latency distribution of the newest 12 runs as shares of I/Os; one query.

    Each column is a doubling of the latency; empty columns at both ends are omitted. None without histograms.
    """
    heat = read_heat(series_id, count=HEAT_RUNS + 1, newest=HEAT_RUNS + 1, **span)
    if heat is None:
        return None
    first = heat.first_bucket // _PER_DOUBLING
    shares = find_shares(heat)
    columns = [
        f"≤ {format_value(2.0 ** (first + place + 1), 'ns')}"
        for place in range(len(shares[0]) if shares else 0)
    ]
    cells = [
        tuple(NumberCell(format_share(share), share, "", "share") for share in run_shares)
        for run_shares in shares
    ]
    return _make_table(heat, columns, ("%", cells), most=HEAT_RUNS)


def find_shares(heat: Heat) -> list[list[float]]:
    """Return the share (0 to 1) of I/Os in each doubling from 2^k ns, for each column of a heat map."""
    lead = heat.first_bucket % _PER_DOUBLING
    height = heat.counts.shape[1]
    padded = np.pad(heat.counts, ((0, 0), (lead, -(lead + height) % _PER_DOUBLING)))
    doublings = padded.reshape(len(padded), -1, _PER_DOUBLING).sum(axis=2)
    shares: list[list[float]] = (doublings / doublings.sum(axis=1, keepdims=True)).tolist()
    return shares


def format_share(share: float) -> str:
    """Format a share in per cent as the chart does: 20.6, 0.0012, > 99.99."""
    percent = share * 100
    if percent == 0:
        return "0"
    if 99.995 <= percent < 100:
        return "> 99.99"
    return np.format_float_positional(
        float(f"{percent:.{4 if percent >= 99 else 3}g}"), trim="-", unique=True
    )


def _show_percentiles(fan: Fan) -> tuple[str, list[tuple[NumberCell, ...]]]:
    rows: list[list[float | None]] = [
        list(map(_known, row)) for row in zip(*(fan.values[name].tolist() for name in FAN), strict=True)
    ]
    scale: Scale = choose_scale([value for row in rows for value in row], "ns")
    reason = "not in the fio output, or fewer than 10 samples above this percentile"
    cells = [tuple(make_cell(value, scale, "latency", reason=reason) for value in row) for row in rows]
    return scale.name, cells


def _make_table(
    columns_over_time: Fan | Heat,
    names: Sequence[str],
    shown: tuple[str, list[tuple[NumberCell, ...]]],
    *,
    most: int,
) -> dict[str, Any]:
    unit, cells = shown
    lines = [
        {"run_id": run_id, "started_at": from_us(at_us), "cells": row}
        for run_id, at_us, row in zip(
            columns_over_time.run_id.tolist(), columns_over_time.first_us.tolist(), cells, strict=True
        )
    ]
    return {
        "unit": unit,
        "columns": tuple(names),
        "lines": tuple(lines[::-1][:most]),
        "has_more": len(lines) > most,
    }


def make_latency_figures(row: SeriesRow, asked: HistoryRequest, *, base_url: str) -> dict[str, Any] | None:
    """Return the figures for the available data; a query, one for each figure, and one for their kind of latency.

    fan: percentiles; heat: if fio printed a histogram; None without data. note: on their kind of latency.
    """
    has_percentiles, has_bins = has_latencies(row.id)
    if not has_percentiles and not has_bins:
        return None
    levels = read_levels([row.id], [_KIND_OF])[row.id][_KIND_OF]
    query = write_query(**asked.bounds)

    def make(name: str, table: dict[str, Any] | None, *, image_url: str = "") -> dict[str, Any]:
        address = f"/api/v1/series/{row.id}/{name}{'?' if query else ''}{query}"
        return {
            "url": address,
            "csv_url": f"{address}{'&' if query else '?'}format=csv",
            "api_line": format_curl_command(f"{base_url}{address}"),
            "file_name": f"series-{row.id}-{name}",
            "table": table,
            "image_url": image_url,
        }

    image_query = write_query(series=row.id, **asked.bounds)
    image_url = link_chart_image(f"/api/v1/percentiles?{image_query}")
    return {
        "fan": make("percentiles", read_fan_table(row.id, asked.span), image_url=image_url)
        if has_percentiles
        else None,
        "heat": make("histogram", read_heat_table(row.id, asked.span)) if has_bins else None,
        "note": " ".join(describe_latency_kind(find_shown_level(levels, **asked.span))),
    }


# Parameters that a change of the filter retains.
_RETAINED: Final = ("metric", "scale", "tz", "panels")
# The script of the page has the document, and asks for the texts of a time range.
_TEXTS_ONLY: Final = "X-Texts-Only"
_CHANGES_SHOWN: Final = 50
_Link = tuple[str, str, bool]


@require_safe
@may_read
@vary_on_headers(_TEXTS_ONLY)
def history(request: HttpRequest, series_id: int | None = None) -> HttpResponse:
    """Show the chart of up to 12 series with sentences and table, of one also its runs, latencies and detection.

    A selection of a list redirects to its series, a single id to the address of that series.
    """
    bar = make_filter_bar(
        request,
        action=reverse("history"),
        keep=_RETAINED,
        fields="series/_history_fields.html",
        has_metric=True,
        leaves_out_sample=series_id is None and "series" not in request.GET,
    )
    asked = read_history_request(request.GET)
    errors = [*asked.errors]
    page = read_page_number(request.GET, errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    try:
        if selection := read_selection(request.GET):
            return redirect(find_history(selection))
    except BadSelection as error:
        return refuse_address(request, [str(error)], bar=bar)
    if series_id is not None:
        asked = replace(asked, ids=(series_id,))
    elif asked.ids is not None and len(asked.ids) == 1:
        return redirect(link_series(asked.ids[0], request))
    chosen = choose_series(bar.read, ids=asked.ids, metric=asked.metric.name)
    if series_id is not None and not chosen.rows:
        raise Http404(f"Series {series_id} does not exist or has no measurements.")
    metrics = _list_metrics(chosen.rows)
    if not request.GET.get("metric"):
        asked = replace(asked, metric=_choose_metric(chosen.rows, metrics))
    metric = asked.metric
    terms = () if asked.ids is not None else bar.filter.fact_terms
    names = [one.name for one in asked.metrics]
    shown = whole = read_history(chosen, metrics=names, terms=terms, color=asked.color, **asked.span)
    if shown.has_range and _TEXTS_ONLY not in request.headers:
        whole = read_history(chosen, metrics=names, terms=terms, color=asked.color)
    thresholds = list_chart_thresholds(find_person_id(request), [row.id for row in chosen.rows], names)
    title = format_history_title(shown, metric, chosen)
    context = {
        "bar": bar,
        "asked": asked,
        "title": title,
        "metric": metric,
        "metrics": _link_metrics(request, metric, metrics),
        "colors": [(name, DIMENSIONS[name].label, name == asked.color) for name in FACT_NAMES],
        "scope": _describe_scope(chosen, asked, bar),
        "range_text": _name_range(asked, bar),
        "empty_range": "" if shown.run_count else describe_bounds(asked.from_at, asked.to_at),
        "sentences": describe_history(shown, metric, thresholds),
        "left_out": _describe_left_out(chosen, shown),
        "is_named": asked.ids is not None and series_id is None,
    }
    if chosen.rows:
        figure = _make_figure(
            request, asked, chosen, bar, histories=(shown, whole), title=title, thresholds=thresholds
        )
        changes = list_environment_changes(shown)
        context |= {
            "figure": figure,
            "study_query": _write_study_query(asked, chosen, bar.read),
            "changes": changes[:_CHANGES_SHOWN],
            "changes_left_out": len(changes[_CHANGES_SHOWN:])
            + sum(line.environments.left_out for line in shown.lines),
            "planned": list_planned_events(shown),
            "planned_left_out": shown.planned_left_out,
            "note_url": link_note_form(
                asked, chosen.rows, filter=bar.filter, return_to=request.get_full_path()
            ),
        }
        if len(chosen.rows) > 1:
            context["table"] = make_history_table(shown, metric)
        else:
            context |= _show_series(request, shown, asked, page=page)
    else:
        context["excluded"] = explain_empty(bar, has_series)
        context["steps"] = None if bar.text else list_first_steps(make_base_url(request))
    return render(request, "series/history.html", context)


def link_series(series_id: int, request: HttpRequest) -> str:
    """Return the address of the history of one series, with the other parameters of a request."""
    rest = [(name, value) for name, values in request.GET.lists() for value in values if name != "series"]
    query = urlencode(rest, safe=":,/*")
    return f"{reverse('series', args=[series_id])}{'?' if query else ''}{query}"


def _show_series(
    request: HttpRequest, history: SeriesHistory, asked: HistoryRequest, *, page: int
) -> dict[str, Any]:
    """Return what the page has of a single series: its facts, runs, changes, detection, latencies, requests."""
    (line,) = history.lines
    row, metric = line.row, asked.metric
    runs = make_run_table(line, metric, page=page)
    changes = list_changes_of_series(row.id, metric=metric.name)
    host_names, siblings = read_relatives(row)
    return {
        "series": row,
        "host_names": host_names,
        "siblings": siblings,
        "surface_url": link_surface(_match_surface(row), metric.name)
        if varies_in_depth_and_jobs(row)
        else "",
        "failing_hosts": read_failing_hosts(
            host_names, profile=row.profile, target_name=row.target.target_name or ""
        ),
        "mixing": _describe_mixing(row),
        "mark": show_mark(_read_mark(row.id, metric.name), metric=metric.name),
        "runs": runs,
        "newest_url": keep_query(request.GET, page=None) if page > 1 else None,
        "older_url": keep_query(request.GET, page=str(page + 1)) if runs["has_older"] else None,
        "detection_statuses": [
            *describe_metric_detection(list_detection_statuses(row.id), metric),
            *describe_small_steps(line.small_steps),
            *filter(None, map(describe_drift, changes)),
        ],
        "detected_metric": find_detected_metric(
            metric.name, list_judged_metrics(has_one_block_size=row.workload.block_size_bytes is not None)
        ),
        "level_changes": make_change_lines(changes),
        "latency": make_latency_figures(row, asked, base_url=make_base_url(request)),
        "panel": make_request_panel(
            request,
            RequestFilter(series_id=row.id),
            find_runs=lambda: [row.latest.run_id] if row.latest else [],
        ),
        "here": request.get_full_path(),
    }


def _match_surface(row: SeriesRow) -> Filter:
    """Return the filter of the pattern and block size of a series on its host or pool."""
    kind, _, name = row.scope.partition(":")
    values: dict[str, Any] = {
        kind: name,
        "pattern": name_pattern(row.workload.rw, row.direction),
        "block_size_bytes": row.workload.block_size_bytes,
    }
    tests = {
        name: Test("unknown") if value is None else Test("=", (value,)) for name, value in values.items()
    }
    return Filter(tuple(Term(name, (test,)) for name, test in tests.items()), ())


def _describe_mixing(row: SeriesRow) -> str:
    """Return which targets the newest run mixes, or the runs over time, with the remedy; "" if none do."""
    if SEVERAL_TARGETS not in row.badges:
        disks = list_alternating_disks(row.id)
        names = f"Runs go back and forth between disks of one name: {', '.join(disks)}."
        return f"{names} {BADGES[SEVERAL_TARGETS].advice}" if disks else ""
    newest = Measurement.objects.filter(series=row.id).order_by("-started_at", "-id")[:1]
    badges = (badge for found in newest for badge in make_badges(found.badges))
    sentences = [badge.sentence for badge in badges if badge.code == SEVERAL_TARGETS]
    return " ".join([*sentences, BADGES[SEVERAL_TARGETS].advice])


def _make_figure(
    request: HttpRequest,
    asked: HistoryRequest,
    chosen: ChosenSeries,
    bar: FilterBar,
    *,
    histories: tuple[SeriesHistory, SeriesHistory],
    **more: Any,
) -> HistoryFigure:
    """Return the figure; of one series with its limit, references and time zone."""
    more |= {
        "file_name": f"history-{asked.metric.name}",
        "has_several": len(chosen.rows) > 1,
        "linear_url": keep_query(request.GET, scale=None, page=None),
        "log_url": keep_query(request.GET, scale="log", page=None),
        "linked_url": keep_query(request.GET, panels="one" if asked.is_linked else None, page=None),
    }
    if len(chosen.rows) == 1:
        (row,) = chosen.rows
        more |= {
            "file_name": f"series-{row.id}-{asked.metric.name}",
            "limit": find_limit(row.profile, asked.metric.name),
            "references": list_references(find_references(row.profile, asked.metric.name, row.direction)),
            "host_zone": read_time_zone(row.latest.run_id) if row.latest else "",
        }
    return make_history_figure(
        asked,
        chosen,
        histories,
        choice=write_series_query(asked, write_filter(bar.read)),
        base_url=make_base_url(request),
        **more,
    )


def _read_mark(series_id: int, metric: str | None) -> SeriesMark | None:
    return read_series_marks([series_id], metric=metric).get(series_id)


def _list_metrics(rows: Sequence[SeriesRow]) -> list[Metric]:
    """Return the available metrics, default first; workloads that are timed as a whole have the elapsed time alone."""
    timed = {row.latest is not None and row.latest.elapsed_s is not None for row in rows} or {False}
    return [metric for metric in CATALOG.values() if (metric.name == "elapsed_s") in timed]


def _choose_metric(rows: Sequence[SeriesRow], metrics: Sequence[Metric]) -> Metric:
    """Return the default metric: of one series that of its open incident, the first one if several are open."""
    if len(rows) != 1:
        return metrics[0]
    mark = _read_mark(rows[0].id, None)
    name = mark.metric if mark is not None and mark.state == "open" else ""
    return next((metric for metric in metrics if metric.name == name), metrics[0])


def _link_metrics(
    request: HttpRequest, chosen: Metric, metrics: Sequence[Metric]
) -> list[tuple[str, list[_Link]]]:
    """Return the metrics to choose from, throughput and latency, each as (label, URL, is selected)."""
    links: dict[str, list[_Link]] = {}
    for metric in metrics:
        group = "Latency" if metric.name.startswith("latency_") else "Metric"
        url = keep_query(request.GET, metric=metric.name, page=None)
        links.setdefault(group, []).append((metric.short, url, metric is chosen))
    return list(links.items())


def _describe_scope(chosen: ChosenSeries, asked: HistoryRequest, bar: FilterBar) -> str:
    """Return which series are shown: "db-09 · 4k random read …"; "12 of 14 series, most recent runs first"."""
    if len(chosen.rows) == 1:
        (row,) = chosen.rows
        return f"{row.scope_name} · {row.title}"
    count = f"{len(chosen.rows)} series"
    if chosen.left_out:
        more = "more than " if chosen.has_more else ""
        order = "worst first" if chosen.worse else "most recent runs first"
        count = f"{len(chosen.rows)} of {more}{chosen.total} series, {order}"
    filter = "" if asked.ids is not None else describe_filter(bar.filter)
    return f"{count} · {filter}" if filter else count


def _name_range(asked: HistoryRequest, bar: FilterBar) -> str:
    """Return the time range in words: "last 90 days", "all time"."""
    if not asked.bounds:
        return "all time"
    presets = bar.time_range.presets if bar.time_range else ()
    preset = next((text for text, _, is_chosen in presets if is_chosen), "")
    return f"last {preset}" if preset else describe_bounds(asked.from_at, asked.to_at)


def _describe_left_out(chosen: ChosenSeries, history: SeriesHistory) -> list[str]:
    """Return sentences about series without a place in the chart, and runs that the filter hides."""
    sentences = []
    began = min((row.first_at for row in chosen.rows), default=None)
    if history.from_at is not None and began is not None and began > history.from_at:
        sentences.append(f"The chart begins with the first run, {format_moment(began)}.")
    if chosen.left_out:
        sentences.append(f"A chart has at most {LINES_MAXIMUM} series. Narrow the filter to see the others.")
    if history.hidden:
        sentences.append(
            f"{format_count(history.run_count, 'run')} with these facts of the environment shown,"
            f" {format_count(history.hidden, 'other')} hidden; levels include all runs."
        )
    return sentences


def _write_study_query(asked: HistoryRequest, chosen: ChosenSeries, filter: Filter) -> str:
    """Return the query of the chart; without ids and filter, the ids of the displayed series."""
    ids = asked.ids or (() if asks_for_series(filter) else tuple(row.id for row in chosen.rows))
    return write_chart_query(asked, ids=ids, text=write_filter(filter))
