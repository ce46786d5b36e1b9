"""Accept the new levels of an incident as baselines, or preview it."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import ApiAnswer, Time, build
from benchapp.framework.api.parameters import refuse_parameters
from benchapp.framework.api.permissions import MayReadOrEdit, find_person
from benchapp.framework.api.problems import map_errors
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_notify, wake_up
from benchapp.incidents.actions.accept_impact import AcceptImpact, preview_accept_impact
from benchapp.incidents.actions.accepted_levels import AcceptedLevel, accept_level, check_acceptable
from benchapp.incidents.actions.triage import Step, take_steps
from benchapp.incidents.api.incidents import (
    TRIAGE_PROBLEMS,
    IncidentAnswer,
    describe_incident_detail,
    find_incident,
)
from benchapp.models import Channel, Incident, User

_SERIES_MAXIMUM: Final = 10_000
_COMMENT_MAXIMUM: Final = 5000


class AcceptedLevelAnswer(ApiAnswer, kw_only=True, frozen=True):
    series: int
    metric: str
    unit: str
    before: Annotated[float, Meta(description="old level, in the metric's base unit")]
    level: Annotated[float, Meta(description="new baseline")]
    relative: Annotated[float, Meta(description="of the stored change: level / before − 1")]
    is_regression: bool
    from_at: Annotated[Time, Meta(description="first run of the baseline; earlier runs are not compared")]


class OverlappingIncidentAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    title: str
    earlier: Annotated[
        int, Meta(description="changes from before the baseline: not evaluated any more, it stays open")
    ]
    later: Annotated[int, Meta(description="later changes: evaluated again, against the baseline")]
    drifts: Annotated[int, Meta(description="drifts from the earlier baseline: withdrawn")]


class NotifiedSubscriptionAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    owner: str
    channel: Channel
    is_waiting: Annotated[bool, Meta(description="its notice is not sent yet, and still will be")]


class AcceptImpactAnswer(ApiAnswer, kw_only=True, frozen=True):
    series_count: int
    levels: Annotated[Sequence[AcceptedLevelAnswer], Meta(description="by series and metric")]
    incidents: Annotated[
        Sequence[OverlappingIncidentAnswer],
        Meta(description="other open incidents with changes of these metrics and series, newest first"),
    ]
    subscriptions: Annotated[
        Sequence[NotifiedSubscriptionAnswer],
        Meta(description="active ones with a notice of the incident; none is notified of the baseline"),
    ]


class BaselineInput(serializers.Serializer[Any]):
    """Which levels to accept."""

    series = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        required=False,
        allow_empty=False,
        max_length=_SERIES_MAXIMUM,
        help_text="ids; without it all series of the incident",
    )
    comment = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=_COMMENT_MAXIMUM,
        help_text="plain text",
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="return the impact only; nothing is saved"
    )


class IncidentBaseline(ApiView):
    """New baseline of an incident."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="accept_baseline",
        request=BaselineInput,
        responses={201: IncidentAnswer, 200: AcceptImpactAnswer},
    )
    def post(self, request: Request, incident_id: int) -> HttpResponse | Response:
        """Accept the new levels as baselines and resolve the incident as expected.

        A dry run answers 200 with the impact.
        """
        refuse_parameters(request)
        find_incident(incident_id)
        wanted = read_body(request, BaselineInput)
        with map_errors(TRIAGE_PROBLEMS):
            if wanted["dry_run"]:
                impact = preview_accept_impact(incident_id, series_ids=wanted.get("series"))
                check_acceptable(Incident.objects.get(pk=incident_id), impact.levels)
                return answer_json(request, _describe_impact(impact))
            take_steps([_make_step(incident_id, wanted, by=find_person(request))])
        wake_up()
        wake_notify()
        answer = describe_incident_detail(find_incident(incident_id))
        return Response(answer, status=201, headers={"Location": answer.url})


def _make_step(incident_id: int, wanted: dict[str, Any], *, by: User | None) -> Step:
    return partial(
        accept_level, incident_id, by=by, comment=wanted["comment"], series_ids=wanted.get("series")
    )


def _describe_impact(impact: AcceptImpact) -> AcceptImpactAnswer:
    return AcceptImpactAnswer(
        series_count=impact.series_count,
        levels=[_describe_level(level) for level in impact.levels],
        incidents=[build(OverlappingIncidentAnswer, each) for each in impact.incidents],
        subscriptions=[
            build(NotifiedSubscriptionAnswer, each, owner=each.owner_name, channel=Channel(each.channel))
            for each in impact.subscriptions
        ],
    )


def _describe_level(level: AcceptedLevel) -> AcceptedLevelAnswer:
    return build(AcceptedLevelAnswer, level, series=level.series_id, unit=CATALOG[level.metric].unit)
