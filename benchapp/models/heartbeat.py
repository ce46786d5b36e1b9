"""Heartbeats: when workers and beat last did something, by PostgreSQL's clock, for all machines."""

from collections.abc import Mapping

from django.db import connection, models


class Pulse(models.TextChoices):
    """What a heartbeat proves.

    worker: a process of a worker executed a task, or a batch of the loop that replaces tasks.
    beat: a task of beat went through the broker and was executed.
    """

    WORKER = "worker", "Worker"
    BEAT = "beat", "Beat"


class HeartbeatQuerySet(models.QuerySet["Heartbeat"]):
    """Queries over heartbeats."""

    def record(self, *pulses: Pulse) -> None:
        """Set heartbeats to now; within a second of the last one nothing is written."""
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO benchapp_heartbeat AS stored (name, seen_at)"
                " SELECT name, clock_timestamp() FROM unnest(%s::text[]) AS name"
                " ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at"
                " WHERE stored.seen_at < excluded.seen_at - interval '1 s'",
                [sorted(pulse.value for pulse in pulses)],
            )

    def read_silences(self) -> Mapping[Pulse, float]:
        """Return seconds since each heartbeat; infinite if there was none."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT name, extract(epoch FROM clock_timestamp() - seen_at)::float8 FROM benchapp_heartbeat"
            )
            seconds = dict(cursor.fetchall())
        return {pulse: seconds.get(pulse.value, float("inf")) for pulse in Pulse}


class Heartbeat(models.Model):
    """The last heartbeat of each kind."""

    name = models.CharField(max_length=8, primary_key=True, choices=Pulse)
    seen_at = models.DateTimeField(help_text="PostgreSQL's clock")

    objects = HeartbeatQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(name__in=Pulse.values), name="heartbeat_name_is_known"),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.seen_at}"
