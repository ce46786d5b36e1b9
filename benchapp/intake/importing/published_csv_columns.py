"""Columns of a CSV of published numbers, and the parser of each. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from itertools import product
from typing import Any, Final, Literal

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
    aliases |= {"read_share_percent": "read_share", "block_size_bytes": "block_size"}
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
