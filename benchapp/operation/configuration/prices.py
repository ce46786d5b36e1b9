"""Prices of volume types and instance types."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from benchapp.framework.write.conflicts import BadValue
from benchapp.layouts.write.price_csv import PRICE_COLUMNS, BadPrices, PriceRow, read_price, write_amount
from benchapp.layouts.write.prices import add_prices, remove_price
from benchapp.models import PRICE_AMOUNTS, Price, User
from benchapp.operation.configuration.section import ConfigurationSection, Member, StoredEntry, Values


def _normalize(values: Values) -> Values:
    try:
        return asdict(read_price({name: _write_cell(values[name]) for name in PRICE_COLUMNS}))
    except BadPrices as error:
        raise _name_fault(error) from error


def _write_cell(value: Any) -> str:
    """Return a value as a cell of the CSV of prices."""
    return write_amount(value) if isinstance(value, float) else str(value)


def _name_fault(error: BadPrices) -> BadValue:
    column, message = error.faults[0].column, error.faults[0].message
    return BadValue(column, message)


def _list_stored() -> Sequence[StoredEntry]:
    rows = Price.objects.filter(removed_at=None)
    return [
        StoredEntry(row, {name: getattr(row, name) for name in PRICE_COLUMNS})
        for row in rows.order_by("volume_type", "instance_type", "region", "valid_from")
    ]


def _create(values: Values, by: User | None) -> None:
    try:
        add_prices([PriceRow(**values)], by=by)
    except BadPrices as error:
        raise _name_fault(error) from error


def _remove(stored: StoredEntry, by: User | None) -> None:
    remove_price(stored.row.pk, by=by)


PRICES: Final = ConfigurationSection(
    name="prices",
    noun="price",
    members={
        "volume_type": Member(str, default=""),
        "instance_type": Member(str, default=""),
        "region": Member(str, default=""),
        "currency": Member(str, is_required=True),
        "valid_from": Member(str, is_required=True),
        **{name: Member(float, default=0.0) for name in PRICE_AMOUNTS},
    },
    identify=lambda values: tuple(
        values[name] for name in ("volume_type", "instance_type", "region", "valid_from")
    ),
    title=lambda values: ", ".join(
        part
        for part in (
            values["volume_type"] or values["instance_type"],
            values["region"],
            f"from {values['valid_from']}",
        )
        if part
    ),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    remove=_remove,
    is_unique=True,
)
