"""Submissions: the views and operations that post them, the answer to `validate=1`, list and state."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from threading import Lock
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import structlog
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request

from benchapp.fio.report import Note
from benchapp.framework.api.answers import (
    PREFIX,
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    ReceiptAnswer,
    Time,
    build,
    define_answer,
    dump_json,
    list_columns,
    run_links,
    submission_url,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import TOKEN_SCHEME, Json, describe_answers, in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    PageParameters,
    SpanParameters,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    text_parameter,
    time_order_parameter,
)
from benchapp.framework.api.permissions import MayRead, read_api_token
from benchapp.framework.api.problems import (
    Problem,
    ProblemAnswer,
    answer_problem,
    call_with_retry,
    not_found,
)
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView
from benchapp.framework.queue import wake_up
from benchapp.framework.readiness import DATABASE_AWAY
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post, refuse_fault
from benchapp.intake.api.posts import BatchAnswer, RefusedBatchAnswer, answer_post
from benchapp.intake.normalize.batch import Rejection
from benchapp.intake.normalize.preview import (
    COMPARED_MAXIMUM,
    FieldDifference,
    NearestSeries,
    Preview,
    PreviewMeasurement,
    check_format_in_process,
    preview_incoming,
)
from benchapp.intake.posts.envelope import describe_attempt, describe_envelope
from benchapp.intake.posts.metadata import TARGET
from benchapp.intake.posts.submissions import AcceptOutcome, AcceptResult, IncomingSubmission
from benchapp.intake.read import list_uploads, read_upload
from benchapp.models import DirectionName, Kind, Scope, State, Submission
from benchapp.series.read.shapes import BadgeRow, make_badges
from benchapp.series.read.titles import describe_target, describe_workload, name_scope


class ReasonAnswer(ApiAnswer, kw_only=True, frozen=True):
    code: str
    detail: str


class RunLinkAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    url: str
    page: str


class SubmissionAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: UUID
    host: str
    kind: Kind
    state: State
    received_at: Time
    settled_at: Time | None
    reason: ReasonAnswer | None
    attempts: int
    body_bytes: int
    has_body: bool
    runs: Sequence[RunLinkAnswer]
    url: str


@with_columns(SubmissionAnswer)
class ListedSubmissionAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A submission has the columns that `fields` names."""


SUBMISSION_COLUMNS: Final = list_columns(ListedSubmissionAnswer)


SubmissionPage = define_answer("SubmissionPage", AnswerPage, submissions=Sequence[ListedSubmissionAnswer])


def _describe_upload(upload: Submission) -> SubmissionAnswer:
    reason = ReasonAnswer(code=upload.reason_code, detail=upload.reason) if upload.reason_code else None
    return build(
        SubmissionAnswer,
        upload,
        host=upload.host.name,
        reason=reason,
        runs=[RunLinkAnswer(id=run_id, **run_links(run_id)) for run_id in upload.run_ids],
        url=submission_url(upload.id),
    )


class SubmissionParameters(SpanParameters, PageParameters):
    """Filters of submissions; the range is that of their receipt."""

    columns = SUBMISSION_COLUMNS

    state = ChoiceParameter(choices=State.values, required=False)
    host = text_parameter(253)
    reason_code = text_parameter(50)
    sort = time_order_parameter("received_at")


class Submissions(ApiView):
    """All submissions."""

    permission_classes = [MayRead]

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Include POST in the Allow header: `api/posting` answers it."""
        headers: dict[str, str] = super().default_response_headers
        return {**headers, "Allow": f"{headers['Allow']}, POST"}

    @extend_schema(
        operation_id="list_submissions",
        parameters=[SubmissionParameters],
        responses=in_formats(SubmissionPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List submissions, newest first by default."""
        wanted = read_parameters(request, SubmissionParameters)
        page = take_page_request(wanted)
        state, oldest_first = wanted.pop("state", None), take_oldest_first(wanted)
        return answer_list(
            request,
            SubmissionPage,
            ListedSubmissionAnswer,
            page=page,
            read=lambda after, limit: list_uploads(
                state, **wanted, after=after, limit=limit, oldest_first=oldest_first
            ),
            describe=lambda uploads: [
                build(ListedSubmissionAnswer, _describe_upload(each)) for each in uploads
            ],
            name="submissions",
        )


