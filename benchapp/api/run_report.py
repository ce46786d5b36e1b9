"""How each number of a run was computed, read anew from what was received."""

import hashlib
from dataclasses import fields
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from benchapp.api.answers import Row, answer_json, answer_not_modified, is_known, link_next, make_etag
from benchapp.api.limits import try_later
from benchapp.api.parameters import ReportParameters, read_parameters
from benchapp.api.permissions import MayRead, is_signed_in, read_api_token
from benchapp.api.problems import Problem
from benchapp.api.report_outputs import RunReportOutput
from benchapp.api.rows import submission_url
from benchapp.api.view import ApiView
from benchapp.pipeline.explain import (
    OPEN_BYTES_MAXIMUM,
    PARSER_VERSION,
    CannotExplain,
    NoRoom,
    explain_packed,
)
from benchapp.pipeline.explained import ExplainedMeasurement, Explanation
from benchapp.queries.runs import MeasurementRow, RunDetail, read_run
from benchapp.queries.uploads import RawBody, read_raw_body


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


def _answer(request: Request, run: RunDetail, explanation: Explanation, etag: str) -> HttpResponse:
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


def _make_report(run: RunDetail, explanation: Explanation) -> Row:
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
