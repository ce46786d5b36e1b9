"""Raw output of runs."""

from dataclasses import replace
from typing import Any, Final

import orjson
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    Parameters,
    read_parameters,
)
from benchapp.framework.api.permissions import MayReadRaw
from benchapp.framework.api.problems import not_found
from benchapp.framework.api.responses import (
    accepts,
    answer_not_modified,
    is_known,
    make_etag,
)
from benchapp.framework.api.view import ApiView
from benchapp.intake.posts.submissions import pack, unpack
from benchapp.intake.read.submissions import RawBody, read_raw_body
from benchapp.models import Kind
from benchapp.series.read.runs import RunFilter, list_runs


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
