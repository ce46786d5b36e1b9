"""The catalogue of metrics: name, base unit, better direction, label; and how a value is shown."""

import math
from dataclasses import dataclass
from typing import Final, Literal

Unit = Literal["operations/s", "bytes/s", "ns", "s", "bytes", "percent"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue.

    name: also the column of Measurement and the field of the API.
    unit: the base unit in which every value is kept; converted only for the eye.
    """

    name: str
    unit: Unit
    better: Literal["higher", "lower"]
    label: str


CATALOGUE: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("iops", "operations/s", "higher", "IOPS"),
        Metric("bandwidth_bytes_per_s", "bytes/s", "higher", "Bandwidth"),
        Metric("latency_mean_ns", "ns", "lower", "Mean latency"),
        Metric("latency_p50_ns", "ns", "lower", "p50 latency"),
        Metric("latency_p95_ns", "ns", "lower", "p95 latency"),
        Metric("latency_p99_ns", "ns", "lower", "p99 latency"),
        Metric("latency_p99_9_ns", "ns", "lower", "p99.9 latency"),
        Metric("latency_max_ns", "ns", "lower", "Maximum latency"),
    )
}

# The percentile, in per cent, that each percentile metric takes from a distribution.
PERCENTILES: Final[dict[str, float]] = {
    "latency_p50_ns": 50.0,
    "latency_p95_ns": 95.0,
    "latency_p99_ns": 99.0,
    "latency_p99_9_ns": 99.9,
}

_SCALES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "operations/s": ((1e6, "M"), (1e3, "k"), (1.0, "")),
    "bytes/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "s": ((1.0, "s"),),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "percent": ((1.0, "%"),),
}

UNKNOWN: Final = "–"
_THIN_SPACE: Final = "\u202f"


def format_value(value: float | None, unit: str) -> str:
    """Show a value in a base unit to a person, at three significant digits or as a whole number.

    Whole IOPS are shown in full with a thin space between thousands (33 415); other units are scaled by
    magnitude (bytes/s by 1000: MB/s; bytes by 1024: MiB; ns: ns, µs, ms, s). None, nan and infinity give an en
    dash, and what is not 0 but would be shown as 0, "<0.001". The same table of cases
    (tests/data/format_cases.json) tests static/js/format.js.
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if unit == "operations/s":
        return _group_thousands(value)
    scales = _SCALES[unit]
    # 999.7 kB/s rounds to 1000 kB/s: step up where the rounded figure reaches the next unit.
    for divisor, suffix in scales:
        if abs(value) >= divisor * 0.9995:
            return f"{_three_digits(value / divisor)} {suffix}"
    divisor, suffix = scales[-1]
    return f"{_three_digits(value / divisor)} {suffix}"


def _group_thousands(value: float) -> str:
    if abs(value) < 99.95:
        return _three_digits(value)
    return f"{value:,.0f}".replace(",", _THIN_SPACE)


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude >= 99.95:
        return f"{value:.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    if magnitude >= 0.9995:
        return f"{value:.2f}"
    if magnitude < 0.001:
        return "<0.001" if value > 0 else ">-0.001"
    return f"{value:.3g}"
