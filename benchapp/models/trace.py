"""Traces: one quantity over the time of a run, from fio logs."""

from django.db import models

from benchapp.models.run import Run
from benchapp.models.series import DirectionName


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
            # Also serves queries.runs.traces.read_traces: those of one run.
            models.UniqueConstraint(fields=["run", "kind", "direction"], name="trace_is_stored_once"),
        )

    def __str__(self) -> str:
        return f"trace {self.kind} {self.direction} of run {self.run_id}"
