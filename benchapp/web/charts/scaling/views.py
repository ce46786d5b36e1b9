"""The scaling page: one metric by volumes, stripes, sizes or queue depth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.charts.texts.fixed import describe_choice
from benchapp.charts.texts.level_range import describe_level_range
from benchapp.charts.texts.next_runs import NOTHING_MISSING
from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Filter, write_filter, write_value
from benchapp.queries.charts.axes import GROUP, GROUPS_MAXIMUM, PARTS_MAXIMUM, add_axis_value, split_axis
from benchapp.queries.charts.scaling import NONE, BadChart, ScalingChart, read_scaling
from benchapp.queries.charts.scaling_defaults import FixedDimension
from benchapp.queries.charts.scaling_shapes import (
    METRICS_MAXIMUM,
    SCALING_METRICS,
    THROUGHPUTS,
    ScalingMetric,
)
from benchapp.queries.exclusions import has_series
from benchapp.queries.layouts.gap_runs import can_plan_scaling_runs, plan_scaling_runs
from benchapp.queries.titles import describe_value
from benchapp.web.charts.scaling.figure import make_scaling_figure
from benchapp.web.charts.scaling.request import (
    PATH,
    ScalingForm,
    apply_fixed,
    describe_problem,
    link_chart,
    read_asked,
)
from benchapp.web.layouts.next_runs import show_next_runs
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import list_first_steps
from benchapp.web.site.filter_bar import explain_empty, make_filter_bar, refuse_address, settle_filter
from benchapp.web.site.page_context import make_base_url

_DIMENSIONS: Final = [(name, dimension.label) for name, dimension in DIMENSIONS.items()]
_MORE: Final = [(f",{name}", label) for name, label in _DIMENSIONS]
_GROUPS: Final = [(GROUP, "Group")]
# Charts that are often needed: text, parameters.
_COMMON_CHARTS: Final = (
    ("Volumes", {"x": "volume_count"}),
    ("Stripes by volume type", {"x": "stripe_count", "color": "volume_type"}),
    ("Layouts side by side", {"x": "volume_size_bytes,volume_type"}),
    ("File size", {"x": "file_size_bytes"}),
    ("Latency over IOPS by queue depth", {"x": "iodepth", "metric": "latency_mean_ns", "over": "iops"}),
)
# (value, label, is chosen) of one choice.
_Option = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class FixedField:
    """A fixed dimension and the values that it could be fixed at."""

    name: str
    label: str
    options: tuple[_Option, ...]


@dataclass(frozen=True, slots=True)
class CombinedField:
    """A further dimension of an axis. name: of its parameter; key: unique on the page; is_used: it has a dimension."""

    name: str
    key: str
    label: str
    options: list[_Option]
    is_used: bool


@require_safe
@may_read
def scaling(request: HttpRequest) -> HttpResponse:
    """Show one metric over one dimension; axes and fixed dimensions that the address does not name are chosen."""
    address = apply_fixed(request.GET)
    if address is not None:
        return HttpResponseRedirect(f"{PATH}?{address.urlencode(safe=':,/*')}")
    bar = make_filter_bar(
        request, fields="charts/scaling/_scaling_fields.html", has_metric=True, has_time_range=True
    )
    asked, errors = read_asked(request.GET, bar.filter)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    try:
        chart = read_scaling(asked)
    except BadChart as problem:
        return refuse_address(request, [describe_problem(problem)], bar=bar)
    base_url = make_base_url(request)
    figure = make_scaling_figure(asked, chart, key="cell", base_url=base_url)
    can_plan = can_plan_scaling_runs(chart)
    has_next_runs = request.GET.get("next_runs") == "1" and can_plan
    context = {
        "bar": bar,
        "figure": figure,
        "chart": chart,
        "title": figure.title,
        "range": describe_level_range(chart.span),
        "canonical_url": f"{base_url}{figure.url}",
        "fields": make_fields(asked, chart),
        "combined": make_combined_fields(chart),
        "common_charts": _link_common_charts(bar.text),
        "groups_url": _link_groups(asked, chart),
        "next": show_next_runs(plan_scaling_runs(chart), nothing=NOTHING_MISSING) if has_next_runs else None,
        "next_url": f"{link_chart(asked, chart, next_runs='1')}#next-runs" if can_plan else "",
        "has_group_error": any(field.error for field in asked.group_fields),
        "groups_maximum": GROUPS_MAXIMUM,
        "kept": [(name, value) for name, values in request.GET.lists() for value in values if name != "fix"],
        "has_more": _has_more(asked),
        "fixed": [_make_fixed(fixed, chart.metric) for fixed in chart.fixed],
        "asked": asked,
        "predicted": ",".join(map(str, asked.predicted)),
        "excluded": explain_empty(bar, has_series) if chart.is_empty else (),
        "steps": list_first_steps(base_url) if _has_nothing(asked, chart) else None,
    }
    return render(request, "charts/scaling/scaling.html", context)


def _link_common_charts(text: str) -> list[tuple[str, str]]:
    """Return text and link of each common chart, with the filter of the page."""
    filter = {"q": text} if text else {}
    return [(name, f"?{urlencode(filter | query, safe=':,/*')}") for name, query in _COMMON_CHARTS]


def _has_more(asked: ScalingForm) -> bool:
    """Return whether a chart option is set."""
    return any(
        (
            asked.compare_days,
            asked.draw,
            asked.is_ideal,
            asked.has_runs,
            asked.has_models,
            asked.limits,
            asked.targets,
        )
    )


def _has_nothing(asked: ScalingForm, chart: ScalingChart) -> bool:
    """Return whether this server has no measurements, rather than none that match."""
    counts = chart.counts
    return (
        chart.is_empty
        and chart.span.is_open
        and not (asked.filter.terms or asked.filter.words or counts.failed or counts.unvalued)
    )


def make_fields(asked: ScalingForm, chart: ScalingChart) -> dict[str, list[_Option]]:
    """Return the options of each field; a value that was chosen automatically is submitted as empty."""
    dimensions = [*_GROUPS[: len(asked.group_fields)], *_DIMENSIONS]
    metrics = [(name, metric.label) for name, metric in SCALING_METRICS.items()]
    throughputs = [(name, SCALING_METRICS[name].label) for name in THROUGHPUTS]
    none = (NONE, "None")
    color = chart.color.name if chart.color else NONE
    facet = chart.facet.name if chart.facet else NONE
    over = chart.over.name if chart.over else NONE
    return {
        "metric": _offer(metrics, chart.metric.name, is_open=_is_open(asked.metric)),
        "x": _offer(dimensions, split_axis(chart.x.name)[0], is_open=_is_open(asked.x)),
        "color": _offer([none, *dimensions], split_axis(color)[0], is_open=_is_open(asked.color)),
        "facet": _offer([none, *dimensions], facet, is_open=facet == NONE),
        "over": _offer([none, *throughputs], over, is_open=over == NONE) if chart.metric.unit == "ns" else [],
        "draw": _offer([("", "Auto"), ("bars", "Bars"), ("lines", "Lines")], asked.draw or "", is_open=False),
        "scale": _offer([("", "Linear"), ("log", "Log")], "log" if asked.is_log else "", is_open=False),
    }


def make_combined_fields(chart: ScalingChart) -> list[CombinedField]:
    """Return the fields of further metrics, and dimensions of x and color: those combined now, and one more."""
    names = [each.metric.name for each in chart.more]
    room = METRICS_MAXIMUM - 1 - len(names) if chart.over is None else 0
    metrics = [("", "None"), *((f",{name}", metric.label) for name, metric in SCALING_METRICS.items())]
    fields = [
        CombinedField(
            "metric",
            f"metric-{place}",
            "Metric, and",
            _offer(metrics, name and f",{name}", is_open=False),
            bool(name),
        )
        for place, name in enumerate([*names, *[""] * min(room, 1)])
    ]
    for parameter, title, axis in (("x", "X axis", chart.x), ("color", "Color", chart.color)):
        others = split_axis(axis.name)[1:] if axis else ()
        room = 0 if axis is None or axis.name == GROUP else PARTS_MAXIMUM - 1 - len(others)
        for place, name in enumerate([*others, *[""] * min(room, 1)]):
            options = _offer([("", "None"), *_MORE], name and f",{name}", is_open=False)
            fields.append(
                CombinedField(parameter, f"{parameter}-{place}", f"{title}, and", options, bool(name))
            )
    return fields


def _link_groups(asked: ScalingForm, chart: ScalingChart) -> str:
    """Return the link that makes a group of each value of x; "" if x has groups, or too many values."""
    if chart.x.name == GROUP or not 0 < len(chart.x.values) <= GROUPS_MAXIMUM or chart.groups:
        return ""
    groups = [
        f"{setting} = {write_filter(add_axis_value(Filter(), chart.x.name, value))}"
        for setting, value in zip(chart.x.settings, chart.x.values, strict=True)
    ]
    return f"{link_chart(asked, chart, x=GROUP)}&{urlencode({'group': groups}, doseq=True, safe=':,/*')}"


def _is_open(axis: str | None) -> bool:
    """Return whether the first dimension of an axis is automatic."""
    return axis is None or axis.startswith(",")


def _offer(choices: Sequence[tuple[str, str]], chosen: str, *, is_open: bool) -> list[_Option]:
    return [("" if is_open and name == chosen else name, label, name == chosen) for name, label in choices]


def _make_fixed(fixed: FixedDimension, metric: ScalingMetric) -> FixedField:
    dimension = DIMENSIONS[fixed.dimension]
    options = [
        (
            ""
            if fixed.values == (choice.value,)
            else f"{fixed.dimension}:{write_value(dimension, choice.value)}",
            describe_choice(fixed.dimension, choice, metric),
            fixed.values == (choice.value,),
        )
        for choice in fixed.choices
    ]
    if len(fixed.values) > 1:
        several = ", ".join(describe_value(fixed.dimension, value) for value in fixed.values)
        options.insert(0, ("", several, True))
    return FixedField(fixed.dimension, dimension.label, (*options, (f"{fixed.dimension}:*", "any", False)))
