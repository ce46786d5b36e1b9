"""Prices of volume types and instance types."""

from collections.abc import Sequence
from typing import Final

from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.write.price_csv import BadPrices, read_price, write_cell
from benchapp.layouts.write.prices import add_prices, remove_price
from benchapp.models import Price, User
from benchapp.operation.configuration.section import (
    ConfigurationSection,
    Member,
    StoredEntry,
    Values,
    list_members,
)


def _normalize(values: Values) -> Values:
    try:
        price = read_price({name: write_cell(value) for name, value in values.items()})
    except BadPrices as error:
        raise _name_fault(error) from error
    return {name: getattr(price, name) for name in values}


def _name_fault(error: BadPrices) -> BadValue:
    column, message = error.faults[0].column, error.faults[0].message
    return BadValue(column, message)


def _list_stored() -> Sequence[StoredEntry]:
    rows = Price.objects.filter(removed_at=None)
    return [
        StoredEntry(row, {name: getattr(row, name) for name in Price.given})
        for row in rows.order_by("volume_type", "instance_type", "region", "valid_from")
    ]


def _create(values: Values, by: User | None) -> None:
    try:
        add_prices([Price(**values)], by=by)
    except BadPrices as error:
        raise _name_fault(error) from error


def _remove(stored: StoredEntry, by: User | None) -> None:
    remove_price(stored.row.pk, by=by)


PRICES: Final = ConfigurationSection(
    name="prices",
    noun="price",
    # A day is a text.
    members=list_members(Price) | {"valid_from": Member(str, is_required=True)},
    identify=lambda values: Price(**values).key,
    title=lambda values: ", ".join(
        filter(None, (Price(**values).name, values["region"], f"from {values['valid_from']}"))
    ),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    remove=_remove,
    is_unique=True,
)
