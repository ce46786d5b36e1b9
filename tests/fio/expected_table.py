"""Read the tables of expected results, a CSV for each part of the outputs, derived without this reader.

A row has one direction of one group; the columns of file, document and group are filled in their first row only.
Numbers are in base units, latencies ns. A cell is a number, to 1e-9; `low..high` if the text is rounded; blank for an
absent value, with its reason in `missing` (`*`: any reason); `?` if the format is ambiguous; `!0` for a 0 that fio
printed by mistake: absent, or any other value.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TABLES: Final = Path(__file__).parent / "expected"
COPIES: Final = Path(__file__).parents[1] / "data" / "fio"
PARTS: Final = ("generated", "versions", "public")
# These describe the outputs.
_ABOUT: Final = ("README.md", "index.csv")

Row = dict[str, str]


@dataclass(slots=True)
class ExpectedGroup:
    """A group of one document: its first row, and the rows of its directions by name."""

    row: Row
    directions: dict[str, Row] = field(default_factory=dict)


@dataclass(slots=True)
class ExpectedDocument:
    """One report; format: with the version of terse ("terse v3"); version: of fio, as printed."""

    format: str
    version: str
    groups: list[ExpectedGroup] = field(default_factory=list)


@dataclass(slots=True)
class ExpectedFile:
    """One file; refusal: the code of its refusal, empty if it is read; warnings: codes, "?" for any."""

    name: str
    refusal: str
    warnings: str
    documents: list[ExpectedDocument] = field(default_factory=list)


def read_table(part: str) -> list[ExpectedFile]:
    """Return the expected results of every file of one part of the outputs, in order."""
    files: list[ExpectedFile] = []
    with (TABLES / f"{part}.csv").open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["file"]:
                files.append(ExpectedFile(f"{part}/{row['file']}", row["refusal"], row["warnings"]))
            if row["document"]:
                files[-1].documents.append(ExpectedDocument(row["format"], row["version"]))
            if row["group"]:
                files[-1].documents[-1].groups.append(ExpectedGroup(row))
            if row["direction"]:
                files[-1].documents[-1].groups[-1].directions[row["direction"]] = row
    return files


def list_files(root: Path, part: str) -> Iterator[str]:
    """Yield the names of the outputs of one part under a root, as the table has them."""
    for path in sorted((root / part).rglob("*")):
        if path.is_file() and path.name not in _ABOUT:
            yield path.relative_to(root).as_posix()
