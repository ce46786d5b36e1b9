"""Results of a run, of this host or of the server, and their table for a terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from agent.quantities import format_change, format_value

# Metric → heading and base unit, in the order of the columns.
METRICS: Mapping[str, tuple[str, str]] = {
    "iops": ("IOPS", "operations/s"),
    "bandwidth_bytes_per_s": ("bandwidth", "bytes/s"),
    "latency_mean_ns": ("mean latency", "ns"),
    "latency_p99_ns": ("p99 latency", "ns"),
    "elapsed_s": ("elapsed time", "s"),
}
# The metric that represents a series: the first of these with a level.
_MAIN_METRICS = ("iops", "bandwidth_bytes_per_s", "elapsed_s")


@dataclass(frozen=True)
class LevelComparison:
    """A value and the level of its series, as the server reports them.

    n: runs of the level; change: value / median - 1; is_usual: from p10 to p90 of the level, None if it has few runs.
    """

    n: int
    change: float | None
    is_usual: bool | None


@dataclass(frozen=True)
class ResultRow:
    """One direction of one workload.

    error: fio's errno, 0 without; values: metrics in base units, without unknown ones. badges: sentences by code;
    levels: by metric; both None for results that the server has not reported.
    """

    workload: str
    direction: str
    error: int
    values: Mapping[str, float]
    badges: Optional[Mapping[str, str]] = None
    levels: Optional[Mapping[str, LevelComparison]] = field(default=None)

    def dump(self) -> dict[str, Any]:
        """Return the row as JSON; unknown values are null."""
        return {
            "workload": self.workload,
            "direction": self.direction,
            "error": self.error,
            **{metric: self.values.get(metric) for metric in METRICS},
            "badges": None if self.badges is None else dict(self.badges),
            "levels": None
            if self.levels is None
            else {metric: dict(vars(level)) for metric, level in self.levels.items()},
        }


def load_row(document: Mapping[str, Any]) -> ResultRow:
    """Return the row of this host that `dump` wrote; KeyError or TypeError for another document."""
    values = {metric: float(document[metric]) for metric in METRICS if document[metric] is not None}
    return ResultRow(str(document["workload"]), str(document["direction"]), int(document["error"]), values)


def format_cell(row: ResultRow, metric: str) -> str:
    """Return a value with its unit, "–" if it is unknown."""
    return format_value(row.values.get(metric), METRICS[metric][1])


def format_results(rows: Sequence[ResultRow]) -> list[str]:
    """Return the lines of the table, and one for each badge; [] without rows."""
    if not rows:
        return []
    metrics = list_metrics(rows)
    is_compared = any(row.levels is not None for row in rows)
    heading = [
        "workload",
        *(METRICS[metric][0] for metric in metrics),
        *(["vs. level"] if is_compared else []),
    ]
    cells = [
        [
            row.workload,
            *(format_cell(row, metric) for metric in metrics),
            *([describe_level(row)] if is_compared else []),
        ]
        for row in rows
    ]
    return [*align([heading, *cells]), *_describe_badges(rows)]


def _describe_badges(rows: Sequence[ResultRow]) -> list[str]:
    """Return a line for each badge, with its workloads unless it is of all rows."""
    workloads: dict[str, list[str]] = {}
    for row in rows:
        for code, sentence in (row.badges or {}).items():
            workloads.setdefault(f"badge {code}: {sentence}", []).append(row.workload)
    return [
        line if len(names) == len(rows) else f"{line} ({'; '.join(dict.fromkeys(names))})"
        for line, names in workloads.items()
    ]


def list_metrics(rows: Sequence[ResultRow]) -> list[str]:
    """Return the metrics that any row has."""
    return [metric for metric in METRICS if any(metric in row.values for row in rows)]


def align(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines whose columns begin at the same place, the first with the headings."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]


def describe_level(row: ResultRow) -> str:
    """Return how a row compares to the level of its series: of its main metric, and of an unusual p99 latency."""
    if row.error:
        return f"failed: error {row.error}"
    levels = row.levels or {}
    main = next((levels[metric] for metric in _MAIN_METRICS if metric in levels), None)
    if main is None:
        return "no earlier run of this series"
    tail = levels.get("latency_p99_ns")
    unusual = ""
    if tail is not None and tail.is_usual is False and tail.change is not None:
        unusual = f"; p99 latency {format_change(tail.change)}, outside the usual range"
    return _describe_comparison(main) + unusual


def _describe_comparison(level: LevelComparison) -> str:
    change = "level 0" if level.change is None else format_change(level.change)
    runs = "1 run" if level.n == 1 else f"{level.n} runs"
    if level.is_usual is None:
        return f"{change} ({runs}: too few for a usual range)"
    return f"{change}, {'within' if level.is_usual else 'outside'} the usual range of {runs}"
