"""Compare two hosts, layouts, periods or runs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import LENGTH_MAXIMUM, BadFilter, Filter, parse_filter, write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.read.comparison import (
    DEFAULT_METRICS,
    SERIES_IDS_MAXIMUM,
    ComparisonResult,
    Evidence,
    NotCompared,
    Pair,
    Side,
    Unmatched,
    Verdict,
    compare_sides,
    summarize_scopes,
)
from benchapp.charts.read.comparison_sides import EnvironmentDifference
from benchapp.charts.texts.comparison import describe_side
from benchapp.framework.api.answers import AnswerPage, ApiAnswer, MetricName, build, list_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    FilterParameters,
    FormatParameters,
    IdsField,
    MomentField,
    NamesField,
    read_parameters,
    text_parameter,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_rows
from benchapp.framework.api.view import ApiView
from benchapp.incidents.read.series_status import MarkState
from benchapp.models.filtering import follow_names

_SIDES: Final = ("a", "b")
_ID_MAXIMUM: Final = 2**63 - 1
_UNMATCHED_MAXIMUM: Final = 1000


def _filter_parameter(help_text: str) -> Any:
    return text_parameter(LENGTH_MAXIMUM, help_text=help_text)


def _moment(source: str) -> MomentField:
    return MomentField(required=False, help_text=source)


def _run() -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False, min_value=1, max_value=_ID_MAXIMUM, help_text="one run, instead of a filter"
    )


def _series() -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False, min_value=1, max_value=_ID_MAXIMUM, help_text="one series, instead of a filter"
    )


class ComparisonParameters(FilterParameters, FormatParameters):
    """The two sides and the metrics to compare; `q` is common to both sides."""

    a = _filter_parameter("filter of side A: host:db-1")
    b = _filter_parameter("filter of side B: host:db-2")
    a_run = _run()
    b_run = _run()
    a_series = _series()
    b_series = _series()
    a_from = _moment("inclusive")
    a_to = _moment("exclusive")
    b_from = _moment("inclusive")
    b_to = _moment("exclusive")
    series = IdsField(
        SERIES_IDS_MAXIMUM, help_text="ids of series, separated by commas, common to both sides"
    )
    metrics = NamesField(tuple(CATALOG), help_text=f"metrics; default: {','.join(DEFAULT_METRICS)}")


class PairAnswer(ApiAnswer, kw_only=True, frozen=True):
    title: Annotated[str, Meta(description="workload and layout common to both sides")]
    metric: MetricName
    unit: str
    rw: str
    direction: str
    a_n: int
    a_median: float
    a_p10: float
    a_p90: float
    b_n: int
    b_median: float
    b_p10: float
    b_p90: float
    ratio: Annotated[float | None, Meta(description="median of B / median of A")]
    ratio_low: Annotated[
        float | None,
        Meta(description="95 % interval, bootstrap of medians; null for fewer than 5 values on a side"),
    ]
    ratio_high: float | None
    p: Annotated[float | None, Meta(description="Mann-Whitney, two-sided")]
    adjusted_p: Annotated[float | None, Meta(description="among all pairs, Benjamini-Hochberg")]
    cliffs_delta: float
    effect: Literal["negligible", "small", "medium", "large"]
    is_significant: Annotated[bool, Meta(description="the interval excludes 1 and adjusted_p is below 0.05")]
    is_apart: Annotated[
        bool,
        Meta(
            description="fewer than 5, at least 3 values on a side: worse or better by ten times their spread"
        ),
    ]
    smallest_change: Annotated[float, Meta(description="relative difference that counts, as in detection")]
    is_worse: Annotated[bool | None, Meta(description="null if the difference is below the smallest change")]
    verdict: Annotated[
        Verdict, Meta(description='"same": the interval excludes the smallest change; else "undecided"')
    ]
    evidence: Annotated[
        Evidence,
        Meta(description="of worse or better: the value, its spread, its pattern or an open regression"),
    ]
    usual_low: Annotated[
        float | None, Meta(description="for fewer than 5 values: p10 / median of the series")
    ]
    usual_high: float | None
    a_series: Sequence[int]
    a_change_state: Annotated[
        MarkState | None,
        Meta(
            description="of the open or accepted change that matters most among the changes of the side's values"
        ),
    ]
    a_incident: Annotated[int | None, Meta(description="of that change")]
    b_series: Sequence[int]
    b_change_state: MarkState | None
    b_incident: int | None


class PatternAnswer(ApiAnswer, kw_only=True, frozen=True):
    pattern: Annotated[str, Meta(description="rw, with the direction if mixed: randread, randrw read")]
    metric: MetricName
    is_worse: bool
    relative: Annotated[float | None, Meta(description="median of B / A − 1 over the differences")]
    count: Annotated[int, Meta(description="of the differences")]
    series_count: Annotated[int, Meta(description="series of the pattern with that metric")]


class ScopeAnswer(ApiAnswer, kw_only=True, frozen=True):
    scope: Annotated[str, Meta(description="host:NAME or pool:NAME")]
    verdict: Annotated[
        Verdict, Meta(description='"same": the intervals of all patterns exclude the smallest change')
    ]
    differences: Annotated[Sequence[PatternAnswer], Meta(description="the largest first")]
    values: int
    worse: Annotated[int, Meta(description="values that are worse")]
    better: int
    undecided: int


class ComparisonPage(AnswerPage, kw_only=True, frozen=True):
    only_a: Annotated[Sequence[Unmatched], Meta(description="unmatched series, at most 1 000")]
    only_b: Sequence[Unmatched]
    only_a_count: Annotated[int, Meta(description="of all unmatched series")]
    only_b_count: int
    differing: Annotated[Sequence[str], Meta(description="compared dimensions that differ")]
    environment: Sequence[EnvironmentDifference]
    series_of_a: int
    series_of_b: int
    is_cut: Annotated[bool, Meta(description="a side has more series or values than are compared")]
    scopes: Annotated[
        Sequence[ScopeAnswer],
        Meta(
            description="by host or pool, worst first; empty if A and B are of different ones or of a single one"
        ),
    ]
    not_compared: Annotated[
        Sequence[NotCompared],
        Meta(description="latencies of different kinds on both sides, at most 1 000"),
    ]
    pairs: Sequence[PairAnswer]


class ComparisonView(ApiView):
    """Compare two hosts, layouts, periods or runs."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="compare",
        parameters=[ComparisonParameters],
        responses=in_formats(ComparisonPage, "only the pairs"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Compare two hosts, layouts, periods or runs, most significant first."""
        wanted = read_parameters(request, ComparisonParameters)
        a, b, found = read_comparison(wanted)
        is_cut = found.is_cut or found.values_maximum is not None
        scopes = summarize_scopes(found)
        return answer_rows(
            request,
            ComparisonPage,
            [_describe_pair(pair) for pair in found.pairs],
            name="pairs",
            columns=list_columns(PairAnswer),
            answer_format=wanted["format"],
            file_name="comparison",
            about={
                "only_a": found.only_a[:_UNMATCHED_MAXIMUM],
                "only_b": found.only_b[:_UNMATCHED_MAXIMUM],
                "not_compared": found.not_compared[:_UNMATCHED_MAXIMUM],
                "only_a_count": len(found.only_a),
                "only_b_count": len(found.only_b),
                "differing": found.free,
                "environment": found.environment,
                "series_of_a": found.counts[0],
                "series_of_b": found.counts[1],
                "is_cut": is_cut,
                "scopes": [
                    build(
                        ScopeAnswer,
                        each,
                        differences=[build(PatternAnswer, difference) for difference in each.differences],
                    )
                    for each in scopes[0]
                ]
                if scopes
                else [],
            },
            context={
                "a": describe_side(a),
                "b": describe_side(b),
                "filter": write_filter(wanted["match"]),
                "is_cut": is_cut,
            },
            left_out={
                "only_a": len(found.only_a),
                "only_b": len(found.only_b),
                "not_compared": len(found.not_compared),
            },
        )


def read_comparison(wanted: Mapping[str, Any]) -> tuple[Side, Side, ComparisonResult]:
    """Return both sides of validated parameters and their comparison; Problem 400 for the filter of a side."""
    a, b = (_read_side(wanted, name) for name in _SIDES)
    found = compare_sides(
        a,
        b,
        common=wanted["match"],
        series_ids=wanted.get("series", ()),
        metrics=wanted.get("metrics", DEFAULT_METRICS),
    )
    return a, b, found


def _read_side(wanted: Mapping[str, Any], name: str) -> Side:
    return Side(
        _read_filter(wanted, name),
        run_id=wanted.get(f"{name}_run"),
        series_id=wanted.get(f"{name}_series"),
        from_at=wanted.get(f"{name}_from"),
        to_at=wanted.get(f"{name}_to"),
    )


def _read_filter(wanted: Mapping[str, Any], name: str) -> Filter:
    try:
        return follow_names(parse_filter(wanted.get(name, "")))
    except BadFilter as error:
        raise bad_parameter(name, error) from error


def _describe_pair(pair: Pair) -> PairAnswer:
    found = pair.comparison
    usual_low, usual_high = pair.usual or (None, None)
    sides = {
        f"{side}_{name}": getattr(getattr(found, side), name)
        for side in _SIDES
        for name in ("n", "median", "p10", "p90")
    }
    return build(
        PairAnswer,
        pair,
        found,
        unit=CATALOG[pair.metric].unit,
        ratio_low=found.low,
        ratio_high=found.high,
        cliffs_delta=found.delta,
        usual_low=usual_low,
        usual_high=usual_high,
        a_series=pair.a_ids,
        a_change_state=pair.a_mark and pair.a_mark.state,
        a_incident=pair.a_mark and pair.a_mark.incident_id,
        b_series=pair.b_ids,
        b_change_state=pair.b_mark and pair.b_mark.state,
        b_incident=pair.b_mark and pair.b_mark.incident_id,
        **sides,
    )
