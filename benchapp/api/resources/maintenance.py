"""List, schedule, end and cancel maintenance windows, expected changes and notes."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.api.framework.answers import (
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    list_columns,
    with_columns,
)
from benchapp.api.framework.lists import answer_list, take_page_request
from benchapp.api.framework.openapi import in_formats
from benchapp.api.framework.parameters import (
    ChoiceParameter,
    MomentField,
    PageParameters,
    SpanParameters,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    time_order_parameter,
)
from benchapp.api.framework.permissions import MayReadOrEdit, read_actor
from benchapp.api.framework.problems import ErrorProblems, bad_value, map_errors, not_found, state_differs
from benchapp.api.framework.responses import answer_json
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import PREFIX
from benchapp.models import METRIC_FIELDS, PlannedEventAction, PlannedEventKind
from benchapp.pipeline.maintenance.impact import RUNS_COUNTED, Impact, preview_impact
from benchapp.pipeline.maintenance.planned_events import (
    REASON_MAXIMUM,
    BadPlannedEvent,
    NotSchedulable,
    UnknownPlannedEvent,
    cancel_planned_event,
    check_incident,
    end_planned_event,
    read_plan,
    restore_planned_event,
    resume_planned_event,
    schedule_planned_event,
)
from benchapp.queries.maintenance import (
    PlannedEventDetail,
    PlannedEventRow,
    PlannedEventState,
    list_planned_events,
    read_planned_event,
)
from benchapp.queue import wake_up

_PROBLEMS: Final[ErrorProblems] = {
    UnknownPlannedEvent: partial(not_found, "planned event"),
    NotSchedulable: state_differs,
    BadPlannedEvent: bad_value,
}


class PlannedEventRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    kind: PlannedEventKind
    state: PlannedEventState
    filter: Annotated[str, Meta(description="filter bar syntax; empty: everything")]
    metric: Annotated[str, Meta(description="of an expected change; empty: all")]
    is_regression: Annotated[
        bool | None, Meta(description="expected change: regressions or improvements only; null: both")
    ]
    incident: Annotated[int | None, Meta(description="whose similar changes it mutes")]
    from_at: Time
    to_at: Time
    ends_at: Annotated[
        Time, Meta(description="effective end, exclusive: to_at, or ended_at if it ended early")
    ]
    reason: str
    created_by: str | None
    created_at: Time
    ended_by: str | None
    ended_at: Time | None
    canceled_by: str | None
    canceled_at: Time | None
    url: str
    page: str


class ImpactAnswer(ApiAnswer, kw_only=True, frozen=True):
    series: Annotated[int, Meta(description="matching the filter")]
    hosts: Annotated[int, Meta(description="active")]
    host_names: Annotated[Sequence[str], Meta(description="first five by name")]
    runs: Annotated[int, Meta(description=f"stored runs in the period, counted up to {RUNS_COUNTED}")]
    has_more_runs: Annotated[bool, Meta(description=f"more than {RUNS_COUNTED}")]
    open_incidents: Annotated[
        Sequence[int], Meta(description="regressions that started in the period, at most five")
    ]


class PlannedEventLogEntryAnswer(ApiAnswer, kw_only=True, frozen=True):
    at: Time
    action: PlannedEventAction
    by: str | None
    via: Annotated[str, Meta(description="API token; empty for a person")]


class PlannedEventAnswer(PlannedEventRowAnswer, kw_only=True, frozen=True):
    impact: ImpactAnswer
    activity: Annotated[Sequence[PlannedEventLogEntryAnswer], Meta(description="oldest first")]


@with_columns(PlannedEventRowAnswer)
class ListedPlannedEventAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A planned event has the columns that `fields` names."""


PLANNED_EVENT_COLUMNS: Final = list_columns(ListedPlannedEventAnswer)


class PlannedEventPage(AnswerPage, kw_only=True, frozen=True):
    planned_events: Sequence[ListedPlannedEventAnswer]


def _describe_row(row: PlannedEventRow) -> PlannedEventRowAnswer:
    return build(
        PlannedEventRowAnswer,
        row,
        incident=row.incident_id,
        created_by=row.created_by_name or None,
        ended_by=row.ended_by_name or None,
        canceled_by=row.canceled_by_name or None,
        url=f"{PREFIX}/planned-events/{row.id}",
        page=f"/maintenance/{row.id}/",
    )


def _describe_event(detail: PlannedEventDetail) -> PlannedEventAnswer:
    row = detail.row
    impact = preview_impact(row)
    return build(
        PlannedEventAnswer,
        _describe_row(row),
        impact=_describe_impact(impact),
        activity=[
            build(PlannedEventLogEntryAnswer, entry, by=entry.by_name or None) for entry in detail.activity
        ],
    )


def _describe_impact(impact: Impact) -> ImpactAnswer:
    return build(
        ImpactAnswer,
        impact,
        runs=min(impact.runs, RUNS_COUNTED),
        open_incidents=[incident_id for incident_id, _ in impact.incidents],
    )


