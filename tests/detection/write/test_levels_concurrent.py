"""Concurrent detection and storing: no deadlock, no lost change."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from benchapp.judge import has_judging_due, judge_due
from benchapp.models import Level, Measurement, Run, Series
from benchapp.series.write import exclude_run
from tests.factories import make_series

pytestmark = pytest.mark.django_db(transaction=True)


def start(step: Callable[[], None]) -> threading.Thread:
    """Run a step with a connection of its own."""

    def run() -> None:
        try:
            step()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def change(series: Series, value: float) -> None:
    """Change a measurement as the pipeline does: rows, then the lock of the series, then the mark."""
    Measurement.objects.filter(series=series).update(iops=value)
    Series.objects.select_for_update().get(pk=series.pk)
    Series.objects.filter(pk=series.pk).update(judging_is_due=True)


def test_two_workers_take_different_series_without_waiting() -> None:
    for value in (1.0, 2.0, 3.0):
        make_series([value])
    counts: list[int] = []

    with transaction.atomic():
        first = len(judge_due(limit=2).series_ids)
        start(lambda: counts.append(len(judge_due().series_ids))).join(timeout=120)

    assert (first, counts, has_judging_due()) == (2, [1], False)
    assert Level.objects.count() == 3


def test_series_that_is_being_stored_is_evaluated_later() -> None:
    series = make_series([1.0])
    counts: list[int] = []

    with transaction.atomic():
        change(series, 5.0)
        start(lambda: counts.append(len(judge_due().series_ids))).join(timeout=120)

    assert (counts, len(judge_due().series_ids)) == ([0], 1)
    assert Level.objects.get().last == 5.0


def test_series_that_is_stored_during_detection_stays_due() -> None:
    series = make_series([1.0])

    def store() -> None:
        with transaction.atomic():
            change(series, 5.0)

    with transaction.atomic():
        judge_due()
        storing = start(store)
    storing.join(timeout=120)

    assert (has_judging_due(), len(judge_due().series_ids)) == (True, 1)
    assert Level.objects.get().last == 5.0


def test_runs_excluded_from_many_series_at_once_do_not_deadlock() -> None:
    series = [make_series([1.0, 2.0]) for _ in range(6)]
    runs = list(Run.objects.order_by("pk").values_list("pk", flat=True))
    # Each run has a point in every series, so that the two lock the same rows.
    for run_id in runs[:2]:
        for one in series:
            Measurement.objects.update_or_create(
                run_id=run_id,
                series=one,
                ordinal=1,
                defaults={"position": 1, "started_at": one.first_at, "iops": 9.0},
            )

    threads = [start(lambda run_id=run_id: exclude_run(run_id, None, reason="noise")) for run_id in runs]  # type: ignore[misc]
    threads += [start(lambda: [judge_due(limit=2) for _ in range(9)] and None) for _ in range(2)]
    for thread in threads:
        thread.join(timeout=120)
    while judge_due().series_ids:
        continue

    assert Level.objects.count() == 0
