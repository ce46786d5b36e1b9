"""The page of a metric by a condition of the runs: scatter plots, slopes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe
from numpy.typing import NDArray

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import (
    CATALOG,
    UNKNOWN,
    Metric,
    format_count,
    format_percent,
    format_signed_percent,
    format_three_digits,
    format_value,
)
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import FilterTextField
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.time_range import describe_bounds, make_time_range, read_time_range
from benchapp.series.read.dependence import (
    CONDITIONS,
    ROUND_TRIP,
    BadDependence,
    Condition,
    DependenceRow,
    read_dependence,
)
from benchapp.series.rules import DEPENDENCE_FROM, DEPENDENCE_POINTS_MAXIMUM

# Of a scatter plot, in units of its drawing, and the room for the texts of its axes.
_WIDTH: Final = 560
_HEIGHT: Final = 260
_LEFT: Final = 78
_BOTTOM: Final = 40
_TOP: Final = 10
_RIGHT: Final = 24
_NS_PER_S: Final = 1e9
_MIB: Final = 2**20


class DependenceForm(forms.Form):
    """Filter, metric and condition."""

    q = FilterTextField()
    metric = forms.ChoiceField(
        required=False,
        choices=[(name, metric.label) for name, metric in CATALOG.items()],
        error_messages={"invalid_choice": f"Metric: choose one of {', '.join(CATALOG)}."},
    )
    condition = forms.ChoiceField(
        required=False,
        choices=[(name, condition.label) for name, condition in CONDITIONS.items()],
        error_messages={"invalid_choice": f"Condition: choose one of {', '.join(CONDITIONS)}."},
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from low to high at places from start to end of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


@require_safe
@may_read
def dependence(request: HttpRequest) -> HttpResponse:
    """Show a metric by a condition: a scatter plot with slope for each series of a filter."""
    form = DependenceForm(request.GET)
    form.is_valid()
    errors = [str(message) for messages in form.errors.values() for message in messages]
    asked_range = read_time_range(request.GET, errors)
    values = form.cleaned_data
    condition = CONDITIONS[values.get("condition") or "extents"]
    usual = "latency_mean_ns" if condition.name == ROUND_TRIP else "bandwidth_bytes_per_s"
    metric = CATALOG[values.get("metric") or usual]
    rows: Sequence[DependenceRow] = ()
    needs_filter = False
    if not errors:
        try:
            rows = read_dependence(
                values["q"],
                metric=metric.name,
                condition=condition.name,
                from_at=asked_range.from_at,
                to_at=asked_range.to_at,
            )
        except BadDependence as error:
            # Without a filter nothing was asked for yet.
            needs_filter = values["q"] == Filter()
            errors += [] if needs_filter else [f"{error}."]
    asked = {"q": request.GET.get("q", ""), "metric": metric.name, "condition": condition.name}
    address = f"{reverse('api_dependence')}?{urlencode(asked | asked_range.bounds, safe=':,/*')}"
    context: dict[str, Any] = {
        "title": f"{metric.label} by {condition.label[0].lower()}{condition.label[1:]}",
        "typed": asked,
        "metrics": CATALOG.values(),
        "conditions": CONDITIONS.values(),
        "metric": metric,
        "condition": condition,
        "errors": errors,
        "needs_filter": needs_filter,
        "range": make_time_range(request.GET),
        "range_query": asked_range.query,
        "range_text": describe_bounds(asked_range.from_at, asked_range.to_at),
        "scatters": [make_scatter(row, metric, condition) for row in rows],
        "size": {"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "bottom": _HEIGHT - _BOTTOM},
        "csv_url": f"{address}&format=csv",
        "api_line": format_curl_command(f"{make_base_url(request)}{address}"),
        "points_maximum": DEPENDENCE_POINTS_MAXIMUM,
    }
    return render(request, "series/runs/dependence.html", context, status=400 if errors else 200)


def make_scatter(row: DependenceRow, metric: Metric, condition: Condition) -> dict[str, Any]:
    """Return the plot and the texts of one series."""
    is_bounded = row.below_round_trip is not None
    bounds = row.x * _NS_PER_S if is_bounded else row.y
    across = _make_axis(row.x, _LEFT, _WIDTH - _RIGHT)
    up = _make_axis(np.concatenate((row.y, bounds)), _HEIGHT - _BOTTOM, _TOP)
    fit = row.fit
    ends = (float(row.x.min()), float(row.x.max()))
    return {
        "row": row,
        "finding": _describe_finding(row, metric, condition),
        "slope": _describe_slope(fit.slope, metric, condition) if fit else UNKNOWN,
        "interval": " to ".join(_describe_slope(each, metric, condition) for each in (fit.low, fit.high))
        if fit
        else UNKNOWN,
        "tau": f"{fit.tau:+.2f}".replace("-", "−") if fit else UNKNOWN,
        "p": UNKNOWN if not fit else "<0.001" if fit.p < 0.001 else f"{fit.p:.3f}",
        "points": [
            {
                "x": across.place(x),
                "y": up.place(y),
                "text": f"{_format_condition(x, condition)}: {format_value(y, metric.unit)}",
            }
            for x, y in zip(row.x.tolist(), row.y.tolist(), strict=True)
        ],
        "x_ticks": [{"at": across.place(each), "text": _format_condition(each, condition)} for each in ends],
        "y_ticks": [
            {"at": up.place(each), "text": format_value(each, metric.unit)}
            for each in (float(row.y.min()), float(row.y.max()))
        ],
        "line": _make_line(across, up, ends, [fit.intercept + fit.slope * end for end in ends])
        if fit
        else None,
        "bound": _make_line(across, up, ends, [end * _NS_PER_S for end in ends]) if is_bounded else None,
    }


def _make_axis(values: NDArray[np.float64], start: float, end: float) -> _Axis:
    low, high = float(values.min()), float(values.max())
    # A single value is in the middle.
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return _Axis(low - room, high + room, start, end)


def _make_line(across: _Axis, up: _Axis, x: Sequence[float], y: Sequence[float]) -> dict[str, Any]:
    return {"x1": across.place(x[0]), "y1": up.place(y[0]), "x2": across.place(x[1]), "y2": up.place(y[1])}


def _describe_finding(row: DependenceRow, metric: Metric, condition: Condition) -> str:
    """Return what the fit says over the measured range."""
    runs = format_count(len(row.x), "run")
    if row.fit is None:
        few = f"fewer than {DEPENDENCE_FROM} runs" if len(row.x) < DEPENDENCE_FROM else "a single value"
        return f"No slope: {few}; {runs}."
    low, high = (_format_condition(float(end), condition) for end in (row.x.min(), row.x.max()))
    if not row.fit.is_significant:
        return f"No dependence found from {low} to {high}; {runs}, p {row.fit.p:.2f}."
    start = row.fit.intercept + row.fit.slope * float(row.x.min())
    change = row.fit.slope * float(np.ptp(row.x)) / start if start > 0 else None
    size = "" if change is None else f" {format_signed_percent(change)}"
    return f"{metric.label}{size} from {low} to {high}; {runs}."


def _describe_slope(slope: float, metric: Metric, condition: Condition) -> str:
    """Return a slope in a unit of the condition that is of the usual size."""
    if condition.unit == "s" and metric.unit == "ns":
        return f"{format_three_digits(slope / _NS_PER_S)} round trips".replace("-", "−")
    scale, unit = {
        "count": (1.0, "extent"),
        "bytes": (_MIB, "MiB"),
        "percent": (1.0, "percentage point"),
        "s": (0.001, "ms"),
    }[condition.unit]
    sign = "−" if slope < 0 else ""
    return f"{sign}{format_value(abs(slope) * scale, metric.unit)} per {unit}"


def _format_condition(value: float, condition: Condition) -> str:
    if condition.unit == "count":
        return format_count(round(value), "extent")
    if condition.unit == "percent":
        return format_percent(value / 100)
    # Short times have a suitable unit as latencies.
    return (
        format_value(value * _NS_PER_S, "ns")
        if condition.unit == "s"
        else format_value(value, condition.unit)
    )
