"""What the answers hold, for the OpenAPI document. Views write the rows of `rows.py`; a test holds the two together."""

from typing import Any, Final

from rest_framework import serializers

from benchapp.api.output_fields import (
    Environment,
    Output,
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
from benchapp.metrics import CATALOGUE
from benchapp.models import DirectionName, Kind, State


class ScheduleEntryOutput(Output):
    profile = text()
    every_s = number()
    splay_s = number(help_text="a run may start up to so much late")
    directory = text()
    last_run_at = maybe_time()
    expected_at = maybe_time()
    silent_since = maybe_time()


class ScheduleOutput(Output):
    since_at = time()
    told_by = text()
    entries = ScheduleEntryOutput(many=True, help_text="empty: the host runs nothing by itself")


class HostOutput(Output):
    name = text()
    pool = text(help_text="empty where the host is in no pool")
    created_at = time()
    last_seen_at = maybe_time()
    agent_version = text()
    retired_at = maybe_time()
    run_count = number()
    last_run_id = maybe_number()
    last_run_at = maybe_time()
    last_run_profile = maybe_text()
    last_run_error = maybe_number()
    expected_at = maybe_time()
    silent_since = maybe_time()
    schedule = ScheduleOutput(allow_null=True, help_text="null is unknown")
    url = text()
    page = text()


class OwnHostOutput(Output):
    name = text()
    pool = text()
    server_time = time()


class TokenOutput(Output):
    public_id = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    created_at = time()
    created_by = maybe_text()
    last_used_at = maybe_time()
    expires_at = maybe_time()
    revoked_at = maybe_time()


class NewTokenOutput(Output):
    public_id = text()
    host = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    created_at = time()
    expires_at = maybe_time()
    token = text(help_text="shown this once; only a digest is kept")


class EnrollmentOutput(Output):
    host = text()
    token = text(help_text="the host's own token, shown this once")
    url = text()


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
    latency_kind = text(help_text="clat, lat, or empty")
    latency_mean_ns = maybe_real()
    latency_stddev_ns = maybe_real()
    latency_p50_ns = maybe_real()
    latency_p95_ns = maybe_real()
    latency_p99_ns = maybe_real()
    latency_p99_9_ns = maybe_real()
    latency_max_ns = maybe_real()
    elapsed_s = maybe_real()
    total_ios = maybe_number()
    io_bytes = maybe_number()
    clones = number()
    missing = serializers.DictField(help_text="what is absent → reason code")
    percentiles = PercentileOutput(many=True)
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


class RunDetailOutput(_RunColumns):
    document = number()
    labels = serializers.DictField(child=text())
    format = text()
    command = serializers.DictField()
    warnings = NoteOutput(many=True)
    parser_version = number()
    environment = Environment()
    submission = SubmissionRefOutput()
    measurements = MeasurementOutput(many=True)
    previous_run_id = maybe_number()
    next_run_id = maybe_number()
    output = text()


class SeriesOutput(TargetColumns, WorkloadColumns):
    id = number()
    title = text()
    scope = text()
    host = maybe_text()
    pool = maybe_text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    measurement_count = number()
    first_at = time()
    last_at = time()
    badges = badge_codes("codes that its newest measurement bears, the gravest first")
    last_run_id = maybe_number()
    last_error = maybe_number()
    last_iops = maybe_real()
    last_bandwidth_bytes_per_s = maybe_real()
    last_latency_p99_ns = maybe_real()
    url = text()
    page = text()


class SiblingOutput(Output):
    id = number()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    url = text()


class SeriesDetailOutput(SeriesOutput):
    workload_title = text()
    target_title = text()
    hosts = serializers.ListField(child=text())
    siblings = SiblingOutput(many=True)
    points = text()


class MetricOutput(Output):
    name = text()
    unit = text()
    better = serializers.ChoiceField(choices=("higher", "lower"))
    label = text()  # type: ignore[assignment]  # a serializer has a label itself


class PointOutput(Output):
    run = number()
    started_at = time()
    error = number(help_text="fio's errno; other than 0 means: do not compare")
    badges = badge_codes("codes of what speaks against it")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the metrics asked for, each with its level where `rolling` is given."""
        names = [name for metric in CATALOGUE for name in (metric, *level_columns(metric))]
        return super().get_fields() | {
            name: serializers.FloatField(allow_null=True, required=False) for name in names
        }


class SummaryOutput(Output):
    series = number()
    metric = serializers.ChoiceField(choices=tuple(CATALOGUE))
    unit = text()
    n = number()
    median = maybe_real()
    p10 = maybe_real()
    p90 = maybe_real()
    minimum = maybe_real()
    maximum = maybe_real()
    last = maybe_real()


class ReasonOutput(Output):
    code = text()
    detail = text()


class RunLinkOutput(Output):
    id = number()
    url = text()
    page = text()


class SubmissionOutput(Output):
    id = serializers.UUIDField()
    host = text()
    kind = serializers.ChoiceField(choices=Kind.values)
    state = serializers.ChoiceField(choices=State.values)
    received_at = time()
    settled_at = maybe_time()
    reason = ReasonOutput(allow_null=True)
    attempts = number()
    body_bytes = number()
    has_body = serializers.BooleanField()
    runs = RunLinkOutput(many=True)
    url = text()


class _PageOutput(Output):
    next = maybe_text()
    next_cursor = maybe_text()


class HostPage(_PageOutput):
    hosts = HostOutput(many=True)


class RunPage(_PageOutput):
    runs = RunOutput(many=True)


class SeriesPage(_PageOutput):
    series = SeriesOutput(many=True)


class SubmissionPage(_PageOutput):
    submissions = SubmissionOutput(many=True)


class PointPage(_PageOutput):
    series = number()
    metrics = MetricOutput(many=True)
    points = PointOutput(many=True)


class TokenList(Output):
    tokens = TokenOutput(many=True)


class IndexOutput(Output):
    version = text()
    resources = serializers.DictField(child=text())


LEVELS: Final = ("median", "p10", "p90")


def level_columns(metric: str) -> tuple[str, ...]:
    """Return the columns that `rolling` adds for a metric."""
    return tuple(f"{metric}_{level}" for level in LEVELS)


# In the order in which `rows.py` writes them.
SERIES_COLUMNS: Final = (
    *("id", "title", "scope", "host", "pool", "direction", "measurement_count"),
    *("first_at", "last_at", "badges"),
    *WorkloadColumns().fields,
    *TargetColumns().fields,
    *("last_run_id", "last_error", "last_iops", "last_bandwidth_bytes_per_s", "last_latency_p99_ns"),
    *("url", "page"),
)
RUN_COLUMNS: Final = tuple(RunOutput().fields)
HOST_COLUMNS: Final = tuple(HostOutput().fields)
