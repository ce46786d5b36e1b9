"""Why the judge says what it says of a series, or would say by another policy."""

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
from benchapp.models import DetectionStatus
from benchapp.pipeline.detection.dry_run import (
    FoundChange,
    SeriesExplanation,
    UnknownSeries,
    explain_series,
)
from benchapp.pipeline.detection.histories import READ_METRICS, to_time
from benchapp.pipeline.detection.series import describe_levels
from benchapp.queries.incidents.changes import list_changes_of_series

_POLICY = ("smallest_change", "baseline_from", "until")


class ExplainParameters(Parameters):
    """Of which metric, and by which policy."""

    metric = serializers.ChoiceField(choices=READ_METRICS, required=False, default=READ_METRICS[0])
    dry_run = flag_parameter(help_text="true: judge by the policy that is given here; nothing is written")
    smallest_change = serializers.FloatField(
        required=False, min_value=0.01, max_value=10, help_text="relative, 0.05 is 5 %; with dry_run"
    )
    baseline_from = serializers.DateTimeField(
        required=False, help_text="compare nothing before, RFC 3339; with dry_run"
    )
    until = serializers.DateTimeField(
        required=False, help_text="as if nothing had come from then on, RFC 3339; with dry_run"
    )


class PolicyOutput(Output):
    smallest_change = real(help_text="the smallest relative change worth saying")
    baseline_from_at = maybe_time()
    until_at = maybe_time()


class InputOutput(Output):
    run = number()
    started_at = time()
    value = real()


class FoundOutput(Output):
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
    correlation = maybe_real(help_text="of neighbouring runs")


class BandOutput(Output):
    low = real()
    high = real()


class AcceptedOutput(Output):
    accepted_level = real(help_text="median of its first runs, at most 60")
    accepted_n = number()
    present_level = real(help_text="of the newest runs since the last change, at most 60")
    present_n = number()
    relative = real()
    relative_low = maybe_real(help_text="of its 95 % interval")
    relative_high = maybe_real()
    tolerated_change = real()
    has_drifted = serializers.BooleanField(help_text="the whole interval lies beyond what is tolerated")
    since_at = maybe_time()


class ExplanationOutput(Output):
    series = number()
    metric = text()
    method = text()
    is_dry_run = serializers.BooleanField()
    policy = PolicyOutput()
    inputs = InputOutput(many=True, help_text="the valid runs that it was judged by, oldest first")
    failed = number(help_text="measurements of the series that count in nothing")
    excluded = number()
    without_value = number()
    status = serializers.ChoiceField(choices=DetectionStatus.values)
    runs_needed = maybe_number()
    level = maybe_real(help_text="median of the present level")
    spread = real(help_text="relative")
    correlation = real()
    least_change = maybe_real(help_text="the smallest relative change that five more runs would show")
    band = BandOutput(allow_null=True, help_text="the newest runs beyond it are suspected")
    changes = FoundOutput(many=True)
    too_small = FoundOutput(many=True, help_text="found, and below the smallest change worth saying")
    suspicion = FoundOutput(allow_null=True)
    accepted = AcceptedOutput(
        allow_null=True,
        help_text="the present level against the one that somebody accepted; null without one",
    )
    stored = ChangeOutput(many=True, help_text="what was said of it so far, the newest first")
    why_not = serializers.ListField(child=text(), help_text="what keeps changes from being said")


class SeriesExplain(ApiView):
    """What is said of a series, explained."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="explain_series", parameters=[ExplainParameters], responses=ExplanationOutput)
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Explain by the judge's own function on what is stored: inputs, policy, band, changes, and why not."""
        wanted = read_parameters(request, ExplainParameters)
        given = {name: wanted[name] for name in _POLICY if name in wanted}
        if given and not wanted["dry_run"]:
            name = next(iter(given))
            raise Problem(
                400,
                "parameter-invalid",
                "Bad query parameter",
                f"{name}: another policy is for a dry run only: add dry_run=true",
                pointer=name,
            )
        try:
            explained = explain_series(
                series_id,
                wanted["metric"],
                smallest_change=given.get("smallest_change"),
                baseline_from_at=given.get("baseline_from"),
                until_at=given.get("until"),
            )
        except UnknownSeries as error:
            raise Problem(404, "not-found", "No such series", str(error)) from error
        stored = list_changes_of_series(series_id, metric=wanted["metric"])
        return answer_json(request, _describe(explained) | {"stored": list(map(change_row, stored))})


def _describe(explained: SeriesExplanation) -> dict[str, Any]:
    judged, policy = explained.judgement, explained.policy
    low, high = explained.band or (None, None)
    return {
        "series": explained.series_id,
        "metric": explained.metric,
        "method": explained.method,
        "is_dry_run": explained.is_dry_run,
        "policy": {
            "smallest_change": policy.smallest_change,
            "baseline_from_at": policy.baseline_from_at,
            "until_at": policy.until_at,
        },
        "inputs": explained.list_inputs(),
        "failed": explained.failed_count,
        "excluded": explained.excluded_count,
        "without_value": explained.without_value_count,
        "status": explained.status,
        "runs_needed": judged.state.runs_needed,
        "level": judged.level,
        "spread": judged.profile.spread,
        "correlation": judged.profile.correlation,
        "least_change": judged.profile.smallest_change,
        "band": None if explained.band is None else {"low": low, "high": high},
        "changes": list(map(_found_row, explained.changes)),
        "too_small": list(map(_found_row, explained.too_small)),
        "suspicion": _found_row(explained.suspicion) if explained.suspicion else None,
        "accepted": _held_row(explained),
        "why_not": list(explained.why_not),
    }


def _held_row(explained: SeriesExplanation) -> Row | None:
    held = explained.held
    if held is None:
        return None
    accepted, present, shift = held.accepted.level, held.drift.now, held.drift.shift
    has_drifted = held.drift.is_beyond
    return {
        "accepted_level": accepted.median,
        "accepted_n": accepted.points,
        "present_level": present.median,
        "present_n": present.points,
        "relative": shift.relative,
        "relative_low": shift.low,
        "relative_high": shift.high,
        "tolerated_change": explained.policy.smallest_change,
        "has_drifted": has_drifted,
        "since_at": to_time(int(explained.input.times[held.start])) if has_drifted else None,
    }


def _found_row(change: FoundChange) -> Row:
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
