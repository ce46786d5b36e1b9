"""Two sides: what is matched, what is left over, and what matters first."""

from datetime import timedelta

import pytest

from benchapp.catalog.grammar import parse_filter
from benchapp.charts.read import comparison as module
from benchapp.charts.read import comparison_sides as sides_module
from benchapp.charts.read.comparison import Side, compare_sides
from benchapp.charts.texts.comparison import describe_result
from benchapp.judge import judge_due
from benchapp.models import Level, PlannedEvent, PlannedEventKind, Series
from tests.detection.write.judging import make_cells, make_level
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_environment,
    make_host,
    make_measurement,
    make_run,
    make_target,
    make_workload,
)

pytestmark = pytest.mark.django_db

_STEADY = [100, 101, 99, 100, 102, 98]
_LOWER = [80, 81, 79, 80, 82, 78]


def side(text: str) -> Side:
    return Side(parse_filter(text))


def test_two_hosts_are_matched_on_all_else(django_assert_max_num_queries) -> None:
    fast, slow = make_host("fast"), make_host("slow")
    for host, values in ((fast, _STEADY), (slow, _LOWER)):
        add_series(values, host=host)
        add_series(_STEADY, host=host, workload=make_workload(iodepth=32))
    add_series(_STEADY, host=slow, workload=make_workload(iodepth=64))

    with django_assert_max_num_queries(11):
        found = compare_sides(side("host:fast"), side("host:slow"))

    first, second = found.pairs
    assert (first.comparison.ratio, first.is_significant, first.is_worse) == (0.8, True, True)
    assert (second.comparison.ratio, second.is_significant, second.is_worse) == (1, False, None)
    assert [unmatched.title.split(" · ")[1] for unmatched in found.only_b] == ["QD 64 × 1 job"]
    assert (found.only_a, found.free) == ((), ("scope",))


def test_two_layouts_leave_open_what_moves_with_them() -> None:
    host = make_host()
    add_series(_STEADY, host=host, target=make_target(volume_count=1))
    add_series(
        [4 * value for value in _STEADY],
        host=host,
        target=make_target(volume_count=4, raid_level="raid0", stripe_count=4),
    )

    found = compare_sides(side("volume_count:1"), side("volume_count:4"))

    assert [pair.comparison.ratio for pair in found.pairs] == [4]
    assert found.pairs[0].is_worse is False
    assert found.free == ("volume_count", "raid_level", "stripe_count")


def test_two_layouts_on_drives_of_a_host_are_compared_whatever_their_names() -> None:
    host = make_host()
    for name, volume_type, values in (("nvme0n1", "gp3", _STEADY), ("sda", "io2", _LOWER)):
        add_series(values, host=host, target=make_target(target_name=name, volume_type=volume_type))

    found = compare_sides(side("type:gp3"), side("type:io2"))

    assert [pair.comparison.ratio for pair in found.pairs] == [0.8]
    assert (found.only_a, found.only_b) == ((), ())
    assert set(found.free) == {"target_name", "volume_type"}


def test_layouts_with_drives_of_equal_names_are_matched_by_name() -> None:
    host = make_host()
    for name, values in (("nvme0n1", _STEADY), ("sda", _LOWER)):
        for filesystem in ("xfs", "ext4"):
            add_series(values, host=host, target=make_target(target_name=name, filesystem=filesystem))

    found = compare_sides(side("filesystem:xfs"), side("filesystem:ext4"))

    assert [pair.comparison.ratio for pair in found.pairs] == [1, 1]


def test_two_periods_compare_each_series_with_itself() -> None:
    add_series([*_STEADY, *_LOWER])
    turn = NOON.replace(hour=18)

    found = compare_sides(Side(to_at=turn), Side(from_at=turn))

    assert [(pair.comparison.a.n, pair.comparison.b.n, pair.comparison.ratio) for pair in found.pairs] == [
        (6, 6, 0.8)
    ]
    assert found.pairs[0].a_ids == found.pairs[0].b_ids


