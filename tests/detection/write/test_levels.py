"""Stored levels: the runs between two changes, whatever comes late, is excluded or recovers."""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from benchapp.catalog.metrics import CATALOG
from benchapp.detection.write import histories
from benchapp.judge import judge_due, judge_series
from benchapp.models import (
    Change,
    ChangeState,
    Level,
    Measurement,
    NewestValues,
    PlannedEvent,
    PlannedEventKind,
    Series,
)
from tests.detection.write.judging import add_runs, make_cells, make_level
from tests.factories import NOON, make_host, make_measurement, make_points, make_run, make_series

pytestmark = pytest.mark.django_db
FIELDS = (
    "n",
    "median",
    "p10",
    "p90",
    "minimum",
    "maximum",
    "last",
    "from_at",
    "to_at",
    "is_current",
)


def read_levels(series: Series, metric: str = "iops") -> list[dict[str, Any]]:
    return read_all(series).get(metric, [])


def read_all(series: Series) -> dict[str, list[dict[str, Any]]]:
    """Return the levels of each metric, the current one with the newest values."""
    found: dict[str, list[dict[str, Any]]] = {}
    rows = Level.objects.filter(series=series).order_by("from_at").values("metric", *FIELDS)
    for row in rows:
        found.setdefault(row.pop("metric"), []).append({**row, "recent": []})
    for newest in NewestValues.objects.filter(series=series):
        current = found[newest.metric][-1]
        assert (current["is_current"], current["to_at"]) == (True, newest.to_at)
        current["recent"] = newest.recent
    return found


def compute_from_scratch(series: Series) -> dict[str, list[dict[str, Any]]]:
    """Return the levels of a series without changes: one of each metric, in the plainest way."""
    rows = sorted(Measurement.objects.filter(series=series), key=lambda row: (row.started_at, row.pk))
    valid = [row for row in rows if row.error == 0 and not row.is_excluded]
    expected = {}
    for metric in CATALOG:
        points: dict[tuple[datetime, int], list[float]] = {}
        for row in valid:
            if (value := getattr(row, metric)) is not None:
                points.setdefault((row.started_at, row.run_id), []).append(value)
        if points:
            expected[metric] = [describe([(at, float(np.median(own))) for (at, _), own in points.items()])]
    return expected


def describe(points: Sequence[tuple[datetime, float]]) -> dict[str, Any]:
    values = [value for _, value in points]
    p10, median, p90 = np.percentile(values, (10, 50, 90)).tolist()
    return {
        "n": len(values),
        "median": pytest.approx(median),
        "p10": pytest.approx(p10),
        "p90": pytest.approx(p90),
        "minimum": min(values),
        "maximum": max(values),
        "last": values[-1],
        "from_at": points[0][0],
        "to_at": points[-1][0],
        "is_current": True,
        "recent": values[-20:],
    }


def test_series_without_a_change_has_one_level() -> None:
    series = make_series([100.0, 300.0, 200.0, 500.0, 400.0])

    judge_due()

    assert read_levels(series) == [
        {
            "n": 5,
            "median": 300.0,
            "p10": 140.0,
            "p90": 460.0,
            "minimum": 100.0,
            "maximum": 500.0,
            "last": 400.0,
            "from_at": NOON,
            "to_at": NOON + timedelta(hours=4),
            "is_current": True,
            "recent": [100.0, 300.0, 200.0, 500.0, 400.0],
        }
    ]


def test_current_level_begins_with_the_stored_change() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 24) + make_level(780.0, 10)])

    judge_due()

    before, now = read_levels(series)
    change = Change.objects.get(series=series, metric="iops")
    assert (before["n"], before["is_current"], before["recent"]) == (24, False, [])
    assert (now["n"], now["is_current"], now["from_at"]) == (10, True, change.started_at)
    assert now["median"] == pytest.approx(780.0, rel=0.01)
    assert before["median"] == pytest.approx(1000.0, rel=0.01)
    assert len(now["recent"]) == 20
    assert Level.objects.get(series=series, metric="iops", is_current=True).change == change


def test_metric_without_detection_takes_the_changes_of_the_one_that_it_depends_on() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 24) + make_level(780.0, 10)])
    for point in Measurement.objects.filter(series=series):
        Measurement.objects.filter(pk=point.pk).update(bandwidth_bytes_per_s=4096 * point.iops)

    judge_series([series.pk])

    assert [level["n"] for level in read_levels(series, "bandwidth_bytes_per_s")] == [24, 10]


