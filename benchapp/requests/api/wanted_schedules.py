"""Schedules that are wanted of pools and hosts."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.framework.api.answers import (
    PREFIX,
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Kind,
    Time,
    build,
    define_answer,
    list_columns,
    with_columns,
)
from benchapp.framework.api.list_entries import list_given
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    PageParameters,
    read_parameters,
    refuse_parameters,
    text_parameter,
)
from benchapp.framework.api.permissions import MayReadOrEdit, find_person
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import WantedSchedule, follow_name
from benchapp.models.requests import DAY_MINUTES, INTERVALS
from benchapp.requests.api.run_requests import PARAMETERS_HELP, RunParametersField
from benchapp.requests.read.schedules import page_wanted_rows, read_wanted_row
from benchapp.requests.write.wanted_schedules import (
    POOL_MAXIMUM,
    ScheduleScope,
    UnknownWantedSchedule,
    remove_wanted_schedule,
    save_wanted_schedule,
)

_HOST_MAXIMUM: Final = 253
_EVERY_TEXT: Final = f"one of {', '.join(map(str, INTERVALS.values()))}; 604800 is on Sundays"

_PROBLEMS: Final[ErrorProblems] = {
    UnknownWantedSchedule: partial(not_found, "wanted schedule"),
    BadValue: bad_value,
}


class WantedRunInput(serializers.ModelSerializer[Any]):
    """A profile and its times."""

    every_s = serializers.IntegerField(
        allow_null=True, help_text=f"{_EVERY_TEXT}; null: the host does not run this profile of its pool"
    )
    parameters = RunParametersField(required=False, default=dict, help_text=PARAMETERS_HELP)

    class Meta:
        model = WantedSchedule
        fields: tuple[str, ...] = WantedSchedule.given
        extra_kwargs: Final = {
            "at_minute": {
                "default": 0,
                "min_value": 0,
                "max_value": DAY_MINUTES - 1,
                "help_text": "after midnight, local time of the host",
            },
            "splay_s": {
                "default": 0,
                "min_value": 0,
                "max_value": 86_399,
                "help_text": "whole minutes; hosts start within it, each at its own time",
            },
            "directory": {
                "default": "",
                "trim_whitespace": False,
                "help_text": "absolute; required unless every_s is null",
            },
        }


class WantedScheduleInput(WantedRunInput):
    """A new wanted schedule, of a pool or of a host."""

    pool = serializers.CharField(
        required=False, allow_blank=True, max_length=POOL_MAXIMUM, help_text="empty: hosts without a pool"
    )
    host = serializers.CharField(
        required=False, max_length=_HOST_MAXIMUM, help_text="overrides the schedule of its pool"
    )

    class Meta(WantedRunInput.Meta):
        fields = (*WantedSchedule.given, "pool", "host")
        # Saving says in words that there is one.
        validators: Final = ()

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require a pool or a host."""
        if ("pool" in attrs) == ("host" in attrs):
            raise serializers.ValidationError({"pool": ["name either pool or host"]})
        return attrs


@with_columns(
    {
        "id": int,
        "pool": Annotated[str | None, Meta(description="empty: hosts without a pool; null: of one host")],
        "host": Annotated[
            str | None, Meta(description="overrides the schedule of its pool; null: of a pool")
        ],
    },
    {
        **list_given(WantedRunInput),
        "parameters": Annotated[
            Mapping[str, int | str], Meta(description="in base units; others have their default")
        ],
    },
)
class WantedScheduleAnswer(ApiAnswer, kw_only=True, frozen=True):
    updated_at: Time
    updated_by: str | None
    url: str
    page: str


@with_columns(WantedScheduleAnswer)
class ListedWantedScheduleAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A wanted schedule in a list."""


WANTED_SCHEDULE_COLUMNS: Final = list_columns(ListedWantedScheduleAnswer)


WantedSchedulePage = define_answer(
    "WantedSchedulePage", AnswerPage, wanted_schedules=Sequence[ListedWantedScheduleAnswer]
)


class WantedScheduleParameters(PageParameters):
    """Which wanted schedules."""

    columns = WANTED_SCHEDULE_COLUMNS
    pool = text_parameter(
        POOL_MAXIMUM,
        allow_blank=True,
        help_text="of this pool, without its hosts; empty: of hosts without a pool",
    )
    host = text_parameter(_HOST_MAXIMUM, help_text="of this host, without its pool")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse a pool and a host: a wanted schedule is of one of them."""
        if {"pool", "host"} <= attrs.keys():
            raise serializers.ValidationError({"pool": "name either pool or host"})
        return super().validate(attrs)  # type: ignore[no-any-return]


