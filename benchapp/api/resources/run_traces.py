"""Traces of a run."""

from collections.abc import Iterator

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.parameters import FormatParameters, read_parameters
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import Row, answer_dicts
from benchapp.api.framework.view import ApiView
from benchapp.api.resources.run_provenance import TRACE_POINT_COLUMNS, TracePage
from benchapp.models import DirectionName, TraceKind
from benchapp.queries.runs.traces import TraceRow, has_run, read_traces


class TraceParameters(FormatParameters):
    """Filters of traces."""

    kind = serializers.ChoiceField(choices=TraceKind.values, required=False)
    direction = serializers.ChoiceField(choices=DirectionName.values, required=False)


_LINES = OpenApiResponse(OpenApiTypes.STR, "the points alone")


class RunTracesView(ApiView):
    """The traces of one run."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_run_traces",
        parameters=[TraceParameters],
        responses={
            (200, "application/json"): TracePage,
            (200, "text/csv"): _LINES,
            (200, "application/x-ndjson"): _LINES,
        },
    )
    def get(self, request: Request, run_id: int) -> HttpResponse:
        """List the traces of IOPS, bandwidth and latency from the fio logs; at most 600 points per trace."""
        wanted = read_parameters(request, TraceParameters)
        traces = [
            trace
            for trace in read_traces(run_id)
            if wanted.get("kind") in (None, trace.kind) and wanted.get("direction") in (None, trace.direction)
        ]
        if not traces and not has_run(run_id):
            raise Problem(404, "not-found", "No such run", f"run {run_id} does not exist")
        return answer_dicts(
            request,
            [row for trace in traces for row in _list_points(trace)],
            name="points",
            columns=TRACE_POINT_COLUMNS,
            next_cursor=None,
            format=wanted["format"],
            file_name=f"run-{run_id}-traces",
            about={"run": run_id, "traces": [_trace_row(trace) for trace in traces]},
        )


def _trace_row(trace: TraceRow) -> Row:
    return {
        "kind": trace.kind,
        "direction": trace.direction,
        "unit": trace.unit,
        "jobs": trace.jobs,
        "entries": trace.entries,
        "bucket_s": trace.bucket_s,
    }


def _list_points(trace: TraceRow) -> Iterator[Row]:
    for at_s, mean, minimum, maximum, count in zip(
        trace.at_s, trace.mean, trace.minimum, trace.maximum, trace.count, strict=True
    ):
        yield {
            "kind": trace.kind,
            "direction": trace.direction,
            "unit": trace.unit,
            "at_s": at_s,
            "mean": mean,
            "minimum": minimum,
            "maximum": maximum,
            "count": count,
        }
