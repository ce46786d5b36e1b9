"""Changes and incidents: lists, one incident, triage."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    Output,
    PageOutput,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    real,
    text,
    time,
)
from benchapp.api.framework.parameters import (
    FilterField,
    FormatParameters,
    PageParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
)
from benchapp.api.framework.permissions import MayRead, MayReadOrEdit, find_person
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import answer_dicts, answer_json
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import PREFIX, Row
from benchapp.metrics import CATALOGUE
from benchapp.models import METRIC_FIELDS, ChangeState, IncidentState, Role, Severity, User, Verdict
from benchapp.pipeline.incidents import triage
from benchapp.pipeline.incidents.triage import BadTriage, NotPossible, Step, UnknownIncident, take_steps
from benchapp.queries.incidents.changes import ChangeFilter, ChangeRow, list_changes
from benchapp.queries.incidents.incidents import list_incidents, read_incident
from benchapp.queries.incidents.shapes import EventRow, IncidentDetail, IncidentFilter, IncidentRow, Tab
from benchapp.queue import wake_notify, wake_up


class ChangeOutput(Output):
    id = number()
    series = number()
    scope = text(help_text="pool:NAME or host:NAME")
    workload = text()
    target = text()
    metric = text()
    unit = text()
    run = maybe_number()
    last_good_run = maybe_number()
    started_at = time()
    state = serializers.ChoiceField(choices=ChangeState.values)
    is_regression = serializers.BooleanField()
    before_median = real(help_text="in the metric's base unit")
    before_n = number()
    before_spread = real(help_text="robust standard deviation")
    after_median = real()
    after_n = number()
    after_spread = real()
    relative = real(help_text="after / before − 1")
    relative_low = maybe_real(help_text="of its 95 % interval")
    relative_high = maybe_real()
    confidence = real(help_text="0 to 1")
    method = text()
    incident = maybe_number()
    found_at = time()
    updated_at = time()
    withdrawn_at = maybe_time()
    evidence = serializers.DictField(help_text="the points used and the tests' results")
    page = text()


CHANGE_COLUMNS: Final = tuple(ChangeOutput().fields)


class ChangePage(PageOutput):
    changes = ChangeOutput(many=True)


class CommonFactorOutput(Output):
    dimension = text()
    value = text()
    share = real(help_text="of the affected series")
    words = text()


class SuspectOutput(Output):
    name = text()
    before = maybe_text()
    after = maybe_text()
    share = real(help_text="of the changes that it coincides with")
    coincides_with = maybe_number()
    changes = maybe_number()
    hosts_regressed = number(help_text="other hosts with the same change within 14 days that regressed")
    hosts_unaffected = number(help_text="other hosts with the same change that are unaffected")
    unaffected_hosts = serializers.ListField(child=text(), help_text="the first five of these")
    words = text()


class IncidentEventOutput(Output):
    id = number()
    at = time()
    by = maybe_text()
    kind = text()
    words = text()
    undone_at = maybe_time()


class IncidentRowOutput(Output):
    id = number()
    title = text()
    scope = text(help_text="pool:NAME or host:NAME; empty for several")
    state = serializers.ChoiceField(choices=IncidentState.values)
    verdict = serializers.ChoiceField(choices=[each.value for each in Verdict if each], allow_null=True)
    severity = serializers.ChoiceField(choices=Severity.values)
    is_regression = serializers.BooleanField(help_text="false: an improvement")
    started_at = time()
    relative = real(help_text="of its largest change: after / before − 1")
    relative_low = maybe_real(help_text="of its 95 % interval")
    relative_high = maybe_real()
    change_count = number()
    series_count = number()
    common_factors = CommonFactorOutput(many=True, help_text="strongest first")
    suspects = SuspectOutput(many=True, help_text="coinciding environment changes, most likely cause first")
    assignee = maybe_text()
    link = maybe_text()
    snoozed_until = maybe_time()
    recovered_at = maybe_time()
    merged_into = maybe_number()
    opened_at = time()
    updated_at = time()
    resolved_at = maybe_time()
    url = text()
    page = text()


INCIDENT_COLUMNS: Final = tuple(IncidentRowOutput().fields)
# Defaults for suspects of older incidents.
_SUSPECT: Final[Row] = {
    "coincides_with": None,
    "changes": None,
    "hosts_regressed": 0,
    "hosts_unaffected": 0,
    "unaffected_hosts": [],
}


class IncidentOutput(IncidentRowOutput):
    changes = ChangeOutput(many=True, help_text="largest first, at most 500")
    changes_left_out = number()
    events = IncidentEventOutput(many=True, help_text="oldest first")


class IncidentPage(PageOutput):
    incidents = IncidentRowOutput(many=True)


def change_row(change: ChangeRow) -> Row:
    """Return a change for the API."""
    row: dict[str, Any] = {
        name: getattr(change, name) for name in CHANGE_COLUMNS if name in ChangeRow.__dataclass_fields__
    }
    row |= {
        "series": change.series.id,
        "scope": change.series.scope,
        "workload": change.series.workload_title,
        "target": change.series.target_title,
        "unit": CATALOGUE[change.metric].unit,
        "run": change.run_id,
        "last_good_run": change.last_good_run_id,
        "incident": change.incident_id,
        "page": f"/series/{change.series.id}/?metric={change.metric}",
    }
    return {name: row[name] for name in CHANGE_COLUMNS}


def incident_row(incident: IncidentRow) -> Row:
    """Return an incident for the API."""
    row: dict[str, Any] = {
        name: getattr(incident, name) for name in INCIDENT_COLUMNS if name in IncidentRow.__dataclass_fields__
    }
    row |= {
        "suspects": [_SUSPECT | suspect for suspect in incident.suspects],
        "verdict": incident.verdict or None,
        "assignee": incident.assignee_name or None,
        "link": incident.link or None,
        "merged_into": incident.merged_into_id,
        "url": f"{PREFIX}/incidents/{incident.id}",
        "page": f"/incidents/{incident.id}/",
    }
    return {name: row[name] for name in INCIDENT_COLUMNS}


def incident_detail(detail: IncidentDetail) -> Row:
    """Return one incident with its changes and activity."""
    return {
        **incident_row(detail.row),
        "changes": list(map(change_row, detail.changes)),
        "changes_left_out": detail.changes_left_out,
        "events": list(map(_event_row, detail.events)),
    }


def _event_row(event: EventRow) -> Row:
    return {
        "id": event.id,
        "at": event.at,
        "by": event.by_name or None,
        "kind": event.kind,
        "words": event.words,
        "undone_at": event.undone_at,
    }


_LINES = OpenApiResponse(OpenApiTypes.STR, "the rows only")


class ChangeParameters(FormatParameters, PageParameters):
    """Which changes; withdrawn ones only with state=withdrawn."""

    q = FilterField(source="match")
    metric = serializers.ChoiceField(choices=METRIC_FIELDS, required=False)
    state = serializers.ChoiceField(choices=ChangeState.values, required=False)
    since = serializers.DateTimeField(
        source="since_at", required=False, help_text="started at this time or later, RFC 3339"
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
        """List detected changes, latest start first."""
        wanted = read_parameters(request, ChangeParameters)
        cursor, limit, format = wanted.pop("cursor", None), wanted.pop("limit"), wanted.pop("format")
        page = list_changes(ChangeFilter(**wanted), after=cursor, limit=limit)
        return answer_dicts(
            request,
            [change_row(change) for change in page.items],
            name="changes",
            columns=CHANGE_COLUMNS,
            next_cursor=page.next_cursor,
            format=format,
        )


_WORDS_MAXIMUM: Final = 5000
_LINK_MAXIMUM: Final = 500


class IncidentParameters(PageParameters):
    """Which incidents."""

    q = FilterField(source="match")
    tab = serializers.ChoiceField(
        choices=[tab.value for tab in Tab],
        required=False,
        default=Tab.ALL.value,
        help_text="tab of the inbox; open: new and acknowledged regressions that are not snoozed",
    )
    state = serializers.ChoiceField(choices=IncidentState.values, required=False)
    severity = serializers.ChoiceField(choices=Severity.values, required=False)
    is_regression = flag_parameter()
    since = serializers.DateTimeField(
        source="since_at", required=False, help_text="started at this time or later, RFC 3339"
    )


class IncidentChanges(serializers.Serializer[Any]):
    """Fields to change, all or none; omitted fields keep their value."""

    state = serializers.ChoiceField(
        choices=IncidentState.values, required=False, help_text="new: reopen; resolved requires a verdict"
    )
    verdict = serializers.ChoiceField(choices=[each.value for each in Verdict if each], required=False)
    assignee = serializers.CharField(
        required=False, allow_null=True, max_length=150, help_text="a user name; null: unassigned"
    )
    link = serializers.CharField(
        required=False, allow_null=True, max_length=_LINK_MAXIMUM, help_text="http or https"
    )
    snoozed_until = serializers.DateTimeField(required=False, allow_null=True)
    comment = serializers.CharField(required=False, max_length=_WORDS_MAXIMUM, help_text="plain text")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require verdict and state resolved together."""
        if ("verdict" in attrs) != (attrs.get("state") == IncidentState.RESOLVED):
            raise serializers.ValidationError(
                {"verdict": "the state resolved and a verdict must be given together"}
            )
        return attrs


