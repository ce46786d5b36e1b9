"""Failed runs from before there were badges, and what migration 0005 gives them."""

from importlib import import_module

import pytest
from django.db import connection

from benchapp.models import Measurement, Run, Series
from benchapp.series.validity.rules import ValidityInputs, judge_validity
from tests.factories import make_measurement, make_run, make_series

migration = import_module("benchapp.migrations.0005_failed_runs_bear_their_badge")
pytestmark = pytest.mark.django_db

SHORT = {"code": "too-short", "sentence": "It ran 3 s.", "numbers": {"runtime_s": 3.0}}


def migrate() -> None:
    with connection.schema_editor(atomic=False) as editor:
        migration.mark_failures(None, editor)


def test_failed_run_measurement_and_series_get_the_badge_as_the_code_writes_it() -> None:
    measurement = make_measurement(make_run(error=28), error=28)
    (badge,) = judge_validity(ValidityInputs(error=28))
    assert (badge.code, badge.numbers) == ("failed-job", {"error": 28})

    migrate()

    measurement.refresh_from_db()
    (stored,) = measurement.badges
    assert (stored["code"], stored["numbers"]) == ("failed-job", {"error": 28})
    assert "error 28 (No space left on device)" in stored["sentence"]
    assert Run.objects.get().badges == Series.objects.get().badges == ["failed-job"]


def test_what_went_well_or_was_judged_stays_as_it_is() -> None:
    make_measurement(make_run())
    make_measurement(make_run(error=5, badges=["failed-job", "too-short"]), error=5, badges=[SHORT])

    migrate()

    assert [row.badges for row in Measurement.objects.order_by("id")] == [[], [SHORT]]
    assert [row.badges for row in Run.objects.order_by("id")] == [[], ["failed-job", "too-short"]]
    assert [row.badges for row in Series.objects.order_by("id")] == [[], []]


def test_series_has_the_badge_only_if_its_newest_measurement_failed() -> None:
    series = make_series([])
    make_measurement(make_run(host=series.host, error=5), series, error=5)
    make_measurement(make_run(host=series.host), series)

    migrate()

    assert Series.objects.get().badges == []


def test_rows_are_marked_batch_by_batch_over_gaps_in_their_ids(
    monkeypatch, django_assert_max_num_queries
) -> None:
    monkeypatch.setattr(migration, "_BATCH_SIZE", 2)
    run = make_run(error=5)
    for number, error in enumerate((5, 0, 28, 5, 5)):
        make_measurement(run, id=10 ** (number + 1), error=error)

    with django_assert_max_num_queries(32):
        migrate()

    assert [bool(row.badges) for row in Measurement.objects.order_by("id")] == [True, False, True, True, True]
    assert [
        badge["numbers"]["error"] for row in Measurement.objects.order_by("id") for badge in row.badges
    ] == [
        5,
        28,
        5,
        5,
    ]
