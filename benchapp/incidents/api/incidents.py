"""Incidents: the list, one incident, triage of one and of many, new baselines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import (
    PREFIX,
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    Time,
    build,
    define_answer,
    list_columns,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    MomentField,
    PageParameters,
    SpanParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
)
from benchapp.framework.api.permissions import MayEdit, MayRead, MayReadOrEdit, find_person
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found, state_differs
from benchapp.framework.api.responses import Row, answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_notify, wake_up
from benchapp.incidents.actions import triage
from benchapp.incidents.actions.baselines import (
    AcceptImpact,
    NotifiedSubscription,
    OverlappingIncident,
    accept_level,
    check_acceptable,
    preview_accept_impact,
)
from benchapp.incidents.actions.triage import BadTriage, NotPossible, Step, UnknownIncident, take_steps
from benchapp.incidents.actions.undo import BULK_ACTIONS, BULK_MAXIMUM, BulkReport, take_bulk_steps, undo_bulk
from benchapp.incidents.api.changes import ChangeAnswer, describe_change
from benchapp.incidents.read.changes import CHANGE_SORTS
from benchapp.incidents.read.incidents import (
    IncidentDetail,
    IncidentFilter,
    Tab,
    list_incidents,
    read_incident,
)
from benchapp.models import Change, Incident, IncidentState, Phase, Role, Severity, User, Verdict
from benchapp.models.incident import LINK_LABEL_MAXIMUM

VerdictName = Annotated[str, Meta(extra_json_schema={"enum": [each.value for each in Verdict if each]})]

TRIAGE_PROBLEMS: Final[ErrorProblems] = {
    UnknownIncident: partial(not_found, "incident"),
    NotPossible: state_differs,
    BadTriage: bad_value,
}


class CommonFactorAnswer(ApiAnswer, kw_only=True, frozen=True):
    dimension: Annotated[str, Meta(description="name, or two separated by a comma")]
    value: Annotated[str, Meta(description="in the filter language; of two dimensions separated by a space")]
    share: Annotated[float, Meta(description="of the affected series")]
    text: str


class SuspectAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    before: str | None
    after: str | None
    share: Annotated[float, Meta(description="of the changes that it coincides with")]
    coincides_with: int | None
    changes: int | None
    hosts_regressed: Annotated[
        int, Meta(description="other hosts with the same change within 14 days that regressed")
    ]
    hosts_unaffected: Annotated[int, Meta(description="other hosts with the same change that are unaffected")]
    unaffected_hosts: Annotated[Sequence[str], Meta(description="the first five of these")]
    is_near: Annotated[
        bool, Meta(description="it coincides within a run: the start of a small change may be off by one")
    ]
    text: str


class IncidentEventAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    at: Time
    by: str | None
    kind: str
    text: str
    undone_at: Time | None


class MetricSizeAnswer(ApiAnswer, kw_only=True, frozen=True):
    metric: str
    series: Annotated[int, Meta(description="number of series in which it changed")]
    relative: Annotated[float, Meta(description="median of their changes: after / before − 1")]
    range_low: Annotated[float, Meta(description="the lowest of them")]
    range_high: float
    interval_low: Annotated[float | None, Meta(description="of the 95 % interval of the median")]
    interval_high: float | None


class PooledLevelAnswer(ApiAnswer, kw_only=True, frozen=True):
    scope: Annotated[str, Meta(description="pool:NAME or host:NAME")]
    dimension: Annotated[str | None, Meta(description="volume_type or stripe_count; null: all series")]
    value: str | None
    metric: str
    series: Annotated[int, Meta(description="compared series")]
    changed: Annotated[int, Meta(description="of these, in the direction of the change")]
    relative: Annotated[float, Meta(description="median change of all of them: after / before − 1")]
    text: str


class IncidentRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    title: str
    scope: Annotated[str, Meta(description="pool:NAME or host:NAME; empty for several")]
    state: IncidentState
    phase: Annotated[Phase, Meta(description="what notices state of it")]
    verdict: VerdictName | None
    severity: Severity
    has_manual_severity: Annotated[bool, Meta(description="an editor set the severity")]
    is_regression: Annotated[bool, Meta(description="false: an improvement")]
    started_at: Time
    metric: Annotated[str, Meta(description="the typical metric: the one that changed in the most series")]
    relative: Annotated[float, Meta(description="median of the changes of this metric: after / before − 1")]
    range_low: Annotated[float | None, Meta(description="the lowest of these changes")]
    range_high: Annotated[float | None, Meta(description="the highest of these changes")]
    interval_low: Annotated[float | None, Meta(description="of the 95 % interval of the median")]
    interval_high: float | None
    metric_sizes: Annotated[
        Sequence[MetricSizeAnswer], Meta(description="changes by metric, the typical metric first")
    ]
    pooled_levels: Annotated[
        Sequence[PooledLevelAnswer], Meta(description="changes of pooled levels, the most series first")
    ]
    change_count: int
    series_count: int
    common_factors: Annotated[Sequence[CommonFactorAnswer], Meta(description="strongest first")]
    suspects: Annotated[
        Sequence[SuspectAnswer], Meta(description="coinciding environment changes, most likely cause first")
    ]
    assignee: str | None
    link: Annotated[str | None, Meta(description="to a ticket, http or https")]
    link_label: Annotated[str | None, Meta(description="null: pages show the last part of the URL")]
    snoozed_until: Time | None
    recovered_at: Annotated[Time | None, Meta(description="first run that is back at the level before")]
    is_open: Annotated[
        bool, Meta(description="neither resolved nor recovered, the definition of every count")
    ]
    merged_into: int | None
    planned_event: Annotated[
        int | None, Meta(description="the expected change that muted it: resolved without notifications")
    ]
    opened_at: Time
    updated_at: Time
    resolved_at: Time | None
    url: str
    page: str


# Defaults for suspects of older incidents.
_SUSPECT: Final[Row] = {
    "coincides_with": None,
    "changes": None,
    "hosts_regressed": 0,
    "hosts_unaffected": 0,
    "unaffected_hosts": [],
    "is_near": False,
}


class IncidentAnswer(IncidentRowAnswer, kw_only=True, frozen=True):
    changes: Annotated[Sequence[ChangeAnswer], Meta(description="largest first, at most 500")]
    changes_left_out: int
    events: Annotated[Sequence[IncidentEventAnswer], Meta(description="oldest first")]


@with_columns(IncidentRowAnswer)
class ListedIncidentAnswer(ChosenColumns, kw_only=True, frozen=True):
    """An incident has the columns that `fields` names."""


INCIDENT_COLUMNS: Final = list_columns(ListedIncidentAnswer)


IncidentPage = define_answer("IncidentPage", AnswerPage, incidents=Sequence[ListedIncidentAnswer])


_ENDS: Final = ("range_low", "range_high", "interval_low", "interval_high")


def _describe_row(incident: Incident) -> IncidentRowAnswer:
    sizes = incident.list_sizes()
    return build(
        IncidentRowAnswer,
        incident,
        **{end: sizes[0][end] if sizes else None for end in _ENDS},
        metric_sizes=[MetricSizeAnswer(**size) for size in sizes],
        pooled_levels=[
            PooledLevelAnswer(
                **{**level, "dimension": level["dimension"] or None, "value": level["value"] or None}
            )
            for level in incident.pooled_levels
        ],
        suspects=[_SUSPECT | suspect for suspect in incident.suspects],
        verdict=incident.verdict or None,
        assignee=incident.assignee_name or None,
        link=incident.link or None,
        link_label=incident.link_label or None,
        merged_into=incident.merged_into_id,
        planned_event=incident.planned_event_id,
        url=f"{PREFIX}/incidents/{incident.id}",
        page=f"/incidents/{incident.id}/",
    )


def describe_incident_detail(detail: IncidentDetail) -> IncidentAnswer:
    """Return an incident with its changes and activity."""
    return build(
        IncidentAnswer,
        detail,
        _describe_row(detail.row),
        changes=list(map(describe_change, detail.changes)),
        events=[
            build(IncidentEventAnswer, event, by=event.by_name or None, text=event.shown_text)
            for event in detail.events
        ],
    )


_AUTOMATIC: Final = "automatic"
COMMENT_MAXIMUM: Final = 5000
_LINK_MAXIMUM: Final = 500


class IncidentParameters(FilterParameters, SpanParameters, PageParameters):
    """Which incidents."""

    columns = INCIDENT_COLUMNS

    tab = ChoiceParameter(
        choices=[tab.value for tab in Tab],
        required=False,
        default=Tab.ALL.value,
        help_text="tab of the inbox; open: regressions that are neither resolved, recovered nor snoozed",
    )
    state = ChoiceParameter(choices=IncidentState.values, required=False)
    severity = ChoiceParameter(choices=Severity.values, required=False)
    is_regression = flag_parameter()
    sort = ChoiceParameter(
        choices=CHANGE_SORTS,
        required=False,
        default="-started_at",
        help_text="size: of the relative change, whatever its direction",
    )


class IncidentChanges(serializers.Serializer[Any]):
    """Fields to change, all or none; omitted fields keep their value."""

    state = ChoiceParameter(
        choices=IncidentState.values, required=False, help_text="new: reopen; resolved requires a verdict"
    )
    verdict = ChoiceParameter(choices=[each.value for each in Verdict if each], required=False)
    severity = ChoiceParameter(
        choices=[*Severity.values, _AUTOMATIC],
        required=False,
        help_text=f"later changes keep it; {_AUTOMATIC}: calculated again",
    )
    assignee = serializers.CharField(
        required=False, allow_null=True, max_length=150, help_text="a user name; null: unassigned"
    )
    link = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=_LINK_MAXIMUM,
        help_text="to a ticket, http or https; without link_label its label is removed",
    )
    link_label = serializers.CharField(
        required=False, allow_null=True, max_length=LINK_LABEL_MAXIMUM, help_text="a short name, as OPS-123"
    )
    snoozed_until = MomentField(required=False, allow_null=True)
    comment = serializers.CharField(required=False, max_length=COMMENT_MAXIMUM, help_text="plain text")

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

    @extend_schema(
        operation_id="list_incidents",
        parameters=[IncidentParameters],
        responses=in_formats(IncidentPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List incidents, latest start first or by `sort`, without merged ones."""
        wanted = read_parameters(request, IncidentParameters)
        page = take_page_request(wanted)
        sort, chosen = wanted.pop("sort"), IncidentFilter(**{**wanted, "tab": Tab(wanted["tab"])})
        return answer_list(
            request,
            IncidentPage,
            ListedIncidentAnswer,
            page=page,
            read=lambda after, limit: list_incidents(chosen, after=after, limit=limit, sort=sort),
            describe=lambda incidents: [
                build(ListedIncidentAnswer, _describe_row(each)) for each in incidents
            ],
            name="incidents",
            context={
                "unit": lambda row: row.metric and CATALOG[row.metric].unit,
                "filter": write_filter(wanted["match"]),
            },
        )


