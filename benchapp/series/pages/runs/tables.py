"""Tables of the run page and of the list of runs, and the latency kinds (lat or clat) of their columns."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from msgspec import Struct

from benchapp.catalog.metrics import (
    CATALOG,
    KIND_NAMES,
    UNKNOWN,
    ReferenceLimit,
    find_limit,
    format_signed_percent,
    format_value,
)
from benchapp.framework.pages.number_columns import Column, NumberCell, make_cells, make_columns
from benchapp.framework.pages.value_texts import format_with_unit
from benchapp.models import Measurement
from benchapp.models.measurement import find_kind
from benchapp.series.read.runs.run_detail import LevelComparison, RunDetail, compare_to_levels
from benchapp.series.read.runs.runs import MeasurementSummary, RunRow
from benchapp.series.read.titles import describe_block_size, describe_workload

# The first that a series has is what it is about.
_MAIN_METRICS: Final = ("iops", "elapsed_s")
# Of the total latency wherever fio measured it, unlike percentiles.
_OF_TOTAL: Final = tuple(metric for metric in CATALOG.values() if metric.latency_field)
_NAMES_OF_TOTAL: Final = ", ".join(metric.short for metric in _OF_TOTAL)


@dataclass(frozen=True, slots=True)
class LatencyKinds:
    """lat or clat of mean and maximum, and of percentiles; empty if absent."""

    mean: str
    percentiles: str


def find_kinds(measurement: Measurement) -> LatencyKinds:
    """Return the latency kinds of a measurement."""
    has_mean = any(getattr(measurement, metric.name) is not None for metric in _OF_TOTAL)
    columns: Any = {"latency_kind": measurement.latency_kind, "missing": measurement.missing}
    return LatencyKinds(
        find_kind("latency_mean_ns", **columns) if has_mean else "",
        find_kind("latency_p99_ns", **columns) if measurement.percentiles else "",
    )


def choose_usual(kinds: Iterable[LatencyKinds]) -> LatencyKinds:
    """Return the most common kinds."""
    kept = list(kinds)
    return LatencyKinds(
        _find_commonest(one.mean for one in kept), _find_commonest(one.percentiles for one in kept)
    )


def describe_kinds(kinds: LatencyKinds) -> str:
    """Return a sentence with the latency kinds of the columns; empty without latencies."""
    if kinds.mean and kinds.mean == kinds.percentiles:
        return f"{_NAMES_OF_TOTAL.capitalize()}, percentiles: {KIND_NAMES[kinds.mean]}."
    parts = [(_NAMES_OF_TOTAL.capitalize(), kinds.mean), ("Percentiles", kinds.percentiles)]
    return " ".join(f"{columns}: {KIND_NAMES[kind]}." for columns, kind in parts if kind)


def describe_unusual_kinds(kinds: LatencyKinds, usual: LatencyKinds) -> str:
    """Return the latency kinds of a row that differ from the usual; empty if none."""
    parts = [
        (_NAMES_OF_TOTAL, kinds.mean, usual.mean),
        ("percentiles", kinds.percentiles, usual.percentiles),
    ]
    return "; ".join(f"{columns}: {kind}" for columns, kind, most in parts if kind and kind != most)


def _find_commonest(kinds: Iterable[str]) -> str:
    return next((kind for kind, _ in Counter(kind for kind in kinds if kind).most_common(1)), "")


LIST_METRICS: Final = ("iops", "bandwidth_bytes_per_s", "latency_mean_ns", "latency_p99_ns", "elapsed_s")
# Number of results in a title; the table has all.
_TITLE_MAXIMUM: Final = 2


# Not a dataclass, which takes five times as long to make: a page has hundreds.
class ResultLine(Struct, frozen=True):
    """One measurement in the list of runs."""

    series_id: int
    text: str
    direction: str
    error: int
    cells: tuple[NumberCell, ...]


@dataclass(frozen=True, slots=True)
class RunLines:
    """One run in the list, with one line per measurement. hidden_count: measurements not listed."""

    run: RunRow
    lines: tuple[ResultLine, ...]
    hidden_count: int

    @property
    def height(self) -> int:
        """Return the number of table rows of this run."""
        return max(1, len(self.lines)) + (1 if self.hidden_count else 0)


@dataclass(frozen=True, slots=True)
class LimitResult:
    """Whether a value meets the limit of its profile."""

    is_good: bool
    limit: ReferenceLimit


@dataclass(frozen=True, slots=True)
class ShownLevelComparison:
    """How a result compares to the level of its series: change, and whether it is within the usual range, as texts."""

    change: str
    range: str
    is_usual: bool | None


@dataclass(frozen=True, slots=True)
class MeasurementLine:
    """One measurement of a run's table. codes: of its badges; limit_result: None without a limit.

    kinds: latency kinds that differ from those of most rows. level: None where there is nothing to compare to.
    """

    measurement: Measurement
    name: str
    workload_title: str
    cells: tuple[NumberCell, ...]
    codes: tuple[str, ...]
    limit_result: LimitResult | None
    kinds: str
    level: ShownLevelComparison | None


def make_run_lines(runs: Sequence[RunRow]) -> tuple[tuple[Column, ...], tuple[RunLines, ...]]:
    """Return the columns of the list of runs, and its rows."""
    columns = make_columns((line for run in runs for line in run.measurements), LIST_METRICS)
    return columns, tuple(
        RunLines(
            run=run,
            lines=tuple(
                ResultLine(
                    line.series_id,
                    _format_summary(line),
                    line.direction,
                    line.error,
                    make_cells(line, columns),
                )
                for line in run.measurements
            ),
            hidden_count=run.measurement_count - len(run.measurements),
        )
        for run in runs
    )


def make_measurement_lines(run: RunDetail) -> tuple[tuple[Column, ...], tuple[MeasurementLine, ...]]:
    """Return the columns of a run's table, and its rows; one query, for the levels."""
    columns = make_columns(run.measurements, tuple(CATALOG))
    names = name_measurements(run.measurements)
    usual = find_usual_kinds(run)
    levels = compare_to_levels(run)
    return columns, tuple(
        MeasurementLine(
            measurement,
            name,
            _describe_workload(measurement),
            make_cells(measurement, columns),
            tuple(badge["code"] for badge in measurement.badges),
            _judge(run.profile, measurement),
            describe_unusual_kinds(find_kinds(measurement), usual),
            _describe_level(levels.get(measurement.id, ())),
        )
        for measurement, name in zip(run.measurements, names, strict=True)
    )


