"""Split a CSV that a user wrote into cells: pure."""

import csv
import io
from collections.abc import Iterator
from typing import Final

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
