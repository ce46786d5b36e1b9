"""Runs: the list, one with its measurements, its traces, its exclusion from medians."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.corrections.write import list_relabeled
from benchapp.fio.report import Note
from benchapp.framework.api.answers import (
    PREFIX,
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    MetricName,
    Time,
    build,
    define_answer,
    list_columns,
    run_links,
    submission_url,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    FormatParameters,
    PageParameters,
    PositionParameters,
    SpanParameters,
    badge_parameter,
    flag_parameter,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    time_order_parameter,
)
from benchapp.framework.api.permissions import MayEdit, MayRead, find_ingest_host, find_person, name_token
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_json, answer_rows, link_next
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_up
from benchapp.models import DirectionName, Kind, Measurement, Run, State, TraceKind, name_person
from benchapp.series.read.runs import (
    LevelComparison,
    MeasurementSummary,
    RunDetail,
    RunFilter,
    RunRow,
    compare_to_levels,
    describe_missing_run,
    list_runs,
    read_run,
)
from benchapp.series.read.shapes import (
    BadgeRow,
    EnvironmentRow,
    TargetRow,
    WorkloadRow,
    make_badges,
    names_of,
    order_codes,
)
from benchapp.series.read.titles import describe_workload
from benchapp.series.read.traces import TraceRow, read_host_name, read_traces
from benchapp.series.write import REASON_MAXIMUM, BadReason, UnknownRun, exclude_run, include_run


class RunColumns(ApiAnswer, kw_only=True, frozen=True):
    """What lists and details have in common."""

    id: int
    host: str
    pool: str
    profile: str
    started_at: Time
    started_at_is_known: Annotated[bool, Meta(description="false: time of receipt by the server")]
    finished_at: Time | None
    fio_version: str
    error: Annotated[
        int, Meta(description="first errno reported by fio; -1: failed without one; 0: did not fail")
    ]
    has_failed: bool
    is_partial: bool
    badges: Annotated[
        Sequence[str], Meta(description="codes that any of its measurements bears, most severe first")
    ]
    excluded_at: Annotated[
        Time | None, Meta(description="since when the run is excluded from medians; null if included")
    ]
    sweep_id: UUID | None
    target_title: str


@with_columns(RunColumns, TargetRow)
class RunRowAnswer(ChosenColumns, kw_only=True, frozen=True):
    submission_id: UUID
    measurements: Annotated[Sequence[MeasurementSummary], Meta(description="the first 4")]
    measurement_count: int
    url: str
    page: str


class PercentileAnswer(ApiAnswer, kw_only=True, frozen=True):
    percent: float
    ns: float


class MeasurementColumns(ApiAnswer, kw_only=True, frozen=True):
    """What a measurement has beside its workload."""

    id: int
    series_id: int
    ordinal: int
    position: int
    job_name: str
    direction: DirectionName
    error: int
    latency_stddev_ns: Annotated[
        float | None,
        Meta(
            description="total latency (lat), like mean and max; completion latency (clat) if `missing` has"
            " `total`, and in runs of parser_version 1"
        ),
    ]
    latency_kind: Annotated[
        str,
        Meta(
            description="latency kind of the percentiles: clat (completion), lat (total), or empty without any;"
            " not of mean, stddev and max"
        ),
    ]
    total_ios: int | None
    io_bytes: int | None
    clones: int
    missing: Annotated[Mapping[str, str], Meta(description="absent value → reason code")]
    workload_title: str
    measured_s: float | None


@with_columns(LevelComparison)
class LevelComparisonAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A value of the run and the level of its series."""

    metric: MetricName
    n: Annotated[int, Meta(description="runs of the level")]
    change: Annotated[float | None, Meta(description="value / median - 1; null for a median of 0")]
    is_usual: Annotated[
        bool | None,
        Meta(description="whether the value is from p10 to p90 of the level; null below 5 runs"),
    ]


@with_columns(MeasurementColumns, dict.fromkeys(CATALOG, float | None), WorkloadRow)
class MeasurementAnswer(ApiAnswer, kw_only=True, frozen=True):
    runtime_s: Annotated[float | None, Meta(description="configured; measured_s: actual")]
    percentiles: Annotated[
        Sequence[PercentileAnswer],
        Meta(description="as printed by fio, including percentiles with fewer than 10 samples above them"),
    ]
    badges: Sequence[BadgeRow]
    levels: Annotated[
        Sequence[LevelComparisonAnswer],
        Meta(
            description="comparison with the newest level that began before the run; no entry for unknown values,"
            " failed or excluded measurements, and series without a level"
        ),
    ]
    series_url: str


class SubmissionRefAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: UUID
    kind: Kind
    state: State
    received_at: Time
    body_bytes: int
    has_body: bool
    url: str


class RelabeledValueAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A value that a correction states instead of the sender."""

    name: Annotated[str, Meta(description="parameter of POST /fio")]
    value: str | int | None
    stated: Annotated[str | int | None, Meta(description="by the sender; null: not stated")]
    correction: Annotated[int, Meta(description="its id")]
    by: str | None
    at: Time


@with_columns(RunColumns, TargetRow)
class RunDetailAnswer(ApiAnswer, kw_only=True, frozen=True):
    document: int
    labels: Mapping[str, str]
    relabeled: Sequence[RelabeledValueAnswer]
    format: str
    command: Mapping[str, Any]
    warnings: Sequence[Note]
    parser_version: int
    excluded_by: Annotated[str | None, Meta(description="user name; null for an API token without an owner")]
    excluded_reason: Annotated[str, Meta(description="reason; if excluded_at is null, the last reason")]
    environment: EnvironmentRow
    submission: SubmissionRefAnswer
    measurements: Annotated[Sequence[MeasurementAnswer], Meta(description="at most 200, from `position` on")]
    measurement_count: Annotated[int, Meta(description="of the whole run")]
    position: int
    next_position: int | None
    next: str | None
    previous_run_id: int | None
    next_run_id: int | None
    url: str
    page: str
    output: str


RunPage = define_answer("RunPage", AnswerPage, runs=Sequence[RunRowAnswer])
RUN_COLUMNS: Final = list_columns(RunRowAnswer)


def describe_run(run: RunDetail, *, following: str | None) -> RunDetailAnswer:
    """Return one run with all details. following: address of the next measurements."""
    row = run.row
    links = run_links(row.pk)
    levels = compare_to_levels(run)
    url = submission_url(row.submission_id)
    return build(
        RunDetailAnswer,
        run,
        row,
        row.target,
        host=row.host.name,
        pool=row.host.pool,
        badges=order_codes(row.badges),
        excluded_by=row.excluded_by_name or None,
        relabeled=[
            RelabeledValueAnswer(
                name=each.name,
                value=each.value,
                stated=each.stated,
                correction=each.correction.pk,
                by=each.correction.created_by_name or None,
                at=each.correction.created_at,
            )
            for each in list_relabeled(row)
        ],
        environment=EnvironmentRow(
            **{name: getattr(row.environment, name) for name in names_of(EnvironmentRow)}
        ),
        submission=build(SubmissionRefAnswer, row.submission, has_body=row.has_body, url=url),
        measurements=[
            _describe_measurement(measurement, levels.get(measurement.id, ()))
            for measurement in run.measurements
        ],
        next=following,
        output=f"{links['url']}/output",
        **links,
    )


def _describe_measurement(measurement: Measurement, levels: Sequence[LevelComparison]) -> MeasurementAnswer:
    return build(
        MeasurementAnswer,
        measurement,
        measurement.series,
        workload_title=describe_workload(measurement.series, direction=measurement.series.direction),
        measured_s=measurement.runtime_s,
        runtime_s=measurement.series.runtime_s,
        percentiles=[
            PercentileAnswer(percent=percent, ns=value)
            for percent, value in measurement.percentile_values.items()
        ],
        badges=make_badges(measurement.badges),
        levels=[build(LevelComparisonAnswer, level) for level in levels],
        series_url=f"{PREFIX}/series/{measurement.series_id}",
    )


def _describe_row(run: RunRow) -> RunRowAnswer:
    return build(RunRowAnswer, run, run.target, host=run.host_name, **run_links(run.id))


class RunParameters(FilterParameters, SpanParameters, PageParameters):
    """Filters of runs."""

    columns = RUN_COLUMNS
    has_failed = flag_parameter()
    badge = badge_parameter("runs that bear any of these badges, separated by commas")
    valid = flag_parameter(
        source="is_valid",
        help_text="true: no job failed and no badge other than few-samples, too-short and reported",
    )
    sort = time_order_parameter("started_at")


class Runs(ApiView):
    """All runs."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_runs", parameters=[RunParameters], responses=in_formats(RunPage, "the rows only")
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List runs, newest first."""
        wanted = read_parameters(request, RunParameters)
        page = take_page_request(wanted)
        oldest_first = take_oldest_first(wanted)
        chosen = RunFilter(**wanted)
        return answer_list(
            request,
            RunPage,
            RunRowAnswer,
            page=page,
            read=lambda after, limit: list_runs(chosen, after=after, limit=limit, oldest_first=oldest_first),
            describe=lambda runs: list(map(_describe_row, runs)),
            name="runs",
            context={"filter": write_filter(wanted["match"])},
        )


class OneRun(ApiView):
    """One run."""

    permission_classes = [MayRead]
    admits_ingest = True

    @extend_schema(operation_id="read_run", parameters=[PositionParameters], responses=RunDetailAnswer)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Read one run with its measurements; a host token sees only runs of its host, others are 404."""
        run = read_run(run_id, **read_parameters(request, PositionParameters))
        if run is None or find_ingest_host(request) not in (None, run.row.host_id):
            raise not_found("run", describe_missing_run(run_id))
        following = (
            None
            if run.next_position is None
            else link_next(request, str(run.next_position), parameter="position")
        )
        headers = {"Link": f'<{following}>; rel="next"'} if following else {}
        return answer_json(request, describe_run(run, following=following), headers=headers)


