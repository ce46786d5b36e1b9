"""What in a filter excludes everything, without a page."""

import itertools

import pytest
from django.db import connection

from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.series.read import dimension_values
from benchapp.series.read.dimension_values import Exclusion, find_exclusions, has_series
from tests.factories import make_host, make_series, make_target

pytestmark = pytest.mark.django_db


def test_filter_that_finds_something_excludes_nothing() -> None:
    make_series([1.0], host=make_host("db-01"))

    assert find_exclusions(parse_filter("host:db-01"), has_series) == ()
    assert find_exclusions(Filter(), has_series) == ()


def test_parts_that_exclude_by_themselves_are_all_named() -> None:
    make_series([1.0], host=make_host("db-01"), target=make_target(volume_type="gp3"))

    found = find_exclusions(parse_filter("host:db-02 type:gp2 depth:>=1 missing"), has_series)

    assert [each.parts for each in found] == [("host:db-02",), ("volume_type:gp2",), ("missing",)]
    assert found[1].instead == (("volume_type:gp3", "host:db-02 volume_type:gp3 iodepth:>=1 missing"),)


def test_fewest_parts_that_exclude_together_are_named() -> None:
    for kind, count in (("gp3", 1), ("gp3", 16), ("io2", 1)):
        make_series([1.0], target=make_target(volume_type=kind, volume_count=count))

    (found,) = find_exclusions(parse_filter("volumes:16 depth:>=1 -type:gp3 direction:read"), has_series)

    assert found == Exclusion(
        ("volume_count:16", "-volume_type:gp3"),
        (("volume_count:1", "volume_count:1 iodepth:>=1 -volume_type:gp3 direction:read"),),
    )


def test_label_of_a_word_is_suggested_unless_no_filter_can_name_it() -> None:
    run = make_series([1.0], host=make_host("db-01")).measurements.get().run
    run.labels = {"rack": "R1", "my rack": "r1", 'a"b': "r1", "": "r1"}
    run.save()

    (found,) = find_exclusions(parse_filter("r1"), has_series)

    assert found.instead == (("label.rack:r1", "label.rack:r1"),)


def test_explanation_of_many_parts_ends_with_its_time(monkeypatch) -> None:
    asked: list[Filter] = []
    monkeypatch.setattr(dimension_values, "monotonic", itertools.count().__next__)

    def finds(filter: Filter) -> bool:
        asked.append(filter)
        return filter == Filter()

    assert find_exclusions(parse_filter(" ".join(f"label.a{n}:1" for n in range(40))), finds) == ()
    assert len(asked) == 2


def test_slow_explanation_is_left_out_and_later_queries_have_their_own_limit(monkeypatch) -> None:
    make_series([1.0], host=make_host("db-01"))
    monkeypatch.setattr(dimension_values, "_STATEMENT_MAXIMUM_MS", 1)

    def wait(filter: Filter) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(60)")
        return True

    assert find_exclusions(parse_filter("host:db-02"), wait) == ()
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() != ("1ms",)
