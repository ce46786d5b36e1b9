"""How often noise causes a change of a given confidence, how often one lasts, and how soon a series opens an incident.

    python -m benchmarks significance [--hosts 5] [--seed 5000] [--seeds 10] [--only lasting]

Rates, the source of those in analysis/incidents/significance.py: histories of a fleet in which nothing happens, each
place with 30 or 60 runs before it and 3 to 60 after. A change counts once in ten runs.
"""

import argparse
import os
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

from benchmarks.database import set_up_django  # noqa: E402

set_up_django()


from benchapp.catalog.metrics import SMALLEST_CHANGES  # noqa: E402
from benchapp.detection.changepoints.detector import bound_chance  # noqa: E402
from benchapp.detection.changepoints.estimates import (  # noqa: E402
    measure_separation,
    measure_spread,
    score_ranks_exactly,
)
from benchapp.detection.changepoints.segmentation import (  # noqa: E402
    Levels,
    compare_sides,
)
from benchapp.detection.rules.recovery import CONFIRMED_AFTER_RUNS, SAME_CHANGE_RUNS  # noqa: E402
from benchapp.detection.rules.significance import (  # noqa: E402
    ChangeClaim,
    ScopeTests,
    count_separated,
    estimate_rate,
    filter_significant,
)
from benchapp.detection.write.metric import DetectedChange, judge_metric  # noqa: E402
from benchmarks.fleet_noise import Array, make_values  # noqa: E402
from benchmarks.histories import make_generator  # noqa: E402

RUNS: Final = 300
SERIES: Final = 320
BEFORE: Final = (30, 60)
AFTER: Final = (3, 4, 5, 8, 10, 13, 20, 30, 60)
CHANCES: Final = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12)
# Smallest t of a tested place, without correlation: below it no chance is small and no change is separated.
TESTED_T: Final = 6.0
TESTED_SHIFT: Final = 0.05
COUNTED_ONCE_IN: Final = 10
# One series alone: its spread, the runs before the change, and its sizes in IOPS.
SPREAD: Final = 0.03
KNOWN_RUNS: Final = 60
WATCHED_RUNS: Final = 40
SIZES: Final = (0.1, 0.2, 0.5, 0.9)
FLEETS: Final = ((1, 2), (3, 6), (11, 24), (20, 320))
DRAWS: Final = 40
# Findings that last: runs that are evaluated one by one, the share of series with a step, and its sizes.
LASTING_RUNS: Final = (60, 180)
STEP_SHARE: Final = 1 / 3
STEP_SIZES: Final = (0.05, 0.30)
# A finding lasts if these later runs are nearer to its new level.
LATER_RUNS: Final = (10, 20)
BANDS: Final = (0.0, 0.99, 0.999, 0.9999)


@dataclass(frozen=True, slots=True)
class NoiseChange:
    """A change that noise causes. key: its series, direction and ten runs; before: runs before it."""

    key: tuple[int, int, bool, int]
    before: int
    chance: float
    is_separated: bool


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks significance")
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=("lasting",))
    options = parser.parse_args()
    if options.only is None:
        _print_single(options.seed)
        _print_rates(options)
    _print_lasting(options)


def _print_lasting(options: argparse.Namespace) -> None:
    found: dict[tuple[bool, float], list[bool]] = defaultdict(list)
    for seed in range(options.seed, options.seed + options.seeds):
        runs = LASTING_RUNS[1] + LATER_RUNS[1]
        for number, values in enumerate(make_values(hosts=options.hosts, cells=20, runs=runs, seed=seed)):
            generator = make_generator("lasting", seed, number)
            if generator.random() < STEP_SHARE:
                values[int(generator.integers(*LASTING_RUNS)) :] *= 1 - generator.uniform(*STEP_SIZES)
            for key, lasts in _follow(values):
                found[key].append(lasts)
    print("\n| confidence from | found: last (of) | five runs later: last (of) |\n|---|---|---|")
    for band in BANDS:
        cells = [found[is_confirmed, band] for is_confirmed in (False, True)]
        texts = [f"{sum(cell) / max(len(cell), 1):.0%} ({len(cell)})" for cell in cells]
        print(f"| {band:.2%} | {' | '.join(texts)} |", flush=True)


