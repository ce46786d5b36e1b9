"""Runs, their raw output, and their exclusion from medians."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final
from uuid import UUID

import orjson
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.answers import (
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    list_columns,
    with_columns,
)
from benchapp.api.framework.parameters import (
    FilterParameters,
    PageParameters,
    Parameters,
    SpanParameters,
    badge_parameter,
    flag_parameter,
    read_parameters,
    refuse_parameters,
    text_parameter,
)
from benchapp.api.framework.permissions import MayEdit, MayRead, find_person, read_api_token
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import (
    accepts_gzip,
    answer_json,
    answer_not_modified,
    answer_rows,
    is_known,
    make_etag,
)
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import PREFIX, run_links, submission_url
from benchapp.models import DirectionName, Kind, Run, State
from benchapp.pipeline.exclusions import REASON_MAXIMUM, BadReason, UnknownRun, exclude_run, include_run
from benchapp.pipeline.intake.submissions import pack, unpack
from benchapp.queries.badges import BadgeRow
from benchapp.queries.runs.runs import (
    MeasurementRow,
    MeasurementSummary,
    RunDetail,
    RunFilter,
    RunRow,
    list_runs,
    read_run,
)
from benchapp.queries.runs.submissions import RawBody, read_raw_body
from benchapp.queries.shapes import EnvironmentRow, TargetRow, WorkloadRow
from benchapp.queue import wake_up


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
    error: Annotated[int, Meta(description="first errno reported by fio, 0 without error")]
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
    measurements: Annotated[Sequence[MeasurementSummary], Meta(description="the first 8")]
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
    iops: float | None
    bandwidth_bytes_per_s: float | None
    latency_mean_ns: Annotated[
        float | None,
        Meta(
            description="total latency (lat), like stddev and max; completion latency (clat) if `missing` has"
            " `total`, and in runs of parser_version 1"
        ),
    ]
    latency_stddev_ns: float | None
    latency_max_ns: float | None
    latency_kind: Annotated[
        str,
        Meta(
            description="latency kind of the percentiles: clat (completion), lat (total), or empty without any;"
            " not of mean, stddev and max"
        ),
    ]
    latency_p50_ns: float | None
    latency_p95_ns: float | None
    latency_p99_ns: float | None
    latency_p99_9_ns: float | None
    elapsed_s: float | None
    total_ios: int | None
    io_bytes: int | None
    clones: int
    missing: Annotated[Mapping[str, str], Meta(description="absent value → reason code")]
    workload_title: str
    measured_s: float | None


@with_columns(MeasurementColumns, WorkloadRow)
class MeasurementAnswer(ApiAnswer, kw_only=True, frozen=True):
    runtime_s: Annotated[float | None, Meta(description="configured; measured_s: actual")]
    percentiles: Annotated[
        Sequence[PercentileAnswer],
        Meta(description="as printed by fio, including percentiles with fewer than 10 samples above them"),
    ]
    badges: Sequence[BadgeRow]
    series_url: str


class SubmissionRefAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: UUID
    kind: Kind
    state: State
    received_at: Time
    body_bytes: int
    has_body: bool
    url: str


class NoteAnswer(ApiAnswer, kw_only=True, frozen=True):
    code: str
    where: str
    message: str


class ExclusionAnswer(ApiAnswer, kw_only=True, frozen=True):
    run_id: int
    excluded_at: Time | None
    excluded_by: str | None
    excluded_reason: str


@with_columns(RunColumns, TargetRow)
class RunDetailAnswer(ApiAnswer, kw_only=True, frozen=True):
    document: int
    labels: Mapping[str, str]
    format: str
    command: Mapping[str, Any]
    warnings: Sequence[NoteAnswer]
    parser_version: int
    excluded_by: Annotated[str | None, Meta(description="user name; null for an API token without an owner")]
    excluded_reason: Annotated[str, Meta(description="reason; if excluded_at is null, the last reason")]
    environment: EnvironmentRow
    submission: SubmissionRefAnswer
    measurements: Sequence[MeasurementAnswer]
    previous_run_id: int | None
    next_run_id: int | None
    url: str
    page: str
    output: str


class RunPage(AnswerPage, kw_only=True, frozen=True):
    runs: Sequence[RunRowAnswer]


RUN_COLUMNS: Final = list_columns(RunRowAnswer)


def describe_run(run: RunDetail) -> RunDetailAnswer:
    """Return one run with all details."""
    links = run_links(run.id)
    return build(
        RunDetailAnswer,
        run,
        run.target,
        host=run.host_name,
        submission=build(SubmissionRefAnswer, run.submission, url=submission_url(run.submission.id)),
        measurements=[_describe_measurement(measurement) for measurement in run.measurements],
        output=f"{links['url']}/output",
        **links,
    )


def _describe_measurement(measurement: MeasurementRow) -> MeasurementAnswer:
    return build(
        MeasurementAnswer,
        measurement,
        measurement.workload,
        measured_s=measurement.runtime_s,
        runtime_s=measurement.workload.runtime_s,
        percentiles=[
            PercentileAnswer(percent=percent, ns=value) for percent, value in measurement.percentiles
        ],
        series_url=f"{PREFIX}/series/{measurement.series_id}",
    )


def _describe_row(run: RunRow) -> RunRowAnswer:
    return build(RunRowAnswer, run, run.target, host=run.host_name, **run_links(run.id))


class RunParameters(FilterParameters, SpanParameters, PageParameters):
    """Filters of runs."""

    columns = RUN_COLUMNS
    profile = text_parameter(100)
    has_failed = flag_parameter()
    badge = badge_parameter("runs that bear any of these badges, separated by commas")
    valid = flag_parameter(
        source="is_valid",
        help_text="true: no job failed and no badge other than few-samples, too-short and reported",
    )
    sort = serializers.ChoiceField(
        choices=("-started_at", "started_at"), required=False, default="-started_at"
    )


class OutputParameters(Parameters):
    """Part of the raw body."""

    part = serializers.ChoiceField(
        choices=("submission", "fio"),
        required=False,
        default="submission",
        help_text="submission: the exact body received; fio: the fio output in it",
    )


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
        try:
            run = exclude_run(run_id, find_person(request), via=_name_token(request), **wanted)
        except UnknownRun as error:
            raise _no_run(error) from error
        except BadReason as error:
            raise Problem(400, "value-invalid", "Bad value", str(error), pointer="/reason") from error
        wake_up()
        return answer_json(request, _describe_exclusion(run))

    @extend_schema(operation_id="include_run", responses={200: ExclusionAnswer})
    def delete(self, request: Request, run_id: int) -> HttpResponse:
        """Include a run in medians again; no effect on a run that is not excluded."""
        refuse_parameters(request)
        try:
            run = include_run(run_id, find_person(request), via=_name_token(request))
        except UnknownRun as error:
            raise _no_run(error) from error
        wake_up()
        return answer_json(request, _describe_exclusion(run))


def _describe_exclusion(run: Run) -> ExclusionAnswer:
    by = run.excluded_by.username if run.excluded_by else None
    return build(ExclusionAnswer, run, run_id=run.pk, excluded_by=by)


def _name_token(request: Request) -> str:
    token = read_api_token(request)
    return f"bench_{token.public_id}" if token else ""


def _no_run(error: UnknownRun) -> Problem:
    return Problem(404, "not-found", "No such run", str(error))


class Runs(ApiView):
    """All runs."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="list_runs", parameters=[RunParameters], responses=RunPage)
    def get(self, request: Request) -> HttpResponse:
        """List runs, newest first."""
        wanted = read_parameters(request, RunParameters)
        after, limit = wanted.pop("cursor", None), wanted.pop("limit")
        columns, sort = wanted.pop("columns", RUN_COLUMNS), wanted.pop("sort")
        page = list_runs(RunFilter(**wanted), after=after, limit=limit, oldest_first=sort == "started_at")
        rows = list(map(_describe_row, page.items))
        return answer_rows(request, RunPage, rows, name="runs", columns=columns, next_cursor=page.next_cursor)


