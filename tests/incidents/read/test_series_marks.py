"""Marks: the open, recovered or accepted change of a series and of a host."""

import pytest

from benchapp.framework.pages.series_marks import show_mark
from benchapp.incidents.actions.baselines import accept_level
from benchapp.incidents.read.series_status import read_scope_marks, read_series_marks
from benchapp.judge import judge_due
from benchapp.models import Change, Incident, IncidentState, Series, Verdict
from tests.detection.write.judging import add_runs, make_cells, make_level
from tests.factories import make_host, make_planned_event

pytestmark = pytest.mark.django_db


def regress(host_name: str = "db-1", *, level: float = 780.0) -> Series:
    (series,) = make_cells(make_host(host_name), [make_level(1000.0, 30) + make_level(level, 10)])
    judge_due()
    return series


def test_open_change_marks_its_series() -> None:
    series = regress()
    change = Change.objects.get(series=series)

    mark = read_series_marks([series.pk], metric="iops")[series.pk]

    assert (mark.state, mark.metric, mark.relative, mark.incident_id) == (
        "open",
        "iops",
        change.relative,
        change.incident_id,
    )
    assert (mark.is_regression, mark.started_at) == (True, change.started_at)


def test_change_of_another_metric_marks_the_series_too() -> None:
    series = regress()

    mark = read_series_marks([series.pk], metric="latency_p99_ns")[series.pk]

    assert (mark.state, mark.metric) == ("open", "iops")


def test_recovered_change_is_marked_until_its_incident_is_resolved() -> None:
    series = regress()
    add_runs(series, make_level(1000.0, 12))
    judge_due()

    mark = read_series_marks([series.pk], metric="iops")[series.pk]
    Incident.objects.update(state=IncidentState.RESOLVED, verdict=Verdict.FIXED)

    assert mark.state == "recovered"
    assert read_series_marks([series.pk], metric="iops") == {}


def test_change_of_a_muted_incident_is_marked_as_muted() -> None:
    series = regress()
    event = make_planned_event(kind="change")
    Incident.objects.update(state=IncidentState.RESOLVED, verdict=Verdict.EXPECTED, planned_event=event)

    mark = read_series_marks([series.pk], metric="iops")[series.pk]
    shown = show_mark(mark, metric="iops")

    assert shown
    assert (mark.state, shown.kind) == ("muted", "settled")
    assert shown.text.startswith("muted −2")


def test_accepted_change_is_marked_as_accepted_for_its_metric_only() -> None:
    series = regress()
    accept_level(Incident.objects.get().pk, by=None)
    judge_due()

    assert read_series_marks([series.pk], metric="iops")[series.pk].state == "accepted"
    assert read_series_marks([series.pk], metric="latency_p99_ns") == {}


def test_series_without_a_change_has_no_mark() -> None:
    (series,) = make_cells(make_host(), [make_level(1000.0, 40)])
    judge_due()

    assert read_series_marks([series.pk], metric="iops") == {}
    assert read_series_marks([], metric="iops") == {}


def test_host_is_marked_by_its_largest_open_regression() -> None:
    host = make_host("db-1")
    small, large = make_cells(
        host,
        [
            make_level(1000.0, 30) + make_level(900.0, 10),
            make_level(1000.0, 30, shift=3) + make_level(600.0, 10, shift=3),
        ],
    )
    regress("db-2", level=1300.0)
    judge_due()

    marks = read_scope_marks(["host:db-1", "host:db-2", "host:db-3"])

    assert set(marks) == {"host:db-1"}
    assert (marks["host:db-1"].largest.series_id, small.scope) == (large.pk, "host:db-1")
    ids = Incident.objects.filter(scope="host:db-1").values_list("pk", flat=True)
    assert marks["host:db-1"].incident_ids == tuple(ids)
