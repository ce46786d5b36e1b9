"""Detection of one metric of a series in detail, also with another policy (dry run)."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    Output,
    maybe_number,
    maybe_real,
    maybe_time,
    number,
    real,
    text,
    time,
)
from benchapp.api.framework.parameters import Parameters, flag_parameter, read_parameters
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import answer_json
from benchapp.api.framework.view import ApiView
from benchapp.api.resources.incidents import ChangeOutput, change_row
from benchapp.api.resources.shapes import Row
from benchapp.metrics import SMALLEST_CHANGES
from benchapp.models import DetectionStatus
from benchapp.pipeline.detection.dry_run import (
    DetectionReport,
    FoundChange,
    UnknownSeries,
    report_detection,
)
from benchapp.pipeline.detection.histories import to_time
from benchapp.pipeline.detection.series import describe_levels
from benchapp.queries.incidents.changes import list_changes_of_series

_POLICY = ("smallest_change", "baseline_from", "until")


class DetectionReportParameters(Parameters):
    """Metric and policy."""

    metric = serializers.ChoiceField(choices=tuple(SMALLEST_CHANGES), required=False, default="iops")
    dry_run = flag_parameter(help_text="true: apply the given policy; nothing is written")
    smallest_change = serializers.FloatField(
        required=False, min_value=0.01, max_value=10, help_text="relative, 0.05 is 5 %; with dry_run"
    )
    baseline_from = serializers.DateTimeField(
        required=False, help_text="ignore earlier runs, RFC 3339; with dry_run"
    )
    until = serializers.DateTimeField(
        required=False, help_text="ignore runs from this time on, RFC 3339; with dry_run"
    )


class PolicyOutput(Output):
    smallest_change = real(help_text="threshold, relative")
    baseline_from_at = maybe_time()
    until_at = maybe_time()


class InputOutput(Output):
    run = number()
    started_at = time()
    value = real()


class DetectedChangeOutput(Output):
    run = number()
    last_good_run = number()
    started_at = time()
    before_median = real()
    before_n = number()
    before_spread = real()
    after_median = real()
    after_n = number()
    after_spread = real()
    relative = real()
    relative_low = maybe_real()
    relative_high = maybe_real()
    confidence = real()
    t_score = maybe_real(help_text="as a standard normal score")
    rank_score = maybe_real()
    correlation = maybe_real(help_text="of consecutive runs")


class BandOutput(Output):
    low = real()
    high = real()


class BaselineOutput(Output):
    baseline_level = real(help_text="median of its first runs, at most 60")
    baseline_n = number()
    current_level = real(help_text="of the newest runs since the last change, at most 60")
    current_n = number()
    relative = real()
    relative_low = maybe_real(help_text="of its 95 % interval")
    relative_high = maybe_real()
    tolerated_change = real()
    has_drifted = serializers.BooleanField(help_text="the whole interval exceeds tolerated_change")
    since_at = maybe_time()


class DetectionReportOutput(Output):
    series = number()
    metric = text()
    method = text()
    is_dry_run = serializers.BooleanField()
    policy = PolicyOutput()
    inputs = InputOutput(many=True, help_text="valid runs, oldest first")
    failed = number(help_text="failed measurements of the series")
    excluded = number()
    without_value = number()
    status = serializers.ChoiceField(choices=DetectionStatus.values)
    runs_needed = maybe_number()
    level = maybe_real(help_text="median of the current level")
    spread = real(help_text="relative")
    correlation = real()
    smallest_detectable_change = maybe_real(help_text="smallest relative change detectable in five runs")
    band = BandOutput(allow_null=True, help_text="newer runs outside of it are suspected")
    changes = DetectedChangeOutput(many=True)
    too_small = DetectedChangeOutput(many=True, help_text="detected, but below the threshold")
    suspicion = DetectedChangeOutput(allow_null=True)
    baseline = BaselineOutput(
        allow_null=True,
        help_text="the current level compared to the accepted baseline; null without one",
    )
    stored = ChangeOutput(many=True, help_text="stored changes, newest first")
    why_not = serializers.ListField(child=text(), help_text="reasons why changes are not reported")


class SeriesDetection(ApiView):
    """Detection report of a series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="report_detection",
        parameters=[DetectionReportParameters],
        responses=DetectionReportOutput,
    )
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Run detection on the stored runs and report inputs, policy, band, changes, and reasons."""
        wanted = read_parameters(request, DetectionReportParameters)
        given = {name: wanted[name] for name in _POLICY if name in wanted}
        if given and not wanted["dry_run"]:
            name = next(iter(given))
            raise Problem(
                400,
                "parameter-invalid",
                "Bad query parameter",
                f"{name}: another policy requires dry_run=true",
                pointer=name,
            )
        try:
            report = report_detection(
                series_id,
                wanted["metric"],
                smallest_change=given.get("smallest_change"),
                baseline_from_at=given.get("baseline_from"),
                until_at=given.get("until"),
            )
        except UnknownSeries as error:
            raise Problem(404, "not-found", "No such series", str(error)) from error
        stored = list_changes_of_series(series_id, metric=wanted["metric"])
        return answer_json(request, _describe(report) | {"stored": list(map(change_row, stored))})


def _describe(report: DetectionReport) -> dict[str, Any]:
    judged, policy = report.result, report.policy
    low, high = report.band or (None, None)
    return {
        "series": report.series_id,
        "metric": report.metric,
        "method": report.method,
        "is_dry_run": report.is_dry_run,
        "policy": {
            "smallest_change": policy.smallest_change,
            "baseline_from_at": policy.baseline_from_at,
            "until_at": policy.until_at,
        },
        "inputs": report.list_inputs(),
        "failed": report.failed_count,
        "excluded": report.excluded_count,
        "without_value": report.without_value_count,
        "status": report.status,
        "runs_needed": judged.state.runs_needed,
        "level": judged.level,
        "spread": judged.profile.spread,
        "correlation": judged.profile.correlation,
        "smallest_detectable_change": judged.profile.smallest_change,
        "band": None if report.band is None else {"low": low, "high": high},
        "changes": list(map(_change_row, report.changes)),
        "too_small": list(map(_change_row, report.too_small)),
        "suspicion": _change_row(report.suspicion) if report.suspicion else None,
        "baseline": _baseline_row(report),
        "why_not": list(report.why_not),
    }


def _baseline_row(report: DetectionReport) -> Row | None:
    comparison = report.comparison
    if comparison is None:
        return None
    baseline, current, shift = comparison.accepted.level, comparison.drift.now, comparison.drift.shift
    has_drifted = comparison.drift.is_beyond
    return {
        "baseline_level": baseline.median,
        "baseline_n": baseline.points,
        "current_level": current.median,
        "current_n": current.points,
        "relative": shift.relative,
        "relative_low": shift.low,
        "relative_high": shift.high,
        "tolerated_change": report.policy.smallest_change,
        "has_drifted": has_drifted,
        "since_at": to_time(int(report.input.times[comparison.start])) if has_drifted else None,
    }


def _change_row(change: FoundChange) -> Row:
    found = change.found
    return {
        "run": change.run_id,
        "last_good_run": change.last_good_run_id,
        "started_at": change.at,
        **describe_levels(found),
        "t_score": found.t_score,
        "rank_score": found.rank_score,
        "correlation": found.correlation,
    }
