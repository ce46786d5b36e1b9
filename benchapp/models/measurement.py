"""Measurements: the metrics of one direction of one workload in one run, a point of its series."""

from collections.abc import Container
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models

from benchapp.catalog.metrics import CATALOG, PERCENTILES, is_latency
from benchapp.models.run import Run
from benchapp.models.series import Series


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
            # Also serves queries.runs.run_detail.read_run: the measurements of one run.
            models.UniqueConstraint(fields=["run", "series", "ordinal"], name="measurement_is_stored_once"),
        )
        indexes = (
            # queries.series.points.read_points: one series over time, keyset on (started_at, id).
            models.Index(fields=["series", "started_at", "id"], name="measurement_by_series"),
        )

    def __str__(self) -> str:
        return f"measurement {self.pk} of series {self.series_id}"

    @property
    def percentile_values(self) -> dict[float, float]:
        """Return per cent → ns, ascending, also those that are too uncertain for a metric."""
        return dict(sorted((float(percent), value) for percent, value in self.percentiles.items()))


METRIC_FIELDS: tuple[str, ...] = tuple(CATALOG)

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