class OneRun(ApiView):
    """One run."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_run", responses=RunDetailAnswer)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Read one run with its measurements."""
        refuse_parameters(request)
        run = read_run(run_id)
        if run is None:
            raise Problem(404, "not-found", "No such run", f"run {run_id} does not exist")
        return answer_json(request, describe_run(run))


class RunOutputFile(ApiView):
    """Raw output of a run."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_run_output",
        parameters=[OutputParameters],
        responses={
            (200, "application/json"): OpenApiResponse(
                OpenApiTypes.OBJECT,
                "byte for byte: an agent's envelope or a document of published numbers; as text what fio printed",
            ),
            (200, "text/plain"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Download the exact body received, or the fio output in it."""
        part = read_parameters(request, OutputParameters)["part"]
        body = read_raw_body(run_id=run_id)
        if body is None:
            raise Problem(
                404,
                "not-found",
                "No output kept",
                f"run {run_id} does not exist, or its output has expired",
            )
        etag = make_etag(request, body.digest.hex())
        if is_known(request, etag):
            return answer_not_modified(etag)
        if part == "fio" and not body.has_output:
            raise Problem(404, "not-found", "No fio output", f"run {run_id} has published results")
        if part == "fio" and body.has_envelope:
            body = extract_fio_output(body)
        return answer_download(request, body, etag)


def extract_fio_output(body: RawBody) -> RawBody:
    """Return the fio output in an envelope."""
    output: str = orjson.loads(unpack(body.packed))["fio_output"]
    return replace(body, packed=pack(output.encode()), kind=Kind.FIO)


def answer_download(request: Request, body: RawBody, etag: str) -> HttpResponse:
    """Return untrusted bytes as a file that browsers do not interpret; as the stored gzip if accepted."""
    suffix, content_type = ("json", "application/json") if body.is_json else ("txt", "text/plain")
    headers: dict[str, Any] = {
        "Content-Disposition": f'attachment; filename="{body.host_name}-{body.submission_id}.{suffix}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding, Authorization, Cookie",
        "ETag": etag,
    }
    if accepts_gzip(request):
        return HttpResponse(
            body.packed, content_type=content_type, headers={**headers, "Content-Encoding": "gzip"}
        )
    return HttpResponse(unpack(body.packed), content_type=content_type, headers=headers)
