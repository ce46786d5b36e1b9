"""How each number of a run was computed, read anew from what was received."""

import hashlib
from dataclasses import fields
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from benchapp.api.answers import Row, answer_json, answer_not_modified, is_known, make_etag
from benchapp.api.parameters import refuse_parameters
from benchapp.api.permissions import MayRead
from benchapp.api.problems import Problem
from benchapp.api.rows import submission_url
from benchapp.api.run_outputs import RunReportOutput
from benchapp.api.view import ApiView
from benchapp.pipeline.explain import PARSER_VERSION, CannotExplain, explain_body
from benchapp.pipeline.explained import ExplainedMeasurement, Explanation
from benchapp.pipeline.intake import unpack
from benchapp.queries.runs import MeasurementRow, RunDetail, read_run
from benchapp.queries.uploads import RawBody, read_raw_body


class RunReport(ApiView):
    """How the numbers of one run were computed."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_run_report", responses=RunReportOutput)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Read the raw output again with the parser of today and say how each number was computed."""
        refuse_parameters(request)
        run = read_run(run_id)
        if run is None:
            raise Problem(404, "not-found", "No such run", f"there is no run {run_id}")
        body = read_raw_body(run_id=run_id)
        if body is None:
            raise Problem(
                410, "output-expired", "Output not kept", f"run {run_id}: raw output past its retention"
            )
        etag = make_etag(request, _name_version(run, body))
        if is_known(request, etag):
            return answer_not_modified(etag)
        try:
            explanation = explain_body(unpack(body.packed), run.document, has_envelope=body.has_envelope)
        except CannotExplain as error:
            raise Problem(409, "report-unreadable", "Not readable any more", str(error)) from error
        return answer_json(request, _make_report(run, explanation), headers={"ETag": etag})


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
