"""Thresholds of metrics, as "p99 latency < 5 ms", and when the runs of a series violate one.

The newest runs decide: a violation begins when their median does not meet the threshold, and ends when all of them do.
In between nothing changes, so that values near the threshold do not alternate.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

from benchapp.catalog.metrics import CATALOG, METRIC_WORDS, Metric, lower_label

# Three runs: one outlier neither begins nor ends a violation, and a nightly benchmark reports on the second day.
NEWEST_RUNS: Final = 3
MISSES: Final = 2
TEXT_MAXIMUM: Final = 60
VALUE_MAXIMUM: Final = 1e15

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS: Final = tuple(_COMPARISONS)
_SIGNS: Final = {"≤": "<=", "≥": ">=", "=<": "<=", "=>": ">="}
_DEFAULTS: Final = {"lower": "<", "higher": ">"}
_UNITS: Final[dict[str, dict[str, int]]] = {
    "operations/s": {"": 1, "k": 10**3, "M": 10**6},
    "bytes/s": {
        "B/s": 1,
        "kB/s": 10**3,
        "MB/s": 10**6,
        "GB/s": 10**9,
        "KiB/s": 2**10,
        "MiB/s": 2**20,
        "GiB/s": 2**30,
    },
    "ns": {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9},
    "s": {"s": 1},
}
_NUMBER: Final = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_THRESHOLD: Final = re.compile(
    rf"([A-Za-z][A-Za-z0-9_. ]*?) ?(<=|>=|=<|=>|<|>|≤|≥)? ?({_NUMBER.pattern}) ?([A-Za-zµμ/]{{0,8}}(?: ?IOPS)?)",
    re.ASCII | re.IGNORECASE,
)


class BadThreshold(Exception):
    """A text that is no threshold; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What values of a metric must meet: `value comparison limit`, in the base unit of the metric.

    comparison: in the better direction of the metric; a violation is in the worse one.
    """

    metric: str
    comparison: str
    limit: float

    @property
    def entry(self) -> Metric:
        """Return the metric's entry of the catalog."""
        return CATALOG[self.metric]

    @property
    def text(self) -> str:
        """Return the canonical text, which `parse_threshold` reads: "p99 latency < 5 ms"."""
        return (
            f"{lower_label(self.entry.label)} {self.comparison} {_write_limit(self.limit, self.entry.unit)}"
        )

    def is_met(self, value: float) -> bool:
        """Return whether a value meets the threshold."""
        return _COMPARISONS[self.comparison](value, self.limit)


@lru_cache(maxsize=4096)
def parse_threshold(text: str) -> Threshold:
    """Return the threshold of a text: "p99 < 5 ms", "iops > 10k", "bandwidth >= 200 MB/s". Raises BadThreshold.

    Metrics: by name, label or short name. Without a comparison the better direction decides: "p99 5 ms" is "< 5 ms".
    """
    shown = repr(text[:TEXT_MAXIMUM])
    if len(text) > TEXT_MAXIMUM:
        raise BadThreshold(f"{shown}… has more than {TEXT_MAXIMUM} characters")
    found = _THRESHOLD.fullmatch(" ".join(text.split()))
    if found is None:
        raise BadThreshold(
            f"{shown} is not a threshold: write metric, comparison, value and unit, as p99 < 5 ms"
        )
    word, sign, number, unit = found.groups()
    name = METRIC_WORDS.get(" ".join(word.lower().split()))
    if name is None:
        known = ", ".join(metric.short.lower() for metric in CATALOG.values())
        raise BadThreshold(f"{shown}: unknown metric {word!r}: use one of {known}")
    metric = CATALOG[name]
    limit = float(Decimal(number) * _read_unit(unit, metric, shown=shown))
    if not 0 < limit <= VALUE_MAXIMUM:
        raise BadThreshold(f"{shown}: the value must be greater than 0 and at most 10^15 in the base unit")
    usual = Threshold(name, _DEFAULTS[metric.better], limit)
    comparison = _SIGNS.get(sign, sign) or usual.comparison
    if comparison[0] != usual.comparison:
        raise BadThreshold(f"{shown}: {_explain_direction(usual)}")
    return Threshold(name, comparison, limit)


def is_violated(threshold: Threshold, values: Sequence[float], *, was_violated: bool) -> bool:
    """Return whether the newest of these values, oldest first, violate a threshold; with fewer nothing changes."""
    newest = values[-NEWEST_RUNS:]
    if len(newest) < NEWEST_RUNS:
        return was_violated
    return _is_violation(sum(not threshold.is_met(value) for value in newest), was_violated=was_violated)


def _is_violation(misses: int, *, was_violated: bool) -> bool:
    """Return whether a series violates a threshold that this number of its newest runs do not meet."""
    return misses >= MISSES or (was_violated and misses > 0)


def find_start(threshold: Threshold, values: Sequence[float]) -> int | None:
    """Return the index of the first run of the violation that the newest of these values are in; None if in none."""
    is_miss = [not threshold.is_met(value) for value in values]
    start: int | None = None
    for first in range(len(values) - NEWEST_RUNS + 1):
        misses = sum(is_miss[first : first + NEWEST_RUNS])
        if not _is_violation(misses, was_violated=start is not None):
            start = None
        elif start is None:
            start = is_miss.index(True, first)
    return start


def _explain_direction(usual: Threshold) -> str:
    """Return what to write instead of a threshold in the worse direction, which is how rules of alerts are written."""
    label, limit = lower_label(usual.entry.label), _write_limit(usual.limit, usual.entry.unit)
    worse = "more" if usual.entry.better == "lower" else "less"
    return (
        f"values must meet a threshold, and {usual.entry.better} is better: write {usual.text}, which notifies when"
        f" {label} is {limit} or {worse}"
    )


def _read_unit(unit: str, metric: Metric, *, shown: str) -> int:
    """Return the size of a unit in the base unit of a metric. Raises BadThreshold."""
    written = unit.replace("\N{GREEK SMALL LETTER MU}", "µ")
    if metric.unit == "operations/s":
        written = re.sub(r"(?i) ?iops$", "", written)
    elif written == "us":
        written = "µs"
    units = _UNITS[metric.unit]
    # Also "mB/s" and "K"; the case of "M" for "ms" never decides, as no two units of a metric differ in it only.
    by_case = {name.lower(): size for name, size in units.items()}
    # "Mb/s" are bits, an eighth.
    if written.lower() not in by_case or "b/s" in written:
        names = ", ".join(name for name in units if name)
        reason = f"unknown unit {unit!r} of" if unit else "a unit is required for"
        raise BadThreshold(f"{shown}: {reason} {lower_label(metric.label)}: use one of {names}")
    return by_case[written.lower()]


def _write_limit(limit: float, unit: str) -> str:
    """Return the shortest exact text of a value that is read again: of those of one length with the largest unit."""
    exact = Decimal(repr(limit))
    written = [
        (format((exact / size).normalize(), "f"), name)
        for name, size in sorted(_UNITS[unit].items(), key=lambda item: -item[1])
        if size <= limit or size == 1
    ]
    # In the base unit a value that was read has no more digits than are read.
    readable = [each for each in written if _NUMBER.fullmatch(each[0])]
    number, name = min(readable, key=lambda each: len("".join(each)))
    return f"{number}{name}" if unit == "operations/s" else f"{number} {name}"
