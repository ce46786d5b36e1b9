"""Compare two hosts, layouts, periods or runs."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    Output,
    PageOutput,
    maybe_real,
    maybe_text,
    number,
    real,
    text,
)
from benchapp.api.framework.parameters import FormatParameters, NamesField, read_parameters, text_parameter
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import Row, answer_dicts
from benchapp.api.framework.view import ApiView
from benchapp.grammar import LENGTH_MAXIMUM, BadFilter, Filter, parse_filter
from benchapp.metrics import CATALOGUE
from benchapp.models import METRIC_FIELDS
from benchapp.queries.charts.comparison import DEFAULT_METRICS, Pair, Side, Unmatched, compare_sides

_SIDES: Final = ("a", "b")
_ID_MAXIMUM: Final = 2**63 - 1
COLUMNS: Final = (
    *("title", "metric", "unit", "rw", "direction"),
    *("a_n", "a_median", "a_p10", "a_p90", "b_n", "b_median", "b_p10", "b_p90"),
    *("ratio", "ratio_low", "ratio_high", "p", "adjusted_p", "cliffs_delta", "effect"),
    *("is_significant", "is_worse", "usual_low", "usual_high", "a_series", "b_series"),
)


def _filter_parameter(help_text: str) -> Any:
    return text_parameter(LENGTH_MAXIMUM, help_text=help_text)


def _moment(source: str) -> serializers.DateTimeField:
    return serializers.DateTimeField(required=False, help_text=source)


def _run() -> serializers.IntegerField:
    return serializers.IntegerField(
        required=False, min_value=1, max_value=_ID_MAXIMUM, help_text="one run, instead of a filter"
    )


class ComparisonParameters(FormatParameters):
    """The two sides and the metrics to compare."""

    q = _filter_parameter("common filter of both sides")
    a = _filter_parameter("filter of side A: host:db-1")
    b = _filter_parameter("filter of side B: host:db-2")
    a_run = _run()
    b_run = _run()
    a_from = _moment("RFC 3339, inclusive")
    a_to = _moment("RFC 3339, exclusive")
    b_from = _moment("RFC 3339, inclusive")
    b_to = _moment("RFC 3339, exclusive")
    metrics = NamesField(METRIC_FIELDS, help_text=f"metrics; default: {','.join(DEFAULT_METRICS)}")


class PairOutput(Output):
    title = text(help_text="workload and layout common to both sides")
    metric = serializers.ChoiceField(choices=METRIC_FIELDS)
    unit = text()
    rw = text()
    direction = text()
    a_n = number()
    a_median = real()
    a_p10 = real()
    a_p90 = real()
    b_n = number()
    b_median = real()
    b_p10 = real()
    b_p90 = real()
    ratio = maybe_real(help_text="median of B / median of A")
    ratio_low = maybe_real(
        help_text="95 % interval, bootstrap of medians; null for fewer than 5 values on a side"
    )
    ratio_high = maybe_real()
    p = maybe_real(help_text="Mann-Whitney, two-sided")
    adjusted_p = maybe_real(help_text="among all pairs, Benjamini-Hochberg")
    cliffs_delta = real()
    effect = serializers.ChoiceField(choices=("negligible", "small", "medium", "large"))
    is_significant = serializers.BooleanField(
        help_text="the interval excludes 1 and adjusted_p is below 0.05"
    )
    is_worse = serializers.BooleanField(allow_null=True, help_text="null if the medians are equal")
    usual_low = maybe_real(help_text="for fewer than 5 values: p10 / median of the series")
    usual_high = maybe_real()
    a_series = serializers.ListField(child=number())
    b_series = serializers.ListField(child=number())


class UnmatchedOutput(Output):
    series = number()
    title = text()


class DifferenceOutput(Output):
    name = text()
    a = serializers.ListField(child=text())
    b = serializers.ListField(child=text())


class ComparisonPage(PageOutput):
    only_a = UnmatchedOutput(many=True, help_text="unmatched series")
    only_b = UnmatchedOutput(many=True)
    differing = serializers.ListField(child=text(), help_text="compared dimensions that differ")
    environment = DifferenceOutput(many=True)
    series_of_a = number()
    series_of_b = number()
    is_cut = serializers.BooleanField(help_text="a side has more series or values than are compared")
    pairs = PairOutput(many=True)
    next = maybe_text()


class ComparisonView(ApiView):
    """Compare two hosts, layouts, periods or runs."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="compare",
        parameters=[ComparisonParameters],
        responses={
            (200, "application/json"): ComparisonPage,
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "only the pairs"),
            (200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.STR, "only the pairs"),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """Compare two hosts, layouts, periods or runs, most significant first."""
        wanted = read_parameters(request, ComparisonParameters)
        a, b = (_read_side(wanted, name) for name in _SIDES)
        found = compare_sides(
            a, b, common=_read_filter(wanted, "q"), metrics=wanted.get("metrics", DEFAULT_METRICS)
        )
        return answer_dicts(
            request,
            [_pair_row(pair) for pair in found.pairs],
            name="pairs",
            columns=COLUMNS,
            next_cursor=None,
            format=wanted["format"],
            file_name="comparison",
            about={
                "only_a": [_unmatched_row(unmatched) for unmatched in found.only_a],
                "only_b": [_unmatched_row(unmatched) for unmatched in found.only_b],
                "differing": list(found.free),
                "environment": [
                    {"name": line.name, "a": list(line.a), "b": list(line.b)} for line in found.environment
                ],
                "series_of_a": found.counts[0],
                "series_of_b": found.counts[1],
                "is_cut": found.is_cut,
            },
        )


def _read_side(wanted: Mapping[str, Any], name: str) -> Side:
    return Side(
        _read_filter(wanted, name),
        run_id=wanted.get(f"{name}_run"),
        from_at=wanted.get(f"{name}_from"),
        to_at=wanted.get(f"{name}_to"),
    )


def _read_filter(wanted: Mapping[str, Any], name: str) -> Filter:
    try:
        return parse_filter(wanted.get(name, ""))
    except BadFilter as error:
        raise Problem(
            400, "parameter-invalid", "Bad query parameter", f"{name}: {error}", pointer=name
        ) from error


def _pair_row(pair: Pair) -> Row:
    found = pair.comparison
    low, high = pair.usual or (None, None)
    return {
        "title": pair.title,
        "metric": pair.metric,
        "unit": CATALOGUE[pair.metric].unit,
        "rw": pair.rw,
        "direction": pair.direction,
        **{f"a_{name}": getattr(found.a, name) for name in ("n", "median", "p10", "p90")},
        **{f"b_{name}": getattr(found.b, name) for name in ("n", "median", "p10", "p90")},
        "ratio": found.ratio,
        "ratio_low": found.low,
        "ratio_high": found.high,
        "p": found.p,
        "adjusted_p": pair.adjusted_p,
        "cliffs_delta": found.delta,
        "effect": found.effect,
        "is_significant": pair.is_significant,
        "is_worse": pair.is_worse,
        "usual_low": low,
        "usual_high": high,
        "a_series": list(pair.a_ids),
        "b_series": list(pair.b_ids),
    }


def _unmatched_row(unmatched: Unmatched) -> Row:
    return {"series": unmatched.id, "title": unmatched.title}
