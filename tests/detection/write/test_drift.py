"""Drifts of a series: slow slopes from the beginning of a level, and from an accepted baseline."""

import random
from datetime import datetime, timedelta
from statistics import median

import pytest

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.models import Change, DetectionResult, Incident, Run, Series, read_slope
from tests.detection.write.judging import add_runs, get_incident, judge_all, make_cells, make_level
from tests.factories import (
    NOON,
    make_change,
    make_host,
    make_incident,
)

pytestmark = pytest.mark.django_db
# 0.04 % a run: no change of level, and 8 % after 200 runs.
SLOPE = [value * (1 - 0.0004 * index) for index, value in enumerate(make_level(1000.0, 208))]
STEADY = make_level(1000.0, 208)


def pin(series: Series, *, at: int = 0, metric: str = "iops") -> None:
    """Accept the level from a run on."""
    DetectionResult.objects.filter(series=series, metric=metric).update(
        baseline_from_at=NOON + timedelta(hours=at)
    )
    Series.objects.filter(pk=series.pk).update(judging_is_due=True)


def make_pinned(*lines: list[float], host: str = "db-1") -> list[Series]:
    """Make series of a host, judge them, and accept the level of each from its first run on."""
    cells = make_cells(make_host(host), lines)
    judge_all()
    for cell in cells:
        pin(cell)
    return cells


def read_drifts(**wanted: object) -> list[Change]:
    return list(Change.objects.filter(method=DRIFT_METHOD, **wanted).order_by("pk"))


def test_slow_slope_is_a_drift_and_not_a_change() -> None:
    make_cells(make_host(), [SLOPE])

    judge_all()

    (drift,) = Change.objects.all()
    assert (drift.method, drift.state, drift.is_regression) == (DRIFT_METHOD, "provisional", True)
    # All runs before the slope, and the newest ones of a slope that continues.
    assert (drift.before_n, drift.after_n) == (6, 5)
    assert drift.relative == pytest.approx(-0.08, abs=0.005)
    assert drift.relative_low is not None
    assert drift.relative_high is not None
    assert drift.relative_low < drift.relative < drift.relative_high < -0.05
    slope = read_slope(drift.evidence)
    assert slope is not None
    assert (slope.from_at, slope.to_at) == (NOON + timedelta(hours=6), NOON + timedelta(hours=207))
    assert (slope.continues, slope.per_day) == (True, pytest.approx(-0.0099, abs=0.0005))
    assert drift.started_at == slope.from_at + timedelta(microseconds=1)
    assert drift.level_from_at == NOON + timedelta(hours=203)
    assert drift.evidence["accepted_from"] is None


@pytest.mark.parametrize("runs", [24, 30, 33, 36])
def test_drift_of_a_month_of_daily_runs_is_one_incident_of_all_series(runs: int) -> None:
    noise = random.Random(7)
    levels = [8000.0, 7000.0, 500.0, 300.0] * 3
    lines = [
        [level * (1 - 0.009 * run) * (1 + noise.gauss(0, 0.015)) for run in range(runs)] for level in levels
    ]
    make_cells(make_host("db-3"), lines, step=timedelta(days=1))

    judge_all()

    incident = Incident.objects.get(merged_into=None)
    assert {change.series_id for change in incident.changes.all()} == set(
        Series.objects.values_list("pk", flat=True)
    )
    for drift, line in zip(read_drifts(incident=incident), lines, strict=True):
        newest, first = median(line[-5:]), line[0]
        assert drift.relative == pytest.approx(newest / first - 1, abs=0.05)
        assert drift.after_median == pytest.approx(newest)
        assert read_slope(drift.evidence).continues


@pytest.mark.parametrize("step", [timedelta(milliseconds=10), timedelta(seconds=1), timedelta(seconds=10)])
def test_slope_within_minutes_has_no_rate_a_day_and_ends_no_batch(step: timedelta) -> None:
    rising = [10_000.0] * 25 + [10_000.0 * 1.02**run for run in range(1, 21)] + [14_859.0] * 10
    noisy = [value * (1 + 0.002 * (-1) ** run) for run, value in enumerate(rising)]
    make_cells(make_host("db-1"), [noisy], step=step)
    (stepped,) = make_cells(make_host("db-2"), [[1000.0 + run % 3 for run in range(30)] + [500.0] * 20])

    judge_all()

    assert Change.objects.filter(series=stepped, relative__lt=-0.4).exists()
    assert [read_slope(drift.evidence).per_day for drift in read_drifts()] in ([None], [])


def test_fast_slope_ends_where_the_level_is_reached() -> None:
    ramp = [
        value * (1 - 0.002 * min(max(run - 60, 0), 50)) for run, value in enumerate(make_level(1000.0, 208))
    ]
    make_cells(make_host(), [ramp, ramp])

    judge_all()

    for drift in read_drifts():
        first, last = (
            (datetime.fromisoformat(drift.evidence[f"slope_{end}"]) - NOON) / timedelta(hours=1)
            for end in ("from", "to")
        )
        assert (60 < first < 80, 90 < last < 115) == (True, True)


