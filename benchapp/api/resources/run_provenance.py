"""What the answers about the inside of a run hold: its traces, and how its numbers were computed.

How each number of a run was computed, read anew from what was received.
"""

import hashlib
from dataclasses import fields
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    Output,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.api.framework.parameters import _INTEGER_MAXIMUM, LIMIT_DEFAULT, Parameters, read_parameters
from benchapp.api.framework.permissions import MayRead, is_signed_in, read_api_token
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import (
    Row,
    answer_json,
    answer_not_modified,
    is_known,
    link_next,
    make_etag,
)
from benchapp.api.framework.view import ApiView
from benchapp.api.ingest.limits import try_later
from benchapp.api.resources.runs import BadgeOutput, NoteOutput, PercentileOutput
from benchapp.api.resources.shapes import submission_url
from benchapp.models import DirectionName, Kind
from benchapp.pipeline.provenance.report import (
    OPEN_BYTES_MAXIMUM,
    PARSER_VERSION,
    ROWS_MAXIMUM,
    CannotExplain,
    NoRoom,
    explain_packed,
)
from benchapp.pipeline.provenance.shapes import ExplainedMeasurement, ReportProvenance
from benchapp.queries.runs.runs import MeasurementRow, RunDetail, read_run
from benchapp.queries.runs.submissions import RawBody, read_raw_body

REPORT_MAXIMUM: Final = ROWS_MAXIMUM


class ReportParameters(Parameters):
    """Which measurements, totals, jobs and disks of a report."""

    position = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        max_value=_INTEGER_MAXIMUM,
        help_text="the first of each, counted from 0",
    )
    limit = serializers.IntegerField(
        required=False,
        default=LIMIT_DEFAULT,
        min_value=1,
        max_value=REPORT_MAXIMUM,
        help_text="of each at most so many",
    )


TRACE_POINT_COLUMNS = ("kind", "direction", "unit", "at_s", "mean", "minimum", "maximum", "count")


class TraceOutput(Output):
    kind = text(help_text="iops, bw, lat, clat or slat")
    direction = serializers.ChoiceField(choices=DirectionName.values)
    unit = text(help_text="operations/s, bytes/s or ns")
    jobs = number(help_text="logs behind it: added up for iops and bw, pooled for latencies")
    entries = number(help_text="lines of these logs")
    bucket_s = serializers.FloatField(help_text="length of a bucket")


class TracePointOutput(Output):
    kind = text(help_text="iops, bw, lat, clat or slat")
    direction = serializers.ChoiceField(choices=DirectionName.values)
    unit = text()
    at_s = serializers.FloatField(help_text="end of the bucket, from the start of the run")
    mean = maybe_real()
    minimum = maybe_real()
    maximum = maybe_real()
    count = number(help_text="entries in the bucket; 0 is a gap")


class TracePage(Output):
    run = number()
    traces = TraceOutput(many=True)
    points = TracePointOutput(many=True)
    next = maybe_text()
    next_cursor = maybe_text()


class ExplainedValueOutput(Output):
    name = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    unit = text()
    value = maybe_real()
    printed_as = text(help_text="what fio printed it as and how that was converted")
    how = text(help_text="how it was made of what was printed")
    code = maybe_text()
    reason = maybe_text()


class ExplainedPercentilesOutput(Output):
    kind = text(help_text="clat, lat, or empty")
    printed_as = text()
    how = text(help_text="whose they are, or why there are none")
    code = maybe_text()
    values = PercentileOutput(many=True)


class WorkloadPartOutput(Output):
    name = text()
    value = maybe_text()
    source = text()  # type: ignore[assignment]  # a serializer has a source itself


class MergedJobOutput(Output):
    index = number()
    name = text()
    hostname = maybe_text()
    clones = number(help_text="jobs that fio summed into it")


class ExplainedMeasurementOutput(Output):
    measurement_id = maybe_number()
    position = number()
    job_name = text()
    hostname = maybe_text()
    groupid = number()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    error = number()
    numjobs = number()
    job_count = number(help_text="in all of the entries merged")
    jobs = MergedJobOutput(many=True, help_text="the entries merged into it, at most 200")
    workload = WorkloadPartOutput(many=True)
    values = ExplainedValueOutput(many=True)
    percentiles = ExplainedPercentilesOutput()
    badges = BadgeOutput(many=True, help_text="as stored")


class ExplainedTotalOutput(Output):
    groupid = number()
    job_names = serializers.ListField(child=text(), help_text="at most 200")
    direction = text(help_text="as of measurements, or total: read, write and trim together")
    values = ExplainedValueOutput(many=True)


class LatencyShareOutput(Output):
    below_ns = maybe_number()
    percent = serializers.FloatField()


class SteadyStateOutput(Output):
    criterion = text()
    is_attained = serializers.BooleanField()
    duration_s = maybe_real()
    deviation = text()
    iops = maybe_real()
    bandwidth_bytes_per_s = maybe_real()


