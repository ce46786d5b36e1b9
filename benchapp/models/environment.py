"""Facts that may explain a change but do not define another series."""

from typing import Final

from django.db import models

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
