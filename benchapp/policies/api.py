"""Detection policies, and dry runs of thresholds."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta, convert
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchapp.catalog.metrics import JUDGED_METRICS
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
from benchapp.framework.api.list_entries import EntryResource, make_views, with_entry_columns
from benchapp.framework.api.parameters import (
    PageParameters,
    flag_parameter,
    refuse_parameters,
    time_order_parameter,
)
from benchapp.framework.api.permissions import MayReadOrEdit, find_person
from benchapp.framework.api.problems import ErrorProblems, bad_value, map_errors, not_found
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView, read_body
from benchapp.framework.queue import wake_dry_run
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import (
    THRESHOLD_MAXIMUM,
    THRESHOLD_MINIMUM,
    DetectionDryRun,
    DetectionPolicy,
    DetectionPolicyAction,
    DryRunState,
)
from benchapp.models.coverage import list_matching_series
from benchapp.policies.read import list_detection_policies, read_detection_policy, read_dry_run
from benchapp.policies.write import (
    DRY_RUN_SERIES_MAXIMUM,
    POLICIES,
    UnknownDryRun,
    cancel_dry_run,
    start_dry_run,
)

_PROBLEMS: Final[ErrorProblems] = {
    UnknownDryRun: partial(not_found, "dry run"),
    BadValue: bad_value,
}


class ThresholdInput(serializers.ModelSerializer[Any]):
    """A threshold for the series of a filter and a label."""

    metric = serializers.ChoiceField(choices=JUDGED_METRICS)

    class Meta:
        model = DetectionPolicy
        fields: tuple[str, ...] = ("metric", "smallest_change", "filter", "label")
        extra_kwargs: Final = {
            "smallest_change": {
                "min_value": THRESHOLD_MINIMUM,
                "max_value": THRESHOLD_MAXIMUM,
                "help_text": "threshold, relative: 0.05 is 5 %",
            },
            "filter": {"default": "", "help_text": "filter bar syntax; empty: all series"},
            "label": {"default": "", "help_text": "KEY=VALUE of the newest run of a series; empty: any"},
        }


class DetectionPolicyInput(ThresholdInput):
    """A new detection policy."""

    class Meta(ThresholdInput.Meta):
        fields = DetectionPolicy.given


class DetectionPolicyChanges(serializers.Serializer[Any]):
    """The action."""

    is_canceled = serializers.BooleanField(help_text="true: cancel, as DELETE; false: restore")


@with_entry_columns(DetectionPolicyInput, after={"smallest_change": ("default",)})
class DetectionPolicyRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    default: Annotated[float, Meta(description="threshold without a policy")]


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


DetectionPolicyPage = define_answer(
    "DetectionPolicyPage", AnswerPage, detection_policies=Sequence[ListedDetectionPolicyAnswer]
)


class DetectionPolicyParameters(PageParameters):
    """Which policies."""

    columns = list_columns(ListedDetectionPolicyAnswer)

    canceled = flag_parameter(
        source="is_canceled", help_text="true: canceled policies, false: policies in effect"
    )
    sort = time_order_parameter("created_at")


DetectionPolicies, OneDetectionPolicy = make_views(
    EntryResource(
        entries=POLICIES,
        path="detection-policies",
        place="policies",
        parameters=DetectionPolicyParameters,
        input=DetectionPolicyInput,
        changes=DetectionPolicyChanges,
        actions={("is_canceled", True): POLICIES.cancel, ("is_canceled", False): POLICIES.restore},
        row=DetectionPolicyRowAnswer,
        listed=ListedDetectionPolicyAnswer,
        page=DetectionPolicyPage,
        answer=DetectionPolicyAnswer,
        activity=PolicyLogEntryAnswer,
        list_page=list_detection_policies,
        read=read_detection_policy,
        describe_more=lambda policy: {"series": len(list_matching_series(policy.filter, policy.label))},
    ),
    list_text="List detection policies, newest first by default.",
    create="Create a detection policy; the series that match are evaluated again.",
    read="Read one detection policy with its activity log.",
    change="Cancel it, or restore a canceled one.",
)


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


def _describe_dry_run(row: DetectionDryRun) -> DryRunAnswer:
    result = row.comparison
    for side in ("added", "removed"):
        result[side] = convert(result[side], list[DryRunIncidentAnswer])
    return build(
        DryRunAnswer,
        row,
        **result,
        series=row.series_count,
        evaluated=row.evaluated_count,
        done=row.done_count,
        created_by=row.created_by_name or None,
        url=f"{PREFIX}/detection-dry-runs/{row.pk}",
        page=f"/policies/dry-runs/{row.pk}/",
    )


def _find_dry_run(dry_run_id: int) -> DetectionDryRun:
    row = read_dry_run(dry_run_id)
    if row is None:
        raise not_found("dry run", f"dry run {dry_run_id} does not exist")
    return row
