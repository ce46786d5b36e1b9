"""Changes under a season: how soon they are found, and how many are reported without any, with and without a profile.

    python -m benchmarks seasons [--seed 9401] [--draws 20]

60 days of 4 runs a day (hourly ones: 15 days), spread 2 %, point by point from day 40 (10) on; a loss of 10 % begins 5
days (1 day) later.
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import change_indices
from benchapp.detection.rules.evaluation_points import learn_profiles, remove_profiles
from benchmarks.histories import KINDS, Array, Generator, make_generator

_HOUR_US: Final = 3_600_000_000
_THRESHOLD: Final = 0.05
_NEAR: Final = 5


@dataclass(frozen=True, slots=True)
class Case:
    """A season: factor by hour and weekday. every_h: hours between runs; days: of the history."""

    words: str
    factor: Callable[[NDArray[np.int64], NDArray[np.int64]], Array]
    every_h: int = 6
    days: int = 60


_CASES: Final = (
    Case("weekends −8 %", lambda hour, day: np.where(day >= 5, 0.92, 1.0)),
    Case("weekends −15 %", lambda hour, day: np.where(day >= 5, 0.85, 1.0)),
    Case("weekends −15 %, daily runs", lambda hour, day: np.where(day >= 5, 0.85, 1.0), every_h=24, days=120),
    Case(
        "business hours −10 %, hourly", lambda hour, day: np.where((hour >= 9) & (hour < 17), 0.9, 1.0), 1, 20
    ),
    Case("sine of 8 % over the day, hourly", lambda hour, day: 1 + 0.08 * np.sin(hour * np.pi / 12), 1, 20),
    Case("one run of four −15 %", lambda hour, day: np.where(hour == 0, 0.85, 1.0)),
    Case("backup on Sunday night −30 %", lambda hour, day: np.where((day == 6) & (hour == 0), 0.7, 1.0)),
    Case("none", lambda hour, day: np.ones(len(hour))),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks seasons")
    parser.add_argument("--seed", type=int, default=9401)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    print(
        "| season | −10 %: runs until found, median, longest; without profile | the same, with profile"
        " | false changes of a series, without profile | with profile |\n|---|---|---|---|---|"
    )
    for case in _CASES:
        cells: list[list[str]] = [[], []]
        for has_profile in (False, True):
            delays, false = [], []
            for number in range(options.draws):
                generator = make_generator("seasons", options.seed, case.words, number)
                delay, count = _follow(case, generator, has_profile=has_profile)
                delays.append(delay)
                false.append(count)
            cells[0].append(f"{statistics.median(delays):g}, {max(delays)}")
            cells[1].append(f"{statistics.fmean(false):.2f}")
        print(f"| {case.words} | {' | '.join([*cells[0], *cells[1]])} |", flush=True)
    _print_noise(options.seed, options.draws)


def _follow(case: Case, generator: Generator, *, has_profile: bool) -> tuple[int, int]:
    """Return after how many runs the loss is found (99: not within 30), and the false changes without it."""
    times = np.arange(0, case.days * 24, case.every_h, dtype=np.int64) * _HOUR_US
    hour, day = times // _HOUR_US % 24, (times // _HOUR_US // 24 + 5) % 7
    values = 20_000 * case.factor(hour, day) * (1 + 0.02 * generator.standard_normal(len(times)))
    known = 2 * len(values) // 3
    place = known + len(values) // 12
    lower = np.where(np.arange(len(values)) < place, 1.0, 0.9) * values
    seen = _find(times[:known], values[:known], has_profile=has_profile)
    count = 0
    for runs in range(known + 1, len(values) + 1):
        new = [
            index
            for index in _find(times[:runs], values[:runs], has_profile=has_profile)
            if all(abs(index - other) > _NEAR for other in seen)
        ]
        seen += new
        count += len(new)
    for runs in range(3, 31):
        found = _find(times[: place + runs], lower[: place + runs], has_profile=has_profile)
        if any(abs(index - place) <= _NEAR for index in found):
            return runs, count
    return 99, count


def _find(times: NDArray[np.int64], values: Array, *, has_profile: bool) -> list[int]:
    if has_profile:
        values = remove_profiles(times, values, learn_profiles(times, values))
    return change_indices(values.tolist())


def _print_noise(seed: int, draws: int) -> None:
    """Print how many histories without a season have a profile."""
    found = series = 0
    for kind in KINDS:
        for every_h in (1, 6, 24):
            for number in range(draws):
                generator = make_generator("seasons of noise", seed, kind, every_h, number)
                times = np.arange(240, dtype=np.int64) * every_h * _HOUR_US
                noise = 1000 * np.maximum(1 + 0.04 * KINDS[kind](240, generator), 0.01)
                series += 1
                found += bool(learn_profiles(times, noise))
    print(f"\nprofiles in {series} histories without a season: {found}")


if __name__ == "__main__":
    main()
