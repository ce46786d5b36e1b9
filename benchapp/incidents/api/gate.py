"""The gate of a run: passed, regressed or undecided, for builds."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.metrics import CATALOG, Unit, format_value
from benchapp.framework.api.answers import PREFIX, ApiAnswer, MetricName, Time, list_columns, run_links
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    FormatParameters,
    IdsField,
    NamesField,
    PositionParameters,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead, find_ingest_host
from benchapp.framework.api.problems import not_found
from benchapp.framework.api.responses import answer_json, answer_lines, link_next
from benchapp.framework.api.view import ApiView
from benchapp.incidents.read.gate import (
    ERROR_RATE,
    FURTHER_RUNS_MAXIMUM,
    GATE_METRICS,
    GATE_METRICS_DEFAULT,
    BadBaseline,
    GateBaseline,
    GateOutcome,
    GateReason,
    GateRow,
    RunGate,
    UnknownRuns,
    parse_gate_baseline,
    read_gate,
)

# Rows of one answer of JSON; a run may have 10 000 measurements.
_ROWS_MAXIMUM: Final = 500


class BaselineField(serializers.CharField):
    """What the run is compared with."""

    def to_internal_value(self, data: Any) -> GateBaseline:  # type: ignore[override]
        """Parse the baseline."""
        try:
            return parse_gate_baseline(super().to_internal_value(data))
        except BadBaseline as problem:
            raise serializers.ValidationError(str(problem)) from problem


class GateParameters(FormatParameters, PositionParameters):
    """Baseline, metrics and limits; CSV and NDJSON have all rows."""

    baseline = BaselineField(
        required=False,
        help_text="earlier runs of the same series, the newest 100: `accepted` (default: of the newest level that is"
        " not a regression, or that a person accepted), a span `2026-11-01..2026-11-15`, or a label"
        " `label.branch:main`",
    )
    metric = NamesField(
        GATE_METRICS,
        source="metrics",
        help_text=f"metrics, separated by commas; default: {','.join(GATE_METRICS_DEFAULT)}",
    )
    max_regression = serializers.FloatField(
        source="limit",
        required=False,
        min_value=0,
        max_value=10,
        help_text="relative loss that must be found, 0.05 is 5 %; default: the threshold of each series and"
        " metric, with the detection policies that match",
    )
    error_rate = serializers.FloatField(
        required=False,
        min_value=1e-6,
        max_value=0.2,
        default=ERROR_RATE,
        help_text="probability that any series is reported although none is worse than its baseline",
    )
    asks = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=1 + FURTHER_RUNS_MAXIMUM,
        default=1,
        help_text="how often the gate is asked about the build at most, each time with further runs: error_rate is of"
        " all of them",
    )
    runs = IdsField(
        FURTHER_RUNS_MAXIMUM,
        source="further_ids",
        help_text="further runs of the same build, ids separated by commas: repetitions, whose values count"
        " together, or runs of other series",
    )


class GateRowAnswer(ApiAnswer, kw_only=True, frozen=True):
    series_id: Annotated[int | None, Meta(description="null: all series of the metric together")]
    series_count: int
    host: Annotated[str, Meta(description="host or pool of the series")]
    workload_title: str
    target_title: str
    metric: MetricName
    metric_label: str
    unit: Unit
    better: Literal["higher", "lower"]
    outcome: GateOutcome
    reason: Annotated[
        GateReason,
        Meta(
            description="why undecided: no-value (all runs failed or are excluded), no-baseline (fewer than 5 builds),"
            " other-kind (total latency is not compared with completion latency), too-noisy; empty if decided"
        ),
    ]
    value: Annotated[float | None, Meta(description="mean of the runs")]
    value_text: Annotated[str, Meta(description="the value with its unit, as on pages")]
    n: Annotated[int, Meta(description="runs with a valid value")]
    latency_kind: Annotated[str, Meta(description="of a latency: lat (total), clat (completion)")]
    baseline_median: float | None
    baseline_median_text: str
    baseline_n: int
    baseline_deviation: Annotated[
        float | None, Meta(description="standard deviation, relative to the median")
    ]
    baseline_latency_kind: Annotated[
        str,
        Meta(
            description="kind of the baseline: lat, clat; the reason other-kind says that it is not compared"
        ),
    ]
    baseline_from: Annotated[Time | None, Meta(description="start of the first run of the baseline")]
    baseline_to: Annotated[Time | None, Meta(description="start of the last run of the baseline")]
    change: Annotated[float | None, Meta(description="value / baseline_median - 1")]
    best: Annotated[
        float | None,
        Meta(
            description="bound of the change towards better, at the row's share of error_rate; still worse than the"
            " baseline: regressed, unless it passed"
        ),
    ]
    worst: Annotated[
        float | None,
        Meta(description="bound of the change towards worse, at 5 %; within the limit: passed"),
    ]
    max_regression: float
    runs_needed: Annotated[
        int | None,
        Meta(description="further runs until a decision is expected; null: decided, or more than 100"),
    ]
    series_url: str | None
    series_page: str | None


class GateAnswer(ApiAnswer, kw_only=True, frozen=True):
    run: int
    runs: Annotated[Sequence[int], Meta(description="the runs that were compared, the run first")]
    outcome: Annotated[
        GateOutcome, Meta(description="regressed if any row is; passed if all are; otherwise undecided")
    ]
    error_rate: float
    tests: Annotated[
        int,
        Meta(description="number of all rows, on which outcome depends"),
    ]
    rows: Annotated[Sequence[GateRowAnswer], Meta(description="at most 500, from `position` on")]
    position: int
    next_position: int | None
    next: str | None
    url: str
    page: str


class Gate(ApiView):
    """A run against a baseline."""

    permission_classes = [MayRead]
    admits_ingest = True

    @extend_schema(
        operation_id="read_gate",
        parameters=[GateParameters],
        responses=in_formats(GateAnswer, "the rows only"),
    )
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """Compare a run with earlier runs of its series; a host token sees only runs of its host, others are 404."""
        wanted = read_parameters(request, GateParameters)
        answer_format, position = wanted.pop("format"), wanted.pop("position")
        try:
            gate = read_gate(
                run_id,
                baseline=wanted.pop("baseline", GateBaseline()),
                host_id=find_ingest_host(request),
                **wanted,
            )
        except UnknownRuns as missing:
            raise not_found("run", missing) from missing
        rows = [_describe_row(row) for row in gate.rows]
        if answer_format != "json":
            columns = list_columns(GateRowAnswer)
            return answer_lines(
                request,
                rows,
                columns=columns,
                answer_format=answer_format,
                file_name=f"gate-{run_id}",
                context={"run": run_id},
            )
        end = position + _ROWS_MAXIMUM
        following = link_next(request, str(end), parameter="position") if end < len(rows) else None
        headers = {"Link": f'<{following}>; rel="next"'} if following else {}
        return answer_json(
            request, _describe_gate(gate, rows, position=position, following=following), headers=headers
        )


def _describe_gate(
    gate: RunGate, rows: Sequence[GateRowAnswer], *, position: int, following: str | None
) -> GateAnswer:
    links = run_links(gate.run_id)
    end = position + _ROWS_MAXIMUM
    return GateAnswer(
        run=gate.run_id,
        runs=gate.run_ids,
        outcome=gate.outcome,
        error_rate=gate.error_rate,
        tests=len(rows),
        rows=rows[position:end],
        position=position,
        next_position=end if following else None,
        next=following,
        url=f"{links['url']}/gate",
        page=links["page"],
    )


def _describe_row(row: GateRow) -> GateRowAnswer:
    metric, result, series = CATALOG[row.metric], row.result, row.series
    unit: Unit = metric.unit if series else "percent"
    return GateRowAnswer(
        series_id=series.id if series else None,
        series_count=row.series_count,
        host=series.scope_name if series else "",
        workload_title=series.workload_title if series else f"all {row.series_count} series together",
        target_title=series.target_title if series else "",
        metric=metric.name,
        metric_label=metric.label,
        unit=unit,
        better=metric.better,
        outcome=result.outcome,
        reason=result.reason,
        value=result.value,
        value_text=format_value(result.value, unit),
        n=result.n,
        latency_kind=row.latency_kind,
        baseline_median=result.baseline_median,
        baseline_median_text=format_value(result.baseline_median, unit),
        baseline_n=result.baseline_n,
        baseline_deviation=result.baseline_deviation,
        baseline_latency_kind=row.baseline_kind,
        baseline_from=row.from_at,
        baseline_to=row.to_at,
        change=result.change,
        best=result.best,
        worst=result.worst,
        max_regression=row.limit,
        runs_needed=result.runs_needed,
        series_url=f"{PREFIX}/series/{series.id}" if series else None,
        series_page=f"/series/{series.id}/" if series else None,
    )
