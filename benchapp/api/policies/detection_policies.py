"""Detection policies, and dry runs of thresholds."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
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
    PageParameters,
    flag_parameter,
    read_parameters,
    refuse_parameters,
    take_oldest_first,
    time_order_parameter,
)
from benchapp.api.framework.permissions import MayReadOrEdit, find_person, read_actor
from benchapp.api.framework.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.api.framework.responses import answer_json
from benchapp.api.framework.view import ApiView, read_body
from benchapp.api.resources.shapes import PREFIX
from benchapp.metrics import JUDGED_METRICS
from benchapp.models import (
    THRESHOLD_MAXIMUM,
    THRESHOLD_MINIMUM,
    DetectionPolicyAction,
    DryRunState,
)
from benchapp.pipeline.policies.dry_runs import (
    DRY_RUN_SERIES_MAXIMUM,
    UnknownDryRun,
    cancel_dry_run,
    start_dry_run,
)
from benchapp.pipeline.policies.policies import (
    LABEL_MAXIMUM,
    POLICY_REASON_MAXIMUM,
    BadDetectionPolicy,
    UnknownDetectionPolicy,
    cancel_detection_policy,
    create_detection_policy,
    restore_detection_policy,
)
from benchapp.queries.policies import (
    DetectionPolicyDetail,
    DetectionPolicyRow,
    DryRunIncident,
    DryRunRow,
    list_detection_policies,
    read_detection_policy,
    read_dry_run,
)
from benchapp.queue import wake_dry_run, wake_up

_PROBLEMS: Final[ErrorProblems] = {
    UnknownDetectionPolicy: partial(not_found, "detection policy"),
    UnknownDryRun: partial(not_found, "dry run"),
    BadDetectionPolicy: bad_value,
}


class DetectionPolicyRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    metric: str
    smallest_change: Annotated[float, Meta(description="threshold, relative: 0.05 is 5 %")]
    default: Annotated[float, Meta(description="threshold without a policy")]
    filter: Annotated[str, Meta(description="filter bar syntax; empty: all series")]
    label: Annotated[str, Meta(description="KEY=VALUE of the newest run of a series; empty: any")]
    reason: str
    created_by: str | None
    created_at: Time
    canceled_by: str | None
    canceled_at: Time | None
    url: str
    page: str


class PolicyLogEntryAnswer(ApiAnswer, kw_only=True, frozen=True):
    at: Time
    action: DetectionPolicyAction
    by: str | None
    via: Annotated[str, Meta(description="API token; empty for a person")]


class DetectionPolicyAnswer(DetectionPolicyRowAnswer, kw_only=True, frozen=True):
    series: Annotated[int, Meta(description="measured series that match")]
    activity: Annotated[Sequence[PolicyLogEntryAnswer], Meta(description="oldest first")]


@with_columns(DetectionPolicyRowAnswer)
class ListedDetectionPolicyAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A detection policy has the columns that `fields` names."""


DETECTION_POLICY_COLUMNS: Final = list_columns(ListedDetectionPolicyAnswer)


class DetectionPolicyPage(AnswerPage, kw_only=True, frozen=True):
    detection_policies: Sequence[ListedDetectionPolicyAnswer]


class DryRunIncidentAnswer(ApiAnswer, kw_only=True, frozen=True):
    scope: Annotated[str, Meta(description="host:NAME or pool:NAME")]
    started_at: Time
    metric: str
    relative: Annotated[float, Meta(description="median of the changes of the metric")]
    series: Annotated[int, Meta(description="number of changed series")]
    series_id: Annotated[int, Meta(description="the most changed series")]
    incident: Annotated[int | None, Meta(description="stored incident with these changes")]


