"""Write tables as CSV (RFC 4180) that a spreadsheet opens without running anything: pure."""

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

CONTENT_TYPE: Final = "text/csv; charset=utf-8"
# Spreadsheets take a cell that begins with one of these for a formula, some also with the full-width forms; tab, CR
# and LF are dropped by some of them, so that the next character counts.
_FORMULA_BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

Cell = str | int | float | Decimal | None


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return CSV in UTF-8 with a header line; lines end in CRLF.

    Every cell is quoted: a line break or separator in an unquoted one would begin a new cell, and with it a formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow([escape_formula(column) for column in columns])
    writer.writerows([format_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def format_cell(value: Cell) -> str:
    """Return the text of a cell: numbers as they are, also negative ones, "" for None, escaped text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return escape_formula(value)
    return str(value)


def escape_formula(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_BEGINNINGS) else text
