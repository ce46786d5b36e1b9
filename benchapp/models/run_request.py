"""Requests of runs, and what each host allows."""

from django.db import models

from benchapp.models.account import User
from benchapp.models.change import Change
from benchapp.models.host import Host
from benchapp.models.incident import Incident
from benchapp.models.measurement import Run
from benchapp.models.series import Series


class RunRequestState(models.TextChoices):
    """State of a request."""

    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    DECLINED = "declined", "Declined by the host"
    EXPIRED = "expired", "Expired"
    CANCELED = "canceled", "Canceled"


OPEN_REQUEST_STATES = (RunRequestState.PENDING, RunRequestState.RUNNING)


class RunRequest(models.Model):
    """One requested run of one host.

    id: also that of the submission of its result, so that a repeated delivery is stored once.
    parameters: of the profile, in base units; others have their default. reason: why it waits, failed or was declined.
    repeats: the run that it repeats; series, incident: where it was requested. change: that it is to confirm, of an
    automatic request. starts: reported by the agent; a request whose agent was killed is offered again.
    started_at, duration_s: of the newest start; the duration is the profile's.
    """

    id = models.UUIDField(primary_key=True)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="run_requests", db_index=False)
    profile = models.CharField(max_length=100)
    parameters = models.JSONField(default=dict)
    directory = models.CharField(max_length=4096)
    state = models.CharField(max_length=8, choices=RunRequestState, default=RunRequestState.PENDING)
    reason = models.CharField(max_length=1000, blank=True, default="")
    repeats = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    series = models.ForeignKey(Series, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    incident = models.ForeignKey(Incident, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    change = models.ForeignKey(Change, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    via = models.CharField(max_length=60, blank=True, default="")
    created_at = models.DateTimeField(help_text="server's clock")
    expires_at = models.DateTimeField()
    starts = models.PositiveSmallIntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True, help_text="server's clock")
    duration_s = models.FloatField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=RunRequestState.values), name="run_request_state_is_known"
            ),
        )
        indexes = (
            # requests.read.run_requests.page_run_requests: of a host, newest first.
            models.Index(fields=["host", "-created_at", "-id"], name="run_request_by_host"),
            # requests.write: offers, expiry; small, without settled rows.
            models.Index(
                fields=["host", "created_at"],
                name="run_request_open",
                condition=models.Q(state__in=OPEN_REQUEST_STATES),
            ),
        )

    def __str__(self) -> str:
        return f"request {self.pk} of {self.profile} ({self.state})"


class RequestPolicy(models.Model):
    """What a host allows, as its agent reported it at its newest poll.

    policy: {profiles, directories, per_day, quiet_hours}. waits_for: "quota" or "quiet-hours" while the host starts
    nothing, until waits_until; else "".
    """

    host = models.OneToOneField(
        Host, on_delete=models.CASCADE, primary_key=True, related_name="request_policy"
    )
    policy = models.JSONField()
    polled_at = models.DateTimeField(help_text="server's clock")
    waits_for = models.CharField(max_length=20, blank=True, default="")
    waits_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "request policies"

    def __str__(self) -> str:
        return f"request policy of host {self.host_id}"


CONFIRMATION_RUNS_MAXIMUM = 3
# More would be another schedule rather than a confirmation.
DAILY_SHARE_MAXIMUM = 0.25
DAILY_SHARE_DEFAULT = 0.05


class ConfirmationPolicy(models.Model):
    """Additional runs of the hosts of a pool that confirm a suspected or provisional regression, or dismiss it.

    pool: "" for hosts without a pool. runs: at most, for each change. daily_share: of 24 hours that the additional runs
    of one host may take, 0.05 is 72 minutes.
    """

    pool = models.CharField(max_length=100, blank=True, unique=True)
    runs = models.PositiveSmallIntegerField(default=CONFIRMATION_RUNS_MAXIMUM)
    daily_share = models.FloatField(default=DAILY_SHARE_DEFAULT)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "confirmation policies"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(runs__gte=1, runs__lte=CONFIRMATION_RUNS_MAXIMUM),
                name="confirmation_runs_are_in_range",
            ),
            models.CheckConstraint(
                condition=models.Q(daily_share__gt=0, daily_share__lte=DAILY_SHARE_MAXIMUM),
                name="confirmation_share_is_in_range",
            ),
        )

    def __str__(self) -> str:
        return f"confirmation of {self.pool or 'hosts without a pool'}: {self.runs} runs"
