"""Levels of a metric of a series, calculated on write: charts over series never scan measurements."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from benchapp.models.change import Change
from benchapp.models.measurement import LatencyKind
from benchapp.models.series import Series


class Level(models.Model):
    """The valid runs of one metric of one series between two changes, in the metric's base unit.

    Valid: fio did not fail, the run is neither excluded nor during maintenance of the series, and the value is known.
    Calculated from at most the newest `pipeline.detection.histories.WINDOW` runs of the series.
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
