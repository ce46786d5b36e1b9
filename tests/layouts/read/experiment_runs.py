"""Runs of two arms for the tests of experiments."""

from collections.abc import Sequence
from datetime import timedelta

from benchapp.models import Run, Series
from tests.factories import NOON, add_measurements, calculate_levels, make_host, make_runs, make_series


def make_experiment(
    values: Sequence[float],
    *,
    order: str = "",
    host: str = "db-1",
    metric: str = "iops",
    repetitions: Sequence[float] = (1.0,),
) -> Series:
    """Make a series with runs of two arms in ABBA order, an hour apart from NOON on, labeled arm=a and arm=b.

    order: of the arms, instead of ABBA. repetitions: of the workload in each run, as factors of its value.
    """
    owner = make_host(host)
    series = make_series(host=owner)
    arms = order or ("abba" * len(values))[: len(values)]
    runs = make_runs(
        owner, [NOON + timedelta(hours=place) for place in range(len(values))], target=series.target
    )
    for run, arm in zip(runs, arms, strict=True):
        run.labels = {"arm": arm}
    Run.objects.bulk_update(runs, ["labels"])
    for ordinal, factor in enumerate(repetitions):
        measured = [{metric: factor * value, "position": ordinal, "ordinal": ordinal} for value in values]
        add_measurements(series, runs, measured)
    calculate_levels([series.pk])
    series.refresh_from_db()
    return series
