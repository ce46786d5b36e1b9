"""The result of an A/B experiment and the runs that it needs."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import AnswerPage, ApiAnswer, build, list_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterField,
    FilterParameters,
    FormatParameters,
    MomentField,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_rows
from benchapp.framework.api.view import ApiView
from benchapp.framework.read.days import MOMENTS
from benchapp.layouts.read.experiment import (
    DIFFERENCE_MAXIMUM,
    DIFFERENCE_MINIMUM,
    EXPERIMENT_METRICS,
    BadExperiment,
    Experiment,
    ExperimentRow,
    read_experiment,
)
from benchapp.layouts.rules.experiments import PLANNED_PAIRS_MAXIMUM, Caveat, Look


class ExperimentParameters(FilterParameters, FormatParameters):
    """Two arms, their start, and what to find; `q` is common to both arms."""

    metric = ChoiceParameter(choices=EXPERIMENT_METRICS, required=False, default="iops")
    difference = serializers.FloatField(
        required=False,
        min_value=DIFFERENCE_MINIMUM,
        max_value=DIFFERENCE_MAXIMUM,
        help_text="smallest relative difference to find, 0.05 for 5 %; default: the threshold of the metric",
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the arms and the time range; `from` is a keyword of Python."""
        arms = {name: FilterField() for name in ("a", "b")}
        for name, arm in arms.items():
            arm.help_text = f"filter of arm {name.upper()}, required: label.arm:{name}"
        return super().get_fields() | {
            **arms,
            "from": MomentField(
                source="from_at", required=False, help_text=f"start, inclusive, required: {MOMENTS}"
            ),
            "to": MomentField(source="to_at", required=False, help_text="exclusive, as `from`"),
        }


class ExperimentRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    title: Annotated[str, Meta(description="workload and layout common to both arms")]
    a_series: Sequence[int]
    b_series: Sequence[int]
    a_runs: int
    b_runs: int
    a_median: Annotated[float | None, Meta(description="of the paired runs, in the unit of the metric")]
    b_median: float | None
    pairs: int
    unpaired: Annotated[int, Meta(description="runs without a neighbor of the other arm")]
    ratio: Annotated[float | None, Meta(description="geometric mean of B / A over the pairs")]
    ratio_low: Annotated[
        float | None,
        Meta(
            description="interval that holds at every look, of all rows together 95 %; null while it is unbounded:"
            " below five pairs, and below more if row_error_rate is smaller than 0.05"
        ),
    ]
    ratio_high: float | None
    p: Annotated[float | None, Meta(description="valid at any time, of this row alone")]
    effect: Annotated[
        float | None, Meta(description="mean / standard deviation of the logarithms of the ratios of pairs")
    ]
    outcome: Annotated[
        Literal["different", "equivalent", "undecided"],
        Meta(description="equivalent: the interval is within the difference to find"),
    ]
    decided_after: Annotated[int | None, Meta(description="pairs after which the outcome was what it is")]
    is_worse: Annotated[bool | None, Meta(description="B against A; null unless they differ")]
    drift: Annotated[float | None, Meta(description="relative change of both arms over the experiment")]
    drift_p: float | None
    difference_drift: Annotated[
        float | None, Meta(description="relative change of B / A over the experiment")
    ]
    difference_drift_p: float | None
    order_effect: Annotated[
        float | None, Meta(description="B / A of pairs that begin with B, against pairs that begin with A")
    ]
    order_effect_p: float | None
    caveats: Sequence[Caveat]
    spread: Annotated[
        float | None, Meta(description="standard deviation of the logarithm of the ratio of a pair")
    ]
    is_spread_measured: Annotated[bool, Meta(description="false: estimated from the current level")]
    required_pairs: Annotated[
        int | None,
        Meta(description=f"from the start; null for more than {PLANNED_PAIRS_MAXIMUM} or without a spread"),
    ]
    looks: Annotated[Sequence[Look], Meta(description="after each pair")]


# The CSV has no column for a list of objects.
_COLUMNS = tuple(name for name in list_columns(ExperimentRowAnswer) if name != "looks")


