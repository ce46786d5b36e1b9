"""Parse prices, of a form or of a CSV; lists all invalid cells. Pure."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from benchapp.framework.csv_export import BadCsv, list_csv_lines
from benchapp.models import PRICE_AMOUNTS

AMOUNT_MAXIMUM: Final = 1e9
FAULTS_MAXIMUM: Final = 100
_TEXTS: Final = {"volume_type": 100, "instance_type": 100, "region": 60}
PRICE_COLUMNS: Final = (*_TEXTS, "currency", "valid_from", *PRICE_AMOUNTS)
_REQUIRED: Final = ("currency", "valid_from")
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


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One price, as of `Price`; one of volume_type and instance_type is ""."""

    volume_type: str
    instance_type: str
    region: str
    currency: str
    valid_from: date
    per_gib_month: float
    per_iops_month: float
    included_iops: float
    per_mib_s_month: float
    included_mib_s: float
    per_hour: float

    @property
    def key(self) -> tuple[str, str, str, date]:
        """Return what no two prices have in common."""
        return self.volume_type, self.instance_type, self.region, self.valid_from


def read_price(cells: Mapping[str, str], *, line: int = 0) -> PriceRow:
    """Return the price of cells by column; empty amounts are 0. Raises BadPrices."""
    values: dict[str, Any] = {}
    faults: list[PriceFault] = []
    for name in PRICE_COLUMNS:
        try:
            values[name] = _read_cell(name, cells.get(name, "").strip())
        except ValueError as error:
            faults.append(PriceFault(line, name, str(error)))
    faults += [PriceFault(line, *fault) for fault in _check_row(values)] if not faults else []
    if faults:
        raise BadPrices(faults)
    return PriceRow(**values)


def read_price_table(text: str) -> list[PriceRow]:
    """Return the prices of a CSV with a header line, in the order of the file; lines that start with "#" are comments.

    EXPORTED_COLUMNS are ignored. Raises BadPrices.
    """
    try:
        lines = list(list_csv_lines(text))
    except BadCsv as error:
        raise BadPrices([PriceFault(error.line, "", str(error))]) from error
    if not lines:
        raise BadPrices([PriceFault(1, "", f"the header line is missing: {','.join(PRICE_COLUMNS)}")])
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


def read_price_rows(rows: Iterable[Mapping[str, str]]) -> list[PriceRow]:
    """Return prices of cells by column; faults count rows from 1. Raises BadPrices."""
    return _read_all(enumerate(rows, start=1))


def write_amount(amount: float) -> str:
    """Return an amount as a cell that `read_price` reads: without an exponent."""
    return format(Decimal(repr(amount)), "f")


def _read_all(lines: Iterable[tuple[int, Mapping[str, str]]]) -> list[PriceRow]:
    faults: list[PriceFault] = []
    first: dict[Any, int] = {}
    rows: list[PriceRow] = []
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
    valid = ", ".join(PRICE_COLUMNS)
    faults = [
        PriceFault(number, "", f"unknown column {name[:80]!r}. Available: {valid}")
        for name in names
        if name not in (*PRICE_COLUMNS, *EXPORTED_COLUMNS)
    ]
    faults += [
        PriceFault(number, name, "duplicate of another column")
        for place, name in enumerate(names)
        if name in PRICE_COLUMNS and name in names[:place]
    ]
    faults += [PriceFault(number, name, "the column is missing") for name in _REQUIRED if name not in names]
    if faults:
        raise BadPrices(faults)
    return names


def _read_cell(name: str, text: str) -> str | float | date:
    """Return the value of a cell. Raises ValueError with the reason."""
    if name in _TEXTS:
        return _read_name(text, maximum=_TEXTS[name])
    if not text and name in _REQUIRED:
        raise ValueError("the cell is empty")
    if name == "currency":
        if not _CURRENCY.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not a valid currency: use three capital letters, as USD")
        return text
    if name == "valid_from":
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text[:80]!r} is not a valid day: use YYYY-MM-DD") from None
    return _read_amount(text)


def _read_name(text: str, *, maximum: int) -> str:
    if not text.isprintable():
        raise ValueError("the text has characters that cannot be shown")
    if len(text) > maximum:
        raise ValueError(f"{len(text)} characters exceed the maximum of {maximum}")
    # Types of layouts are stored in lower case, too.
    return text.lower()


def _read_amount(text: str) -> float:
    if not text:
        return 0.0
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
