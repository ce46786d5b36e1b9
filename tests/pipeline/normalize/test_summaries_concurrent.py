"""Two summarisers, and those who store meanwhile: nobody waits for ever, nothing is lost."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from benchapp.models import Measurement, Run, Series, SeriesSummary
from benchapp.pipeline.exclusions import exclude_run
from benchapp.pipeline.normalize.summaries import has_due, summarize_due
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
    Series.objects.filter(pk=series.pk).update(summary_is_due=True)


def test_two_at_once_take_different_series_without_waiting() -> None:
    for value in (1.0, 2.0, 3.0):
        make_series([value])
    counts: list[int] = []

    with transaction.atomic():
        first = summarize_due(limit=2)
        start(lambda: counts.append(summarize_due())).join(timeout=120)

    assert (first, counts, has_due()) == (2, [1], False)
    assert SeriesSummary.objects.count() == 3


def test_series_that_is_being_stored_is_left_for_the_next_time() -> None:
    series = make_series([1.0])
    counts: list[int] = []

    with transaction.atomic():
        change(series, 5.0)
        start(lambda: counts.append(summarize_due())).join(timeout=120)

    assert (counts, summarize_due()) == ([0], 1)
    assert SeriesSummary.objects.get().last == 5.0


def test_what_is_stored_while_its_series_is_summarised_leaves_it_due() -> None:
    series = make_series([1.0])

    def store() -> None:
        with transaction.atomic():
            change(series, 5.0)

    with transaction.atomic():
        summarize_due()
        storing = start(store)
    storing.join(timeout=120)

    assert (has_due(), summarize_due()) == (True, 1)
    assert SeriesSummary.objects.get().last == 5.0


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
    threads += [start(lambda: [summarize_due(limit=2) for _ in range(9)] and None) for _ in range(2)]
    for thread in threads:
        thread.join(timeout=120)
    while summarize_due():
        continue

    assert SeriesSummary.objects.count() == 0
