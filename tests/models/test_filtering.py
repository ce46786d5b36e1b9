"""Series and runs by a filter, on real rows."""

import pytest

from benchapp.catalog.grammar import parse_filter
from benchapp.models import Run, Series
from benchapp.models.filtering import match_runs, match_series
from tests.factories import make_host, make_measurement, make_run, make_series, make_target, make_workload
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


def found(text: str) -> set[str]:
    """Return the target names of the series that a filter leaves."""
    series = Series.objects.filter(match_series(parse_filter(text)))
    return {str(name) for name in series.values_list("target_name", flat=True)}


@shared_rows
def layouts() -> None:
    """Make four series that differ in layout, workload and scope; `d` knows nothing of its layout."""
    make_series(
        host=make_host("db-01"),
        target=make_target(
            target_name="a", filesystem="xfs", volume_type="gp3", volume_count=1, volume_size_bytes=20 * 2**30
        ),
    )
    make_series(
        host=make_host("db-02"),
        target=make_target(
            target_name="b",
            filesystem="ext4",
            volume_type="io2",
            volume_count=4,
            volume_size_bytes=200 * 2**30,
        ),
        workload=make_workload(rw="randrw", block_size_bytes=16384),
    )
    make_series(
        pool="db",
        target=make_target(target_name="c", filesystem="", volume_type="gp_3", volume_count=16),
        workload=make_workload(rw="randrw", iodepth=None, is_direct=False),
        direction="write",
    )
    make_series(
        host=make_host("web%1"),
        target=make_target(target_name="d"),
        workload=make_workload(rw="randwrite", is_direct=None),
        direction="sync",
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "abcd"),
        ("host:db-01", "a"),
        ("host:db-01,db-02", "ab"),
        ("host:DB-*", "ab"),
        ("host:*", "abd"),
        ("host:web%*", "d"),
        ("host:d_-*", ""),
        ("host:.*", ""),
        ("pool:db", "c"),
        ("pool:*", "c"),
        ("host:db-01 pool:db", "ac"),
        ("host:db-* host:*2", "b"),
        ("-host:db-01", "bcd"),
        ("-pool:db", "abd"),
        ("-host:db-01 -pool:db", "bd"),
        ("host:unknown", "c"),
        ("pool:unknown", "abd"),
        ("type:gp3", "a"),
        ("type:GP3", "a"),
        ("pool:DB", "c"),
        ("host:DB-01", "a"),
        ("type:gp*3", "ac"),
        ("type:gp_3", "c"),
        ("type:gp?*", ""),
        ("type:gp3,io2", "ab"),
        ("fs:xfs", "a"),
        ("-fs:xfs", "bcd"),
        ("-fs:x*", "bcd"),
        ("-fs:xfs,ext4", "cd"),
        ("fs:unknown", "cd"),
        ("-fs:unknown", "ab"),
        ("fs:xfs,unknown", "acd"),
        ("volumes:4", "b"),
        ("volumes:>=4", "bc"),
        ("volumes:>4", "c"),
        ("volumes:<4", "a"),
        ("volumes:<=4", "ab"),
        ("volumes:1..4", "ab"),
        ("-volumes:1..4", "cd"),
        ("-volumes:>=4", "ad"),
        ("volumes:unknown", "d"),
        ("volumes:4000000000000", ""),
        ("volumes:<4000000000000", "abc"),
        ("-volumes:4000000000000", "abcd"),
        ("volume_size:20G", "a"),
        ("volume_size:<1T", "ab"),
        ("bs:4k", "acd"),
        ("bs:16k", "b"),
        ("depth:unknown", "c"),
        ("direct:yes", "ab"),
        ("direct:no", "c"),
        ("-direct:yes", "cd"),
        ("direct:unknown", "d"),
        ("pattern:randread", "a"),
        ("pattern:randrw", "bc"),
        ('pattern:"randrw write"', "c"),
        ('pattern:"randwrite sync"', "d"),
        ("pattern:randwrite", ""),
        ("pattern:rand*", "abcd"),
        ('pattern:rand*" write"', "c"),
        ('-pattern:"randrw write"', "abd"),
        ("rw:randwrite", "d"),
        ("direction:write,sync", "cd"),
        ("gp3", "a"),
        ("GP", "ac"),
        ("rand write", ""),
        ("direction:write,sync rand", "cd"),
        ("%", "d"),
        ("_", "c"),
        ("db type:gp3", "a"),
    ],
)
def test_filter_leaves_what_fits(text: str, names: str, layouts: None) -> None:
    assert found(text) == set(names)


@pytest.mark.parametrize("name", ["100%", "a_b", "a.b", "a\\b", "a'b", 'a"b', "a(b", "a*b"])
def test_signs_of_sql_and_of_patterns_stand_for_themselves(name: str) -> None:
    make_series(target=make_target(target_name=name))
    make_series(target=make_target(target_name="axb"))
    written = '"{}"'.format(name.replace('"', '""'))

    assert found(f"target:{written}") == {name}
    if "*" not in name:
        assert found(f"target:*{written}*") == {name}


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", {"db-01", "db-02"}),
        ("host:db-01", {"db-01"}),
        ("host:db-*", {"db-01", "db-02"}),
        ("pool:blue", {"db-02"}),
        ("host:db-01 pool:blue", set()),
        ("pool:unknown", {"db-01"}),
        ("type:gp3", {"db-01"}),
        ("-type:gp3", {"db-02"}),
        ("rw:randwrite", {"db-02"}),
        ("rw:randwrite depth:8", {"db-02"}),
        ("rw:randwrite depth:1", set()),
        ("rw:randread,randwrite", {"db-01", "db-02"}),
        ("-rw:randread", {"db-02"}),
        ("rw:trim", set()),
    ],
)
@pytest.mark.parametrize("rare", [0, 200])
def test_runs_fit_by_their_host_their_layout_and_one_of_their_measurements(
    text: str, hosts: set[str], rare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchapp.models.filtering._RARE_SERIES", rare)
    make_measurement(make_run(make_host("db-01"), target=make_target(volume_type="gp3")))
    second = make_run(make_host("db-02", pool="blue"))
    make_measurement(second, make_series(pool="blue", workload=make_workload(iodepth=1)))
    make_measurement(second, make_series(pool="blue", workload=make_workload(rw="randwrite")))

    runs = Run.objects.filter(match_runs(parse_filter(text)))

    assert set(runs.values_list("host__name", flat=True)) == hosts


def test_what_is_said_of_the_workload_costs_one_query_more(django_assert_num_queries) -> None:
    make_measurement(make_run())

    with django_assert_num_queries(1):
        match_runs(parse_filter("host:a type:gp3 rw:randread bs:4k"))
