"""The matrix page: the current level of each combination of patterns, volumes and sizes."""

from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.charts.pages.matrix.figure import make_matrix_figure, read_asked_matrix
from benchapp.charts.read.matrix import NONE
from benchapp.charts.read.matrix_shapes import Matrix
from benchapp.charts.read.scaling_defaults import FixedDimension
from benchapp.charts.read.scaling_shapes import BadChart
from benchapp.charts.texts.fixed import describe_choice
from benchapp.charts.texts.level_range import describe_level_range
from benchapp.charts.texts.matrix import LONG_REASONS, REASONS
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command, list_first_steps
from benchapp.framework.pages.errors import BadParameters
from benchapp.framework.pages.filter_bar import (
    FilterBar,
    explain_empty,
    make_filter_bar,
    refuse_address,
    settle_filter,
)
from benchapp.framework.pages.page_context import make_base_url
from benchapp.layouts.pages.next_runs import show_next_runs
from benchapp.layouts.read.gap_runs import plan_matrix_runs
from benchapp.layouts.texts.next_runs import NOTHING_MISSING
from benchapp.series.read.dimension_values import has_series

_OTHERS_MAXIMUM: Final = 12
_NEXT_RUNS: Final = "next_runs"
_Option = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class FixedLine:
    """Links to the other values of a fixed dimension; more: how many have no link."""

    label: str
    others: tuple[tuple[str, str], ...]
    more: int


@require_safe
@may_read
def matrix(request: HttpRequest) -> HttpResponse:
    """Show the matrix of a filter; axes and fixed dimensions that the address does not name are chosen."""
    bar = make_filter_bar(
        request, fields="charts/matrix/_matrix_fields.html", has_metric=True, has_time_range=True
    )
    if (answer := settle_filter(request, bar)) is not None:
        return answer
    try:
        shown, range = read_asked_matrix(request.GET, bar.filter)
    except BadChart as problem:
        return refuse_address(request, [f"{problem.parameter.title()}: {problem}."], bar=bar)
    except BadParameters as problem:
        return refuse_address(request, [f"{problem}."], bar=bar)
    figure = make_matrix_figure(shown, range=range)
    base_url = make_base_url(request)
    has_next_runs = request.GET.get(_NEXT_RUNS) == "1" and shown.size > 0
    context = {
        "bar": bar,
        "figure": figure,
        "title": figure.title,
        "range": describe_level_range(shown.span),
        "fixed": [_make_fixed(fixed, bar, request, shown.metric) for fixed in shown.fixed],
        "fields": _make_fields(shown),
        "canonical_url": f"{base_url}{reverse('matrix')}?{figure.query}",
        "api_line": format_curl_command(f"{base_url}/api/v1/matrix?{figure.query}"),
        "excluded": () if shown.size else explain_empty(bar, has_series),
        "steps": None if shown.size or bar.text or not shown.span.is_open else list_first_steps(base_url),
        "next": show_next_runs(plan_matrix_runs(shown), nothing=NOTHING_MISSING) if has_next_runs else None,
        "next_url": f"?{figure.query}&{_NEXT_RUNS}=1#next-runs",
        "reasons": [(REASONS[state], LONG_REASONS[state]) for state in REASONS if shown.count(state)],
    }
    return render(request, "charts/matrix/matrix.html", context)


def _make_fixed(fixed: FixedDimension, bar: FilterBar, request: HttpRequest, metric: Metric) -> FixedLine:
    dimension = DIMENSIONS[fixed.dimension]
    others = [choice for choice in fixed.choices if choice.value not in fixed.values]
    query, links = request.GET.copy(), []
    # A fleet has hundreds of hosts, of which few are shown.
    for choice in others[:_OTHERS_MAXIMUM]:
        query["q"] = write_filter(bar.filter.with_value(fixed.dimension, choice.value))
        links.append((describe_choice(fixed.dimension, choice, metric), f"?{query.urlencode(safe=':,/*')}"))
    return FixedLine(dimension.label, tuple(links), len(others[_OTHERS_MAXIMUM:]))


def _make_fields(matrix: Matrix) -> dict[str, Any]:
    """Return the choices of the fields, each as (value, label, is chosen); rows and facets have two fields each."""
    names = [(name, dimension.label) for name, dimension in DIMENSIONS.items()]

    def offer(chosen: str, first: str, first_label: str) -> list[_Option]:
        options = [(name, label, name == chosen) for name, label in names]
        return [(first, first_label, not chosen), *options] if first_label else options

    rows = [row.name for row in matrix.rows] + [""]
    facets = [facet.name for facet in matrix.facets] + ["", ""]
    return {
        "metric": [(name, metric.label, metric == matrix.metric) for name, metric in CATALOG.items()],
        "x": offer(matrix.x.dimension.name, "", ""),
        "rows": offer(rows[0], "", ""),
        "more_rows": offer(rows[1], "", "None"),
        "facet": offer(facets[0], NONE, "None"),
        "more_facets": offer(facets[1], "", "None"),
    }
