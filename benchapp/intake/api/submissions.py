"""Submissions: list and state. They are posted to `api/posting`."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from benchapp.framework.api.answers import (
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    define_answer,
    list_columns,
    run_links,
    submission_url,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
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
from benchapp.framework.api.problems import not_found
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView
from benchapp.intake.read.submissions import UploadRow, list_uploads, read_upload
from benchapp.models import Kind, Scope, State


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


def _describe_upload(upload: UploadRow) -> SubmissionAnswer:
    reason = ReasonAnswer(code=upload.reason_code, detail=upload.reason) if upload.reason_code else None
    return build(
        SubmissionAnswer,
        upload,
        host=upload.host_name,
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
