"""Which measured layouts meet a requirement, by how much, and which are close: pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, Protocol

from msgspec import Meta

# What remains of n volumes for data; RAID 1 mirrors all of them.
_PARITY: Final = {"5": 1, "6": 2}
_PLAIN: Final = (None, "none", "0", "linear", "raid0")

Verdict = Literal["meets", "median-only", "misses", "unknown"]
RequiredName = Literal["iops", "bandwidth_bytes_per_s", "latency_p99_ns", "capacity_bytes", "price"]
VERDICTS: Final[tuple[Verdict, ...]] = ("meets", "median-only", "misses", "unknown")


class LevelSpread(Protocol):
    """A level: median (None if unknown), p10 and p90."""

    @property
    def median(self) -> float | None: ...
    @property
    def p10(self) -> float: ...
    @property
    def p90(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a layout must deliver, in base units; None: anything. price: at most, per month."""

    iops: float | None = None
    bandwidth_bytes_per_s: float | None = None
    latency_p99_ns: float | None = None
    capacity_bytes: float | None = None
    price: float | None = None


@dataclass(frozen=True, slots=True)
class LoadLevels:
    """The current levels of a layout under one load; None: not measured."""

    iops: LevelSpread | None
    bandwidth_bytes_per_s: LevelSpread | None
    latency_p99_ns: LevelSpread | None


@dataclass(frozen=True, slots=True)
class Lack:
    """A requirement that is not met.

    shortfall: 1 − value / required, or 1 − required / value for a limit: above 0 and below 1; 1 if unknown.
    """

    name: RequiredName
    value: Annotated[float | None, Meta(description="of the layout, in base units; null if unknown")]
    required: float
    shortfall: Annotated[float, Meta(description="share of what is required that is missing")]


@dataclass(frozen=True, slots=True)
class Assessment:
    """How a layout meets a requirement.

    best: index of the load that decides: of those that meet it the one with the most throughput at p10, else one that
    may meet it, as only unknown values lack, else the one that lacks least. at_load: of those that meet it the one with
    the least throughput at p10; None without one. margin: throughput of `best` at p10 / required − 1, None if no
    throughput is required or known. lacks: largest shortfall first.
    """

    verdict: Verdict
    best: int
    at_load: int | None
    margin: float | None
    lacks: tuple[Lack, ...]

    @property
    def shortfall(self) -> float:
        """Return the largest shortfall; 0 if the layout meets the requirement."""
        return max((lack.shortfall for lack in self.lacks), default=0.0)


def find_capacity(size_bytes: int | None, count: int | None, *, raid_level: str | None) -> int | None:
    """Return the bytes for data of `count` volumes of one size; None if unknown, also for other RAID levels."""
    if size_bytes is None or not count:
        return None
    level = raid_level.lower().removeprefix("raid") if raid_level else None
    if raid_level in _PLAIN or level in _PLAIN:
        return size_bytes * count
    if level == "1":
        return size_bytes
    if level == "10":
        return size_bytes * count // 2
    if level in _PARITY and count > _PARITY[level]:
        return size_bytes * (count - _PARITY[level])
    return None


def assess_layout(
    loads: Sequence[LoadLevels],
    requirement: Requirement,
    *,
    capacity_bytes: float | None,
    price: float | None,
    is_price_minimum: bool = False,
) -> Assessment:
    """Return how a layout meets a requirement.

    loads: at least one. Throughput counts at p10, latency at p90: nine of ten runs are at least as good. Capacity and
    price are None if unknown. is_price_minimum: the price may be higher, so that one within the limit is unknown. The
    verdict is "unknown" if everything that is known meets the requirement.
    """
    if (
        is_price_minimum
        and price is not None
        and requirement.price is not None
        and price <= requirement.price
    ):
        price = None
    own = tuple(_list_own_lacks(requirement, capacity_bytes, price))
    lacks = [tuple(_list_load_lacks(load, requirement, is_median=False)) for load in loads]
    met = [place for place in range(len(loads)) if not lacks[place]]
    if met:
        best = max(met, key=lambda place: _find_margin(loads[place], requirement) or 0.0)
    else:
        best = min(range(len(loads)), key=lambda place: _rank_lacks(lacks[place]))
    all_lacks = tuple(sorted((*lacks[best], *own), key=lambda lack: -lack.shortfall))
    verdict = _judge(all_lacks)
    if (
        verdict == "misses"
        and not own
        and any(not tuple(_list_load_lacks(load, requirement, is_median=True)) for load in loads)
    ):
        verdict = "median-only"
    return Assessment(
        verdict=verdict,
        best=best,
        at_load=min(met, key=lambda place: _find_margin(loads[place], requirement) or 0.0) if met else None,
        margin=_find_margin(loads[best], requirement),
        lacks=all_lacks,
    )


