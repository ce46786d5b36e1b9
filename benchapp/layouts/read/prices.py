"""Prices: the list, and those that are valid on a day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from django.db.models import Window
from django.db.models.functions import Lead

from benchapp.layouts.rules.ranking import PriceAmounts
from benchapp.models import PRICE_AMOUNTS, Price

_TYPE: Final = ("region", "instance_type", "volume_type")
_DAY: Final = ("valid_from", "id")
_UNTIL: Final = {"valid_until": Window(Lead("valid_from"), partition_by=_TYPE, order_by=_DAY)}


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


def list_prices(*, has_people: bool = False) -> list[Price]:
    """Return all prices by region, type and first day; one query. has_people: also who added them."""
    prices = Price.objects.filter(removed_at=None).annotate(**_UNTIL).order_by(*_TYPE, *_DAY)
    return list(prices.select_related("created_by") if has_people else prices)


def list_removed_prices(*, since: datetime) -> list[Price]:
    """Return the prices that were deleted or replaced since a time; one query."""
    return list(Price.objects.filter(removed_at__gte=since).order_by(*_TYPE, *_DAY))


def list_regions(prices: Sequence[Price]) -> list[str]:
    """Return the regions of prices in alphabetical order, then "" if some are without a region."""
    return sorted({price.region for price in prices}, key=lambda region: (not region, region))


def find_region(prices: Sequence[Price], name: str | None, *, day: date) -> str:
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


def select_prices(prices: Sequence[Price], *, region: str, day: date) -> PriceList:
    """Return the prices of a region that are valid on a day.

    Those without a region hold in every region of their currency, for types without a price of the region itself.
    """
    valid = [price for price in prices if price.region in ("", region) and price.is_valid(day)]
    # Later ones take precedence.
    valid.sort(key=lambda price: price.region == region)
    currency = valid[-1].currency if valid else ""
    amounts = {
        (price.volume_type, price.instance_type): PriceAmounts(
            *(getattr(price, name) for name in PRICE_AMOUNTS)
        )
        for price in valid
        if price.currency == currency
    }
    return PriceList(
        region=region,
        currency=currency,
        volumes={volume: each for (volume, _), each in amounts.items() if volume},
        instances={instance: each for (_, instance), each in amounts.items() if instance},
    )
