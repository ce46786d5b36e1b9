"""Runs, their measurements (the metrics of one direction of one workload each), and their traces."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import connection, models
from django.db.models.functions import Upper

from benchapp.catalog.metrics import PERCENTILES, is_latency
from benchapp.models.account import User, name_person
from benchapp.models.host import Host
from benchapp.models.series import DirectionName, Environment, Series, Target
from benchapp.models.submission import Submission

# A run failed, or a direction that it was asked for did no I/O. The same in SQL, of a table `run`.
HAS_NO_VALUE: Final = ~models.Q(error=0) | models.Q(badges__contains=["no-io"])
HAS_NO_VALUE_SQL: Final = "(run.error <> 0 OR run.badges @> ARRAY['no-io']::varchar(30)[])"

SWEEP_CONDITIONS: Final = ("sweep_step", "sweep_steps", "sweep_left_s")
"""Conditions of a run that tell how far its sweep is."""

# How the reason ends for which a run of a branch is excluded.
OF_A_BRANCH: Final = ": the gate compares it, levels leave it out"


def describe_branch(labels: Mapping[str, str]) -> str:
    """Return why a run is in no level: its label `branch` is not main, nor matches MAIN_BRANCHES; empty otherwise."""
    branch = labels.get("branch", "main")
    is_main = any(fnmatchcase(branch, pattern) for pattern in ("", "main", *settings.MAIN_BRANCHES))
    return "" if is_main else f"branch {branch}{OF_A_BRANCH}"


class Run(models.Model):
    """One execution of fio.

    document: its index in the submission's output. error: fio's first errno, or -1 if the run failed without one
    (intake.normalize.failure; command["failure"] has the reason); 0 on success. Its measurements have an error, too.
    started_at: the host's clock; without one, the time of receipt (started_at_is_known false).
    warnings: [{code, where, message}] of the parser. badges: codes of analysis.validity, of all its measurements.
    """

    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="runs")
    document = models.PositiveSmallIntegerField()
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="runs", db_index=False)
    target = models.ForeignKey(Target, on_delete=models.PROTECT, related_name="runs")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="runs")
    profile = models.CharField(max_length=100, blank=True, default="")
    sweep_id = models.UUIDField(null=True, blank=True)
    labels = models.JSONField(default=dict)
    started_at = models.DateTimeField()
    started_at_is_known = models.BooleanField(default=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    format = models.CharField(max_length=10)
    fio_version = models.CharField(max_length=100, blank=True, default="")
    stated = models.JSONField(null=True, blank=True)
    command = models.JSONField(default=dict, help_text="argv, exit status, signal, standard error, job file")
    error = models.IntegerField(default=0)
    is_partial = models.BooleanField(default=False)
    warnings = models.JSONField(default=list)
    badges = ArrayField(models.CharField(max_length=30), default=list, blank=True)
    parser_version = models.PositiveSmallIntegerField()
    excluded_at = models.DateTimeField(
        null=True, blank=True, help_text="excluded from medians; server's clock"
    )
    excluded_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    excluded_reason = models.CharField(max_length=500, blank=True, default="")
    # Annotated by series.read.runs.read_run: the raw output can be downloaded.
    has_body: bool

    class Meta:
        constraints = (models.UniqueConstraint(fields=["submission", "document"], name="run_is_stored_once"),)
        indexes = (
            # series.read.runs.list_runs: newest first.
            models.Index(fields=["-started_at", "-id"], name="run_by_time"),
            # series.read.runs.list_runs of one host; storage.read.hosts: last run of each.
            models.Index(fields=["host", "-started_at", "-id"], name="run_by_host"),
            # series.read.dimension_values: few are excluded.
            models.Index(
                fields=["excluded_at"], name="run_excluded", condition=models.Q(excluded_at__isnull=False)
            ),
            # requests.read.failing: recent runs of each host without a valid value; small, as few fail.
            models.Index(fields=["host", "-started_at"], name="run_failed_by_host", condition=HAS_NO_VALUE),
            # series.read.runs.list_runs of one profile.
            models.Index(
                Upper("profile"),
                models.F("started_at").desc(),
                models.F("id").desc(),
                name="run_by_folded_profile",
            ),
            # series.read.runs.list_runs with a badge.
            GinIndex(fields=["badges"], name="run_by_badge"),
            # models.filtering.match_facts: runs with a label.
            GinIndex(
                OpClass(
                    models.Func("labels", template="(lower(%(expressions)s::text)::jsonb)"),
                    name="jsonb_path_ops",
                ),
                name="run_by_folded_label",
            ),
            # models.filtering.match_facts: the runs of a sweep; small, as most runs belong to none.
            models.Index(
                fields=["sweep_id"], name="run_by_sweep", condition=models.Q(sweep_id__isnull=False)
            ),
        )

    def __str__(self) -> str:
        return f"run {self.pk}"

    @property
    def has_failed(self) -> bool:
        """Return whether the run failed, regardless of its numbers."""
        return self.error != 0

    @property
    def excluded_by_name(self) -> str:
        """Return who excluded it, as the reader sees it; "" for an API token without an owner."""
        return name_person(self.excluded_by)


class LatencyKind(models.TextChoices):
    """Which fio latency the percentiles contain."""

    COMPLETION = "clat", "Completion latency (clat)"
    TOTAL = "lat", "Total latency (lat)"
    NONE = "", "Not measured"


class Measurement(models.Model):
    """One row per direction per run, a metric a column; null is unknown, `missing` has the reason.

    ordinal: counts repetitions of the same workload within one run. started_at: the run's.
    elapsed_s: wall-clock time of a workload that is timed as a whole and has no other metric.
    badges: [{code, sentence, numbers}] of analysis.validity. percentiles: per cent as text → ns, as printed by
    fio; those of too few samples are here, but not in metrics. clones: entries of fio's report merged into it.
    is_excluded: the run is excluded from medians by a user. latency_bins: if fio printed bins, a
    coarser histogram; bucket k spans 2^(k/4) to 2^((k+1)/4) ns.
    """

    series = models.ForeignKey(Series, on_delete=models.PROTECT, related_name="measurements", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="measurements", db_index=False)
    ordinal = models.PositiveSmallIntegerField(default=0)
    position = models.PositiveSmallIntegerField(help_text="order in the run's table")
    job_name = models.CharField(max_length=200, blank=True, default="")
    started_at = models.DateTimeField()
    error = models.IntegerField(default=0)
    iops = models.FloatField(null=True, blank=True)
    bandwidth_bytes_per_s = models.FloatField(null=True, blank=True)
    latency_kind = models.CharField(max_length=4, choices=LatencyKind, blank=True, default="")
    latency_mean_ns = models.FloatField(null=True, blank=True)
    latency_stddev_ns = models.FloatField(null=True, blank=True)
    latency_p50_ns = models.FloatField(null=True, blank=True)
    latency_p95_ns = models.FloatField(null=True, blank=True)
    latency_p99_ns = models.FloatField(null=True, blank=True)
    latency_p99_9_ns = models.FloatField(null=True, blank=True)
    latency_max_ns = models.FloatField(null=True, blank=True)
    elapsed_s = models.FloatField(null=True, blank=True)
    total_ios = models.BigIntegerField(null=True, blank=True)
    io_bytes = models.BigIntegerField(null=True, blank=True)
    runtime_s = models.FloatField(null=True, blank=True)
    clones = models.PositiveIntegerField(default=1)
    percentiles = models.JSONField(default=dict)
    missing = models.JSONField(default=dict)
    badges = models.JSONField(default=list)
    is_excluded = models.BooleanField(default=False, help_text="whether the run has excluded_at")
    latency_bins = ArrayField(
        models.BigIntegerField(), null=True, blank=True, help_text="first bucket, then operations per bucket"
    )

    class Meta:
        constraints = (
            # Also serves series.read.runs.read_run: the measurements of one run.
            models.UniqueConstraint(fields=["run", "series", "ordinal"], name="measurement_is_stored_once"),
        )
        indexes = (
            # series.read.points.read_points: one series over time, keyset on (started_at, id).
            models.Index(fields=["series", "started_at", "id"], name="measurement_by_series"),
        )

    def __str__(self) -> str:
        return f"measurement {self.pk} of series {self.series_id}"

    @property
    def percentile_values(self) -> dict[float, float]:
        """Return per cent → ns, ascending, also those that are too uncertain for a metric."""
        return dict(sorted((float(percent), value) for percent, value in self.percentiles.items()))


# The kinds of the percentiles, and of mean and maximum, in SQL: as `find_kind`.
_PERCENTILES_KIND: Final = "latency_kind"
_MEAN_KIND: Final = "CASE WHEN latency_kind = '' THEN '' WHEN missing ? 'total' THEN 'clat' ELSE 'lat' END"


def find_kind(metric: str, *, latency_kind: str, missing: Container[str]) -> str:
    """Return the kind of a metric in a measurement with these columns: clat, lat; "" for no latency, and if unknown.

    The kind of the percentiles is stored. Mean and maximum are of the total latency wherever fio measured it.
    """
    if not is_latency(metric):
        return ""
    if metric in PERCENTILES or not latency_kind:
        return latency_kind
    return "clat" if "total" in missing else "lat"


def are_same_kind(kind: str, other: str) -> bool:
    """Return whether latencies of two kinds may be compared: unless one is clat and the other lat."""
    return not kind or not other or kind == other


def select_kind(metric: str) -> str:
    """Return the SQL of the kind of a metric in a measurement, as `find_kind`."""
    if not is_latency(metric):
        return "''"
    return _PERCENTILES_KIND if metric in PERCENTILES else f"({_MEAN_KIND})"


# Both kinds of a measurement as one number, for many measurements at once; in SQL.
_KINDS: Final = ("", "clat", "lat")
KIND_CODE: Final = (
    f"((CASE {_PERCENTILES_KIND} WHEN 'clat' THEN 1 WHEN 'lat' THEN 2 ELSE 0 END)"
    f" + (CASE {_MEAN_KIND} WHEN 'clat' THEN 3 WHEN 'lat' THEN 6 ELSE 0 END))"
)


def read_kind_code(metric: str, code: int) -> str:
    """Return the kind of a latency metric in a measurement with this KIND_CODE."""
    return _KINDS[code % 3 if metric in PERCENTILES else code // 3]


class DailyPoint(models.Model):
    """Valid points of a day (UTC) that a retention removed. values: [minimum, median, maximum] by metric.

    Several of a day if its points were removed at several times: medians are not merged. Detection of the series reads
    what is newer.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    n = models.PositiveIntegerField()
    values = models.JSONField()

    class Meta:
        indexes = (
            # charts.read.downsampling; detection.write.histories: the newest of a series.
            models.Index(fields=["series", "day"], name="daily_point_by_series"),
        )

    def __str__(self) -> str:
        return f"{self.n} points of series {self.series_id} on {self.day}"