class ExplainedJobOutput(Output):
    index = number()
    name = text()
    hostname = maybe_text()
    groupid = number()
    clones = number()
    error = number()
    is_aggregate = serializers.BooleanField(help_text="fio's own sum over servers, which counts nowhere")
    cpu_user_percent = maybe_real()
    cpu_system_percent = maybe_real()
    context_switches = maybe_number()
    depth = serializers.DictField(child=serializers.FloatField())
    latency_shares = LatencyShareOutput(many=True)
    steady_state = SteadyStateOutput(allow_null=True)


class DiskOutput(Output):
    name = text()
    is_member = serializers.BooleanField()
    read_ios = maybe_number()
    write_ios = maybe_number()
    read_busy_s = maybe_real()
    write_busy_s = maybe_real()
    utilisation_percent = maybe_real()


class ReportSubmissionOutput(Output):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=Kind.values)
    received_at = time()
    body_bytes = number()
    url = text()


class RunReportOutput(Output):
    run = number()
    submission = ReportSubmissionOutput()
    stored_parser_version = number()
    parser_version = number(help_text="of today, by which this answer was made")
    format = text()
    format_version = maybe_number()
    has_precise_values = serializers.BooleanField()
    is_partial = serializers.BooleanField()
    fio_version = text()
    documents = number(help_text="reports in what was received")
    document = number(help_text="which of them this run is, from 0")
    started_at = maybe_time()
    finished_at = maybe_time()
    measurement_count = number(help_text="of the whole run")
    position = number(help_text="where measurements, totals, jobs and disks begin")
    next_position = maybe_number()
    next = maybe_text()
    measurements = ExplainedMeasurementOutput(many=True)
    totals = ExplainedTotalOutput(many=True)
    jobs = ExplainedJobOutput(many=True)
    disks = DiskOutput(many=True)
    warnings = NoteOutput(many=True)
    messages = serializers.ListField(child=text(), help_text="lines that are no part of a report")


class RunReport(ApiView):
    """How the numbers of one run were computed."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_run_report", parameters=[ReportParameters], responses=RunReportOutput)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Read the raw output again with the parser of today and say how each number was computed."""
        wanted = read_parameters(request, ReportParameters)
        run = read_run(run_id)
        if run is None:
            raise Problem(404, "not-found", "No such run", f"there is no run {run_id}")
        _check_size(request, run)
        body = read_raw_body(run_id=run_id)
        if body is None:
            raise Problem(
                410, "output-expired", "Output not kept", f"run {run_id}: raw output past its retention"
            )
        if not body.has_output:
            raise Problem(
                409,
                "report-unreadable",
                "No output of fio",
                f"run {run_id} holds numbers that someone published; they stand as they were given",
            )
        etag = make_etag(request, _name_version(run, body))
        if is_known(request, etag):
            return answer_not_modified(etag)
        try:
            explanation = explain_packed(body.packed, run.document, has_envelope=body.has_envelope, **wanted)
        except CannotExplain as error:
            raise Problem(409, "report-unreadable", "Not readable any more", str(error)) from error
        except NoRoom as error:
            raise try_later("busy", str(error)) from error
        return _answer(request, run, explanation, etag)


def _check_size(request: Request, run: RunDetail) -> None:
    """Keep strangers from asking for the most work: reading a large output again."""
    if run.submission.body_bytes <= OPEN_BYTES_MAXIMUM or is_signed_in(request) or read_api_token(request):
        return
    raise Problem(
        401,
        "token-missing",
        "Not signed in",
        f"what was received is over {OPEN_BYTES_MAXIMUM // 2**20} MiB, and read again for those only who sign in or"
        " send a token",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _answer(request: Request, run: RunDetail, explanation: ReportProvenance, etag: str) -> HttpResponse:
    headers = {"ETag": etag}
    following = None
    if explanation.next_position is not None:
        following = link_next(request, str(explanation.next_position), parameter="position")
        headers["Link"] = f'<{following}>; rel="next"'
    return answer_json(request, {**_make_report(run, explanation), "next": following}, headers=headers)


def _name_version(run: RunDetail, body: RawBody) -> str:
    """Return what the answer depends on: the bytes, the parser of today, and what is stored."""
    badges = [(line.id, line.badges) for line in run.measurements]
    stored = hashlib.sha256(repr(badges).encode()).hexdigest()
    return f"{body.digest.hex()} {PARSER_VERSION} {run.parser_version} {run.document} {stored}"


def _make_report(run: RunDetail, explanation: ReportProvenance) -> Row:
    stored = {line.position: line for line in run.measurements}
    submission = run.submission
    return {
        **_plain(explanation),
        "run": run.id,
        "submission": {
            "id": submission.id,
            "kind": submission.kind,
            "received_at": submission.received_at,
            "body_bytes": submission.body_bytes,
            "url": submission_url(submission.id),
        },
        "stored_parser_version": run.parser_version,
        "measurements": [_join(each, stored.get(each.position)) for each in explanation.measurements],
    }


def _join(explained: ExplainedMeasurement, stored: MeasurementRow | None) -> Row:
    """Add what is stored, where an older parser has stored the same measurement at this place."""
    known = stored if stored and explained.is_stored_as(stored.job_name, stored.direction) else None
    return {
        **_plain(explained),
        "measurement_id": known.id if known else None,
        "badges": list(known.badges) if known else [],
    }


def _plain(row: Any) -> Row:
    return {field.name: getattr(row, field.name) for field in fields(row)}
