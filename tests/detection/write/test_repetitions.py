"""Repetitions within a night are one observation for detection, and the report says so."""

from datetime import timedelta

import pytest

from benchapp.detection.write.dry_run import report_detection
from benchapp.models import Change, DetectionResult, Level, Measurement, Series
from tests.detection.write.judging import judge_all
from tests.factories import NOON, make_host, make_run, make_series, note_measurements

pytestmark = pytest.mark.django_db
NIGHTS = (1000.0, 1040.0, 970.0, 1020.0, 950.0, 1010.0, 980.0, 1030.0, 960.0, 1000.0, 1020.0, 990.0)
WOBBLE = (0.0, 2.0, -1.5, 1.0, -0.5)


def make_nights(levels: list[float]) -> Series:
    """Make a series of five runs a night, ten minutes apart."""
    series = make_series(host=make_host())
    for night, level in enumerate(levels):
        for place, wobble in enumerate(WOBBLE):
            at = NOON + timedelta(days=night, minutes=10 * place)
            run = make_run(series.host, target=series.target, started_at=at)
            Measurement.objects.create(run=run, series=series, started_at=at, position=0, iops=level + wobble)
    note_measurements(series)
    return series


def test_nights_that_differ_are_not_changes() -> None:
    series = make_nights(list(NIGHTS))

    judge_all()

    assert not Change.objects.exists()
    assert DetectionResult.objects.get(series=series, metric="iops").n == 12
    assert Level.objects.get(series=series, metric="iops").n == 60


def test_change_begins_with_the_first_run_of_a_night() -> None:
    make_nights([*NIGHTS, *(0.7 * level for level in NIGHTS[:5])])

    judge_all()

    change = Change.objects.get()
    assert change.started_at == NOON + timedelta(days=12)
    assert (change.before_n, change.after_n) == (12, 5)


def test_report_has_the_merged_runs() -> None:
    series = make_nights(list(NIGHTS))

    report = report_detection(series.pk, "iops")

    assert (report.input.merged_runs, len(report.input.values)) == (60, 12)
    assert any(reason.startswith("Repetitions: 60 runs in 12 groups") for reason in report.why_not)
