"""What a host is expected to run by itself."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from benchapp.api.answers import answer_json
from benchapp.api.outputs import ScheduleOutput
from benchapp.api.parameters import refuse_parameters
from benchapp.api.permissions import MayIngest, require_api_token
from benchapp.api.rows import schedule_row
from benchapp.api.tokens import read_body
from benchapp.api.view import ApiView
from benchapp.pipeline.schedules import ScheduleEntry, note_schedule
from benchapp.queries.hosts import read_host

_ENTRIES_MAXIMUM: Final = 100
_EVERY_MINIMUM_S: Final = 60
_EVERY_MAXIMUM_S: Final = 366 * 86_400
# PATH_MAX of Linux.
_DIRECTORY_MAXIMUM: Final = 4096


class ScheduleEntryInput(serializers.Serializer[Any]):
    """A profile that a host runs by itself."""

    profile = serializers.CharField(max_length=100)
    every_s = serializers.IntegerField(min_value=_EVERY_MINIMUM_S, max_value=_EVERY_MAXIMUM_S)
    splay_s = serializers.IntegerField(required=False, default=0, min_value=0, max_value=_EVERY_MAXIMUM_S)
    directory = serializers.CharField(max_length=_DIRECTORY_MAXIMUM, trim_whitespace=False)

    def to_internal_value(self, data: Any) -> Any:
        """Refuse members that mean nothing here: a misspelt one would be lost without a word."""
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, Mapping) else []
        if unknown:
            raise serializers.ValidationError(
                {unknown[0][:80]: [f"is unknown; there are: {', '.join(self.fields)}"]}
            )
        return super().to_internal_value(data)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse a splay that reaches into the next run."""
        if attrs["splay_s"] >= attrs["every_s"]:
            raise serializers.ValidationError(
                {"splay_s": [f"{attrs['splay_s']} s are not less than the interval, {attrs['every_s']} s"]}
            )
        return attrs


class ScheduleInput(serializers.Serializer[Any]):
    """All that a host runs by itself; an empty list says: nothing."""

    entries = serializers.ListField(child=ScheduleEntryInput(), allow_empty=True, max_length=_ENTRIES_MAXIMUM)


class OwnSchedule(ApiView):
    """The schedule of the host whose token asks."""

    permission_classes = [MayIngest]

    @extend_schema(operation_id="replace_own_schedule", request=ScheduleInput, responses=ScheduleOutput)
    def put(self, request: Request) -> HttpResponse:
        """Tell what this host runs by itself, in place of what it told before; a silent host is known by it."""
        refuse_parameters(request)
        token = require_api_token(request)
        if token.host is None:
            raise NotAuthenticated
        wanted = read_body(request, ScheduleInput)
        entries = [ScheduleEntry(**entry) for entry in wanted["entries"]]
        note_schedule(token.host.pk, entries, told_by=str(token))
        host = read_host(token.host.name)
        if host is None or host.schedule is None:
            raise RuntimeError(f"host {token.host.name} lost its schedule while it was told")
        return answer_json(request, schedule_row(host.schedule))
