"""Parse a CSV of published numbers into runs of the schema `benchapp-reported/1`; lists all invalid cells. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.csv_export import BadCsv, list_csv_lines
from benchapp.intake.importing.published_csv_columns import (
    CsvColumn,
    find_column,
    list_columns,
    read_metric_value,
)
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.published_document import NOTE_LENGTH, read_reported_direction

ROWS_MAXIMUM: Final = 100_000
FAULTS_MAXIMUM: Final = 100


@dataclass(frozen=True, slots=True)
class CellFault:
    """One invalid cell. line: from 1, 0 for a default of all rows. column: its header, "" for the whole line."""

    line: int
    column: str
    message: str

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else "for all rows"
        return f"{line}, {self.column}: {self.message}" if self.column else f"{line}: {self.message}"


class BadTable(Exception):
    """An invalid CSV; faults: at most 100, in the order of the file."""

    def __init__(self, faults: Sequence[CellFault]) -> None:
        super().__init__("; ".join(map(str, faults[:3])))
        self.faults = tuple(faults)


@dataclass(slots=True)
class _RowParts:
    """The values of one row by section."""

    run: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)
    measurement: dict[str, Any] = field(default_factory=dict)
    metric: dict[str, str] = field(default_factory=dict)
    pair: dict[str, str] = field(default_factory=dict)


def read_table(text: str, defaults: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the runs of a CSV, as members of a document of published numbers, in the order of the file.

    Rows with the same layout, labels (including the study), environment and time are one run; rows of a run with the
    same workload and different metrics are one measurement. Lines that start with "#" are comments. defaults: column →
    text for empty cells and missing columns. Raises BadTable.
    """
    constants = _read_defaults(defaults or {})
    lines = list(_list_lines(text))
    if not lines:
        raise BadTable([CellFault(1, "", "the header line is missing")])
    header, columns = _read_header(*lines[0], constants)
    faults: list[CellFault] = []
    runs = _Runs()
    for number, cells in lines[1:]:
        parts = _read_row(number, cells, header=header, columns=columns, constants=constants, faults=faults)
        if not faults and parts is not None:
            runs.add(parts)
        if len(faults) >= FAULTS_MAXIMUM:
            break
    if not faults and not runs.list_all():
        faults.append(CellFault(lines[0][0], "", "no rows below the header line"))
    if faults:
        raise BadTable(faults)
    return runs.list_all()


