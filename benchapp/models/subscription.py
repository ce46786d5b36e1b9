"""Subscriptions and the outbox: one notice per subscription for each incident and transition."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator
from django.db import models

from benchapp.catalog.metrics import CATALOG
from benchapp.models.account import User
from benchapp.models.incident import Incident
from benchapp.models.list_entry import Resource
from benchapp.models.series import Series

# Outcome in the log of a notice dropped because its address is not confirmed; counted by notices.read.subscriptions.
WITHHELD: Final = "not sent: the address was not confirmed within a day"


# Further runs that confirm a suspected regression, and the most that a subscription can ask for.
CONFIRMED_RUNS: Final = 3
FURTHER_RUNS_MAXIMUM: Final = 50


class Channel(models.TextChoices):
    """Delivery channel."""

    EMAIL = "email", "E-mail"
    SLACK = "slack", "Slack-compatible webhook"
    WEBHOOK = "webhook", "Webhook (Standard Webhooks)"
    APPRISE = "apprise", "ntfy, Teams, PagerDuty, … (Apprise URL)"


def hide_secret(channel: str, address: str) -> str:
    """Return an address without secrets: only the host of a webhook, as its path authorizes posting.

    Of other URLs only the scheme: their keys can be in any part.
    """
    if channel == Channel.EMAIL:
        return address
    parts = urlsplit(address)
    place = f"{parts.netloc}/" if parts.scheme in ("http", "https") else ""
    return f"{parts.scheme}://{place}…"


class Subscription(Resource):
    """One address and its notification settings.

    address: an e-mail address, a URL, or an Apprise URL. secret: signs webhooks; shown once. filter: in the filter
    language. further_runs: after the suspicion of a regression until its notice: 0 reports suspected ones, up to 3
    confirmed ones, more certain ones. metrics: of incidents, all if empty. thresholds: as
    `benchapp.catalog.thresholds` writes them. layout_question: query string of Choose a layout whose answer is watched,
    "" for none. is_digest: once a day at digest_hour instead of at once. quiet_from_hour, quiet_to_hour: notices wait
    for the end of these hours (UTC).
    failures: consecutive; at FAILURES_MAXIMUM it is paused with a reason.

    Only of rows of `benchapp.notices.read`: waiting: queued notices; last_at: when the last one was sent,
    None if never. violation_rows: number of violating series by threshold, without zeros. address_state: "confirmed",
    "unconfirmed" or "refused" of an e-mail address, "" of others; confirmation_asked_at: when the newest confirmation
    mail was requested. withheld: notices not sent because the address was not confirmed within a day.
    """

    FAILURES_MAXIMUM = 20
    given = (
        *("channel", "address", "filter", "minimum_severity", "further_runs", "metrics"),
        *("thresholds", "layout_question"),
        *("notify_incidents", "notify_silent_hosts", "is_digest", "digest_hour"),
        *("quiet_from_hour", "quiet_to_hour"),
    )

    waiting: int
    last_at: datetime | None
    violation_rows: Sequence[Mapping[str, Any]]
    address_state: str
    confirmed_at: datetime | None
    confirmation_asked_at: datetime | None
    withheld: int

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="subscriptions")
    channel = models.CharField(max_length=7, choices=Channel)
    address = models.CharField(max_length=500)
    secret = models.CharField(max_length=100, blank=True, default="")
    filter = models.CharField(max_length=2000, blank=True, default="")
    minimum_severity = models.CharField(max_length=6, default="low")
    further_runs = models.PositiveSmallIntegerField(
        default=CONFIRMED_RUNS, validators=[MaxValueValidator(FURTHER_RUNS_MAXIMUM)]
    )
    metrics = ArrayField(models.CharField(max_length=30), default=list, blank=True)
    thresholds = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    layout_question = models.CharField(max_length=2000, blank=True, default="")
    notify_incidents = models.BooleanField(default=True, help_text="also about incidents")
    notify_silent_hosts = models.BooleanField(
        default=True, help_text="also when hosts become silent or failing"
    )
    is_digest = models.BooleanField(default=False)
    digest_hour = models.PositiveSmallIntegerField(default=7)
    quiet_from_hour = models.PositiveSmallIntegerField(null=True, blank=True)
    quiet_to_hour = models.PositiveSmallIntegerField(null=True, blank=True)
    is_active = models.BooleanField(default=True)
    failures = models.PositiveSmallIntegerField(default=0)
    paused_reason = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(channel__in=Channel.values), name="subscription_channel_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.channel} to {self.display_address}"

    @property
    def display_address(self) -> str:
        """Return the address for pages, without a webhook's secret path."""
        return hide_secret(self.channel, self.address)

    @property
    def metric_labels(self) -> str:
        """Return the metrics of incidents in words; "" for all."""
        return ", ".join(CATALOG[name].label for name in self.metrics)

    @property
    def threshold_counts(self) -> list[tuple[str, int]]:
        """Return each threshold with the number of series that violate it."""
        counts = {row["threshold"]: row["series"] for row in self.violation_rows}
        return [(text, counts.get(text, 0)) for text in self.thresholds]

    @property
    def violation_count(self) -> int:
        """Return the number of violations."""
        return sum(row["series"] for row in self.violation_rows)

    @property
    def is_confirmed(self) -> bool:
        """Return whether notices are sent; only e-mail addresses need a confirmation."""
        return self.address_state in ("", "confirmed")


