"""Members of pooled levels: their newest runs in one query, as `read_histories` returns them for each series."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from psycopg import Cursor

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.detection.write import pooled_members
from benchapp.detection.write.histories import read_histories
from benchapp.detection.write.pooled_members import (
    PooledMember,
    ReadFrom,
    choose_read_from,
    list_groups,
    read_member_histories,
    read_members,
)
from benchapp.models import Measurement, Series
from tests.detection.write.judging import make_cells
from tests.factories import (
    NOON,
    add_measurements,
    make_detection_policy,
    make_host,
    make_measurement,
    make_planned_event,
    make_runs,
    make_series,
    make_workload,
)
from tests.shared_rows import shared_rows

METRICS = ("iops", "latency_mean_ns")


@shared_rows
def series() -> list[Series]:
    """Return series with unknown, excluded and failed runs, runs in maintenance, repetitions, no valid run, no run."""
    host, maintained = make_host("db-1"), make_host("db-7")
    plain, few = (make_series([1.0 + run for run in range(runs)], host=host) for runs in (30, 3))
    partial = make_series([2.0, None, 4.0, 5.0, 6.0, 7.0], host=host)
    of_partial = Measurement.objects.filter(series=partial)
    of_partial.filter(iops=5.0).update(is_excluded=True)
    of_partial.filter(iops=6.0).update(error=5)
    invalid = make_series([3.0], host=host)
    Measurement.objects.filter(series=invalid).update(error=5)
    make_planned_event(from_at=NOON + timedelta(hours=2), to_at=NOON + timedelta(hours=4))
    in_maintenance = make_series([10.0, 20.0, 30.0, 40.0, 50.0], host=maintained)
    repeated = make_series(host=host)
    runs = make_runs(host, [NOON, NOON + timedelta(hours=1)])
    add_measurements(repeated, runs, [{"iops": 8.0, "latency_mean_ns": 80.0}, {"iops": 9.0}])
    for ordinal, iops in ((1, 11.0), (2, 100.0)):
        make_measurement(runs[1], repeated, ordinal=ordinal, iops=iops)
    return [plain, invalid, repeated, in_maintenance, few, partial, make_series(host=host)]


def test_histories_are_those_of_each_series(series: list[Series]) -> None:
    ids = [one.pk for one in reversed(series)]

    found = read_member_histories(ids, window=20, metrics=METRICS)

    expected = read_histories(ids, window=20)
    assert found.members.tolist() == sorted(found.members.tolist())
    for number, series_id in enumerate(ids):
        history, one = expected[series_id], found.take_members(number, number + 1)
        assert one.members.tolist() == [0] * len(history.times)
        assert one.times.tolist() == history.times.tolist()
        assert one.run_ids.tolist() == history.run_ids.tolist()
        assert list(one.values) == list(METRICS)
        for metric in METRICS:
            np.testing.assert_array_equal(one.values[metric], history.values[metric])


@pytest.mark.parametrize("window", [2, 20])
@pytest.mark.parametrize("hours", [0, 3, 12, 100])
def test_histories_do_not_depend_on_the_time_from_which_runs_are_read_together(
    series: list[Series], window: int, hours: int
) -> None:
    ids = [one.pk for one in reversed(series)]
    at = NOON + timedelta(hours=hours)
    read_from = {
        series_id: ReadFrom(at, is_whole=first_at >= at)
        for series_id, first_at in Series.objects.values_list("pk", "first_at")
        if first_at is not None
    }
    # Not that of the failed run.
    del read_from[series[1].pk]

    found = read_member_histories(ids, window=window, metrics=METRICS, read_from=read_from)

    expected = read_member_histories(ids, window=window, metrics=METRICS)
    assert found.members.tolist() == expected.members.tolist()
    assert found.times.tolist() == expected.times.tolist()
    assert found.run_ids.tolist() == expected.run_ids.tolist()
    for metric in METRICS:
        np.testing.assert_array_equal(found.values[metric], expected.values[metric])


def test_members_with_more_frequent_runs_are_not_read_together() -> None:
    members = [
        PooledMember(
            number, ("iops",), {}, {}, first_at=NOON + timedelta(hours=number), interval_s=interval_s
        )
        for number, interval_s in enumerate([3600.0, 3600.0, 1799.0])
    ]

    found = choose_read_from(
        members, evaluated_to_at=NOON + timedelta(hours=104), interval_s=3600.0, window=100
    )

    at = NOON + timedelta(hours=1)
    assert found == {0: ReadFrom(at, is_whole=False), 1: ReadFrom(at, is_whole=True)}


def test_runs_that_are_read(series: list[Series]) -> None:
    """The same by hand: the newest 20, no invalid ones, the median of repetitions, none during maintenance."""
    found = read_member_histories([one.pk for one in series], window=20, metrics=METRICS)

    iops = [found.take_members(number, number + 1).values["iops"].tolist() for number in range(len(series))]
    assert iops == [
        [11.0 + run for run in range(20)],
        [],
        [8.0, 11.0],
        [10.0, 20.0, 50.0],
        [1.0, 2.0, 3.0],
        [2.0, pytest.approx(np.nan, nan_ok=True), 4.0, 7.0],
        [],
    ]
    assert found.take_members(1, 4).members.tolist() == [1, 1, 2, 2, 2]


def test_histories_of_all_series_take_one_query(
    series: list[Series], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And two for maintenance: one for the windows in this time, one for each filter."""
    statements: list[object] = []

    class CountingCursor(Cursor[Any]):
        def execute(self, query: Any, *args: Any, **options: Any) -> Any:
            statements.append(query)
            return super().execute(query, *args, **options)

    monkeypatch.setattr(pooled_members, "PsycopgCursor", CountingCursor)

    with CaptureQueriesContext(connection) as queries:
        read_member_histories([one.pk for one in series], window=20, metrics=METRICS)

    assert (len(statements), len(queries)) == (1, 2)


