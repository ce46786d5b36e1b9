"""Mixed workloads: the throughput by the share of reads, measured and interpolated."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import BadFilter, Filter, parse_term, write_filter
from benchapp.metrics import CATALOG, Metric, format_value
from benchapp.queries.charts.history import IDS_MAXIMUM
from benchapp.queries.layouts.mixes import (
    AGE_MAXIMUM_DAYS,
    MIX_METRICS,
    MIX_PATTERNS,
    USUAL_READ_SHARE,
    MeasuredMix,
    MixAnswer,
    MixCurve,
    MixEstimate,
    MixQuestion,
    read_mixes,
)
from benchapp.queries.titles import describe_value
from benchapp.web.layouts.mix_drawing import BOTTOM, HEIGHT, LEFT, WIDTH, draw_mix_panel
from benchapp.web.layouts.mix_texts import (
    describe_basis,
    describe_left_out,
    format_mixes_title,
    name_load,
)
from benchapp.web.site.access import may_read
from benchapp.web.site.command_lines import format_curl_command
from benchapp.web.site.filter_forms import FilterTextField
from benchapp.web.site.page_context import make_base_url

_PANELS_MAXIMUM: Final = 12
# The CSV has all of them.
_ROWS_MAXIMUM: Final = 100
_SAFE: Final = ":,/*"


class MixForm(forms.Form):
    """The workload, the read share to estimate, and which measurements count."""

    q = FilterTextField()
    pattern = forms.ChoiceField(
        required=False,
        choices=[(name, name.capitalize()) for name in MIX_PATTERNS],
        error_messages={"invalid_choice": f"Pattern: choose one of {', '.join(MIX_PATTERNS)}."},
    )
    block_size = forms.CharField(required=False, max_length=40)
    read_share = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"), "Reads: enter a whole number from 0 to 100."
        ),
    )
    metric = forms.ChoiceField(
        required=False,
        choices=[(name, CATALOG[name].label) for name in MIX_METRICS],
        error_messages={"invalid_choice": f"Metric: choose one of {', '.join(MIX_METRICS)}."},
    )
    max_age_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=AGE_MAXIMUM_DAYS,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"),
            f"Age of newest run: enter a whole number from 1 to {AGE_MAXIMUM_DAYS}.",
        ),
    )

    def clean_block_size(self) -> str:
        """Check that the filter language reads it."""
        text = str(self.cleaned_data["block_size"])
        try:
            if text:
                parse_term("block_size_bytes", text)
        except BadFilter as problem:
            raise forms.ValidationError(f"Block size: {problem}.") from problem
        return text

    def clean(self) -> dict[str, Any]:
        """Check that the filter and the terms of the workload together are not too many."""
        cleaned: dict[str, Any] = super().clean() or {}
        try:
            if not self.errors:
                self.make_question().make_filter()
        except BadFilter as problem:
            self.add_error("q", f"{problem}.")
        return cleaned

    def make_question(self) -> MixQuestion:
        """Return the question of a valid form."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return MixQuestion(filter=given.pop("q"), **given)


@dataclass(frozen=True, slots=True)
class MixTableRow:
    """A curve in the table; numbers are texts. measured: read shares and their values. url: the histories.

    badges, incident_ids: of these.
    """

    title: str
    load: str
    measured: str
    value: str
    interval: str
    basis: str
    is_interpolated: bool
    url: str
    badges: tuple[str, ...]
    incident_ids: tuple[int, ...]


@require_safe
@may_read
def mixes(request: HttpRequest) -> HttpResponse:
    """Show the throughput by the share of reads of each layout."""
    form = MixForm(request.GET)
    errors: list[str] = []
    if not form.is_valid():
        errors = [str(message) for messages in form.errors.values() for message in messages]
    context: dict[str, Any] = {
        "title": "Mixed workloads",
        "form": form,
        "typed": {name: request.GET.get(name, "") for name in form.fields},
        "patterns": MIX_PATTERNS,
        "metrics": [CATALOG[name] for name in MIX_METRICS],
        "errors": errors,
        "read_share": request.GET.get("read_share") or USUAL_READ_SHARE,
    }
    if not errors:
        context |= _make_answer(read_mixes(form.make_question()), request)
    return render(request, "layouts/mixes.html", context, status=400 if errors else 200)


def _make_answer(answer: MixAnswer, request: HttpRequest) -> dict[str, Any]:
    question = answer.question
    metric = CATALOG[question.metric]
    layouts = [
        (title, list(own)) for title, own in groupby(answer.curves, key=lambda curve: curve.layout.title)
    ]
    query = _write_query(question)
    address = f"{reverse('api_mixes')}{f'?{query}' if query else ''}"
    return {
        "title": format_mixes_title(answer, metric),
        "answer": answer,
        "metric": metric,
        "panels": [
            draw_mix_panel(title, own, metric=metric, read_share=question.read_share)
            for title, own in layouts[:_PANELS_MAXIMUM]
        ],
        "more_panels": len(layouts[_PANELS_MAXIMUM:]),
        "rows": [_make_row(curve, metric, question.read_share) for curve in answer.curves[:_ROWS_MAXIMUM]],
        "more_rows": len(answer.curves[_ROWS_MAXIMUM:]),
        "fixed": list(_list_fixed(answer)),
        "left_out": list(describe_left_out(answer)),
        "size": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": BOTTOM},
        "csv_url": f"{address}{'&' if query else '?'}format=csv",
        "api_line": format_curl_command(f"{make_base_url(request)}{address}"),
    }


def _make_row(curve: MixCurve, metric: Metric, read_share: int) -> MixTableRow:
    found = curve.estimate(read_share)
    value = interval = ""
    if isinstance(found, MeasuredMix):
        value = format_value(found.spread.median, metric.unit)
        interval = _format_interval(found.spread.p10, found.spread.p90, metric)
    elif isinstance(found, MixEstimate):
        value = format_value(found.value, metric.unit)
        interval = _format_interval(found.low, found.high, metric)
    return MixTableRow(
        title=curve.layout.title,
        load=name_load(curve),
        measured="; ".join(
            f"{mix.read_share} %: {format_value(mix.spread.median, metric.unit)}" for mix in curve.mixes
        ),
        value=value,
        interval=interval,
        basis=describe_basis(found),
        is_interpolated=isinstance(found, MixEstimate),
        url=f"{reverse('history')}?series={','.join(map(str, curve.series_ids[:IDS_MAXIMUM]))}",
        badges=curve.badges,
        incident_ids=curve.incident_ids,
    )


def _format_interval(low: float, high: float, metric: Metric) -> str:
    return f"{format_value(low, metric.unit)} to {format_value(high, metric.unit)}"


def _list_fixed(answer: MixAnswer) -> Iterator[tuple[str, str]]:
    for fixed in answer.fixed:
        values = ", ".join(describe_value(fixed.dimension, value) for value in fixed.values)
        yield DIMENSIONS[fixed.dimension].label, values


def _write_query(question: MixQuestion) -> str:
    """Return the query string of a question, without what is the default."""
    given = {
        "q" if field.name == "filter" else field.name: value
        for field in fields(question)
        if (value := getattr(question, field.name)) != field.default and value != Filter()
    }
    return urlencode(
        {name: write_filter(value) if isinstance(value, Filter) else value for name, value in given.items()},
        safe=_SAFE,
    )
