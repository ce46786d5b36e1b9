"""Runs, their raw output, and their exclusion from medians."""

from dataclasses import replace
from typing import Any, Final

import orjson
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    ChosenColumns,
    EnvironmentOutput,
    Output,
    PageOutput,
    TargetColumns,
    WorkloadColumns,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.api.framework.parameters import (
    FilterField,
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
    answer_dicts,
    answer_json,
    answer_not_modified,
    choose_columns,
    is_known,
    make_etag,
)
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import run_detail, run_row
from benchapp.models import DirectionName, Kind, Run, State
from benchapp.pipeline.exclusions import REASON_MAXIMUM, BadReason, UnknownRun, exclude_run, include_run
from benchapp.pipeline.intake.submissions import pack, unpack
from benchapp.queries.runs.runs import RunFilter, list_runs, read_run
from benchapp.queries.runs.submissions import RawBody, read_raw_body
from benchapp.queue import wake_up


class SummaryColumns(Output):
    series_id = number()
    job_name = text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    rw = text()
    block_size_bytes = maybe_number()
    block_size_text = text()
    iodepth = maybe_number()
    numjobs = number()
    error = number()
    iops = maybe_real()
    bandwidth_bytes_per_s = maybe_real()
    latency_mean_ns = maybe_real()
    latency_p99_ns = maybe_real()
    elapsed_s = maybe_real()


class _RunColumns(TargetColumns):
    id = number()
    host = text()
    pool = text()
    profile = text()
    started_at = time()
    started_at_is_known = serializers.BooleanField(help_text="false: time of receipt by the server")
    finished_at = maybe_time()
    fio_version = text()
    error = number(help_text="first errno reported by fio, 0 without error")
    has_failed = serializers.BooleanField()
    is_partial = serializers.BooleanField()
    badges = badge_codes("codes that any of its measurements bears, most severe first")
    excluded_at = serializers.DateTimeField(
        allow_null=True, help_text="since when the run is excluded from medians; null if included"
    )
    sweep_id = serializers.UUIDField(allow_null=True)
    target_title = text()
    url = text()
    page = text()


class RunOutput(_RunColumns):
    submission_id = serializers.UUIDField()
    measurements = SummaryColumns(many=True, help_text="the first 8")
    measurement_count = number()


class PercentileOutput(Output):
    percent = serializers.FloatField()
    ns = serializers.FloatField()


class BadgeOutput(Output):
    code = text()
    sentence = text()
    numbers = serializers.DictField(
        child=serializers.FloatField(), help_text="values that it is based on, by name, in base units"
    )


class MeasurementOutput(WorkloadColumns):
    id = number()
    series_id = number()
    ordinal = number()
    position = number()
    job_name = text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    error = number()
    iops = maybe_real()
    bandwidth_bytes_per_s = maybe_real()
    latency_mean_ns = maybe_real(
        help_text="total latency (lat), like stddev and max; completion latency (clat) if `missing` has `total`, "
        "and in runs of parser_version 1"
    )
    latency_stddev_ns = maybe_real()
    latency_max_ns = maybe_real()
    latency_kind = text(
        help_text="latency kind of the percentiles: clat (completion), lat (total), or empty without any; "
        "not of mean, stddev and max"
    )
    latency_p50_ns = maybe_real()
    latency_p95_ns = maybe_real()
    latency_p99_ns = maybe_real()
    latency_p99_9_ns = maybe_real()
    elapsed_s = maybe_real()
    total_ios = maybe_number()
    io_bytes = maybe_number()
    clones = number()
    missing = serializers.DictField(help_text="absent value → reason code")
    percentiles = PercentileOutput(
        many=True,
        help_text="as printed by fio, including percentiles with fewer than 10 samples above them",
    )
    badges = BadgeOutput(many=True)
    measured_s = maybe_real()
    workload_title = text()
    series_url = text()


class SubmissionRefOutput(Output):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=Kind.values)
    state = serializers.ChoiceField(choices=State.values)
    received_at = time()
    body_bytes = number()
    has_body = serializers.BooleanField()
    url = text()


class NoteOutput(Output):
    code = text()
    where = text()
    message = text()


class ExclusionOutput(Output):
    run_id = number()
    excluded_at = maybe_time()
    excluded_by = maybe_text()
    excluded_reason = text()


class RunDetailOutput(_RunColumns):
    document = number()
    labels = serializers.DictField(child=text())
    format = text()
    command = serializers.DictField()
    warnings = NoteOutput(many=True)
    parser_version = number()
    excluded_by = text(allow_null=True, help_text="user name; null for an API token without an owner")
    excluded_reason = text(help_text="reason; if excluded_at is null, the last reason")
    environment = EnvironmentOutput()
    submission = SubmissionRefOutput()
    measurements = MeasurementOutput(many=True)
    previous_run_id = maybe_number()
    next_run_id = maybe_number()
    output = text()


class RunRowOutput(ChosenColumns, RunOutput):
    pass


class RunPage(PageOutput):
    runs = RunRowOutput(many=True)


# In the order in which `rows.py` writes them.
RUN_COLUMNS: Final = tuple(RunOutput().fields)


class RunParameters(SpanParameters, PageParameters):
    """Filters of runs."""

    columns = RUN_COLUMNS
    q = FilterField(source="match")
    host = text_parameter(253)
    pool = text_parameter(100)
    profile = text_parameter(100)
    rw = text_parameter(20)
    text = text_parameter(
        200, help_text="words that all occur in host, profile, target, fio version or labels"
    )
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

    @extend_schema(operation_id="exclude_run", request=ExclusionInput, responses=ExclusionOutput)
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
        return answer_json(request, _row(run))

    @extend_schema(operation_id="include_run", responses={200: ExclusionOutput})
    def delete(self, request: Request, run_id: int) -> HttpResponse:
        """Include a run in medians again; no effect on a run that is not excluded."""
        refuse_parameters(request)
        try:
            run = include_run(run_id, find_person(request), via=_name_token(request))
        except UnknownRun as error:
            raise _no_run(error) from error
        wake_up()
        return answer_json(request, _row(run))


def _row(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.pk,
        "excluded_at": run.excluded_at,
        "excluded_by": run.excluded_by.username if run.excluded_by else None,
        "excluded_reason": run.excluded_reason,
    }


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
        rows = choose_columns(map(run_row, page.items), columns)
        return answer_dicts(request, rows, name="runs", columns=columns, next_cursor=page.next_cursor)


class OneRun(ApiView):
    """One run."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_run", responses=RunDetailOutput)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Read one run with its measurements."""
        refuse_parameters(request)
        run = read_run(run_id)
        if run is None:
            raise Problem(404, "not-found", "No such run", f"run {run_id} does not exist")
        return answer_json(request, run_detail(run))


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
