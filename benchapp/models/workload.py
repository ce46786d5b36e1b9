"""Workloads."""

from django.db import models


class WorkloadFields(models.Model):
    """The workload as typed columns; null is unknown, or not a single number, which the text has.

    read_share_percent: 100 for reads, 0 for writes and trims.
    options: further options that change what is measured (sync, fsync, rate…), canonical.
    """

    rw = models.CharField(max_length=20)
    block_size_bytes = models.BigIntegerField(null=True, blank=True)
    block_size_text = models.CharField(max_length=200, blank=True, default="")
    iodepth = models.PositiveIntegerField(null=True, blank=True)
    numjobs = models.PositiveIntegerField()
    file_size_bytes = models.BigIntegerField(null=True, blank=True)
    file_size_text = models.CharField(max_length=100, blank=True, default="")
    is_direct = models.BooleanField(null=True, blank=True)
    engine = models.CharField(max_length=50, blank=True, default="")
    read_share_percent = models.PositiveSmallIntegerField(null=True, blank=True)
    runtime_s = models.FloatField(null=True, blank=True)
    options = models.JSONField(default=dict)

    class Meta:
        abstract = True


class Workload(WorkloadFields):
    """One workload, shared by all runs that have it."""

    key = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the canonical workload")

    def __str__(self) -> str:
        return f"workload {self.pk} ({self.rw})"


WORKLOAD_FIELDS: tuple[str, ...] = tuple(field.name for field in WorkloadFields._meta.local_fields)
