"""Facts of the environment and conditions of a run, as agents name them, with labels and units."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchapp.catalog.metrics import UNKNOWN, format_integer, format_three_digits, format_value
from benchapp.series.read.runs.dependence import CONDITIONS

_LABELS: Final = {
    **{name: condition.label for name, condition in CONDITIONS.items()},
    **{f"dirty_{end}": f"vm.dirty_{end}" for end in ("background_ratio", "bytes", "ratio")},
    "swappiness": "vm.swappiness",
    "extent_largest_bytes": "Largest extent",
    "frequency_max_khz": "Maximum frequency",
    "cpu_quota_throttled_s": "Throttled by the CPU quota",
    "governor_change": "Change of the governor",
    "kernel_parameters": "Kernel parameters",
    "load_after": "Load after the run",
    "load_before": "Load before the run",
    "other_io_after": "Other I/O after the run",
    "other_io_before": "Other I/O before the run",
    "suspended_s": "Time in suspend",
    "transparent_hugepage": "Transparent huge pages",
}
_WORDS: Final = {
    **{word: word.upper() for word in ("bios", "cpu", "fua", "id", "iops", "numa", "smt", "wwn")},
    "cpus": "CPUs",
    "hw": "hardware",
    "io": "I/O",
    "lat": "latency",
    "nr": "number of",
}
# Of the end of a name: its unit, and how many of them one is. Without a unit in the name, the end stays in the label.
_UNITS: Final = (
    ("_bytes_per_s", "bytes/s", 1.0),
    ("_bytes", "bytes", 1.0),
    ("_kb", "bytes", 1024.0),
    ("_kib", "bytes", 1024.0),
    ("_percent", "percent", 1.0),
    ("_khz", "GHz", 1e-6),
    ("_per_s", "/s", 1.0),
    ("_ns", "ns", 1.0),
    ("_us", "ns", 1e3),
    ("_usec", "ns", 1e3),
    ("_ms", "ns", 1e6),
    ("_s", "ns", 1e9),
)
_UNITS_WITHOUT_END: Final = (
    ("_ratio", "percent", 1.0),
    ("block_size", "bytes", 1.0),
    ("io_size", "bytes", 1.0),
)
# Settings of the kernel that are 0 or 1.
_SWITCHES: Final = frozenset(
    ("add_random", "dax", "direct_io", "fua", "rotational", "smt_active", "stable_writes", "turbo_off")
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class FactLine:
    """One fact. name, raw: as the agent sent it."""

    name: str
    label: str
    text: str
    raw: str


def list_facts(facts: Mapping[str, Any]) -> list[FactLine]:
    """Return facts in their order, with labels, and values with the unit that the end of the name states."""
    return [FactLine(name, *_describe(name, value), _write(value)) for name, value in facts.items()]


def _describe(name: str, value: Any) -> tuple[str, str]:
    """Return label and value."""
    for end, unit, factor in (*_UNITS, *_UNITS_WITHOUT_END):
        if name.endswith(end) and (numbers := _read_numbers(value)):
            stem = name.removesuffix(end) if (end, unit, factor) in _UNITS else name
            return _name(name, stem), ", ".join(_format(number * factor, unit) for number in numbers)
    return _name(name, name), _format_value(name, value)


def _name(name: str, stem: str) -> str:
    if name in _LABELS:
        return _LABELS[name]
    label = " ".join(_WORDS.get(word, word) for word in stem.split("_") if word)
    return f"{label[:1].upper()}{label[1:]}"


def _format(value: float, unit: str) -> str:
    if unit == "GHz":
        return f"{format_three_digits(value)} GHz"
    if unit == "/s":
        return f"{format_three_digits(value)}/s"
    return "0 s" if unit == "ns" and value == 0 else format_value(value, unit)


def _format_value(name: str, value: Any) -> str:
    """Format a value without unit, also a nested one: "vda, vdb", "rotational no · read ahead 128 KiB"."""
    if isinstance(value, Mapping):
        parts = ((inner, *_describe(inner, part)) for inner, part in value.items())
        return " · ".join(f"{_begin_lower(inner, label)} {text}" for inner, label, text in parts)
    if isinstance(value, list):
        return ", ".join(_format_value(name, part) for part in value)
    if isinstance(value, bool) or (name in _SWITCHES and value in ("0", "1", 0, 1)):
        return "yes" if value in (True, "1") else "no"
    if isinstance(value, int):
        return format_integer(value)
    return UNKNOWN if value is None or value == "" else str(value)


def _begin_lower(name: str, label: str) -> str:
    """Return the label within a line; abbreviations and names of devices keep their case."""
    return f"{name[:1]}{label[1:]}" if label[:1] == name[:1].upper() and not label[:2].isupper() else label


def _read_numbers(value: Any) -> list[float]:
    """Return a number, or several joined by commas, also as text; [] if it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [float(value)]
    parts = value.split(",") if isinstance(value, str) else []
    return [float(part) for part in parts] if parts and all(map(_NUMBER.fullmatch, parts)) else []


def _write(value: Any) -> str:
    """Return a value as it was sent, for the title."""
    if isinstance(value, Mapping):
        return " · ".join(f"{name} {_write(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_write, value))
    return "" if value is None else str(value)
