"""Which layouts meet a requirement."""

from dataclasses import dataclass

import pytest

from benchapp.layouts.rules.ranking import (
    Assessment,
    LoadLevels,
    PriceAmounts,
    PricedVolumes,
    Requirement,
    add_instance,
    assess_layout,
    find_capacity,
    find_closest_miss,
    find_front,
    price_volumes,
)


@dataclass(frozen=True)
class Spread:
    median: float | None
    p10: float
    p90: float


def load(iops: float, latency: float | None, *, spread: float = 0.0) -> LoadLevels:
    throughput = Spread(iops, iops * (1 - spread), iops * (1 + spread))
    waiting = None if latency is None else Spread(latency, latency * (1 - spread), latency * (1 + spread))
    return LoadLevels(throughput, None, waiting)


def assess(*loads: LoadLevels, **required: float) -> Assessment:
    return assess_layout(loads, Requirement(**required), capacity_bytes=100.0, price=None)


def test_load_with_the_most_throughput_within_the_limit_decides() -> None:
    found = assess(load(100, 1), load(200, 2), load(300, 9), iops=90, latency_p99_ns=3)

    assert (found.verdict, found.best, found.at_load, found.lacks) == ("meets", 1, 0, ())
    assert found.margin == pytest.approx(200 / 90 - 1)


def test_throughput_and_latency_must_hold_at_the_same_load() -> None:
    found = assess(load(100, 1), load(300, 9), iops=200, latency_p99_ns=3)

    assert (found.verdict, found.best) == ("misses", 0)
    assert [(lack.name, lack.shortfall) for lack in found.lacks] == [("iops", 0.5)]


def test_spread_counts_at_p10_and_p90() -> None:
    assert assess(load(100, 1, spread=0.1), iops=90).verdict == "meets"
    assert assess(load(100, 1, spread=0.1), iops=95).verdict == "median-only"
    assert assess(load(100, 1, spread=0.1), iops=95, latency_p99_ns=1.05).verdict == "median-only"
    assert assess(load(100, 1, spread=0.1), iops=101).verdict == "misses"


def test_unknown_value_is_neither_met_nor_missed() -> None:
    unknown = assess(load(100, None), iops=90, latency_p99_ns=3)

    assert (unknown.verdict, [lack.value for lack in unknown.lacks]) == ("unknown", [None])
    assert assess(load(100, None), iops=110, latency_p99_ns=3).verdict == "misses"
    assert assess(load(100, 1), iops=90, price=5).verdict == "unknown"
    assert assess(load(100, 1), iops=90, capacity_bytes=101).verdict == "misses"


def test_load_that_may_meet_the_requirement_decides_over_one_that_misses_it() -> None:
    found = assess(load(100, None), load(60, 1), iops=90, latency_p99_ns=3)

    assert (found.verdict, found.best) == ("unknown", 0)


@pytest.mark.parametrize(("price", "verdict"), [(4.0, "unknown"), (5.0, "unknown"), (6.0, "misses")])
def test_price_of_at_least_an_amount_is_unknown_within_the_limit(price: float, verdict: str) -> None:
    levels, requirement = [load(100, 1)], Requirement(iops=90, price=5)

    found = assess_layout(levels, requirement, capacity_bytes=None, price=price, is_price_minimum=True)

    assert (found.verdict, [lack.name for lack in found.lacks]) == (verdict, ["price"])


def test_closest_miss_lacks_least() -> None:
    layouts = [assess(load(value, 1), iops=100) for value in (50, 100, 80, 70)]

    assert find_closest_miss(layouts) == 2
    assert find_closest_miss([layouts[1]]) is None


def test_front_has_the_layouts_that_none_beats() -> None:
    points = [(10.0, 100.0), (20.0, 90.0), (20.0, 300.0), (30.0, 300.0), (5.0, 50.0), (10.0, 100.0)]

    assert find_front(points) == {0, 2, 4, 5}
    assert find_front([]) == frozenset()


@pytest.mark.parametrize(
    ("raid_level", "count", "capacity"),
    [
        (None, 4, 400),
        ("0", 4, 400),
        ("raid0", 4, 400),
        ("none", 1, 100),
        ("1", 2, 100),
        ("10", 4, 200),
        ("5", 4, 300),
        ("6", 4, 200),
        ("6", 2, None),
        ("raidz", 4, None),
        (None, None, None),
        (None, 0, None),
    ],
)
def test_capacity_depends_on_the_raid_level(
    raid_level: str | None, count: int | None, capacity: int | None
) -> None:
    assert find_capacity(100, count, raid_level=raid_level) == capacity


GIB, MIB = 2**30, 2**20
GP3 = PriceAmounts(0.08, 0.005, 3000, 0.04, 125)


def test_price_counts_size_and_what_is_provisioned_beyond_what_is_included() -> None:
    volumes = PricedVolumes(2, 500 * GIB, 10_000, 18_000.0, 400.0 * MIB)

    price = price_volumes(GP3, volumes)

    # Each: 500 × 0.08 + 7 000 × 0.005 + 75 × 0.04.
    assert price.amount == pytest.approx(2 * (40 + 35 + 3))
    # MiB/s are never recorded.
    assert price.is_minimum
    with_instance = add_instance(price, PriceAmounts(per_hour=0.768))
    assert with_instance.amount == pytest.approx(156 + 560.64)


@pytest.mark.parametrize(
    ("provisioned", "measured", "amount", "is_minimum"),
    [(3000, 2900.0, 40.0, False), (None, 2900.0, 40.0, False), (None, 5000.0, 50.0, True)],
)
def test_what_is_not_recorded_is_at_least_what_was_measured(
    provisioned: int | None, measured: float, amount: float, is_minimum: bool
) -> None:
    price = price_volumes(GP3, PricedVolumes(1, 500 * GIB, provisioned, measured, 100.0 * MIB))

    assert (price.amount, price.is_minimum) == (pytest.approx(amount), is_minimum)


@pytest.mark.parametrize(
    ("volumes", "missing"),
    [
        (PricedVolumes(None, GIB, 1, 1.0, 1.0), "number of volumes"),
        (PricedVolumes(0, GIB, 1, 1.0, 1.0), "number of volumes"),
        (PricedVolumes(1, None, 1, 1.0, 1.0), "size"),
        (PricedVolumes(1, GIB, None, None, 1.0), "provisioned IOPS"),
        (PricedVolumes(1, GIB, 1, 1.0, None), "provisioned bandwidth"),
    ],
)
def test_price_is_unknown_with_a_reason(volumes: PricedVolumes, missing: str) -> None:
    price = price_volumes(GP3, volumes)

    assert price.amount is None
    assert missing in price.missing
    assert add_instance(price, PriceAmounts(per_hour=1)).amount is None