class Incidents(ApiView):
    """All incidents."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="list_incidents", parameters=[IncidentParameters], responses=IncidentPage)
    def get(self, request: Request) -> HttpResponse:
        """List incidents, latest start first, without merged ones."""
        wanted = read_parameters(request, IncidentParameters)
        cursor, limit = wanted.pop("cursor", None), wanted.pop("limit")
        page = list_incidents(
            IncidentFilter(**{**wanted, "tab": Tab(wanted["tab"])}), after=cursor, limit=limit
        )
        return answer_dicts(
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
        """Read one incident with its changes and activity."""
        refuse_parameters(request)
        return answer_json(request, incident_detail(_find(incident_id)))

    @extend_schema(operation_id="change_incident", request=IncidentChanges, responses=IncidentOutput)
    def patch(self, request: Request, incident_id: int) -> HttpResponse:
        """Acknowledge, resolve, reopen, assign, link, snooze or comment: all given fields, or none."""
        refuse_parameters(request)
        row = _find(incident_id).row
        wanted = read_body(request, IncidentChanges)
        with _map_errors():
            take_steps(list(_list_steps(incident_id, wanted, state=row.state, by=find_person(request))))
        wake_up()
        wake_notify()
        return answer_json(request, incident_detail(_find(incident_id)))


def _list_steps(incident_id: int, wanted: dict[str, Any], *, state: str, by: User | None) -> Iterator[Step]:
    """Yield the steps to the requested values: reopen first, resolve last; none without a difference."""
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
            f"assignee: {username[:80]!r} is not an editor or admin",
            pointer="/assignee",
        )
    return person


@contextmanager
def _map_errors() -> Iterator[None]:
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
        raise Problem(404, "not-found", "No such incident", f"incident {incident_id} does not exist")
    return detail
