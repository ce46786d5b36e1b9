"""Take a run out of medians, and put it back."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.answers import answer_json
from benchapp.api.parameters import refuse_parameters
from benchapp.api.permissions import MayEdit, find_person, read_api_token
from benchapp.api.problems import Problem
from benchapp.api.run_outputs import ExclusionOutput
from benchapp.api.tokens import read_body
from benchapp.api.view import ApiView
from benchapp.models import Run
from benchapp.pipeline.exclusions import REASON_MAXIMUM, BadReason, UnknownRun, exclude_run, include_run
from benchapp.tasks import wake_up


class ExclusionInput(serializers.Serializer[Any]):
    """Why a run must not count."""

    reason = serializers.CharField(max_length=REASON_MAXIMUM)


class RunExclusion(ApiView):
    """That a run counts in no median."""

    permission_classes = [MayEdit]

    @extend_schema(operation_id="exclude_run", request=ExclusionInput, responses=ExclusionOutput)
    def put(self, request: Request, run_id: int) -> HttpResponse:
        """Take a run out of all medians, with a reason; its numbers stay, and are told to be excluded."""
        refuse_parameters(request)
        wanted = read_body(request, ExclusionInput)
        try:
            run = exclude_run(run_id, find_person(request), via=_name_token(request), **wanted)
        except UnknownRun as error:
            raise _no_run(error) from error
        except BadReason as error:
            raise Problem(400, "value-invalid", "Bad value", str(error), pointer="/reason") from error
        wake_up()
        return answer_json(request, _row(run))

    @extend_schema(operation_id="include_run", responses={200: ExclusionOutput})
    def delete(self, request: Request, run_id: int) -> HttpResponse:
        """Put a run back into medians; nothing happens to one that counts already."""
        refuse_parameters(request)
        try:
            run = include_run(run_id, find_person(request), via=_name_token(request))
        except UnknownRun as error:
            raise _no_run(error) from error
        wake_up()
        return answer_json(request, _row(run))


def _row(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.pk,
        "excluded_at": run.excluded_at,
        "excluded_by": run.excluded_by.username if run.excluded_by else None,
        "excluded_reason": run.excluded_reason,
    }


def _name_token(request: Request) -> str:
    token = read_api_token(request)
    return f"bench_{token.public_id}" if token else ""


def _no_run(error: UnknownRun) -> Problem:
    return Problem(404, "not-found", "No such run", str(error))
