"""Users exclude runs from medians, with a reason, and include them again."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from structlog.testing import capture_logs

from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize
from benchapp.models import Level, Measurement, Role, Run, Series
from benchapp.series.write import BadReason, UnknownRun, exclude_run, include_run
from tests.factories import calculate_levels, make_series, make_user
from tests.intake.normalize.test_batch import submit

pytestmark = pytest.mark.django_db


def test_excluded_run_is_in_no_summary_until_it_is_included_again() -> None:
    series, anna = make_series([100.0, 200.0, 900.0]), make_user(Role.EDITOR, username="anna")
    run = Run.objects.get(measurements__iops=900.0)

    excluded = exclude_run(run.pk, anna, reason="a backup  ran\n")
    calculate_levels()

    assert (excluded.excluded_by, excluded.excluded_reason) == (anna, "a backup ran")
    assert Level.objects.get(series=series, metric="iops").maximum == 200.0
    include_run(run.pk, anna)
    calculate_levels()
    assert Level.objects.get(series=series, metric="iops").maximum == 900.0
    run.refresh_from_db()
    assert (run.excluded_at, run.excluded_by) == (None, None)


def test_same_again_changes_nothing_and_another_reason_is_another_word() -> None:
    make_series([100.0])
    run, anna, ben = Run.objects.get(), make_user(Role.EDITOR), make_user(Role.EDITOR)
    first = exclude_run(run.pk, anna, reason="loose cable")

    again = exclude_run(run.pk, ben, reason="loose cable")
    other = exclude_run(run.pk, ben, reason="wrong disk")

    assert (again.excluded_by, again.excluded_at) == (anna, first.excluded_at)
    assert (other.excluded_by, other.excluded_reason) == (ben, "wrong disk")


def test_putting_back_what_counts_marks_nothing() -> None:
    make_series([100.0])
    calculate_levels()

    include_run(Run.objects.get().pk, None)

    assert not Series.objects.get().judging_is_due


def test_log_has_user_and_reason() -> None:
    make_series([100.0])
    run, anna = Run.objects.get(), make_user(Role.EDITOR, username="anna")

    with capture_logs() as lines:
        exclude_run(run.pk, anna, reason="loose cable")
        exclude_run(run.pk, anna, reason="loose cable")
        include_run(run.pk, None, via="bench_abc")

    assert [(line["event"], line["by"], line["via"], line["reason"]) for line in lines] == [
        ("run.excluded", "anna", "", "loose cable"),
        ("run.included", "", "bench_abc", "loose cable"),
    ]


@pytest.mark.parametrize("reason", ["", "  \n ", "x" * 501])
def test_reason_must_be_storable_and_not_empty(reason: str) -> None:
    make_series([100.0])

    with pytest.raises(BadReason):
        exclude_run(Run.objects.get().pk, None, reason=reason)

    assert Run.objects.get().excluded_at is None


def test_unknown_run_is_refused() -> None:
    with pytest.raises(UnknownRun):
        exclude_run(1, None, reason="gone")
    with pytest.raises(UnknownRun):
        include_run(1, None)


def test_reading_anew_keeps_the_exclusion_with_its_measurements() -> None:
    submission_id = submit()
    normalize_batch()
    exclude_run(Run.objects.get().pk, None, reason="loose cable")

    list(renormalize([submission_id], is_dry_run=False))

    assert Run.objects.get().excluded_reason == "loose cable"
    assert set(Measurement.objects.values_list("is_excluded", flat=True)) == {True}


def test_eight_queries_exclude_a_run() -> None:
    make_series([100.0])
    run_id = Run.objects.get().pk

    with CaptureQueriesContext(connection) as queries:
        exclude_run(run_id, None, reason="loose cable")

    # Savepoint, lock and save of the run, audit record, mark, lock and mark of the series, release.
    assert len(queries) == 8
