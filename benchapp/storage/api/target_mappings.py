"""Mappings of names of targets."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.framework.api.answers import ApiAnswer, Time, build, define_answer, list_columns, with_columns
from benchapp.framework.api.list_entries import list_given
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import FormatParameters, read_parameters, refuse_parameters
from benchapp.framework.api.permissions import MayEdit, MayReadOrEdit, find_person
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_json, answer_lines
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_up
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import TargetMapping
from benchapp.storage.read.target_mappings import list_mappings
from benchapp.storage.target_mappings import UnknownMapping, add_mapping, remove_mapping

_PROBLEMS: Final[ErrorProblems] = {
    UnknownMapping: partial(not_found, "target mapping"),
    BadValue: bad_value,
}


class TargetMappingInput(serializers.ModelSerializer[Any]):
    """A pattern and the name of its targets."""

    class Meta:
        model = TargetMapping
        fields = TargetMapping.given
        # Saving says in words that there is one.
        validators = ()
        extra_kwargs: Final = {
            "scope": {"help_text": "host:NAME or pool:NAME"},
            "pattern": {
                "help_text": "shell pattern with *, ? and […], compared with the name and the path; * matches slashes"
            },
        }


@with_columns({"id": int}, list_given(TargetMappingInput))
class TargetMappingAnswer(ApiAnswer, kw_only=True, frozen=True):
    created_by: str | None
    created_at: Time


TargetMappingsAnswer = define_answer("TargetMappingsAnswer", target_mappings=Sequence[TargetMappingAnswer])


class TargetMappings(ApiView):
    """All mappings of names of targets."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_target_mappings",
        parameters=[FormatParameters],
        responses=in_formats(TargetMappingsAnswer, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponse:
        """List the mappings of all hosts and pools, by scope and pattern."""
        format = read_parameters(request, FormatParameters)["format"]
        rows = [_describe(each) for each in list_mappings()]
        if format == "json":
            return answer_json(request, TargetMappingsAnswer(target_mappings=rows))
        columns = list_columns(TargetMappingAnswer)
        return answer_lines(request, rows, columns=columns, format=format, file_name="target-mappings")

    @extend_schema(
        operation_id="add_target_mapping",
        request=TargetMappingInput,
        responses={201: TargetMappingAnswer},
    )
    def post(self, request: Request) -> Response:
        """Name the targets of a host or pool that match a pattern; workers read its history again."""
        refuse_parameters(request)
        given = read_body(request, TargetMappingInput)
        with map_errors(_PROBLEMS):
            added = add_mapping(TargetMapping(**given), by=find_person(request))
        wake_up()
        return Response(_describe(added), status=201)


class OneTargetMapping(ApiView):
    """One mapping of names of targets."""

    permission_classes = [MayEdit]

    @extend_schema(operation_id="remove_target_mapping", responses={204: None})
    def delete(self, request: Request, mapping_id: int) -> Response:
        """Remove a mapping; workers read the history again, which undoes it."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            remove_mapping(mapping_id, by=find_person(request))
        wake_up()
        return Response(status=204)


def _describe(mapping: TargetMapping) -> TargetMappingAnswer:
    return build(TargetMappingAnswer, mapping, created_by=mapping.created_by_name or None)
