"""List, schedule, end and cancel maintenance windows and expected changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.api.framework.output_fields import (
    Output,
    PageOutput,
    maybe_text,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.api.framework.parameters import PageParameters, read_parameters, refuse_parameters
from benchapp.api.framework.permissions import MayReadOrEdit, find_person, read_api_token
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import answer_dicts, answer_json
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import PREFIX, Row
from benchapp.models import PlannedEventAction, PlannedEventKind
from benchapp.pipeline.maintenance.impact import RUNS_COUNTED, Impact, preview_impact
from benchapp.pipeline.maintenance.planned_events import (
    REASON_MAXIMUM,
    BadPlannedEvent,
    NotSchedulable,
    UnknownPlannedEvent,
    cancel_planned_event,
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


class PlannedEventRowOutput(Output):
    id = number()
    kind = serializers.ChoiceField(choices=PlannedEventKind.values)
    state = serializers.ChoiceField(choices=PlannedEventState.values)
    filter = text(help_text="filter bar syntax; empty: everything")
    from_at = time()
    to_at = time()
    ends_at = serializers.DateTimeField(
        help_text="effective end, exclusive: to_at, or ended_at if it ended early"
    )
    reason = text()
    created_by = maybe_text()
    created_at = time()
    ended_by = maybe_text()
    ended_at = maybe_time()
    canceled_by = maybe_text()
    canceled_at = maybe_time()
    url = text()
    page = text()


class ImpactOutput(Output):
    series = number(help_text="matching the filter")
    hosts = number(help_text="active")
    host_names = serializers.ListField(child=text(), help_text="first five by name")
    runs = number(help_text=f"stored runs in the period, counted up to {RUNS_COUNTED}")
    has_more_runs = serializers.BooleanField(help_text=f"more than {RUNS_COUNTED}")
    open_incidents = serializers.ListField(
        child=serializers.IntegerField(), help_text="regressions that started in the period, at most five"
    )


class PlannedEventLogEntryOutput(Output):
    at = time()
    action = serializers.ChoiceField(choices=PlannedEventAction.values)
    by = maybe_text()
    via = text(help_text="API token; empty for a person")


class PlannedEventOutput(PlannedEventRowOutput):
    impact = ImpactOutput()
    activity = PlannedEventLogEntryOutput(many=True, help_text="oldest first")


class PlannedEventPage(PageOutput):
    planned_events = PlannedEventRowOutput(many=True)


PLANNED_EVENT_COLUMNS: Final = tuple(PlannedEventRowOutput().fields)


def planned_event_row(row: PlannedEventRow) -> Row:
    """Return a planned event in a list."""
    values: dict[str, Any] = asdict(row) | {
        "kind": row.kind.value,
        "state": row.state.value,
        "created_by": row.created_by_name or None,
        "ended_by": row.ended_by_name or None,
        "canceled_by": row.canceled_by_name or None,
        "url": f"{PREFIX}/planned-events/{row.id}",
        "page": f"/maintenance/{row.id}/",
    }
    return {name: values[name] for name in PLANNED_EVENT_COLUMNS}


def planned_event_detail(detail: PlannedEventDetail, impact: Impact) -> Row:
    """Return one planned event with its impact and activity log."""
    return {
        **planned_event_row(detail.row),
        "impact": impact_row(impact),
        "activity": [
            {"at": entry.at, "action": entry.action.value, "by": entry.by_name or None, "via": entry.via}
            for entry in detail.activity
        ],
    }


def impact_row(impact: Impact) -> Row:
    """Return the impact of a filter and a period."""
    return {
        "series": impact.series,
        "hosts": impact.hosts,
        "host_names": list(impact.host_names),
        "runs": min(impact.runs, RUNS_COUNTED),
        "has_more_runs": impact.has_more_runs,
        "open_incidents": [incident_id for incident_id, _ in impact.incidents],
    }


class PlannedEventParameters(PageParameters):
    """Which planned events."""

    state = serializers.ChoiceField(choices=PlannedEventState.values, required=False)
    kind = serializers.ChoiceField(choices=PlannedEventKind.values, required=False)


class PlannedEventInput(serializers.Serializer[Any]):
    """A new maintenance window or expected change."""

    kind = serializers.ChoiceField(choices=PlannedEventKind.values)
    filter = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="filter bar syntax; empty: everything",
    )
    from_at = serializers.DateTimeField(help_text="RFC 3339, inclusive")
    to_at = serializers.DateTimeField(help_text="RFC 3339, exclusive")
    reason = serializers.CharField(max_length=REASON_MAXIMUM)
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
        operation_id="list_planned_events", parameters=[PlannedEventParameters], responses=PlannedEventPage
    )
    def get(self, request: Request) -> HttpResponse:
        """List maintenance windows and expected changes, latest start first."""
        wanted = read_parameters(request, PlannedEventParameters)
        page = list_planned_events(
            [PlannedEventState(wanted["state"])] if "state" in wanted else [],
            now=timezone.now(),
            kind=PlannedEventKind(wanted["kind"]) if "kind" in wanted else None,
            after=wanted.get("cursor"),
            limit=wanted["limit"],
        )
        return answer_dicts(
            request,
            [planned_event_row(row) for row in page.items],
            name="planned_events",
            columns=PLANNED_EVENT_COLUMNS,
            next_cursor=page.next_cursor,
        )

    @extend_schema(
        operation_id="create_planned_event",
        request=PlannedEventInput,
        responses={201: PlannedEventOutput, 200: ImpactOutput},
    )
    def post(self, request: Request) -> HttpResponse | Response:
        """Schedule maintenance or announce a change; a dry run answers 200 with the impact."""
        refuse_parameters(request)
        wanted = read_body(request, PlannedEventInput)
        is_dry_run = wanted.pop("dry_run")
        with _map_errors():
            if is_dry_run:
                plan = read_plan(**wanted)
                return answer_json(
                    request, impact_row(preview_impact(plan.filter, from_at=plan.from_at, to_at=plan.to_at))
                )
            created = schedule_planned_event(**wanted, **_read_actor(request))
        wake_up()
        row = _detail(created.pk)
        return Response(row, status=201, headers={"Location": row["url"]})


class OnePlannedEvent(ApiView):
    """One planned event."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_planned_event", responses=PlannedEventOutput)
    def get(self, request: Request, planned_event_id: int) -> HttpResponse:
        """Read one maintenance window or expected change with its impact and activity log."""
        refuse_parameters(request)
        return answer_json(request, _detail(planned_event_id))

    @extend_schema(
        operation_id="change_planned_event", request=PlannedEventChanges, responses=PlannedEventOutput
    )
    def patch(self, request: Request, planned_event_id: int) -> HttpResponse:
        """End early, cancel, or undo either."""
        refuse_parameters(request)
        wanted = read_body(request, PlannedEventChanges)
        if len(wanted) != 1:
            raise Problem(400, "value-invalid", "Bad value", "send exactly one of is_ended and is_canceled")
        apply = {
            ("is_ended", True): end_planned_event,
            ("is_ended", False): resume_planned_event,
            ("is_canceled", True): cancel_planned_event,
            ("is_canceled", False): restore_planned_event,
        }[next(iter(wanted.items()))]
        with _map_errors():
            apply(planned_event_id, **_read_actor(request))
        wake_up()
        return answer_json(request, _detail(planned_event_id))

    @extend_schema(operation_id="cancel_planned_event", responses={204: None})
    def delete(self, request: Request, planned_event_id: int) -> Response:
        """Cancel it; the row and its activity log remain, and PATCH can restore it."""
        refuse_parameters(request)
        with _map_errors():
            cancel_planned_event(planned_event_id, **_read_actor(request))
        wake_up()
        return Response(status=204)


def _read_actor(request: Request) -> dict[str, Any]:
    token = read_api_token(request)
    return {"by": find_person(request), "via": f"bench_{token.public_id}" if token else ""}


def _detail(planned_event_id: int) -> Row:
    detail = _find(planned_event_id)
    row = detail.row
    return planned_event_detail(detail, preview_impact(row.filter, from_at=row.from_at, to_at=row.ends_at))


def _find(planned_event_id: int) -> PlannedEventDetail:
    detail = read_planned_event(planned_event_id, now=timezone.now())
    if detail is None:
        raise _no_planned_event(f"planned event {planned_event_id} does not exist")
    return detail


@contextmanager
def _map_errors() -> Iterator[None]:
    try:
        yield
    except UnknownPlannedEvent as error:
        raise _no_planned_event(str(error)) from error
    except NotSchedulable as error:
        raise Problem(409, "state-differs", "Not in this state", str(error)) from error
    except BadPlannedEvent as error:
        raise Problem(
            400, "value-invalid", "Bad value", str(error), pointer=f"/{error.field}" if error.field else None
        ) from error


def _no_planned_event(detail: str) -> Problem:
    return Problem(404, "not-found", "No such planned event", detail)
