"""Views for read-only SQL: hosts, submissions, runs, series, points, levels, changes and incidents."""

from django.db import migrations

from benchapp.sql_views import SqlView, ViewColumn, create_views


def _columns(text, prefix=""):
    """Read columns: NAME: COMMENT, or NAME = EXPRESSION: COMMENT; without an expression the column of the prefix."""
    found = []
    for line in text.strip().splitlines():
        left, _, comment = line.strip().partition(": ")
        name, _, expression = left.partition(" = ")
        found.append(ViewColumn(name, expression or f"{prefix}{name}", comment))
    return tuple(found)


_LAYOUT = """
target_name: Name that distinguishes equal layouts of one host (mount point, volume label)
volume_type: Type of the volumes, such as gp3
volume_size_bytes: Size of each volume, bytes
volume_count: Number of volumes
provisioned_iops: Provisioned IOPS of each volume, operations/s
raid_level: RAID level
stripe_count: Number of stripes
chunk_size_bytes: Chunk size of the stripes, bytes
filesystem: Filesystem
mount_options: Mount options
instance_type: Instance type of the host
"""
_WORKLOAD = """
rw: Access pattern of fio (rw), such as randread
block_size_bytes: Block size, bytes; null if it is not a single number
block_size_text: Block sizes as text, if they are not a single number
iodepth: Queue depth (iodepth)
numjobs: Number of jobs (numjobs)
file_size_bytes: File size, bytes; null if it is not a single number
file_size_text: File sizes as text, if they are not a single number
is_direct: Direct I/O
engine: I/O engine (ioengine)
read_share_percent: Share of reads, percent
runtime_s: Runtime limit, s
options: Further options of fio that change what is measured
"""
_ENVIRONMENT = """
kernel: Kernel version
os: Operating system
cpu_model: CPU model
cpu_count: Number of CPUs
memory_bytes: Memory, bytes
scheduler: I/O scheduler
device_model: Device model
device_firmware: Firmware of the device
device_driver: Driver of the device
governor: CPU frequency governor
virtualization: Virtualization
agent_version: Version of the agent
"""
_METRICS = """
iops: IOPS, operations/s
bandwidth_bytes_per_s: Bandwidth, bytes/s
latency_mean_ns: Mean latency, ns
latency_p50_ns: 50th percentile of the latency, ns
latency_p95_ns: 95th percentile of the latency, ns
latency_p99_ns: 99th percentile of the latency, ns
latency_p99_9_ns: 99.9th percentile of the latency, ns
latency_max_ns: Maximum latency, ns
elapsed_s: Elapsed time of a workload that is timed as a whole, s
"""

