"""Series: measurements that can be compared."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Upper

from benchapp.models.host import Host
from benchapp.models.target import Target, TargetFields
from benchapp.models.workload import Workload, WorkloadFields


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
    target = models.ForeignKey(Target, on_delete=models.PROTECT)
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT)
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
            # queries.series.series.list_series: newest measurement first, and of one scope.
            models.Index(fields=["-last_at", "-id"], name="series_by_time"),
            models.Index(fields=["scope", "-last_at", "-id"], name="series_by_scope"),
            # models.filtering.match_series: those of a pool, whose name matches without case.
            models.Index(Upper("scope"), name="series_by_folded_scope"),
            # pipeline.detection.histories.claim_due: small, without evaluated rows.
            models.Index(fields=["id"], name="series_to_judge", condition=models.Q(judging_is_due=True)),
        )

    def __str__(self) -> str:
        return f"series {self.pk} ({self.scope} {self.rw} {self.direction})"
