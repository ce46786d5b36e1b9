"""Changes, levels, detection status of metrics, and when pooled levels were evaluated."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, OuterRef, Q

from benchapp.models.incident import Incident
from benchapp.models.measurement import LatencyKind, Run
from benchapp.models.series import Series


class ChangeState(models.TextChoices):
    """State of a change. A change that later runs do not confirm is withdrawn, not deleted."""

    SUSPECTED = "suspected", "Suspected: one or two runs"
    PROVISIONAL = "provisional", "Provisional: three runs or more"
    CONFIRMED = "confirmed", "Confirmed: still detected five runs later"
    WITHDRAWN = "withdrawn", "Withdrawn: not confirmed by later runs"


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of a drift: its first run, its last one or the newest run, and the relative change a day.

    per_day: at a constant rate; None if unknown, as between values of 0.
    """

    from_at: datetime
    to_at: datetime
    per_day: float | None
    continues: bool


def read_slope(evidence: Mapping[str, Any]) -> Slope | None:
    """Return the slope of a change from its evidence; None if it is not a drift."""
    if not evidence.get("slope_from"):
        return None
    from_at, to_at = (datetime.fromisoformat(evidence[f"slope_{end}"]) for end in ("from", "to"))
    return Slope(from_at, to_at, evidence.get("slope_per_day"), bool(evidence.get("continues")))


# Any version of `analysis.detection.baselines.DRIFT_METHOD`.
_IS_DRIFT: Final = Q(method__startswith="drift-")
# The same as `ChangeQuerySet.stated`, for the table `change` of a query.
STATED_CHANGE: Final = (
    "change.state <> 'withdrawn' AND (change.method LIKE 'drift-%%' OR NOT EXISTS (SELECT FROM benchapp_change AS drift"
    " WHERE drift.series_id = change.series_id AND drift.metric = change.metric"
    " AND drift.incident_id = change.incident_id AND drift.method LIKE 'drift-%%' AND drift.state <> 'withdrawn'))"
)


class ChangeQuerySet(models.QuerySet["Change"]):
    """Changes."""

    def stated(self) -> Self:
        """Return the changes that are not withdrawn, one mark of each series and metric in an incident."""
        return self.exclude(state=ChangeState.WITHDRAWN).without_steps_of_drifts()

    def without_steps_of_drifts(self) -> Self:
        """Omit steps where a drift of the series and metric is in the same incident: its slope explains them."""
        drifts = Change.objects.filter(
            _IS_DRIFT,
            series=OuterRef("series"),
            metric=OuterRef("metric"),
            incident=OuterRef("incident"),
        ).exclude(state=ChangeState.WITHDRAWN)
        return self.filter(_IS_DRIFT | ~Exists(drifts))


