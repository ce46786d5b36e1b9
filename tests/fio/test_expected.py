"""Every test output, compared with a table that was derived from the files without this reader."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.report import Direction, Document, Group, Latency, Report
from tests.corpus import ORIGINALS
from tests.fio.expected_table import (
    COPIES,
    PARTS,
    ExpectedDocument,
    ExpectedFile,
    ExpectedGroup,
    Row,
    list_files,
    read_table,
)

TABLE: Final = [file for part in PARTS for file in read_table(part)]
_EXACT: Final = 1e-9
_TOTALS: Final = ("iops", "bandwidth_bytes_per_s", "io_bytes", "total_ios", "runtime_s")
_LATENCY: Final[dict[str, Callable[[Latency], float | None]]] = {
    "mean": lambda latency: latency.mean_ns,
    "min": lambda latency: latency.minimum_ns,
    "max": lambda latency: latency.maximum_ns,
    "stddev": lambda latency: latency.stddev_ns,
    "p50": lambda latency: dict(latency.percentiles).get(50.0),
    "p99": lambda latency: dict(latency.percentiles).get(99.0),
    "p99.9": lambda latency: dict(latency.percentiles).get(99.9),
}
# Fields without a column may be missing without an entry in the table.
_EXPLAINED: Final = (*_TOTALS, "latency", "completion", "total", "percentiles")


def make_case(file: ExpectedFile) -> ParameterSet:
    """Return the case of one file; one that is not among the copies is read at its place."""
    if (COPIES / file.name).is_file():
        return pytest.param(file, id=file.name)
    return pytest.param(file, id=file.name, marks=pytest.mark.corpus)


@pytest.mark.parametrize("file", [make_case(file) for file in TABLE])
def test_output_has_the_values_of_the_table(file: ExpectedFile) -> None:
    path = next(root / file.name for root in (COPIES, ORIGINALS) if (root / file.name).is_file())

    differences = list(compare_file(file, read_or_refuse(path.read_bytes())))

    assert not differences, "\n".join([file.name, *differences])


@pytest.mark.parametrize("part", PARTS)
def test_every_output_has_a_row_in_the_table(part: str) -> None:
    listed = {file.name for file in TABLE}

    assert [
        name for root in (COPIES, ORIGINALS) for name in list_files(root, part) if name not in listed
    ] == []


@pytest.mark.corpus
@pytest.mark.parametrize("part", PARTS)
def test_every_row_of_the_table_has_an_output(part: str) -> None:
    assert sorted(file.name for file in read_table(part)) == sorted(list_files(ORIGINALS, part))


def test_copies_cover_every_format_of_every_version() -> None:
    ours = [file for part in ("generated", "versions") for file in read_table(part)]

    missing = list_formats(ours) - list_formats([file for file in ours if (COPIES / file.name).is_file()])

    assert missing == set()


def test_copies_are_the_bytes_of_the_originals() -> None:
    names = [name for part in PARTS for name in list_files(COPIES, part) if (ORIGINALS / name).is_file()]

    assert [name for name in names if (COPIES / name).read_bytes() != (ORIGINALS / name).read_bytes()] == []


def list_formats(files: Iterable[ExpectedFile]) -> set[tuple[str, str]]:
    """Return each format with each version of fio; for terse v2, which has none, that of the folder."""
    return {
        (document.format, document.version or file.name.split("/")[1])
        for file in files
        for document in file.documents
    }


def read_or_refuse(output: bytes) -> Report | UnreadableOutput:
    try:
        return read_output(output)
    except UnreadableOutput as error:
        return error


def compare_file(expected: ExpectedFile, found: Report | UnreadableOutput) -> Iterator[str]:
    """Yield each difference: where, which field, what the table has and what was read."""
    if isinstance(found, UnreadableOutput):
        yield from compare("refusal", expected.refusal or "none", f"{found.code}")
        return
    if expected.refusal:
        yield f"refusal: expected {expected.refusal}, got {len(found.documents)} documents"
        return
    if expected.warnings != "?":
        codes = " ".join(sorted({note.code for note in found.warnings})) or "-"
        yield from compare("warnings", expected.warnings, codes)
    yield from compare("documents", len(expected.documents), len(found.documents))
    for number, (mine, theirs) in enumerate(zip(expected.documents, found.documents, strict=False)):
        for difference in compare_document(mine, theirs):
            yield f"document {number}, {difference}"


def compare_document(expected: ExpectedDocument, found: Document) -> Iterator[str]:
    kind = f"{found.format} v{found.format_version}" if found.format == "terse" else found.format
    yield from compare("format", expected.format, kind)
    yield from compare("version", expected.version, found.fio_version)
    yield from compare("groups", len(expected.groups), len(found.groups))
    for mine, theirs in zip(expected.groups, found.groups, strict=False):
        for difference in compare_group(mine, theirs):
            yield f"{mine.row['group']} of group {mine.row['groupid']}, {difference}"


def compare_group(expected: ExpectedGroup, found: Group) -> Iterator[str]:
    row = expected.row
    values: dict[str, object] = {
        "group": found.name or "-",
        "groupid": found.groupid,
        "hostname": found.hostname or "",
        "numjobs": "" if found.numjobs is None else found.numjobs,
        "merged": len(found.jobs),
        "error": found.error,
    }
    for name, value in values.items():
        yield from compare(name, row[name], value)
    directions = {direction.name: direction for direction in found.directions}
    yield from compare("directions", " ".join(expected.directions), " ".join(directions))
    for name, direction in directions.items():
        if name in expected.directions:
            for difference in compare_direction(expected.directions[name], direction):
                yield f"{name}, {difference}"


def compare_direction(row: Row, found: Direction) -> Iterator[str]:
    for name in _TOTALS:
        yield from compare_value(name, row[name], getattr(found, name))
    for prefix, latency in (("clat", found.completion), ("lat", found.total)):
        for name, take in _LATENCY.items():
            yield from compare_value(f"{prefix}_{name}", row[f"{prefix}_{name}"], latency and take(latency))
    yield from compare_value("slat_mean", row["slat_mean"], found.submission and found.submission.mean_ns)
    reasons = dict(pair.split("=") for pair in row["missing"].split())
    missing = {name: reason for name, reason in found.missing.items() if name in _EXPLAINED}
    for name in sorted({*reasons, *missing} - {name for name in _TOTALS if row[name] in ("?", "!0")}):
        if reasons.get(name) != "*" or name not in missing:
            yield from compare(f"missing {name}", reasons.get(name), missing.get(name))


def compare_value(name: str, cell: str, found: float | None) -> Iterator[str]:
    if cell == "?" or (cell == "!0" and found != 0):
        return
    if not is_as_expected(cell, found):
        yield f"{name}: expected {cell or 'none'}, got {found}"


def is_as_expected(cell: str, found: float | None) -> bool:
    if not cell or found is None or cell == "!0":
        return not cell and found is None
    low, _, high = cell.partition("..")
    room = _EXACT * abs(found)
    return float(low) - room <= found <= float(high or low) + room


def compare(name: str, expected: object, found: object) -> Iterator[str]:
    if str(expected) != str(found):
        yield f"{name}: expected {str(expected)!r}, got {str(found)!r}"
