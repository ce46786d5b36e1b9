"""The measured layouts that meet a requirement, and what to measure next as a member of an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import BadFilter, write_filter
from benchapp.charts.read.scaling_defaults import write_fixed
from benchapp.framework.api.answers import ApiAnswer, Time, build, list_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    BlockSizeField,
    ChoiceParameter,
    FilterField,
    FixParameters,
    FormatParameters,
    NamesField,
    check_fix,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_json, answer_lines, state_left_out
from benchapp.framework.api.view import ApiView
from benchapp.layouts.read.next_runs import NextRun, NextRuns, plan_next_runs
from benchapp.layouts.read.prices import UnknownRegion
from benchapp.layouts.read.question import (
    AGE_MAXIMUM_DAYS,
    PATTERNS,
    PRICED_PARTS,
    REQUIRED_MAXIMUM,
    VARYING,
    LayoutQuestion,
)
from benchapp.layouts.read.ranking import LayoutRanking, MeasuredLoad, RankedLayout, rank_layouts
from benchapp.layouts.read.run_commands import RunCommand
from benchapp.layouts.rules.next_runs import RunReason
from benchapp.layouts.rules.ranking import VERDICTS, Lack, Verdict


class NextMeasurementAnswer(ApiAnswer, kw_only=True, frozen=True):
    title: str
    iodepth: int | None
    numjobs: int | None
    reasons: Sequence[RunReason]
    runs: Annotated[int, Meta(description="further runs; 0: more than 30 would be needed")]
    n: Annotated[int, Meta(description="runs so far")]
    iops: Annotated[float | None, Meta(description="median at this load")]
    last_at: Annotated[Time | None, Meta(description="of the newest run")]
    is_possible: Annotated[bool, Meta(description="false: needs a new host or volume")]


class NextRunsAnswer(ApiAnswer, kw_only=True, frozen=True):
    measurements: Sequence[NextMeasurementAnswer]
    commands: Sequence[RunCommand]
    more: Annotated[int, Meta(description="measurements that are not listed")]
    duration_s: Annotated[float | None, Meta(description="of all commands; null if one is unknown")]


def next_runs_parameter() -> ChoiceParameter:
    """Return the field that asks for a plan."""
    return ChoiceParameter(choices=("1",), required=False, help_text="also what to measure next, JSON only")


def describe_next_runs(plan: NextRuns) -> NextRunsAnswer:
    """Return a plan as the API has it."""
    return NextRunsAnswer(
        measurements=[_describe_measurement(each) for each in plan.measurements],
        commands=plan.commands,
        more=plan.more,
        duration_s=plan.duration_s,
    )


def _describe_measurement(measured: NextRun) -> NextMeasurementAnswer:
    return build(
        NextMeasurementAnswer,
        measured,
        reasons=measured.reasons,
    )


class LayoutLoadAnswer(ApiAnswer, kw_only=True, frozen=True):
    iodepth: int | None
    numjobs: int | None
    block_size_bytes: int | None
    file_size_bytes: int | None
    is_direct: bool | None
    engine: str | None
    read_share_percent: Annotated[int | None, Meta(description="of mixes only")]
    iops_median: float | None
    iops_p10: float | None
    bandwidth_median_bytes_per_s: float | None
    bandwidth_p10_bytes_per_s: float | None
    latency_p99_median_ns: Annotated[
        float | None, Meta(description="of several hosts the one in the middle, of two the higher")
    ]
    latency_p99_p90_ns: Annotated[float | None, Meta(description="p90 over the runs")]


class LayoutAnswer(LayoutLoadAnswer, kw_only=True, frozen=True):
    """A layout under the load that decides; at_load: that with the least throughput that meets the requirement."""

    verdict: Verdict
    left_out: Annotated[
        int,
        Meta(
            description="series of the load that do not count: most of its series have no such open regression"
        ),
    ]
    verdict_with_all: Annotated[Verdict | None, Meta(description="if they counted; null if left_out is 0")]
    regressed_count: Annotated[int, Meta(description="series of the load that count with an open regression")]
    verdict_without: Annotated[
        Verdict | None,
        Meta(description="without series with an open regression; null if nothing else measures the layout"),
    ]
    missed_file_sizes: Annotated[
        Sequence[int], Meta(description="bytes; file sizes with which a layout that meets it does not")
    ]
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
    capacity_bytes: int | None
    margin: Annotated[float | None, Meta(description="throughput at p10 / required − 1")]
    lacks: Annotated[Sequence[Lack], Meta(description="requirements that are not met")]
    at_load: LayoutLoadAnswer | None
    price_per_month: float | None
    price_is_minimum: Annotated[
        bool | None, Meta(description="something provisioned is not recorded; at least what was measured")
    ]
    price_missing: Annotated[str, Meta(description="why the price is unknown; empty if it is known")]
    volumes_price_per_month: Annotated[
        float | None,
        Meta(description="of the volumes only, also where the instance has no price; null if unknown"),
    ]
    price_per_1000_iops: float | None
    is_on_front: Annotated[bool, Meta(description="no other layout is as cheap and faster")]
    n: Annotated[int, Meta(description="runs of the level")]
    last_at: Time
    series: Sequence[int]
    badges: Sequence[str]
    incidents: Annotated[Sequence[int], Meta(description="open incidents of these series")]


_LAYOUT_COLUMNS: Final = list_columns(LayoutAnswer)


class LayoutsAnswer(ApiAnswer, kw_only=True, frozen=True):
    region: str
    currency: Annotated[str, Meta(description="empty without prices")]
    counts: Annotated[Mapping[str, int], Meta(description="layouts by verdict")]
    closest_miss: LayoutAnswer | None
    first_without: Annotated[
        LayoutAnswer | None,
        Meta(description="the best that meets the requirement without series with an open regression"),
    ]
    fixed: Annotated[Mapping[str, Sequence[Any]], Meta(description="dimensions with one value")]
    series: Annotated[int, Meta(description="series that count")]
    outdated: Annotated[int, Meta(description="series left out for their age")]
    hidden_by_fixed: int
    elsewhere: Annotated[
        Sequence[LayoutAnswer],
        Meta(description="layouts that meet the requirement outside the fixed dimensions, best first"),
    ]
    incomplete: Annotated[int, Meta(description="loads of a mix with one direction only")]
    is_cut: Annotated[bool, Meta(description="more series match than are read")]
    latency_kinds: Annotated[
        Mapping[str, int],
        Meta(description="series by kind of their p99 latency: lat (total), clat (completion)"),
    ]
    next_runs: Annotated[
        NextRunsAnswer, Meta(description="runs that would decide between the two best layouts")
    ]
    layouts: Annotated[
        Sequence[LayoutAnswer], Meta(description="best first; with prices, layouts without one are last")
    ]


def _number(help_text: str, *, least: float = 0.001) -> serializers.FloatField:
    return serializers.FloatField(
        required=False, min_value=least, max_value=REQUIRED_MAXIMUM, help_text=help_text
    )


class LayoutParameters(FixParameters, FormatParameters):
    """What is required; iops or mb_per_s is."""

    q = FilterField(source="filter")
    pattern = ChoiceParameter(choices=tuple(PATTERNS), required=False, default="randread")
    read_share = serializers.IntegerField(
        required=False, min_value=0, max_value=100, help_text="percent, of mixed patterns"
    )
    block_size = BlockSizeField()
    iops = _number("at least, at p10")
    mb_per_s = _number("MB/s (10⁶ bytes) at least, at p10")
    p99_ms = _number("p99 latency in ms at that load, at most, at p90")
    capacity_gb = _number("GB (10⁹ bytes) at least")
    max_price = _number("per month, in the currency of the region", least=0)
    region = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=60,
        help_text="of the prices; default: the first with a price valid today",
    )
    price_of = ChoiceParameter(
        choices=tuple(PRICED_PARTS),
        required=False,
        help_text="default: all; volumes if no instance has a price",
    )
    vary = NamesField(
        VARYING, help_text="what may vary; default: all. The others have their most usual value"
    )
    max_age_days = serializers.IntegerField(
        required=False, min_value=1, max_value=AGE_MAXIMUM_DAYS, help_text="age of the newest run, at most"
    )


_QUESTION: Final = {field.name for field in fields(LayoutQuestion)}


def read_ranking(wanted: Mapping[str, Any]) -> LayoutRanking:
    """Return the ranking that validated `LayoutParameters` ask for. Raises Problem 400."""
    question = LayoutQuestion(**{name: value for name, value in wanted.items() if name in _QUESTION})
    if not question.has_throughput:
        raise bad_parameter("iops", "state iops or mb_per_s")
    try:
        ranking = rank_layouts(question)
    except BadFilter as problem:
        # Its terms and those of the question together are too many.
        raise bad_parameter("q", problem) from problem
    except UnknownRegion as problem:
        raise bad_parameter("region", problem) from problem
    check_fix(wanted["fix"], [each.dimension for each in ranking.fixed])
    return ranking


class LayoutsView(ApiView):
    """The measured layouts that meet a requirement."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="rank_layouts",
        parameters=[LayoutParameters],
        responses=in_formats(LayoutsAnswer, "only the layouts"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Rank the measured layouts by a requirement: those that meet it by price, then what is close."""
        wanted = read_parameters(request, LayoutParameters)
        answer_format = wanted["format"]
        ranking = read_ranking(wanted)
        question = ranking.question
        rows = [_describe_row(row) for row in ranking.all_rows]
        left_out: dict[str, str | int] = {
            "fixed": write_fixed(ranking.fixed),
            "hidden_by_fixed": ranking.hidden_count,
            "outdated": ranking.outdated_count,
            "incomplete": ranking.incomplete_count,
        }
        if answer_format != "json":
            return answer_lines(
                request,
                rows,
                columns=_LAYOUT_COLUMNS,
                answer_format=answer_format,
                file_name="layouts",
                context={
                    "pattern": question.pattern,
                    "region": ranking.region,
                    "currency": ranking.currency,
                    "filter": write_filter(ranking.shown_filter),
                    "fixed": write_fixed(ranking.fixed),
                    "is_cut": ranking.is_cut,
                },
                left_out=left_out,
            )
        return answer_json(request, _describe_ranking(ranking, rows), headers=state_left_out(left_out))


def _describe_ranking(ranking: LayoutRanking, rows: Sequence[LayoutAnswer]) -> LayoutsAnswer:
    return build(
        LayoutsAnswer,
        ranking,
        counts={verdict: ranking.count(verdict) for verdict in VERDICTS},
        closest_miss=None if ranking.closest is None else _describe_row(ranking.closest),
        first_without=None if ranking.first_without is None else _describe_row(ranking.first_without),
        fixed={fixed.dimension: fixed.values for fixed in ranking.fixed},
        series=ranking.series_count,
        outdated=ranking.outdated_count,
        hidden_by_fixed=ranking.hidden_count,
        elsewhere=[_describe_row(row) for row in ranking.elsewhere],
        incomplete=ranking.incomplete_count,
        latency_kinds=ranking.latency_kinds,
        next_runs=describe_next_runs(plan_next_runs(ranking)),
        layouts=rows,
    )


def _describe_row(row: RankedLayout) -> LayoutAnswer:
    assessment, load, price = row.assessment, row.load, row.price
    return build(
        LayoutAnswer,
        row.layout,
        load,
        row,
        **_describe_levels(load),
        margin=assessment.margin,
        lacks=assessment.lacks,
        at_load=None
        if row.at_load is None
        else build(LayoutLoadAnswer, row.at_load, **_describe_levels(row.at_load)),
        price_per_month=row.price_amount,
        price_is_minimum=None if price is None or row.least_price is None else price.is_minimum,
        price_missing="no prices" if price is None else price.missing,
        volumes_price_per_month=None if price is None else price.volumes_amount,
        series=load.series_ids,
        incidents=row.incident_ids,
    )


def _describe_levels(load: MeasuredLoad) -> dict[str, float | None]:
    iops, bandwidth, latency = (
        load.levels.iops,
        load.levels.bandwidth_bytes_per_s,
        load.levels.latency_p99_ns,
    )
    return {
        "iops_median": None if iops is None else iops.median,
        "iops_p10": None if iops is None else iops.p10,
        "bandwidth_median_bytes_per_s": None if bandwidth is None else bandwidth.median,
        "bandwidth_p10_bytes_per_s": None if bandwidth is None else bandwidth.p10,
        "latency_p99_median_ns": None if latency is None else latency.median,
        "latency_p99_p90_ns": None if latency is None else latency.p90,
    }
