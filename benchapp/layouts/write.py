"""Prices: read them from a form or a CSV, store, delete and restore them."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final

from django.db import connection, transaction
from django.utils import timezone
from msgspec import Meta, Struct

from benchapp.framework.csv_export import BadCsv, list_csv_lines
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.models import PRICE_AMOUNTS, AuditKind, Price, User
from benchapp.models.list_entry import find_column_type

AMOUNT_MAXIMUM: Final = 1e9
FAULTS_MAXIMUM: Final = 100
_FIELDS: Final = {field.name: field for field in Price.list_fields()}
_REQUIRED: Final = [name for name, field in _FIELDS.items() if not (field.blank or field.has_default())]
# Types of layouts are stored in lower case, too.
_LOWER: Final = ("volume_type", "instance_type", "region")
# What an export has beside them; ignored, so that an export can be changed and sent.
EXPORTED_COLUMNS: Final = ("id", "valid_until", "created_by", "created_at")
_VOLUME_AMOUNTS: Final = tuple(name for name in PRICE_AMOUNTS if name != "per_hour")
_NUMBER: Final = re.compile(r"\d{1,10}(?:\.\d{1,12})?", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Z]{3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PriceFault:
    """One invalid cell. line: from 1, 0 outside of a file. column: "" for the whole line."""

    line: int
    column: str
    message: str

    def __str__(self) -> str:
        where = ", ".join(
            [*([f"line {self.line}"] if self.line else []), *([self.column] if self.column else [])]
        )
        return f"{where}: {self.message}" if where else self.message


class BadPrices(Exception):
    """Invalid prices; faults: at most FAULTS_MAXIMUM, in the order of the file."""

    def __init__(self, faults: Sequence[PriceFault]) -> None:
        super().__init__("; ".join(map(str, faults[:3])))
        self.faults = tuple(faults)


def read_price(cells: Mapping[str, str], *, line: int = 0) -> Price:
    """Return the price of cells by column; empty amounts are 0. Raises BadPrices."""
    values: dict[str, Any] = {}
    faults: list[PriceFault] = []
    for name in Price.given:
        try:
            values[name] = _read_cell(name, cells.get(name, "").strip())
        except ValueError as error:
            faults.append(PriceFault(line, name, str(error)))
    faults += [PriceFault(line, *fault) for fault in _check_row(values)] if not faults else []
    if faults:
        raise BadPrices(faults)
    return Price(**values)


def read_price_table(text: str) -> list[Price]:
    """Return the prices of a CSV with a header line, in the order of the file; lines that start with "#" are comments.

    EXPORTED_COLUMNS are ignored. Raises BadPrices.
    """
    try:
        lines = list(list_csv_lines(text))
    except BadCsv as error:
        raise BadPrices([PriceFault(error.line, "", str(error))]) from error
    if not lines:
        raise BadPrices([PriceFault(1, "", f"the header line is missing: {','.join(Price.given)}")])
    header = _read_header(*lines[0])
    uneven = [
        PriceFault(number, "", f"{len(cells)} cells, but {len(header)} columns")
        for number, cells in lines[1:]
        if len(cells) != len(header)
    ]
    if uneven:
        raise BadPrices(uneven[:FAULTS_MAXIMUM])
    if len(lines) == 1:
        raise BadPrices([PriceFault(lines[0][0], "", "no rows below the header line")])
    return _read_all((number, dict(zip(header, cells, strict=True))) for number, cells in lines[1:])


def read_price_rows(rows: Iterable[Mapping[str, str]]) -> list[Price]:
    """Return prices of cells by column; faults count rows from 1. Raises BadPrices."""
    return _read_all(enumerate(rows, start=1))


def write_cell(value: Any) -> str:
    """Return a value as a cell that `read_price` reads: an amount without an exponent."""
    if value is None:
        return ""
    return format(Decimal(repr(value)), "f") if isinstance(value, float) else str(value)


def _read_all(lines: Iterable[tuple[int, Mapping[str, str]]]) -> list[Price]:
    faults: list[PriceFault] = []
    first: dict[Any, int] = {}
    rows: list[Price] = []
    for number, cells in lines:
        try:
            row = read_price(cells, line=number)
        except BadPrices as error:
            faults += error.faults
            continue
        if row.key in first:
            same = f"the same type, region and first day as line {first[row.key]}"
            faults.append(PriceFault(number, "", same))
        first.setdefault(row.key, number)
        rows.append(row)
    if faults:
        raise BadPrices(faults[:FAULTS_MAXIMUM])
    return rows


def _read_header(number: int, cells: Sequence[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    valid = ", ".join(Price.given)
    faults = [
        PriceFault(number, "", f"unknown column {name[:80]!r}. Available: {valid}")
        for name in names
        if name not in (*Price.given, *EXPORTED_COLUMNS)
    ]
    faults += [
        PriceFault(number, name, "duplicate of another column")
        for place, name in enumerate(names)
        if name in Price.given and name in names[:place]
    ]
    faults += [PriceFault(number, name, "the column is missing") for name in _REQUIRED if name not in names]
    if faults:
        raise BadPrices(faults)
    return names


def _read_cell(name: str, text: str) -> Any:
    """Return the value of a cell. Raises ValueError with the reason."""
    field = _FIELDS[name]
    if not text:
        if name in _REQUIRED:
            raise ValueError("the cell is empty")
        return field.get_default()
    if name == "currency":
        if not _CURRENCY.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not a valid currency: use three capital letters, as USD")
        return text
    if name == "valid_from":
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text[:80]!r} is not a valid day: use YYYY-MM-DD") from None
    if find_column_type(field) is float:
        return _read_amount(text)
    if not text.isprintable():
        raise ValueError("the text has characters that cannot be shown")
    if len(text) > field.max_length:
        raise ValueError(f"{len(text)} characters exceed the maximum of {field.max_length}")
    return text.lower() if name in _LOWER else text


def _read_amount(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a valid amount: use digits and a decimal point")
    amount = float(text)
    if not math.isfinite(amount) or amount > AMOUNT_MAXIMUM:
        raise ValueError(f"{text[:80]} exceeds the maximum of {AMOUNT_MAXIMUM:.0f}")
    return amount


def _check_row(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield column and message of what does not fit together."""
    if bool(values["volume_type"]) == bool(values["instance_type"]):
        yield "volume_type", "state either a volume type or an instance type"
        return
    if values["instance_type"]:
        excess = [name for name in _VOLUME_AMOUNTS if values[name]]
        if excess:
            yield excess[0], "is not part of the price of an instance type; use per_hour"
        if not values["per_hour"]:
            yield "per_hour", "the price of an instance type is missing"
    elif values["per_hour"]:
        yield "per_hour", "is not part of the price of a volume type"
    elif not any(values[name] for name in ("per_gib_month", "per_iops_month", "per_mib_s_month")):
        yield "per_gib_month", "the price is missing"


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