class ThresholdViolation(models.Model):
    """A series that violates a threshold of a subscription now; deleted when it meets the threshold again.

    threshold: its canonical text. since_at: start of the first run of the violation. is_notified: whether its begin was
    reported; a violation that was there before the threshold, or that is expected, is not.
    """

    subscription = models.ForeignKey(
        Subscription, on_delete=models.CASCADE, related_name="violations", db_index=False
    )
    threshold = models.CharField(max_length=60)
    # Its index serves notices.write.thresholds: the violations of evaluated series.
    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="+")
    since_at = models.DateTimeField()
    found_at = models.DateTimeField(help_text="server's clock")
    is_notified = models.BooleanField(default=False)

    class Meta:
        constraints = (
            # Also serves notices.read.violations: the violations of a subscription.
            models.UniqueConstraint(
                fields=["subscription", "threshold", "series"], name="threshold_violation_is_unique"
            ),
        )

    def __str__(self) -> str:
        return f"series {self.series_id} violates {self.threshold}"


class EmailAddress(models.Model):
    """An e-mail address for notices, and whether its holder confirmed it.

    address: in lower case. digest: of the newest link that was sent, until it is used; expires_at: of that link.
    asked_at: when the newest confirmation mail was requested, None if never. Rows outlive their subscriptions:
    one that is deleted and created again needs no second confirmation.
    """

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="email_addresses", db_index=False)
    address = models.CharField(max_length=254)
    digest = models.BinaryField(
        max_length=32, unique=True, null=True, help_text="SHA-256 of the link's secret"
    )
    expires_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            # Also serves notices.write.outbox.claim_next: whether the address of a subscription is confirmed.
            models.UniqueConstraint(fields=["owner", "address"], name="email_address_is_unique"),
        )

    def __str__(self) -> str:
        return f"{self.address} ({'confirmed' if self.confirmed_at else 'not confirmed'})"


class RefusedAddress(models.Model):
    """An e-mail address, in lower case, whose holder declined further confirmation mails."""

    address = models.CharField(max_length=254, primary_key=True)
    refused_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.address} (refused)"


class NoticeState(models.TextChoices):
    """State of a notice."""

    WAITING = "waiting", "Waiting"
    SENT = "sent", "Sent"
    FAILED = "failed", "Failed"
    DROPPED = "dropped", "Not sent"


class Notice(models.Model):
    """One message to one subscription. key: its event ("incident 12 opened"), sent once.

    body: the message, rendered when the notice was created; {reported_in: key of the notice} for a host whose silence
    is reported in another notice. not_before_at: quiet hours, digest, or the next attempt.
    log: [{at, outcome}], the last ten attempts.
    """

    subscription = models.ForeignKey(
        Subscription, on_delete=models.CASCADE, related_name="notices", db_index=False
    )
    incident = models.ForeignKey(Incident, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    body = models.JSONField(default=dict)
    state = models.CharField(max_length=7, choices=NoticeState, default=NoticeState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    not_before_at = models.DateTimeField()
    created_at = models.DateTimeField(help_text="server's clock")
    settled_at = models.DateTimeField(null=True, blank=True)
    log = models.JSONField(default=list)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["subscription", "key"], name="notice_is_unique"),
            models.CheckConstraint(
                condition=models.Q(state__in=NoticeState.values), name="notice_state_is_known"
            ),
        )
        indexes = (
            # notices.write.outbox.claim_next: small, without settled rows.
            models.Index(
                fields=["not_before_at"], name="notice_waiting", condition=models.Q(state=NoticeState.WAITING)
            ),
            # notices.write.outbox.forget_old_notices: settled longest ago.
            models.Index(
                fields=["settled_at"],
                name="notice_settled",
                condition=models.Q(settled_at__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"notice {self.pk} ({self.state}): {self.key}"

    @property
    def subject(self) -> str:
        """Return the subject of its message."""
        return str(self.body.get("subject", self.key))

    @property
    def attempt_log(self) -> list[tuple[datetime, str]]:
        """Return the last ten attempts, oldest first; the outcome is "" while one runs, or if its sender was killed."""
        return [(datetime.fromisoformat(each["at"]), each.get("outcome", "")) for each in self.log]


class StoredLayoutAnswer(models.Model):
    """The answer to the question of a subscription that was reported last, or the first one.

    answer, pending: analysis.layouts.answers.RememberedAnswer as JSON; pending: another one that was found once.
    problem: why the question has no answer today, "" if it has. changed_at: when the answer changed last.
    """

    subscription = models.OneToOneField(
        Subscription, on_delete=models.CASCADE, primary_key=True, related_name="layout_answer"
    )
    answer = models.JSONField(null=True)
    pending = models.JSONField(null=True)
    problem = models.CharField(max_length=300, blank=True, default="")
    evaluated_at = models.DateTimeField(help_text="server's clock")
    changed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"layout answer of subscription {self.subscription_id}"

    @property
    def pending_sentence(self) -> str:
        """Return the sentence of another answer that was found once; "" without one."""
        return "" if self.pending is None else str(self.pending["sentence"])
