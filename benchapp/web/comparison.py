"""Two hosts, layouts, periods or runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.grammar import LENGTH_MAXIMUM, BadFilter, Filter, parse_filter
from benchapp.metrics import CATALOGUE
from benchapp.queries.comparison import DEFAULT_METRICS, Compared, Side, compare_sides
from benchapp.queries.comparison_ideas import Ideas, list_ideas
from benchapp.web.access import may_read
from benchapp.web.comparison_table import Line, make_chart, make_lines, write_markdown
from benchapp.web.comparison_words import say_comparison, say_comparison_title, say_side
from benchapp.web.filters import DayField, end_of, start_of
from benchapp.web.frame import make_base_url
from benchapp.web.lines import say_request

# More are for the CSV: nobody reads them on a page, and nobody prints them.
LINES_MAXIMUM: Final = 200
LONE_MAXIMUM: Final = 50
# Of a line of the chart, and of its axis.
LINE_PX: Final = 22
CHART_FRAME_PX: Final = 52
_ID_MAXIMUM: Final = 2**63 - 1
_PERIOD: Final = 7


class FilterField(forms.CharField):
    """A filter in the bar's language."""

    def __init__(self) -> None:
        super().__init__(required=False, max_length=LENGTH_MAXIMUM)

    def clean(self, value: Any) -> Any:
        """Return the filter; its own words where it cannot be read."""
        try:
            return parse_filter(super().clean(value))
        except BadFilter as error:
            raise forms.ValidationError(f"{error}.") from error


class CompareForm(forms.Form):
    """The two sides and what holds for both."""

    q = FilterField()
    a = FilterField()
    b = FilterField()
    a_run = forms.IntegerField(required=False, min_value=1, max_value=_ID_MAXIMUM)
    b_run = forms.IntegerField(required=False, min_value=1, max_value=_ID_MAXIMUM)
    a_from = DayField("A from")
    a_to = DayField("A to")
    b_from = DayField("B from")
    b_to = DayField("B to")

    def make_side(self, name: str) -> Side:
        """Return side a or b; fields with errors ask for nothing."""
        values = self.cleaned_data
        return Side(
            values.get(name) or Filter(),
            run_id=values.get(f"{name}_run"),
            from_at=start_of(values.get(f"{name}_from")),
            to_at=end_of(values.get(f"{name}_to")),
        )


@dataclass(frozen=True, slots=True)
class Idea:
    """A link to a comparison, for a reader who has not chosen one."""

    words: str
    url: str


_NAMES: Final = {"q": "Both", "a": "A", "b": "B", "a_run": "A: run", "b_run": "B: run"}


@require_safe
@may_read
def compare(request: HttpRequest) -> HttpResponse:
    """Show two sides: chart of ratios, words, table, what has no counterpart, what differs around them."""
    form = CompareForm(request.GET)
    form.is_valid()
    errors = [
        message if name not in _NAMES else f"{_NAMES[name]}: {message}"
        for name, messages in form.errors.items()
        for message in map(str, messages)
    ]
    metrics = _read_metrics(request.GET, errors)
    context: dict[str, Any] = {
        "form": form,
        "typed": {name: request.GET.get(name, "") for name in form.fields},
        "errors": errors,
        "title": "Compare two hosts, layouts, periods or runs",
        "metrics": [(metric, metric.name in metrics) for metric in CATALOGUE.values()],
    }
    a, b = form.make_side("a"), form.make_side("b")
    if a == b or errors:
        context["ideas"] = _say_ideas(list_ideas())
        context["is_same"] = a == b and _is_asked(request.GET)
    else:
        context |= _compare(request, a, b, common=form.cleaned_data["q"], metrics=metrics)
    return render(request, "compare.html", context, status=400 if errors else 200)


