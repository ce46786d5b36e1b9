"""CSV: rows as text for spreadsheets, and lines of an uploaded file."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

CONTENT_TYPE: Final = "text/csv; charset=utf-8"
# Spreadsheets take a cell that begins with one of these for a formula, some also with the full-width forms; tab, CR
# and LF are dropped by some of them, so that the next character counts.
_FORMULA_BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

# fio counts operations over a runtime in ms and prints times in ns: a run of a minute resolves 1 / 60 000 of a rate,
# and nothing resolves a fraction of a large number of base units.
_DIGITS: Final = 6
_WHOLE_FROM: Final = 99_999.5

Cell = str | int | float | Decimal | None
# Further columns: what rows do not name, the same for all or calculated from a row.
CsvContext = Mapping[str, Cell | Callable[[Any], Cell]]


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
    """Return the text of a cell: rounded numbers, also negative ones, "" for None, escaped text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return escape_formula(value)
    return format_number(value)


def format_number(value: float | Decimal | None) -> str:
    """Return a float with six significant digits, from 100 000 on as a whole number; "" for None.

    Integers and decimals are exact: they stay as they are.
    """
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.{_DIGITS}g}"


def read_context(context: CsvContext, row: Any) -> tuple[Cell, ...]:
    """Return the cells of further columns in a row."""
    return tuple(value(row) if callable(value) else value for value in context.values())


def escape_formula(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_BEGINNINGS) else text


_COMMENT: Final = "#"


class BadCsv(Exception):
    """Text that is not a CSV. line: where its cells begin, from 1."""

    def __init__(self, line: int, reason: object) -> None:
        super().__init__(f"not a valid CSV: {reason}")
        self.line = line


def list_csv_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of the lines that are not empty, with the numbers of the lines in which they begin, from 1.

    Lines that start with "#" are comments; a quoted cell may span lines. Raises BadCsv.
    """
    written = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    # Comments are emptied, not removed, so that line numbers are those of the file.
    source = "\n".join("" if line.startswith(_COMMENT) else line for line in written)
    reader = csv.reader(io.StringIO(source, newline=""), strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadCsv(begins, error) from error
        if any(cell.strip() for cell in cells):
            yield begins, cells
