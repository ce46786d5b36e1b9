"""The ranking of measured layouts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import TestCase

from benchapp.charts.texts.layouts import describe_price
from benchapp.grammar import Filter, parse_filter
from benchapp.models import Price, Series
from benchapp.queries.charts.scaling import read_scaling
from benchapp.queries.charts.scaling_shapes import ScalingRequest
from benchapp.queries.layouts.question import LayoutQuestion
from benchapp.queries.layouts.ranking import LayoutRanking, rank_layouts
from tests.factories import (
    NOON,
    add_measurements,
    calculate_levels,
    make_change,
    make_host,
    make_incident,
    make_runs,
    make_series,
    make_target,
    make_workload,
    note_measurements,
)
from tests.layouts import plant_layouts
from tests.mixes import PURE, plant_mixes

ASKED = LayoutQuestion(Filter(), iops=20_000, p99_ms=3, capacity_gb=1000, block_size="4k")
LATER = NOON + timedelta(days=10)


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
        with self.assertNumQueries(3):
            # More read columns beside Django's cursor.
            rank_layouts(ASKED, now=LATER)


@pytest.mark.django_db
def test_read_share_and_what_may_not_vary_have_one_value_that_is_named() -> None:
    # No cell of the layouts that may vary has two read shares, or two numbers of volumes.
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

    assert {fixed.dimension: fixed.values for fixed in ranking.fixed} == {
        "read_share_percent": (90,),
        "volume_count": (8,),
    }
    assert list_names(ranking) == [("meets", "gp3", 8), ("meets", "gp3", 8)]
    assert (ranking.series_count, ranking.hidden_count) == (4, 4)


@pytest.mark.django_db
def test_series_that_are_too_old_do_not_choose_the_fixed_values() -> None:
    for days, block_size, depths in ((9, 4096, (1, 2, 4)), (0, 65_536, (1,))):
        for depth in depths:
            workload = make_workload(block_size_bytes=block_size, iodepth=depth)
            make_series([1000.0], start_at=NOON + timedelta(days=9 - days), workload=workload)
    calculate_levels()

    ranking = rank_layouts(LayoutQuestion(Filter(), iops=100, max_age_days=5), now=LATER)

    assert (len(ranking.rows), ranking.series_count, ranking.fixed) == (1, 1, ())
    assert (ranking.outdated_count, ranking.hidden_count) == (3, 0)


@pytest.mark.django_db
def test_mixed_pattern_adds_both_directions_and_takes_the_larger_latency() -> None:
    host, target = make_host(), make_target(volume_type="gp3", volume_count=1)
    workload = make_workload(rw="randrw", read_share_percent=70)
    values: dict[str, dict[str, Any]] = {
        "read": {"iops": 7000.0, "latency_p99_ns": 1e6},
        "write": {"iops": 3000.0, "latency_p99_ns": 2e6},
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


@pytest.mark.django_db
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


@pytest.mark.django_db
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
    assert levels == chart.facets[0].lines[0].cells[0].spread


def rank_mixes(**options: Any) -> LayoutRanking:
    asked = {"iops": 15_000, "pattern": "randrw", "read_share": 50, "mixes": "interpolated", **options}
    return rank_layouts(LayoutQuestion(**{"filter": Filter(), **asked}), now=LATER)


@pytest.mark.django_db
class TestInterpolatedMixes:
    def test_layout_without_this_mix_is_estimated_and_marked(self) -> None:
        plant_mixes(PURE)

        (row,) = rank_mixes().rows

        assert (row.verdict, row.load.between) == ("meets", (0, 100))
        assert row.load.levels.iops is not None
        assert row.load.levels.iops.median == pytest.approx(16_000)
        assert row.assessment.margin == pytest.approx(16_000 * 0.992 / 15_000 - 1)
        assert row.load.levels.bandwidth_bytes_per_s is not None
        assert (row.load.n, len(row.load.series_ids)) == (3, 2)
        assert rank_mixes(mixes="measured").rows == ()

    def test_p99_latency_of_an_interpolated_mix_is_unknown(self) -> None:
        plant_mixes(PURE)

        (row,) = rank_mixes(p99_ms=5).rows

        assert (row.verdict, [lack.value for lack in row.assessment.lacks]) == ("unknown", [None])

    def test_measured_mix_is_preferred_to_an_estimate_of_another_load(self) -> None:
        plant_mixes({50: 15_500.0})
        plant_mixes({100: 90_000.0, 0: 80_000.0}, depth=64)

        (row,) = rank_mixes().rows

        assert (row.load.between, row.load.iodepth) == (None, 8)

    def test_measured_layout_comes_before_an_interpolated_one_of_the_same_value(self) -> None:
        plant_mixes(PURE, target={"volume_type": "a"})
        plant_mixes({50: 16_000.0}, target={"volume_type": "b"})

        rows = rank_mixes().rows

        assert [(row.layout.volume_type, row.load.between) for row in rows] == [("b", None), ("a", (0, 100))]

    def test_neighboring_mixes_are_used_and_nothing_is_extrapolated(self) -> None:
        plant_mixes({100: 40_000.0, 70: 20_000.0, 30: 18_000.0})

        (row,) = rank_mixes().rows

        assert row.load.between == (30, 70)
        assert rank_mixes(read_share=10).rows == ()

    def test_block_sizes_are_not_mixed_if_the_filter_names_several(self) -> None:
        host = make_host("db-1")
        for rw, size in (("randread", 4096), ("randwrite", 65_536)):
            work = make_workload(rw=rw, block_size_bytes=size)
            series = make_series([1000.0], host=host, workload=work, direction=rw.removeprefix("rand"))
            calculate_levels([series.pk])

        assert rank_mixes(filter=parse_filter("bs:4k,64k")).rows == ()

    def test_measured_mixes_choose_the_block_size(self) -> None:
        plant_mixes({50: 16_000.0}, target={"volume_type": "a"}, work={"block_size_bytes": 65_536})
        for volume_type in ("b", "c"):
            plant_mixes(PURE, target={"volume_type": volume_type})
        plant_mixes(PURE, target={"volume_type": "d"}, work={"block_size_bytes": 65_536})

        ranking = rank_mixes()

        assert [row.layout.volume_type for row in rank_mixes(mixes="measured").rows] == ["a"]
        assert [row.layout.volume_type for row in ranking.rows] == ["a", "d"]
        assert [(each.dimension, each.values) for each in ranking.fixed] == [("block_size_bytes", (65_536,))]

    @pytest.mark.parametrize(
        ("read_share", "pure", "iops"), [(100, "randread", 40_000.0), (0, "randwrite", 10_000.0)]
    )
    def test_reads_or_writes_alone_are_the_pure_workload(
        self, read_share: int, pure: str, iops: float
    ) -> None:
        plant_mixes({**PURE, 50: 16_000.0}, target={"volume_type": "a"})
        plant_mixes({100: 90_000.0}, target={"volume_type": "b"})

        mix = rank_mixes(read_share=read_share, p99_ms=2)
        alone = rank_mixes(pattern=pure, read_share=None, p99_ms=2, mixes="measured")

        assert replace(mix, question=alone.question) == alone
        row = next(row for row in mix.rows if row.layout.volume_type == "a")
        assert row.load.levels.iops is not None and row.load.levels.latency_p99_ns is not None
        assert (row.load.levels.iops.median, row.load.between) == (iops, None)

    def test_a_pure_pattern_has_nothing_to_interpolate(self) -> None:
        plant_mixes(PURE)

        (row,) = rank_mixes(pattern="randread", read_share=None).rows

        assert row.load.between is None
