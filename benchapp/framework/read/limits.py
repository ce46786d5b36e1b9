"""Published limits of volume types and instance types: those of limits.csv, and of the user's file."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Final

from django.conf import settings

# A file may have them; what depends on the size of a volume, or is reached with burst credits alone.
BURST_COLUMNS: Final = (
    "sustained_iops",
    "sustained_mb_per_s",
    "sustained_iops_per_gib",
    "sustained_mib_per_s_per_tib",
    "burst_iops",
)
LIMIT_COLUMNS: Final = (
    "volume_type",
    "instance_type",
    "iops",
    "mb_per_s",
    "mib_per_s",
    "as_of",
    "source",
)
_SHIPPED: Final = Path(__file__).with_name("limits.csv")
_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)
_TEXT_MAXIMUM: Final = 200


class BadLimitsFile(Exception):
    """A file of limits that is not valid; the message has file, line and column."""


@dataclass(frozen=True, slots=True)
class KnownLimit:
    """The published limit of a volume of a type, or of an instance. None: not stated. as_of: the day of the source.

    sustained_iops, sustained_bandwidth_bytes_per_s: without burst credits, at least; per_gib, per_byte: for each GiB
    and byte of a volume. burst_iops: with burst credits, where that is less than iops.
    """

    name: str
    is_instance: bool
    iops: float | None
    bandwidth_bytes_per_s: float | None
    as_of: date
    source: str
    sustained_iops: float | None = None
    sustained_bandwidth_bytes_per_s: float | None = None
    iops_per_gib: float | None = None
    bandwidth_per_byte: float | None = None
    burst_iops: float | None = None

    @property
    def depends_on_size(self) -> bool:
        """Return whether a larger volume sustains more."""
        return self.iops_per_gib is not None or self.bandwidth_per_byte is not None

    def at_size(self, size_bytes: int | None) -> "KnownLimit":
        """Return what is sustained without burst credits by a volume of a size; the same limit if that is not known."""
        if self.depends_on_size and size_bytes is None:
            return self
        size = size_bytes or 0
        by_size = (size / 2**30 * (self.iops_per_gib or 0), size * (self.bandwidth_per_byte or 0))
        least = (self.sustained_iops or 0, self.sustained_bandwidth_bytes_per_s or 0)
        most = (self.iops, self.bandwidth_bytes_per_s)
        iops, bandwidth = (
            min(max(one, other), limit) if max(one, other) and limit is not None else limit
            for one, other, limit in zip(by_size, least, most, strict=True)
        )
        return replace(self, iops=iops, bandwidth_bytes_per_s=bandwidth)


def read_known_limits() -> Mapping[tuple[bool, str], KnownLimit]:
    """Return the limits by (is_instance, name); rows of the user's file replace those of the same type.

    Raises BadLimitsFile.
    """
    return _read_files(settings.LIMITS_FILE)


@lru_cache(maxsize=2)
def _read_files(own: str) -> Mapping[tuple[bool, str], KnownLimit]:
    found: dict[tuple[bool, str], KnownLimit] = {}
    for path in (_SHIPPED, *([Path(own)] if own else [])):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadLimitsFile(f"{path}: {error}") from error
        for limit in parse_known_limits(text, origin=path.name):
            found[limit.is_instance, limit.name] = limit
    return found


def parse_known_limits(text: str, *, origin: str) -> list[KnownLimit]:
    """Return the limits of a CSV with all LIMIT_COLUMNS; lines that start with "#" are comments.

    origin: name of the file, for errors. Raises BadLimitsFile.
    """
    lines = ["" if line.startswith("#") else line for line in text.removeprefix("\ufeff").splitlines()]
    reader = csv.reader(io.StringIO("\n".join(lines), newline=""), strict=True)
    header: list[str] = []
    limits: list[KnownLimit] = []
    try:
        for cells in reader:
            where = f"{origin}, line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                needed = sorted(set(header) - set(BURST_COLUMNS))
                if needed != sorted(LIMIT_COLUMNS) or len(header) > len(set(header)):
                    raise BadLimitsFile(f"{where}: the columns must be {', '.join(LIMIT_COLUMNS)}")
                continue
            if len(cells) != len(header):
                raise BadLimitsFile(f"{where}: {len(cells)} cells, but {len(header)} columns")
            limits.append(_read_row(dict(zip(header, map(str.strip, cells), strict=True)), where))
    except csv.Error as error:
        raise BadLimitsFile(f"{origin}, line {reader.line_num}: not a valid CSV: {error}") from error
    return limits


def _read_row(cells: Mapping[str, str], where: str) -> KnownLimit:
    for column, problem in _find_faults(cells):
        raise BadLimitsFile(f"{where}, {column}: {problem}")
    bandwidth = _read_number(cells["mb_per_s"], 10**6) or _read_number(cells["mib_per_s"], 2**20)
    return KnownLimit(
        name=(cells["volume_type"] or cells["instance_type"]).lower(),
        is_instance=bool(cells["instance_type"]),
        iops=_read_number(cells["iops"], 1),
        bandwidth_bytes_per_s=bandwidth,
        as_of=date.fromisoformat(cells["as_of"]),
        source=cells["source"],
        sustained_iops=_read_number(cells.get("sustained_iops", ""), 1),
        sustained_bandwidth_bytes_per_s=_read_number(cells.get("sustained_mb_per_s", ""), 10**6),
        iops_per_gib=_read_number(cells.get("sustained_iops_per_gib", ""), 1),
        bandwidth_per_byte=_read_number(cells.get("sustained_mib_per_s_per_tib", ""), 1 / 2**20),
        burst_iops=_read_number(cells.get("burst_iops", ""), 1),
    )


def _find_faults(cells: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield column and message of what is not valid."""
    if bool(cells["volume_type"]) == bool(cells["instance_type"]):
        yield "volume_type", "state either a volume type or an instance type"
    for column in ("iops", "mb_per_s", "mib_per_s", *BURST_COLUMNS):
        text = cells.get(column, "")
        if text and not (_NUMBER.fullmatch(text) and float(text) > 0):
            yield column, f"{text[:40]!r} is not a number above 0"
    if cells["mb_per_s"] and cells["mib_per_s"]:
        yield "mib_per_s", "state either mb_per_s or mib_per_s"
    if not any(cells[column] for column in ("iops", "mb_per_s", "mib_per_s")):
        yield "iops", "the limit is missing"
    try:
        date.fromisoformat(cells["as_of"])
    except ValueError:
        yield "as_of", f"{cells['as_of'][:40]!r} is not a valid day: use YYYY-MM-DD"
    if not cells["source"]:
        yield "source", "the cell is empty"
    for column in ("volume_type", "instance_type", "source"):
        if len(cells[column]) > _TEXT_MAXIMUM or not cells[column].isprintable():
            yield column, f"use at most {_TEXT_MAXIMUM} printable characters"


def _read_number(text: str, factor: float) -> float | None:
    return float(text) * factor if text else None
