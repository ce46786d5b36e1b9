"""The series of a filter as columns: values, levels and order."""

from typing import Any

import pytest

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.charts.read.axes import SeriesTable
from benchapp.charts.read.series_columns import read_table
from benchapp.models import Series
from tests.ebs import make_level
from tests.factories import NOON, make_series, make_target, make_workload

pytestmark = pytest.mark.django_db

_METRICS = ("iops", "latency_p99_ns")
_COLUMNS = (
    *("id", "measurement_count", "last_at", "badges"),
    *DIMENSIONS,
    *(f"{metric}.has_level" for metric in _METRICS),
)


def list_columns(table: SeriesTable) -> dict[str, list[Any]]:
    return {name: list(table.column(name)) for name in _COLUMNS}


def test_filter_without_matches_has_empty_columns() -> None:
    table, is_cut = read_table(Filter(), _METRICS)

    assert (list_columns(table), is_cut) == ({name: [] for name in _COLUMNS}, False)


def test_rows_have_their_own_values_most_recent_first() -> None:
    old = make_series([1.0], target=make_target(volume_count=1, filesystem="xfs"))
    new = make_series([2.0], target=make_target(volume_count=4), workload=make_workload(rw="randwrite"))
    Series.objects.filter(pk=old.pk).update(
        last_at=NOON.replace(year=2020), badges=["failed-job", "too-short"]
    )
    make_level(old, "iops", 100.0)
    make_level(new, "iops", 400.0)
    make_level(new, "latency_p99_ns", 5.0)

    columns = list_columns(read_table(Filter(), _METRICS)[0])

    assert columns["id"] == [new.pk, old.pk]
    assert columns["volume_count"] == [4, 1]
    assert columns["filesystem"] == [None, "xfs"]
    assert columns["rw"] == ["randwrite", old.rw]
    assert columns["badges"] == [(), ("failed-job", "too-short")]
    assert columns["iops.has_level"] == [True, True]
    assert columns["latency_p99_ns.has_level"] == [True, False]


def test_columns_are_those_of_the_rows() -> None:
    for count in (1, 2, 4):
        make_level(make_series([1.0], target=make_target(volume_count=count)), "iops", float(count))

    columns = list_columns(read_table(parse_filter("volume_count:>1"), _METRICS)[0])

    rows = Series.objects.filter(volume_count__gt=1, levels__metric="iops", levels__is_current=True).order_by(
        "-last_at", "-id"
    )
    for name in ("id", "last_at", "measurement_count", "volume_count"):
        assert columns[name] == list(rows.values_list(name, flat=True))


def test_level_of_another_time_is_no_current_level() -> None:
    make_level(make_series([1.0]), "iops", 7.0, is_current=False)

    table, _ = read_table(Filter(), ["iops"])

    assert table.column("iops.has_level") == [False]


def test_series_with_equal_text_in_other_columns_differ() -> None:
    read, write = make_series([1.0]), make_series([1.0], direction="write")
    Series.objects.filter(pk=read.pk).update(badges=["write"], last_at=NOON)
    Series.objects.filter(pk=write.pk).update(badges=["read", "too-short"], last_at=NOON.replace(year=2020))

    columns = list_columns(read_table(Filter(), [])[0])

    assert columns["direction"] == ["read", "write"]
    assert columns["badges"] == [("write",), ("read", "too-short")]


def test_metric_named_twice_is_read_once() -> None:
    make_level(make_series([1.0]), "iops", 7.0)

    table, _ = read_table(Filter(), ["iops", "iops"])

    assert table.column("iops.has_level") == [True]