class PairPlanAnswer(ApiAnswer, kw_only=True, frozen=True):
    pairs: Annotated[int, Meta(description="from the start, enough for every row")]
    runs: int
    order: Annotated[str, Meta(description="of the arms, a letter for each run: abba…")]


class ExperimentPage(AnswerPage, kw_only=True, frozen=True):
    metric: str
    difference: float
    row_error_rate: Annotated[float, Meta(description="0.05 / number of rows")]
    plan: Annotated[
        PairPlanAnswer | None,
        Meta(
            description=f"null if a row needs more than {PLANNED_PAIRS_MAXIMUM} pairs, or has no known spread"
        ),
    ]
    only_a: Annotated[int, Meta(description="series of arm A without a matching one of arm B")]
    only_b: int
    is_cut: Annotated[bool, Meta(description="a series has more values than are evaluated")]
    rows: Sequence[ExperimentRowAnswer]


class ExperimentView(ApiView):
    """An A/B experiment."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="evaluate_experiment",
        parameters=[ExperimentParameters],
        responses=in_formats(ExperimentPage, "only the rows, the CSV without looks"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Evaluate an A/B experiment, and plan its runs."""
        wanted = read_parameters(request, ExperimentParameters)
        experiment = _read_experiment(wanted)
        try:
            found = read_experiment(experiment)
        except BadExperiment as error:
            raise bad_parameter("q", error) from error
        plan = found.plan and PairPlanAnswer(
            pairs=found.plan.pairs, runs=2 * found.plan.pairs, order=found.plan.order
        )
        return answer_rows(
            request,
            ExperimentPage,
            [_describe_row(row) for row in found.rows],
            name="rows",
            columns=_COLUMNS if wanted["format"] == "csv" else (),
            answer_format=wanted["format"],
            file_name="experiment",
            about={
                "metric": experiment.metric,
                "difference": experiment.smallest_difference,
                "row_error_rate": found.row_error_rate,
                "plan": plan,
                "only_a": found.only_a,
                "only_b": found.only_b,
                "is_cut": found.is_cut,
            },
            context={
                "metric": experiment.metric,
                "unit": CATALOG[experiment.metric].unit,
                "a": write_filter(experiment.a),
                "b": write_filter(experiment.b),
                "filter": write_filter(experiment.common),
                "is_cut": found.is_cut,
            },
        )


def _read_experiment(wanted: dict[str, Any]) -> Experiment:
    for name in ("a", "b"):
        if not wanted[name].terms and not wanted[name].words:
            raise bad_parameter(name, f"an arm is a filter: label.arm:{name}")
    if "from_at" not in wanted:
        raise bad_parameter("from", "an experiment has a start")
    return Experiment(
        wanted["a"],
        wanted["b"],
        from_at=wanted["from_at"],
        to_at=wanted.get("to_at"),
        common=wanted["match"],
        metric=wanted["metric"],
        difference=wanted.get("difference"),
    )


def _describe_row(row: ExperimentRow) -> ExperimentRowAnswer:
    result, check = row.result, row.check
    last = result.last if result else None
    drifts = {
        "drift": check.drift if check else None,
        "difference_drift": check.difference if check else None,
        "order_effect": check.order if check else None,
    }
    return build(
        ExperimentRowAnswer,
        row,
        a_series=row.a.series_ids,
        b_series=row.b.series_ids,
        a_runs=row.a.runs,
        b_runs=row.b.runs,
        a_median=row.a.median,
        b_median=row.b.median,
        ratio=last and last.ratio,
        ratio_low=last and last.low,
        ratio_high=last and last.high,
        p=result and result.p,
        effect=result and result.effect,
        outcome=result.outcome if result else "undecided",
        decided_after=result and result.decided_after,
        caveats=check.caveats if check else (),
        looks=result.looks if result else [],
        **{name: drift and drift.change for name, drift in drifts.items()},
        **{f"{name}_p": drift and drift.p for name, drift in drifts.items()},
    )
