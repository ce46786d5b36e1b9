"""Links and hidden fields above a history chart: metric, time range, scale, panels."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpRequest

from benchapp.catalog.dimensions import DIMENSIONS, FACT_NAMES
from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.charts.pages.history.request import HistoryRequest
from benchapp.framework.pages.filter_forms import keep_query
from benchapp.framework.pages.time_range import describe_bounds, make_time_range
from benchapp.series.read.series import SeriesRow

# Parameters that a change of the time range retains.
_RETAINED: Final = ("series", "q", "metric", "scale", "tz", "panels")
_Link = tuple[str, str, bool]


def make_controls(request: HttpRequest, asked: HistoryRequest, metrics: Sequence[Metric]) -> dict[str, Any]:
    """Return the context of `_history_switches.html`. metrics: the available ones."""
    return {
        "metrics": _list_metric_links(request, asked.metric, metrics),
        "time_range": make_time_range(request.GET),
        "retained": [(name, request.GET[name]) for name in _RETAINED if request.GET.get(name)],
        "colors": [(name, DIMENSIONS[name].label, name == asked.color) for name in FACT_NAMES],
        "history_request": asked,
    }


def describe_empty_range(asked: HistoryRequest, *, run_count: int) -> str:
    """Return the time range in words if it has no run; else ""."""
    return "" if run_count else describe_bounds(asked.from_at, asked.to_at)


def list_switches(request: HttpRequest, asked: HistoryRequest) -> dict[str, str]:
    """Return the links of the chart that change scale and number of panels, as fields of `HistoryFigure`."""
    return {
        "linear_url": keep_query(request.GET, scale=None, after=None),
        "log_url": keep_query(request.GET, scale="log", after=None),
        "linked_url": keep_query(request.GET, panels="one" if asked.is_linked else None, after=None),
    }


def list_series_metrics(row: SeriesRow) -> list[Metric]:
    """Return the available metrics of one series, default first."""
    return [metric for metric in CATALOG.values() if (metric.name == "elapsed_s") == _is_timed(row)]


def list_common_metrics(rows: Sequence[SeriesRow]) -> list[Metric]:
    """Return the available metrics of several series; elapsed time only if any of them is timed as a whole."""
    has_timed = any(map(_is_timed, rows))
    return [metric for metric in CATALOG.values() if has_timed or metric.name != "elapsed_s"]


def _is_timed(row: SeriesRow) -> bool:
    """Return whether the workload is timed as a whole; its only metric is then the elapsed time."""
    return row.latest is not None and row.latest.elapsed_s is not None


def _list_metric_links(
    request: HttpRequest, chosen: Metric, metrics: Sequence[Metric]
) -> list[tuple[str, list[_Link]]]:
    """Return the metric selector: throughput and latency, each as (label, URL, is selected)."""
    links: dict[str, list[_Link]] = {}
    for metric in metrics:
        group = "Latency" if metric.name.startswith("latency_") else "Metric"
        url = keep_query(request.GET, metric=metric.name, after=None)
        links.setdefault(group, []).append((metric.short, url, metric is chosen))
    return list(links.items())
