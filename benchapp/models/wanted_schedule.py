"""Schedules that are edited on the server: of a pool, or of one host."""

from django.db import models

from benchapp.models.account import User, name_person
from benchapp.models.host import Host
from benchapp.models.list_entry import Resource
from benchapp.models.requests import describe_parameters, write_clock, write_interval

WANTED_SCHEDULES_MAXIMUM = 20


class WantedSchedule(Resource):
    """A profile that the hosts of a pool, or one host, shall run at times.

    pool: "" for hosts without a pool, also if host is set. host: overrides the schedule of its pool for this profile.
    parameters: in base units; others have their default. every_s: None if the host shall not run the profile of its
    pool. at_minute: after midnight, local time of the host. splay_s: hosts start within it, each at its own time.
    """

    # What a host that does not run the profile of its pool leaves out.
    of_a_run = ("at_minute", "splay_s", "directory", "parameters")
    given = ("profile", "every_s", *of_a_run)

    pool = models.CharField(max_length=100, blank=True, default="")
    host = models.ForeignKey(
        Host, null=True, blank=True, on_delete=models.CASCADE, related_name="wanted_schedules", db_index=False
    )
    profile = models.CharField(max_length=100)
    parameters = models.JSONField(default=dict, blank=True)
    directory = models.CharField(max_length=4096, blank=True, default="")
    every_s = models.PositiveIntegerField(null=True, blank=True)
    at_minute = models.PositiveSmallIntegerField(default=0)
    splay_s = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(host__isnull=True) | models.Q(pool=""),
                name="wanted_schedule_is_of_a_pool_or_a_host",
            ),
            models.CheckConstraint(
                condition=models.Q(every_s__isnull=False) | models.Q(host__isnull=False),
                name="wanted_schedule_of_a_pool_has_an_interval",
            ),
            models.CheckConstraint(
                condition=models.Q(at_minute__lt=1440), name="wanted_schedule_starts_within_a_day"
            ),
            # Also requests.read.wanted_schedules: of pools.
            models.UniqueConstraint(
                fields=["pool", "profile"],
                condition=models.Q(host__isnull=True),
                name="wanted_schedule_of_a_pool_is_unique",
            ),
            # Also requests.read.wanted_schedules: of hosts.
            models.UniqueConstraint(
                fields=["host", "profile"],
                condition=models.Q(host__isnull=False),
                name="wanted_schedule_of_a_host_is_unique",
            ),
        )

    def __str__(self) -> str:
        return f"wanted schedule of {self.profile} ({self.scope})"

    @property
    def host_name(self) -> str:
        """Return the name of its host; "" of a pool."""
        return self.host.name if self.host else ""

    @property
    def updated_by_name(self) -> str:
        """Return who changed it last; "" if that is not known."""
        return name_person(self.updated_by)

    def describe(self) -> str:
        """Return all given columns but the profile in words, for the history."""
        more = "".join(
            f", {field.verbose_name} {getattr(self, field.name)}"
            for field in self.list_fields()
            if field.name not in ("profile", "every_s", *self.of_a_run)
            and getattr(self, field.name) not in (None, "")
        )
        if self.every_s is None:
            return f"not on this host{more}"
        parameters = describe_parameters(self.parameters)
        splay = f", spread over {self.splay_s // 60} min" if self.splay_s else ""
        return (
            f"every {write_interval(self.every_s)} at {write_clock(self.at_minute)}{splay}, in {self.directory}"
            + (f", {parameters}" if parameters else "")
            + more
        )

    @property
    def scope(self) -> str:
        """Return pool:NAME, pool: for hosts without a pool, or host:NAME."""
        return f"host:{self.host.name}" if self.host else f"pool:{self.pool}"


class ScheduleAdoption(models.Model):
    """What a host reported about schedules from the server.

    is_allowed: [schedule] from_server of its agent. policy: {profiles, directories, per_day, quiet_hours} that it
    allows. version: of the wanted schedule that it handled last, "" before the first. refused: [{profile, reason}] of
    that version. problem: why nothing could be installed, "" without one.
    """

    host = models.OneToOneField(
        Host, on_delete=models.CASCADE, primary_key=True, related_name="schedule_adoption"
    )
    is_allowed = models.BooleanField()
    policy = models.JSONField()
    version = models.CharField(max_length=64, blank=True, default="")
    refused = models.JSONField(default=list, blank=True)
    problem = models.CharField(max_length=1000, blank=True, default="")
    reported_at = models.DateTimeField(help_text="server's clock")

    def __str__(self) -> str:
        return f"schedule adoption of host {self.host_id}"
