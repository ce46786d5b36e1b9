"""Facts of the environment in filters: which runs, series, hosts, changes and values they select."""

from datetime import timedelta

import pytest

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.models import Change, Host, PlannedEvent, Run, Series
from benchapp.models.coverage import match_hosts
from benchapp.models.filtering import match_changes, match_runs, match_series
from benchapp.series.read.dimension_values import read_facet
from tests.factories import (
    NOON,
    make_change,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_series,
)
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

OLD = {"kernel": "5.15.0-91", "fio_version": "fio-3.33", "memory_bytes": 8 * 2**30}
NEW = {"kernel": "6.1.0-18", "fio_version": "fio-3.36", "memory_bytes": 16 * 2**30}


def run_in(series: Series, host: Host, facts: dict, *, day: int) -> Run:
    run = make_run(
        host,
        environment=make_environment(**facts),
        started_at=NOON + timedelta(days=day),
        target=series.target,
    )
    make_measurement(run, series, iops=100.0)
    return run


@shared_rows
def fleet() -> dict[str, Series]:
    """`upgraded` went from the old to the new kernel, `old` and `new` had one only, `silent` reports none."""
    made = {}
    for name, steps in {
        "upgraded": (OLD, NEW),
        "old": (OLD, OLD),
        "new": (NEW,),
        "silent": ({},),
    }.items():
        host = make_host(name)
        made[name] = make_series(host=host)
        for day, facts in enumerate(steps):
            run_in(made[name], host, facts, day=day)
    return made


def select(text: str, runs: str = "newest") -> set[str]:
    found = Series.objects.filter(match_series(parse_filter(text), runs=runs))
    return {scope.removeprefix("host:") for scope in found.values_list("scope", flat=True)}


@pytest.mark.parametrize(
    ("text", "newest", "any_run"),
    [
        ("kernel:6.1*", {"upgraded", "new"}, {"upgraded", "new"}),
        ("kernel:5.15*", {"old"}, {"upgraded", "old"}),
        ("kernel:5.15.0-91,6.1*", {"upgraded", "old", "new"}, {"upgraded", "old", "new"}),
        ("-kernel:6.1*", {"old", "silent"}, {"upgraded", "old", "silent"}),
        ("kernel:unknown", {"silent"}, {"silent"}),
        ("-kernel:unknown", {"upgraded", "old", "new"}, {"upgraded", "old", "new"}),
        ("kernel:5.15* fio:3.36", set(), set()),
        ("fio:3.36", {"upgraded", "new"}, {"upgraded", "new"}),
        ("fio:3.3*", {"upgraded", "old", "new"}, {"upgraded", "old", "new"}),
        ("fio:fio-3.33", {"old"}, {"upgraded", "old"}),
        ("memory:>8G", {"upgraded", "new"}, {"upgraded", "new"}),
        ("kernel:6.1* host:up*", {"upgraded"}, {"upgraded"}),
    ],
)
def test_series_are_selected_by_their_newest_or_by_any_run(
    text: str, newest: set[str], any_run: set[str], fleet: dict
) -> None:
    assert select(text) == newest
    assert select(text, "any") == any_run


@pytest.mark.parametrize(
    ("text", "count"),
    [("kernel:5.15*", 3), ("kernel:6.1*", 2), ("-kernel:6.1*", 4), ("fio:3.33 rw:randread", 3)],
)
def test_runs_are_selected_by_their_own_facts(text: str, count: int, fleet: dict) -> None:
    assert Run.objects.filter(match_runs(parse_filter(text))).count() == count


def test_run_filter_takes_one_more_query(fleet: dict, django_assert_num_queries) -> None:
    with django_assert_num_queries(2):
        list(Run.objects.filter(match_runs(parse_filter("kernel:5.15* fio:3.33"))))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kernel:6.1*", {"upgraded", "new"}),
        ("kernel:5.15* bs:4k", {"old"}),
        ("kernel:unknown", {"silent"}),
        ("host:up* kernel:5.15*", set()),
    ],
)
def test_hosts_are_selected_by_their_newest_run(text: str, names: set[str], fleet: dict) -> None:
    hosts = list(Host.objects.all())

    found = match_hosts(parse_filter(text), hosts)

    assert {host.name for host in hosts if host.pk in found} == names


def test_changes_are_selected_by_their_first_run(fleet: dict) -> None:
    run = Run.objects.get(host__name="upgraded", environment__kernel=NEW["kernel"])
    change = make_change(fleet["upgraded"], run=run, started_at=run.started_at)

    assert list(Change.objects.filter(match_changes(parse_filter("kernel:6.1* host:upgraded")))) == [change]
    assert not Change.objects.filter(match_changes(parse_filter("kernel:5.15*"))).exists()


def test_values_are_those_of_all_runs(fleet: dict, django_assert_num_queries) -> None:
    with django_assert_num_queries(1):
        facet = read_facet(DIMENSIONS["kernel"], parse_filter("kernel:5.15* bs:4k"))

    assert [(one.value, one.series_count) for one in facet.values] == [
        ("5.15.0-91", 2),
        ("6.1.0-18", 2),
        (None, 1),
    ]


@pytest.mark.parametrize(("prefix", "found"), [("3.36", ["fio-3.36"]), ("fio-3.3", ["fio-3.33", "fio-3.36"])])
def test_fio_versions_are_completed_with_and_without_the_program(
    prefix: str, found: list, fleet: dict
) -> None:
    facet = read_facet(DIMENSIONS["fio_version"], parse_filter(""), prefix=prefix)

    assert [one.value for one in facet.values] == found


def test_values_of_a_dimension_are_counted_under_a_fact(fleet: dict) -> None:
    facet = read_facet(DIMENSIONS["host"], parse_filter("kernel:5.15*"))

    assert {one.value for one in facet.values} == {"upgraded", "old"}


def test_misspelled_fact_is_refused_with_a_correction_and_the_available_names() -> None:
    with pytest.raises(
        BadFilter, match=r"Unknown filter 'kernal'\. Did you mean kernel\? Available: .*kernel, fio"
    ):
        parse_filter("kernal:6.1*")


def test_maintenance_cannot_be_limited_to_a_fact_of_runs() -> None:
    with pytest.raises(BadValue, match="kernel is a fact of runs"):
        EVENTS.check(PlannedEvent(kind="maintenance", filter="kernel:6.1*"))