class WantedSchedules(ApiView):
    """All wanted schedules."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_wanted_schedules",
        parameters=[WantedScheduleParameters],
        responses=in_formats(WantedSchedulePage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List wanted schedules of pools and hosts, oldest first."""
        wanted = read_parameters(request, WantedScheduleParameters)
        host_name = follow_name("host", wanted["host"].lower()) if "host" in wanted else None
        pool = follow_name("pool", wanted["pool"]) if "pool" in wanted else None
        return answer_list(
            request,
            WantedSchedulePage,
            ListedWantedScheduleAnswer,
            page=take_page_request(wanted),
            read=lambda after, limit: page_wanted_rows(
                pool=pool, host_name=host_name, after=after, limit=limit
            ),
            describe=lambda rows: [_describe_row(ListedWantedScheduleAnswer, row) for row in rows],
            name="wanted_schedules",
        )

    @extend_schema(
        operation_id="create_wanted_schedule",
        request=WantedScheduleInput,
        responses={201: WantedScheduleAnswer},
    )
    def post(self, request: Request) -> Response:
        """Add a profile to the schedule of a pool or a host; hosts that allow it adopt it at their next poll."""
        refuse_parameters(request)
        wanted = read_body(request, WantedScheduleInput)
        scope = ScheduleScope(
            pool=follow_name("pool", wanted.pop("pool", "").strip()),
            host_name=follow_name("host", wanted.pop("host", "").strip().lower()),
        )
        with map_errors(_PROBLEMS):
            created = save_wanted_schedule(scope, WantedSchedule(**wanted), by=find_person(request))
        answer = _describe_row(WantedScheduleAnswer, _find(created.pk))
        return Response(answer, status=201, headers={"Location": answer.url})


class OneWantedSchedule(ApiView):
    """One wanted schedule."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_wanted_schedule", responses=WantedScheduleAnswer)
    def get(self, request: Request, wanted_id: int) -> HttpResponse:
        """Read one wanted schedule."""
        refuse_parameters(request)
        return answer_json(request, _describe_row(WantedScheduleAnswer, _find(wanted_id)))

    @extend_schema(
        operation_id="replace_wanted_schedule", request=WantedRunInput, responses=WantedScheduleAnswer
    )
    def put(self, request: Request, wanted_id: int) -> HttpResponse:
        """Replace a wanted schedule; its pool or host stays."""
        refuse_parameters(request)
        wanted, row = read_body(request, WantedRunInput), _find(wanted_id)
        scope = ScheduleScope(row.pool, row.host_name)
        with map_errors(_PROBLEMS):
            save_wanted_schedule(scope, WantedSchedule(**wanted), by=find_person(request), replaces=wanted_id)
        return answer_json(request, _describe_row(WantedScheduleAnswer, _find(wanted_id)))

    @extend_schema(operation_id="remove_wanted_schedule", responses={204: None})
    def delete(self, request: Request, wanted_id: int) -> Response:
        """Remove a wanted schedule; hosts that adopted it remove it at their next poll."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            remove_wanted_schedule(wanted_id, by=find_person(request))
        return Response(status=204)


def _describe_row(kind: type[Kind], row: WantedSchedule) -> Kind:
    return build(
        kind,
        row,
        pool=None if row.host_name else row.pool,
        host=row.host_name or None,
        updated_by=row.updated_by_name or None,
        url=f"{PREFIX}/wanted-schedules/{row.pk}",
        page="/schedules/scope/?"
        + urlencode({"host": row.host_name} if row.host_name else {"pool": row.pool}),
    )


def _find(wanted_id: int) -> WantedSchedule:
    row = read_wanted_row(wanted_id)
    if row is None:
        raise not_found("wanted schedule", f"wanted schedule {wanted_id} does not exist")
    return row
