"""The options of a job as fio lists them."""

from collections.abc import Mapping
from typing import Final

from benchapp.fio.numbers import INTEGER_MAXIMUM
from benchapp.fio.workload.sizes import parse_size

_DIRECTIONS_ASKED: Final = {
    "read": ("read",),
    "randread": ("read",),
    "write": ("write",),
    "randwrite": ("write",),
    "trim": ("trim",),
    "randtrim": ("trim",),
    "rw": ("read", "write"),
    "readwrite": ("read", "write"),
    "randrw": ("read", "write"),
    "trimwrite": ("write", "trim"),
    "randtrimwrite": ("write", "trim"),
}
_NONE: Final[Mapping[str, str]] = {}

# The name of the entry in which fio adds up those of all servers.
AGGREGATE: Final = "All clients"


def overlay_options(of_all: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the effective options: the job's own win."""
    return {**of_all, **own} if of_all else own


def list_directions_asked(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directions that rw asks for; empty without rw, as in reports before 2.3."""
    # unified_rw_reporting prints "mixed" alone.
    if options.get("unified_rw_reporting") in ("1", "mixed"):
        return ("mixed",)
    rw = options.get("rw", "")
    return _DIRECTIONS_ASKED.get(rw) or _DIRECTIONS_ASKED.get(rw.partition(":")[0], ())


def count_jobs_asked(options: Mapping[str, str]) -> int | None:
    """Return numjobs; None if the options have none, as those of the global section before 3.4."""
    text = options.get("numjobs")
    count = parse_size(text) if text else None
    return count if count and count <= INTEGER_MAXIMUM else None


def is_set(options: Mapping[str, str], name: str) -> bool:
    """Return whether a flag is given and not switched off; from 3.39 a bare flag is listed with an empty value."""
    return options.get(name, "0").strip().lower() not in ("0", "false", "no")
