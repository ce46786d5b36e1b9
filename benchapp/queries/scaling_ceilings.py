"""Lines that no value of a picture should pass: given ones, and what is provisioned."""

import re
from dataclasses import dataclass
from typing import Final

from benchapp.metrics import Unit

CEILINGS_MAXIMUM: Final = 8
_NAME_MAXIMUM: Final = 60
_VALUE: Final = re.compile(
    r"(?P<number>\d{1,12}(?:\.\d{1,6})?)\s*(?P<unit>[A-Za-zµ/]{0,6})\s*(?P<each>\*\s*n)?", re.IGNORECASE
)
_UNITS: Final[dict[str, dict[str, float]]] = {
    "operations/s": {"": 1.0, "iops": 1.0, "k": 1e3, "kiops": 1e3, "m": 1e6},
    "bytes/s": {
        "": 1.0,
        "b/s": 1.0,
        "kb/s": 1e3,
        "mb/s": 1e6,
        "gb/s": 1e9,
        "kib/s": 2.0**10,
        "mib/s": 2.0**20,
        "gib/s": 2.0**30,
    },
    "ns": {"": 1.0, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9},
    "s": {"": 1.0, "s": 1.0, "ms": 1e-3},
}
_EXAMPLES: Final = {
    "operations/s": "16000, 2000*n",
    "bytes/s": "125MB/s, 125MB/s*n",
    "ns": "1ms, 500us",
    "s": "10s",
}


class BadCeiling(Exception):
    """A ceiling that cannot be read; the message says how to write one."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A named limit in the metric's base unit; is_each: of one volume, so that n volumes have n times as much."""

    name: str
    value: float
    is_each: bool
    text: str


def parse_ceiling(text: str, unit: Unit) -> Limit:
    """Read "NAME:VALUE", where VALUE may have a unit of the metric and "*n" for each volume. Raises BadCeiling."""
    name, colon, value = text.rpartition(":")
    name = " ".join(name.replace("\x00", "").split())
    match = _VALUE.fullmatch(value.strip())
    units = _UNITS.get(unit, {"": 1.0})
    if not colon or not name or match is None:
        raise BadCeiling(
            f"ceiling {text[:60]!r} is not NAME:VALUE; write it as limit:{_EXAMPLES.get(unit, '100')}"
        )
    if len(name) > _NAME_MAXIMUM:
        raise BadCeiling(f"the name of ceiling {name[:40]!r}… is longer than {_NAME_MAXIMUM} characters")
    factor = units.get(match["unit"].lower())
    if factor is None:
        known = ", ".join(each for each in units if each)
        raise BadCeiling(f"ceiling {name!r}: {match['unit']!r} is no unit of this metric; there are: {known}")
    return Limit(name, float(match["number"]) * factor, is_each=bool(match["each"]), text=text)
