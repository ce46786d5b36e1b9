"""Read the single values of published numbers: what was asked of the storage, which way, and how much."""

import math
from collections.abc import Mapping
from typing import Any, Final

from benchapp.models import DirectionName
from benchapp.pipeline.layout import BadLayout, excerpt, read_count, read_size, read_text

_VALUE_MAXIMUM: Final = 1e18
_RUNTIME_MAXIMUM_S: Final = 1e9
_READS: Final = {
    "read": 100,
    "randread": 100,
    "write": 0,
    "randwrite": 0,
    "trim": 0,
    "randtrim": 0,
    "trimwrite": 0,
    "randtrimwrite": 0,
    "rw": None,
    "randrw": None,
}
_FLAGS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_number(value: Any, pointer: str, *, maximum: float = _VALUE_MAXIMUM) -> float:
    """Return a finite number from 0 on; text is refused, so that no separator of thousands is guessed at."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLayout(pointer, f"a number is wanted here, not {excerpt(value)}")
    if not (math.isfinite(value) and 0 <= value <= maximum):
        raise BadLayout(pointer, f"{excerpt(value)} is not between 0 and {maximum:g}")
    return float(value)


def read_flag(value: Any, pointer: str) -> bool | None:
    """Return yes or no from a flag, 1 and 0, or their words; None where nothing is said."""
    if value is None or value == "":
        return None
    found = value if isinstance(value, bool) else _FLAGS.get(str(value).strip().lower())
    if found is None:
        raise BadLayout(pointer, f"{excerpt(value)} is neither yes nor no")
    return found


def read_reported_workload(given: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """Return the workload's columns by name from the members that say them; what is not said is unknown."""
    rw = (read_text(given.get("rw"), f"{pointer}/rw", maximum=20) or "").lower()
    rw = "rw" if rw == "readwrite" else rw
    if rw not in _READS:
        raise BadLayout(f"{pointer}/rw", f"{excerpt(given.get('rw'))} is none of: {', '.join(_READS)}")
    runtime_s = given.get("runtime_s")
    numjobs = read_count(given.get("numjobs"), f"{pointer}/numjobs")
    if numjobs == 0:
        raise BadLayout(f"{pointer}/numjobs", "at least one job did it")
    return {
        "rw": rw,
        "block_size_bytes": read_size(given.get("block_size"), f"{pointer}/block_size"),
        "block_size_text": "",
        "iodepth": read_count(given.get("iodepth"), f"{pointer}/iodepth"),
        "numjobs": numjobs or 1,
        "file_size_bytes": read_size(given.get("file_size"), f"{pointer}/file_size"),
        "file_size_text": "",
        "is_direct": read_flag(given.get("direct"), f"{pointer}/direct"),
        "engine": read_text(given.get("engine"), f"{pointer}/engine", maximum=50) or "",
        "read_share_percent": _read_share(given.get("read_share"), rw, pointer=f"{pointer}/read_share"),
        "runtime_s": None
        if runtime_s is None
        else read_number(runtime_s, f"{pointer}/runtime_s", maximum=_RUNTIME_MAXIMUM_S),
        "options": {},
    }


def read_reported_direction(value: Any, rw: str, *, pointer: str) -> str:
    """Return which direction the values are of: as said, else the only one that the rw has."""
    if value is None:
        only = {"rw": "", "randrw": "", "trimwrite": "", "randtrimwrite": ""}.get(rw, rw.removeprefix("rand"))
        if not only:
            raise BadLayout(pointer, f"{rw} does two directions: say of which the values are")
        return only
    if value not in DirectionName.values:
        raise BadLayout(pointer, f"{excerpt(value)} is none of: {', '.join(DirectionName.values)}")
    return str(value)


def _read_share(value: Any, rw: str, *, pointer: str) -> int | None:
    share = read_count(value, pointer)
    if share is None:
        return _READS[rw]
    if share > 100:
        raise BadLayout(pointer, f"{share} is more than 100 per cent")
    return share
