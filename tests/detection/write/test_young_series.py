"""Young series: a large loss opens an incident within three runs, judged by the usual spread of others."""

import pytest

from benchapp.catalog.metrics import USUAL_SPREADS
from benchapp.detection.write.rows import read_usual_spreads
from benchapp.incidents.read.changes import list_changes_of_series
from benchapp.models import Change, ChangeState, DetectionStatus, Incident, Series
from tests.detection.write.judging import add_runs, judge_all, make_cells, make_level
from tests.factories import make_detection_result, make_host, make_series, make_workload

pytestmark = pytest.mark.django_db


def make_comparable(series: Series, *, spread: float, count: int) -> None:
    """Make other series with the same workload and this spread."""
    for number in range(count):
        other = make_series(host=make_host(f"peer-{number}"), workload=series.workload)
        make_detection_result(other, spread=spread)


def make_lossy(*, spread: float | None = None, count: int = 5) -> Series:
    """Make a series that loses 20 % after eight runs, and judge it at the third bad one."""
    (series,) = make_cells(make_host(), [make_level(1000.0, 8)])
    if spread is not None:
        make_comparable(series, spread=spread, count=count)
    add_runs(series, make_level(800.0, 3))
    judge_all()
    return series


def test_loss_of_a_young_series_opens_an_incident_after_three_runs() -> None:
    series = make_lossy()

    change = Change.objects.get()
    assert (change.state, change.before_n, change.after_n) == (ChangeState.PROVISIONAL, 8, 3)
    assert change.evidence["usual_spread"] == USUAL_SPREADS["iops"]
    assert change.incident == Incident.objects.get()
    (row,) = list_changes_of_series(series.pk, metric="iops")
    assert row.is_young


def test_usual_spread_is_the_median_of_series_with_the_same_workload() -> None:
    make_lossy(spread=0.02)

    assert Change.objects.get().evidence["usual_spread"] == pytest.approx(0.02)


def test_loss_within_the_usual_spread_of_others_is_no_change() -> None:
    make_lossy(spread=0.2)

    assert not Change.objects.exists()


def test_few_comparable_series_are_not_the_prior() -> None:
    series = make_lossy(spread=0.2, count=4)

    assert read_usual_spreads([series.pk])[series.pk, "iops"] == USUAL_SPREADS["iops"]
    assert Change.objects.exists()


def test_learning_series_and_other_workloads_are_not_comparable() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 8)])
    make_comparable(series, spread=0.1, count=5)
    learning = make_series(host=make_host("young-peer"), workload=series.workload)
    make_detection_result(learning, DetectionStatus.LEARNING, spread=0.5)
    other = make_series(host=make_host("other"), workload=make_workload(iodepth=64))
    make_detection_result(other, spread=0.5)

    usual = read_usual_spreads([series.pk])

    assert usual[series.pk, "iops"] == pytest.approx(0.1)
    assert usual[series.pk, "latency_mean_ns"] == USUAL_SPREADS["latency_mean_ns"]
    assert read_usual_spreads([]) == {}


def test_change_of_a_young_series_is_confirmed_by_the_detector() -> None:
    series = make_lossy()

    add_runs(series, make_level(800.0, 9))
    judge_all()

    change = Change.objects.get()
    assert (change.state, change.evidence["usual_spread"]) == (ChangeState.CONFIRMED, None)
