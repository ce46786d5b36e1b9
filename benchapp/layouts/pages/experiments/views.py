"""The page of an A/B experiment."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.catalog.metrics import CATALOG, UNKNOWN, Metric, format_value
from benchapp.charts.texts.comparison import find_shared_parts, split_title
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.times import to_iso
from benchapp.layouts.pages.experiments.forms import ExperimentForm
from benchapp.layouts.pages.experiments.texts import (
    describe_experiment_title,
    describe_interval,
    describe_outcome,
    describe_plan,
    list_caveats,
    write_commands,
)
from benchapp.layouts.read.experiments.experiment import (
    EXPERIMENT_METRICS,
    BadExperiment,
    Experiment,
    ExperimentResult,
    ExperimentRow,
    read_experiment,
)

_LINE_PX: Final = 22
_CHART_FRAME_PX: Final = 74
_SEPARATOR: Final = " · "
_KINDS: Final = {True: "worse", False: "better", None: "none"}


@require_safe
@may_read
def experiment(request: HttpRequest) -> HttpResponse:
    """Show the form; of a complete one the result with interval and checks, and the plan of the runs."""
    form = ExperimentForm(request.GET)
    form.is_valid()
    errors = form.list_problems()
    context: dict[str, Any] = {
        "title": "A/B experiment",
        "typed": {name: request.GET.get(name, "") for name in form.fields},
        "metrics": [CATALOG[name] for name in EXPERIMENT_METRICS],
    }
    if not errors and not form.is_empty:
        asked = form.make_experiment()
        try:
            context |= _make_context(request, asked, read_experiment(asked))
        except BadExperiment as error:
            errors.append(f"{error}.")
    context["errors"] = errors
    return render(request, "layouts/experiments/experiment.html", context, status=400 if errors else 200)


def _make_context(request: HttpRequest, asked: Experiment, found: ExperimentResult) -> dict[str, Any]:
    metric = CATALOG[asked.metric]
    shared = find_shared_parts([row.title for row in found.rows])
    lines = [
        _make_line(number, row, asked, metric=metric, shared=shared)
        for number, row in enumerate(found.rows, 1)
    ]
    chart = [_make_point(line, metric) for line in lines if line["row"].result]
    address = f"{reverse('api_experiment')}?{_make_query(request.GET, asked)}"
    return {
        "title": describe_experiment_title(asked, found),
        "found": found,
        "metric": metric,
        "common": _SEPARATOR.join(shared),
        "lines": lines,
        "chart": chart,
        "chart_height": _CHART_FRAME_PX + _LINE_PX * len(chart),
        "interval": describe_interval(found),
        "plan": describe_plan(asked, found),
        "commands": write_commands(asked, found.plan.pairs) if found.plan else "",
        "csv_url": f"{address}&format=csv",
        "compare_url": f"{reverse('compare')}?{_make_comparison_query(request.GET)}",
        "api_line": format_curl_command(f"{make_base_url(request)}{address}"),
    }


def _make_line(
    number: int, row: ExperimentRow, asked: Experiment, *, metric: Metric, shared: Sequence[str]
) -> dict[str, Any]:
    last = row.result.last if row.result else None
    low, high = (last.low, last.high) if last else (None, None)
    return {
        "number": number,
        "row": row,
        "parts": _SEPARATOR.join(part for part in split_title(row.title) if part not in shared) or row.title,
        "a": format_value(row.a.median, metric.unit),
        "b": format_value(row.b.median, metric.unit),
        "ratio": f"{last.ratio:.3f}" if last else UNKNOWN,
        "interval": UNKNOWN if low is None or high is None else f"{low:.3f}–{high:.3f}",
        "outcome": describe_outcome(row, asked),
        "kind": _KINDS[row.is_worse],
        "effect": f"{row.result.effect:+.1f}".replace("-", "−")
        if row.result and row.result.effect is not None
        else UNKNOWN,
        "p": _describe_p(row),
        "required": UNKNOWN if row.required_pairs is None else str(row.required_pairs),
        "caveats": list_caveats(row),
    }


def _describe_p(row: ExperimentRow) -> str:
    if row.result is None:
        return UNKNOWN
    return "<0.001" if row.result.p < 0.001 else f"{row.result.p:.3f}"


def _make_point(line: dict[str, Any], metric: Metric) -> dict[str, Any]:
    """Return a line of the chart of comparison.js."""
    last = line["row"].result.last if line["row"].result else None
    return {
        "number": line["number"],
        "name": line["parts"],
        "metric": metric.label,
        "better": metric.better,
        "place": f"{line['row'].pairs} pairs",
        "ratio": last and last.ratio,
        "low": last and last.low,
        "high": last and last.high,
        "result": line["kind"] if line["kind"] != "none" else line["outcome"],
        "kind": line["kind"],
        "a": line["a"],
        "b": line["b"],
        "url": f"#experiment-line-{line['number']}",
    }


def _make_query(query: QueryDict, asked: Experiment) -> str:
    """Return the parameters of the API for what the page shows."""
    names = {name: query[name] for name in ("q", "a", "b", "metric") if query.get(name)}
    names["from"] = to_iso(asked.from_at)
    if asked.to_at:
        names["to"] = to_iso(asked.to_at)
    if asked.difference is not None:
        names["difference"] = f"{asked.difference:.6g}"
    return urlencode(names, safe=":,/*")


def _make_comparison_query(query: QueryDict) -> str:
    """Return the parameters of Compare for the same runs."""
    asked = {name: query[name] for name in ("q", "a", "b", "metric") if query.get(name)}
    for name in ("from", "to"):
        if query.get(name):
            asked |= {f"a_{name}": query[name], f"b_{name}": query[name]}
    return urlencode(asked, safe=":,/*")