class OneSubmission(ApiView):
    """One submission."""

    permission_classes = [MayRead]
    admits_ingest = True

    @extend_schema(operation_id="read_submission", responses=SubmissionAnswer)
    def get(self, request: Request, submission_id: UUID) -> HttpResponse:
        """Read the state of a submission; a host token sees only its own submissions, others are 404."""
        refuse_parameters(request)
        upload = read_upload(submission_id)
        token = read_api_token(request)
        is_foreign = (
            token is not None
            and token.scope == Scope.INGEST
            and upload is not None
            and upload.host_id != token.host_id
        )
        if upload is None or is_foreign:
            raise not_found("submission", f"submission {submission_id} does not exist")
        return answer_json(request, _describe_upload(upload))


class NearestSeriesAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    workload_title: str
    target_title: str
    differences: Sequence[FieldDifference]
    url: str
    page: str


class ValidatedMeasurementAnswer(ApiAnswer, kw_only=True, frozen=True):
    is_new_series: bool
    series: Annotated[int | None, Meta(description="id of the series that it would join; null for a new one")]
    host: Annotated[str, Meta(description="host or pool of the series")]
    direction: DirectionName
    workload_title: str
    target_title: str
    error: Annotated[int, Meta(description="error of fio; not 0: it would not count")]
    badges: Sequence[BadgeRow]
    nearest: Annotated[
        NearestSeriesAnswer | None,
        Meta(description="for a new series the existing one with the fewest differences, which make it new"),
    ]


class ValidatedRunAnswer(ApiAnswer, kw_only=True, frozen=True):
    started_at: Time
    started_at_is_known: Annotated[
        bool, Meta(description="false: the time of receipt, as the output has no plausible time")
    ]
    profile: str
    fio_version: str
    error: int
    is_partial: bool
    warnings: Sequence[Note]
    measurements: Sequence[ValidatedMeasurementAnswer]


class ValidationAnswer(ApiAnswer, kw_only=True, frozen=True):
    """What a submission would become; nothing is stored."""

    id: UUID
    is_known: Annotated[bool, Meta(description="true: already received; posting it again changes nothing")]
    state: Annotated[Literal["stored", "rejected"], Meta(description="the state that it would get")]
    reason: ReasonAnswer | None
    runs: Sequence[ValidatedRunAnswer]
    new_series: Annotated[int, Meta(description="number of series that it would create")]
    not_compared: Annotated[
        int, Meta(description=f"new series beyond {COMPARED_MAXIMUM}, for which no nearest one is searched")
    ]


def describe_validation(submission: IncomingSubmission, known: AcceptResult) -> ValidationAnswer:
    """Return what a submission would become, or why it would be rejected; raises Problem 422 for no output of fio."""
    if submission.kind == Kind.FIO:
        refuse_fault(check_format_in_process(submission.body))
    outcome = preview_incoming(submission, known.id)
    reason = (
        ReasonAnswer(code=outcome.code, detail=outcome.reason) if isinstance(outcome, Rejection) else None
    )
    preview = Preview((), 0, 0) if isinstance(outcome, Rejection) else outcome
    return ValidationAnswer(
        id=known.id,
        is_known=known.outcome == AcceptOutcome.REPLAYED,
        state="rejected" if reason else "stored",
        reason=reason,
        runs=[_describe_run(*run) for run in preview.runs],
        new_series=preview.new_series,
        not_compared=preview.not_compared,
    )


def _describe_run(
    values: Mapping[str, Any], measurements: Sequence[PreviewMeasurement]
) -> ValidatedRunAnswer:
    return ValidatedRunAnswer(
        started_at=values["started_at"],
        started_at_is_known=values["started_at_is_known"],
        profile=values["profile"],
        fio_version=values["fio_version"],
        error=values["error"],
        is_partial=values["is_partial"],
        warnings=[Note(**note) for note in values["warnings"]],
        measurements=[_describe_measurement(each) for each in measurements],
    )


