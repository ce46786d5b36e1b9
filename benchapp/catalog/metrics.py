"""The metric catalog: name, base unit, better direction, label; and formatting of values."""

import math
import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, Protocol

Unit = Literal["operations/s", "bytes/s", "ns", "s", "bytes", "percent", "count"]
RateUnits = Literal["si", "binary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One entry of the catalog.

    name: also the column of Measurement and the field of the API.
    unit: the base unit of all stored values; converted for display only.
    short: the label in a table of metrics. words: what people may write for it besides name and label, lower case.
    percentile: of latency, in percent. latency_field: a field of `Latency` in fio/report.py. A metric without either is
    the field of its name in `Direction`.
    smallest_change: the smallest relative change to report, in either direction: what operators of other systems
    settled on, who raised smaller limits by hand (docs/detection.md). Means of latencies follow the throughput; tails
    are rough by nature. None: no verdict is given.
    usual_spread: the usual relative spread of a series, if there are no comparable series: the median of 205
    histories of fio on a storage client. Of tails nothing was counted; twice and three times as much is on the safe
    side.
    is_judged: changes of some series are detected in it.
    detected_instead: the metrics whose changes divide the levels of this one, where none are detected in it.
    """

    name: str
    unit: Unit
    better: Literal["higher", "lower"] = "lower"
    label: str
    short: str
    words: tuple[str, ...] = ()
    percentile: float | None = None
    latency_field: str = ""
    smallest_change: float | None = None
    usual_spread: float | None = None
    is_judged: bool = False
    detected_instead: tuple[str, ...] = ()


CATALOG: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            name="iops",
            unit="operations/s",
            better="higher",
            label="IOPS",
            short="IOPS",
            smallest_change=0.05,
            usual_spread=0.037,
            is_judged=True,
            detected_instead=("bandwidth_bytes_per_s",),
        ),
        Metric(
            name="bandwidth_bytes_per_s",
            unit="bytes/s",
            better="higher",
            label="Bandwidth",
            short="Bandwidth",
            words=("bw", "throughput"),
            smallest_change=0.05,
            usual_spread=0.037,
            is_judged=True,
            detected_instead=("iops",),
        ),
        Metric(
            name="latency_mean_ns",
            unit="ns",
            label="Mean latency",
            short="mean",
            words=("latency", "average latency", "avg latency"),
            latency_field="mean_ns",
            smallest_change=0.10,
            usual_spread=0.037,
            is_judged=True,
        ),
        Metric(
            name="latency_p50_ns",
            unit="ns",
            label="p50 latency",
            short="p50",
            words=("median latency",),
            percentile=50.0,
            smallest_change=0.10,
            usual_spread=0.037,
            detected_instead=("latency_mean_ns",),
        ),
        Metric(
            name="latency_p95_ns",
            unit="ns",
            label="p95 latency",
            short="p95",
            percentile=95.0,
            smallest_change=0.15,
            usual_spread=0.074,
            detected_instead=("latency_mean_ns",),
        ),
        Metric(
            name="latency_p99_ns",
            unit="ns",
            label="p99 latency",
            short="p99",
            percentile=99.0,
            smallest_change=0.20,
            usual_spread=0.074,
            is_judged=True,
        ),
        Metric(
            name="latency_p99_9_ns",
            unit="ns",
            label="p99.9 latency",
            short="p99.9",
            words=("p999", "p999 latency", "latency p999"),
            percentile=99.9,
            smallest_change=0.30,
            usual_spread=0.11,
            detected_instead=("latency_p99_ns",),
        ),
        Metric(
            name="latency_max_ns",
            unit="ns",
            label="Maximum latency",
            short="max",
            words=("max latency",),
            latency_field="maximum_ns",
            detected_instead=("latency_p99_ns",),
        ),
        Metric(
            name="elapsed_s",
            unit="s",
            label="Elapsed time",
            short="Elapsed",
            smallest_change=0.05,
            usual_spread=0.037,
            is_judged=True,
        ),
    )
}
# What people write → the name of the metric; lower case.
METRIC_WORDS: Final[dict[str, str]] = {
    word: metric.name
    for metric in CATALOG.values()
    for word in (metric.name, metric.label.lower(), metric.short.lower(), *metric.words)
}
PERCENTILES: Final[dict[str, float]] = {
    name: metric.percentile for name, metric in CATALOG.items() if metric.percentile is not None
}
SMALLEST_CHANGES: Final[dict[str, float]] = {
    name: metric.smallest_change for name, metric in CATALOG.items() if metric.smallest_change is not None
}
USUAL_SPREADS: Final[dict[str, float]] = {
    name: metric.usual_spread for name, metric in CATALOG.items() if metric.usual_spread is not None
}
JUDGED_METRICS: Final = tuple(name for name, metric in CATALOG.items() if metric.is_judged)


@dataclass(frozen=True, slots=True)
class ReferenceLimit:
    """A threshold for one metric of one profile, in the metric's base unit.

    label: the criterion, short enough for a chart. source: its reference.
    """

    profile: str
    metric: str
    value: float
    label: str
    source: str

    def is_met(self, value: float) -> bool:
        """Return whether a value meets the limit; the limit itself does not."""
        return value < self.value if CATALOG[self.metric].better == "lower" else value > self.value


REFERENCE_LIMITS: Final = (
    ReferenceLimit(
        "gitlab-smallfiles",
        "elapsed_s",
        10.0,
        "good: under 10 s",
        "GitLab's documentation, File system performance benchmarking: good file systems take under 10 seconds",
    ),
)

# The error of a run that failed without an errno of fio: killed, cut, or with jobs missing.
INCOMPLETE: Final = -1


def describe_error(error: int) -> str:
    """Return the error of a failed run or job in words: "error 28 (No space left on device)"."""
    return "not completed" if error == INCOMPLETE else f"error {error} ({os.strerror(abs(error))})"


def find_limit(profile: str, metric: str) -> ReferenceLimit | None:
    """Return the limit of a metric of a profile; None if it has none."""
    known = (limit for limit in REFERENCE_LIMITS if (limit.profile, limit.metric) == (profile, metric))
    return next(known, None)


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """The result of a known system for one metric and direction of one profile, in the metric's base unit.

    It judges nothing: it lies beside what was measured. label: short enough for a chart. source: who says so.
    """

    profile: str
    metric: str
    direction: str
    value: float
    label: str
    source: str


_GITLAB_RANDRW: Final = (
    "GitLab's documentation, File system performance benchmarking: 4k randrw, 75 % reads, iodepth 64, 4 GB"
)

REFERENCE_LINES: Final = (
    ReferenceLine("gitlab-randrw", "iops", "read", 33_415.0, "known good: SSD", _GITLAB_RANDRW),
    ReferenceLine("gitlab-randrw", "iops", "write", 11_219.0, "known good: SSD", _GITLAB_RANDRW),
    ReferenceLine("gitlab-randrw", "iops", "read", 2_000.0, "known bad: spinning disk", _GITLAB_RANDRW),
    ReferenceLine("gitlab-randrw", "iops", "write", 700.0, "known bad: spinning disk", _GITLAB_RANDRW),
)


def find_references(profile: str, metric: str, direction: str) -> tuple[ReferenceLine, ...]:
    """Return the results of known systems, best first; () if the profile has none."""
    wanted = (profile, metric, direction)
    return tuple(line for line in REFERENCE_LINES if (line.profile, line.metric, line.direction) == wanted)


def is_latency(metric: str) -> bool:
    """Return whether a metric is of fio's latency, which has a kind: clat or lat."""
    return CATALOG[metric].unit == "ns"


# Of the kinds of latency, in sentences.
KIND_NAMES: Final = {"lat": "total latency (lat)", "clat": "completion latency (clat)"}


def list_judged_metrics(*, has_one_block_size: bool) -> tuple[str, ...]:
    """Return the metrics in which changes are detected.

    With a single block size IOPS and bandwidth are proportional: IOPS are used, otherwise the bandwidth.
    """
    unused = "bandwidth_bytes_per_s" if has_one_block_size else "iops"
    return tuple(name for name in JUDGED_METRICS if name != unused)


def list_detected_metrics(metrics: Collection[str]) -> set[str]:
    """Return the metrics in which changes of any of these are detected: of IOPS also the bandwidth."""
    return {name for metric in metrics for name in (metric, *CATALOG[metric].detected_instead)}


def find_detected_metric(metric: str, detected: Collection[str]) -> str:
    """Return the metric whose changes divide the levels of a metric: itself if it is one of those detected in."""
    return next((name for name in (metric, *CATALOG[metric].detected_instead) if name in detected), metric)


_SCALES: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "operations/s": ((1e6, "M"), (1e3, "k"), (1.0, "")),
    "bytes/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "s": ((1.0, "s"),),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "percent": ((1.0, "%"),),
}

