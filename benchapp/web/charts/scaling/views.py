"""How a metric moves with volumes, stripes, sizes and depth: the scaling page."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import write_value
from benchapp.queries.charts.scaling import NONE, ScalingChart
from benchapp.queries.charts.scaling_defaults import FixedDimension
from benchapp.queries.charts.scaling_shapes import SCALING_METRICS, THROUGHPUTS
from benchapp.queries.titles import describe_value
from benchapp.web.charts.scaling.figure import make_scaling_figure
from benchapp.web.charts.scaling.request import PATH, ScalingForm, move_held, read_asked, read_picture
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import say_first_steps
from benchapp.web.site.filter_bar import make_filter_bar
from benchapp.web.site.page_context import make_base_url

# (value, words, is chosen) of one choice.
_Option = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class HeldField:
    """A dimension that is held still, with what else could be shown of it."""

    name: str
    label: str
    options: tuple[_Option, ...]


@require_safe
@may_read
def scaling(request: HttpRequest) -> HttpResponse:
    """Show one metric over one dimension, with what was not asked for chosen and held still."""
    moved = move_held(request.GET)
    if moved is not None:
        return HttpResponseRedirect(f"{PATH}?{moved.urlencode(safe=':,/*')}")
    bar = make_filter_bar(request, fields="charts/scaling/_scaling_fields.html")
    asked, errors = read_asked(request.GET, bar.filter)
    picture = read_picture(asked, errors)
    base_url = make_base_url(request)
    figure = make_scaling_figure(asked, picture, key="cell", base_url=base_url, errors=errors)
    context = {
        "bar": bar,
        "figure": figure,
        "picture": picture,
        "title": figure.title,
        "errors": errors,
        "canonical_url": f"{base_url}{figure.url}",
        "fields": make_fields(asked, picture),
        "kept": [(name, value) for name, values in request.GET.lists() for value in values if name != "hold"],
        "has_more": bool(asked.as_of or asked.ghost_days or asked.draw or asked.is_ideal or asked.ceilings),
        "held": [_make_held(held) for held in picture.held],
        "asked": asked,
        "steps": say_first_steps(base_url) if _has_nothing(asked, picture) else None,
    }
    return render(request, "charts/scaling/scaling.html", context, status=400 if errors or bar.error else 200)


def _has_nothing(asked: ScalingForm, picture: ScalingChart) -> bool:
    """Say whether there is nothing on this server, rather than nothing that fits."""
    counts = picture.counts
    return picture.is_empty and not (
        asked.filter.terms or asked.filter.words or counts.failed or counts.unvalued
    )


def make_fields(asked: ScalingForm, picture: ScalingChart) -> dict[str, list[_Option]]:
    """Return the choices of each field; what was chosen by itself has no value, so that it stays open."""
    dimensions = [(name, dimension.label) for name, dimension in DIMENSIONS.items()]
    metrics = [(name, metric.label) for name, metric in SCALING_METRICS.items()]
    throughputs = [(name, SCALING_METRICS[name].label) for name in THROUGHPUTS]
    none = (NONE, "none")
    colour = picture.colour.dimension.name if picture.colour else NONE
    facet = picture.facet.dimension.name if picture.facet else NONE
    over = picture.over.name if picture.over else NONE
    return {
        "metric": _offer(metrics, picture.metric.name, is_open=asked.metric is None),
        "x": _offer(dimensions, picture.x.dimension.name, is_open=asked.x is None),
        "colour": _offer([none, *dimensions], colour, is_open=asked.colour is None),
        "facet": _offer([none, *dimensions], facet, is_open=facet == NONE),
        "over": _offer([none, *throughputs], over, is_open=over == NONE)
        if picture.metric.unit == "ns"
        else [],
        "draw": _offer(
            [("", "as fits"), ("bars", "bars"), ("lines", "lines")], asked.draw or "", is_open=False
        ),
        "scale": _offer([("", "linear"), ("log", "log")], "log" if asked.is_log else "", is_open=False),
    }


def _offer(choices: Sequence[tuple[str, str]], chosen: str, *, is_open: bool) -> list[_Option]:
    return [("" if is_open and name == chosen else name, words, name == chosen) for name, words in choices]


def _make_held(held: FixedDimension) -> HeldField:
    dimension = DIMENSIONS[held.dimension]
    options = [
        (
            ""
            if held.values == (choice.value,)
            else f"{held.dimension}:{write_value(dimension, choice.value)}",
            f"{describe_value(held.dimension, choice.value)} ({choice.series_count})",
            held.values == (choice.value,),
        )
        for choice in held.choices
    ]
    if len(held.values) > 1:
        several = ", ".join(describe_value(held.dimension, value) for value in held.values)
        options.insert(0, ("", several, True))
    return HeldField(held.dimension, dimension.label, (*options, (f"{held.dimension}:*", "any", False)))