def test_loss_that_all_series_have_in_common_is_clear_in_few_runs() -> None:
    """Three runs a day of each of two layouts: none is decided alone, their pattern is."""
    host = make_host()
    for count in (1, 2):
        for depth in (1, 2):
            add_series(
                [100, 103, 97, 90, 87, 93],
                host=host,
                target=make_target(volume_count=count),
                workload=make_workload(iodepth=depth),
            )
    turn = NOON.replace(hour=15)

    found = compare_sides(Side(to_at=turn), Side(from_at=turn), metrics=["iops"])

    assert {(pair.comparison.b.n, pair.is_significant) for pair in found.pairs} == {(3, False)}
    assert {(pair.verdict, pair.evidence) for pair in found.pairs} == {("worse", "pattern")}


def test_two_runs_are_seen_against_what_is_usual() -> None:
    host = make_host()
    series = add_series([100, 90], host=host)
    first, second = series.measurements.order_by("id").values_list("run_id", flat=True)
    Level.objects.filter(series=series).update(n=30, median=100, p10=88, p90=110)

    (pair,) = compare_sides(Side(run_id=first), Side(run_id=second)).pairs

    assert (pair.comparison.ratio, pair.comparison.p, pair.is_significant) == (0.9, None, False)
    assert (pair.usual, pair.is_usual) == ((0.88, 1.1), True)


def test_failed_and_excluded_runs_are_in_no_median() -> None:
    host = make_host()
    series = add_series([*_STEADY, *_STEADY], host=host)
    for fields in ({"error": 5}, {"is_excluded": True}):
        make_measurement(make_run(host, started_at=NOON), series, iops=1.0, **fields)
    calculate_levels()

    (pair,) = compare_sides(Side(), Side()).pairs

    assert (pair.comparison.a.n, pair.comparison.a.p10) == (12, 98.1)


def test_what_differs_in_the_environment_stands_beside() -> None:
    host = make_host()
    series = add_series([], host=host)
    for kernel, hour in (("5.15", 1), ("5.15", 2), ("6.1", 13), ("6.1", 14)):
        run = make_run(
            host, environment=make_environment(kernel=kernel, os="Debian"), started_at=NOON.replace(hour=hour)
        )
        make_measurement(run, series, iops=100.0)

    found = compare_sides(Side(to_at=NOON), Side(from_at=NOON))

    assert [(line.name, line.a, line.b) for line in found.environment] == [("kernel", ("5.15",), ("6.1",))]


def test_environment_is_that_of_the_compared_runs() -> None:
    for name, hours in (("both", (1, 13)), ("only before", (1, 20))):
        host = make_host(name)
        series = add_series([], host=host)
        for hour in hours:
            environment = make_environment(kernel="6.1" if name == "both" else "5.15")
            run = make_run(host, environment=environment, started_at=NOON.replace(hour=hour))
            make_measurement(run, series, iops=100.0)

    found = compare_sides(Side(to_at=NOON), Side(from_at=NOON, to_at=NOON.replace(hour=18)))

    assert ([pair.a_scopes for pair in found.pairs], found.environment) == ([("host:both",)], ())
    assert found.scopes == (("host:both",), ("host:both",))


def test_zone_that_only_the_newer_runs_tell_is_no_difference() -> None:
    host = make_host()
    series = add_series([], host=host)
    for facts, hour in (({}, 1), ({"time_zone": "Europe/Berlin"}, 13)):
        run = make_run(host, environment=make_environment(facts=facts), started_at=NOON.replace(hour=hour))
        make_measurement(run, series, iops=100.0)

    assert compare_sides(Side(to_at=NOON), Side(from_at=NOON)).environment == ()


def test_sides_without_anything_in_common_are_told_apart() -> None:
    add_series(_STEADY, host=make_host("one"), workload=make_workload(rw="read"))
    add_series(_STEADY, host=make_host("two"), workload=make_workload(rw="write"), direction="write")

    found = compare_sides(side("host:one"), side("host:two"))

    assert (found.pairs, len(found.only_a), len(found.only_b)) == ((), 1, 1)


