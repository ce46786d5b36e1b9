"""Incidents: related changes, their triage and events."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Self
from urllib.parse import urlsplit

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.utils import timezone

from benchapp.models.account import User, name_person
from benchapp.models.limits import read_limit

LINK_LABEL_MAXIMUM: Final = 60


class IncidentState(models.TextChoices):
    """State of an incident."""

    NEW = "new", "New"
    ACKNOWLEDGED = "acknowledged", "Acknowledged"
    RESOLVED = "resolved", "Resolved"


UNRESOLVED: Final = (IncidentState.NEW, IncidentState.ACKNOWLEDGED)
"""The states in which an incident can be triaged. It may have recovered: `Incident.is_open` says what counts."""


class Verdict(models.TextChoices):
    """A person's assessment of an incident."""

    NONE = "", "None yet"
    REAL = "real", "Real"
    FIXED = "fixed", "Fixed"
    EXPECTED = "expected", "Expected"
    ENVIRONMENT = "environment", "Environment"
    NOISE = "noise", "Noise"


class Course(models.TextChoices):
    """How an incident goes on while it is unresolved."""

    SUSPECTED = "suspected", "Suspected: not confirmed by further runs"
    LASTING = "lasting", "Lasting: confirmed by further runs"
    INTERMITTENT = "intermittent", "Comes and goes"


class Phase(models.TextChoices):
    """What notices state of an incident. A notice is one change of it."""

    SUSPECTED = "suspected", "Suspected"
    WORSE = "worse", "Worse"
    INTERMITTENT = "intermittent", "Comes and goes"
    OVER = "over", "Over"


class Severity(models.TextChoices):
    """How serious an incident is, from size, breadth and confidence."""

    HIGH = "high", "High"
    MEDIUM = "medium", "Medium"
    LOW = "low", "Low"


# Of a suspect: about hosts that the incident does not have.
_ELSEWHERE: Final = frozenset({"hosts_regressed", "hosts_unaffected", "unaffected_hosts"})


# At the end of a title: how many peers changed as well (incidents.write.common_factors); it may be cut anywhere.
_PEERS: Final = re.compile(r", (only this (host|pool)\b.*|[^a-z]+ of [^a-z]+( p.*)?)\Z", re.DOTALL)
ELSEWHERE: Final = "; same change on other hosts: "


def hide_peers(title: str) -> str:
    """Return a title; for a limited reader without the counts of hosts and pools that are hidden."""
    return title if read_limit() is None else _PEERS.sub("", title)


def _keep_own(suspect: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in suspect.items() if name not in _ELSEWHERE}
    return {**own, "text": str(own.get("text", "")).partition(ELSEWHERE)[0]}


