"""Raw output of runs, and how each value was derived from it."""

import hashlib
from collections.abc import Sequence
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

from benchapp.fio import PARSER_VERSION
from benchapp.fio.report import Note
from benchapp.framework.api.answers import ApiAnswer, Time, build, submission_url, with_columns
from benchapp.framework.api.parameters import (
    LIMIT_DEFAULT,
    ChoiceParameter,
    FilterParameters,
    Parameters,
    PositionParameters,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead, MayReadRaw, is_signed_in, read_api_token
from benchapp.framework.api.problems import Problem, not_found
from benchapp.framework.api.responses import (
    accepts,
    answer_json,
    answer_not_modified,
    is_known,
    link_next,
    make_etag,
)
from benchapp.framework.api.view import ApiView
from benchapp.intake.api.posts import try_later
from benchapp.intake.posts.submissions import pack, unpack
from benchapp.intake.provenance.report import (
    OPEN_BYTES_MAXIMUM,
    ROWS_MAXIMUM,
    ProvenanceBusy,
    ProvenanceUnavailable,
    derive_packed,
)
from benchapp.intake.provenance.values import (
    MeasurementProvenance,
    ReportedDisk,
    ReportedJob,
    ReportProvenance,
    TotalProvenance,
)
from benchapp.intake.read import RawBody, read_raw_body
from benchapp.models import Kind, Measurement
from benchapp.series.read.runs import RunDetail, RunFilter, list_runs, read_run
from benchapp.series.read.shapes import BadgeRow, make_badges

REPORT_MAXIMUM: Final = ROWS_MAXIMUM


class ReportParameters(PositionParameters):
    """Which measurements, totals, jobs and disks of a report."""

    limit = serializers.IntegerField(
        required=False,
        default=LIMIT_DEFAULT,
        min_value=1,
        max_value=REPORT_MAXIMUM,
        help_text="maximum entries per list",
    )


@with_columns(MeasurementProvenance)
class MeasurementProvenanceAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A measurement and how its values were derived; badges: as stored."""

    measurement_id: int | None
    badges: Sequence[BadgeRow]


class ReportSubmissionAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: UUID
    kind: Kind
    received_at: Time
    body_bytes: int
    url: str


class RunReportAnswer(ApiAnswer, kw_only=True, frozen=True):
    run: int
    submission: ReportSubmissionAnswer
    stored_parser_version: int
    parser_version: Annotated[int, Meta(description="current parser, used for this response")]
    format: str
    format_version: int | None
    has_precise_values: bool
    is_partial: bool
    fio_version: str
    documents: Annotated[int, Meta(description="reports in the upload")]
    document: Annotated[int, Meta(description="index of this run among them, from 0")]
    started_at: Time | None
    finished_at: Time | None
    measurement_count: Annotated[int, Meta(description="of the whole run")]
    position: Annotated[int, Meta(description="offset of measurements, totals, jobs and disks")]
    next_position: int | None
    next: str | None
    measurements: Sequence[MeasurementProvenanceAnswer]
    totals: Sequence[TotalProvenance]
    jobs: Sequence[ReportedJob]
    disks: Sequence[ReportedDisk]
    warnings: Sequence[Note]
    messages: Annotated[Sequence[str], Meta(description="lines outside of reports")]


class RunReport(ApiView):
    """How the values of one run were derived."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_run_report", parameters=[ReportParameters], responses=RunReportAnswer)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Parse the raw output again and describe how each value was derived."""
        wanted = read_parameters(request, ReportParameters)
        run = read_run(run_id, **wanted)
        if run is None:
            raise not_found("run", f"run {run_id} does not exist")
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
            provenance = derive_packed(
                body.packed, run.row.document, has_envelope=body.has_envelope, **wanted
            )
        except ProvenanceUnavailable as error:
            raise Problem(409, "report-unreadable", "Report not readable", str(error)) from error
        except ProvenanceBusy as error:
            raise try_later("busy", str(error)) from error
        return _answer(request, run, provenance, etag)


def _check_size(request: Request, run: RunDetail) -> None:
    """Require a sign-in or token for large outputs, which are expensive to parse."""
    if (
        run.row.submission.body_bytes <= OPEN_BYTES_MAXIMUM
        or is_signed_in(request)
        or read_api_token(request)
    ):
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
    return answer_json(request, _describe(run, provenance, following), headers=headers)


def _name_version(run: RunDetail, body: RawBody) -> str:
    """Return what the response depends on: the body, the current parser, the stored badges."""
    badges = [(line.id, line.badges) for line in run.measurements]
    stored = hashlib.sha256(repr(badges).encode()).hexdigest()
    return f"{body.digest.hex()} {PARSER_VERSION} {run.row.parser_version} {run.row.document} {stored}"


def _describe(run: RunDetail, provenance: ReportProvenance, following: str | None) -> RunReportAnswer:
    stored = {line.position: line for line in run.measurements}
    submission = run.row.submission
    return build(
        RunReportAnswer,
        provenance,
        run=run.row.pk,
        submission=build(ReportSubmissionAnswer, submission, url=submission_url(submission.id)),
        stored_parser_version=run.row.parser_version,
        next=following,
        measurements=[_join(each, stored.get(each.position)) for each in provenance.measurements],
    )


def _join(derived: MeasurementProvenance, stored: Measurement | None) -> MeasurementProvenanceAnswer:
    """Add id and badges of the stored measurement, if it is the same."""
    known = stored if stored and derived.is_stored_as(stored.job_name, stored.series.direction) else None
    return build(
        MeasurementProvenanceAnswer,
        derived,
        measurement_id=known.id if known else None,
        badges=make_badges(known.badges) if known else (),
    )


class OutputParameters(Parameters):
    """Part of the raw body."""

    part = ChoiceParameter(
        choices=("submission", "fio"),
        required=False,
        default="submission",
        help_text="submission: the body received, without secrets; fio: the fio output in it",
    )


class NewestOutputParameters(OutputParameters, FilterParameters):
    """Part of the raw body, and which runs."""


_RESPONSES: Final = {
    (200, "application/json"): OpenApiResponse(
        OpenApiTypes.ANY,
        "as stored: an agent's envelope or a document of published numbers; as text what fio printed",
    ),
    (200, "text/plain"): OpenApiTypes.STR,
}


class RunOutputFile(ApiView):
    """Raw output of a run."""

    permission_classes = [MayReadRaw]

    @extend_schema(operation_id="read_run_output", parameters=[OutputParameters], responses=_RESPONSES)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Download the body received, without secrets, or the fio output in it."""
        return _answer_output(request, run_id, read_parameters(request, OutputParameters)["part"])


