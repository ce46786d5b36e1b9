"""Parameters of each file of an upload: of the form, of its name by a pattern, of its row in a table. Pure."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from benchapp.intake.posts.query_parameters import BadParameter, refuse_unknown_names

PATTERN_LENGTH: Final = 200
ROWS_MAXIMUM: Final = 10_000
_FILE: Final = "file"
_OF_OUTPUT: Final = frozenset({"rw", "bs", "iodepth", "numjobs"})
_FAULTS_MAXIMUM: Final = 10
_PART: Final = re.compile(r"\{([^{}]*)\}|(\*)|([^{}*]+)|(.)", re.DOTALL)
# Of names that are matched with a pattern and a table.
_ENDINGS: Final = frozenset({".json", ".jsonl", ".txt", ".out", ".log", ".terse"})


class BadFileParameters(Exception):
    """A pattern or a table that cannot be used; the message gives the reason."""


class UnknownFile(Exception):
    """A file whose name does not match the pattern, or that the table does not list."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern of file names. names: of its values, in the order of the groups of the expression."""

    text: str
    names: tuple[str, ...]
    expression: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class FileParameters:
    """Parameters by name: common to all files, by the pattern of their names, and by the rows of a table.

    A row precedes the name, that precedes the common ones; empty cells state nothing. folder: of the files, where the
    sender names it; a pattern with "/" is compared with as many of its last parts.
    """

    common: Mapping[str, str] = field(default_factory=dict)
    pattern: NamePattern | None = None
    rows: Mapping[str, Mapping[str, str]] | None = None
    folder: str = ""

    def read(self, name: str) -> dict[str, str]:
        """Return the parameters of a file. Raises UnknownFile."""
        found = dict(self.common)
        if self.pattern is not None:
            depth = self.pattern.text.count("/")
            parts = [part for part in self.folder.split("/") if part][-depth:] if depth else []
            match = self.pattern.expression.fullmatch("/".join((*parts, _strip_ending(name))))
            if match is None:
                raise UnknownFile(f"the name does not match the pattern {self.pattern.text}")
            values = dict(zip(self.pattern.names, match.groups(), strict=True))
            found |= {key: value for key, value in values.items() if key not in _OF_OUTPUT}
        if self.rows is not None:
            row = self.rows.get(_strip_packing(name))
            if row is None:
                raise UnknownFile("the table of parameters does not list this file")
            found |= {column: cell for column, cell in row.items() if cell}
        return found


def read_name_pattern(text: str) -> NamePattern | None:
    """Return the pattern of a text as "{volume_type}-{volume_count}x-*"; None for an empty one.

    {rw}, {bs}, {iodepth} and {numjobs} are skipped: the output itself states them. A value ends before the next
    character of the pattern, so that each name matches in one way. Raises BadFileParameters.
    """
    text = text.strip()
    if not text:
        return None
    if len(text) > PATTERN_LENGTH:
        raise BadFileParameters(f"{len(text)} characters; at most {PATTERN_LENGTH} are allowed")
    names: list[str] = []
    expression = ""
    parts = list(_PART.finditer(text))
    for place, part in enumerate(parts):
        name, star, literal, odd = part.groups()
        if odd is not None:
            raise BadFileParameters(f"{odd} is not closed: write {{volume_type}}")
        if literal is not None:
            expression += re.escape(literal)
            continue
        following = parts[place + 1] if place + 1 < len(parts) else None
        if following is not None and following[3] is None:
            raise BadFileParameters("two values need a text between them")
        value = f"[^{re.escape(following[3][0])}]+" if following is not None else ".+"
        expression += f"({value})" if star is None else value
        if star is None:
            names.append(name.strip())
    if len(set(names)) < len(names):
        raise BadFileParameters("a name occurs twice")
    _check_names([name for name in names if name not in _OF_OUTPUT])
    return NamePattern(text, tuple(names), re.compile(expression))


def read_parameter_table(text: str) -> dict[str, dict[str, str]]:
    """Return the parameters by file name of a CSV with the column "file" and columns of parameters.

    Lines that start with "#" are comments. Raises BadFileParameters with the lines that are wrong.
    """
    lines = [(number, cells) for number, cells in _list_rows(text) if any(cell.strip() for cell in cells)]
    if not lines:
        raise BadFileParameters("the table is empty: the first line names the columns, as file,volume_type")
    header = [cell.strip() for cell in lines[0][1]]
    if _FILE not in header or len(set(header)) < len(header):
        raise BadFileParameters(
            f"line {lines[0][0]}: one column must be {_FILE}, and no name may occur twice"
        )
    _check_names([name for name in header if name != _FILE])
    if len(lines) - 1 > ROWS_MAXIMUM:
        raise BadFileParameters(f"{len(lines) - 1} rows; at most {ROWS_MAXIMUM} are allowed")
    rows: dict[str, dict[str, str]] = {}
    faults: list[str] = []
    for number, cells in lines[1:]:
        row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        name = _strip_packing(PurePath(row.get(_FILE, "")).name)
        if len(cells) != len(header):
            faults.append(f"line {number}: {len(cells)} cells, but {len(header)} columns")
        elif not name:
            faults.append(f"line {number}: the name of the file is empty")
        elif name in rows:
            faults.append(f"line {number}: {name} is listed twice")
        else:
            rows[name] = {column: cell for column, cell in row.items() if column != _FILE}
    if faults:
        more = [f"and {len(faults) - _FAULTS_MAXIMUM} more"] if len(faults) > _FAULTS_MAXIMUM else []
        raise BadFileParameters("; ".join([*faults[:_FAULTS_MAXIMUM], *more]))
    return rows


def _list_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with the numbers of their lines; comments are emptied, which keeps the numbers."""
    written = text.removeprefix("\ufeff").splitlines()
    source = "\n".join("" if line.startswith("#") else line for line in written)
    reader = csv.reader(io.StringIO(source, newline=""), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise BadFileParameters(f"line {reader.line_num}: not a valid CSV: {error}") from error


def _check_names(names: list[str]) -> None:
    try:
        refuse_unknown_names(names)
    except BadParameter as error:
        raise BadFileParameters(str(error)) from error


def _strip_packing(name: str) -> str:
    return name[:-3] if name.lower().endswith(".gz") else name


def _strip_ending(name: str) -> str:
    plain = PurePath(_strip_packing(name))
    return plain.stem if plain.suffix.lower() in _ENDINGS else plain.name
