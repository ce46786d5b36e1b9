"""Traces of a run."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request

from benchapp.framework.api.answers import AnswerPage, ApiAnswer, build, list_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import ChoiceParameter, FormatParameters, read_parameters
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import not_found
from benchapp.framework.api.responses import answer_rows
from benchapp.framework.api.view import ApiView
from benchapp.models import DirectionName, TraceKind
from benchapp.series.read.runs.traces import TraceRow, read_host_name, read_traces


class TraceAnswer(ApiAnswer, kw_only=True, frozen=True):
    kind: Annotated[str, Meta(description="iops, bw, lat, clat or slat")]
    direction: DirectionName
    unit: Annotated[str, Meta(description="operations/s, bytes/s or ns")]
    jobs: Annotated[int, Meta(description="number of logs: added up for iops and bw, pooled for latencies")]
    entries: Annotated[int, Meta(description="lines of these logs")]
    bucket_s: Annotated[float, Meta(description="length of a bucket")]


class TracePointAnswer(ApiAnswer, kw_only=True, frozen=True):
    kind: Annotated[str, Meta(description="iops, bw, lat, clat or slat")]
    direction: DirectionName
    unit: str
    at_s: Annotated[float, Meta(description="end of the bucket, from the start of the run")]
    mean: float | None
    minimum: float | None
    maximum: float | None
    count: Annotated[int, Meta(description="entries in the bucket; 0 is a gap")]


class TracePage(AnswerPage, kw_only=True, frozen=True):
    run: int
    traces: Sequence[TraceAnswer]
    points: Sequence[TracePointAnswer]


class TraceParameters(FormatParameters):
    """Filters of traces."""

    kind = ChoiceParameter(choices=TraceKind.values, required=False)
    direction = ChoiceParameter(choices=DirectionName.values, required=False)


class RunTracesView(ApiView):
    """The traces of one run."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_run_traces",
        parameters=[TraceParameters],
        responses=in_formats(TracePage, "the points alone"),
    )
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """List the traces of IOPS, bandwidth and latency from the fio logs; at most 600 points per trace."""
        wanted = read_parameters(request, TraceParameters)
        traces = [
            trace
            for trace in read_traces(run_id)
            if wanted.get("kind") in (None, trace.kind) and wanted.get("direction") in (None, trace.direction)
        ]
        host = read_host_name(run_id) if not traces or wanted["format"] == "csv" else None
        if not traces and host is None:
            raise not_found("run", f"run {run_id} does not exist")
        return answer_rows(
            request,
            TracePage,
            [point for trace in traces for point in _list_points(trace)],
            name="points",
            columns=list_columns(TracePointAnswer),
            format=wanted["format"],
            file_name=f"run-{run_id}-traces",
            about={"run": run_id, "traces": [build(TraceAnswer, trace) for trace in traces]},
            context={"run": run_id, "host": host},
        )


def _list_points(trace: TraceRow) -> Iterator[TracePointAnswer]:
    for at_s, mean, minimum, maximum, count in zip(
        trace.at_s, trace.mean, trace.minimum, trace.maximum, trace.count, strict=True
    ):
        yield build(
            TracePointAnswer, trace, at_s=at_s, mean=mean, minimum=minimum, maximum=maximum, count=count
        )