class DryRunAnswer(ApiAnswer, kw_only=True, frozen=True):
    id: int
    state: DryRunState
    metric: str
    smallest_change: float
    filter: str
    label: str
    from_at: Annotated[Time, Meta(description="changes that began then or later are compared")]
    series: Annotated[int, Meta(description="that match")]
    evaluated: Annotated[
        int, Meta(description=f"series that are evaluated: the first by id, at most {DRY_RUN_SERIES_MAXIMUM}")
    ]
    done: Annotated[int, Meta(description="series evaluated so far")]
    current: Annotated[
        int | None, Meta(description="incidents with the thresholds of today; null until done")
    ]
    proposed: Annotated[int | None, Meta(description="incidents with the threshold of the dry run")]
    added_count: int
    removed_count: int
    added: Sequence[DryRunIncidentAnswer]
    removed: Sequence[DryRunIncidentAnswer]
    created_by: str | None
    created_at: Time
    finished_at: Time | None
    url: str
    page: str


class DetectionPolicyParameters(PageParameters):
    """Which policies."""

    columns = DETECTION_POLICY_COLUMNS

    canceled = flag_parameter(help_text="true: canceled policies, false: those in effect")
    sort = time_order_parameter("created_at")


class ThresholdInput(serializers.Serializer[Any]):
    """A threshold for the series of a filter and a label."""

    metric = serializers.ChoiceField(choices=JUDGED_METRICS)
    smallest_change = serializers.FloatField(
        min_value=THRESHOLD_MINIMUM, max_value=THRESHOLD_MAXIMUM, help_text="relative: 0.05 is 5 %"
    )
    filter = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="filter bar syntax; empty: all series",
    )
    label = serializers.CharField(  # type: ignore[assignment]  # a serializer has a label itself
        required=False,
        default="",
        allow_blank=True,
        max_length=LABEL_MAXIMUM,
        help_text="KEY=VALUE of the newest run of a series; empty: any",
    )


class DetectionPolicyInput(ThresholdInput):
    """A new detection policy."""

    reason = serializers.CharField(max_length=POLICY_REASON_MAXIMUM)


class DetectionPolicyChanges(serializers.Serializer[Any]):
    """The action."""

    is_canceled = serializers.BooleanField(help_text="true: cancel, as DELETE; false: restore")


class DetectionPolicies(ApiView):
    """All detection policies."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(
        operation_id="list_detection_policies",
        parameters=[DetectionPolicyParameters],
        responses=in_formats(DetectionPolicyPage, "the rows only"),
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List detection policies, newest first by default."""
        wanted = read_parameters(request, DetectionPolicyParameters)
        oldest_first = take_oldest_first(wanted)
        return answer_list(
            request,
            DetectionPolicyPage,
            ListedDetectionPolicyAnswer,
            page=take_page_request(wanted),
            read=lambda after, limit: list_detection_policies(
                is_canceled=wanted["canceled"], after=after, limit=limit, oldest_first=oldest_first
            ),
            describe=lambda rows: [build(ListedDetectionPolicyAnswer, _describe_row(each)) for each in rows],
            name="detection_policies",
        )

    @extend_schema(
        operation_id="create_detection_policy",
        request=DetectionPolicyInput,
        responses={201: DetectionPolicyAnswer},
    )
    def post(self, request: Request) -> Response:
        """Create a detection policy; the series that match are evaluated again."""
        refuse_parameters(request)
        wanted = read_body(request, DetectionPolicyInput)
        with map_errors(_PROBLEMS):
            created = create_detection_policy(**wanted, **read_actor(request))
        wake_up()
        policy = _describe_policy(_find(created.pk))
        return Response(policy, status=201, headers={"Location": policy.url})