class Change(models.Model):
    """One change. Values in the metric's base unit.

    run: the first run of the new level, or of a drift (null once it is deleted); started_at: when that run started.
    after_*: of a drift, the newest level.
    before_*, after_*: the levels on both sides; spreads are robust standard deviations.
    relative: after / before - 1, with its 95 % interval (low, high; null if unknown).
    confidence: 0 to 1. method: name and version of the detector. is_regression: by the metric's better direction.
    evidence: the runs that were compared, the scores of the tests, and earlier states.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="changes", db_index=False)
    metric = models.CharField(max_length=30)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    started_at = models.DateTimeField()
    last_good_run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    state = models.CharField(max_length=11, choices=ChangeState)
    is_regression = models.BooleanField()
    before_median = models.FloatField()
    before_n = models.PositiveIntegerField()
    before_spread = models.FloatField()
    after_median = models.FloatField()
    after_n = models.PositiveIntegerField()
    after_spread = models.FloatField()
    relative = models.FloatField()
    relative_low = models.FloatField(null=True, blank=True)
    relative_high = models.FloatField(null=True, blank=True)
    confidence = models.FloatField()
    method = models.CharField(max_length=50)
    evidence = models.JSONField(default=dict)
    incident = models.ForeignKey(
        Incident, null=True, blank=True, on_delete=models.SET_NULL, related_name="changes"
    )
    found_at = models.DateTimeField(help_text="server's clock")
    updated_at = models.DateTimeField(help_text="server's clock")
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = ChangeQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=ChangeState.values), name="change_state_is_known"
            ),
            # Concurrent evaluations of a series cannot store the same change twice.
            models.UniqueConstraint(
                fields=["series", "metric", "started_at"],
                condition=~models.Q(state=ChangeState.WITHDRAWN),
                name="change_is_unique",
            ),
        )
        indexes = (
            # incidents.read.changes: of a series by time; detection.write.rows.
            models.Index(fields=["series", "metric", "started_at"], name="change_by_series"),
            # incidents.read.changes.list_changes: newest first.
            models.Index(fields=["-started_at", "-id"], name="change_by_time"),
        )

    def __str__(self) -> str:
        return f"change {self.pk} of {self.metric} in series {self.series_id} ({self.state})"

    @property
    def level_from_at(self) -> datetime:
        """Return when the new level begins: of a drift, the newest one, which is later than the drift."""
        newest_from = self.evidence.get("newest_from")
        return datetime.fromisoformat(newest_from) if newest_from else self.started_at


class DetectionStatus(models.TextChoices):
    """Detection status of a metric of a series."""

    LEARNING = "learning", "Learning: too few runs"
    STEADY = "steady", "Steady"
    NOISY = "noisy", "Too noisy"
    STALE = "stale", "Stale: no recent runs"


class DetectionResult(models.Model):
    """Detection status and noise of one metric of one series.

    n: valid runs; repetitions count once. spread: of the current level. smallest_detectable_change: in five runs. Both
    relative.
    runs_needed: more runs until a change of the threshold is detectable; null if it is, or never will be.
    spread_increase: {from_at, before, after}; two_states: {low, high, high_share, visits, from_at}; null without
    (`detection.write.series`). seasons: {hour: 24 factors, weekday: 7 factors} that are removed before detection.
    baseline_from_at: start of the accepted baseline; earlier runs are not compared. smallest_change: the threshold that
    was applied, relative; null if it was evaluated before thresholds were stored, with that of the catalog.
    evaluated_to_at: start of the newest run that was evaluated; later ones only extend the level. input_hash: of all
    that the evaluation depends on; while it stays, it is not repeated (`detection.write.series`).
    """

    series = models.ForeignKey(
        Series, on_delete=models.CASCADE, related_name="detection_results", db_index=False
    )
    metric = models.CharField(max_length=30)
    status = models.CharField(max_length=8, choices=DetectionStatus)
    n = models.PositiveIntegerField()
    spread = models.FloatField(null=True, blank=True)
    smallest_detectable_change = models.FloatField(null=True, blank=True)
    runs_needed = models.PositiveIntegerField(null=True, blank=True)
    spread_increase = models.JSONField(null=True, blank=True)
    two_states = models.JSONField(null=True, blank=True)
    seasons = models.JSONField(default=dict, blank=True)
    smallest_change = models.FloatField(null=True, blank=True)
    baseline_from_at = models.DateTimeField(null=True, blank=True)
    method = models.CharField(max_length=50)
    judged_at = models.DateTimeField(help_text="server's clock")
    evaluated_to_at = models.DateTimeField(null=True, blank=True)
    input_hash = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["series", "metric"], name="detection_result_is_unique"),
            models.CheckConstraint(
                condition=models.Q(status__in=DetectionStatus.values),
                name="detection_result_status_is_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.metric} of series {self.series_id}: {self.status}"


class PooledEvaluation(models.Model):
    """The newest evaluated slot of a host or pool, so that its pooled levels are evaluated once for each slot.

    scope: pool:NAME or host:NAME. evaluated_to_at: end of the slot, exclusive; 1 µs after the newest run while there is
    no pooled level. interval_s: length of the slots.
    """

    scope = models.CharField(max_length=260, unique=True)
    evaluated_to_at = models.DateTimeField()
    interval_s = models.FloatField()

    def __str__(self) -> str:
        return f"pooled levels of {self.scope} to {self.evaluated_to_at:%Y-%m-%d %H:%M}"


class Level(models.Model):
    """The valid runs of one metric of one series between two changes, in the metric's base unit.

    Valid: fio did not fail, the run is neither excluded nor during maintenance of the series, and the value is known.
    Calculated from at most the newest `detection.write.histories.WINDOW` runs of the series.
    from_at, to_at: start of its first and of its last run. n: its runs. last: value of the last run.
    latency_kind: of a latency, clat or lat (`measurement.find_kind`); values of two kinds are in no level together.
    previous_median, previous_until_at: of the level before, to the start of its last run; null for the first level, and
    if that is of another kind of latency.
    change: the change that begins it; if is_recovery, the one that the series recovered from; null for the first level.
    is_current: no later level exists.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="levels", db_index=False)
    metric = models.CharField(max_length=30)
    from_at = models.DateTimeField()
    to_at = models.DateTimeField()
    first_run_id = models.BigIntegerField()
    n = models.PositiveIntegerField()
    median = models.FloatField()
    p10 = models.FloatField()
    p90 = models.FloatField()
    minimum = models.FloatField()
    maximum = models.FloatField()
    last = models.FloatField()
    previous_median = models.FloatField(null=True, blank=True)
    previous_until_at = models.DateTimeField(null=True, blank=True)
    change = models.ForeignKey(Change, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    is_recovery = models.BooleanField(default=False)
    is_current = models.BooleanField()
    latency_kind = models.CharField(max_length=4, choices=LatencyKind, blank=True, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["series", "metric", "from_at"], name="level_is_unique"),
            # Also serves charts: one metric of many series.
            models.UniqueConstraint(
                fields=["metric", "series"],
                condition=models.Q(is_current=True),
                name="current_level_is_unique",
            ),
        )

    def __str__(self) -> str:
        return f"{self.metric} of series {self.series_id} since {self.from_at:%Y-%m-%d}: {self.median}"


class NewestValues(models.Model):
    """The newest values of a metric of a series that has a current level, in the metric's base unit.

    Apart from the levels, which charts read of all series. recent: at most 20, in chronological order, also of the
    level before. to_at: start of the last run, as of the level.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="+", db_index=False)
    metric = models.CharField(max_length=30)
    to_at = models.DateTimeField()
    recent = ArrayField(models.FloatField())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["series", "metric"], name="newest_values_are_unique"),)

    def __str__(self) -> str:
        return f"newest values of {self.metric} of series {self.series_id}"