def test_suspected_change_begins_no_level() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 24) + make_level(780.0, 2)])

    judge_due()

    assert Change.objects.get(series=series).state == ChangeState.SUSPECTED
    assert [level["n"] for level in read_levels(series)] == [26]


def test_withdrawn_change_joins_its_levels_again() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 24) + make_level(780.0, 10)])
    judge_due()
    Measurement.objects.filter(series=series, iops__lt=900).update(iops=1000.0)

    judge_series([series.pk])

    assert [(level["n"], level["is_current"]) for level in read_levels(series)] == [(34, True)]


def test_recovery_begins_a_level() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 30) + make_level(780.0, 10)])
    judge_due()
    add_runs(series, make_level(1000.0, 10))

    judge_due()

    levels = read_levels(series)
    assert [level["n"] for level in levels] == [30, 10, 10]
    change = Change.objects.get(series=series, is_regression=True)
    stored = Level.objects.filter(series=series, metric="iops").order_by("from_at")
    assert [(level.change_id, level.is_recovery) for level in stored][1] == (change.pk, False)
    assert levels[-1]["median"] == pytest.approx(1000.0, rel=0.01)


def test_runs_during_maintenance_are_in_no_level() -> None:
    series = make_series([100.0, 900.0, 102.0])
    PlannedEvent.objects.create(
        kind=PlannedEventKind.MAINTENANCE,
        filter="",
        from_at=NOON + timedelta(minutes=30),
        to_at=NOON + timedelta(minutes=90),
        reason="firmware",
        created_at=NOON,
    )

    judge_series([series.pk])

    (level,) = read_levels(series)
    assert (level["n"], level["maximum"], level["recent"]) == (2, 102.0, [100.0, 102.0])


def test_failed_excluded_and_unknown_values_are_in_no_level() -> None:
    series = make_series([100.0, 200.0, None])
    host = make_host()
    make_measurement(make_run(host, started_at=NOON + timedelta(days=1)), series, iops=1.0, error=5)
    make_measurement(make_run(host, started_at=NOON + timedelta(days=2)), series, iops=2.0, is_excluded=True)

    judge_due()

    (level,) = read_levels(series)
    assert (level["n"], level["last"], level["to_at"]) == (2, 200.0, NOON + timedelta(hours=1))


def test_metric_that_lost_its_values_loses_its_level() -> None:
    series = make_series([100.0])
    Measurement.objects.update(latency_p99_ns=7.0)
    judge_due()
    Measurement.objects.update(iops=None)

    judge_series([series.pk])

    assert list(read_all(series)) == ["latency_p99_ns"]


def test_series_without_a_valid_value_has_no_level_and_is_not_due() -> None:
    series = make_series([None])

    assert (judge_due().series_ids, judge_due().series_ids) == ((series.pk,), ())
    assert read_all(series) == {}


def test_infinite_value_is_unknown() -> None:
    series = make_series([math.inf, 5.0])

    judge_due()

    assert [level["n"] for level in read_levels(series)] == [1]


def add_window(series: Series, *, level: float = 780.0, days: int = 30) -> None:
    """Add as many runs as are read, and evaluate the series."""
    first = NOON + timedelta(days=days)
    run = make_run(started_at=first)
    times = [first + timedelta(hours=hour) for hour in range(histories.WINDOW)]
    make_points(series, run, times, iops=lambda index: level + index % 7)
    judge_series([series.pk])


def test_level_whose_first_runs_are_not_read_keeps_its_start_and_the_level_before() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 24) + make_level(780.0, 10)])
    judge_due()
    before, now = read_levels(series)
    change = Change.objects.get(series=series)

    add_window(series)

    levels = read_levels(series)
    current = Level.objects.get(series=series, metric="iops", is_current=True)
    assert [level["from_at"] for level in levels] == [before["from_at"], now["from_at"]]
    assert levels[0] == before
    assert (current.n, current.change, current.is_recovery) == (histories.WINDOW, change, False)
    assert (current.previous_median, current.previous_until_at) == (before["median"], before["to_at"])


def test_recovery_before_the_runs_that_are_read_begins_no_level_again() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 30) + make_level(780.0, 10)])
    judge_due()
    add_runs(series, make_level(1000.0, 12))
    judge_due()
    recovered = read_levels(series)

    add_window(series, level=1000.0)

    levels = read_levels(series)
    assert [level["from_at"] for level in levels] == [level["from_at"] for level in recovered]
    assert [level["is_current"] for level in levels] == [False, False, True]