def find_closest_miss(assessments: Iterable[Assessment]) -> int | None:
    """Return the index of the layout that lacks least of those that miss the requirement; None if none does."""
    missing = [
        (each.shortfall, place)
        for place, each in enumerate(assessments)
        if each.verdict in ("median-only", "misses")
    ]
    return min(missing)[1] if missing else None


def find_front(points: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Return the indexes of points (price, throughput) for which no other is as cheap and faster, or cheaper and as
    fast: the Pareto front. Of equal points all are on it."""
    front: set[int] = set()
    most = float("-inf")
    ordered = sorted(range(len(points)), key=lambda place: (points[place][0], -points[place][1]))
    for place in ordered:
        price, throughput = points[place]
        if throughput > most:
            most, first = throughput, price
            front.add(place)
        elif throughput == most and price == first:
            front.add(place)
    return frozenset(front)


def _judge(lacks: Sequence[Lack]) -> Verdict:
    if not lacks:
        return "meets"
    return "unknown" if all(lack.value is None for lack in lacks) else "misses"


def _rank_lacks(lacks: Sequence[Lack]) -> tuple[bool, float, float]:
    """Return the sort key of a load that does not meet the requirement: first those of which only values are unknown,
    which may meet it; then by the largest shortfall, then by all of them."""
    is_missed = any(lack.value is not None for lack in lacks)
    return is_missed, max(lack.shortfall for lack in lacks), sum(lack.shortfall for lack in lacks)


def _list_own_lacks(
    requirement: Requirement, capacity_bytes: float | None, price: float | None
) -> Iterator[Lack]:
    if requirement.capacity_bytes is not None:
        yield from _check_least("capacity_bytes", capacity_bytes, requirement.capacity_bytes)
    if requirement.price is not None:
        yield from _check_most("price", price, requirement.price)


def _list_load_lacks(load: LoadLevels, requirement: Requirement, *, is_median: bool) -> Iterator[Lack]:
    if requirement.iops is not None:
        yield from _check_least("iops", _take(load.iops, "p10", is_median), requirement.iops)
    if requirement.bandwidth_bytes_per_s is not None:
        value = _take(load.bandwidth_bytes_per_s, "p10", is_median)
        yield from _check_least("bandwidth_bytes_per_s", value, requirement.bandwidth_bytes_per_s)
    if requirement.latency_p99_ns is not None:
        value = _take(load.latency_p99_ns, "p90", is_median)
        yield from _check_most("latency_p99_ns", value, requirement.latency_p99_ns)


def _take(level: LevelSpread | None, name: Literal["p10", "p90"], is_median: bool) -> float | None:
    """Return one number of a level; p10 or p90 also where the median is unknown."""
    if level is None:
        return None
    if is_median and level.median is not None:
        return level.median
    return level.p10 if name == "p10" else level.p90


def _check_least(name: RequiredName, value: float | None, required: float) -> Iterator[Lack]:
    if value is None:
        yield Lack(name, None, required, 1.0)
    elif value < required:
        yield Lack(name, value, required, 1 - value / required)


def _check_most(name: RequiredName, value: float | None, required: float) -> Iterator[Lack]:
    if value is None:
        yield Lack(name, None, required, 1.0)
    elif value > required:
        yield Lack(name, value, required, 1 - required / value)


def _find_margin(load: LoadLevels, requirement: Requirement) -> float | None:
    """Return by how much the throughput at p10 exceeds what is required; the smaller of two."""
    pairs = (
        (load.iops, requirement.iops),
        (load.bandwidth_bytes_per_s, requirement.bandwidth_bytes_per_s),
    )
    margins = [level.p10 / required - 1 for level, required in pairs if level is not None and required]
    return min(margins, default=None)


# 365 × 24 / 12: what clouds calculate with.
HOURS_OF_A_MONTH: Final = 730
_GIB: Final = 2**30
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class PriceAmounts:
    """The amounts of one price, in the order of `PRICE_AMOUNTS` of the model, which describes them."""

    per_gib_month: float = 0.0
    per_iops_month: float = 0.0
    included_iops: float = 0.0
    per_mib_s_month: float = 0.0
    included_mib_s: float = 0.0
    per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class PricedVolumes:
    """The volumes of a layout, all alike. None: unknown, as is a count of 0.

    provisioned_iops: of each volume. measured_iops, measured_bytes_per_s: the highest level of the layout, of all
    volumes together.
    """

    count: int | None
    size_bytes: int | None
    provisioned_iops: int | None
    measured_iops: float | None
    measured_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class MonthlyPrice:
    """The price of a layout. amount: per month, None if unknown, for the reason `missing`.

    is_minimum: something provisioned is not recorded, and is at least what was measured. volumes_amount: per month, of
    the volumes alone; None if unknown.
    """

    amount: float | None
    missing: str = ""
    is_minimum: bool = False
    volumes_amount: float | None = None

    @property
    def least_amount(self) -> float | None:
        """Return the price per month, of the volumes alone where that of the instance is unknown; None if unknown."""
        return self.volumes_amount if self.amount is None else self.amount

    @property
    def is_of_volumes(self) -> bool:
        """Return whether it is the price of the volumes alone."""
        return self.volumes_amount is not None and self.least_amount == self.volumes_amount


def price_volumes(amounts: PriceAmounts, volumes: PricedVolumes) -> MonthlyPrice:
    """Return the price of volumes per month.

    Provisioned IOPS are those of the layout. Where they are not recorded, and for MiB/s, which never are, a volume has
    at least its share of what was measured: the price is a minimum if that exceeds what is included.
    """
    if not volumes.count:
        return MonthlyPrice(None, "the number of volumes is unknown")
    size_bytes = volumes.size_bytes
    if amounts.per_gib_month and size_bytes is None:
        return MonthlyPrice(None, "the size of the volumes is unknown")
    each = amounts.per_gib_month * (size_bytes or 0) / _GIB
    is_minimum = False
    iops: float | None = volumes.provisioned_iops
    if amounts.per_iops_month:
        if iops is None:
            iops = _share(volumes.measured_iops, volumes.count)
        if iops is None:
            return MonthlyPrice(None, "the provisioned IOPS are unknown")
        excess = max(0.0, iops - amounts.included_iops)
        each += amounts.per_iops_month * excess
        is_minimum = volumes.provisioned_iops is None and excess > 0
    if amounts.per_mib_s_month:
        bytes_per_s = _share(volumes.measured_bytes_per_s, volumes.count)
        if bytes_per_s is None:
            return MonthlyPrice(None, "the provisioned bandwidth is unknown")
        excess = max(0.0, bytes_per_s / _MIB - amounts.included_mib_s)
        each += amounts.per_mib_s_month * excess
        is_minimum = is_minimum or excess > 0
    amount = each * volumes.count
    return MonthlyPrice(amount, is_minimum=is_minimum, volumes_amount=amount)


def add_instance(volumes: MonthlyPrice, instance: PriceAmounts) -> MonthlyPrice:
    """Return the price of volumes and one instance per month."""
    if volumes.amount is None:
        return volumes
    return replace(volumes, amount=volumes.amount + instance.per_hour * HOURS_OF_A_MONTH)


def _share(value: float | None, count: int) -> float | None:
    return None if value is None else value / count
