"""What a badge is, which there are, and how its sentence writes numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

# In the order in which a page lists them: what makes a number worthless before what dims it.
CODES: Final = (
    "failed-job",
    "littles-law",
    "cached",
    "degraded-raid",
    "too-short",
    "not-steady",
    "cpu-bound",
    "stalls",
    "few-samples",
    "reported",
)
# Said, but no reason to draw a point hollow: what few samples concern is hidden already, and a run that is short by
# its profile is compared with its like alone; what someone published is shown as they did.
HARMLESS: Final = ("few-samples", "too-short", "reported")

_THIN_SPACE: Final = "\u202f"
_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


@dataclass(frozen=True, slots=True)
class Badge:
    """One reason to doubt a measurement.

    code: one of CODES. sentence: for people. numbers: what it rests on, in base units, by name.
    """

    code: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def is_doubtful(codes: Iterable[str]) -> bool:
    """Say whether a measurement with these badges should not be compared without a second look."""
    return any(code not in HARMLESS for code in codes)


def sort_codes(codes: Iterable[str]) -> list[str]:
    """Return each code once, in the order of the alphabet, as rows keep them."""
    return sorted(set(codes))


def say_time(value_ns: float) -> str:
    """Write ns at three digits in the largest unit: "1.24 ms"."""
    return _say_scaled(value_ns, _TIMES)


def say_size(value: float) -> str:
    """Write bytes at three digits in the largest binary unit: "2 GiB"."""
    return _say_scaled(value, _SIZES)


def say_count(value: float) -> str:
    """Write a number with thin spaces between thousands, at three digits where it is small: "33 415", "5.2"."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", _THIN_SPACE)
    return f"{value:.3g}"


def say_percent(share: float) -> str:
    """Write a share (1.0 is all) as per cent: "12.3 %"."""
    return f"{say_count(share * 100)} %"


def _say_scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    # 999.7 ms would be written as 1e+03 ms: step up where the rounded figure reaches the next unit.
    divisor, unit = next((scale for scale in scales if abs(value) >= scale[0] * 0.9995), scales[-1])
    return f"{say_count(value / divisor)} {unit}"
