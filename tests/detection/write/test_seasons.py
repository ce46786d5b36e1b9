"""Weekly patterns are removed before detection."""

from datetime import timedelta

import numpy as np
import pytest

from benchapp.detection.write.dry_run import report_detection
from benchapp.judge import judge_due
from benchapp.models import Change, DetectionResult, Level
from tests.detection.write.judging import make_cells
from tests.factories import NOON, make_host

pytestmark = pytest.mark.django_db
STEP = timedelta(hours=6)


def make_weekly(runs: int, *, loss_from: int = 10**6) -> list[float]:
    """Return runs every 6 hours, 15 % lower on Saturdays and Sundays, and 10 % lower from a run on."""
    noise = 1 + 0.01 * np.random.default_rng(1).standard_normal(runs)
    days = [(NOON + index * STEP).weekday() for index in range(runs)]
    return [
        float(1000 * noise[index] * (0.85 if day >= 5 else 1) * (0.9 if index >= loss_from else 1))
        for index, day in enumerate(days)
    ]


def test_weekends_are_stored_as_a_season_and_no_changes() -> None:
    (series,) = make_cells(make_host(), [make_weekly(224)], step=STEP)

    judge_due()

    result = DetectionResult.objects.get(series=series)
    assert list(result.seasons) == ["weekday"]
    assert result.seasons["weekday"] == pytest.approx([1, 1, 1, 1, 1, 0.85, 0.85], abs=0.02)
    assert result.spread == pytest.approx(0.01, rel=0.2)
    assert not Change.objects.exists()


def test_loss_is_found_within_six_runs_whatever_the_day() -> None:
    for start in range(200, 228, 4):
        (series,) = make_cells(make_host(), [make_weekly(start + 6, loss_from=start)], step=STEP)
        judge_due()

        (change,) = Change.objects.filter(series=series)
        assert abs((change.started_at - NOON) // STEP - start) <= 1
        assert change.relative == pytest.approx(-0.1, abs=0.02)


def test_levels_are_as_measured() -> None:
    (series,) = make_cells(make_host(), [make_weekly(224)], step=STEP)

    judge_due()

    level = Level.objects.get(series=series, metric="iops")
    assert level.minimum == pytest.approx(min(make_weekly(224)))
    assert level.median == pytest.approx(np.median(make_weekly(224)))


def test_report_has_the_profile_and_the_runs_as_measured() -> None:
    (series,) = make_cells(make_host(), [make_weekly(224)], step=STEP)

    report = report_detection(series.pk, "iops")

    assert [profile.season for profile in report.profiles] == ["weekday"]
    assert report.input.values.tolist() == pytest.approx(make_weekly(224))


def test_seasons_are_off_by_setting(settings) -> None:
    settings.DETECTION_SEASONS = False
    (series,) = make_cells(make_host(), [make_weekly(224)], step=STEP)

    judge_due()

    assert DetectionResult.objects.get(series=series).seasons == {}
    assert report_detection(series.pk, "iops").profiles == ()
