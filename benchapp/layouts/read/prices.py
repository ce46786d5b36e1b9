"""Prices: the list, and those that are valid on a day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from django.db.models import QuerySet

from benchapp.layouts.rules.prices import PriceAmounts
from benchapp.models import PRICE_AMOUNTS, Price, name_person

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
    """The prices that are valid in one region on a day. currency: "" without prices."""

    region: str
    currency: str
    volumes: Mapping[str, PriceAmounts]
    instances: Mapping[str, PriceAmounts]

    @property
    def has_prices(self) -> bool:
        """Return whether a volume type or an instance type has a price."""
        return bool(self.volumes or self.instances)


class UnknownRegion(Exception):
    """A region of which there are no prices; the message lists those that have some, summary does not."""

    def __init__(self, name: str, regions: Sequence[str]) -> None:
        self.summary = f"{name[:80]!r} is not a region with prices"
        named = ", ".join(filter(None, regions))
        super().__init__(f"{self.summary}. {f'Available: {named}' if named else 'There is none'}")


def list_prices() -> list[ListedPrice]:
    """Return all prices by region, type and first day; at most pipeline.layouts.prices.PRICES_MAXIMUM; one query."""
    return _make_rows(Price.objects.filter(removed_at__isnull=True))


def list_removed_prices(*, since: datetime) -> list[ListedPrice]:
    """Return the prices that were deleted or replaced since a time; one query. valid_until is None."""
    return [_make_row(row, None) for row in _read_rows(Price.objects.filter(removed_at__gte=since))]


def list_regions(prices: Sequence[ListedPrice]) -> list[str]:
    """Return the regions of prices in alphabetical order, then "" if some are without a region."""
    return sorted({price.region for price in prices}, key=lambda region: (not region, region))


def find_region(prices: Sequence[ListedPrice], name: str | None, *, day: date) -> str:
    """Return the region with a name, in any case; "": prices without a region. Raises UnknownRegion.

    Without a name it is the first one with a price that is valid on the day, else the first one; "" without prices.
    """
    regions = list_regions(prices)
    if name is None:
        return next(iter(list_regions([price for price in prices if price.is_valid(day)]) or regions), "")
    region = name.strip().lower()
    if region and region not in regions:
        raise UnknownRegion(name, regions)
    return region


def select_prices(prices: Sequence[ListedPrice], *, region: str, day: date) -> PriceList:
    """Return the prices of a region that are valid on a day.

    Those without a region hold in every region of their currency, for types without a price of the region itself.
    """
    valid = [price for price in prices if price.region in ("", region) and price.is_valid(day)]
    # Later ones take precedence.
    valid.sort(key=lambda price: price.region == region)
    currency = valid[-1].currency if valid else ""
    amounts = {
        (price.volume_type, price.instance_type): price.amounts
        for price in valid
        if price.currency == currency
    }
    return PriceList(
        region=region,
        currency=currency,
        volumes={volume: each for (volume, _), each in amounts.items() if volume},
        instances={instance: each for (_, instance), each in amounts.items() if instance},
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
        created_by_name=name_person(name),
        created_at=created_at,
    )
