"""The comparison of two hosts, layouts, periods or runs: page, and figure of a study."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.pages.percentiles import compare_percentiles
from benchapp.charts.read.comparison import (
    DEFAULT_METRICS,
    SERIES_IDS_MAXIMUM,
    ComparisonResult,
    ScopeResult,
    Side,
    compare_sides,
    summarize_scopes,
)
from benchapp.charts.read.comparison_sides import read_suggestions
from benchapp.charts.texts.comparison import (
    ComparisonLine,
    describe_comparison,
    describe_comparison_title,
    describe_difference,
    describe_scope,
    describe_side,
    find_shared_parts,
    list_drawn,
    make_lines,
    name_scope_kinds,
)
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image
from benchapp.framework.pages.filter_bar import FilterTextField
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.selection import BadSelection, find_comparison, read_selection
from benchapp.framework.pages.time_range import BoundField, TimeRangeForm, make_time_range
from benchapp.framework.times import to_iso
from benchapp.models import name_scopes

# The most significant lines come first; the CSV has all.
LINES_DEFAULT: Final = 50
LINES_MAXIMUM: Final = 200
# Of a line of the chart, and of its axis.
LINE_PX: Final = 22
CHART_FRAME_PX: Final = 52
_ID_MAXIMUM: Final = 2**63 - 1
_NAMES: Final = {
    "q": "Both",
    "a": "A",
    "b": "B",
    "a_run": "A: run",
    "b_run": "B: run",
    "a_series": "A: series",
    "b_series": "B: series",
    "series": "Series",
}
# Differences of a host or pool, and rows, that are listed.
_NAMED_MAXIMUM: Final = 3
_SHOWN_MAXIMUM: Final = 100
_TOTAL: Final = "All"
UNMATCHED_MAXIMUM: Final = 50
_PERIOD: Final = 7


def make_scope_table(
    results: Sequence[ScopeResult], total: ScopeResult, lines: Sequence[ComparisonLine]
) -> dict[str, Any]:
    """Return the table; lines: those of the data table."""
    numbers = {id(line.pair): line.number for line in lines}
    grouped: dict[str, list[ScopeResult]] = {}
    for result in results:
        grouped.setdefault(result.scope if result.differences else describe_scope(result), []).append(result)
    rows = list(grouped.values())
    return {
        "lines": [
            *(_make_scope_line(row, numbers) for row in rows[:_SHOWN_MAXIMUM]),
            _make_scope_line([total], numbers),
        ],
        "left_out": sum(map(len, rows[_SHOWN_MAXIMUM:])),
    }


def _make_scope_line(results: Sequence[ScopeResult], numbers: dict[int, int]) -> dict[str, Any]:
    """Return a row; results: of hosts and pools that have the same one."""
    result = results[0]
    names = [name_scopes([each.scope]) for each in results]
    return {
        "result": result,
        "name": f"{len(results)} {name_scope_kinds(results)}"
        if len(results) > 1
        else names[0]
        if result.scope
        else _TOTAL,
        "names": names if len(results) > 1 else (),
        "text": describe_scope(result) if result.scope else "",
        "undecided": sum(each.undecided for each in results),
        "values": sum(each.values for each in results),
        "differences": [
            {
                "text": describe_difference(each),
                "is_worse": each.is_worse,
                "number": numbers.get(id(each.largest)),
            }
            for each in result.differences[:_NAMED_MAXIMUM]
        ],
        "left_out": sum(each.count for each in result.differences[_NAMED_MAXIMUM:]),
    }


class BadComparison(Exception):
    """An address that is not a valid comparison; the message has the reason."""


class SeriesIdsField(forms.CharField):
    """Ids of series, separated by commas, at most SERIES_IDS_MAXIMUM."""

    def __init__(self) -> None:
        super().__init__(required=False)

    def clean(self, value: Any) -> Any:
        """Return the ids as a tuple."""
        parts = [part.strip() for part in super().clean(value).split(",") if part.strip()]
        wrong = next((part for part in parts if not re.fullmatch(r"[0-9]{1,18}", part, re.ASCII)), None)
        if wrong is not None:
            raise forms.ValidationError(
                f"{wrong[:40]!r} is not a valid series id. Separate ids by commas: 1,2,3."
            )
        ids = tuple(dict.fromkeys(map(int, parts)))
        if len(ids) > SERIES_IDS_MAXIMUM:
            raise forms.ValidationError(f"{len(ids)} ids; at most {SERIES_IDS_MAXIMUM} are compared.")
        return ids


class CompareForm(TimeRangeForm):
    """The two sides and their common filter."""

    q = FilterTextField()
    a = FilterTextField()
    b = FilterTextField()
    a_run = forms.IntegerField(required=False, min_value=1, max_value=_ID_MAXIMUM)
    b_run = forms.IntegerField(required=False, min_value=1, max_value=_ID_MAXIMUM)
    a_series = forms.IntegerField(required=False, min_value=1, max_value=_ID_MAXIMUM)
    b_series = forms.IntegerField(required=False, min_value=1, max_value=_ID_MAXIMUM)
    a_from = BoundField("A from", is_end=False)
    a_to = BoundField("A to", is_end=True)
    b_from = BoundField("B from", is_end=False)
    b_to = BoundField("B to", is_end=True)
    series = SeriesIdsField()

    def make_side(self, name: str) -> Side:
        """Return side a or b; fields with errors are ignored."""
        values = self.cleaned_data
        return Side(
            values.get(name) or Filter(),
            run_id=values.get(f"{name}_run"),
            series_id=values.get(f"{name}_series"),
            from_at=values.get(f"{name}_from"),
            to_at=values.get(f"{name}_to"),
        )


@dataclass(frozen=True, slots=True)
class ComparisonFigure:
    """What `_comparison_figure.html` and `_comparison_table.html` show.

    key: begins the ids of its parts. common: what all compared series share, "" if nothing. left_out: lines that are
    not among these. more_url: the page with LINES_MAXIMUM of them, "" where these are as many. chart: for
    comparison.js. scopes: by host or pool; None for a single one. has_links: False without links to other pages;
    csv_url and more_url are "" then.
    """

    key: str
    found: ComparisonResult
    names: tuple[str, str]
    title: str
    common: str
    sentences: Sequence[str]
    lines: Sequence[ComparisonLine]
    left_out: int
    chart: Sequence[dict[str, Any]]
    chart_height: int
    address: str
    scopes: dict[str, Any] | None = None
    more_url: str = ""
    has_links: bool = True

    @property
    def csv_url(self) -> str:
        """Return the address of the CSV; "" without links."""
        return f"{self.address}&format=csv" if self.has_links else ""

    @property
    def image_url(self) -> str:
        """Return the address of the chart as PNG; "" without links."""
        return link_chart_image(self.address) if self.has_links else ""


def list_problems(form: CompareForm, query: QueryDict) -> list[str]:
    """Return the errors of an address as sentences; form: bound to it."""
    problems = [
        message if name not in _NAMES else f"{_NAMES[name]}: {message}"
        for name, messages in form.errors.items()
        for message in map(str, messages)
    ]
    read_metrics(query, problems)
    return problems


def show_comparison(
    query: QueryDict, *, key: str, has_links: bool = True, form: CompareForm | None = None
) -> ComparisonFigure:
    """Compare the sides of an address; form: if it was read before. Raises BadComparison for errors or equal sides."""
    form = form or CompareForm(query)
    form.is_valid()
    if problems := list_problems(form, query):
        raise BadComparison(" ".join(problems))
    a, b = form.make_side("a"), form.make_side("b")
    if a == b:
        raise BadComparison("Both sides are the same.")
    found = compare_sides(
        a,
        b,
        common=form.cleaned_data["q"],
        series_ids=form.cleaned_data["series"],
        metrics=read_metrics(query, []),
    )
    names = _describe_sides(a, b, found)
    scopes = summarize_scopes(found)
    most = LINES_MAXIMUM if query.get("lines") == str(LINES_MAXIMUM) else LINES_DEFAULT
    lines = make_lines(found.pairs[:most])
    chart = _make_chart(lines, key)
    return ComparisonFigure(
        key=key,
        found=found,
        names=names,
        title=describe_comparison_title(found, *names),
        common=" · ".join(find_shared_parts([pair.title for pair in found.pairs[:most]])),
        sentences=describe_comparison(found, *names),
        lines=lines,
        left_out=len(found.pairs) - len(lines),
        chart=chart,
        # A heading for each metric.
        chart_height=CHART_FRAME_PX + LINE_PX * (len(chart) + len({line["metric"] for line in chart})),
        address=_make_address(query, form),
        scopes=make_scope_table(*scopes, lines) if scopes else None,
        more_url=_link_more(query) if has_links and len(lines) < min(len(found.pairs), LINES_MAXIMUM) else "",
        has_links=has_links,
    )


def _describe_sides(a: Side, b: Side, found: ComparisonResult) -> tuple[str, str]:
    one, other = (
        describe_side(side, scopes, label)
        for side, scopes, label in zip((a, b), found.scopes, found.labels, strict=True)
    )
    return one, other


def _link_more(query: QueryDict) -> str:
    more = query.copy()
    more["lines"] = str(LINES_MAXIMUM)
    return f"{reverse('compare')}?{more.urlencode(safe=':,/*')}"


def _make_address(query: QueryDict, form: CompareForm) -> str:
    """Return path and query of the API for what the page shows."""
    bounds = ("a_from", "a_to", "b_from", "b_to")
    asked = {name: query[name] for name in CompareForm.base_fields if query.get(name) and name not in bounds}
    for name in bounds:
        if moment := form.cleaned_data.get(name):
            asked[name] = to_iso(moment)
    if query.getlist("metric"):
        asked["metrics"] = ",".join(query.getlist("metric"))
    return f"/api/v1/comparison?{urlencode(asked, safe=':,')}"


def read_metrics(query: QueryDict, errors: list[str]) -> tuple[str, ...]:
    """Return the metrics of an address, by default the usual ones; problems are added to errors."""
    wanted = query.getlist("metric")
    unknown = [name for name in wanted if name not in CATALOG]
    if unknown:
        errors.append(f"{unknown[0][:40]!r} is not a valid metric; available: {', '.join(CATALOG)}.")
    return tuple(dict.fromkeys(name for name in wanted if name in CATALOG)) or DEFAULT_METRICS


def _make_chart(lines: Sequence[ComparisonLine], key: str) -> list[dict[str, Any]]:
    """Return the JSON of the chart."""
    return [
        {
            "number": line.number,
            "name": line.name,
            "metric": line.metric.label,
            "better": line.metric.better,
            "place": line.place,
            "at": line.pair.comparison.ratio,
            "from": line.pair.comparison.low,
            "to": line.pair.comparison.high,
            "ratio": line.ratio,
            "interval": line.interval,
            "result": line.result,
            "kind": line.kind,
            "a": line.a,
            "b": line.b,
            "url": f"#{key}-line-{line.number}",
        }
        for line in list_drawn(lines)
    ]


def write_markdown(title: str, names: tuple[str, str], lines: Sequence[ComparisonLine], *, link: str) -> str:
    """Return a table that GitHub, GitLab and wikis show; every text in it is escaped."""
    rows = [
        f"| {_escape(line.pair.title)} | {line.metric.label} | {line.a} | {line.b} | {line.ratio} | {line.interval} |"
        f" {line.p} | {line.result} |"
        for line in lines
    ]
    return "\n".join(
        (
            f"**{_escape(title)}**",
            "",
            f"| workload | metric | A: {_escape(names[0])} | B: {_escape(names[1])} | B / A | 95 % CI | p | |",
            "|---|---|--:|--:|--:|--:|--:|---|",
            *rows,
            "",
            f"<{link}>",
        )
    )


def _escape(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    plain = text.replace("\n", " ").replace("\r", " ")
    return "".join(f"\\{sign}" if sign in "\\|*_`[]<>#" else sign for sign in plain)


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
        context["suggestions"] = _link_suggestions(read_suggestions())
        context["is_same"] = is_same and any(map(request.GET.get, CompareForm.base_fields))
    else:
        context |= _make_context(request, show_comparison(request.GET, key="compare", form=form))
        runs = [form.cleaned_data[name] for name in ("a_run", "b_run")]
        if all(runs):
            context["percentiles"], context["unpaired"] = compare_percentiles(*runs)
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


def _link_suggestions(suggestions: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not suggestions["has_measurements"]:
        return []
    today = timezone.localdate()
    # Whole days: today has only begun.
    days = {"a_from": 2 * _PERIOD, "a_to": _PERIOD + 1, "b_from": _PERIOD, "b_to": 1}
    periods = {name: (today - timedelta(days=before)).isoformat() for name, before in days.items()}
    links = [
        {
            "label": f"Last {_PERIOD} days vs. the {_PERIOD} before, without today",
            "url": f"?{urlencode(periods)}",
        }
    ]
    if len(suggestions["hosts"]) == 2:
        first, second = suggestions["hosts"]
        sides = {"a": f"host:{first}", "b": f"host:{second}"}
        links.append({"label": f"Host {second} vs. {first}", "url": f"?{urlencode(sides)}"})
    if suggestions["counts"]:
        least, most = suggestions["counts"]
        sides = {"a": f"volume_count:{least}", "b": f"volume_count:{most}"}
        links.append({"label": f"{most} vs. {least} volumes", "url": f"?{urlencode(sides)}"})
    if suggestions["runs"]:
        older_id, newer_id, host, profile = suggestions["runs"]
        ids = {"a_run": older_id, "b_run": newer_id}
        links.append(
            {
                "label": f"Two newest runs of {profile or 'one profile'} on {host}",
                "url": f"?{urlencode(ids)}",
            }
        )
    return links