@pytest.mark.django_db
def test_series_without_runs_have_empty_histories() -> None:
    found = read_member_histories([make_series().pk, make_series().pk], window=20, metrics=METRICS)

    assert (len(found.members), len(found.times), len(found.values["iops"])) == (0, 0, 0)


@pytest.mark.django_db
def test_members_are_the_first_measured_series_of_each_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled_members, "MEMBERS_MAXIMUM", 2)
    make_detection_policy(filter="host:db-7", smallest_change=0.1)
    hosts = [make_host("db-1"), make_host("db-7")]
    cells = [make_cells(host, np.ones((3, 20)).tolist(), targets=[{"stripe_count": 4}]) for host in hosts]
    make_series([1.0] * 19, host=hosts[0])
    mixed = make_workload(block_size_bytes=None)
    (large,) = make_cells(make_host("db-9"), [[1.0] * 20])
    Series.objects.filter(pk=large.pk).update(block_size_bytes=mixed.block_size_bytes)

    members = read_members(["host:db-7", "host:db-9", "host:db-1", "host:db-5"])

    ids = {scope: [member.series_id for member in found] for scope, found in members.items()}
    assert ids == {
        "host:db-7": [cells[1][0].pk, cells[1][1].pk],
        "host:db-9": [large.pk],
        "host:db-1": [cells[0][0].pk, cells[0][1].pk],
        "host:db-5": [],
    }
    assert [members[scope][0].thresholds["iops"] for scope in ("host:db-1", "host:db-7")] == [
        SMALLEST_CHANGES["iops"],
        0.1,
    ]
    assert members["host:db-1"][0].values["stripe_count"] == "4"
    assert [members[scope][0].metrics[0] for scope in ("host:db-1", "host:db-9")] == [
        "iops",
        "bandwidth_bytes_per_s",
    ]


def make_members(values: list[dict[str, str]]) -> list[PooledMember]:
    return [
        PooledMember(number, ("iops",), of, {"iops": 0.05}, first_at=NOON, interval_s=3600.0)
        for number, of in enumerate(values)
    ]


def test_groups_are_all_members_and_those_of_a_value_of_twenty() -> None:
    values = [
        {"volume_type": ("gp3", "st1", "io2")[number % 3 if number < 57 else 0], "stripe_count": "1"}
        for number in range(60)
    ]

    groups = list(list_groups(make_members(values)))

    assert [(group.dimension, group.value, len(group.members)) for group in groups] == [
        ("", "", 60),
        ("volume_type", "gp3", 22),
    ]
    assert groups[1].members.tolist() == [*range(0, 57, 3), 57, 58, 59]


def test_unknown_values_are_no_group() -> None:
    values = [{"stripe_count": "2"} if number < 20 else {} for number in range(45)]

    groups = list(list_groups(make_members(values)))

    assert [(group.dimension, group.value, len(group.members)) for group in groups] == [
        ("", "", 45),
        ("stripe_count", "2", 20),
    ]
