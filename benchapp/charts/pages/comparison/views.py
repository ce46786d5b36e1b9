"""The comparison page: two hosts, layouts, periods or runs."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import CATALOG
from benchapp.charts.pages.comparison.figure import (
    CompareForm,
    ComparisonFigure,
    list_problems,
    read_metrics,
    show_comparison,
)
from benchapp.charts.pages.comparison.table import write_markdown
from benchapp.charts.read.comparison_suggestions import Suggestions, list_suggestions
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.selection import BadSelection, find_comparison, read_selection
from benchapp.framework.pages.time_range import make_time_range

UNMATCHED_MAXIMUM: Final = 50
_PERIOD: Final = 7


@dataclass(frozen=True, slots=True)
class ComparisonLink:
    """A suggested comparison."""

    label: str
    url: str


@require_safe
@may_read
def compare(request: HttpRequest) -> HttpResponse:
    """Show two sides: chart of ratios, summary, table, unmatched series, environment differences.

    A selection of a list redirects to the sides that it stands for.
    """
    form = CompareForm(request.GET)
    form.is_valid()
    errors = list_problems(form, request.GET)
    try:
        if selection := read_selection(request.GET):
            url, note = find_comparison(selection)
            if note:
                messages.info(request, note)
            return redirect(url)
    except BadSelection as error:
        errors.append(str(error))
    metrics = read_metrics(request.GET, [])
    is_same = form.make_side("a") == form.make_side("b")
    context: dict[str, Any] = {
        "form": form,
        "ranges": {
            side: make_time_range(request.GET, prefix=f"{side}_", label=side.upper()) for side in "ab"
        },
        "typed": {name: request.GET.get(name, "") for name in form.fields},
        "errors": errors,
        "title": "Compare two hosts, layouts, periods or runs",
        "metrics": [(metric, metric.name in metrics) for metric in CATALOG.values()],
    }
    if is_same or errors:
        context["suggestions"] = _link_suggestions(list_suggestions())
        context["is_same"] = is_same and _is_asked(request.GET)
    else:
        context |= _make_context(request, show_comparison(request.GET, key="compare"))
    return render(request, "charts/comparison/comparison.html", context, status=400 if errors else 200)


def _make_context(request: HttpRequest, figure: ComparisonFigure) -> dict[str, Any]:
    """Return the context of the page for a comparison."""
    sides = zip(figure.names, (figure.found.only_a, figure.found.only_b), strict=True)
    return {
        "figure": figure,
        "title": figure.title,
        "csv_url": figure.csv_url,
        "swap_url": _link_swapped(request.GET),
        "unmatched": [
            (name, rows[:UNMATCHED_MAXIMUM], len(rows) - UNMATCHED_MAXIMUM) for name, rows in sides if rows
        ],
        "markdown": write_markdown(
            figure.title, figure.names, figure.lines, link=request.build_absolute_uri()
        ),
        "api_line": format_curl_command(f"{make_base_url(request)}{figure.address}"),
    }


def _link_swapped(query: QueryDict) -> str:
    """Return the address with A as B, and B as the baseline."""
    swapped = query.copy()
    for name in CompareForm.base_fields:
        if name == "a" or name.startswith("a_"):
            other = f"b{name[1:]}"
            swapped[name], swapped[other] = query.get(other, ""), query.get(name, "")
    kept = [(name, value) for name, values in swapped.lists() for value in values if value]
    return f"?{urlencode(kept, safe=':,/*')}"


def _is_asked(query: QueryDict) -> bool:
    return any(query.get(name) for name in CompareForm.base_fields)


def _link_suggestions(suggestions: Suggestions) -> list[ComparisonLink]:
    if not suggestions.has_measurements:
        return []
    today = timezone.now().date()
    turn = today - timedelta(days=_PERIOD)
    periods = {
        "a_from": (turn - timedelta(days=_PERIOD)).isoformat(),
        "a_to": (turn - timedelta(days=1)).isoformat(),
        "b_from": turn.isoformat(),
        "b_to": today.isoformat(),
    }
    links = [ComparisonLink(f"Last {_PERIOD} days vs. the {_PERIOD} before", f"?{urlencode(periods)}")]
    if len(suggestions.hosts) == 2:
        first, second = suggestions.hosts
        sides = {"a": f"host:{first}", "b": f"host:{second}"}
        links.append(ComparisonLink(f"Host {second} vs. {first}", f"?{urlencode(sides)}"))
    if suggestions.counts:
        least, most = suggestions.counts
        sides = {"a": f"volume_count:{least}", "b": f"volume_count:{most}"}
        links.append(ComparisonLink(f"{most} vs. {least} volumes", f"?{urlencode(sides)}"))
    if suggestions.runs:
        pair = suggestions.runs
        ids = {"a_run": pair.older_id, "b_run": pair.newer_id}
        links.append(
            ComparisonLink(
                f"Two newest runs of {pair.profile or 'one profile'} on {pair.host}", f"?{urlencode(ids)}"
            )
        )
    return links
