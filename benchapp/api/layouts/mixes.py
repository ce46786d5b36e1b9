"""Mixed workloads: measured mixes of reads and writes of each layout, and the estimate of another one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.answers import AnswerPage, ApiAnswer, Time, build, list_columns
from benchapp.api.framework.fixed import FixParameters, check_fix
from benchapp.api.framework.openapi import in_formats
from benchapp.api.framework.parameters import (
    BlockSizeField,
    ChoiceParameter,
    FilterField,
    FormatParameters,
    read_parameters,
)
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import bad_parameter
from benchapp.api.framework.responses import answer_rows
from benchapp.api.framework.view import ApiView
from benchapp.grammar import BadFilter, write_filter
from benchapp.metrics import CATALOG
from benchapp.queries.charts.scaling_defaults import write_fixed
from benchapp.queries.layouts.mixes import (
    AGE_MAXIMUM_DAYS,
    MIX_METRICS,
    MIX_PATTERNS,
    USUAL_READ_SHARE,
    MeasuredMix,
    MixCurve,
    MixEstimate,
    MixQuestion,
    MixRefusal,
    read_mixes,
)


class MixParameters(FixParameters, FormatParameters):
    """The workload, and the read share to estimate."""

    q = FilterField(source="filter")
    pattern = ChoiceParameter(choices=tuple(MIX_PATTERNS), required=False, default="random")
    block_size = BlockSizeField()
    read_share = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        default=USUAL_READ_SHARE,
        help_text="percent of reads to estimate",
    )
    metric = ChoiceParameter(choices=MIX_METRICS, required=False, default="iops")
    max_age_days = serializers.IntegerField(
        required=False, min_value=1, max_value=AGE_MAXIMUM_DAYS, help_text="age of the newest run, at most"
    )


class MixLevelAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A measured mix."""

    read_share_percent: int
    median: Annotated[
        float | None, Meta(description="of reads and writes together, in the metric's base unit")
    ]
    p10: float
    p90: float
    n: Annotated[int, Meta(description="runs of the level")]
    last_at: Time
    series: Sequence[int]


class MixEstimateAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A mix that was not measured."""

    read_share_percent: int
    value: Annotated[float, Meta(description="interpolated in the service time")]
    low: Annotated[float, Meta(description="from p10, if reads and writes share one resource")]
    high: Annotated[float, Meta(description="from p90, if they do not")]
    between_percent: Annotated[
        Sequence[int], Meta(description="the two measured read shares that it is interpolated between")
    ]


class MixCurveAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A layout under one load."""

    title: str
    volume_type: str | None
    volume_count: int | None
    stripe_count: int | None
    instance_type: str | None
    filesystem: str | None
    volume_size_bytes: int | None
    provisioned_iops: int | None
    raid_level: str | None
    chunk_size_bytes: int | None
    iodepth: int | None
    numjobs: int | None
    measured: Annotated[Sequence[MixLevelAnswer], Meta(description="by ascending read share")]
    is_measured: Annotated[bool, Meta(description="the read share of the question was measured")]
    estimate: Annotated[
        MixEstimateAnswer | None, Meta(description="null if the read share was measured, or is refused")
    ]
    refusal: Annotated[
        MixRefusal | None,
        Meta(description="why there is no estimate; outside: nothing is extrapolated"),
    ]
    badges: Annotated[Sequence[str], Meta(description="of the series of all read shares")]
    incidents: Annotated[Sequence[int], Meta(description="open incidents of these series")]


class MixRow(ApiAnswer, kw_only=True, frozen=True):
    """A line of CSV and NDJSON: a measured mix, or the estimate."""

    title: str
    iodepth: int | None
    numjobs: int | None
    read_share_percent: int
    is_interpolated: bool
    value: Annotated[float | None, Meta(description="median of a measured mix")]
    low: Annotated[float, Meta(description="p10 of a measured mix")]
    high: Annotated[float, Meta(description="p90 of a measured mix")]
    n: Annotated[int | None, Meta(description="null if interpolated")]
    between_low_percent: int | None
    between_high_percent: int | None
    badges: Annotated[Sequence[str], Meta(description="of the series of all read shares of this load")]
    incidents: Annotated[Sequence[int], Meta(description="open incidents of these series")]