class TraceKind(models.TextChoices):
    """Kind of the fio log."""

    IOPS = "iops", "IOPS"
    BANDWIDTH = "bw", "Bandwidth"
    SUBMISSION = "slat", "Submission latency (slat)"
    COMPLETION = "clat", "Completion latency (clat)"
    TOTAL = "lat", "Total latency (lat)"


class Trace(models.Model):
    """One kind and direction of a run's logs, all jobs together, in at most 600 equal buckets of time.

    buckets: {at_s, mean, minimum, maximum, count}: lists of one length, in base units (operations/s, bytes/s, ns),
    null in a bucket without entries; at_s is the bucket's end, from the start of the job.
    jobs: number of logs that were summed (IOPS, bandwidth) or pooled (latency).
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="traces", db_index=False)
    kind = models.CharField(max_length=4, choices=TraceKind)
    direction = models.CharField(max_length=5, choices=DirectionName)
    jobs = models.PositiveIntegerField()
    entries = models.PositiveBigIntegerField(help_text="log lines that it was calculated from")
    bucket_s = models.FloatField()
    buckets = models.JSONField()

    class Meta:
        constraints = (
            # Also serves series.read.traces.read_traces: those of one run.
            models.UniqueConstraint(fields=["run", "kind", "direction"], name="trace_is_stored_once"),
        )

    def __str__(self) -> str:
        return f"trace {self.kind} {self.direction} of run {self.run_id}"


# The target that a path of a host lies on: the longest of the names of its series. %s: id of the host, path.
TARGET_OF_PATH: Final = (
    "SELECT series.target_name FROM benchapp_host AS host JOIN benchapp_series AS series"
    " ON series.scope = CASE host.pool WHEN '' THEN 'host:' || host.name ELSE 'pool:' || host.pool END"
    " WHERE host.id = {host_id} AND ({path} = series.target_name"
    "  OR starts_with({path}, rtrim(series.target_name, '/') || '/'))"
    " ORDER BY length(series.target_name) DESC LIMIT 1"
)
_LAST_RECEIPTS: Final = """
SELECT greatest(run.received_at, attempt.received_at)
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::timestamptz[]) WITH ORDINALITY
  AS wanted(host_id, profile, target_name, since_at, place)
