"""Changes of levels, the newest first."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.answers import answer_rows
from benchapp.api.incident_outputs import CHANGE_COLUMNS, ChangePage, change_row
from benchapp.api.parameters import FilterField, FormatParameters, PageParameters, read_parameters
from benchapp.api.permissions import MayRead
from benchapp.api.view import ApiView
from benchapp.models import METRIC_FIELDS, ChangeState
from benchapp.queries.changes import ChangeFilter, list_changes

_LINES = OpenApiResponse(OpenApiTypes.STR, "the same rows, without the rest")


class ChangeParameters(FormatParameters, PageParameters):
    """Which changes; those that were withdrawn only where they are asked for."""

    q = FilterField(source="match")
    metric = serializers.ChoiceField(choices=METRIC_FIELDS, required=False)
    state = serializers.ChoiceField(choices=ChangeState.values, required=False)
    since = serializers.DateTimeField(
        source="since_at", required=False, help_text="those that began then or later, RFC 3339"
    )


class Changes(ApiView):
    """All changes."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_changes",
        parameters=[ChangeParameters],
        responses={
            (200, "application/json"): ChangePage,
            (200, "text/csv"): _LINES,
            (200, "application/x-ndjson"): _LINES,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """List the changes that the judge has found, those that began last first."""
        wanted = read_parameters(request, ChangeParameters)
        cursor, limit, format = wanted.pop("cursor", None), wanted.pop("limit"), wanted.pop("format")
        page = list_changes(ChangeFilter(**wanted), after=cursor, limit=limit)
        return answer_rows(
            request,
            [change_row(change) for change in page.items],
            name="changes",
            columns=CHANGE_COLUMNS,
            next_cursor=page.next_cursor,
            format=format,
        )