class TraceAnswer(ApiAnswer, kw_only=True, frozen=True):
    kind: Annotated[str, Meta(description="iops, bw, lat, clat or slat")]
    direction: DirectionName
    unit: Annotated[str, Meta(description="operations/s, bytes/s or ns")]
    jobs: Annotated[int, Meta(description="number of logs: added up for iops and bw, pooled for latencies")]
    entries: Annotated[int, Meta(description="lines of these logs")]
    bucket_s: Annotated[float, Meta(description="length of a bucket")]


class TracePointAnswer(ApiAnswer, kw_only=True, frozen=True):
    kind: Annotated[str, Meta(description="iops, bw, lat, clat or slat")]
    direction: DirectionName
    unit: str
    at_s: Annotated[float, Meta(description="end of the bucket, from the start of the run")]
    mean: float | None
    minimum: float | None
    maximum: float | None
    count: Annotated[int, Meta(description="entries in the bucket; 0 is a gap")]


TracePage = define_answer(
    "TracePage", AnswerPage, run=int, traces=Sequence[TraceAnswer], points=Sequence[TracePointAnswer]
)


class TraceParameters(FormatParameters):
    """Filters of traces."""

    kind = ChoiceParameter(choices=TraceKind.values, required=False)
    direction = ChoiceParameter(choices=DirectionName.values, required=False)


class RunTracesView(ApiView):
    """The traces of one run."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_run_traces",
        parameters=[TraceParameters],
        responses=in_formats(TracePage, "the points alone"),
    )
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """List the traces of IOPS, bandwidth and latency from the fio logs; at most 600 points per trace."""
        wanted = read_parameters(request, TraceParameters)
        traces = [
            trace
            for trace in read_traces(run_id)
            if wanted.get("kind") in (None, trace.kind) and wanted.get("direction") in (None, trace.direction)
        ]
        host = read_host_name(run_id) if not traces or wanted["format"] == "csv" else None
        if not traces and host is None:
            raise not_found("run", describe_missing_run(run_id))
        return answer_rows(
            request,
            TracePage,
            [point for trace in traces for point in _list_points(trace)],
            name="points",
            columns=list_columns(TracePointAnswer),
            answer_format=wanted["format"],
            file_name=f"run-{run_id}-traces",
            about={"run": run_id, "traces": [build(TraceAnswer, trace) for trace in traces]},
            context={"run": run_id, "host": host},
        )


def _list_points(trace: TraceRow) -> Iterator[TracePointAnswer]:
    for at_s, mean, minimum, maximum, count in zip(
        trace.at_s, trace.mean, trace.minimum, trace.maximum, trace.count, strict=True
    ):
        yield build(
            TracePointAnswer, trace, at_s=at_s, mean=mean, minimum=minimum, maximum=maximum, count=count
        )


_PROBLEMS: Final[ErrorProblems] = {
    UnknownRun: partial(not_found, "run"),
    BadReason: partial(bad_value, pointer="/reason"),
}


class ExclusionAnswer(ApiAnswer, kw_only=True, frozen=True):
    run_id: int
    excluded_at: Time | None
    excluded_by: str | None
    excluded_reason: str


class ExclusionInput(serializers.Serializer[Any]):
    """Reason of an exclusion."""

    reason = serializers.CharField(max_length=REASON_MAXIMUM)


class RunExclusion(ApiView):
    """Exclusion of a run from medians."""

    permission_classes = [MayEdit]

    @extend_schema(operation_id="exclude_run", request=ExclusionInput, responses=ExclusionAnswer)
    def put(self, request: Request, run_id: int) -> HttpResponse:
        """Exclude a run from all medians, with a reason; its values remain available, marked as excluded."""
        refuse_parameters(request)
        wanted = read_body(request, ExclusionInput)
        with map_errors(_PROBLEMS):
            run = exclude_run(run_id, find_person(request), via=name_token(request), **wanted)
        wake_up()
        return answer_json(request, _describe_exclusion(run))

    @extend_schema(operation_id="include_run", responses={200: ExclusionAnswer})
    def delete(self, request: Request, run_id: int) -> HttpResponse:
        """Include a run in medians again; no effect on a run that is not excluded."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            run = include_run(run_id, find_person(request), via=name_token(request))
        wake_up()
        return answer_json(request, _describe_exclusion(run))


def _describe_exclusion(run: Run) -> ExclusionAnswer:
    by = name_person(run.excluded_by) or None
    return build(ExclusionAnswer, run, run_id=run.pk, excluded_by=by)
