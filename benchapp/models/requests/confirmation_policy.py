"""Automatic confirmation of changes, per pool."""

from django.db import models

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
