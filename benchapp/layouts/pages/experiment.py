"""The page of an A/B experiment: form, result in words, plan as commands."""

import re
from collections.abc import Sequence
from shlex import quote
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import (
    CATALOG,
    UNKNOWN,
    Metric,
    format_count,
    format_integer,
    format_percent,
    format_signed_percent,
    format_value,
)
from benchapp.charts.texts.comparison import find_shared_parts, split_title
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import FilterTextField
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.time_range import BoundField
from benchapp.framework.times import to_iso
from benchapp.layouts.read.experiment import (
    DIFFERENCE_MAXIMUM,
    DIFFERENCE_MINIMUM,
    EXPERIMENT_ERROR_RATE,
    EXPERIMENT_METRICS,
    BadExperiment,
    Experiment,
    ExperimentResult,
    ExperimentRow,
    read_experiment,
)
from benchapp.layouts.rules.experiments import PAIRS_MINIMUM, PLANNED_PAIRS_MAXIMUM, POWER, Caveat, DriftCheck

_NAMES: Final = {
    "q": "Both",
    "a": "Arm A",
    "b": "Arm B",
    "metric": "Metric",
    "difference": "Difference to find",
}


class ExperimentForm(forms.Form):
    """Two arms, their common filter, the time range, and what to find."""

    q = FilterTextField()
    a = FilterTextField()
    b = FilterTextField()
    metric = forms.ChoiceField(
        required=False,
        choices=[(name, CATALOG[name].label) for name in EXPERIMENT_METRICS],
        error_messages={"invalid_choice": f"choose one of {', '.join(EXPERIMENT_METRICS)}."},
    )
    difference = forms.FloatField(
        required=False, min_value=100 * DIFFERENCE_MINIMUM, max_value=100 * DIFFERENCE_MAXIMUM
    )

    def __init__(self, values: Any) -> None:
        super().__init__(values)
        # Keywords of Python.
        self.fields["from"] = BoundField("Start", is_end=False)
        self.fields["to"] = BoundField("End", is_end=True)

    def clean(self) -> dict[str, Any]:
        """Require both arms, which differ, and the start, unless the form is empty."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self.is_empty or self.errors:
            return cleaned
        for name in [name for name in ("a", "b") if cleaned[name] == Filter()]:
            self.add_error(name, f"an arm is a filter, as label.arm:{name}.")
        if not self.errors and cleaned["a"] == cleaned["b"]:
            self.add_error("b", "both arms are the same.")
        if cleaned.get("from") is None:
            self.add_error(None, "An experiment has a start: runs before it do not count.")
        return cleaned

    @property
    def is_empty(self) -> bool:
        """Return whether neither arm is given."""
        return not (self.data.get("a") or self.data.get("b"))

    def list_problems(self) -> list[str]:
        """Return the errors as sentences."""
        return [
            message if name not in _NAMES else f"{_NAMES[name]}: {message}"
            for name, messages in self.errors.items()
            for message in map(str, messages)
        ]

    def make_experiment(self) -> Experiment:
        """Return the experiment of a valid form that is not empty."""
        values = self.cleaned_data
        return Experiment(
            values["a"],
            values["b"],
            from_at=values["from"],
            to_at=values["to"],
            common=values["q"],
            metric=values["metric"] or "iops",
            difference=None if values["difference"] is None else values["difference"] / 100,
        )


_LABEL_PREFIX: Final = "label."
# What `bench-agent experiment` accepts as name of an arm and of their label.
_ARM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def describe_experiment_title(experiment: Experiment, found: ExperimentResult) -> str:
    """Return the main result."""
    rows = [row for row in found.rows if row.result]
    if not found.rows:
        return "Experiment: no matching series"
    if not rows:
        return "Experiment: no pairs of runs"
    if len(rows) == 1:
        return f"Experiment: {describe_outcome(rows[0], experiment)}, {CATALOG[experiment.metric].label}"
    worse, better = (sum(row.is_worse is flag for row in rows) for flag in (True, False))
    same = sum(row.result is not None and row.result.outcome == "equivalent" for row in rows)
    return (
        f"Experiment: of {format_count(len(rows), 'workload')} {worse} worse with B, {better} better,"
        f" {same} equivalent, {len(rows) - worse - better - same} undecided"
    )


def describe_outcome(row: ExperimentRow, experiment: Experiment) -> str:
    """Return the outcome of one row: "B is better, +10.1 % after 8 pairs"."""
    result = row.result
    if result is None:
        return "no pairs of runs"
    if result.last.low is None:
        return f"{format_count(result.last.pairs, 'pair')}: too few for an interval"
    if result.outcome == "different":
        word = "worse" if row.is_worse else "better"
        return f"B is {word}, {format_signed_percent(result.last.ratio - 1)} after {result.last.pairs} pairs"
    if result.outcome == "equivalent":
        return f"no difference of {format_percent(experiment.smallest_difference)} after {result.last.pairs} pairs"
    return f"undecided after {result.last.pairs} pairs"


def describe_plan(experiment: Experiment, found: ExperimentResult) -> str:
    """Return how many pairs are required, and how many there are."""
    if not found.rows:
        return (
            "The number of runs is planned from the spread of earlier runs of the same workload and layout."
        )
    difference = format_percent(experiment.smallest_difference)
    if found.plan is None:
        if any(row.spread is None for row in found.rows):
            return (
                f"The spread is not known. Measure each workload {PAIRS_MINIMUM} times before the experiment."
            )
        return (
            f"More than {PLANNED_PAIRS_MAXIMUM} pairs are required to find a difference of {difference}. Search for a"
            " larger difference, or reduce the spread."
        )
    measured = min(row.pairs for row in found.rows)
    return (
        f"{format_integer(found.plan.pairs)} pairs ({format_integer(2 * found.plan.pairs)} runs) find a difference of"
        f" {difference} with a probability of at least {POWER:.0%}; {format_count(measured, 'pair')} measured. The"
        " experiment ends as soon as the outcome is decided."
    ).replace("%;", " %;")


def describe_interval(found: ExperimentResult) -> str:
    """Return what the intervals mean."""
    together = (
        "" if len(found.rows) < 2 else f" together; each has an error rate of {found.row_error_rate:.2g}"
    )
    return f"{1 - EXPERIMENT_ERROR_RATE:.0%} interval that holds at every look{together}".replace("%", " %")


def list_caveats(row: ExperimentRow) -> list[str]:
    """Return the findings of the checks of one row as sentences."""
    return [_describe_caveat(caveat, row, row.check) for caveat in row.check.caveats] if row.check else []


def _describe_caveat(caveat: Caveat, row: ExperimentRow, check: DriftCheck) -> str:
    if caveat == "not-interleaved":
        return (
            f"{row.unpaired} runs are not used: no run of the other arm is next to them. Alternate the arms."
        )
    if caveat == "unbalanced":
        return "Most pairs begin with the same arm: a drift does not cancel."
    if caveat == "drift" and check.drift:
        change = format_signed_percent(check.drift.change)
        return f"Both arms drift: {change} over the experiment. Pairs in ABBA order cancel a linear drift."
    if caveat == "difference-drifts" and check.difference:
        change = format_signed_percent(check.difference.change)
        return f"B / A changes by {change} over the experiment: no single ratio describes it."
    change = format_signed_percent(check.order.change) if check.order else ""
    return f"Pairs that begin with B have another ratio ({change}): a run depends on the one before it."


def write_commands(experiment: Experiment, pairs: int) -> str:
    """Return the command that runs so many pairs of the arms in ABBA order.

    Labels and profile are those that the filters name; what sets an arm up is for the reader to fill in. Arms that
    differ in more than one label are a shell loop.
    """
    named = _name_arms(experiment)
    if named is None:
        return _write_loop(experiment, pairs)
    label, arms = named
    profile = _find_value(experiment.common, "profile") or _find_value(experiment.a, "profile") or "PROFILE"
    own = "" if label == "arm" else f" --arm-label {quote(label)}"
    own += "" if arms == ("a", "b") else f" --arms {quote(','.join(arms))}"
    # Each experiment has its own id as this label.
    labels = "".join(
        f" --label {quote(f'{key}={value}')}"
        for key, value in _list_labels(experiment.common).items()
        if key != "experiment"
    )
    return (
        f"bench-agent experiment --pairs {pairs} --profile {quote(profile)}{labels}{own}"
        " --switch-command './set-up \"$BENCH_AGENT_ARM\"'"
    )


def _name_arms(experiment: Experiment) -> tuple[str, tuple[str, str]] | None:
    """Return the label of the arms and its values; None if the agent's command cannot run them."""
    if _find_value(experiment.a, "profile") != _find_value(experiment.b, "profile"):
        return None
    a, b = _list_labels(experiment.a), _list_labels(experiment.b)
    if not a and not b:
        return "arm", ("a", "b")
    names = (*a.values(), *b.values())
    if len(a) != 1 or a.keys() != b.keys() or names[0] == names[1]:
        return None
    key = next(iter(a))
    is_valid = all(_ARM.fullmatch(text) for text in (key, *names))
    return (key, (names[0], names[1])) if is_valid and key != "experiment" else None


