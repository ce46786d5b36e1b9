"""What the answers about the inside of a run hold: its traces, and how its numbers were computed."""

from rest_framework import serializers

from benchapp.api.output_fields import (
    Output,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.api.run_outputs import BadgeOutput, NoteOutput, PercentileOutput
from benchapp.models import DirectionName, Kind

TRACE_POINT_COLUMNS = ("kind", "direction", "unit", "at_s", "mean", "minimum", "maximum", "count")


class TraceOutput(Output):
    kind = text(help_text="iops, bw, lat, clat or slat")
    direction = serializers.ChoiceField(choices=DirectionName.values)
    unit = text(help_text="operations/s, bytes/s or ns")
    jobs = number(help_text="logs behind it: added up for iops and bw, pooled for latencies")
    entries = number(help_text="lines of these logs")
    bucket_s = serializers.FloatField(help_text="length of a bucket")


class TracePointOutput(Output):
    kind = text(help_text="iops, bw, lat, clat or slat")
    direction = serializers.ChoiceField(choices=DirectionName.values)
    unit = text()
    at_s = serializers.FloatField(help_text="end of the bucket, from the start of the run")
    mean = maybe_real()
    minimum = maybe_real()
    maximum = maybe_real()
    count = number(help_text="entries in the bucket; 0 is a gap")


class TracePage(Output):
    run = number()
    traces = TraceOutput(many=True)
    points = TracePointOutput(many=True)
    next = maybe_text()
    next_cursor = maybe_text()


class ExplainedValueOutput(Output):
    name = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    unit = text()
    value = maybe_real()
    printed_as = text(help_text="what fio printed it as and how that was converted")
    how = text(help_text="how it was made of what was printed")
    code = maybe_text()
    reason = maybe_text()


class ExplainedPercentilesOutput(Output):
    kind = text(help_text="clat, lat, or empty")
    printed_as = text()
    how = text(help_text="whose they are, or why there are none")
    code = maybe_text()
    values = PercentileOutput(many=True)


class WorkloadPartOutput(Output):
    name = text()
    value = maybe_text()
    source = text()  # type: ignore[assignment]  # a serializer has a source itself


class MergedJobOutput(Output):
    index = number()
    name = text()
    hostname = maybe_text()
    clones = number(help_text="jobs that fio summed into it")


class ExplainedMeasurementOutput(Output):
    measurement_id = maybe_number()
    position = number()
    job_name = text()
    hostname = maybe_text()
    groupid = number()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    error = number()
    numjobs = number()
    job_count = number(help_text="in all of the entries merged")
    jobs = MergedJobOutput(many=True, help_text="the entries merged into it, at most 200")
    workload = WorkloadPartOutput(many=True)
    values = ExplainedValueOutput(many=True)
    percentiles = ExplainedPercentilesOutput()
    badges = BadgeOutput(many=True, help_text="as stored")


class ExplainedTotalOutput(Output):
    groupid = number()
    job_names = serializers.ListField(child=text(), help_text="at most 200")
    direction = text(help_text="as of measurements, or total: read, write and trim together")
    values = ExplainedValueOutput(many=True)


class LatencyShareOutput(Output):
    below_ns = maybe_number()
    percent = serializers.FloatField()


class SteadyStateOutput(Output):
    criterion = text()
    is_attained = serializers.BooleanField()
    duration_s = maybe_real()
    deviation = text()
    iops = maybe_real()
    bandwidth_bytes_per_s = maybe_real()


class ExplainedJobOutput(Output):
    index = number()
    name = text()
    hostname = maybe_text()
    groupid = number()
    clones = number()
    error = number()
    is_aggregate = serializers.BooleanField(help_text="fio's own sum over servers, which counts nowhere")
    cpu_user_percent = maybe_real()
    cpu_system_percent = maybe_real()
    context_switches = maybe_number()
    depth = serializers.DictField(child=serializers.FloatField())
    latency_shares = LatencyShareOutput(many=True)
    steady_state = SteadyStateOutput(allow_null=True)


class DiskOutput(Output):
    name = text()
    is_member = serializers.BooleanField()
    read_ios = maybe_number()
    write_ios = maybe_number()
    read_busy_s = maybe_real()
    write_busy_s = maybe_real()
    utilisation_percent = maybe_real()


class ReportSubmissionOutput(Output):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=Kind.values)
    received_at = time()
    body_bytes = number()
    url = text()


class RunReportOutput(Output):
    run = number()
    submission = ReportSubmissionOutput()
    stored_parser_version = number()
    parser_version = number(help_text="of today, by which this answer was made")
    format = text()
    format_version = maybe_number()
    has_precise_values = serializers.BooleanField()
    is_partial = serializers.BooleanField()
    fio_version = text()
    documents = number(help_text="reports in what was received")
    document = number(help_text="which of them this run is, from 0")
    started_at = maybe_time()
    finished_at = maybe_time()
    measurement_count = number(help_text="of the whole run")
    position = number(help_text="where measurements, totals, jobs and disks begin")
    next_position = maybe_number()
    next = maybe_text()
    measurements = ExplainedMeasurementOutput(many=True)
    totals = ExplainedTotalOutput(many=True)
    jobs = ExplainedJobOutput(many=True)
    disks = DiskOutput(many=True)
    warnings = NoteOutput(many=True)
    messages = serializers.ListField(child=text(), help_text="lines that are no part of a report")
