"""Prices: the list, and those that are valid on a day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from django.db.models import QuerySet

from benchapp.analysis.layouts.prices import PriceAmounts
from benchapp.models import PRICE_AMOUNTS, Price

_LISTED: Final = (
    "id",
    "volume_type",
    "instance_type",
    "region",
    "currency",
    "valid_from",
    "created_by__username",
    "created_at",
    *PRICE_AMOUNTS,
)
_Row = tuple[Any, ...]
# What the prices of one type in one region have in common, and their first day.
_TYPE: Final = slice(1, 4)
_DAY: Final = 5


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """One price. One of volume_type and instance_type is "". created_by_name: "" if unknown.

    valid_until: the first day of the next price of the same type and region, exclusive; None if there is none.
    """

    id: int
    volume_type: str
    instance_type: str
    region: str
    currency: str
    valid_from: date
    valid_until: date | None
    amounts: PriceAmounts
    created_by_name: str
    created_at: datetime

    @property
    def name(self) -> str:
        """Return the volume type or instance type."""
        return self.volume_type or self.instance_type

    def is_valid(self, day: date) -> bool:
        """Return whether it is the price of this day."""
        return self.valid_from <= day and (self.valid_until is None or day < self.valid_until)


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of one region that are valid on a day. currency: "" without prices."""

    region: str
    currency: str
    volumes: Mapping[str, PriceAmounts]
    instances: Mapping[str, PriceAmounts]


def list_prices() -> list[ListedPrice]:
    """Return all prices by region, type and first day; at most pipeline.layouts.prices.PRICES_MAXIMUM; one query."""
    return _make_rows(Price.objects.filter(removed_at__isnull=True))


def list_removed_prices(*, since: datetime) -> list[ListedPrice]:
    """Return the prices that were deleted or replaced since a time; one query. valid_until is None."""
    return [_make_row(row, None) for row in _read_rows(Price.objects.filter(removed_at__gte=since))]


def list_regions(prices: Sequence[ListedPrice]) -> list[str]:
    """Return the regions of prices, in order; "" is one without a name."""
    return sorted({price.region for price in prices})


def select_prices(prices: Sequence[ListedPrice], *, region: str, day: date) -> PriceList:
    """Return the prices of a region that are valid on a day."""
    valid = [price for price in prices if price.region == region and price.is_valid(day)]
    return PriceList(
        region=region,
        currency=next((price.currency for price in valid), ""),
        volumes={price.volume_type: price.amounts for price in valid if price.volume_type},
        instances={price.instance_type: price.amounts for price in valid if price.instance_type},
    )


def _make_rows(prices: QuerySet[Price]) -> list[ListedPrice]:
    rows = _read_rows(prices)
    nexts: list[_Row | None] = [*rows[1:], None]
    return [
        _make_row(row, following[_DAY] if following and row[_TYPE] == following[_TYPE] else None)
        for row, following in zip(rows, nexts, strict=False)
    ]


def _read_rows(prices: QuerySet[Price]) -> list[_Row]:
    ordered = prices.order_by("region", "instance_type", "volume_type", "valid_from", "id")
    return list(ordered.values_list(*_LISTED))


def _make_row(row: _Row, valid_until: date | None) -> ListedPrice:
    price_id, volume_type, instance_type, region, currency, valid_from, name, created_at, *amounts = row
    return ListedPrice(
        id=price_id,
        volume_type=volume_type,
        instance_type=instance_type,
        region=region,
        currency=currency,
        valid_from=valid_from,
        valid_until=valid_until,
        amounts=PriceAmounts(*amounts),
        created_by_name=name or "",
        created_at=created_at,
    )