class NewestOutputFile(ApiView):
    """Raw output of the newest run of a filter."""

    permission_classes = [MayReadRaw]

    @extend_schema(
        operation_id="read_newest_output", parameters=[NewestOutputParameters], responses=_RESPONSES
    )
    def get(self, request: Request) -> HttpResponse:
        """Download the body received with the newest run that matches, or the fio output in it."""
        wanted = read_parameters(request, NewestOutputParameters)
        newest = list_runs(RunFilter(match=wanted["match"]), limit=1).items
        if not newest:
            raise not_found("run", "no run matches the filter")
        return _answer_output(request, newest[0].id, wanted["part"])


def _answer_output(request: Request, run_id: int, part: str) -> HttpResponse:
    body = read_raw_body(run_id=run_id)
    if body is None:
        raise not_found("output", f"run {run_id} does not exist, or its output has expired")
    etag = make_etag(request, body.digest.hex())
    if is_known(request, etag):
        return answer_not_modified(etag)
    if part == "fio" and not body.has_output:
        raise not_found("fio output", f"run {run_id} has published results")
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
    if accepts(request, "gzip"):
        return HttpResponse(
            body.packed, content_type=content_type, headers={**headers, "Content-Encoding": "gzip"}
        )
    return HttpResponse(unpack(body.packed), content_type=content_type, headers=headers)
