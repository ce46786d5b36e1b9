"""Runs, and what was received with them."""

from dataclasses import replace
from typing import Any

import orjson
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from benchapp.api.answers import (
    accepts_gzip,
    answer_json,
    answer_not_modified,
    answer_rows,
    choose_columns,
    is_known,
    make_etag,
)
from benchapp.api.parameters import OutputParameters, RunParameters, read_parameters, refuse_parameters
from benchapp.api.permissions import MayRead
from benchapp.api.problems import Problem
from benchapp.api.rows import run_detail, run_row
from benchapp.api.run_outputs import RUN_COLUMNS, RunDetailOutput, RunPage
from benchapp.api.view import ApiView
from benchapp.models import Kind
from benchapp.pipeline.intake import pack, unpack
from benchapp.queries.runs import RunFilter, list_runs, read_run
from benchapp.queries.uploads import RawBody, read_raw_body


class Runs(ApiView):
    """All runs."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="list_runs", parameters=[RunParameters], responses=RunPage)
    def get(self, request: Request) -> HttpResponse:
        """List runs, the newest first."""
        wanted = read_parameters(request, RunParameters)
        after, limit = wanted.pop("cursor", None), wanted.pop("limit")
        columns, sort = wanted.pop("columns", RUN_COLUMNS), wanted.pop("sort")
        page = list_runs(RunFilter(**wanted), after=after, limit=limit, oldest_first=sort == "started_at")
        rows = choose_columns(map(run_row, page.items), columns)
        return answer_rows(request, rows, name="runs", columns=columns, next_cursor=page.next_cursor)


class OneRun(ApiView):
    """One run."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_run", responses=RunDetailOutput)
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Read one run with its measurements."""
        refuse_parameters(request)
        run = read_run(run_id)
        if run is None:
            raise Problem(404, "not-found", "No such run", f"there is no run {run_id}")
        return answer_json(request, run_detail(run))


class RunOutputFile(ApiView):
    """What was received with a run."""

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
        """Download what was received, exactly, or the part that fio printed."""
        part = read_parameters(request, OutputParameters)["part"]
        body = read_raw_body(run_id=run_id)
        if body is None:
            raise Problem(
                404,
                "not-found",
                "No output kept",
                f"there is no run {run_id}, or its output is no longer kept",
            )
        etag = make_etag(request, body.digest.hex())
        if is_known(request, etag):
            return answer_not_modified(etag)
        if part == "fio" and not body.has_output:
            raise Problem(
                404, "not-found", "No output of fio", f"run {run_id} holds numbers that someone published"
            )
        if part == "fio" and body.has_envelope:
            body = extract_fio_output(body)
        return answer_download(request, body, etag)


def extract_fio_output(body: RawBody) -> RawBody:
    """Return what fio printed out of an agent's envelope."""
    output: str = orjson.loads(unpack(body.packed))["fio_output"]
    return replace(body, packed=pack(output.encode()), kind=Kind.FIO)


def answer_download(request: Request, body: RawBody, etag: str) -> HttpResponse:
    """Hand out foreign bytes as a file that no browser interprets; as the gzip that is kept where that is accepted."""
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
