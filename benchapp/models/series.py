"""Series, and what identifies them: target, workload, host or pool; the environments of their runs."""

from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Upper

from benchapp.models.host import Host


class TargetFields(models.Model):
    """The layout as typed columns; null is unknown. Unknown values are equal in the identity of a series.

    name: distinguishes equal layouts on one host (mount point, volume label).
    """

    target_name = models.CharField(max_length=200, null=True, blank=True)
    volume_type = models.CharField(max_length=100, null=True, blank=True)
    volume_size_bytes = models.BigIntegerField(null=True, blank=True)
    volume_count = models.PositiveIntegerField(null=True, blank=True)
    provisioned_iops = models.PositiveIntegerField(null=True, blank=True)
    raid_level = models.CharField(max_length=20, null=True, blank=True)
    stripe_count = models.PositiveIntegerField(null=True, blank=True)
    chunk_size_bytes = models.BigIntegerField(null=True, blank=True)
    filesystem = models.CharField(max_length=50, null=True, blank=True)
    mount_options = models.CharField(max_length=1000, null=True, blank=True)
    instance_type = models.CharField(max_length=100, null=True, blank=True)

    class Meta:
        abstract = True


class Target(TargetFields):
    """One layout, shared by all hosts that have it."""

    key = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the canonical layout")

    def __str__(self) -> str:
        return f"target {self.pk}"


TARGET_FIELDS: tuple[str, ...] = tuple(field.name for field in TargetFields._meta.local_fields)
# All but its name, which is that of a disk or directory of one host.
LAYOUT_FIELDS: tuple[str, ...] = tuple(name for name in TARGET_FIELDS if name != "target_name")


class WorkloadFields(models.Model):
    """The workload as typed columns; null is unknown, or not a single number, which the text has.

    read_share_percent: 100 for reads, 0 for writes and trims.
    options: further options that change what is measured (sync, fsync, rate…), canonical.
    """

    rw = models.CharField(max_length=20)
    block_size_bytes = models.BigIntegerField(null=True, blank=True)
    block_size_text = models.CharField(max_length=200, blank=True, default="")
    iodepth = models.PositiveIntegerField(null=True, blank=True)
    numjobs = models.PositiveIntegerField(null=True, blank=True)
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


class DirectionName(models.TextChoices):
    """The I/O direction of a measurement."""

    READ = "read", "Read"
    WRITE = "write", "Write"
    TRIM = "trim", "Trim"
    MIXED = "mixed", "Mixed"
    SYNC = "sync", "Sync"


class Series(TargetFields, WorkloadFields):
    """Pool or host + target + workload + direction.

    Layout and workload are typed columns here, so that charts over them are one query over series.
    measurement_count, first_at, last_at, badges (codes of its newest measurement): updated in the transaction that
    writes measurements. former_targets: keys of targets, in hexadecimal, under which it began: results that are read
    again, or sent by an older agent, still join it.
    """

    key = models.BinaryField(max_length=32, unique=True)
    key_version = models.PositiveSmallIntegerField()
    scope = models.CharField(max_length=260, help_text="pool:NAME or host:NAME")
    host = models.ForeignKey(
        Host, null=True, blank=True, on_delete=models.PROTECT, help_text="null for a pool's series"
    )
    target = models.ForeignKey(Target, on_delete=models.PROTECT, db_index=False)
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, db_index=False)
    direction = models.CharField(max_length=5, choices=DirectionName)
    measurement_count = models.PositiveIntegerField(default=0)
    first_at = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField(null=True, blank=True)
    badges = ArrayField(models.CharField(max_length=30), default=list, blank=True)
    judging_is_due = models.BooleanField(default=False, help_text="measurements changed since detection")
    is_reread = models.BooleanField(default=False, help_text="due because history was read again: no news")
    former_targets = ArrayField(models.CharField(max_length=64), default=list, blank=True)

    class Meta:
        verbose_name_plural = "series"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(direction__in=DirectionName.values), name="series_direction_is_known"
            ),
        )
        indexes = (
            # series.read.series.list_series: newest measurement first, and of one scope.
            models.Index(fields=["-last_at", "-id"], name="series_by_time"),
            models.Index(fields=["scope", "-last_at", "-id"], name="series_by_scope"),
            # storage.read.patterns: peers; also serves the foreign key to targets.
            models.Index(fields=["target", "workload"], name="series_by_layout"),
            # detection.write.rows: the first ones of a workload; also serves the foreign key to workloads.
            models.Index(fields=["workload", "id"], name="series_by_workload"),
            # models.filtering.match_series: those of a pool, whose name matches without case.
            models.Index(Upper("scope"), name="series_by_folded_scope"),
            # detection.write.histories.claim_due: small, without evaluated rows.
            models.Index(fields=["id"], name="series_to_judge", condition=models.Q(judging_is_due=True)),
        )

    def __str__(self) -> str:
        return f"series {self.pk} ({self.scope} {self.rw} {self.direction})"


# Older agents do not report them: unknown on one side is no change.
RECENTLY_REPORTED: Final = frozenset({"agent_version", "device_class", "device_driver", "time_zone"})


class Environment(models.Model):
    """Kernel, fio version, device, machine and agent during a run; null is unknown."""

    key = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the canonical environment")
    kernel = models.CharField(max_length=200, null=True, blank=True)
    os = models.CharField(max_length=200, null=True, blank=True)
    fio_version = models.CharField(max_length=100, null=True, blank=True)
    cpu_model = models.CharField(max_length=200, null=True, blank=True)
    cpu_count = models.PositiveIntegerField(null=True, blank=True)
    memory_bytes = models.BigIntegerField(null=True, blank=True)
    scheduler = models.CharField(max_length=50, null=True, blank=True)
    device_model = models.CharField(max_length=200, null=True, blank=True)
    device_firmware = models.CharField(max_length=100, null=True, blank=True)
    device_driver = models.CharField(max_length=100, null=True, blank=True)
    device_class = models.CharField(max_length=20, null=True, blank=True)
    governor = models.CharField(max_length=50, null=True, blank=True)
    virtualization = models.CharField(max_length=50, null=True, blank=True)
    agent_version = models.CharField(max_length=50, null=True, blank=True)
    facts = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"environment {self.pk}"


ENVIRONMENT_FIELDS: tuple[str, ...] = tuple(
    field.name for field in Environment._meta.local_fields if field.name not in ("id", "key")
)


class SeriesEnvironment(models.Model):
    """An environment in which a series was measured.

    first_at, last_at: start of its first and of its last run there, valid or not. Updated in the transaction that
    writes measurements, by `intake.normalize.series_environments`. The environment of the newest run of a series is
    that whose last_at is the last_at of the series.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="environments", db_index=False)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+", db_index=False)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = (
            # Also serves models.filtering.match_series: the environments of one series.
            models.UniqueConstraint(fields=["series", "environment"], name="series_environment_is_unique"),
        )
        indexes = (
            # models.filtering.match_series: the series of a few environments.
            models.Index(fields=["environment", "series"], name="series_by_environment"),
            # overview.read.page: what began last.
            models.Index(fields=["-first_at"], name="series_environment_by_time"),
        )

    def __str__(self) -> str:
        return f"environment {self.environment_id} of series {self.series_id}"