def _list_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty lines with their numbers, at most ROWS_MAXIMUM."""
    try:
        for number, cells in list_csv_lines(text):
            if number > ROWS_MAXIMUM:
                raise BadTable([CellFault(number, "", f"more than {ROWS_MAXIMUM} lines")])
            yield number, cells
    except BadCsv as error:
        raise BadTable([CellFault(error.line, "", str(error))]) from error


def _read_header(
    number: int, cells: Sequence[str], constants: Mapping[str, tuple[CsvColumn, Any]]
) -> tuple[list[str], list[CsvColumn]]:
    names = [cell.strip() for cell in cells]
    found = [find_column(name) for name in names]
    faults = [
        CellFault(
            number,
            name or "a column",
            f"unknown column {name[:80]!r}. Available: {', '.join(list_columns())}",
        )
        for name, column in zip(names, found, strict=True)
        if column is None
    ]
    columns = [column for column in found if column is not None]
    keys = [(column.section, column.member) for column in columns]
    faults += [
        CellFault(number, name, "duplicate of another column")
        for at, name in enumerate(names)
        if not faults and keys.index(keys[at]) != at
    ]
    if not faults:
        faults += _find_missing(number, {*keys, *((c.section, c.member) for c, _ in constants.values())})
    if faults:
        raise BadTable(faults)
    return names, columns


def _find_missing(number: int, keys: set[tuple[str, str]]) -> Iterator[CellFault]:
    if ("measurement", "rw") not in keys:
        yield CellFault(number, "", "column rw (read, write, randread, randwrite, …) is missing")
    has_pair = {("pair", "metric"), ("pair", "value")} <= keys
    if not has_pair and not any(section == "metric" for section, _ in keys):
        yield CellFault(number, "", "no values: add the columns metric and value, or one such as iops")
    if ("run", "started_at") not in keys:
        yield CellFault(number, "", "no time of measurement: add --date, or a column started_at")


def _read_defaults(given: Mapping[str, str]) -> dict[str, tuple[CsvColumn, Any]]:
    constants: dict[str, tuple[CsvColumn, Any]] = {}
    for name, text in given.items():
        column = find_column(name)
        if column is None:
            raise BadTable([CellFault(0, name, f"unknown column. Available: {', '.join(list_columns())}")])
        try:
            constants[name] = (column, column.read(text))
        except BadLayout as error:
            raise BadTable([CellFault(0, name, str(error))]) from error
    return constants


def _read_row(
    number: int,
    cells: Sequence[str],
    *,
    header: Sequence[str],
    columns: Sequence[CsvColumn],
    constants: Mapping[str, tuple[CsvColumn, Any]],
    faults: list[CellFault],
) -> _RowParts | None:
    """Return the values of a row; None if it is invalid, with its faults added."""
    if len(cells) != len(columns):
        faults.append(CellFault(number, "", f"{len(cells)} cells, but {len(columns)} columns"))
        return None
    before = len(faults)
    parts = _RowParts()
    for column, value in constants.values():
        getattr(parts, column.section)[column.member] = value
    for name, column, cell in zip(header, columns, cells, strict=True):
        if not cell.strip():
            continue
        try:
            getattr(parts, column.section)[column.member] = column.read(cell.strip())
        except BadLayout as error:
            faults.append(CellFault(number, name, str(error)))
    if len(faults) == before:
        faults.extend(_finish_row(number, parts))
    return parts if len(faults) == before else None


def _finish_row(number: int, parts: _RowParts) -> Iterator[CellFault]:
    """Add the metrics to the measurement; yield the faults of the row as a whole."""
    named = dict(parts.metric)
    if parts.pair:
        if len(parts.pair) < 2:
            absent = "value" if "metric" in parts.pair else "metric"
            yield CellFault(number, absent, "the cell is empty")
            return
        named[parts.pair["metric"]] = parts.pair["value"]
    if not named:
        yield CellFault(number, "", "the row has no values")
    for name, text in named.items():
        try:
            metric, value = read_metric_value(name, text)
        except BadLayout as error:
            yield CellFault(number, "metric" if error.pointer == "metric" else name, str(error))
            continue
        parts.measurement[metric] = value
    if "rw" not in parts.measurement:
        yield CellFault(number, "rw", "the cell is empty")
        return
    if "started_at" not in parts.run:
        yield CellFault(number, "started_at", "the cell is empty, and --date is not set")
    try:
        read_reported_direction(parts.measurement.get("direction"), parts.measurement["rw"], pointer="")
    except BadLayout as error:
        yield CellFault(number, "direction", str(error))


class _Runs:
    """Collects rows into runs."""

    def __init__(self) -> None:
        self._runs: dict[bytes, dict[str, Any]] = {}
        self._measurements: dict[tuple[bytes, bytes], list[dict[str, Any]]] = {}

    def add(self, parts: _RowParts) -> None:
        """Add a row to its run, and to its measurement unless that has one of its metrics."""
        head = {**parts.run, "target": parts.target, "labels": parts.labels, "environment": parts.environment}
        key = orjson.dumps(head, option=orjson.OPT_SORT_KEYS)
        run = self._runs.setdefault(key, {**head, "measurements": []})
        metrics = parts.measurement.keys() & CATALOG.keys()
        workload = {
            name: value for name, value in parts.measurement.items() if name not in (*metrics, "note")
        }
        workload_key = (key, orjson.dumps(workload, option=orjson.OPT_SORT_KEYS))
        measurements = self._measurements.setdefault(workload_key, [])
        known = next((each for each in measurements if metrics.isdisjoint(each)), None)
        if known is None:
            measurements.append(dict(parts.measurement))
            run["measurements"].append(measurements[-1])
            return
        notes = dict.fromkeys(part["note"] for part in (known, parts.measurement) if "note" in part)
        known.update(parts.measurement)
        if notes:
            known["note"] = "; ".join(notes)[:NOTE_LENGTH]

    def list_all(self) -> list[dict[str, Any]]:
        """Return the runs in the order of the file."""
        return list(self._runs.values())
