"""Parse a CSV of published numbers into runs of the schema `benchapp-reported/1`; lists all invalid cells. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, DecimalException
from itertools import product
from typing import Any, Final, Literal

import orjson

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.csv_export import BadCsv, list_csv_lines
from benchapp.intake.posts.envelope import read_profile
from benchapp.intake.posts.metadata import (
    BadLayout,
    excerpt,
    read_environment,
    read_labels,
    read_size,
    read_target,
    read_text,
)
from benchapp.intake.posts.published_document import (
    NOTE_LENGTH,
    read_flag,
    read_measured_time,
    read_number,
    read_reported_direction,
    read_reported_workload,
)
from benchapp.models import ENVIRONMENT_FIELDS, TARGET_FIELDS, DirectionName

Section = Literal["run", "target", "environment", "labels", "measurement", "metric", "pair"]

# Sizes of volumes and files are powers of 1024 although they are written as GB: `-size=5G` of fio is 5 GiB.
_BINARY: Final = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_BANDWIDTHS: Final = {
    **{
        f"{unit}{middle}": factor
        for middle in ("b_s", "b_per_s")
        for unit, factor in {
            "": 1,
            "k": 10**3,
            "m": 10**6,
            "g": 10**9,
            "ki": 2**10,
            "mi": 2**20,
            "gi": 2**30,
        }.items()
    },
    "bytes_per_s": 1,
}
_TIMES: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_STATISTICS: Final = {"": "mean", "mean_": "mean", "p50_": "p50", "p95_": "p95"} | {
    "p99_": "p99",
    "p99_9_": "p99_9",
    "max_": "max",
}
# Name → metric, and factor to its base unit.
METRICS: Final[dict[str, tuple[str, int]]] = {
    "iops": ("iops", 1),
    "elapsed_s": ("elapsed_s", 1),
    **{f"bandwidth_{unit}": ("bandwidth_bytes_per_s", factor) for unit, factor in _BANDWIDTHS.items()},
    **{
        f"latency_{statistic}{unit}": (f"latency_{_STATISTICS[statistic]}_ns", factor)
        for statistic, (unit, factor) in product(_STATISTICS, _TIMES.items())
    },
}
_NUMBER: Final = re.compile(r"\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_LABEL: Final = "label."


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """One column: section and member of its values; read: parses a cell, raises BadLayout."""

    section: Section
    member: str
    read: Callable[[str], Any]


def find_column(name: str) -> CsvColumn | None:
    """Return the column of this name; None if it is unknown."""
    plain = name.strip().lower()
    if plain.startswith(_LABEL) and len(plain) > len(_LABEL):
        return _label(name.strip()[len(_LABEL) :])
    return _COLUMNS.get(plain)


def list_columns() -> tuple[str, ...]:
    """Return the names of columns; only examples of sizes and metrics, which have one for each unit."""
    return (*(name for name in _PLAIN if name not in METRICS), *_EXAMPLES, "label.NAME")


def read_metric_value(metric: str, text: str) -> tuple[str, float]:
    """Return metric and value in base units. metric: name with unit; text: the cell. Raises BadLayout."""
    if metric not in METRICS:
        raise BadLayout("metric", f"{metric[:80]!r} is not a valid metric. Available: {', '.join(METRICS)}")
    name, factor = METRICS[metric]
    return name, read_number(float(_read_decimal(text) * factor), name)


def _read_decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise BadLayout("", f"{text[:80]!r} is not a valid number: use digits and a decimal point")
    try:
        return Decimal(text)
    except DecimalException:
        raise BadLayout("", f"{text[:80]!r} is not a valid number") from None


def _size_reader(factor: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        size = _read_decimal(text) * factor
        if size != int(size):
            raise BadLayout("", f"{text[:80]} is not a whole number of bytes")
        checked = read_size(int(size), "")
        assert checked is not None
        return checked

    return read


def _target(field: str) -> CsvColumn:
    member = "name" if field == "target_name" else field
    return CsvColumn("target", member, lambda text: read_target({member: text})[field])


def _environment(field: str) -> CsvColumn:
    return CsvColumn("environment", field, lambda text: read_environment({field: text})[field])


def _label(name: str) -> CsvColumn:
    return CsvColumn("labels", name, lambda text: read_labels({name: text})[name])


def _workload(member: str, field: str) -> CsvColumn:
    return CsvColumn(
        "measurement",
        member,
        lambda text: read_reported_workload({"rw": text if member == "rw" else "read", member: text}, "")[
            field
        ],
    )


def _read_seconds(text: str) -> float:
    return read_number(float(_read_decimal(text)), "", maximum=1e9)


def _read_direction(text: str) -> str:
    if text.lower() not in DirectionName.values:
        raise BadLayout(
            "", f"{excerpt(text)} is not a valid direction. Available: {', '.join(DirectionName.values)}"
        )
    return text.lower()


def _read_moment(text: str) -> str:
    """Return RFC 3339 text; a date is the start of the day, UTC."""
    whole = f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) else text
    return read_measured_time(whole, "").isoformat().replace("+00:00", "Z")


def _plain_columns() -> dict[str, CsvColumn]:
    columns = {
        "study": _label("study"),
        "ebs_optimized": _label("ebs_optimized"),
        "started_at": CsvColumn("run", "started_at", _read_moment),
        "profile": CsvColumn("run", "profile", lambda text: read_profile(text, "")),
        "note": CsvColumn("measurement", "note", lambda text: read_text(text, "", maximum=NOTE_LENGTH)),
        "rw": _workload("rw", "rw"),
        "block_size": _workload("block_size", "block_size_bytes"),
        "iodepth": _workload("iodepth", "iodepth"),
        "numjobs": _workload("numjobs", "numjobs"),
        "file_size": _workload("file_size", "file_size_bytes"),
        "runtime_s": CsvColumn("measurement", "runtime_s", _read_seconds),
        "direct": CsvColumn("measurement", "direct", lambda text: read_flag(text, "")),
        "engine": _workload("engine", "engine"),
        "read_share": _workload("read_share", "read_share_percent"),
        "direction": CsvColumn("measurement", "direction", _read_direction),
        "metric": CsvColumn("pair", "metric", str.lower),
        "value": CsvColumn("pair", "value", str),
        **{field: _target(field) for field in TARGET_FIELDS},
        **{field: _environment(field) for field in ENVIRONMENT_FIELDS if field != "facts"},
        **{name: CsvColumn("metric", name, str) for name in METRICS},
    }
    aliases = {"name": "target_name", "raid": "raid_level", "is_direct": "direct"}
    aliases |= {"read_share_percent": "read_share", "bs": "block_size", "block_size_bytes": "block_size"}
    aliases |= {
        "file_size_bytes": "file_size",
        "volume_size": "volume_size_bytes",
        "chunk_size": "chunk_size_bytes",
    }
    return columns | {alias: columns[name] for alias, name in aliases.items()}


def _sized_columns(plain: Mapping[str, CsvColumn]) -> dict[str, CsvColumn]:
    return {
        f"{name}_{unit}{ending}": CsvColumn(plain[name].section, plain[name].member, _size_reader(factor))
        for name in ("block_size", "file_size", "volume_size", "chunk_size")
        for unit, factor in _BINARY.items()
        for ending in ("b", "ib")
    }


_PLAIN: Final = _plain_columns()
_COLUMNS: Final = _PLAIN | _sized_columns(_PLAIN)
_EXAMPLES: Final = (
    "volume_size_gb",
    "file_size_gb",
    "iops",
    "bandwidth_mb_s",
    "latency_ms",
    "latency_p99_us",
)


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