def _follow(values: Array) -> Iterator[tuple[tuple[bool, float], bool]]:
    """Yield whether each change that is found as runs arrive lasts: when it is found, and five runs later.

    By whether it is confirmed, and the lower bound of its confidence.
    """
    first: dict[tuple[int, bool], int] = {}
    confirmed: set[tuple[int, bool]] = set()
    for runs in range(*LASTING_RUNS):
        for change in judge_metric(values[:runs], smallest_change=SMALLEST_CHANGES["iops"]).changes:
            if change.index < LASTING_RUNS[0] - LATER_RUNS[0]:
                continue
            near = (
                key
                for key in first
                if key[1] == change.is_rise and abs(key[0] - change.index) <= SAME_CHANGE_RUNS
            )
            key = next(near, (change.index, change.is_rise))
            is_new = key not in first
            if not is_new and (key in confirmed or runs < first[key] + CONFIRMED_AFTER_RUNS):
                continue
            first.setdefault(key, runs)
            confirmed |= set() if is_new else {key}
            later = np.median(values[runs + LATER_RUNS[0] : runs + LATER_RUNS[1]])
            before, after = change.before.median, change.after.median
            band = max(band for band in BANDS if band <= 1 - change.chance)
            yield (not is_new, band), abs(later - after) < abs(later - before)


def _print_single(seed: int) -> None:
    print(f"| one series of a fleet, runs until an incident: median, 90th percentile; {DRAWS} draws each |")
    print(f"\n| fleet | {' | '.join(f'−{size:.0%}' for size in SIZES)} |\n|---|{'---|' * len(SIZES)}")
    delays: dict[tuple[int, int, float], list[int]] = defaultdict(list)
    for size in SIZES:
        for draw in range(DRAWS):
            changes = _detect_growing(_draw_series(make_generator("single", seed, size, draw), size))
            for hosts, series in FLEETS:
                delays[hosts, series, size].append(_find_delay(changes, hosts, series))
    for hosts, series in FLEETS:
        cells = [sorted(delays[hosts, series, size]) for size in SIZES]
        texts = [f"{statistics.median(cell):g}, {cell[int(0.9 * DRAWS)]}" for cell in cells]
        print(f"| {hosts} × {series} | {' | '.join(texts)} |", flush=True)


def _draw_series(generator: np.random.Generator, size: float) -> dict[str, Array]:
    """Return IOPS and both latencies of a series that loses a share of its IOPS after 60 runs."""
    runs = KNOWN_RUNS + WATCHED_RUNS
    iops = 20_000 * (1 - size * (np.arange(runs) >= KNOWN_RUNS))
    iops = iops * (1 + SPREAD * generator.standard_normal(runs))
    latency = 8e9 / iops
    p99 = 3 * latency * (1 + SPREAD * generator.standard_normal(runs))
    return {"iops": iops, "latency_mean_ns": latency, "latency_p99_ns": p99}


def _detect_growing(series: dict[str, Array]) -> list[list[DetectedChange]]:
    """Return for each number of new runs the changes of all metrics near the true one."""
    found = []
    for runs in range(KNOWN_RUNS + 1, KNOWN_RUNS + WATCHED_RUNS + 1):
        judged = [
            judge_metric(values[:runs], smallest_change=SMALLEST_CHANGES[metric])
            for metric, values in series.items()
        ]
        found.append(
            [change for one in judged for change in one.changes if abs(change.index - KNOWN_RUNS) <= 1]
        )
    return found


