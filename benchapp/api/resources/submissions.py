"""Submissions: list and state. They are posted to `api/ingest`, in front of Django."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    Output,
    PageOutput,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.api.framework.parameters import (
    PageParameters,
    read_parameters,
    refuse_parameters,
    text_parameter,
)
from benchapp.api.framework.permissions import MayRead, read_api_token
from benchapp.api.framework.problems import Problem, answer_problem
from benchapp.api.framework.responses import answer_dicts, answer_json
from benchapp.api.framework.view import ApiView
from benchapp.api.resources.shapes import submission_row
from benchapp.models import Kind, Scope, State
from benchapp.queries.runs.submissions import list_uploads, read_upload


class ReasonOutput(Output):
    code = text()
    detail = text()


class RunLinkOutput(Output):
    id = number()
    url = text()
    page = text()


class SubmissionOutput(Output):
    id = serializers.UUIDField()
    host = text()
    kind = serializers.ChoiceField(choices=Kind.values)
    state = serializers.ChoiceField(choices=State.values)
    received_at = time()
    settled_at = maybe_time()
    reason = ReasonOutput(allow_null=True)
    attempts = number()
    body_bytes = number()
    has_body = serializers.BooleanField()
    runs = RunLinkOutput(many=True)
    url = text()


class SubmissionPage(PageOutput):
    submissions = SubmissionOutput(many=True)


class SubmissionParameters(PageParameters):
    """Filters of submissions."""

    state = serializers.ChoiceField(choices=State.values, required=False)
    host = text_parameter(253)
    reason_code = text_parameter(50)


class Submissions(ApiView):
    """All submissions."""

    permission_classes = [MayRead]

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Include POST in the Allow header: api/ingest handles it before Django."""
        headers: dict[str, str] = super().default_response_headers
        return {**headers, "Allow": f"{headers['Allow']}, POST"}

    @extend_schema(
        operation_id="list_submissions", parameters=[SubmissionParameters], responses=SubmissionPage
    )
    def get(self, request: Request) -> HttpResponse:
        """List submissions, newest first."""
        wanted = read_parameters(request, SubmissionParameters)
        page = list_uploads(
            wanted.get("state"),
            host=wanted.get("host"),
            reason_code=wanted.get("reason_code"),
            after=wanted.get("cursor"),
            limit=wanted["limit"],
        )
        rows = [submission_row(upload) for upload in page.items]
        return answer_dicts(request, rows, name="submissions", columns=(), next_cursor=page.next_cursor)


class OneSubmission(ApiView):
    """One submission."""

    permission_classes = [MayRead]
    admits_ingest = True

    @extend_schema(operation_id="read_submission", responses=SubmissionOutput)
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
            raise Problem(
                404, "not-found", "No such submission", f"submission {submission_id} does not exist"
            )
        return answer_json(request, submission_row(upload))


@csrf_exempt
def refuse_method(request: HttpRequest) -> HttpResponse:
    """Return 405 with the only method that this URL allows."""
    allow = {"Allow": "OPTIONS, POST"}
    if request.method == "OPTIONS":
        return HttpResponse(status=204, headers=allow)
    return answer_problem(
        Problem(
            405,
            "method-not-allowed",
            "Method not allowed",
            "POST what fio printed here",
            headers=allow,
        )
    )