VIEWS = (
    SqlView(
        "benchapp_v_hosts",
        "One row for each host",
        _columns(
            """
            host = host.name: Name
            pool = NULLIF(host.pool, ''): Pool; null for none
            created_at = host.created_at: When it was created, server clock
            last_seen_at = host.last_seen_at: When it posted last, server clock
            agent_version = host.agent_version: Version of the agent
            retired_at = host.retired_at: When it was retired; null if it is active
            run_count = host.run_count: Number of runs
            """
        ),
        "FROM benchapp_host AS host",
    ),
    SqlView(
        "benchapp_v_submissions",
        "One row for each POST of a host, without the raw body",
        _columns(
            """
            submission_id = submission.id: Id, created by the sender
            host = host.name: Name of the host
            scope = submission.scope: Scope of its series: pool:NAME or host:NAME
            kind = submission.kind: envelope, fio or reported
            state = submission.state: received, stored or rejected
            body_bytes = submission.body_bytes: Size of the unpacked body, bytes
            received_at = submission.received_at: Server clock
            settled_at = submission.settled_at: When it became stored or rejected, server clock
            reason_code = NULLIF(submission.reason_code, ''): Why it was rejected, as a code
            reason = NULLIF(submission.reason, ''): Why it was rejected, as a sentence
            """
        ),
        "FROM benchapp_submission AS submission JOIN benchapp_host AS host ON host.id = submission.host_id",
    ),
    SqlView(
        "benchapp_v_runs",
        "One row for each run: one execution of fio on one host against one target",
        _columns(
            """
            run_id = run.id: Id, as in addresses
            submission_id = run.submission_id: Submission that it was read from
            host = host.name: Name of the host
            pool = NULLIF(host.pool, ''): Pool of the host now; null for none
            profile = NULLIF(run.profile, ''): Profile
            sweep_id = run.sweep_id: Sweep that it belongs to
            labels = run.labels: Labels, an object of texts
            started_at = run.started_at: Start, host clock
            finished_at = run.finished_at: End, host clock
            fio_version = NULLIF(run.fio_version, ''): Version of fio
            error = run.error: Error code (errno) of fio; 0 on success
            is_partial = run.is_partial: The output ends early
            badges = run.badges: Codes of the badges of all its measurements
            is_excluded = (run.excluded_at IS NOT NULL): It does not count in medians
            excluded_reason = CASE WHEN run.excluded_at IS NOT NULL THEN run.excluded_reason END: Why it is excluded
            """
        )
        + _columns(_LAYOUT, "target.")
        + _columns(_ENVIRONMENT, "environment."),
        "FROM benchapp_run AS run JOIN benchapp_host AS host ON host.id = run.host_id"
        " JOIN benchapp_target AS target ON target.id = run.target_id"
        " JOIN benchapp_environment AS environment ON environment.id = run.environment_id",
    ),
    SqlView(
        "benchapp_v_series",
        "One row for each series with measurements, and the current level of its main metric; benchapp_v_levels has all",
        _columns(
            """
            series_id = series.id: Id, as in addresses
            scope = series.scope: pool:NAME or host:NAME
            host = CASE WHEN series.scope LIKE 'host:%' THEN substr(series.scope, 6) END: Name of the host; null for a pool
            pool = CASE WHEN series.scope LIKE 'pool:%' THEN substr(series.scope, 6) END: Name of the pool; null for a host
            direction = series.direction: read, write, trim, mixed or sync
            measurement_count = series.measurement_count: Number of measurements
            first_at = series.first_at: Start of its first run, host clock
            last_at = series.last_at: Start of its newest run, host clock
            badges = series.badges: Codes of the badges of its newest measurement
            level_metric = level.metric: Main metric, iops or elapsed_s; null if no valid run has a value
            level_median = level.median: Median of the current level, in the base unit of the metric
            level_p10 = level.p10: 10th percentile of the current level
            level_p90 = level.p90: 90th percentile of the current level
            level_n = level.n: Number of runs of the current level
            level_from_at = level.from_at: Start of the first run of the current level, host clock
            previous_level_median = level.previous_median: Median of the level before; null for the first one
            """
        )
        + _columns(_WORKLOAD, "series.")
        + _columns(_LAYOUT, "series."),
        "FROM benchapp_series AS series LEFT JOIN LATERAL (SELECT * FROM benchapp_level AS candidate"
        " WHERE candidate.series_id = series.id AND candidate.is_current AND candidate.metric IN ('iops', 'elapsed_s')"
        " ORDER BY candidate.metric = 'elapsed_s' LIMIT 1) AS level ON TRUE WHERE series.measurement_count > 0",
    ),
    SqlView(
        "benchapp_v_points",
        "One row for each measurement: the metrics of one direction of one workload in one run",
        _columns(
            """
            point_id = measurement.id: Id
            series_id = measurement.series_id: Series that it is a point of
            run_id = measurement.run_id: Run
            host = host.name: Name of the host that measured, also in series of a pool
            started_at = measurement.started_at: Start of the run, host clock
            job_name = measurement.job_name: Name of the job
            error = measurement.error: Error code (errno) of fio; 0 on success
            is_excluded = measurement.is_excluded: A user excluded the run from medians
            is_valid = (measurement.error = 0 AND NOT measurement.is_excluded): Neither failed nor excluded
            badges = ARRAY(SELECT badge->>'code' FROM jsonb_array_elements(measurement.badges) AS badge): Codes of badges
            latency_kind = NULLIF(measurement.latency_kind, ''): Latency of fio that the metrics contain: clat or lat
            """
        )
        + _columns(_METRICS, "measurement.")
        + _columns(
            """
            total_ios: Number of operations
            io_bytes: Transferred bytes
            runtime_s: Runtime, s
            percentiles: Latency percentiles as fio printed them: per cent as text, ns
            """,
            "measurement.",
        ),
        "FROM benchapp_measurement AS measurement JOIN benchapp_run AS run ON run.id = measurement.run_id"
        " JOIN benchapp_host AS host ON host.id = run.host_id",
    ),
    SqlView(
        "benchapp_v_levels",
        "One row for each level: the valid runs of one metric of one series between two changes",
        _columns(
            """
            series_id: Series
            metric: Metric; its name has the unit, iops is operations/s
            is_current: It is the newest level, which represents the series
            from_at: Start of its first run, host clock
            to_at: Start of its last run, host clock
            n: Number of runs
            median: Median, in the base unit of the metric
            p10: 10th percentile
            p90: 90th percentile
            minimum: Minimum
            maximum: Maximum
            last: Value of the last run
            spread = CASE WHEN level.n >= 2 THEN (level.p90 - level.p10) / NULLIF(level.median, 0) END: (p90 - p10) / median, relative
            change_id: Change that begins it; null for the first level
            """,
            "level.",
        ),
        "FROM benchapp_level AS level",
    ),
    SqlView(
        "benchapp_v_changes",
        "One row for each change of one metric in one series, also withdrawn ones",
        _columns(
            """
            change_id = change.id: Id
            series_id = change.series_id: Series
            metric = change.metric: Metric; its name has the unit, iops is operations/s
            started_at = change.started_at: Start of the first run of the new level, host clock
            run_id = change.run_id: First run of the new level
            last_good_run_id = change.last_good_run_id: Last run of the level before
            state = change.state: suspected, provisional, confirmed or withdrawn
            is_regression = change.is_regression: By the better direction of the metric
            before_median = change.before_median: Median before, in the base unit of the metric
            before_n = change.before_n: Number of runs before
            after_median = change.after_median: Median after, in the base unit of the metric
            after_n = change.after_n: Number of runs after
            relative = change.relative: after / before - 1
            relative_low = change.relative_low: Lower bound of its 95 % interval
            relative_high = change.relative_high: Upper bound of its 95 % interval
            confidence = change.confidence: 1 minus the probability that noise alone causes it, 0 to 1
            method = change.method: Detector and its version
            incident_id = change.incident_id: Incident that it belongs to
            found_at = change.found_at: When it was found, server clock
            """
        ),
        "FROM benchapp_change AS change",
    ),
    SqlView(
        "benchapp_v_incidents",
        "One row for each incident; lists of the pages leave out merged ones",
        _columns(
            """
            incident_id = incident.id: Id, as in addresses
            title = incident.title: Title
            scope = incident.scope: pool:NAME or host:NAME; empty for several
            state = incident.state: new, acknowledged or resolved
            verdict = NULLIF(incident.verdict, ''): real, fixed, expected, environment or noise; null for none yet
            severity = incident.severity: high, medium or low
            is_regression = incident.is_regression: False for an improvement
            started_at = incident.started_at: Start of its changes, host clock
            metric = incident.metric: Typical metric: the one that changed in the most series
            relative = incident.relative: Median of its changes: after / before - 1
            change_count = incident.change_count: Number of changes
            link = NULLIF(incident.link, ''): Link to a ticket
            snoozed_until = incident.snoozed_until: No notices until then
            recovered_at = incident.recovered_at: When recovery was detected, server clock
            resolved_at = incident.resolved_at: When it was resolved, server clock
            opened_at = incident.opened_at: When it was opened, server clock
            merged_into = incident.merged_into_id: Incident that has its changes now
            """
        ),
        "FROM benchapp_incident AS incident",
    ),
)


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0036_archive_identity"),
    ]

    operations = [create_views(VIEWS)]
