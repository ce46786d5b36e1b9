"""Triage of several incidents at once, and its undo."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.framework.api.answers import ApiAnswer
from benchapp.framework.api.parameters import ChoiceParameter, refuse_parameters
from benchapp.framework.api.permissions import MayEdit, find_person
from benchapp.framework.api.problems import not_found
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.shapes import PREFIX
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_notify, wake_up
from benchapp.incidents.actions import triage
from benchapp.incidents.actions.accepted_levels import accept_level
from benchapp.incidents.actions.bulk import (
    BULK_ACTIONS,
    BULK_MAXIMUM,
    BulkReport,
    take_bulk_steps,
    undo_bulk,
)
from benchapp.incidents.actions.triage import Step
from benchapp.incidents.api.incidents import COMMENT_MAXIMUM, find_editor
from benchapp.models import User, Verdict

# Action → the fields that it has, besides `comment` of those with text.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "acknowledge": (),
    "assign": ("assignee",),
    "resolve": ("verdict", "comment"),
    "accept": ("comment",),
    "reopen": ("comment",),
}
_REQUIRED: Final[Mapping[str, str]] = {"assign": "assignee", "resolve": "verdict"}
_OPTIONAL: Final = ("assignee", "verdict", "comment")


class RefusedIncidentAnswer(ApiAnswer, kw_only=True, frozen=True):
    incident: int
    reason: str


class BulkTriageAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: Annotated[
        UUID | None,
        Meta(description="of the action, to undo it; null if no incident was changed, or of an undo"),
    ]
    changed: Annotated[Sequence[int], Meta(description="incidents, ascending")]
    refused: Annotated[
        Sequence[RefusedIncidentAnswer], Meta(description="incidents that were not changed, ascending")
    ]
    undo: Annotated[str | None, Meta(description="DELETE restores the changed incidents")]


class BulkTriageInput(serializers.Serializer[Any]):
    """One action for several incidents."""

    incidents = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        allow_empty=False,
        max_length=BULK_MAXIMUM,
        help_text="ids",
    )
    action = ChoiceParameter(
        choices=BULK_ACTIONS, help_text="accept: the new levels of all series as baselines"
    )
    verdict = ChoiceParameter(
        choices=[each.value for each in Verdict if each], required=False, help_text="of resolve: required"
    )
    assignee = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=150,
        help_text="of assign: required; a user name, null: unassigned",
    )
    comment = serializers.CharField(
        required=False,
        max_length=COMMENT_MAXIMUM,
        help_text="of resolve, accept and reopen: plain text",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require the fields of the action, and no others; generated clients write null for those not given."""
        action = attrs["action"]
        required = _REQUIRED.get(action)
        if required and required not in attrs:
            raise serializers.ValidationError({required: f"the action {action} requires it"})
        for name in _OPTIONAL:
            if attrs.get(name) is not None and name not in _FIELDS[action]:
                raise serializers.ValidationError({name: f"the action {action} does not have it"})
        return attrs


class BulkTriage(ApiView):
    """Triage of several incidents at once."""

    permission_classes = [MayEdit]

    @extend_schema(
        operation_id="triage_incidents", request=BulkTriageInput, responses={200: BulkTriageAnswer}
    )
    def post(self, request: Request) -> HttpResponse:
        """Take the same action on several incidents, in one transaction.

        Incidents on which it is not possible are not changed, and reported with the reason.
        """
        refuse_parameters(request)
        wanted = read_body(request, BulkTriageInput)
        make = _make_steps(wanted, by=find_person(request))
        report = take_bulk_steps({incident_id: make(incident_id) for incident_id in wanted["incidents"]})
        return _answer(request, report)


class OneBulkTriage(ApiView):
    """One triage of several incidents."""

    permission_classes = [MayEdit]

    @extend_schema(operation_id="undo_triage_of_incidents", responses={200: BulkTriageAnswer})
    def delete(self, request: Request, bulk: UUID) -> HttpResponse:
        """Restore the incidents of one's own action, except those that were changed since, which are reported.

        An action by a token is that of its owner.
        """
        refuse_parameters(request)
        report = undo_bulk(bulk.hex, by=find_person(request))
        if not report.events and not report.refused:
            raise not_found(
                "action",
                f"action {bulk} of yours does not exist or is already undone",
            )
        return _answer(request, report)


def _make_steps(wanted: Mapping[str, Any], *, by: User | None) -> Callable[[int], Step]:
    """Return what makes the step of an incident."""
    comment = wanted.get("comment", "")
    match wanted["action"]:
        case "acknowledge":
            return lambda each: partial(triage.acknowledge, each, by=by)
        case "assign":
            to = find_editor(wanted["assignee"])
            return lambda each: partial(triage.assign, each, by=by, to=to)
        case "resolve":
            verdict = wanted["verdict"]
            return lambda each: partial(triage.resolve, each, by=by, verdict=verdict, comment=comment)
        case "accept":
            return lambda each: partial(accept_level, each, by=by, comment=comment, series_ids=None)
        case _:
            return lambda each: partial(triage.reopen, each, by=by, comment=comment)


def _answer(request: Request, report: BulkReport) -> HttpResponse:
    wake_up()
    wake_notify()
    answer = BulkTriageAnswer(
        id=UUID(report.bulk) if report.bulk else None,
        changed=[event.incident_id for event in report.events],
        refused=[RefusedIncidentAnswer(incident=each, reason=reason) for each, reason in report.refused],
        undo=f"{PREFIX}/incidents/bulk/{UUID(report.bulk)}" if report.bulk else None,
    )
    return answer_json(request, answer)
