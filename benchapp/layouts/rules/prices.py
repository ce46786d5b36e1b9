"""The price of a layout per month: pure."""

from dataclasses import dataclass, replace
from typing import Final

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