_BINARY_RATES: Final = ((2.0**30, "GiB/s"), (2.0**20, "MiB/s"), (2.0**10, "KiB/s"), (1.0, "B/s"))
# Each request runs in a copy of the context (handler.py).
_RATE_UNITS: Final[ContextVar[RateUnits]] = ContextVar("rate_units", default="si")

UNKNOWN: Final = "–"
_THIN_SPACE: Final = "\u202f"
# In percent: 13.5 may be stored as 13.499999999999998, which would be rounded to 13.
_ROUNDING_ERROR: Final = 1e-9
_PLURALS: Final = {"series": "series", "study": "studies", "stretch": "stretches", "recovery": "recoveries"}


@contextmanager
def show_rates_in(units: RateUnits) -> Iterator[None]:
    """Format bytes/s within by powers of 1000 ("si": MB/s, the default) or of 1024 ("binary": MiB/s)."""
    earlier = _RATE_UNITS.set(units)
    try:
        yield
    finally:
        _RATE_UNITS.reset(earlier)


def get_rate_units() -> RateUnits:
    """Return the units of bytes/s in texts, on which a kept text with such a value depends."""
    return _RATE_UNITS.get()


def cut_text(text: str, maximum: int) -> str:
    """Return a text of at most `maximum` characters; a longer one ends with "…"."""
    return text if len(text) <= maximum else f"{text[: maximum - 1]}…"


