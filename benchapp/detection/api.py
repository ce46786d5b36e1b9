"""Detection of one metric of a series in detail, also with another policy (dry run)."""

from collections.abc import Sequence
from typing import Annotated

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.detection.rules.evaluation_points import CalendarProfile
from benchapp.detection.write.dry_run import (
    DetectionReport,
    FoundChange,
    Policy,
    UnknownSeries,
    report_detection,
)
from benchapp.detection.write.histories import to_time
from benchapp.detection.write.series import describe_levels
from benchapp.framework.api.answers import ApiAnswer, Time, build
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    MomentField,
    Parameters,
    flag_parameter,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_json
from benchapp.framework.api.view import ApiView
from benchapp.incidents.api.changes import ChangeAnswer, describe_change
from benchapp.incidents.read.changes import list_changes_of_series
from benchapp.incidents.read.series_status import StoredSpreadIncrease, StoredTwoStates
from benchapp.incidents.write.candidates import ChangeAcceptance, explain_acceptance
from benchapp.models import DetectionStatus
from benchapp.series.api.series import no_series

_POLICY = ("smallest_change", "baseline_from", "until")


class DetectionReportParameters(Parameters):
    """Metric and policy."""

    metric = ChoiceParameter(choices=tuple(SMALLEST_CHANGES), required=False, default="iops")
    dry_run = flag_parameter(help_text="true: apply the given policy; nothing is written")
    smallest_change = serializers.FloatField(
        required=False, min_value=0.01, max_value=10, help_text="relative, 0.05 is 5 %; with dry_run"
    )
    baseline_from = MomentField(required=False, help_text="ignore earlier runs, RFC 3339; with dry_run")
    until = MomentField(required=False, help_text="ignore runs from this time on, RFC 3339; with dry_run")


class InputAnswer(ApiAnswer, kw_only=True, frozen=True):
    run: int
    started_at: Time
    value: float


class DetectedChangeAnswer(ApiAnswer, kw_only=True, frozen=True):
    run: int
    last_good_run: int
    started_at: Time
    before_median: float
    before_n: int
    before_spread: float
    after_median: float
    after_n: int
    after_spread: float
    relative: float
    relative_low: float | None
    relative_high: float | None
    confidence: float
    t_score: Annotated[float | None, Meta(description="as a standard normal score")]
    rank_score: float | None
    correlation: Annotated[float | None, Meta(description="of consecutive runs")]
    usual_spread: Annotated[
        float | None,
        Meta(description="relative, of comparable series, if this one was too young to know its own"),
    ]


class BandAnswer(ApiAnswer, kw_only=True, frozen=True):
    low: float
    high: float


class BaselineAnswer(ApiAnswer, kw_only=True, frozen=True):
    baseline_level: Annotated[
        float, Meta(description="median of its first runs, at most 60; after a drift, of the runs before it")
    ]
    baseline_n: int
    current_level: Annotated[
        float,
        Meta(
            description="of the newest runs since the last change, at most 60; of a drift, its newest level"
        ),
    ]
    current_n: int
    relative: float | None
    relative_low: Annotated[float | None, Meta(description="of its 95 % interval")]
    relative_high: float | None
    tolerated_change: float
    has_drifted: Annotated[bool, Meta(description="the whole interval exceeds tolerated_change")]
    since_at: Time | None


class ChangeAcceptanceAnswer(ApiAnswer, kw_only=True, frozen=True):
    change: int
    incident: int | None
    chance: Annotated[
        float, Meta(description="that noise alone causes the change, according to the detector")
    ]
    is_separated: Annotated[
        bool, Meta(description="all values after it are far from all before: its size counts, too")
    ]
    simultaneous: Annotated[
        int, Meta(description="series of the host or pool that changed in the same runs and direction")
    ]
    joint_chance: Annotated[float, Meta(description="that noise causes all of these")]
    allowed_chance: float
    is_significant: bool
    tests: Annotated[int, Meta(description="evaluated metrics of the host or pool")]
    series: int
    hosts: int
    required_chance: Annotated[float, Meta(description="at which this change alone would be significant")]
    required_series: Annotated[
        int | None,
        Meta(description="that would have to change like this one; null: all are too few"),
    ]
    may_join: Annotated[bool, Meta(description="the series has enough runs, or the change is confirmed")]
    may_open: Annotated[bool, Meta(description="it also exceeds the noise of the series")]


