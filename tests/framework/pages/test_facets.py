"""The values of a dimension with how many series have each."""

import pytest

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import parse_filter
from benchapp.models import Series
from benchapp.series.read.dimension_values import read_facet
from benchapp.series.write import exclude_run, include_run
from tests.factories import make_host, make_series, make_target, make_workload
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


def counts(name: str, text: str = "", **options) -> dict:
    facet = read_facet(DIMENSIONS[name], parse_filter(text), **options)
    return {one.value: one.series_count for one in facet.values}


@shared_rows
def series() -> None:
    for host, kind, count in (("db-01", "gp3", 1), ("db-01", "gp3", 4), ("web-1", "io2", 16)):
        make_series(
            [1.0], host=make_host_once(host), target=make_target(volume_type=kind, volume_count=count)
        )
    make_series(
        [1.0], pool="db", target=make_target(), workload=make_workload(rw="randrw"), direction="write"
    )
    make_series(host=make_host("never-measured"))


def make_host_once(name: str):
    from benchapp.models import Host

    return Host.objects.filter(name=name).first() or make_host(name)


@pytest.mark.parametrize(
    ("name", "text", "options", "found"),
    [
        ("volume_type", "", {}, {"gp3": 2, "io2": 1, None: 1}),
        ("volume_type", "host:db-01", {}, {"gp3": 2}),
        ("volume_type", "type:io2", {}, {"gp3": 2, "io2": 1, None: 1}),
        ("volume_type", "", {"prefix": "G"}, {"gp3": 2}),
        ("volume_type", "", {"prefix": "unk"}, {None: 1}),
        ("volume_type", "", {"limit": 1}, {"gp3": 2}),
        ("volume_count", "", {}, {1: 1, 4: 1, 16: 1, None: 1}),
        ("volume_count", "", {"prefix": "1"}, {1: 1, 16: 1}),
        ("block_size_bytes", "", {"prefix": "4"}, {4096: 4}),
        ("host", "", {}, {"db-01": 2, "web-1": 1}),
        ("host", "", {"prefix": "DB"}, {"db-01": 2}),
        ("pool", "", {}, {"db": 1}),
        ("pattern", "", {}, {"randread": 3, "randrw write": 1}),
        ("pattern", "", {"prefix": "randrw"}, {"randrw write": 1}),
        ("is_direct", "", {}, {True: 4}),
    ],
)
def test_values_are_counted_under_the_rest_of_the_filter(
    name: str, text: str, options: dict, found: dict, series: None
) -> None:
    assert counts(name, text, **options) == found


def test_numbers_come_in_order_and_text_by_how_many_have_it(series: None) -> None:
    assert list(counts("volume_count")) == [1, 4, 16, None]
    assert list(counts("volume_type")) == ["gp3", "io2", None]


def test_what_the_filter_names_is_chosen(series: None) -> None:
    facet = read_facet(DIMENSIONS["volume_type"], parse_filter("type:gp3,unknown -type:io2"))

    assert {one.value for one in facet.values if one.is_chosen} == {"gp3", None}


def test_values_take_one_query(series: None, django_assert_num_queries) -> None:
    with django_assert_num_queries(1):
        facet = read_facet(DIMENSIONS["volume_type"], parse_filter("host:*"), limit=1)

    assert (len(facet.values), facet.value_count) == (1, 2)


def test_values_of_excluded_runs_alone_are_no_choice(series: None) -> None:
    wrong, right = Series.objects.filter(scope="host:db-01").order_by("volume_count")
    for run in (wrong.measurements.get().run, Series.objects.get(scope="pool:db").measurements.get().run):
        exclude_run(run.pk, None, reason="wrong layout")
    exclude_run(right.measurements.get().run_id, None, reason="busy")
    include_run(right.measurements.get().run_id, None)

    assert counts("volume_count") == {4: 1, 16: 1}
    assert counts("host") == {"db-01": 1, "web-1": 1}
