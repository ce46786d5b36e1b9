"""Exclusion of runs from medians."""

from functools import partial
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.framework.api.answers import (
    ApiAnswer,
    Time,
    build,
)
from benchapp.framework.api.parameters import (
    refuse_parameters,
)
from benchapp.framework.api.permissions import MayEdit, find_person, name_token
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.framework.api.responses import (
    answer_json,
)
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_up
from benchapp.models import Run, name_person
from benchapp.series.write.exclusions import REASON_MAXIMUM, BadReason, UnknownRun, exclude_run, include_run

_PROBLEMS: Final[ErrorProblems] = {
    UnknownRun: partial(not_found, "run"),
    BadReason: partial(bad_value, pointer="/reason"),
}


class ExclusionAnswer(ApiAnswer, kw_only=True, frozen=True):
    run_id: int
    excluded_at: Time | None
    excluded_by: str | None
    excluded_reason: str


class ExclusionInput(serializers.Serializer[Any]):
    """Reason of an exclusion."""

    reason = serializers.CharField(max_length=REASON_MAXIMUM)


class RunExclusion(ApiView):
    """Exclusion of a run from medians."""

    permission_classes = [MayEdit]

    @extend_schema(operation_id="exclude_run", request=ExclusionInput, responses=ExclusionAnswer)
    def put(self, request: Request, run_id: int) -> HttpResponse:
        """Exclude a run from all medians, with a reason; its values remain available, marked as excluded."""
        refuse_parameters(request)
        wanted = read_body(request, ExclusionInput)
        with map_errors(_PROBLEMS):
            run = exclude_run(run_id, find_person(request), via=name_token(request), **wanted)
        wake_up()
        return answer_json(request, _describe_exclusion(run))

    @extend_schema(operation_id="include_run", responses={200: ExclusionAnswer})
    def delete(self, request: Request, run_id: int) -> HttpResponse:
        """Include a run in medians again; no effect on a run that is not excluded."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            run = include_run(run_id, find_person(request), via=name_token(request))
        wake_up()
        return answer_json(request, _describe_exclusion(run))


def _describe_exclusion(run: Run) -> ExclusionAnswer:
    by = name_person(run.excluded_by) or None
    return build(ExclusionAnswer, run, run_id=run.pk, excluded_by=by)
