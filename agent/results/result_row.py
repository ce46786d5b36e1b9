"""The result of one direction of one workload, of this host or of the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from agent.quantities import format_value

# Metric → heading and base unit, in the order of the columns.
METRICS: Mapping[str, tuple[str, str]] = {
    "iops": ("IOPS", "operations/s"),
    "bandwidth_bytes_per_s": ("bandwidth", "bytes/s"),
    "latency_mean_ns": ("mean latency", "ns"),
    "latency_p99_ns": ("p99 latency", "ns"),
    "elapsed_s": ("elapsed time", "s"),
}


@dataclass(frozen=True)
class LevelComparison:
    """A value and the level of its series, as the server reports them.

    n: runs of the level; change: value / median - 1; is_usual: from p10 to p90 of the level, None if it has few runs.
    """

    n: int
    change: float | None
    is_usual: bool | None

    def dump(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {"n": self.n, "change": self.change, "is_usual": self.is_usual}


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
            else {metric: level.dump() for metric, level in self.levels.items()},
        }


def load_row(document: Mapping[str, Any]) -> ResultRow:
    """Return the row of this host that `dump` wrote; KeyError or TypeError for another document."""
    values = {metric: float(document[metric]) for metric in METRICS if document[metric] is not None}
    return ResultRow(str(document["workload"]), str(document["direction"]), int(document["error"]), values)


def format_cell(row: ResultRow, metric: str) -> str:
    """Return a value with its unit, "–" if it is unknown."""
    return format_value(row.values.get(metric), METRICS[metric][1])