def _find_delay(growing: list[list[DetectedChange]], hosts: int, series: int) -> int:
    family = ScopeTests(tests=3 * series, series=series, scopes=hosts)
    for runs, changes in enumerate(growing, start=1):
        claims = [
            ChangeClaim(number, 1, change.chance, separated_before=_count_before(change))
            for number, change in enumerate(changes)
        ]
        if filter_significant(claims, family):
            return runs
    return WATCHED_RUNS + 1


def _count_before(change: DetectedChange) -> int:
    return count_separated(
        separation=change.separation,
        t_score=change.t_score or 0.0,
        before_n=change.before.points,
        after_n=change.after.points,
    )


def _print_rates(options: argparse.Namespace) -> None:
    strongest: dict[tuple[int, int, bool, int], float] = defaultdict(lambda: 1.0)
    separated: dict[int, set[tuple[int, int, bool, int]]] = {before: set() for before in BEFORE}
    for seed in range(options.seed, options.seed + options.seeds):
        values = np.log(make_values(hosts=options.hosts, cells=SERIES, runs=RUNS, seed=seed))
        for change in _list_noise_changes(values, seed):
            strongest[change.key] = min(change.chance, strongest[change.key])
            if change.is_separated:
                separated[change.before].add(change.key)
    # Of one direction.
    tested = 2 * options.seeds * options.hosts * SERIES * (RUNS - max(BEFORE))
    print(f"\n{tested // 2} runs of series in which nothing happens\n")
    print("| chance at most | counted rate, one direction | rate of the gate |\n|---|---|---|")
    for chance in CHANCES:
        count = sum(strength <= chance for strength in strongest.values())
        print(f"| {chance:g} | {count / tested:.1e} ({count}) | {estimate_rate(chance):.1e} |")
    for before, keys in separated.items():
        print(f"| separated, {before} runs before | {len(keys) / tested:.1e} ({len(keys)}) | |")


def _list_noise_changes(values: Array, seed: int) -> Iterator[NoiseChange]:
    """Yield changes at the places where the means differ much."""
    zeros = np.zeros((len(values), 1))
    centered = values - values.mean(axis=1, keepdims=True)
    sums = np.concatenate([zeros, centered.cumsum(axis=1)], axis=1)
    squares = np.concatenate([zeros, (centered**2).cumsum(axis=1)], axis=1)
    for before in BEFORE:
        for after in (size for size in AFTER if size <= before):
            places = np.arange(max(BEFORE), values.shape[1] - after + 1)
            old = (sums[:, places] - sums[:, places - before]) / before
            new = (sums[:, places + after] - sums[:, places]) / after
            rest = squares[:, places + after] - squares[:, places - before] - before * old**2 - after * new**2
            deviation = np.sqrt(rest / (before + after - 2) * (1 / before + 1 / after))
            far = (np.abs(new - old) > TESTED_T * deviation) & (np.abs(new - old) > TESTED_SHIFT)
            for series, column in np.argwhere(far).tolist():
                place = int(places[column])
                sides = values[series, place - before : place + after]
                key = (
                    seed,
                    series,
                    bool(new[series, column] > old[series, column]),
                    place // COUNTED_ONCE_IN,
                )
                yield _test(sides, before, key)


def _test(sides: Array, before: int, key: tuple[int, int, bool, int]) -> NoiseChange:
    count = len(sides)
    spread = measure_spread(sides, least=0.001)
    contrast = compare_sides(Levels(sides - sides[0]), 0, before, end=count, spread=spread)
    rank_score = score_ranks_exactly(sides[:before], sides[before:])
    return NoiseChange(
        key,
        before,
        bound_chance(min(contrast.t_score, rank_score), count),
        is_separated=count_separated(
            separation=measure_separation(sides[:before], sides[before:]),
            t_score=contrast.t_score,
            before_n=before,
            after_n=count - before,
        )
        > 0,
    )


if __name__ == "__main__":
    main()