def _describe_measurement(measurement: PreviewMeasurement) -> ValidatedMeasurementAnswer:
    series, nearest = measurement.series, measurement.nearest
    return ValidatedMeasurementAnswer(
        is_new_series=series.pk is None,
        series=series.pk,
        host=name_scope(series.scope),
        direction=DirectionName(series.direction),
        workload_title=describe_workload(series, direction=series.direction),
        target_title=describe_target(series),
        error=measurement.values["error"],
        badges=make_badges(measurement.values["badges"]),
        nearest=_describe_nearest(nearest) if nearest else None,
    )


def _describe_nearest(nearest: NearestSeries) -> NearestSeriesAnswer:
    series = nearest.series
    return NearestSeriesAnswer(
        id=series.pk,
        workload_title=describe_workload(series, direction=series.direction),
        target_title=describe_target(series),
        differences=nearest.differences,
        url=f"{PREFIX}/series/{series.pk}",
        page=f"/series/{series.pk}/",
    )


def add_intake_paths(result: Json, **kwargs: Any) -> Json:
    """Add the POST of results, and the format of all errors."""
    components = result.setdefault("components", {})
    components.setdefault("securitySchemes", {})["token"] = TOKEN_SCHEME
    components.setdefault("schemas", {}).update(
        **describe_answers([ProblemAnswer, ReceiptAnswer, BatchAnswer, RefusedBatchAnswer, ValidationAnswer]),
        ReceiptOrValidation=_choose_from(ReceiptAnswer.__name__, ValidationAnswer.__name__),
        Envelope=describe_envelope(),
        AttemptInput=describe_attempt(),
    )
    paths = result["paths"]
    paths.setdefault("/api/v1/submissions", {})["post"] = _POST_SUBMISSION
    paths.setdefault("/api/v1/submissions/batch", {})["post"] = _POST_BATCH
    paths.setdefault("/api/v1/fio", {})["post"] = _POST_FIO
    return result


def _query(name: str, description: str) -> Json:
    return {"in": "query", "name": name, "schema": {"type": "string"}, "description": description}


_BYTES: Final[Json] = {"type": "string", "format": "binary"}


def _choose_from(*names: str) -> Json:
    return {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in names]}


def _refer(name: str) -> Json:
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}


def _post(
    operation_id: str,
    summary: str,
    description: str,
    *,
    content: Json,
    parameters: list[Json],
    responses: Json,
) -> Json:
    return {
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
        "security": [{"token": []}],
        "responses": responses,
    }


