"""A metric of runs by a condition recorded with each of them."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import AnswerPage, ApiAnswer, define_answer, list_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    FormatParameters,
    SpanParameters,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_rows
from benchapp.framework.api.view import ApiView
from benchapp.series.read.dependence import CONDITIONS, BadDependence, DependenceRow, read_dependence
from benchapp.series.rules import DEPENDENCE_FROM


class DependenceParameters(FilterParameters, SpanParameters, FormatParameters):
    """Metric and condition, and the time range of the runs."""

    metric = ChoiceParameter(choices=tuple(CATALOG), required=False, default="bandwidth_bytes_per_s")
    condition = ChoiceParameter(choices=tuple(CONDITIONS), required=False, default="extents")


class DependencePointAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A run; a line of the CSV."""

    series: int
    run: int
    condition: Annotated[float, Meta(description="its value, in its base unit")]
    value: Annotated[float, Meta(description="of the metric, in its base unit")]


class DependenceAnswer(ApiAnswer, kw_only=True, frozen=True):
    series: int
    title: str
    n: int
    slope: Annotated[
        float | None,
        Meta(
            description="Theil and Sen, metric per condition in base units; null for fewer than"
            f" {DEPENDENCE_FROM} runs or a single value"
        ),
    ]
    slope_low: Annotated[float | None, Meta(description="95 % interval")]
    slope_high: float | None
    intercept: float | None
    tau: Annotated[float | None, Meta(description="Kendall's tau-b")]
    p: Annotated[float | None, Meta(description="two-sided")]
    is_significant: Annotated[bool, Meta(description="p is below 0.05 and the interval excludes 0")]
    below_round_trip: Annotated[
        int | None,
        Meta(description="runs with a latency below the round-trip time; null for other conditions"),
    ]
    is_cut: Annotated[bool, Meta(description="the oldest runs are left out")]
    points: Sequence[DependencePointAnswer]


DependencePage = define_answer(
    "DependencePage", AnswerPage, metric=str, condition=str, series=Sequence[DependenceAnswer]
)


class DependenceView(ApiView):
    """A metric by a condition."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_dependence",
        parameters=[DependenceParameters],
        responses=in_formats(DependencePage, "the points of all series"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Fit a metric by a condition of the runs, for each series."""
        wanted = read_parameters(request, DependenceParameters)
        try:
            found = read_dependence(
                wanted["match"],
                metric=wanted["metric"],
                condition=wanted["condition"],
                from_at=wanted.get("from_at"),
                to_at=wanted.get("to_at"),
            )
        except BadDependence as error:
            raise bad_parameter("q", error) from error
        is_json, by_series = wanted["format"] == "json", {row.series_id: row for row in found}
        rows: list[ApiAnswer] = []
        for row in found:
            rows += [_describe_row(row)] if is_json else list(_list_points(row))
        return answer_rows(
            request,
            DependencePage,
            rows,
            name="series",
            columns=list_columns(DependenceAnswer if is_json else DependencePointAnswer),
            answer_format=wanted["format"],
            file_name="dependence",
            about={"metric": wanted["metric"], "condition": wanted["condition"]},
            context={
                "metric": wanted["metric"],
                "unit": CATALOG[wanted["metric"]].unit,
                "condition_name": wanted["condition"],
                "condition_unit": CONDITIONS[wanted["condition"]].unit,
                "title": lambda point: by_series[point.series].title,
                "filter": write_filter(wanted["match"]),
                "is_cut": lambda point: by_series[point.series].is_cut,
            },
        )


def _describe_row(row: DependenceRow) -> DependenceAnswer:
    fit = row.fit
    return DependenceAnswer(
        series=row.series_id,
        title=row.title,
        n=len(row.x),
        slope=fit.slope if fit else None,
        slope_low=fit.low if fit else None,
        slope_high=fit.high if fit else None,
        intercept=fit.intercept if fit else None,
        tau=fit.tau if fit else None,
        p=fit.p if fit else None,
        is_significant=fit is not None and fit.is_significant,
        below_round_trip=row.below_round_trip,
        is_cut=row.is_cut,
        points=list(_list_points(row)),
    )


def _list_points(row: DependenceRow) -> Iterator[DependencePointAnswer]:
    for run_id, x, y in zip(row.run_ids.tolist(), row.x.tolist(), row.y.tolist(), strict=True):
        yield DependencePointAnswer(series=row.series_id, run=run_id, condition=x, value=y)
