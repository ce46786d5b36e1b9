"""Slow decreases that are reported as drifts, and drifts that are reported without one, on the noise of a fleet.

    python -m benchmarks drift [--seed 1] [--every 6]

120 series of IOPS with 240 runs each, four a day, evaluated after every 6 runs from the 24th on; decreases begin at run
70, the last at the first one, so that no level stands before it. A series counts as reported if one evaluation finds a
drift in that direction, as `detection.write.drift` does.
"""

import argparse
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.detection.changepoints.detector import judge_values
from benchapp.detection.rules.baselines import (
    BASELINE_RUNS_MINIMUM,
    DetectedStep,
    Drift,
    compare_to_baseline,
    find_slope,
    may_have_drifted,
)
from benchmarks.fleet_noise import Array, make_values

_HOSTS: Final = 6
_CELLS: Final = 20
_RUNS: Final = 240
_FIRST_RUN: Final = 70
_THRESHOLD: Final = SMALLEST_CHANGES["iops"]


@dataclass(frozen=True, slots=True)
class Reported:
    """Number of series with a drift. clear: those whose 99 % interval exceeds the threshold; increases: upwards."""

    decreases: int
    clear: int
    increases: int


def main() -> None:
    """Print the table of all slopes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks drift")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=6, help="runs")
    options = parser.parse_args()
    values = make_values(hosts=_HOSTS, cells=_CELLS, runs=_RUNS, seed=options.seed)
    print(
        "| slope | target | series with a drift, of 120 | of these clear alone | increases |\n|---|---|---|---|---|"
    )
    for label, size, first, runs, target in (
        ("−20 % over 30 days", 0.2, _FIRST_RUN, 120, "≥ 110"),
        ("−10 % over 30 days", 0.1, _FIRST_RUN, 120, "80"),
        ("none", 0.0, _FIRST_RUN, 120, "≤ 1"),
        ("−20 % over all 60 days", 0.2, 0, _RUNS, ""),
    ):
        slope = 1 - size * np.clip((np.arange(_RUNS) - first) / runs, 0, 1)
        found = count_drifts(values * slope, every=options.every)
        print(f"| {label} | {target} | {found.decreases} | {found.clear} | {found.increases} |", flush=True)


def count_drifts(values: Array, *, every: int) -> Reported:
    """Evaluate the series, one in each row, as their runs arrive, and count those with a drift."""
    found = [_find_directions(row.tolist(), every) for row in values]
    return Reported(
        sum("decrease" in one for one in found),
        sum("clear decrease" in one for one in found),
        sum("increase" in one for one in found),
    )


def _find_directions(values: list[float], every: int) -> set[str]:
    found = set()
    for end in range(2 * BASELINE_RUNS_MINIMUM, len(values) + 1, every):
        drift = _find_drift(np.array(values[:end]))
        if drift is not None:
            way = "decrease" if (drift.shift.relative or 0) < 0 else "increase"
            found |= {way, f"clear {way}"} if drift.is_clear else {way}
    return found


def _find_drift(values: Array) -> Drift | None:
    """Return the drift across the newest steps of one direction, if a slope explains them, or of the current level."""
    changes = judge_values(values.tolist(), least_relative_change=_THRESHOLD).changes
    steps = [DetectedStep(change.index, is_rise=(change.shift.relative or 0.0) > 0) for change in changes]
    slope = find_slope(values, steps, tolerated_change=_THRESHOLD)
    starts = [steps[-1].place if steps else 0]
    if slope is not None:
        starts.insert(0, slope.first)
    for start in starts:
        level = values[start:]
        if not may_have_drifted(level, tolerated_change=_THRESHOLD):
            continue
        comparison = compare_to_baseline(level.tolist(), tolerated_change=_THRESHOLD)
        if comparison is None or comparison.change is None:
            continue
        if slope is not None and comparison.change.drift.is_beyond:
            return comparison.change.drift
        if comparison.drift.is_beyond:
            return comparison.drift
        slope = None
    return None


if __name__ == "__main__":
    main()