def test_more_runs_update_the_drift() -> None:
    (series,) = make_pinned(SLOPE)
    judge_all()
    (before,) = read_drifts()

    for _ in range(4):
        add_runs(series, make_level(915.0, 15))
        judged = judge_all()
        assert judged.event_ids == ()

    (after,) = read_drifts()
    assert (after.pk, after.incident_id) == (before.pk, before.incident_id)
    # More runs show more precisely when it began.
    assert abs(after.started_at - before.started_at) < timedelta(hours=12)
    assert after.state == "confirmed"
    # The slope has ended: all runs since are the newest level.
    assert (after.evidence["continues"], after.after_n > 20) == (False, True)
    assert after.after_median == pytest.approx(915, rel=0.005)
    assert Incident.objects.count() == 1


def test_steady_series_does_not_drift() -> None:
    make_pinned(STEADY)

    judge_all()

    assert not Change.objects.exists()


def test_baseline_of_few_runs_has_no_drift_yet() -> None:
    (series,) = make_cells(make_host(), [SLOPE])
    judge_all()
    pin(series, at=162)

    judge_all()

    (drift,) = read_drifts()
    assert (drift.started_at < NOON + timedelta(hours=162), drift.evidence["accepted_from"]) == (True, None)


def test_drift_before_a_step_recovers_with_the_level() -> None:
    (series,) = make_cells(make_host(), [SLOPE])
    judge_all()
    add_runs(series, make_level(700.0, 20))
    judge_all()
    (drift,) = read_drifts()
    assert drift.evidence["is_back"] is False

    add_runs(series, make_level(1000.0, 30))
    judge_all()

    (drift,) = read_drifts()
    assert drift.evidence["is_back"] is True


def test_change_of_level_is_not_a_drift_too() -> None:
    make_pinned(make_level(1000.0, 100) + make_level(900.0, 80))

    judge_all()

    (change,) = Change.objects.all()
    assert (change.method, change.relative < -0.05) == ("changepoints-v2", True)


def test_undoing_the_baseline_keeps_what_drifted_from_its_level() -> None:
    make_pinned(SLOPE)
    judge_all()
    assert read_drifts()[0].evidence["accepted_from"] == NOON.isoformat()

    DetectionResult.objects.update(baseline_from_at=None)
    Series.objects.update(judging_is_due=True)
    judge_all()

    (drift,) = read_drifts()
    assert (drift.evidence["accepted_from"], get_incident().state) == (None, "new")


def test_undoing_the_baseline_withdraws_what_drifted_from_it_alone() -> None:
    # Two small steps, neither of which is more than half of the drift from the baseline.
    line = [*make_level(1000.0, 60), *make_level(960.0, 60), *make_level(920.0, 80)]
    make_pinned(line)
    judge_all()
    found = read_drifts()

    DetectionResult.objects.update(baseline_from_at=None)
    Series.objects.update(judging_is_due=True)
    judge_all()

    for drift in read_drifts(pk__in=[one.pk for one in found]):
        accepted = drift.evidence["accepted_from"]
        assert (drift.state == "withdrawn") == (accepted is not None)


def test_exclusion_of_runs_ends_the_drift() -> None:
    (series,) = make_pinned(SLOPE)
    judge_all()
    late = Run.objects.filter(started_at__gte=NOON + timedelta(hours=100))
    series.measurements.filter(run__in=late).update(is_excluded=True)
    Series.objects.update(judging_is_due=True)

    judge_all()

    (drift,) = read_drifts()
    assert drift.evidence["is_back"] is True


def test_drift_of_another_metric_begins_after_a_change_of_level() -> None:
    """Two steps of IOPS lengthen the latency by less than its threshold each, and by more together."""
    (series,) = make_cells(
        make_host(), [make_level(1000.0, 80) + make_level(925.0, 80) + make_level(855.0, 80)]
    )
    for measurement in series.measurements.all():
        measurement.latency_mean_ns = 1e9 / (measurement.iops or 1)
        measurement.save(update_fields=["latency_mean_ns"])

    judge_all()

    assert set(Change.objects.values_list("metric", flat=True)) == {"iops"}
    assert read_drifts() == []


# −20 % from the 60th to the 180th run.
RAMP = [
    value * (1 - 0.2 * min(max((run - 60) / 120, 0), 1)) for run, value in enumerate(make_level(1000.0, 240))
]


def make_step(series: Series, *, at: int, before: float, after: float) -> Change:
    """Make a reported change at a run, which remains while the values since are nearer to its level."""
    moment, evidence = NOON + timedelta(hours=at), {"interval_s": 3600.0}
    method = "changepoints-v2"
    return make_change(series, at=moment, before=before, after=after, method=method, evidence=evidence)


def test_slope_is_measured_without_the_step_of_several_hosts() -> None:
    line = [value * (0.85 if run >= 110 else 1.0) for run, value in enumerate(RAMP)]
    (series,) = make_cells(make_host("db-1"), [line])
    # The step of the series itself contains a part of the slope.
    step = make_step(series, at=110, before=950.0, after=720.0)
    sizes = [{"metric": "iops", "series": 40, "relative": -0.15, "low": -0.24, "high": -0.1}]
    wide = make_incident(changes=[step], scope="", metric_sizes=sizes)

    judge_all()

    (drift,) = read_drifts()
    assert drift.relative == pytest.approx(-0.2, abs=0.01)
    assert drift.after_median == pytest.approx(1000 * 0.85 * 0.8, rel=0.01)
    assert drift.evidence["without_incidents"] == [wide.pk]
    assert drift.incident_id != wide.pk
