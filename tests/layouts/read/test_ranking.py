"""The ranking of measured layouts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import TestCase

from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_shapes import ScalingRequest
from benchapp.layouts.read.question import LayoutQuestion
from benchapp.layouts.read.ranking import LayoutRanking, rank_layouts
from benchapp.layouts.texts import describe_price
from benchapp.models import Host, Price, Series
from tests.factories import (
    NOON,
    add_measurements,
    calculate_levels,
    make_change,
    make_host,
    make_incident,
    make_price,
    make_runs,
    make_series,
    make_target,
    make_workload,
    note_measurements,
)
from tests.planted_layouts import plant_layouts

pytestmark = pytest.mark.django_db

ASKED = LayoutQuestion(Filter(), iops=20_000, p99_ms=3, capacity_gb=1000, block_size="4k")
LATER = NOON + timedelta(days=10)
GIB = 2**30


def list_names(ranking: LayoutRanking) -> list[tuple[str, str, int | None]]:
    return [(row.verdict, row.layout.volume_type or "", row.layout.volume_count) for row in ranking.rows]


class TestPlantedLayouts(TestCase):
    """One world for all: each test only reads, or is rolled back."""

    @classmethod
    def setUpTestData(cls) -> None:
        cls.series = plant_layouts()

    def test_cheapest_layout_that_meets_the_requirement_is_first(self) -> None:
        ranking = rank_layouts(ASKED, now=LATER)

        assert list_names(ranking)[:2] == [("meets", "gp3", 8), ("meets", "io2", 1)]
        best = ranking.rows[0]
        assert best.price_amount == pytest.approx(8 * 128 * 0.08 + 0.768 * 730)
        assert best.load.iodepth == 32
        assert best.assessment.margin == pytest.approx(23_500 * 0.992 / 20_000 - 1)
        assert best.price_per_1000_iops == pytest.approx((81.92 + 560.64) / 23.5)
        assert (best.load.n, best.load.last_at) == (3, NOON + timedelta(hours=2))
        assert ranking.rows[1].at_load is not None
        # At 21 000 IOPS, the least load above what is required.
        assert ranking.rows[1].at_load.iodepth == 8

    def test_layout_without_a_price_is_listed_separately(self) -> None:
        ranking = rank_layouts(ASKED, now=LATER)

        (unpriced,) = ranking.unpriced
        assert (unpriced.verdict, unpriced.layout.volume_type) == ("meets", "local")
        assert unpriced.price is not None
        assert unpriced.price.missing == "no price of volume type local"

    def test_layout_whose_instance_has_no_price_has_that_of_its_volumes(self) -> None:
        Price.objects.exclude(instance_type="").delete()
        Series.objects.filter(volume_count=1).update(instance_type=None)

        ranking = rank_layouts(replace(ASKED, max_price=100), now=LATER)

        assert ranking.rows == ()
        (gp3,) = [row for row in ranking.unpriced if row.layout.volume_size_bytes == 128 * 2**30]
        (io2,) = [row for row in ranking.unpriced if row.layout.volume_count == 1]
        assert (gp3.price_amount, gp3.least_price) == (None, pytest.approx(81.92))
        assert describe_price(gp3, "USD") == "USD 81.92 (volumes only)"
        # The instance costs something: the total may be above what is asked for, or is.
        assert (gp3.verdict, io2.verdict) == ("unknown", "misses")
        assert [row.price and row.price.missing for row in (gp3, io2)] == [
            "no price of instance type m5.4xlarge",
            "the instance type is unknown",
        ]

    def test_closest_miss_names_what_it_lacks(self) -> None:
        ranking = rank_layouts(replace(ASKED, iops=45_000, p99_ms=3.5), now=LATER)

        assert {row.verdict for row in ranking.rows} == {"misses"}
        closest = ranking.closest
        assert closest is not None
        assert (closest.layout.volume_type, closest.load.iodepth) == ("gp3", 64)
        assert [lack.name for lack in closest.assessment.lacks] == ["iops", "latency_p99_ns"]
        assert closest.assessment.lacks[0].shortfall == pytest.approx(1 - 40_000 * 0.992 / 45_000)

    def test_capacity_price_and_age_exclude_layouts(self) -> None:
        small = rank_layouts(replace(ASKED, capacity_gb=None), now=LATER)
        cheap = rank_layouts(replace(ASKED, max_price=600), now=LATER)
        old = rank_layouts(replace(ASKED, max_age_days=5), now=LATER)

        assert [row.layout.volume_size_bytes for row in small.rows[:2]] == [32 * 2**30, 128 * 2**30]
        assert [lack.name for lack in cheap.closest.assessment.lacks] == ["price"]  # type: ignore[union-attr]
        assert cheap.unpriced[0].verdict == "unknown"
        assert (old.all_rows, old.outdated_count) == ((), 12)

    def test_level_that_meets_at_its_median_only_is_a_verdict_of_its_own(self) -> None:
        ranking = rank_layouts(replace(ASKED, iops=23_450), now=LATER)

        assert ranking.rows[0].layout.volume_type == "io2"
        assert list_names(ranking)[1] == ("median-only", "gp3", 8)

    def test_without_prices_layouts_are_ranked_by_margin_and_all_in_one_list(self) -> None:
        Price.objects.all().delete()

        ranking = rank_layouts(replace(ASKED, capacity_gb=None), now=LATER)

        assert [row.layout.volume_type for row in ranking.rows[:2]] == ["local", "io2"]
        assert (ranking.unpriced, ranking.currency, ranking.rows[0].price) == ((), "", None)

    def test_dimension_that_may_not_vary_has_one_value_and_the_others_are_counted(self) -> None:
        vary = tuple(name for name in ASKED.vary if name != "volume_type")

        ranking = rank_layouts(replace(ASKED, vary=vary), now=LATER)

        assert {row.layout.volume_type for row in ranking.all_rows} == {"gp3"}
        assert [fixed.dimension for fixed in ranking.fixed] == ["volume_type"]
        assert ranking.hidden_count == 3
        named = rank_layouts(replace(ASKED, vary=vary, filter=parse_filter("type:io2")), now=LATER)
        assert {row.layout.volume_type for row in named.all_rows} == {"io2"}

    def test_open_incident_of_the_deciding_load_is_named(self) -> None:
        deciding = rank_layouts(ASKED, now=LATER).rows[0].load.series_ids[0]
        series = next(each for each in self.series if each.pk == deciding)
        incident = make_incident(changes=[make_change(series)])

        assert rank_layouts(ASKED, now=LATER).rows[0].incident_ids == (incident.pk,)

    def test_front_has_no_layout_that_another_one_beats_in_price_and_throughput(self) -> None:
        ranking = rank_layouts(ASKED, now=LATER)

        front = [
            (row.layout.volume_count, row.layout.volume_size_bytes // 2**30)  # type: ignore[operator]
            for row in ranking.rows
            if row.is_on_front
        ]
        assert (8, 32) in front
        assert (4, 256) not in front

    def test_number_of_queries_does_not_depend_on_the_layouts(self) -> None:
        with self.assertNumQueries(5):
            # The sample; more read columns beside Django's cursor.
            rank_layouts(ASKED, now=LATER)


def test_what_may_not_vary_has_one_value_that_is_named_and_layouts_with_others_are_ranked_apart() -> None:
    for volume_type, count, stripes, share in (
        ("gp3", 4, 4, 90),
        ("gp3", 8, 8, 90),
        ("gp3", 8, 2, 90),
        ("io2", 8, 8, 50),
    ):
        target = make_target(volume_type=volume_type, volume_count=count, stripe_count=stripes)
        workload = make_workload(rw="randrw", read_share_percent=share)
        for direction in ("read", "write"):
            make_series([5000.0], target=target, workload=workload, direction=direction)
    calculate_levels()

    ranking = rank_layouts(
        LayoutQuestion(Filter(), pattern="randrw", iops=9000, vary=("volume_type", "stripe_count"))
    )

    assert {fixed.dimension: fixed.values for fixed in ranking.fixed} == {"volume_count": (8,)}
    assert list_names(ranking) == [("meets", "gp3", 8), ("meets", "gp3", 8), ("meets", "io2", 8)]
    assert [row.load.read_share_percent for row in ranking.rows] == [90, 90, 50]
    assert (ranking.series_count, ranking.hidden_count) == (6, 2)
    assert [row.layout.volume_count for row in ranking.elsewhere] == [4]


def test_layout_that_does_not_state_what_is_fixed_is_ranked_and_says_so() -> None:
    for stripes in (8, 8, 4, None):
        target = make_target(volume_type="gp3", volume_count=8, stripe_count=stripes)
        make_series([5000.0], host=make_host(), target=target)
    calculate_levels()

    ranking = rank_layouts(LayoutQuestion(Filter(), iops=4000, vary=("volume_type",)))

    assert {fixed.dimension: fixed.values for fixed in ranking.fixed} == {"stripe_count": (8, None)}
    assert [row.layout.title for row in ranking.rows] == [
        "8 × gp3, 8 stripes",
        "8 × gp3, unknown stripes",
    ]
    assert [row.layout.stripe_count for row in ranking.elsewhere] == [4]


def test_series_that_are_too_old_do_not_choose_the_fixed_values() -> None:
    for days, block_size, depths in ((9, 4096, (1, 2, 4)), (0, 65_536, (1,))):
        for depth in depths:
            workload = make_workload(block_size_bytes=block_size, iodepth=depth)
            make_series([1000.0], start_at=NOON + timedelta(days=9 - days), workload=workload)
    calculate_levels()

    ranking = rank_layouts(LayoutQuestion(Filter(), iops=100, max_age_days=5), now=LATER)

    assert (len(ranking.rows), ranking.series_count, ranking.fixed) == (1, 1, ())
    assert (ranking.outdated_count, ranking.hidden_count) == (3, 0)


def test_mixed_pattern_adds_both_directions_and_takes_the_larger_latency() -> None:
    host, target = make_host(), make_target(volume_type="gp3", volume_count=1)
    workload = make_workload(rw="randrw", read_share_percent=70)
    values: dict[str, dict[str, Any]] = {
        "read": {"iops": 7000.0, "latency_p99_ns": 1e6},
        "write": {"iops": 3000.0, "latency_p99_ns": 2e6},
        # The total of the mix is measured, too, and counts once.
        "mixed": {"iops": 10_000.0, "latency_p99_ns": 9e6},
    }
    runs = make_runs(host, [NOON], target=target)
    for direction, numbers in values.items():
        series = make_series(host=host, target=target, workload=workload, direction=direction)
        add_measurements(series, runs, [numbers])
        note_measurements(series)
    calculate_levels()

    ranking = rank_layouts(LayoutQuestion(Filter(), pattern="randrw", read_share=70, iops=9000))

    (row,) = ranking.rows
    assert (row.verdict, row.load.levels.iops.median, row.load.levels.latency_p99_ns.p90) == (
        "meets",
        10_000,
        2e6,
    )  # type: ignore[union-attr]
    assert (row.load.n, len(row.load.series_ids)) == (1, 2)
    assert rank_layouts(LayoutQuestion(Filter(), pattern="randrw", read_share=50, iops=9000)).rows == ()


def test_latency_of_a_mix_is_the_larger_one_of_each_percentile() -> None:
    host, target = make_host(), make_target()
    runs = make_runs(host, [NOON + timedelta(hours=hour) for hour in range(3)], target=target)
    for direction, latencies in (("read", (3e6, 3e6, 3e6)), ("write", (1e6, 1e6, 9e6))):
        workload = make_workload(rw="randrw", read_share_percent=70)
        series = make_series(host=host, target=target, workload=workload, direction=direction)
        add_measurements(series, runs, [{"iops": 1000.0, "latency_p99_ns": each} for each in latencies])
        note_measurements(series)
    calculate_levels()

    (row,) = rank_layouts(LayoutQuestion(Filter(), pattern="randrw", iops=100)).rows

    level = row.load.levels.latency_p99_ns
    assert level is not None
    assert (level.median, level.p10) == (3e6, 3e6)
    assert level.p90 == pytest.approx(7.4e6)


def test_several_hosts_are_mixed_as_on_scaling() -> None:
    target, workload = make_target(volume_type="gp3", volume_count=1), make_workload()
    for name, values in (
        ("db-1", [900.0, 1000.0, 1100.0]),
        ("db-2", [1900.0, 2000.0, 2100.0]),
        ("db-3", [4000.0]),
    ):
        make_series(values, host=make_host(name), target=target, workload=workload)
    calculate_levels()

    levels = rank_layouts(LayoutQuestion(Filter(), iops=100)).rows[0].load.levels.iops

    chart = read_scaling(ScalingRequest(parse_filter("rw:randread"), x="volume_count", free=("host",)))
    names = ("median", "p10", "p90", "n", "last_at")
    assert [getattr(levels, name) for name in names] == [getattr(chart.cells[0], name) for name in names]


def plant_level(
    iops: float,
    *,
    host: str = "db-01",
    size_gib: int = 100,
    target: dict[str, Any] | None = None,
    **work: Any,
) -> Series:
    """Make three runs of one level of a priced layout: 4k random reads of 5 GiB files unless given otherwise."""
    layout = make_target(
        **{"volume_type": "gp3", "volume_count": 1, "volume_size_bytes": size_gib * GIB} | (target or {})
    )
    workload = make_workload(**{"file_size_bytes": 5 * GIB} | work)
    found = Host.objects.filter(name=host).first() or make_host(host)
    series = make_series(host=found, target=layout, workload=workload)
    runs = make_runs(found, [NOON + timedelta(hours=hour) for hour in range(3)], target=layout)
    size = workload.block_size_bytes or 0
    add_measurements(series, runs, [{"iops": iops, "bandwidth_bytes_per_s": iops * size}] * 3)
    note_measurements(series)
    calculate_levels([series.pk])
    return series


def ask(**options: Any) -> LayoutRanking:
    return rank_layouts(LayoutQuestion(**{"filter": Filter(), "price_of": "volumes", **options}), now=LATER)


class TestNothingIsFixed:
    """What was measured with another file size, block size or depth counts, and is named."""

    @pytest.fixture(autouse=True)
    def prices(self, db: None) -> None:
        make_price()

    def test_layout_that_was_measured_with_another_file_size_meets_the_requirement(self) -> None:
        for count in (1, 2, 4):
            plant_level(25_500.0 * count, target={"volume_count": count})
        plant_level(216_000.0, target={"volume_count": 8}, file_size_bytes=20 * GIB)

        ranking = ask(iops=100_000)

        assert [names for names in list_names(ranking) if names[0] == "meets"] == [
            ("meets", "gp3", 4),
            ("meets", "gp3", 8),
        ]
        assert {row.load.file_size_bytes for row in ranking.rows} == {5 * GIB, 20 * GIB}
        assert (ranking.fixed, ranking.hidden_count) == ((), 0)

    def test_cheapest_layout_is_first_whatever_file_size_it_was_measured_with(self) -> None:
        for size_gib in (1000, 2000, 3000):
            plant_level(2900.0, size_gib=size_gib)
        cheap = plant_level(2500.0, size_gib=500, file_size_bytes=20 * GIB, iodepth=16)

        best = ask(iops=2000).rows[0]

        assert (best.load.series_ids, best.price_amount) == ((cheap.pk,), pytest.approx(500 * 0.08))

    def test_throughput_is_that_of_the_block_size_with_the_highest_one(self) -> None:
        for count in range(1, 12):
            plant_level(20_000.0, target={"volume_count": count}, rw="read")
            plant_level(20_000.0, target={"volume_count": count}, rw="read", iodepth=32)
            plant_level(600.0 + count, target={"volume_count": count}, rw="read", block_size_bytes=2**20)

        ranking = ask(mb_per_s=500, pattern="read")

        assert ranking.count("meets") == 11
        assert {row.load.block_size_bytes for row in ranking.rows} == {2**20}
        assert ranking.varying == ("block_size_bytes",)

    def test_buffered_reads_do_not_count_where_direct_ones_were_measured(self) -> None:
        plant_level(5000.0)
        plant_level(900_000.0, is_direct=False)
        plant_level(700_000.0, size_gib=200, is_direct=False)

        ranking = ask(iops=100_000)

        assert [(row.verdict, row.load.is_direct) for row in ranking.rows] == [
            ("meets", False),
            ("misses", True),
        ]
        assert [(each.dimension, each.values) for each in ranking.fixed] == [("is_direct", (False, True))]
        assert [row.load.levels.iops.median for row in ranking.elsewhere] == [900_000.0]  # type: ignore[union-attr]

    def test_price_of_zero_is_a_price(self) -> None:
        make_price(volume_type="local", per_gib_month=0)
        plant_level(30_000.0, target={"volume_type": "local"})
        plant_level(30_000.0)

        ranking = ask(iops=20_000, max_price=0)

        assert [(row.verdict, row.price_amount) for row in ranking.rows] == [
            ("meets", 0.0),
            ("misses", 8 + 27_000 * 0.005),
        ]


class TestOneBrokenHost:
    @pytest.fixture(autouse=True)
    def fleet(self, db: None) -> None:
        make_price()
        for number in range(5):
            plant_level(25_000.0, host=f"db-0{number}")

    def break_hosts(self, *names: str) -> None:
        for name in names:
            series = plant_level(9000.0, host=name)
            make_incident(changes=[make_change(series)])

    def test_its_open_regression_does_not_decide_and_is_marked(self) -> None:
        self.break_hosts("db-09")

        (row,) = ask(iops=20_000).rows

        assert (row.verdict, row.verdict_with_all, row.left_out) == ("meets", "median-only", 1)
        assert (len(row.load.series_ids), len(row.incident_ids)) == (5, 1)

    def test_regression_of_half_of_the_hosts_decides(self) -> None:
        self.break_hosts(*(f"db-1{number}" for number in range(5)))

        (row,) = ask(iops=20_000).rows

        assert (row.verdict, row.left_out, len(row.load.series_ids)) == ("misses", 0, 10)
        assert len(row.incident_ids) == 5
