"""Read parsed JSON that the strict decoder rejected: every value that is valid, and no other.

A damaged value is dropped alone, or with its histogram. The result has the same type as that of the decoder.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields

from benchapp.fio.json.shape import (
    Amount,
    Bins,
    Count,
    Depths,
    Errno,
    GlobalOptions,
    OddDirection,
    Options,
    Percentiles,
    PrintedDirection,
    PrintedDisk,
    PrintedJob,
    PrintedLatency,
    PrintedLongShares,
    PrintedReport,
    PrintedShares,
    PrintedSteadyData,
    PrintedSteadyState,
)
from benchapp.fio.merging.histogram import read_bucket
from benchapp.fio.numbers import BIGINT_MAXIMUM, read_amount, read_count, read_errno

Read = Callable[[Any], Any]

# stat.h of 2.x: 19 groups of 64 buckets.
_BUCKETS: Final = 1216


def read_report(content: object) -> PrintedReport:
    """Return the usable part of a JSON value; an empty report if it is not a report."""
    return _read_struct(PrintedReport, content) or PrintedReport()


def _read_struct(kind: type[Struct], value: object) -> Any:
    """Convert valid values at once, others key by key; at most as deep as a report is."""
    try:
        return convert(value, kind, str_keys=True)
    except ValidationError:
        if not isinstance(value, dict):
            return None
    usable: dict[str, Any] = {}
    odd: dict[str, str] = {}
    for key, name, read in _FIELDS[kind]:
        if (part := value.get(key)) is not None:
            usable[name] = read(part)
            if usable[name] is None:
                del usable[name]
                odd[key] = _explain(part)
    if kind is PrintedDirection:
        return OddDirection(**usable, odd=odd)
    try:
        return kind(**usable)
    except TypeError:
        # Shares are all there, or none are of use.
        return None


def _explain(value: object) -> str:
    """Return the reason code of a dropped value: "not-reported" if it is not a number."""
    if isinstance(value, float) and not math.isfinite(value):
        return "not-a-number"
    return "out-of-range" if type(value) in (int, float) else "not-reported"


def _read_list(kind: type[Struct], value: object) -> list[Any] | None:
    return [_read_struct(kind, part) for part in value] if isinstance(value, list) else None


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read_port(value: object) -> int | str:
    return value if type(value) is int else str(value)


def _read_depths(value: object) -> Depths | None:
    if not isinstance(value, dict):
        return None
    amounts = {key: read_amount(amount) for key, amount in value.items()}
    return {key: amount for key, amount in amounts.items() if amount is not None}


def _read_options(value: object) -> Options | None:
    """Read options as text by name; other values, as tools rewrite them, become what fio would print."""
    if not isinstance(value, dict):
        return None
    return {name: _write_value(part) for name, part in value.items() if not isinstance(part, dict | list)}


def _write_value(value: object) -> str:
    if value is None or value is True:
        return ""
    return "0" if value is False else str(value)


def _read_global_options(value: object) -> GlobalOptions | None:
    if isinstance(value, list):
        return [
            {name: part if name == "port" else _write_value(part) for name, part in server.items()}
            for server in value
            if isinstance(server, dict)
        ]
    return _read_options(value)


def _read_percentiles(value: object) -> Percentiles | None:
    if not isinstance(value, dict):
        return None
    found: Percentiles = {}
    for key, part in value.items():
        amount = read_amount(part)
        percent = _read_percent(key)
        if amount is not None and percent is not None:
            found[percent] = amount
    return found


def _read_percent(text: str) -> float | None:
    try:
        percent = float(text)
    except ValueError:
        return None
    return percent if 0 <= percent <= 100 else None


def _read_bins(value: object) -> Bins | None:
    """Read a histogram; None if it holds anything but counts."""
    if not isinstance(value, dict) or not _are_counts(value.values()):
        return None
    if "FIO_IO_U_PLAT_BITS" in value:
        return _read_buckets(value)
    try:
        bins = {int(key): count for key, count in value.items() if count}
    except ValueError:
        return None
    return bins if _are_counts(bins) else None


def _are_counts(values: Any) -> bool:
    """Return whether all are whole numbers within range, and there are some."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= BIGINT_MAXIMUM


def _read_buckets(value: Mapping[str, int]) -> Bins | None:
    """Read what 2.2.12 to 2.19 print: all buckets by index, and three keys with their numbers of bits."""
    filled = {int(key): count for key, count in value.items() if count and key.isdecimal() and len(key) < 10}
    return {read_bucket(index): filled[index] for index in sorted(filled) if index < _BUCKETS} or None


def _choose_reader(kind: Any) -> Read:
    """Return the function that reads a value of an annotated type; for optional types too."""
    if kind in _READERS:
        return _READERS[kind]
    (inner,) = (part for part in get_args(kind) if part is not type(None))
    if inner in _STRUCTS:
        return partial(_read_struct, inner)
    (entry,) = (part for part in get_args(get_args(inner)[0]) if part is not type(None))
    return partial(_read_list, entry)


_READERS: Final[Mapping[Any, Read]] = {
    Errno: read_errno,
    Amount: read_amount,
    str: _read_text,
    str | None: _read_text,
    Count | None: read_count,
    Amount | None: read_amount,
    Depths | None: _read_depths,
    Options | None: _read_options,
    GlobalOptions | None: _read_global_options,
    Percentiles | None: _read_percentiles,
    Bins | None: _read_bins,
    int | str | None: _read_port,
}
_STRUCTS: Final = (
    PrintedLatency,
    PrintedDirection,
    PrintedShares,
    PrintedLongShares,
    PrintedSteadyData,
    PrintedSteadyState,
    PrintedJob,
    PrintedDisk,
    PrintedReport,
)
# Of each structure: key as printed, name, and what reads its value.
_FIELDS: Final[Mapping[type[Struct], tuple[tuple[str, str, Read], ...]]] = {
    kind: tuple((field.encode_name, field.name, _choose_reader(field.type)) for field in fields(kind))
    for kind in _STRUCTS
}