class PlannedEventParameters(SpanParameters, PageParameters):
    """Which planned events; those that overlap the range."""

    columns = PLANNED_EVENT_COLUMNS
    state = ChoiceParameter(choices=PlannedEventState.values, required=False)
    kind = ChoiceParameter(choices=PlannedEventKind.values, required=False)
    sort = time_order_parameter("from_at")


class PlannedEventInput(serializers.Serializer[Any]):
    """A new maintenance window, expected change or note."""

    kind = ChoiceParameter(choices=PlannedEventKind.values)
    filter = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="filter bar syntax; empty: everything",
    )
    metric = ChoiceParameter(
        choices=METRIC_FIELDS, required=False, help_text="of an expected change; without it all metrics"
    )
    is_regression = serializers.BooleanField(
        required=False,
        allow_null=True,
        help_text="of an expected change: regressions or improvements only; null: both",
    )
    incident = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=2**63 - 1,
        help_text="mute changes similar to those of this incident: it links to the planned event",
    )
    from_at = MomentField(help_text="inclusive")
    to_at = MomentField(
        required=False, allow_null=True, default=None, help_text="exclusive; a note of one time has none"
    )
    reason = serializers.CharField(max_length=REASON_MAXIMUM, help_text="of a note: its text")
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the impact only; nothing is saved"
    )


class PlannedEventChanges(serializers.Serializer[Any]):
    """The action: one of the two fields."""

    is_ended = serializers.BooleanField(required=False, help_text="true: end now; false: undo an early end")
    is_canceled = serializers.BooleanField(
        required=False, help_text="true: cancel, as DELETE; false: restore"
    )


class PlannedEvents(ApiView):
    """All planned events."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_planned_events",
        parameters=[PlannedEventParameters],
        responses=in_formats(PlannedEventPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List maintenance windows, expected changes and notes, latest start first by default."""
        wanted = read_parameters(request, PlannedEventParameters)
        page, now, oldest_first = take_page_request(wanted), timezone.now(), take_oldest_first(wanted)
        states = [PlannedEventState(state)] if (state := wanted.pop("state", None)) else []
        return answer_list(
            request,
            PlannedEventPage,
            ListedPlannedEventAnswer,
            page=page,
            read=lambda after, limit: list_planned_events(
                states, **wanted, now=now, after=after, limit=limit, oldest_first=oldest_first
            ),
            describe=lambda events: [build(ListedPlannedEventAnswer, _describe_row(each)) for each in events],
            name="planned_events",
        )

    @extend_schema(
        operation_id="create_planned_event",
        request=PlannedEventInput,
        responses={201: PlannedEventAnswer, 200: ImpactAnswer},
    )
    def post(self, request: Request) -> HttpResponse | Response:
        """Schedule maintenance, announce a change or add a note; a dry run answers 200 with the impact."""
        refuse_parameters(request)
        wanted = read_body(request, PlannedEventInput)
        is_dry_run = wanted.pop("dry_run")
        with map_errors(_PROBLEMS):
            if is_dry_run:
                check_incident(wanted.pop("incident", None))
                plan = read_plan(**wanted)
                impact = preview_impact(plan)
                return answer_json(request, _describe_impact(impact))
            created = schedule_planned_event(**wanted, **read_actor(request))
        wake_up()
        event = _describe_event(_find(created.pk))
        return Response(event, status=201, headers={"Location": event.url})


class OnePlannedEvent(ApiView):
    """One planned event."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_planned_event", responses=PlannedEventAnswer)
    def get(self, request: Request, planned_event_id: int) -> HttpResponse:
        """Read one maintenance window, expected change or note with its impact and activity log."""
        refuse_parameters(request)
        return answer_json(request, _describe_event(_find(planned_event_id)))

    @extend_schema(
        operation_id="change_planned_event", request=PlannedEventChanges, responses=PlannedEventAnswer
    )
    def patch(self, request: Request, planned_event_id: int) -> HttpResponse:
        """End early, cancel, or undo either."""
        refuse_parameters(request)
        wanted = read_body(request, PlannedEventChanges)
        if len(wanted) != 1:
            raise bad_value("send exactly one of is_ended and is_canceled")
        apply = {
            ("is_ended", True): end_planned_event,
            ("is_ended", False): resume_planned_event,
            ("is_canceled", True): cancel_planned_event,
            ("is_canceled", False): restore_planned_event,
        }[next(iter(wanted.items()))]
        with map_errors(_PROBLEMS):
            apply(planned_event_id, **read_actor(request))
        wake_up()
        return answer_json(request, _describe_event(_find(planned_event_id)))

    @extend_schema(operation_id="cancel_planned_event", responses={204: None})
    def delete(self, request: Request, planned_event_id: int) -> Response:
        """Cancel it; the row and its activity log remain, and PATCH can restore it."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            cancel_planned_event(planned_event_id, **read_actor(request))
        wake_up()
        return Response(status=204)


def _find(planned_event_id: int) -> PlannedEventDetail:
    detail = read_planned_event(planned_event_id, now=timezone.now())
    if detail is None:
        raise not_found("planned event", f"planned event {planned_event_id} does not exist")
    return detail