def count_fitting(sizes: Iterable[int], maximum: int) -> int:
    """Return how many entries of these sizes, from the first on, have at most `maximum` together; at least one."""
    return max(1, bisect_right(list(accumulate(sizes)), maximum))


def lower_label(label: str) -> str:
    """Return the label of a metric or dimension within a sentence: "mean latency", "IOPS", "RAID level"."""
    return label if label[:2].isupper() else f"{label[0].lower()}{label[1:]}"


def format_value(value: float | None, unit: str) -> str:
    """Format a value in a base unit, with three significant digits or as a whole number, as bytes below 1 KiB.

    Whole IOPS are shown in full with a thin space between thousands (33 415); other units are scaled by
    magnitude (bytes/s by 1000: MB/s, or as `show_rates_in` says; bytes by 1024: MiB; ns: ns, µs, ms, s). None, nan
    and infinity give an en dash, and what is not 0 but would be shown as 0, "<0.001". The same tables of cases
    (tests/data/format_cases.json, rate_cases.json) test static/js/site/format.js.
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if unit == "count":
        return format_integer(round(value))
    if unit == "operations/s":
        return group_thousands(value)
    divisor, suffix = find_step(value, unit)
    text = str(round(value)) if suffix == "B" else format_three_digits(value / divisor)
    return f"{text} {suffix}"


def find_step(value: float, unit: str) -> tuple[float, str]:
    """Return the display unit of a value: its size in base units, and its name, empty for IOPS and counts."""
    if unit in ("operations/s", "count"):
        return 1.0, ""
    is_binary = unit == "bytes/s" and _RATE_UNITS.get() == "binary"
    scales = _BINARY_RATES if is_binary else _SCALES[unit]
    # 999.7 kB/s rounds to 1000 kB/s: use the next unit if the rounded value reaches it.
    return next((scale for scale in scales if abs(value) >= scale[0] * 0.9995), scales[-1])


def format_integer(number: float) -> str:
    """Format a whole number with thin spaces between thousands."""
    return f"{number:,}".replace(",", _THIN_SPACE)


def group_thousands(value: float) -> str:
    """Format a finite number as a whole one with thin spaces between thousands; below 100 with three digits."""
    if abs(value) < 99.95:
        return format_three_digits(value)
    return f"{value:,.0f}".replace(",", _THIN_SPACE)


def format_three_digits(value: float) -> str:
    """Format a finite number with three significant digits, from 100 as a whole one."""
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


class Measured(Protocol):
    """A metric, or a value with its unit."""

    @property
    def unit(self) -> str:
        """Return the base unit."""


def format_with_unit(value: float | None, measured: Measured) -> str:
    """Format a value in its base unit for a sentence, with "IOPS" for operations per second."""
    text = format_value(value, measured.unit)
    return f"{text} IOPS" if measured.unit == "operations/s" and value is not None else text


def format_percent(share: float) -> str:
    """Format a share, a spread or a threshold with two significant digits: "0.35 %", "3.2 %", "15 %", "120 %"."""
    percent = abs(share) * 100
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{percent + _ROUNDING_ERROR:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def format_change_size(relative: float) -> str:
    """Format the size of a relative change or difference without its sign: "8.3 %", "14 %", "6 109 %".

    One decimal below 10 %, whole percents from 10 %; halves are rounded away from zero. The same table of cases
    (tests/data/change_cases.json) tests `format_change` of the agent and static/js/site/format.js.
    """
    percent = abs(relative) * 100 + _ROUNDING_ERROR
    if percent < 9.95:
        return f"{percent:.1f} %"
    return f"{percent:,.0f} %".replace(",", _THIN_SPACE)


def format_signed_percent(relative: float) -> str:
    """Format a relative change or difference as `format_change_size`, with its sign: "+8.3 %", "−20 %", "±0.0 %"."""
    size = format_change_size(relative)
    return f"{'±' if size == '0.0 %' else '+' if relative > 0 else '−'}{size}"


def format_range(low: float, high: float) -> str:
    """Format the range of changes of several series, the smallest first: "each −9.0 to −31 %"; "" if all are equal."""
    near, far = (format_signed_percent(end) for end in sorted((low, high), key=abs))
    return f"each {near.removesuffix(' %')} to {far}" if near != far else ""


def join_first(names: Sequence[str], maximum: int) -> str:
    """Join the first names, with the number of the others: "sda, sdb and 2 more"."""
    more = len(names) - maximum
    return ", ".join(names[:maximum]) + (f" and {more} more" if more > 0 else "")


def format_count(number: int, noun: str) -> str:
    """Format a count with its noun, thin spaces between thousands: "1 run", "5 189 more runs"."""
    *others, last = noun.split(" ")
    word = last if number == 1 else _PLURALS.get(last, f"{last}s")
    return " ".join([format_integer(number), *others, word])
