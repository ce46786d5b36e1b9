"""Queries of incidents, changes and detection status."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.incidents.actions import triage
from benchapp.incidents.read.changes import (
    list_changes,
    list_changes_of,
    list_changes_of_series,
    make_change_row,
    read_sides,
)
from benchapp.incidents.read.incidents import (
    IncidentFilter,
    Tab,
    count_tabs,
    list_incidents,
    list_merge_targets,
    read_incident,
    read_last_action,
)
from benchapp.incidents.read.series_status import (
    count_detection_status,
    list_detection_status,
    list_detection_statuses,
)
from benchapp.models import Change, DetectionStatus, IncidentState, Measurement, Role, Severity
from tests.factories import (
    NOON,
    make_change,
    make_detection_result,
    make_host,
    make_incident,
    make_series,
    make_user,
)

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def test_row_has_the_series_count_and_the_interval_of_the_largest_change() -> None:
    one, other = make_series([1000.0]), make_series([1000.0])
    changes = [
        make_change(one, after=900.0),
        make_change(one, metric="latency_mean_ns", after=950.0),
        make_change(other, after=700.0),
        make_change(make_series([1.0]), after=100.0, state="withdrawn"),
    ]
    incident = make_incident(changes=changes[:3])
    Change.objects.filter(pk=changes[3].pk).update(incident=incident)

    row = list_incidents(IncidentFilter()).items[0]

    assert (row.id, row.series_count) == (incident.pk, 2)
    assert (row.metric, row.relative) == ("iops", pytest.approx(-0.2))
    (size, _) = row.list_sizes()
    assert (size["range_low"], size["range_high"]) == (pytest.approx(-0.3), pytest.approx(-0.1))
    assert [(size["metric"], size["series"]) for size in row.metric_sizes] == [
        ("iops", 2),
        ("latency_mean_ns", 1),
    ]


def test_merged_incident_is_not_listed() -> None:
    home = make_incident()
    make_incident(merged_into=home, state=IncidentState.RESOLVED)

    assert [row.id for row in list_incidents(IncidentFilter()).items] == [home.pk]


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"state": "new"}, 1),
        ({"state": "resolved"}, 1),
        ({"severity": "high"}, 1),
        ({"is_regression": False}, 1),
        ({"from_at": NOON + HOUR}, 1),
        ({"match": parse_filter("host:db-7")}, 1),
        ({"match": parse_filter("host:db-8")}, 0),
    ],
)
def test_list_is_filtered(filters, count: int) -> None:
    change = make_change(make_series([1000.0], host=make_host("db-7")))
    make_incident(changes=[change], severity=Severity.HIGH)
    make_incident(state=IncidentState.RESOLVED, is_regression=False, started_at=NOON + HOUR)

    assert len(list_incidents(IncidentFilter(**filters)).items) == count


def test_new_incidents_are_counted_without_snoozed_merged_and_improvements() -> None:
    later, before = timezone.now() + HOUR, timezone.now() - HOUR
    first = make_incident()
    make_incident(snoozed_until=before)
    make_incident(snoozed_until=later)
    make_incident(is_regression=False)
    make_incident(merged_into=first)
    make_incident(state=IncidentState.ACKNOWLEDGED)
    make_incident(state=IncidentState.RESOLVED)
    make_incident(recovered_at=before)

    assert len(list_incidents(IncidentFilter(tab=Tab.NEW)).items) == 2
    assert count_tabs(IncidentFilter()) == {
        Tab.OPEN: 3,
        Tab.NEW: 2,
        Tab.ACKNOWLEDGED: 1,
        Tab.SNOOZED: 1,
        Tab.RECOVERED: 1,
    }


def test_incident_is_read_with_four_queries(django_assert_num_queries) -> None:
    changes = [make_change(make_series([1000.0]), after=value) for value in (900.0, 500.0, 100.0)]
    changes[2].state = "withdrawn"
    changes[2].save()
    incident = make_incident(changes=changes)
    triage.comment(incident.pk, by=None, text="a look")

    with django_assert_num_queries(4):
        detail = read_incident(incident.pk)

    assert [change.after_median for change in detail.changes] == [500.0, 900.0, 100.0]
    assert detail.largest
    assert (detail.largest.after_median, detail.live_count, detail.change_count) == (500.0, 2, 3)
    assert [(event.kind, bool(event.before)) for event in detail.events] == [
        ("opened", False),
        ("commented", False),
    ]
    assert read_incident(999) is None


def test_last_action_is_ones_own_recent_and_not_undone() -> None:
    person, other, incident = make_user(Role.EDITOR), make_user(Role.EDITOR), make_incident()
    event = triage.acknowledge(incident.pk, by=person)

    action = read_last_action(person, kinds=["acknowledged"])

    assert (action["event_id"], action["incident_id"], action["kind"]) == (
        event.pk,
        incident.pk,
        "acknowledged",
    )
    assert read_last_action(other, kinds=["acknowledged"]) is None
    event.undone_at = NOON
    event.save()
    assert read_last_action(person, kinds=["acknowledged"]) is None


def test_merge_targets_are_open_of_one_direction_and_near_in_time() -> None:
    incident, near = make_incident(), make_incident(title="near", started_at=NOON + HOUR)
    make_incident(started_at=NOON + timedelta(days=40))
    make_incident(is_regression=False)
    make_incident(state=IncidentState.RESOLVED)

    row = read_incident(incident.pk).row

    assert list_merge_targets(row) == [(near.pk, "near")]


def test_changes_and_their_series_take_one_query(django_assert_num_queries) -> None:
    for _ in range(3):
        make_change(make_series([1000.0], host=make_host()))

    with django_assert_num_queries(1):
        page = list_changes()

    assert {change.series.workload_title.split(" · ")[0] for change in page.items} == {"4k random read"}


def test_marks_of_series_are_by_time_without_withdrawn_ones(django_assert_num_queries) -> None:
    one, other = make_series([1000.0] * 3), make_series([1000.0])
    late, early = make_change(one, at=NOON + HOUR), make_change(one, at=NOON)
    make_change(one, at=NOON + 2 * HOUR, state="withdrawn")
    make_change(one, metric="latency_p99_ns")
    make_change(other)

    with django_assert_num_queries(1):
        found = list_changes_of([one.pk, other.pk], metrics=["iops"])

    assert [mark.id for mark in found[one.pk]] == [early.pk, late.pk]
    assert len(found[other.pk]) == 1


def test_changes_of_one_series_are_newest_first_with_withdrawn_ones() -> None:
    series = make_series([1000.0] * 2)
    early, late = make_change(series, at=NOON), make_change(series, at=NOON + HOUR, state="withdrawn")

    found = list_changes_of_series(series.pk, metric="iops")

    assert [change.id for change in found] == [late.pk, early.pk]


def test_sides_are_the_valid_runs_of_the_evidence(django_assert_num_queries) -> None:
    series = make_series([1.0, 10.0, 11.0, 5.0, 6.0, 99.0])
    Measurement.objects.filter(iops=11.0).update(is_excluded=True)
    evidence = {
        "points_from": (NOON + HOUR).isoformat(),
        "points_to": (NOON + 4 * HOUR).isoformat(),
    }
    change = make_change(series, at=NOON + 3 * HOUR, evidence=evidence)

    with django_assert_num_queries(1):
        before, after = read_sides(make_change_row(change))

    assert [point.value for point in before] == [10.0]
    assert [point.value for point in after] == [5.0, 6.0]


def test_monitored_series_are_counted_and_listed_by_status(django_assert_num_queries) -> None:
    series = make_series([1.0], host=make_host("db-7"), start_at=timezone.now())
    make_detection_result(series)
    make_detection_result(series, DetectionStatus.NOISY, metric="latency_p99_ns", judged_at=NOON + HOUR)

    with django_assert_num_queries(1):
        counts = count_detection_status()
    with django_assert_num_queries(1):
        noisy = list_detection_status("noisy", Filter())

    assert counts == {"steady": 1, "noisy": 1}
    assert [result.metric for _, result in noisy.items] == ["latency_p99_ns"]
    assert [result.metric for _, result in list_detection_status("", Filter()).items] == [
        "latency_p99_ns",
        "iops",
    ]
    assert list_detection_status("", parse_filter("host:nobody")).items == ()
    assert [row.metric for row in list_detection_statuses(series.pk)] == ["iops", "latency_p99_ns"]


def test_series_without_recent_runs_is_stale() -> None:
    now = timezone.now()
    fresh, gone = (make_series([1.0] * 4, start_at=now - timedelta(days=days)) for days in (3, 40))
    monthly = make_series([1.0] * 4, start_at=now - timedelta(days=130), step=timedelta(days=30))
    for series in (fresh, gone, monthly):
        make_detection_result(series)

    statuses = [list_detection_statuses(series.pk)[0].status for series in (fresh, gone, monthly)]

    assert statuses == ["steady", "stale", "steady"]
    assert count_detection_status() == {"steady": 2, "stale": 1}
    assert [series.id for series, _ in list_detection_status("stale", Filter()).items] == [gone.pk]
