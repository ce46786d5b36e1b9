"""Provenance of a run: how each value was derived from the stored upload. Also the shapes of traces."""

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
    ProvenanceBusy,
    ProvenanceUnavailable,
    derive_packed,
)
from benchapp.pipeline.provenance.shapes import MeasurementProvenance, ReportProvenance
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
        help_text="offset in each list, from 0",
    )
    limit = serializers.IntegerField(
        required=False,
        default=LIMIT_DEFAULT,
        min_value=1,
        max_value=REPORT_MAXIMUM,
        help_text="maximum entries per list",
    )


TRACE_POINT_COLUMNS = ("kind", "direction", "unit", "at_s", "mean", "minimum", "maximum", "count")


class TraceOutput(Output):
    kind = text(help_text="iops, bw, lat, clat or slat")
    direction = serializers.ChoiceField(choices=DirectionName.values)
    unit = text(help_text="operations/s, bytes/s or ns")
    jobs = number(help_text="number of logs: added up for iops and bw, pooled for latencies")
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


class DerivedValueOutput(Output):
    name = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    unit = text()
    value = maybe_real()
    printed_as = text(help_text="value in the fio output and its conversion")
    how = text(help_text="derivation from the printed value")
    code = maybe_text()
    reason = maybe_text()


class DerivedPercentilesOutput(Output):
    kind = text(help_text="clat, lat, or empty")
    printed_as = text()
    how = text(help_text="derivation, or reason of absence")
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
    clones = number(help_text="jobs that fio summed into this entry")


class MeasurementProvenanceOutput(Output):
    measurement_id = maybe_number()
    position = number()
    job_name = text()
    hostname = maybe_text()
    groupid = number()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    error = number()
    numjobs = number()
    job_count = number(help_text="jobs in all merged entries")
    jobs = MergedJobOutput(many=True, help_text="merged entries, at most 200")
    workload = WorkloadPartOutput(many=True)
    values = DerivedValueOutput(many=True)
    percentiles = DerivedPercentilesOutput()
    badges = BadgeOutput(many=True, help_text="as stored")


class TotalProvenanceOutput(Output):
    groupid = number()
    job_names = serializers.ListField(child=text(), help_text="at most 200")
    direction = text(help_text="as of measurements, or total: read, write and trim together")
    values = DerivedValueOutput(many=True)


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


class ReportedJobOutput(Output):
    index = number()
    name = text()
    hostname = maybe_text()
    groupid = number()
    clones = number()
    error = number()
    is_aggregate = serializers.BooleanField(help_text="fio's total over servers, not stored")
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
    parser_version = number(help_text="current parser, used for this response")
    format = text()
    format_version = maybe_number()
    has_precise_values = serializers.BooleanField()
    is_partial = serializers.BooleanField()
    fio_version = text()
    documents = number(help_text="reports in the upload")
    document = number(help_text="index of this run among them, from 0")
    started_at = maybe_time()
    finished_at = maybe_time()
    measurement_count = number(help_text="of the whole run")
    position = number(help_text="offset of measurements, totals, jobs and disks")
    next_position = maybe_number()
    next = maybe_text()
    measurements = MeasurementProvenanceOutput(many=True)
    totals = TotalProvenanceOutput(many=True)
    jobs = ReportedJobOutput(many=True)
    disks = DiskOutput(many=True)
    warnings = NoteOutput(many=True)
    messages = serializers.ListField(child=text(), help_text="lines outside of reports")


class RunReport(ApiView):
    """How the values of one run were derived."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_run_report", parameters=[ReportParameters], responses=RunReportOutput)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Parse the raw output again and describe how each value was derived."""
        wanted = read_parameters(request, ReportParameters)
        run = read_run(run_id)
        if run is None:
            raise Problem(404, "not-found", "No such run", f"run {run_id} does not exist")
        _check_size(request, run)
        body = read_raw_body(run_id=run_id)
        if body is None:
            raise Problem(
                410,
                "output-expired",
                "Output expired",
                f"run {run_id}: raw output removed after the retention period",
            )
        if not body.has_output:
            raise Problem(
                409,
                "report-unreadable",
                "No fio output",
                f"run {run_id} has published results; the values are stored as published",
            )
        etag = make_etag(request, _name_version(run, body))
        if is_known(request, etag):
            return answer_not_modified(etag)
        try:
            provenance = derive_packed(body.packed, run.document, has_envelope=body.has_envelope, **wanted)
        except ProvenanceUnavailable as error:
            raise Problem(409, "report-unreadable", "Report not readable", str(error)) from error
        except ProvenanceBusy as error:
            raise try_later("busy", str(error)) from error
        return _answer(request, run, provenance, etag)


def _check_size(request: Request, run: RunDetail) -> None:
    """Require a sign-in or token for large outputs, which are expensive to parse."""
    if run.submission.body_bytes <= OPEN_BYTES_MAXIMUM or is_signed_in(request) or read_api_token(request):
        return
    raise Problem(
        401,
        "token-missing",
        "Not signed in",
        f"the upload exceeds {OPEN_BYTES_MAXIMUM // 2**20} MiB: sign in or send a token",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _answer(request: Request, run: RunDetail, provenance: ReportProvenance, etag: str) -> HttpResponse:
    headers = {"ETag": etag}
    following = None
    if provenance.next_position is not None:
        following = link_next(request, str(provenance.next_position), parameter="position")
        headers["Link"] = f'<{following}>; rel="next"'
    return answer_json(request, {**_make_report(run, provenance), "next": following}, headers=headers)


def _name_version(run: RunDetail, body: RawBody) -> str:
    """Return what the response depends on: the body, the current parser, the stored badges."""
    badges = [(line.id, line.badges) for line in run.measurements]
    stored = hashlib.sha256(repr(badges).encode()).hexdigest()
    return f"{body.digest.hex()} {PARSER_VERSION} {run.parser_version} {run.document} {stored}"


def _make_report(run: RunDetail, provenance: ReportProvenance) -> Row:
    stored = {line.position: line for line in run.measurements}
    submission = run.submission
    return {
        **_plain(provenance),
        "run": run.id,
        "submission": {
            "id": submission.id,
            "kind": submission.kind,
            "received_at": submission.received_at,
            "body_bytes": submission.body_bytes,
            "url": submission_url(submission.id),
        },
        "stored_parser_version": run.parser_version,
        "measurements": [_join(each, stored.get(each.position)) for each in provenance.measurements],
    }


def _join(derived: MeasurementProvenance, stored: MeasurementRow | None) -> Row:
    """Add id and badges of the stored measurement, if it is the same."""
    known = stored if stored and derived.is_stored_as(stored.job_name, stored.direction) else None
    return {
        **_plain(derived),
        "measurement_id": known.id if known else None,
        "badges": list(known.badges) if known else [],
    }


def _plain(row: Any) -> Row:
    return {field.name: getattr(row, field.name) for field in fields(row)}
