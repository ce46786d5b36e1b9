"""The environments of the runs of each series: which there are, without reading measurements."""

from django.db import models

from benchapp.models.environment import Environment
from benchapp.models.series import Series


class SeriesEnvironment(models.Model):
    """An environment in which a series was measured.

    first_at, last_at: start of its first and of its last run there, valid or not. Updated in the transaction that
    writes measurements, by `pipeline.normalize.series_environments`. The environment of the newest run of a series is
    that whose last_at is the last_at of the series.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="environments", db_index=False)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+", db_index=False)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = (
            # Also serves models.filtering.match_series: the environments of one series.
            models.UniqueConstraint(fields=["series", "environment"], name="series_environment_is_unique"),
        )
        indexes = (
            # models.filtering.match_series: the series of a few environments.
            models.Index(fields=["environment", "series"], name="series_by_environment"),
            # queries.overview.environment_changes: what began last.
            models.Index(fields=["-first_at"], name="series_environment_by_time"),
        )

    def __str__(self) -> str:
        return f"environment {self.environment_id} of series {self.series_id}"
