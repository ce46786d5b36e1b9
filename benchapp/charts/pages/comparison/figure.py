"""A comparison as its page and a study show it: form, chart, summary, table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict
from django.urls import reverse

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.pages.comparison.scopes import ScopeTable, describe_scope_results, make_scope_table
from benchapp.charts.pages.comparison.table import (
    ComparisonLine,
    make_chart,
    make_lines,
)
from benchapp.charts.read.comparison import (
    DEFAULT_METRICS,
    SERIES_IDS_MAXIMUM,
    ComparisonResult,
    Side,
    compare_sides,
)
from benchapp.charts.read.comparison_scopes import summarize_scopes
from benchapp.charts.texts.comparison import (
    describe_comparison,
    describe_comparison_title,
    describe_side,
    find_shared_parts,
)
from benchapp.framework.pages.command_lines import link_chart_image
from benchapp.framework.pages.filter_forms import FilterTextField
from benchapp.framework.pages.time_range import BoundField, TimeRangeForm
from benchapp.framework.times import to_iso

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
    filter_text: str
    address: str
    scopes: ScopeTable | None = None
    more_url: str = ""
    has_links: bool = True

    @property
    def note(self) -> str:
        """Return what the marks of the chart are and on how many runs they rest, for its PNG."""
        runs = [side.n for line in self.lines for side in (line.pair.comparison.a, line.pair.comparison.b)]
        if not runs:
            return ""
        n = f"{min(runs)}" if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
        return f"Marks: ratio of medians; bars: 95 % confidence interval; n = {n} runs of each side"

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


def show_comparison(query: QueryDict, *, key: str, has_links: bool = True) -> ComparisonFigure:
    """Compare the sides of an address. Raises BadComparison for errors or two equal sides."""
    form = CompareForm(query)
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
    scopes = summarize_scopes(found.pairs)
    most = LINES_MAXIMUM if query.get("lines") == str(LINES_MAXIMUM) else LINES_DEFAULT
    lines = make_lines(found.pairs[:most])
    chart = make_chart(lines, key)
    return ComparisonFigure(
        key=key,
        found=found,
        names=names,
        title=describe_comparison_title(found, *names),
        common=" · ".join(find_shared_parts([pair.title for pair in found.pairs[:most]])),
        sentences=[
            *([describe_scope_results(scopes)] if scopes else []),
            *describe_comparison(found, *names),
        ],
        lines=lines,
        left_out=len(found.pairs) - len(lines),
        chart=chart,
        # A heading for each metric.
        chart_height=CHART_FRAME_PX + LINE_PX * (len(chart) + len({line["metric"] for line in chart})),
        filter_text=_describe_filter(names, query.get("q", "")),
        address=_make_address(query),
        scopes=make_scope_table(scopes, lines) if scopes else None,
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


def _make_address(query: QueryDict) -> str:
    """Return path and query of the API for what the page shows."""
    bounds = ("a_from", "a_to", "b_from", "b_to")
    asked = {name: query[name] for name in CompareForm.base_fields if query.get(name) and name not in bounds}
    form = CompareForm(query)
    form.is_valid()
    for name in bounds:
        if moment := form.cleaned_data.get(name):
            asked[name] = to_iso(moment)
    if query.getlist("metric"):
        asked["metrics"] = ",".join(query.getlist("metric"))
    return f"/api/v1/comparison?{urlencode(asked, safe=':,')}"


def _describe_filter(names: tuple[str, str], common: str) -> str:
    return f"A: {names[0]} · B: {names[1]}" + (f" · both: {common}" if common else "")


def read_metrics(query: QueryDict, errors: list[str]) -> tuple[str, ...]:
    """Return the metrics of an address, by default the usual ones; problems are added to errors."""
    wanted = query.getlist("metric")
    unknown = [name for name in wanted if name not in CATALOG]
    if unknown:
        errors.append(f"{unknown[0][:40]!r} is not a valid metric; available: {', '.join(CATALOG)}.")
    return tuple(dict.fromkeys(name for name in wanted if name in CATALOG)) or DEFAULT_METRICS