def _describe_level(levels: Sequence[LevelComparison]) -> ShownLevelComparison | None:
    """Return how the main metric compares to its level, and the p99 latency where it is outside its usual range."""
    by_metric = {level.metric: level for level in levels}
    main = next((by_metric[metric] for metric in _MAIN_METRICS if metric in by_metric), None)
    if main is None:
        return None
    runs = "1 run" if main.n == 1 else f"{main.n} runs"
    if main.is_usual is None:
        text = f"of {runs}: too few for a usual range"
    else:
        text = f"{'within' if main.is_usual else 'outside'} the usual range of {runs}"
    tail = by_metric.get("latency_p99_ns")
    if tail is not None and tail.is_usual is False and tail.change is not None:
        text += f"; p99 {format_signed_percent(tail.change)}, outside"
    change = "unknown" if main.change is None else format_signed_percent(main.change)
    return ShownLevelComparison(change, text, main.is_usual)


def find_usual_kinds(run: RunDetail) -> LatencyKinds:
    """Return the most common latency kinds of a run."""
    return choose_usual(map(find_kinds, run.measurements))


def name_measurements(measurements: Sequence[Measurement]) -> list[str]:
    """Return a short unique name for each measurement, with direction or number if needed."""
    several = len({measurement.job_name for measurement in measurements}) < len(measurements)
    names = [
        f"{measurement.job_name or measurement.series.rw}{f' · {measurement.series.direction}' if several else ''}"
        for measurement in measurements
    ]
    counts, numbers = Counter(names), Counter[str]()
    unique = []
    for name in names:
        numbers[name] += 1
        unique.append(f"{name} #{numbers[name]}" if counts[name] > 1 else name)
    return unique


def format_results(run: RunDetail) -> str:
    """Return the first results of a run with IOPS and p99, for its title."""
    known = [
        measurement
        for measurement in run.measurements
        if measurement.iops is not None or measurement.elapsed_s is not None
    ]
    parts = [_format_result(measurement) for measurement in known[:_TITLE_MAXIMUM]]
    hidden = len(known) - _TITLE_MAXIMUM + run.measurement_count - len(run.measurements)
    if hidden > 0:
        parts.append(f"and {hidden} more")
    return "; ".join(parts) or "no values"


def list_missing_reasons(lines: Sequence[MeasurementLine]) -> list[str]:
    """Return a sentence for each reason of missing values, with the rows concerned."""
    concerned: dict[str, list[str]] = {}
    for line in lines:
        for reason in dict.fromkeys(cell.reason for cell in line.cells if cell.reason):
            concerned.setdefault(reason, []).append(line.name)
    return [f"{', '.join(names)}: {reason}." for reason, names in concerned.items()]


def _judge(profile: str, measurement: Measurement) -> LimitResult | None:
    for metric in CATALOG:
        limit, value = find_limit(profile, metric), getattr(measurement, metric)
        if limit is not None and value is not None and not measurement.error:
            return LimitResult(limit.is_met(value), limit)
    return None


def _describe_workload(measurement: Measurement) -> str:
    return describe_workload(measurement.series, direction=measurement.series.direction)


def _format_result(measurement: Measurement) -> str:
    workload = _describe_workload(measurement).split(" · ")[0]
    if measurement.iops is None and measurement.elapsed_s is not None:
        return f"{workload} {format_value(measurement.elapsed_s, 's')}"
    result = f"{workload} {format_with_unit(measurement.iops, CATALOG['iops'])}"
    if measurement.latency_p99_ns is None:
        return result
    return f"{result}, p99 {format_value(measurement.latency_p99_ns, 'ns')}"


def _format_summary(line: MeasurementSummary) -> str:
    size = describe_block_size(cast(Any, line))  # needs the block size only
    return _describe_result(size, line.rw, line.direction, line.iodepth, line.numjobs)


@lru_cache(maxsize=4096)
def _describe_result(size: str, rw: str, direction: str, iodepth: int | None, numjobs: int) -> str:
    mixed = f" {direction}" if direction not in rw else ""
    depth = UNKNOWN if iodepth is None else iodepth
    return f"{size} {rw}{mixed} · {depth} × {numjobs}".strip()