LEFT JOIN LATERAL (
  SELECT received_at FROM benchapp_submission AS submission
  JOIN benchapp_run AS run ON run.submission_id = submission.id
  JOIN benchapp_target AS target ON target.id = run.target_id
  WHERE submission.host_id = wanted.host_id AND received_at >= since_at AND run.profile = wanted.profile
   AND (wanted.target_name = '' OR coalesce(target.target_name, wanted.target_name) = wanted.target_name)
  ORDER BY received_at DESC LIMIT 1) AS run ON TRUE
LEFT JOIN LATERAL (
  SELECT max(received_at) AS received_at FROM benchapp_attempt AS attempt
  WHERE attempt.host_id = wanted.host_id AND received_at >= since_at AND attempt.profile = wanted.profile
   AND (wanted.target_name = '' OR attempt.target_name IN ('', wanted.target_name)
    OR starts_with(attempt.target_name, rtrim(wanted.target_name, '/') || '/'))) AS attempt ON TRUE
ORDER BY place
"""


def read_last_receipts(
    wanted: Sequence[tuple[int, str, str, datetime]],
) -> dict[tuple[int, str, str], datetime]:
    """Return when the latest run or attempt of each (host id, profile, directory, since) was received; two queries.

    Of a profile in several directories on different targets of a host, each has its own, and runs on unknown targets
    count for all; otherwise any run of the profile counts. Nothing from before `since` is read.
    """
    if not wanted:
        return {}
    targets = _find_targets([(host_id, profile, place) for host_id, profile, place, _ in wanted])
    rows = [
        (host_id, profile, place, targets.get((host_id, profile, place), ""), since)
        for host_id, profile, place, since in wanted
    ]
    hosts, profiles, _, names, moments = (list(column) for column in zip(*rows, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(_LAST_RECEIPTS, [hosts, profiles, names, moments])
        received = [moment for (moment,) in cursor.fetchall()]
    return {row[:3]: moment for row, moment in zip(rows, received, strict=True) if moment}


def _find_targets(scheduled: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], str]:
    """Return the names of the targets of profiles that are scheduled in several directories, if they differ."""
    counts = Counter((host_id, profile) for host_id, profile, _ in set(scheduled))
    several = sorted({key for key in scheduled if counts[key[:2]] > 1})
    if not several:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT ({TARGET_OF_PATH.format(host_id='wanted.host_id', path='wanted.path')})"  # noqa: S608
            " FROM unnest(%s::bigint[], %s::text[]) WITH ORDINALITY AS wanted(host_id, path, place) ORDER BY place",
            [[host_id for host_id, _, _ in several], [path for _, _, path in several]],
        )
        names = dict(zip(several, (name for (name,) in cursor.fetchall()), strict=True))
    distinct = Counter(key[:2] for key in {(*key[:2], name) for key, name in names.items() if name})
    return {key: name for key, name in names.items() if distinct[key[:2]] == counts[key[:2]]}
