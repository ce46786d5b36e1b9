"""How the values of a dimension are ordered, and said to a person."""

from typing import Any, Final

from benchapp.dimensions import DIMENSIONS, split_pattern
from benchapp.grammar import Value
from benchapp.queries.titles import name_rw, say_short_size, say_size

UNKNOWN: Final = "unknown"
# As people list them: sequential before random, reads before writes.
_ORDER: Final = ("read", "write", "rw", "readwrite", "randread", "randwrite", "randrw")
_FLAGS: Final = {"is_direct": ("buffered", "direct")}
# (one, several) of what is counted.
_COUNTED: Final = {
    "volume_count": ("volume", "volumes"),
    "stripe_count": ("stripe", "stripes"),
    "numjobs": ("job", "jobs"),
}
_BEFORE: Final = {"iodepth": "depth"}
_AFTER: Final = {
    "file_size_bytes": "files",
    "volume_size_bytes": "volumes",
    "block_size_bytes": "blocks",
    "chunk_size_bytes": "chunks",
}


def describe_value(name: str, value: Value | None) -> str:
    """Say a dimension's value by itself, as a tick or a header does: "5 GiB", "4k", "random read", "16"."""
    if value is None or value == "":
        return UNKNOWN
    if name in ("pattern", "rw"):
        return _describe_pattern(str(value))
    kind = DIMENSIONS[name].kind
    if kind == "flag":
        return _FLAGS.get(name, ("no", "yes"))[bool(value)]
    if name == "block_size_bytes":
        return say_short_size(int(value))
    if kind == "size":
        return say_size(int(value))
    if kind == "seconds":
        return f"{value:g} s"
    if kind == "percent":
        return f"{value:g} %"
    return str(value) if kind == "text" else f"{value:,}".replace(",", "\u202f")


def describe_setting(name: str, value: Value | None) -> str:
    """Say a dimension's value so that it stands without a header: "5 GiB files", "16 volumes", "host db-01"."""
    said = describe_value(name, value)
    if said == UNKNOWN:
        return f"unknown {DIMENSIONS[name].label.lower()}"
    if name in _COUNTED:
        return f"{said} {_COUNTED[name][value != 1]}"
    if name in _AFTER:
        return f"{said} {_AFTER[name]}"
    if name == "provisioned_iops":
        return f"{said} IOPS provisioned"
    if name in ("host", "pool"):
        return f"{name} {said}"
    return f"{_BEFORE[name]} {said}" if name in _BEFORE else said


def order_value(name: str, value: Value | None) -> tuple[Any, ...]:
    """Return what a dimension's values are sorted by: numbers by size, patterns as people list them, unknown last."""
    if value is None or value == "":
        return (2, 0, "")
    if name in ("pattern", "rw"):
        rw = split_pattern(str(value))[0]
        return (0, _ORDER.index(rw) if rw in _ORDER else len(_ORDER), str(value))
    return (0, 0, str(value)) if DIMENSIONS[name].kind == "text" else (0, value, "")


def _describe_pattern(pattern: str) -> str:
    rw, _, direction = pattern.partition(" ")
    said = name_rw(rw)
    return (
        f"{said}, {direction}s" if direction in ("read", "write", "trim") else f"{said} {direction}".strip()
    )
