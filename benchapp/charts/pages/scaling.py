"""The scaling page: one metric by volumes, stripes, sizes or queue depth."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.catalog.dimensions import CONDITIONS, DIMENSIONS
from benchapp.catalog.grammar import Filter, write_filter, write_value
from benchapp.catalog.metrics import format_count, format_integer, lower_label
from benchapp.charts.pages.matrix import SURFACE, link_surface
from benchapp.charts.pages.scaling_figure import (
    PATH,
    apply_fixed,
    describe_problem,
    link_chart,
    make_scaling_figure,
    read_request,
)
from benchapp.charts.read.axes import GROUP, GROUPS_MAXIMUM, PARTS_MAXIMUM, add_axis_value, split_axis
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_defaults import FixedDimension, add_fixed_terms
from benchapp.charts.read.scaling_shapes import (
    METRICS_MAXIMUM,
    NONE,
    OPTIONS,
    SCALING_METRICS,
    THROUGHPUTS,
    ScalingChart,
    ScalingMetric,
    ScalingRequest,
)
from benchapp.charts.texts.levels import describe_choice, describe_level_range, describe_values
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import list_first_steps
from benchapp.framework.pages.filter_bar import (
    explain_empty,
    group_dimensions,
    link_choices,
    make_filter_bar,
    refuse_address,
    settle_filter,
)
from benchapp.framework.pages.page_context import make_base_url
from benchapp.layouts.pages.layouts import show_next_runs
from benchapp.layouts.read.next_runs import can_plan_scaling_runs, plan_scaling_runs
from benchapp.layouts.texts import NOTHING_MISSING
from benchapp.models import SAMPLE_HOST
from benchapp.series.read.dimension_values import has_series
from benchapp.series.read.titles import describe_value

_DIMENSIONS: Final = [(name, dimension.label) for name, dimension in DIMENSIONS.items()]
_CONDITIONS: Final = [(name, dimension.label) for name, dimension in CONDITIONS.items()]
_MORE: Final = [(f",{name}", label) for name, label in _DIMENSIONS]
_GROUPS: Final = [(GROUP, "Group")]
# Charts that are often needed: text, parameters.
_COMMON_CHARTS: Final = (
    ("Volumes", {"x": "volume_count"}),
    ("Stripes by volume type", {"x": "stripe_count", "color": "volume_type"}),
    ("Layouts side by side", {"x": "volume_size_bytes,volume_type"}),
    ("File size", {"x": "file_size_bytes"}),
    ("Latency over IOPS by queue depth", {"x": "iodepth", "metric": "latency_mean_ns", "over": "iops"}),
    ("Bandwidth by extents of the file", {"x": "extents"}),
)
# Of what is combined with the first.
_ORDINALS: Final = ("Second", "Third")
# (value, label, is chosen) of one choice.
_Option = tuple[str, str, bool]


@require_safe
@may_read
def scaling(request: HttpRequest) -> HttpResponse:
    """Show one metric over one dimension; axes and fixed dimensions that the address does not name are chosen."""
    address = apply_fixed(request.GET)
    if address is not None:
        return HttpResponseRedirect(f"{PATH}?{address.urlencode(safe=':,/*')}")
    names_sample = any(SAMPLE_HOST in text for text in request.GET.getlist("group"))
    bar = make_filter_bar(
        request,
        fields="charts/scaling/_scaling_fields.html",
        has_metric=True,
        leaves_out_sample=not names_sample,
    )
    asked, errors = read_request(request.GET, bar.read)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    try:
        chart = read_scaling(asked)
    except BadChart as problem:
        return refuse_address(request, [describe_problem(problem)], bar=bar)
    base_url = make_base_url(request)
    figure = make_scaling_figure(chart, key="cell", base_url=base_url)
    can_plan = can_plan_scaling_runs(chart)
    has_next_runs = request.GET.get("next_runs") == "1" and can_plan
    context = {
        "bar": bar,
        "figure": figure,
        "chart": chart,
        "title": figure.title,
        "range": describe_level_range(asked.span),
        "canonical_url": f"{base_url}{figure.url}",
        "fields": make_fields(chart),
        "options": [field for name in OPTIONS if (field := make_option_field(asked, name))["option"].label],
        "combined": make_combined_fields(chart),
        "common_charts": _link_common_charts(bar.text),
        "groups_url": _link_groups(chart),
        "next": show_next_runs(plan_scaling_runs(chart), nothing=NOTHING_MISSING) if has_next_runs else None,
        "surface_url": _link_surface(chart),
        "next_url": f"{link_chart(chart, next_runs='1')}#next-runs" if can_plan else "",
        "groups_maximum": GROUPS_MAXIMUM,
        "has_more": _has_more(asked),
        "pickers": _make_pickers(chart, request.GET),
        "asked": asked,
        "shown_of": _count_shown(chart),
        "all_url": _link_all(chart),
        "predicted": ",".join(map(str, asked.predicted)),
        "excluded": explain_empty(bar, has_series) if chart.is_empty else (),
        "steps": list_first_steps(base_url) if _has_nothing(chart) else None,
    }
    return render(request, "charts/scaling/scaling.html", context)


def _make_pickers(chart: ScalingChart, query: QueryDict) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """Return the words of the line of controls: what is said before each, the word, and its grouped choices."""
    varying = _find_varying(chart)
    groups = [("", [(GROUP, "Group")])] if chart.groups else []

    def link(
        name: str, grouped: Sequence[tuple[str, Sequence[tuple[str, str]]]], chosen: str
    ) -> list[tuple[str, Any]]:
        return [
            (
                heading,
                link_choices(query, name, [(value, label, value == chosen) for value, label in members]),
            )
            for heading, members in grouped
        ]

    metrics = [("", [(name, metric.label) for name, metric in SCALING_METRICS.items()])]
    named = group_dimensions((*DIMENSIONS, *CONDITIONS), varying=varying)
    colors = [("", [(NONE, "None")]), *group_dimensions(DIMENSIONS, varying=varying)]
    label = " and ".join([chart.metric.label, *(lower_label(each.metric.label) for each in chart.more)])
    words = [
        ("", label, link("metric", metrics, chart.metric.name)),
        ("over", lower_label(chart.x.dimension.label), link("x", [*groups, *named], chart.x.name)),
        (
            "by",
            lower_label(chart.color.dimension.label) if chart.color else "one color",
            link("color", [*groups, *colors], chart.color.name if chart.color else NONE),
        ),
    ]
    if chart.facet:
        facets = [("", [(NONE, "None")]), *group_dimensions(DIMENSIONS, varying=varying)]
        words.append(
            (
                "in panels by",
                lower_label(chart.facet.dimension.label),
                link("facet", facets, chart.facet.name),
            )
        )
    for fixed in chart.fixed:
        choices = [("", link_choices(query, "fix", _make_fixed(fixed, chart.metric)))]
        words.append(("·", describe_values(fixed.dimension, fixed.values), choices))
    return words


def _count_shown(chart: ScalingChart) -> str:
    """Return how many series the chart shows of how many: "192 of 920 series"; "" if all."""
    shown, left_out = chart.counts.shown, chart.counts.left_out
    return f"{format_integer(shown)} of {format_count(shown + left_out, 'series')}" if left_out else ""


def _link_all(chart: ScalingChart) -> str:
    """Return the link that fixes nothing, so that values are medians over more series; "" if nothing is fixed."""
    query = write_filter(chart.request.filter) or None
    return link_chart(chart, q=query, any="*") if chart.fixed else ""


def _link_surface(chart: ScalingChart) -> str:
    """Return the address of the matrix over queue depth and jobs; "" unless both vary."""
    if not _find_varying(chart) >= set(SURFACE):
        return ""
    others = [each for each in chart.fixed if each.dimension not in SURFACE]
    filter = add_fixed_terms(chart.request.filter, others)
    return link_surface(filter, chart.metric.base, **dict(chart.request.bounds))


def _find_varying(chart: ScalingChart) -> set[str]:
    """Return the dimensions that vary: those of the axes, and those that were fixed because they do."""
    axes = [axis for axis in (chart.x, chart.color, chart.facet) if axis]
    return {name for axis in axes for name in split_axis(axis.name)} | {
        each.dimension for each in chart.fixed
    }


def _link_common_charts(text: str) -> list[tuple[str, str]]:
    """Return text and link of each common chart, with the filter of the page."""
    filter = {"q": text} if text else {}
    return [(name, f"?{urlencode(filter | query, safe=':,/*')}") for name, query in _COMMON_CHARTS]


def _has_more(asked: ScalingRequest) -> bool:
    """Return whether a field behind "More" is set; the page has a button for the scale."""
    shown = (name for name, each in OPTIONS.items() if each.label and name != "scale")
    options = (getattr(asked, name) for name in shown)
    axes = (asked.over, asked.facet not in (None, NONE))
    return any((*options, *axes, asked.limits, asked.targets, asked.groups))


def _has_nothing(chart: ScalingChart) -> bool:
    """Return whether this server has no measurements, rather than none that match."""
    counts, request = chart.counts, chart.request
    return (
        chart.is_empty
        and request.span.is_open
        and not (request.filter.terms or request.filter.words or counts.failed or counts.unvalued)
    )


def make_option_field(asked: ScalingRequest, name: str) -> dict[str, Any]:
    """Return the field of an option by the name of its field of the request."""
    option, value = OPTIONS[name], getattr(asked, name)
    choices = _offer(option.offers, value or "", is_open=False) if option.kind == "choice" else []
    return {
        "option": option,
        "value": value,
        "choices": choices,
    }


def make_fields(chart: ScalingChart) -> dict[str, list[_Option]]:
    """Return the options of each field; a value that was chosen automatically is submitted as empty."""
    asked = chart.request
    dimensions = [*_GROUPS[: len(asked.groups)], *_DIMENSIONS]
    metrics = [(name, metric.label) for name, metric in SCALING_METRICS.items()]
    throughputs = [(name, SCALING_METRICS[name].label) for name in THROUGHPUTS]
    none = (NONE, "None")
    color = chart.color.name if chart.color else NONE
    facet = chart.facet.name if chart.facet else NONE
    over = chart.over.name if chart.over and not chart.is_by_condition else ""
    return {
        "metric": _offer(metrics, chart.metric.name, is_open=_is_open(asked.metric)),
        "x": _offer([*dimensions, *_CONDITIONS], split_axis(chart.x.name)[0], is_open=_is_open(asked.x)),
        "color": _offer([none, *dimensions], split_axis(color)[0], is_open=_is_open(asked.color)),
        "facet": _offer([none, *dimensions], facet, is_open=facet == NONE),
        "over": _offer([("", "X axis"), *throughputs], over, is_open=False)
        if chart.metric.unit == "ns" and not chart.is_by_condition
        else [],
    }


def make_combined_fields(chart: ScalingChart) -> list[dict[str, Any]]:
    """Return the fields of further metrics, and dimensions of x and color: those combined now, and one more."""
    names = [each.metric.name for each in chart.more]
    room = METRICS_MAXIMUM - 1 - len(names) if chart.over is None else 0
    metrics = [("", "None"), *((f",{name}", metric.label) for name, metric in SCALING_METRICS.items())]
    fields = [
        {
            "name": "metric",
            "key": f"metric-{place}",
            "label": f"{_ORDINALS[place]} metric",
            "options": _offer(metrics, name and f",{name}", is_open=False),
            "is_used": bool(name),
        }
        for place, name in enumerate([*names, *[""] * min(room, 1)])
    ]
    for parameter, title, axis in (("x", "x dimension", chart.x), ("color", "color dimension", chart.color)):
        others = split_axis(axis.name)[1:] if axis else ()
        room = (
            0
            if axis is None or axis.name == GROUP or axis.name in CONDITIONS
            else PARTS_MAXIMUM - 1 - len(others)
        )
        for place, name in enumerate([*others, *[""] * min(room, 1)]):
            options = _offer([("", "None"), *_MORE], name and f",{name}", is_open=False)
            fields.append(
                {
                    "name": parameter,
                    "key": f"{parameter}-{place}",
                    "label": f"{_ORDINALS[place]} {title}",
                    "options": options,
                    "is_used": bool(name),
                }
            )
    return fields


def _link_groups(chart: ScalingChart) -> str:
    """Return the link that makes a group of each value of x; "" if x has groups, or too many values."""
    if (
        chart.x.name == GROUP
        or chart.is_by_condition
        or not 0 < len(chart.x.values) <= GROUPS_MAXIMUM
        or chart.groups
    ):
        return ""
    groups = [
        f"{setting} = {write_filter(add_axis_value(Filter(), chart.x.name, value))}"
        for setting, value in zip(chart.x.settings, chart.x.values, strict=True)
    ]
    return f"{link_chart(chart, x=GROUP)}&{urlencode({'group': groups}, doseq=True, safe=':,/*')}"


def _is_open(axis: str | None) -> bool:
    """Return whether the first dimension of an axis is automatic."""
    return axis is None or axis.startswith(",")


def _offer(choices: Sequence[tuple[str, str]], chosen: str, *, is_open: bool) -> list[_Option]:
    return [("" if is_open and name == chosen else name, label, name == chosen) for name, label in choices]


def _make_fixed(fixed: FixedDimension, metric: ScalingMetric) -> list[_Option]:
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
    return [*options, (f"{fixed.dimension}:*", "any", False)]


@require_safe
def redirect_dependence(request: HttpRequest) -> HttpResponse:
    """Redirect an address of before conditions were an axis of Scaling: `condition` is `x`."""
    query = request.GET.copy()
    query["x"] = (query.pop("condition", [""])[-1]) or "extents"
    return HttpResponseRedirect(f"{PATH}?{query.urlencode(safe=':,/*')}", status=301)
