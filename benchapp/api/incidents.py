"""Incidents: what people triage, and the steps of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.answers import answer_json, answer_rows
from benchapp.api.incident_outputs import (
    INCIDENT_COLUMNS,
    IncidentOutput,
    IncidentPage,
    incident_detail,
    incident_row,
)
from benchapp.api.parameters import (
    FilterField,
    PageParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
)
from benchapp.api.permissions import MayRead, MayReadOrEdit, find_person
from benchapp.api.problems import Problem
from benchapp.api.tokens import read_body
from benchapp.api.view import ApiView
from benchapp.models import IncidentState, Role, Severity, User, Verdict
from benchapp.pipeline import triage
from benchapp.pipeline.triage import BadTriage, NotPossible, UnknownIncident
from benchapp.pipeline.triage_steps import Step, take_steps
from benchapp.queries.incident_rows import IncidentDetail, IncidentFilter, Tab
from benchapp.queries.incidents import list_incidents, read_incident
from benchapp.tasks import wake_notify, wake_up

_WORDS_MAXIMUM: Final = 5000
_LINK_MAXIMUM: Final = 500


class IncidentParameters(PageParameters):
    """Which incidents."""

    q = FilterField(source="match")
    tab = serializers.ChoiceField(
        choices=[tab.value for tab in Tab],
        required=False,
        default=Tab.ALL.value,
        help_text="part of the inbox; open: new and acknowledged regressions that are not snoozed",
    )
    state = serializers.ChoiceField(choices=IncidentState.values, required=False)
    severity = serializers.ChoiceField(choices=Severity.values, required=False)
    is_regression = flag_parameter()
    since = serializers.DateTimeField(
        source="since_at", required=False, help_text="those that began then or later, RFC 3339"
    )


class IncidentChanges(serializers.Serializer[Any]):
    """What to change of an incident: all of it or nothing; what is left out stays."""

    state = serializers.ChoiceField(
        choices=IncidentState.values, required=False, help_text="new: open again; resolved takes a verdict"
    )
    verdict = serializers.ChoiceField(choices=[each.value for each in Verdict if each], required=False)
    assignee = serializers.CharField(
        required=False, allow_null=True, max_length=150, help_text="a user name; null for nobody"
    )
    link = serializers.CharField(
        required=False, allow_null=True, max_length=_LINK_MAXIMUM, help_text="http or https"
    )
    snoozed_until = serializers.DateTimeField(required=False, allow_null=True)
    comment = serializers.CharField(required=False, max_length=_WORDS_MAXIMUM, help_text="plain text")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse a verdict without the state that it belongs to, and the other way round."""
        if ("verdict" in attrs) != (attrs.get("state") == IncidentState.RESOLVED):
            raise serializers.ValidationError(
                {"verdict": "a verdict and the state resolved go together: give both"}
            )
        return attrs


class Incidents(ApiView):
    """All incidents."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="list_incidents", parameters=[IncidentParameters], responses=IncidentPage)
    def get(self, request: Request) -> HttpResponse:
        """List incidents, those that began last first; one that was merged into another is in no list."""
        wanted = read_parameters(request, IncidentParameters)
        cursor, limit = wanted.pop("cursor", None), wanted.pop("limit")
        page = list_incidents(
            IncidentFilter(**{**wanted, "tab": Tab(wanted["tab"])}), after=cursor, limit=limit
        )
        return answer_rows(
            request,
            [incident_row(incident) for incident in page.items],
            name="incidents",
            columns=INCIDENT_COLUMNS,
            next_cursor=page.next_cursor,
        )


class OneIncident(ApiView):
    """One incident."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_incident", responses=IncidentOutput)
    def get(self, request: Request, incident_id: int) -> HttpResponse:
        """Read one incident with its changes and everything that happened to it."""
        refuse_parameters(request)
        return answer_json(request, incident_detail(_find(incident_id)))

    @extend_schema(operation_id="change_incident", request=IncidentChanges, responses=IncidentOutput)
    def patch(self, request: Request, incident_id: int) -> HttpResponse:
        """Acknowledge, resolve, reopen, assign, link, snooze or comment: all that is given, or nothing."""
        refuse_parameters(request)
        row = _find(incident_id).row
        wanted = read_body(request, IncidentChanges)
        with _name_faults():
            take_steps(list(_list_steps(incident_id, wanted, state=row.state, by=find_person(request))))
        wake_up()
        wake_notify()
        return answer_json(request, incident_detail(_find(incident_id)))


def _list_steps(incident_id: int, wanted: dict[str, Any], *, state: str, by: User | None) -> Iterator[Step]:
    """Yield the steps that lead to what is wanted: reopened first, resolved last; none where it is so already."""
    to = wanted.get("state", state)
    if to != state and to == IncidentState.NEW:
        yield partial(triage.reopen, incident_id, by=by)
    if to != state and to == IncidentState.ACKNOWLEDGED:
        if state == IncidentState.RESOLVED:
            yield partial(triage.reopen, incident_id, by=by)
        yield partial(triage.acknowledge, incident_id, by=by)
    if "assignee" in wanted:
        yield partial(triage.assign, incident_id, by=by, to=_find_editor(wanted["assignee"]))
    if "link" in wanted:
        yield partial(triage.link, incident_id, by=by, url=wanted["link"] or "")
    if "snoozed_until" in wanted:
        yield partial(triage.snooze, incident_id, by=by, until=wanted["snoozed_until"])
    if "comment" in wanted:
        yield partial(triage.comment, incident_id, by=by, words=wanted["comment"])
    if to != state and to == IncidentState.RESOLVED:
        yield partial(triage.resolve, incident_id, by=by, verdict=wanted["verdict"])


def _find_editor(username: str | None) -> User | None:
    if username is None:
        return None
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None or not person.has_role(Role.EDITOR):
        raise Problem(
            400,
            "value-invalid",
            "Bad value",
            f"assignee: {username[:80]!r} is nobody of the role editor or admin",
            pointer="/assignee",
        )
    return person


@contextmanager
def _name_faults() -> Iterator[None]:
    try:
        yield
    except UnknownIncident as error:
        raise Problem(404, "not-found", "No such incident", str(error)) from error
    except NotPossible as error:
        raise Problem(409, "state-differs", "Not in this state", str(error)) from error
    except BadTriage as error:
        raise Problem(400, "value-invalid", "Bad value", str(error)) from error


def _find(incident_id: int) -> IncidentDetail:
    detail = read_incident(incident_id)
    if detail is None:
        raise Problem(404, "not-found", "No such incident", f"there is no incident {incident_id}")
    return detail