_KEY: Final[Json] = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "format": "uuid"},
}
_VALIDATE: Final[Json] = {
    "in": "query",
    "name": "validate",
    "schema": {"type": "string", "enum": ["1"]},
    "description": "tell which series the result would join, with its badges; nothing is stored;"
    " up to 2 MiB, uncompressed",
}
_RESPONSES: Final[Json] = {
    "202": {"description": "committed; Location is the URL of its state", **_refer("ReceiptAnswer")},
    "200": {
        "description": "received before: Idempotency-Replayed is true; or the answer to validate=1",
        **_refer("ReceiptOrValidation"),
    },
}
_ENVELOPE: Final[Json] = {
    "schema": "benchapp-envelope/1",
    "id": "6f1cbb2e-9d3e-4a55-8d0a-111111111111",
    "kind": "fio",
    "profile": "quick",
    "started_at": "2026-11-21T10:00:00Z",
    "fio_output": '{"fio version": "fio-3.33", "jobs": []}',
    "target": {"volume_type": "gp3", "volume_count": 4, "filesystem": "xfs"},
    "labels": {"branch": "main"},
}
_POST_SUBMISSION: Final = _post(
    "create_submission",
    "Post what an agent measured",
    "By a host's own token; Content-Encoding gzip is taken. Same id and body again: 200. Same id, other body: 409."
    " A run without a result is an AttemptInput, at most 8 KiB: it is in the host's list of attempts.",
    content={"application/json": {"schema": _choose_from("Envelope", "AttemptInput"), "example": _ENVELOPE}},
    parameters=[_KEY, _VALIDATE],
    responses=_RESPONSES,
)
_POST_BATCH: Final = _post(
    "create_submissions",
    "Post up to 200 results",
    "A document per line (NDJSON), each as for POST /submissions and stored byte for byte. By a host's own token;"
    " Content-Encoding gzip is taken. A refused line does not prevent the others.",
    content={"application/x-ndjson": {"schema": _BYTES, "example": f"{json.dumps(_ENVELOPE)}\n"}},
    parameters=[],
    responses={
        "200": {"description": "all are committed, now or before", **_refer("BatchAnswer")},
        "207": {"description": "some lines are refused; the others are committed", **_refer("BatchAnswer")},
        "422": {
            "description": "no line was taken: `items` has the reason of each",
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/RefusedBatchAnswer"}}
            },
        },
    },
)
_POST_FIO: Final = _post(
    "create_submission_of_fio",
    "Post what fio printed",
    "`fio --output-format=json+ job.fio | curl --data-binary @- …`; text and terse, of any version, as well, and what"
    " the shell's `time` says of the small-files test. Labels are parameters of the form label.NAME.",
    content={"application/octet-stream": {"schema": _BYTES}},
    parameters=[
        _KEY,
        _VALIDATE,
        _query("profile", "name of the job set"),
        _query("started_at", "RFC 3339; where the output does not say it"),
        _query(
            "time_zone", "of the dates in text output, such as Europe/Berlin; UTC without it, with a warning"
        ),
        *(_query(name, "of the target; sizes also as 500GiB") for name in TARGET),
    ],
    responses=_RESPONSES,
)


log = structlog.get_logger(__name__)

# Concurrent posts share one wake-up: the worker claims in batches.
_WAKE_UP_DELAY_S: Final = 0.02
_publisher = ThreadPoolExecutor(1, thread_name_prefix="wake-up")
_wake_up_asked = Lock()


def take_posts(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Return a view that accepts results by POST, and leaves other methods to the given view."""

    @csrf_exempt
    @wraps(view)
    def answer(request: HttpRequest, **named: Any) -> HttpResponseBase:
        return _take_post(request) if request.method == "POST" else view(request, **named)

    return answer


def refuse_method(request: HttpRequest) -> HttpResponse:
    """Return 405 with the only method that this URL allows."""
    allow = {"Allow": "OPTIONS, POST"}
    if request.method == "OPTIONS":
        return HttpResponse(status=204, headers=allow)
    return answer_problem(
        Problem(405, "method-not-allowed", "Method not allowed", "POST results here", headers=allow)
    )


def _take_post(request: HttpRequest) -> HttpResponse:
    # The guard has read the body, and announces gzip by this name alone.
    wire = Wire(request.read(), request.headers.get("Content-Encoding") == "gzip")
    post = Post(request.path, request.META["QUERY_STRING"], request.headers, wire)
    try:
        # Submission is idempotent.
        answer = call_with_retry(partial(answer_post, post, validate=describe_validation))
    except Problem as problem:
        return answer_problem(problem)
    except DATABASE_AWAY:
        raise
    except Exception:
        # Process edge: log the bug and let the sender keep its file.
        log.exception("intake.failed")
        return answer_problem(
            Problem(
                500, "fault", "Internal error", "internal server error; nothing was stored: try again later"
            )
        )
    if answer.is_new and _wake_up_asked.acquire(blocking=False):
        _publisher.submit(_wake_up_soon)
    return HttpResponse(
        dump_json(answer.body),
        status=answer.status,
        content_type=answer.content_type,
        headers={"Cache-Control": "no-store", **answer.headers},
    )


def _wake_up_soon() -> None:
    time.sleep(_WAKE_UP_DELAY_S)
    _wake_up_asked.release()
    wake_up()