class DetectionReportAnswer(ApiAnswer, kw_only=True, frozen=True):
    series: int
    metric: str
    method: str
    is_dry_run: bool
    policy: Policy
    inputs: Annotated[Sequence[InputAnswer], Meta(description="valid runs, oldest first")]
    merged_runs: Annotated[
        int, Meta(description="runs of the inputs if these are medians of repetitions, else 0")
    ]
    failed: Annotated[int, Meta(description="failed measurements of the series")]
    excluded: int
    without_value: int
    status: DetectionStatus
    runs_needed: int | None
    level: Annotated[float | None, Meta(description="median of the current level")]
    spread: Annotated[float, Meta(description="relative")]
    correlation: float
    smallest_detectable_change: Annotated[
        float | None, Meta(description="smallest relative change detectable in five runs")
    ]
    band: Annotated[BandAnswer | None, Meta(description="newer runs outside of it are suspected")]
    profiles: Annotated[
        Sequence[CalendarProfile],
        Meta(description="removed from the inputs before detection; levels of changes are without them"),
    ]
    spread_increase: StoredSpreadIncrease | None
    two_states: Annotated[
        StoredTwoStates | None,
        Meta(
            description="changes from one to the other are not reported, unless they last longer than before"
        ),
    ]
    changes: Sequence[DetectedChangeAnswer]
    too_small: Annotated[
        Sequence[DetectedChangeAnswer], Meta(description="detected, but below the threshold")
    ]
    suspicion: DetectedChangeAnswer | None
    baseline: Annotated[
        BaselineAnswer | None,
        Meta(description="the current level compared to the accepted baseline; null without one"),
    ]
    stored: Annotated[Sequence[ChangeAnswer], Meta(description="stored changes, newest first")]
    acceptance: Annotated[
        Sequence[ChangeAcceptanceAnswer],
        Meta(
            description="significance tests of the newest stored changes of level, at most five, newest first"
        ),
    ]
    why_not: Annotated[Sequence[str], Meta(description="reasons why changes are not reported")]


class SeriesDetection(ApiView):
    """Detection report of a series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="report_detection",
        parameters=[DetectionReportParameters],
        responses=DetectionReportAnswer,
    )
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Run detection on the stored runs and report inputs, policy, band, changes, and reasons."""
        wanted = read_parameters(request, DetectionReportParameters)
        given = {name: wanted[name] for name in _POLICY if name in wanted}
        if given and not wanted["dry_run"]:
            name = next(iter(given))
            raise bad_parameter(name, "another policy requires dry_run=true")
        try:
            report = report_detection(
                series_id,
                wanted["metric"],
                smallest_change=given.get("smallest_change"),
                baseline_from_at=given.get("baseline_from"),
                until_at=given.get("until"),
            )
        except UnknownSeries as error:
            raise no_series(series_id) from error
        stored = list_changes_of_series(series_id, metric=wanted["metric"])
        accepted = explain_acceptance(series_id, wanted["metric"])
        return answer_json(
            request,
            _describe(
                report,
                list(map(describe_change, stored)),
                [_describe_acceptance(accepted[change.id]) for change in stored if change.id in accepted],
            ),
        )


def _describe(
    report: DetectionReport, stored: Sequence[ChangeAnswer], acceptance: Sequence[ChangeAcceptanceAnswer]
) -> DetectionReportAnswer:
    judged, policy, band = report.result, report.policy, report.band
    return build(
        DetectionReportAnswer,
        report,
        judged,
        judged.profile,
        series=report.series_id,
        policy=policy,
        inputs=[InputAnswer(**row) for row in report.list_inputs()],
        merged_runs=report.input.merged_runs,
        failed=report.failed_count,
        excluded=report.excluded_count,
        without_value=report.without_value_count,
        runs_needed=judged.state.runs_needed,
        smallest_detectable_change=judged.profile.smallest_change,
        band=BandAnswer(low=band[0], high=band[1]) if band else None,
        profiles=report.profiles,
        spread_increase=_describe_spread_increase(report),
        two_states=_describe_two_states(report),
        changes=list(map(_describe_change, report.changes)),
        too_small=list(map(_describe_change, report.too_small)),
        suspicion=_describe_change(report.suspicion) if report.suspicion else None,
        baseline=_describe_baseline(report),
        stored=stored,
        acceptance=acceptance,
    )


def _describe_acceptance(test: ChangeAcceptance) -> ChangeAcceptanceAnswer:
    return build(ChangeAcceptanceAnswer, test, change=test.change_id, incident=test.incident_id)


def _describe_spread_increase(report: DetectionReport) -> StoredSpreadIncrease | None:
    found = report.result.spread_increase
    if found is None:
        return None
    from_at = to_time(int(report.input.times[found.index]))
    return StoredSpreadIncrease(from_at=from_at, before=found.before, after=found.after)


def _describe_two_states(report: DetectionReport) -> StoredTwoStates | None:
    found = report.result.two_states
    if found is None:
        return None
    return StoredTwoStates(
        found.low,
        found.high,
        found.high_share,
        found.visits,
        to_time(int(report.input.times[found.from_index])),
    )


def _describe_baseline(report: DetectionReport) -> BaselineAnswer | None:
    comparison = report.comparison
    if comparison is None:
        return None
    current, shift = comparison.stated.now, comparison.stated.shift
    change = comparison.change if comparison.has_drifted else None
    baseline = change.before if change else comparison.accepted.level
    return BaselineAnswer(
        baseline_level=baseline.median,
        baseline_n=baseline.points,
        current_level=current.median,
        current_n=current.points,
        relative=shift.relative,
        relative_low=shift.low,
        relative_high=shift.high,
        tolerated_change=report.policy.smallest_change,
        has_drifted=comparison.has_drifted,
        since_at=to_time(int(report.input.times[change.first])) if change else None,
    )


def _describe_change(change: FoundChange) -> DetectedChangeAnswer:
    return build(
        DetectedChangeAnswer,
        change.found,
        run=change.run_id,
        last_good_run=change.last_good_run_id,
        started_at=change.at,
        **describe_levels(change.found),
    )
