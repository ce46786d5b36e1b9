"""What the answers about runs hold."""

from typing import Final

from rest_framework import serializers

from benchapp.api.output_fields import (
    ChosenColumns,
    Environment,
    Output,
    PageOutput,
    TargetColumns,
    WorkloadColumns,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    text,
    time,
)
from benchapp.models import DirectionName, Kind, State


class SummaryColumns(Output):
    series_id = number()
    job_name = text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    rw = text()
    block_size_bytes = maybe_number()
    block_size_text = text()
    iodepth = maybe_number()
    numjobs = number()
    error = number()
    iops = maybe_real()
    bandwidth_bytes_per_s = maybe_real()
    latency_mean_ns = maybe_real()
    latency_p99_ns = maybe_real()
    elapsed_s = maybe_real()


class _RunColumns(TargetColumns):
    id = number()
    host = text()
    pool = text()
    profile = text()
    started_at = time()
    started_at_is_known = serializers.BooleanField(help_text="false: the server's clock at receipt")
    finished_at = maybe_time()
    fio_version = text()
    error = number(help_text="fio's first errno, 0 where all went well")
    has_failed = serializers.BooleanField()
    is_partial = serializers.BooleanField()
    badges = badge_codes("codes that any of its measurements bears, the gravest first")
    excluded_at = serializers.DateTimeField(
        allow_null=True, help_text="since when it is kept out of medians; null where it counts"
    )
    sweep_id = serializers.UUIDField(allow_null=True)
    target_title = text()
    url = text()
    page = text()


class RunOutput(_RunColumns):
    submission_id = serializers.UUIDField()
    measurements = SummaryColumns(many=True, help_text="the first 8")
    measurement_count = number()


class PercentileOutput(Output):
    percent = serializers.FloatField()
    ns = serializers.FloatField()


class BadgeOutput(Output):
    code = text()
    sentence = text()
    numbers = serializers.DictField(
        child=serializers.FloatField(), help_text="what it rests on, in base units, by name"
    )


class MeasurementOutput(WorkloadColumns):
    id = number()
    series_id = number()
    ordinal = number()
    position = number()
    job_name = text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    error = number()
    iops = maybe_real()
    bandwidth_bytes_per_s = maybe_real()
    latency_mean_ns = maybe_real(
        help_text="of total latency (lat), as are stddev and max; of completion (clat) where `missing` names `total`, "
        "and in runs of parser_version 1"
    )
    latency_stddev_ns = maybe_real()
    latency_max_ns = maybe_real()
    latency_kind = text(
        help_text="of which latency the percentiles are: clat (completion), lat (total), or empty without any; "
        "not of mean, stddev and max"
    )
    latency_p50_ns = maybe_real()
    latency_p95_ns = maybe_real()
    latency_p99_ns = maybe_real()
    latency_p99_9_ns = maybe_real()
    elapsed_s = maybe_real()
    total_ios = maybe_number()
    io_bytes = maybe_number()
    clones = number()
    missing = serializers.DictField(help_text="what is absent → reason code")
    percentiles = PercentileOutput(
        many=True,
        help_text="as fio printed them, also those that fewer than 10 samples lie beyond: chance decides those",
    )
    badges = BadgeOutput(many=True)
    measured_s = maybe_real()
    workload_title = text()
    series_url = text()


class SubmissionRefOutput(Output):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=Kind.values)
    state = serializers.ChoiceField(choices=State.values)
    received_at = time()
    body_bytes = number()
    has_body = serializers.BooleanField()
    url = text()


class NoteOutput(Output):
    code = text()
    where = text()
    message = text()


class ExclusionOutput(Output):
    run_id = number()
    excluded_at = maybe_time()
    excluded_by = maybe_text()
    excluded_reason = text()


class RunDetailOutput(_RunColumns):
    document = number()
    labels = serializers.DictField(child=text())
    format = text()
    command = serializers.DictField()
    warnings = NoteOutput(many=True)
    parser_version = number()
    excluded_by = text(allow_null=True, help_text="user name; null for a program")
    excluded_reason = text(help_text="why; where excluded_at is null, why it once was")
    environment = Environment()
    submission = SubmissionRefOutput()
    measurements = MeasurementOutput(many=True)
    previous_run_id = maybe_number()
    next_run_id = maybe_number()
    output = text()


class RunRowOutput(ChosenColumns, RunOutput):
    pass


class RunPage(PageOutput):
    runs = RunRowOutput(many=True)


# In the order in which `rows.py` writes them.
RUN_COLUMNS: Final = tuple(RunOutput().fields)