class MixPage(AnswerPage, kw_only=True, frozen=True):
    metric: str
    read_share_percent: int
    fixed: Annotated[Mapping[str, Sequence[Any]], Meta(description="dimensions with one value")]
    series: Annotated[int, Meta(description="series that count")]
    outdated: Annotated[int, Meta(description="series left out for their age")]
    hidden_by_fixed: int
    incomplete: Annotated[int, Meta(description="mixes of which one direction is missing")]
    alone: Annotated[int, Meta(description="loads of which a single read share was measured")]
    is_cut: Annotated[bool, Meta(description="more series match than are read")]
    curves: Annotated[Sequence[MixCurveAnswer], Meta(description="by layout and load")]


class MixesView(ApiView):
    """Mixed workloads."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_mixes",
        parameters=[MixParameters],
        responses=in_formats(MixPage, "a row for each measured mix, and for each estimate"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Read the throughput by the share of reads, measured and interpolated, of each layout and load."""
        wanted = read_parameters(request, MixParameters)
        format, fix = wanted.pop("format"), wanted.pop("fix")
        try:
            answer = read_mixes(MixQuestion(**wanted))
        except BadFilter as problem:
            # Its terms and those of the workload together are too many.
            raise bad_parameter("q", problem) from problem
        check_fix(fix, [each.dimension for each in answer.fixed])
        share = answer.question.read_share
        is_json = format == "json"
        rows: list[ApiAnswer] = []
        for curve in answer.curves:
            rows += [_describe_curve(curve, share)] if is_json else list(_list_rows(curve, share))
        return answer_rows(
            request,
            MixPage,
            rows,
            name="curves",
            columns=list_columns(MixCurveAnswer if is_json else MixRow),
            format=format,
            file_name="mixes",
            about={
                "metric": answer.question.metric,
                "read_share_percent": share,
                "fixed": {fixed.dimension: fixed.values for fixed in answer.fixed},
                "series": answer.series_count,
                "outdated": answer.outdated_count,
                "hidden_by_fixed": answer.hidden_count,
                "incomplete": answer.incomplete_count,
                "alone": answer.alone_count,
                "is_cut": answer.is_cut,
            },
            context={
                "metric": answer.question.metric,
                "unit": CATALOG[answer.question.metric].unit,
                "pattern": answer.question.pattern,
                "filter": write_filter(answer.shown_filter),
                "fixed": write_fixed(answer.fixed),
                "is_cut": answer.is_cut,
            },
            left_out={
                "fixed": write_fixed(answer.fixed),
                "hidden_by_fixed": answer.hidden_count,
                "outdated": answer.outdated_count,
                "incomplete": answer.incomplete_count,
                "alone": answer.alone_count,
            },
        )


def _describe_curve(curve: MixCurve, read_share: int) -> MixCurveAnswer:
    found = curve.estimate(read_share)
    return build(
        MixCurveAnswer,
        curve.layout,
        curve,
        measured=[_describe_mix(mix) for mix in curve.mixes],
        is_measured=isinstance(found, MeasuredMix),
        estimate=_describe_estimate(found) if isinstance(found, MixEstimate) else None,
        refusal=found if isinstance(found, str) else None,
        incidents=curve.incident_ids,
    )


def _describe_mix(mix: MeasuredMix) -> MixLevelAnswer:
    return build(MixLevelAnswer, mix.spread, read_share_percent=mix.read_share, series=mix.series_ids)


def _describe_estimate(estimate: MixEstimate) -> MixEstimateAnswer:
    return build(
        MixEstimateAnswer,
        estimate,
        read_share_percent=_percent(estimate.read_share),
        between_percent=[_percent(estimate.below), _percent(estimate.above)],
    )


def _list_rows(curve: MixCurve, read_share: int) -> Iterator[MixRow]:
    found = curve.estimate(read_share)
    for mix in curve.mixes:
        spread = mix.spread
        yield build(
            MixRow,
            curve,
            title=curve.layout.title,
            read_share_percent=mix.read_share,
            is_interpolated=False,
            value=spread.median,
            low=spread.p10,
            high=spread.p90,
            n=spread.n,
            between_low_percent=None,
            between_high_percent=None,
            incidents=curve.incident_ids,
        )
    if isinstance(found, MixEstimate):
        yield build(
            MixRow,
            curve,
            found,
            title=curve.layout.title,
            read_share_percent=read_share,
            is_interpolated=True,
            n=None,
            between_low_percent=_percent(found.below),
            between_high_percent=_percent(found.above),
            incidents=curve.incident_ids,
        )


def _percent(share: float) -> int:
    return round(share * 100)
