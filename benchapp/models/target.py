"""The storage under test, described by its layout."""

from django.db import models


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
