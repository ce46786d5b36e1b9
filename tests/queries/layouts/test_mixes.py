"""Measured and interpolated mixes of layouts."""

from datetime import timedelta

import pytest

from benchapp.analysis.layouts.mixes import MixEstimate
from benchapp.grammar import Filter, parse_filter
from benchapp.queries.layouts.mixes import MeasuredMix, MixAnswer, MixQuestion, read_mixes
from tests.factories import NOON, calculate_levels, make_host, make_series, make_workload
from tests.mixes import PURE, plant_mixes

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(days=10)


def read(text: str = "", **options: object) -> MixAnswer:
    filter = parse_filter(text) if text else Filter()
    return read_mixes(MixQuestion(filter, **options), now=LATER)  # type: ignore[arg-type]


def test_reads_and_writes_of_a_load_are_a_curve_with_an_estimate() -> None:
    plant_mixes(PURE)

    (curve,) = read().curves

    assert (curve.layout.volume_type, curve.iodepth, curve.numjobs) == ("gp3", 8, 1)
    assert [(mix.read_share, mix.spread.median, mix.spread.n) for mix in curve.mixes] == [
        (0, 10_000, 3),
        (100, 40_000, 3),
    ]
    found = curve.estimate(50)
    assert isinstance(found, MixEstimate)
    assert found.value == pytest.approx(16_000)
    assert found.low == pytest.approx(16_000 * 0.992)
    assert found.high == pytest.approx(20_000 * 1.008)


def test_measured_mix_is_the_sum_of_its_directions_and_no_estimate() -> None:
    series = plant_mixes({**PURE, 70: 15_000.0})

    (curve,) = read().curves

    found = curve.estimate(70)
    assert isinstance(found, MeasuredMix)
    assert (found.spread.median, len(found.series_ids)) == (pytest.approx(15_000), 2)
    assert set(curve.series_ids) == {each.pk for each in series}
    between = curve.estimate(85)
    assert isinstance(between, MixEstimate)
    assert (between.below, between.above) == (0.7, 1)


def test_bandwidth_is_the_same_model() -> None:
    plant_mixes(PURE)

    (curve,) = read(metric="bandwidth_bytes_per_s").curves

    found = curve.estimate(50)
    assert isinstance(found, MixEstimate)
    assert found.value == pytest.approx(16_000 * 4096)


def test_loads_and_layouts_are_not_mixed_and_a_single_share_is_counted() -> None:
    plant_mixes({100: 40_000.0}, depth=8)
    plant_mixes({0: 10_000.0}, depth=16)
    plant_mixes(PURE, depth=1, target={"volume_count": 8})

    answer = read()

    assert [(curve.layout.volume_count, curve.iodepth) for curve in answer.curves] == [(8, 1)]
    assert (answer.alone_count, answer.series_count) == (2, 4)


def test_reads_of_published_results_have_their_share_by_their_pattern() -> None:
    host = make_host("db-1")
    for rw, direction in (("randread", "read"), ("randwrite", "write")):
        make_series([1000.0], host=host, workload=make_workload(rw=rw), direction=direction)
    calculate_levels()

    (curve,) = read().curves

    assert [mix.read_share for mix in curve.mixes] == [0, 100]


def test_reads_with_and_without_a_recorded_share_are_one_level() -> None:
    host = make_host("db-1")
    for share, value in ((None, 1000.0), (100, 3000.0)):
        make_series([value], host=host, workload=make_workload(rw="randread", read_share_percent=share))
    make_series([500.0], host=host, workload=make_workload(rw="randwrite"), direction="write")
    calculate_levels()

    (curve,) = read().curves

    reads = curve.mixes[-1]
    assert (reads.read_share, reads.spread.n, len(reads.series_ids)) == (100, 2, 2)
    assert (reads.spread.p10, reads.spread.p90) == (1000, 3000)


@pytest.mark.parametrize("text", ["bs:4k,64k", "bs:>=4k", "engine:*"])
def test_reads_of_one_workload_and_writes_of_another_are_no_mix(text: str) -> None:
    host = make_host("db-1")
    for rw, size, engine in (("randread", 4096, "libaio"), ("randwrite", 65_536, "io_uring")):
        work = make_workload(rw=rw, block_size_bytes=size, engine=engine)
        make_series([1000.0], host=host, workload=work, direction=rw.removeprefix("rand"))
    calculate_levels()

    answer = read(text)

    assert (answer.curves, answer.hidden_count) == ((), 1)


def test_mix_with_one_direction_only_is_left_out_and_counted() -> None:
    plant_mixes(PURE)
    mixed = make_workload(rw="randrw", read_share_percent=70, iodepth=8)
    series = make_series([9000.0], host=make_host("db-2"), workload=mixed)
    calculate_levels([series.pk])

    answer = read()

    assert (len(answer.curves), answer.incomplete_count) == (1, 1)


def test_pattern_block_size_filter_and_age_choose_the_measurements() -> None:
    plant_mixes(PURE)

    assert read(pattern="sequential").curves == ()
    assert read(block_size="64k").curves == ()
    assert read("host:other").curves == ()
    assert len(read("host:db-mixes", block_size="4k").curves) == 1
    old = read(max_age_days=5)
    assert (old.curves, old.outdated_count) == ((), 2)