def _compare(
    request: HttpRequest, a: Side, b: Side, *, common: Filter, metrics: Sequence[str]
) -> dict[str, Any]:
    found = compare_sides(a, b, common=common, metrics=metrics)
    names = say_side(a), say_side(b)
    lines = make_lines(found.pairs[:LINES_MAXIMUM])
    chart = make_chart(lines)
    title = say_comparison_title(found, *names)
    address = _make_address(request.GET)
    return {
        "found": found,
        "names": names,
        "title": title,
        "words": say_comparison(found, *names),
        "lines": lines,
        "left_out": len(found.pairs) - len(lines),
        "chart": chart,
        "chart_height": CHART_FRAME_PX + LINE_PX * len(chart),
        "lone": [
            (name, lone[:LONE_MAXIMUM], len(lone) - LONE_MAXIMUM) for name, lone in _list_lone(found, names)
        ],
        "markdown": write_markdown(title, names, lines, link=request.build_absolute_uri()),
        "csv_url": f"{address}&format=csv",
        "api_line": say_request(f"{make_base_url(request)}{address}"),
        "filter_words": _say_filter(names, request.GET.get("q", "")),
    }


def _list_lone(found: Compared, names: tuple[str, str]) -> list[tuple[str, Any]]:
    return [(name, lone) for name, lone in zip(names, (found.only_a, found.only_b), strict=True) if lone]


def _say_filter(names: tuple[str, str], common: str) -> str:
    return f"A: {names[0]} · B: {names[1]}" + (f" · both: {common}" if common else "")


def _read_metrics(query: QueryDict, errors: list[str]) -> tuple[str, ...]:
    wanted = query.getlist("metric")
    unknown = [name for name in wanted if name not in CATALOGUE]
    if unknown:
        errors.append(f"There is no metric {unknown[0][:40]!r}; there are: {', '.join(CATALOGUE)}.")
    return tuple(dict.fromkeys(name for name in wanted if name in CATALOGUE)) or DEFAULT_METRICS


def _is_asked(query: QueryDict) -> bool:
    return any(query.get(name) for name in CompareForm.base_fields)


def _make_address(query: QueryDict) -> str:
    """Return path and query of the API for what the page shows."""
    days = ("a_from", "a_to", "b_from", "b_to")
    asked = {name: query[name] for name in CompareForm.base_fields if query.get(name) and name not in days}
    form = CompareForm(query)
    form.is_valid()
    for name in days:
        moment = (start_of if name.endswith("from") else end_of)(form.cleaned_data.get(name))
        if moment:
            asked[name] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    if query.getlist("metric"):
        asked["metrics"] = ",".join(query.getlist("metric"))
    return f"/api/v1/comparison?{urlencode(asked, safe=':,')}"


def _say_ideas(ideas: Ideas) -> list[Idea]:
    if not ideas.has_measurements:
        return []
    today = timezone.now().date()
    turn = today - timedelta(days=_PERIOD)
    periods = {
        "a_from": (turn - timedelta(days=_PERIOD)).isoformat(),
        "a_to": (turn - timedelta(days=1)).isoformat(),
        "b_from": turn.isoformat(),
        "b_to": today.isoformat(),
    }
    said = [Idea(f"the last {_PERIOD} days against the {_PERIOD} before", f"?{urlencode(periods)}")]
    if len(ideas.hosts) == 2:
        first, second = ideas.hosts
        sides = {"a": f"host:{first}", "b": f"host:{second}"}
        said.append(Idea(f"host {second} against {first}", f"?{urlencode(sides)}"))
    if ideas.counts:
        least, most = ideas.counts
        sides = {"a": f"volume_count:{least}", "b": f"volume_count:{most}"}
        said.append(Idea(f"{most} volumes against {least}", f"?{urlencode(sides)}"))
    if ideas.runs:
        pair = ideas.runs
        ids = {"a_run": pair.older_id, "b_run": pair.newer_id}
        said.append(
            Idea(
                f"the two newest runs of {pair.profile or 'one profile'} on {pair.host}", f"?{urlencode(ids)}"
            )
        )
    return said


__all__ = ["CompareForm", "Line", "compare"]