class Incident(models.Model):
    """Changes that belong together: same time, and same host, pool or dimension value.

    scope: pool:NAME or host:NAME of its changes; "" for several. started_at: of its first change.
    has_manual_severity: an editor set the severity; later changes do not alter it.
    is_regression: false for improvements, which send no notices.
    metric: the typical one, in which the most series changed; relative: the median of its changes.
    metric_sizes: [{metric, series, relative, low, high, interval}], the typical metric first: number of series, median,
    lowest and highest change, 95 % interval of the median. Both are empty until the first evaluation.
    pooled_levels: changes of pooled levels, [{scope, dimension, value, metric, series, changed, relative, text}]: how
    many series were compared, how many of them changed in the direction, and the median change of all of them.
    common_factors: common factors, [{dimension, value, share, text}], strongest first.
    suspects: [{name, before, after, share, coincides_with, changes, hosts_regressed, hosts_unaffected,
    unaffected_hosts, is_near, text}], most likely cause first; hosts_* count other hosts with the same environment
    change; is_near: it coincides within a run.
    link: a ticket, an http or https URL; link_label: its short name, "" for one taken from the URL.
    recovered_at: of the first run that is back at the level before, or when its last change was withdrawn; its event
    has when that was found. course: how it goes on, from which `phase` follows.
    is_open: neither resolved, recovered nor merged, calculated by PostgreSQL: every count, mark and list of open
    incidents uses it. snoozed_until: no notices until then.
    planned_event: the expected change that muted it when it was opened.
    merged_into: the incident that has its changes now; lists omit merged incidents. uid: identity in archives.
    """

    uid = models.UUIDField(db_default=RandomUUID(), unique=True, editable=False)
    scope = models.CharField(max_length=260, blank=True, default="")
    title = models.CharField(max_length=300)
    state = models.CharField(max_length=12, choices=IncidentState, default=IncidentState.NEW)
    verdict = models.CharField(max_length=11, choices=Verdict, blank=True, default=Verdict.NONE)
    severity = models.CharField(max_length=6, choices=Severity)
    has_manual_severity = models.BooleanField(default=False)
    course = models.CharField(max_length=12, choices=Course, default=Course.SUSPECTED)
    is_regression = models.BooleanField(default=True)
    started_at = models.DateTimeField()
    metric = models.CharField(max_length=30, blank=True, default="")
    relative = models.FloatField()
    metric_sizes = models.JSONField(default=list)
    pooled_levels = models.JSONField(default=list)
    change_count = models.PositiveIntegerField(default=0)
    common_factors = models.JSONField(default=list)
    suspects = models.JSONField(default=list)
    assignee = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    link = models.URLField(max_length=500, blank=True, default="")
    link_label = models.CharField(max_length=LINK_LABEL_MAXIMUM, blank=True, default="")
    snoozed_until = models.DateTimeField(null=True, blank=True)
    recovered_at = models.DateTimeField(null=True, blank=True)
    merged_into = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    planned_event = models.ForeignKey(
        "PlannedEvent", null=True, blank=True, on_delete=models.SET_NULL, related_name="muted_incidents"
    )
    opened_at = models.DateTimeField(help_text="server's clock")
    updated_at = models.DateTimeField(help_text="server's clock")
    resolved_at = models.DateTimeField(null=True, blank=True)
    is_open = models.GeneratedField(
        # The stubs do not know that a condition is an expression.
        expression=models.Q(state__in=UNRESOLVED, recovered_at=None, merged_into=None),  # type: ignore[arg-type]
        output_field=models.BooleanField(),
        db_persist=True,
    )

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=IncidentState.values), name="incident_state_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(severity__in=Severity.values), name="incident_severity_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(verdict__in=Verdict.values), name="incident_verdict_is_known"
            ),
        )
        indexes = (
            # incidents.read.incidents.list_incidents: newest first, by state.
            models.Index(fields=["state", "-started_at", "-id"], name="incident_by_state"),
            # incidents.write.grouping: open ones of a scope.
            models.Index(fields=["scope", "-started_at"], name="incident_by_scope"),
        )

    # Of incidents that `benchapp.incidents.read.incidents` has read; series_count: without withdrawn changes.
    assignee_name: str
    series_count: int

    def __str__(self) -> str:
        return f"incident {self.pk} ({self.state}): {self.title}"

    @classmethod
    def from_db(
        cls, db: str | None, field_names: Collection[str], values: Collection[Any], **more: Any
    ) -> Self:
        """Return an incident; a limited reader does not see what suspects and factors say about other hosts."""
        row = super().from_db(db, field_names, values, **more)
        if read_limit() is None:
            return row
        if "title" in row.__dict__:
            row.title = hide_peers(row.title)
        if "common_factors" in row.__dict__:
            row.common_factors = [
                one for one in row.common_factors if one["dimension"] not in ("host", "pool")
            ]
        if "suspects" in row.__dict__:
            row.suspects = [_keep_own(suspect) for suspect in row.suspects]
        return row

    def list_sizes(self) -> list[dict[str, Any]]:
        """Return `metric_sizes` as programs get them: ranges over series and intervals have different names."""
        return [
            {
                **{name: size[name] for name in ("metric", "series", "relative")},
                "range_low": size["low"],
                "range_high": size["high"],
                **dict(
                    zip(("interval_low", "interval_high"), size.get("interval") or (None, None), strict=True)
                ),
            }
            for size in self.metric_sizes
        ]

    @property
    def phase(self) -> Phase:
        """Return what notices state of it."""
        is_unresolved = self.state in UNRESOLVED and self.merged_into_id is None
        if is_unresolved and self.course == Course.INTERMITTENT:
            return Phase.INTERMITTENT
        if not is_unresolved or self.recovered_at is not None:
            return Phase.OVER
        return Phase.WORSE if self.course == Course.LASTING else Phase.SUSPECTED

    @property
    def is_muted(self) -> bool:
        """Return whether an expected change resolved it, without notifications, and nobody reopened it since."""
        return self.planned_event_id is not None

    @property
    def is_snoozed(self) -> bool:
        """Return whether notifications are snoozed now."""
        return self.snoozed_until is not None and self.snoozed_until > timezone.now()

    @property
    def link_title(self) -> str:
        """Return the label of the link, as `label_link`."""
        return label_link(self.link, self.link_label)


def label_link(link: str, label: str) -> str:
    """Return the label of a link: the stored one, else the last part of its path, else its host; "" without a link."""
    if not link or label:
        return label if link else ""
    parts = urlsplit(link)
    last = parts.path.rstrip("/").rpartition("/")[2] or parts.netloc
    return (f"{last}?{parts.query}" if parts.query else last)[:LINK_LABEL_MAXIMUM]


class IncidentEvent(models.Model):
    """One event of an incident: its activity, its audit trail, and the earlier values for undo.

    kind: opened, grew, confirmed, withdrawn, recovered, reopened, intermittent, acknowledged, resolved, assigned,
    commented, linked, rated, snoozed, merged, split, moved, accepted, undone. by: null for automatic events.
    before: earlier values, for undo.
    """

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="events", db_index=False)
    at = models.DateTimeField(help_text="server's clock")
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    kind = models.CharField(max_length=20)
    text = models.TextField(blank=True, default="", max_length=5000)
    before = models.JSONField(default=dict)
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = (
            # incidents.read.incidents.read_incident: its timeline.
            models.Index(fields=["incident", "at", "id"], name="incident_event_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.kind} of incident {self.incident_id}"

    @property
    def by_name(self) -> str:
        """Return who did it, as the reader sees it; "" for automatic events."""
        return name_person(self.by)

    @property
    def shown_text(self) -> str:
        """Return the text as the reader sees it: of an assignment, the person (incidents.actions.triage.assign)."""
        if self.kind == "assigned" and self.text.startswith("to "):
            return f"to {name_person(self.text.removeprefix('to '))}"
        return self.text
