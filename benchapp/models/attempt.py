"""Runs that could not start or were skipped, as the agents of their hosts reported them."""

from django.db import models

from benchapp.models.host import Host


class Attempt(models.Model):
    """A run without a result. sender_id: created by the agent, the same on every retry; times by the host's clock."""

    sender_id = models.UUIDField(unique=True)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="+", db_index=False)
    profile = models.CharField(max_length=100, blank=True)
    target_name = models.CharField(max_length=200, blank=True, help_text="directory or device")
    started_at = models.DateTimeField()
    reason_code = models.CharField(max_length=50)
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        indexes = (
            # Attempts of a host, newest first.
            models.Index(fields=["host", "-started_at", "-id"], name="attempts_of_a_host"),
        )

    def __str__(self) -> str:
        return f"attempt of {self.profile} at {self.started_at}: {self.reason_code}"