class OneIncident(ApiView):
    """One incident."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_incident", responses=IncidentAnswer)
    def get(self, request: Request, incident_id: int) -> HttpResponse:
        """Read one incident with its changes and activity."""
        refuse_parameters(request)
        return answer_json(request, describe_incident_detail(find_incident(incident_id)))

    @extend_schema(operation_id="change_incident", request=IncidentChanges, responses=IncidentAnswer)
    def patch(self, request: Request, incident_id: int) -> HttpResponse:
        """Acknowledge, resolve, reopen, assign, rate, link, snooze or comment: all given fields, or none."""
        refuse_parameters(request)
        row = find_incident(incident_id).row
        wanted = read_body(request, IncidentChanges)
        with map_errors(TRIAGE_PROBLEMS):
            take_steps(list(_list_steps(incident_id, wanted, state=row.state, by=find_person(request))))
        wake_up()
        wake_notify()
        return answer_json(request, describe_incident_detail(find_incident(incident_id)))


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
        yield partial(triage.assign, incident_id, by=by, to=find_editor(wanted["assignee"]))
    if "severity" in wanted:
        severity = "" if wanted["severity"] == _AUTOMATIC else wanted["severity"]
        yield partial(triage.rate, incident_id, by=by, severity=severity)
    if "link" in wanted or "link_label" in wanted:
        url = (wanted["link"] or "") if "link" in wanted else None
        yield partial(triage.link, incident_id, by=by, url=url, label=wanted.get("link_label") or "")
    if "snoozed_until" in wanted:
        yield partial(triage.snooze, incident_id, by=by, until=wanted["snoozed_until"])
    if "comment" in wanted:
        yield partial(triage.comment, incident_id, by=by, text=wanted["comment"])
    if to != state and to == IncidentState.RESOLVED:
        yield partial(triage.resolve, incident_id, by=by, verdict=wanted["verdict"])


def find_editor(username: str | None) -> User | None:
    """Return the editor or admin with a user name, None for None; else answer 400."""
    if username is None:
        return None
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None or not person.has_role(Role.EDITOR):
        raise bad_value(
            f"assignee: {username[:80]!r} is not an editor or admin",
            pointer="/assignee",
        )
    return person


def find_incident(incident_id: int) -> IncidentDetail:
    """Return an incident, or answer 404."""
    detail = read_incident(incident_id)
    if detail is None:
        raise not_found("incident", f"incident {incident_id} does not exist")
    return detail


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


class AcceptImpactAnswer(ApiAnswer, kw_only=True, frozen=True):
    series_count: int
    levels: Annotated[Sequence[AcceptedLevelAnswer], Meta(description="by series and metric")]
    incidents: Annotated[
        Sequence[OverlappingIncident],
        Meta(description="other open incidents with changes of these metrics and series, newest first"),
    ]
    subscriptions: Annotated[
        Sequence[NotifiedSubscription],
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
        incidents=impact.incidents,
        subscriptions=impact.subscriptions,
    )


def _describe_level(change: Change) -> AcceptedLevelAnswer:
    return build(
        AcceptedLevelAnswer,
        change,
        series=change.series_id,
        unit=CATALOG[change.metric].unit,
        before=change.before_median,
        level=change.after_median,
        from_at=change.level_from_at,
    )


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
