"""List, schedule, end and cancel maintenance windows, expected changes and notes."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from django.utils import timezone
from msgspec import Meta
from rest_framework import serializers

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import (
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    define_answer,
    list_columns,
    with_columns,
)
from benchapp.framework.api.list_entries import EntryResource, make_views, with_entry_columns
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    MomentField,
    PageParameters,
    SpanParameters,
    time_order_parameter,
)
from benchapp.framework.read.pagination import Page
from benchapp.incidents.read.maintenance import list_planned_events, read_planned_event
from benchapp.incidents.write.planned_events import (
    EVENTS,
    RUNS_COUNTED,
    end_planned_event,
    preview_impact,
    resume_planned_event,
)
from benchapp.models import (
    PlannedEvent,
    PlannedEventAction,
    PlannedEventKind,
    PlannedEventState,
)


class PlannedEventInput(serializers.ModelSerializer[Any]):
    """A new maintenance window, expected change or note."""

    kind = ChoiceParameter(choices=PlannedEventKind.values)
    metric = ChoiceParameter(
        choices=tuple(CATALOG), required=False, help_text="of an expected change; without it all metrics"
    )
    incident = serializers.IntegerField(
        source="incident_id",
        required=False,
        allow_null=True,
        min_value=1,
        max_value=2**63 - 1,
        help_text="whose similar changes it mutes",
    )
    from_at = MomentField(help_text="inclusive")
    to_at = MomentField(
        required=False, allow_null=True, default=None, help_text="exclusive; optional for a note"
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the impact only; nothing is saved"
    )

    class Meta:
        model = PlannedEvent
        fields = (*PlannedEvent.given, "dry_run")
        extra_kwargs: Final = {
            "filter": {"default": "", "help_text": "filter bar syntax; empty: everything"},
            "is_regression": {
                "help_text": "of an expected change: regressions or improvements only; null: both"
            },
            "reason": {"help_text": "of a note: its text"},
        }


class PlannedEventChanges(serializers.Serializer[Any]):
    """The action: one of the two fields."""

    is_ended = serializers.BooleanField(required=False, help_text="true: end now; false: undo an early end")
    is_canceled = serializers.BooleanField(
        required=False, help_text="true: cancel, as DELETE; false: restore"
    )


@with_entry_columns(PlannedEventInput, after={"kind": ("state",), "to_at": ("ends_at",)})
class PlannedEventRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    kind: PlannedEventKind
    state: PlannedEventState
    metric: Annotated[str, Meta(description="of an expected change; empty: all")]
    ends_at: Annotated[
        Time, Meta(description="effective end, exclusive: to_at, or ended_at if it ended early")
    ]


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


PlannedEventPage = define_answer(
    "PlannedEventPage", AnswerPage, planned_events=Sequence[ListedPlannedEventAnswer]
)


class PlannedEventParameters(SpanParameters, PageParameters):
    """Which planned events; those that overlap the range."""

    columns = list_columns(ListedPlannedEventAnswer)
    state = ChoiceParameter(choices=PlannedEventState.values, required=False)
    kind = ChoiceParameter(choices=PlannedEventKind.values, required=False)
    sort = time_order_parameter("from_at")


def _list_page(*, state: str | None = None, **parameters: Any) -> Page[PlannedEvent]:
    return list_planned_events([state] if state else [], now=timezone.now(), **parameters)


def _describe_impact(planned: PlannedEvent) -> ImpactAnswer:
    impact = preview_impact(planned)
    return build(
        ImpactAnswer,
        impact,
        runs=min(impact.runs, RUNS_COUNTED),
        open_incidents=[incident_id for incident_id, _ in impact.incidents],
    )


def _preview(given: dict[str, Any]) -> ImpactAnswer | None:
    """Return the impact of what a dry run gives; None for what is to be saved."""
    if not given.pop("dry_run"):
        return None
    planned = PlannedEvent(**given)
    EVENTS.check(planned)
    return _describe_impact(planned)


PlannedEvents, OnePlannedEvent = make_views(
    EntryResource(
        entries=EVENTS,
        path="planned-events",
        place="maintenance",
        parameters=PlannedEventParameters,
        input=PlannedEventInput,
        changes=PlannedEventChanges,
        actions={
            ("is_ended", True): end_planned_event,
            ("is_ended", False): resume_planned_event,
            ("is_canceled", True): EVENTS.cancel,
            ("is_canceled", False): EVENTS.restore,
        },
        row=PlannedEventRowAnswer,
        listed=ListedPlannedEventAnswer,
        page=PlannedEventPage,
        answer=PlannedEventAnswer,
        activity=PlannedEventLogEntryAnswer,
        list_page=_list_page,
        read=lambda planned_event_id: read_planned_event(planned_event_id, now=timezone.now()),
        describe_more=lambda planned_event: {"impact": _describe_impact(planned_event)},
        preview=_preview,
        previewed=ImpactAnswer,
    ),
    list_text="List maintenance windows, expected changes and notes, latest start first by default.",
    create="Schedule maintenance, announce a change or add a note; a dry run answers 200 with the impact.",
    read="Read one maintenance window, expected change or note with its impact and activity log.",
    change="End early, cancel, or undo either.",
)
