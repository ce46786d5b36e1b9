from datetime import timedelta

import pytest

from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.models import Series
from benchapp.series.read.series import list_series, read_relatives, read_series, read_series_version
from tests.factories import (
    NOON,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
    make_workload,
)

pytestmark = pytest.mark.django_db


def ids(page):
    return [series.id for series in page.items]


def test_series_are_listed_freshest_first_and_only_with_measurements():
    old = make_series([1.0])
    new = make_series([1.0], start_at=NOON + timedelta(hours=1))
    make_series([])

    assert ids(list_series(Filter())) == [new.id, old.id]
    assert ids(list_series(Filter(), oldest_first=True)) == [old.id, new.id]


def test_line_says_title_count_and_latest_value():
    host = make_host("db-7")
    series = make_series([10.0, 20.0], host=host, target=make_target(filesystem="ext4"))

    (line,) = list_series(Filter()).items

    assert line.id == series.id
    assert line.title == "4k random read · QD 8 × 1 job · 64 MiB file · ext4"
    assert (line.scope, line.scope_name, line.is_pool) == ("host:db-7", "db-7", False)
    assert (line.measurement_count, line.first_at, line.last_at) == (2, NOON, NOON + timedelta(hours=1))
    assert (line.latest.iops, line.latest.started_at) == (20.0, NOON + timedelta(hours=1))


def test_series_of_a_pool_are_found_by_pool_and_not_by_host():
    series = make_series([1.0], host=make_host("a", pool="blue"), pool="blue")

    assert ids(list_series(parse_filter("pool:blue"))) == [series.id]
    assert ids(list_series(parse_filter("host:a"))) == []
    assert ids(list_series(parse_filter("host:a pool:blue"))) == [series.id]


def test_series_is_read_with_its_other_directions(django_assert_num_queries):
    host, target = make_host("db-7"), make_target(filesystem="xfs")
    workload = make_workload(rw="randrw", read_share_percent=70)
    reads = make_series([1.0], host=host, target=target, workload=workload)
    writes = make_series([1.0], host=host, target=target, workload=workload, direction="write")
    make_series([1.0], host=make_host(), target=target, workload=workload, direction="write")

    with django_assert_num_queries(3):
        row = read_series(reads.id)
        hosts, siblings = read_relatives(row)

    assert row.title.startswith("4k random read/write 70/30, reads")
    assert siblings == {writes.id: "write"}
    assert hosts == ("db-7",)


def test_series_of_a_pool_names_all_its_hosts():
    make_host("b", pool="blue")
    series = make_series([1.0], host=make_host("a", pool="blue"), pool="blue")

    assert read_relatives(read_series(series.id))[0] == ("a", "b")


def test_unknown_or_empty_series_is_none():
    assert read_series(10**30) is None
    assert read_series(make_series([]).id) is None
    assert read_series_version(10**30) is None


def test_version_changes_with_every_write_and_only_then():
    series = make_series([1.0])
    before = read_series_version(series.id)

    unchanged = read_series_version(series.id)
    make_measurement(make_run(series.host, started_at=NOON - timedelta(days=1)), series)
    with_an_older_point = read_series_version(series.id)
    Series.objects.filter(pk=series.id).update(direction="read")

    assert before == unchanged
    assert with_an_older_point != before


def test_direction_without_points_is_no_sibling():
    host, target, workload = make_host(), make_target(), make_workload()
    reads = make_series([1.0], host=host, target=target, workload=workload, direction="read")
    writes = make_series([1.0], host=host, target=target, workload=workload, direction="write")
    make_series([], host=host, target=target, workload=workload, direction="trim")

    assert read_relatives(read_series(reads.id))[1] == {writes.id: "write"}
