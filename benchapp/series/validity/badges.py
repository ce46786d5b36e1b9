"""Badges: their codes, and number formatting for their sentences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

# In display order, most severe first.
CODES: Final = (
    "failed-job",
    "no-io",
    "inconsistent",
    "several-targets",
    "littles-law",
    "cached",
    "memory-filesystem",
    "degraded-raid",
    "busy",
    "too-short",
    "above-baseline",
    "not-steady",
    "cpu-bound",
    "stalls",
    "few-samples",
    "reported",
)
SEVERAL_TARGETS: Final = "several-targets"
# Do not make a mark hollow: values with few samples are hidden already, runs of a short profile are compared only with
# each other, and published results are shown as published.
HARMLESS: Final = ("few-samples", "too-short", "reported")

_THIN_SPACE: Final = "\u202f"
_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


@dataclass(frozen=True, slots=True)
class Badge:
    """One data-quality finding about a measurement.

    code: one of CODES. numbers: the values that it is based on, by name, in base units.
    """

    code: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def is_doubtful(codes: Iterable[str]) -> bool:
    """Return whether a measurement with these badges needs a check before it is compared."""
    return any(code not in HARMLESS for code in codes)


def sort_codes(codes: Iterable[str]) -> list[str]:
    """Return each code once, in alphabetical order, as stored."""
    return sorted(set(codes))


def format_time(value_ns: float) -> str:
    """Format ns with three digits in the largest unit: "1.24 ms"."""
    return _format_scaled(value_ns, _TIMES)


def format_size(value: float) -> str:
    """Format bytes with three digits in the largest binary unit: "2 GiB"."""
    return _format_scaled(value, _SIZES)


def format_count(value: float) -> str:
    """Format a number with thin spaces between thousands, with three digits if small: "33 415", "5.2"."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", _THIN_SPACE)
    return f"{value:.3g}"


def format_percent(share: float) -> str:
    """Format a share (1.0 is all) in per cent: "12.3 %"."""
    return f"{format_count(share * 100)} %"


def _format_scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    # 999.7 ms would be written as 1e+03 ms: step up where the rounded figure reaches the next unit.
    divisor, unit = next((scale for scale in scales if abs(value) >= scale[0] * 0.9995), scales[-1])
    return f"{format_count(value / divisor)} {unit}"