def _write_loop(experiment: Experiment, pairs: int) -> str:
    profile = _find_value(experiment.common, "profile") or "PROFILE"
    lines = [f"for arm in $(yes 'a b b a' | head -n {(pairs + 1) // 2}); do", "    case $arm in"]
    for name, arm in (("a", experiment.a), ("b", experiment.b)):
        labels = "".join(
            f" --label {quote(f'{key}={value}')}"
            for key, value in _list_labels(experiment.common, arm).items()
        )
        own = _find_value(arm, "profile") or profile
        lines.append(f"        {name}) ./set-up-{name} && bench-agent run --profile {quote(own)}{labels} ;;")
    return "\n".join([*lines, "    esac || break", "done"])


def _list_labels(*filters: Filter) -> dict[str, str]:
    return {
        term.dimension.removeprefix(_LABEL_PREFIX): value
        for filter in filters
        for term in filter.terms
        if term.dimension.startswith(_LABEL_PREFIX) and (value := _find_value(filter, term.dimension))
    }


def _find_value(filter: Filter, dimension: str) -> str:
    """Return the one value that a filter has for a dimension; "" for several or none.

    "" also for one with control characters: filters come from links, and a terminal acts on them between quotation
    marks.
    """
    for term in filter.terms:
        if term.dimension == dimension and not term.is_negated and len(term.tests) == 1:
            (test,) = term.tests
            value = str(test.values[0]) if test.operator == "=" else ""
            return value if value.isprintable() else ""
    return ""


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
