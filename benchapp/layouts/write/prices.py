"""Store prices; delete and restore them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any, Final

from django.db import connection, transaction
from django.utils import timezone
from msgspec import Meta, Struct

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.layouts.write.price_csv import BadPrices, PriceFault
from benchapp.models import AuditKind, Price, User

PRICES_MAXIMUM: Final = 5000
# How long a deleted or replaced price can be restored.
PRICE_RESTORABLE: Final = timedelta(days=1)


class UnknownPrice(Exception):
    """A price that does not exist, or is deleted already."""


class PriceCounts(Struct, frozen=True):
    """What `add_prices` did, in numbers of prices."""

    added: int
    replaced: Annotated[int, Meta(description="prices of the same type, region and first day that differed")]
    unchanged: int


def add_prices(rows: Sequence[Price], *, by: User | None) -> PriceCounts:
    """Save new prices; one with the type, region and first day of a stored price replaces it.

    No two rows have the same key. Stores all or none. Raises BadPrices: a region would have two currencies, or there
    would be more than PRICES_MAXIMUM.
    """
    with _lock_prices() as stored:
        by_key = {price.key: price for price in stored}
        _check_currencies(
            {
                **{key: price.currency for key, price in by_key.items()},
                **{row.key: row.currency for row in rows},
            }
        )
        new = [row for row in rows if row.key not in by_key]
        if len(stored) + len(new) > PRICES_MAXIMUM:
            raise BadPrices(
                [PriceFault(0, "", f"at most {PRICES_MAXIMUM} prices are stored; delete some first")]
            )
        changed = [
            row
            for row in rows
            if row.key in by_key and snapshot(row, *Price.given) != snapshot(by_key[row.key], *Price.given)
        ]
        for row in changed:
            _remove(by_key[row.key])
        for row in (*new, *changed):
            row.created_by = by
            row.save(force_insert=True)
            earlier = by_key.get(row.key)
            _record(
                row,
                "replaced" if earlier else "added",
                before=snapshot(earlier, *Price.given) if earlier else None,
                after=snapshot(row, *Price.given),
                by=by,
            )
    return PriceCounts(len(new), len(changed), len(rows) - len(new) - len(changed))


def remove_price(price_id: int, *, by: User | None) -> None:
    """Delete a price, which can be restored for PRICE_RESTORABLE; older ones are gone then. Raises UnknownPrice."""
    with _lock_prices() as stored:
        price = next((each for each in stored if each.pk == price_id), None)
        if price is None:
            raise UnknownPrice(f"price {price_id} does not exist")
        _remove(price)
        _record(price, "removed", before=snapshot(price, *Price.given), by=by)


def restore_price(price_id: int, *, by: User | None) -> None:
    """Restore a price that was deleted or replaced within PRICE_RESTORABLE; it replaces one with the same key.

    Raises UnknownPrice, and BadPrices as `add_prices`.
    """
    with transaction.atomic():
        removed = Price.objects.filter(pk=price_id, removed_at__gte=timezone.now() - PRICE_RESTORABLE).first()
        if removed is None:
            raise UnknownPrice(f"price {price_id} cannot be restored")
        add_prices([Price(**snapshot(removed, *Price.given))], by=by)
        Price.objects.filter(pk=price_id).delete()


def _check_currencies(currencies: dict[Any, str]) -> None:
    by_region: dict[str, set[str]] = {}
    for (_, _, region, _), currency in currencies.items():
        by_region.setdefault(region, set()).add(currency)
    for region, found in by_region.items():
        if len(found) > 1:
            where = f"region {region!r}" if region else "prices without a region"
            names = " and ".join(sorted(found)[:2])
            raise BadPrices(
                [PriceFault(0, "currency", f"{where} would have prices in {names}; use one currency")]
            )


def _remove(price: Price) -> None:
    now = timezone.now()
    Price.objects.filter(removed_at__lt=now - PRICE_RESTORABLE).delete()
    price.removed_at = now
    price.save(update_fields=["removed_at"])


def _record(
    price: Price,
    action: str,
    *,
    by: User | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    record_write(
        AuditKind.PRICE, action, object_id=price.pk, name=str(price), before=before, after=after, by=by
    )


@contextmanager
def _lock_prices() -> Iterator[list[Price]]:
    """Give the prices that are not deleted; concurrent writes wait, so that the limits hold."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE benchapp_price IN SHARE ROW EXCLUSIVE MODE")
        yield list(Price.objects.filter(removed_at__isnull=True))
