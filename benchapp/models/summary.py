"""Current level of a metric of a series, calculated on write: charts over series never scan measurements."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from benchapp.models.series import Series


class SeriesSummary(models.Model):
    """One metric of one series over its newest valid measurements, in the metric's base unit.

    Valid: fio did not fail, the run is not excluded, the value is known. Over at most the newest
    `pipeline.summarize.WINDOW` of them, so that keeping it costs the same however long the history is.
    n, median, p10, p90, minimum, maximum, first_at, last_at: of that window; last: the newest value.
    recent_median, baseline_median: of the latest few values and of those before; null if there are too few.
    recent: the latest values in order of time, for a sparkline.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="summaries")
    metric = models.CharField(max_length=30)
    n = models.PositiveIntegerField()
    median = models.FloatField()
    p10 = models.FloatField()
    p90 = models.FloatField()
    minimum = models.FloatField()
    maximum = models.FloatField()
    last = models.FloatField()
    recent_median = models.FloatField(null=True, blank=True)
    baseline_median = models.FloatField(null=True, blank=True)
    recent = ArrayField(models.FloatField(), default=list)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "series summaries"
        constraints = (
            # Also serves queries.scaling: one metric of many series.
            models.UniqueConstraint(fields=["metric", "series"], name="series_summary_is_unique"),
        )

    def __str__(self) -> str:
        return f"{self.metric} of series {self.series_id}: {self.median}"