class OneDetectionPolicy(ApiView):
    """One detection policy."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_detection_policy", responses=DetectionPolicyAnswer)
    def get(self, request: Request, policy_id: int) -> HttpResponse:
        """Read one detection policy with its activity log."""
        refuse_parameters(request)
        return answer_json(request, _describe_policy(_find(policy_id)))

    @extend_schema(
        operation_id="change_detection_policy",
        request=DetectionPolicyChanges,
        responses=DetectionPolicyAnswer,
    )
    def patch(self, request: Request, policy_id: int) -> HttpResponse:
        """Cancel it, or restore a canceled one."""
        refuse_parameters(request)
        wanted = read_body(request, DetectionPolicyChanges)
        apply = cancel_detection_policy if wanted["is_canceled"] else restore_detection_policy
        with map_errors(_PROBLEMS):
            apply(policy_id, **read_actor(request))
        wake_up()
        return answer_json(request, _describe_policy(_find(policy_id)))

    @extend_schema(operation_id="cancel_detection_policy", responses={204: None})
    def delete(self, request: Request, policy_id: int) -> Response:
        """Cancel it; the row and its activity log remain, and PATCH can restore it."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            cancel_detection_policy(policy_id, **read_actor(request))
        wake_up()
        return Response(status=204)


class DetectionDryRuns(ApiView):
    """Dry runs of thresholds."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="start_dry_run", request=ThresholdInput, responses={202: DryRunAnswer})
    def post(self, request: Request) -> Response:
        """Compare the incidents of 90 days with those of another threshold; a worker evaluates the series."""
        refuse_parameters(request)
        wanted = read_body(request, ThresholdInput)
        with map_errors(_PROBLEMS):
            started = start_dry_run(**wanted, by=find_person(request))
        wake_dry_run()
        answer = _describe_dry_run(_find_dry_run(started.pk))
        return Response(answer, status=202, headers={"Location": answer.url})


class OneDetectionDryRun(ApiView):
    """One dry run of a threshold."""

    permission_classes = [MayReadOrEdit]

    @extend_schema(operation_id="read_dry_run", responses=DryRunAnswer)
    def get(self, request: Request, dry_run_id: int) -> HttpResponse:
        """Read the progress or the result of a dry run."""
        refuse_parameters(request)
        return answer_json(request, _describe_dry_run(_find_dry_run(dry_run_id)))

    @extend_schema(operation_id="cancel_dry_run", responses={204: None})
    def delete(self, request: Request, dry_run_id: int) -> Response:
        """Cancel a running dry run; the row remains for 30 days."""
        refuse_parameters(request)
        with map_errors(_PROBLEMS):
            cancel_dry_run(dry_run_id)
        return Response(status=204)


def _describe_row(row: DetectionPolicyRow) -> DetectionPolicyRowAnswer:
    return build(
        DetectionPolicyRowAnswer,
        row,
        created_by=row.created_by_name or None,
        canceled_by=row.canceled_by_name or None,
        url=f"{PREFIX}/detection-policies/{row.id}",
        page=f"/policies/{row.id}/",
    )


def _describe_policy(detail: DetectionPolicyDetail) -> DetectionPolicyAnswer:
    return build(
        DetectionPolicyAnswer,
        _describe_row(detail.row),
        series=detail.series_count,
        activity=[build(PolicyLogEntryAnswer, entry, by=entry.by_name or None) for entry in detail.activity],
    )


def _describe_dry_run(row: DryRunRow) -> DryRunAnswer:
    return build(
        DryRunAnswer,
        row,
        series=row.series_count,
        evaluated=row.evaluated_count,
        done=row.done_count,
        added=list(map(_describe_incident, row.added)),
        removed=list(map(_describe_incident, row.removed)),
        created_by=row.created_by_name or None,
        url=f"{PREFIX}/detection-dry-runs/{row.id}",
        page=f"/policies/dry-runs/{row.id}/",
    )


def _describe_incident(incident: DryRunIncident) -> DryRunIncidentAnswer:
    return build(DryRunIncidentAnswer, incident, incident=incident.incident_id)


def _find(policy_id: int) -> DetectionPolicyDetail:
    detail = read_detection_policy(policy_id)
    if detail is None:
        raise not_found("detection policy", f"detection policy {policy_id} does not exist")
    return detail


def _find_dry_run(dry_run_id: int) -> DryRunRow:
    row = read_dry_run(dry_run_id)
    if row is None:
        raise not_found("dry run", f"dry run {dry_run_id} does not exist")
    return row