def test_sides_of_many_series_compare_the_newest_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fast", "slow"):
        host = make_host(name)
        for depth in (1, 2):
            add_series([900.0, *_STEADY], host=host, workload=make_workload(iodepth=depth))
    complete = compare_sides(side("host:fast"), side("host:slow"), metrics=["iops"])
    monkeypatch.setattr(sides_module, "ROWS_MAXIMUM", 2 * len(_STEADY))

    cut = compare_sides(side("host:fast"), side("host:slow"), metrics=["iops"])

    assert (complete.values_maximum, cut.values_maximum) == (None, len(_STEADY))
    assert {pair.comparison.a.n for pair in complete.pairs} == {len(_STEADY) + 1}
    assert {pair.comparison.a.n for pair in cut.pairs} == {len(_STEADY)}


def test_no_more_values_are_compared_than_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPARED_MAXIMUM", 5)
    for name in ("fast", "slow"):
        host = make_host(name)
        for depth in (1, 2, 4):
            add_series(_STEADY, host=host, workload=make_workload(iodepth=depth))

    found = compare_sides(side("host:fast"), side("host:slow"), metrics=["iops", "latency_p99_ns"])

    assert (len(found.pairs), found.is_cut) == (2, True)
    assert not compare_sides(side("host:fast"), side("host:slow"), metrics=["iops"]).is_cut


@pytest.mark.parametrize(
    ("values", "result"),
    [
        # ln(90 006 / 8 998) is 2.30, ln(p90 / p10) of the sides 0.0004 and 0.0001.
        ([90_006, 89_996, 90_007], ("better, few runs", "better")),
        # p10 75 000 and p90 105 000: ln 1.4 is 0.34, and ten times that is above ln 10 = 2.30.
        ([90_000, 71_250, 108_750], ("not decided: 3 runs a side", "none")),
        ([90_006, 89_996], ("not decided: 3 and 2 runs", "none")),
        # 2 %, below the smallest change of IOPS.
        ([9_178, 9_178, 9_179], ("not decided: 3 runs a side", "none")),
    ],
)
def test_few_runs_are_better_only_if_clearly_apart(values: list[int], result: tuple[str, str]) -> None:
    host = make_host()
    add_series([8_998, 8_997, 9_001], host=host, target=make_target(volume_type="gp3"))
    add_series(values, host=host, target=make_target(volume_type="io2"))

    (pair,) = compare_sides(side("type:gp3"), side("type:io2")).pairs

    assert (describe_result(pair), pair.is_significant) == (result, False)


def test_runs_that_reached_nothing_are_not_few() -> None:
    for name, values in (("fast", _STEADY), ("slow", [0.0] * 6)):
        add_series(values, host=make_host(name))

    (pair,) = compare_sides(side("host:fast"), side("host:slow")).pairs

    assert (pair.comparison.low, pair.has_few_runs) == (None, False)
    assert describe_result(pair) == ("not decided: values of 0", "none")


def test_sides_without_a_period_are_the_current_levels_without_maintenance() -> None:
    start_at = NOON - timedelta(hours=34)
    for name, level in (("fast", 1000.0), ("slow", 780.0)):
        values = make_level(1000.0, 24) + make_level(level, 10)
        make_cells(make_host(name), [values], start_at=start_at)
    judge_due()
    PlannedEvent.objects.create(
        kind=PlannedEventKind.MAINTENANCE,
        filter="host:slow",
        from_at=NOON - timedelta(minutes=90),
        to_at=NOON,
        reason="firmware",
        created_at=NOON,
    )
    Series.objects.update(judging_is_due=True)
    judge_due()

    (pair,) = compare_sides(side("host:fast"), side("host:slow")).pairs

    level = Level.objects.get(series__scope="host:slow", metric="iops", is_current=True)
    assert (pair.comparison.a.n, pair.comparison.b.n, level.n) == (34, 9, 9)
    assert pair.comparison.b.median == level.median
