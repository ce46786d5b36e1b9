"""How well changes are found on histories with known truth: false alarms, power, place, delay; and the time it takes.

    python -m benchmarks.detection [FIRST_SEED [SEEDS]]

A table a seed, then the mean; benchmarks/README.md shows one. Found: within five points of the truth, in short
histories within a tenth of their length (at least two). A false alarm of a history that grows point by point is a
change farther than five points from all that were named before.
"""

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

from benchapp.detection.changepoints.detector import change_indices, judge_next, judge_values  # noqa: E402
from benchapp.detection.rules.evaluation_points import find_repetitions, merge_repetitions  # noqa: E402
from benchapp.detection.rules.recovery import suspect_newest  # noqa: E402
from benchapp.detection.write.metric import judge_metric  # noqa: E402
from benchmarks.fleet_noise import Array, make_values  # noqa: E402
from benchmarks.histories import KINDS, STATIONARY, make_generator, make_history, make_troubled  # noqa: E402

SEED: Final = 7001
SEEDS: Final = 3
VARIATIONS: Final = (0.005, 0.01, 0.02, 0.04, 0.08)
STEPS_PER_SPREAD: Final = {"1–2": (1, 2), "2–4": (2, 4), "4–8": (4, 8), "≥ 8": (8, 20)}
# Points: how many histories of each length, so that all lengths weigh about the same.
CLEAN: Final = {20: 20, 50: 10, 100: 8, 200: 4, 500: 2, 2000: 1}
CHANGED: Final = {20: 3, 50: 3, 100: 3, 200: 3, 500: 3, 2000: 1}
BAD_SHARES: Final = (0.05, 0.08, 0.1, 0.15)
KNOWN_POINTS: Final = 30
GROWN_POINTS: Final = 100
NEAR: Final = 5


@dataclass
class Tally:
    """Events over chances, by name."""

    events: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    chances: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def count(self, name: str, events: float, chances: float = 1) -> None:
        self.events[name] += events
        self.chances[name] += chances

    def rate(self, name: str) -> float:
        return self.events[name] / self.chances[name] if self.chances[name] else float("nan")


def main() -> None:
    """Print the tables."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else SEED
    count = int(sys.argv[2]) if len(sys.argv) > 2 else SEEDS
    seeds = range(first, first + count)
    tallies = [_measure(seed) for seed in seeds]
    print(f"| {'measure':58} | aim | {' | '.join(f'seed {seed}' for seed in seeds)} | mean |")
    print(f"|---|---|{'---|' * (count + 1)}")
    for row in _list_rows(tallies):
        print(row, flush=True)
    _print_kinds(tallies)
    _print_speed()


def _measure(seed: int) -> Tally:
    tally = Tally()
    _measure_clean(seed, tally)
    _measure_changed(seed, tally)
    _measure_grown(seed, tally)
    _measure_delay(seed, tally)
    _measure_young(seed, tally)
    _measure_first_days(seed, tally)
    _measure_bad_runs(seed, tally)
    _measure_repetitions(seed, tally)
    return tally


def _measure_clean(seed: int, tally: Tally) -> None:
    """Whole histories in which nothing happens."""
    for kind in KINDS:
        for variation in VARIATIONS:
            for points, histories in CLEAN.items():
                for number in range(histories):
                    generator = make_generator("clean", seed, kind, variation, points, number)
                    values = make_history(kind, points, variation=variation, generator=generator)
                    found = len(change_indices(values))
                    tally.count(f"clean {kind}", 1000 * found, points)
                    if kind in STATIONARY:
                        tally.count("clean", 1000 * found, points)


def _measure_changed(seed: int, tally: Tally) -> None:
    """Whole histories with one step in their middle half."""
    for kind in KINDS:
        for size, (least, most) in STEPS_PER_SPREAD.items():
            for points, histories in CHANGED.items():
                for number in range(histories):
                    generator = make_generator("changed", seed, kind, size, points, number)
                    place = int(generator.integers(points // 4, points - points // 4))
                    step, variation = _draw_step(generator.uniform(least, most), generator)
                    values = make_history(
                        kind, points, variation=variation, generator=generator, change=(place, step)
                    )
                    near = min(NEAR, max(2, points // 10))
                    apart = [abs(index - place) for index in change_indices(values)]
                    is_found = any(distance <= near for distance in apart)
                    tally.count(f"found {size}", is_found)
                    tally.count(f"found {kind}", is_found)
                    if is_found:
                        tally.count(f"exact {size}", min(apart) == 0)
                        tally.count("exact", min(apart) == 0)
                    if kind in STATIONARY:
                        tally.count("besides", 1000 * (len(apart) - is_found), points)


def _draw_step(spreads: float, generator: object) -> tuple[float, float]:
    """Return a step of 3 to 20 %, up or down, and the variation of which it is so many spreads."""
    step = float(generator.uniform(0.03, 0.2))  # type: ignore[attr-defined]
    side = 1 if generator.random() < 0.5 else -1  # type: ignore[attr-defined]
    return side * step, step / spreads


def _measure_grown(seed: int, tally: Tally) -> None:
    """Clean histories that grow point by point: what is ever said of them."""
    for kind in KINDS:
        for variation in VARIATIONS:
            for number in range(3):
                generator = make_generator("grown", seed, kind, variation, number)
                values = make_history(
                    kind, KNOWN_POINTS + GROWN_POINTS, variation=variation, generator=generator
                )
                named, suspected = _count_alarms(values)
                tally.count(f"grown {kind}", 1000 * named, GROWN_POINTS)
                if kind in STATIONARY:
                    tally.count("grown", 1000 * named, GROWN_POINTS)
                    tally.count("suspected", 1000 * suspected, GROWN_POINTS)


def _count_alarms(values: list[float]) -> tuple[int, int]:
    """Return changes named anew, and suspicions anew, while a history grows."""
    seen = change_indices(values[:KNOWN_POINTS])
    named, suspicions = 0, []
    for count in range(KNOWN_POINTS + 1, len(values) + 1):
        changes = change_indices(values[:count])
        for index in changes:
            if all(abs(index - other) > NEAR for other in seen):
                seen.append(index)
                named += 1
        suspicion = suspect_newest(values[:count], changes)
        if suspicion and all(abs(suspicion.index - other) > NEAR for other in suspicions):
            suspicions.append(suspicion.index)
    return named, len(suspicions)


def _measure_delay(seed: int, tally: Tally) -> None:
    """A step at the end of 20 and of 60 known points: how many new ones it takes."""
    for kind in STATIONARY:
        for size, (least, most) in STEPS_PER_SPREAD.items():
            for known in (20, 60):
                for number in range(4):
                    generator = make_generator("delay", seed, kind, size, known, number)
                    step, variation = _draw_step(generator.uniform(least, most), generator)
                    values = make_history(
                        kind, known + 10, variation=variation, generator=generator, change=(known, step)
                    )
                    delay = next(_find_delays(values, known), 99)
                    tally.count(f"within 3 {size}", delay <= 3)
                    tally.count(f"within 5 {size}", delay <= 5)
                    tally.count(f"within 10 {size}", delay <= 10)
                    tally.count(
                        f"suspected within 3 {size}",
                        any(suspect_newest(values[: known + new]) for new in (2, 3)),
                    )


def _measure_young(seed: int, tally: Tally) -> None:
    """Twenty runs, some of them bad, then 15 % less: how soon it is found, and what else is ever said."""
    for number in range(100):
        values = make_troubled(30, generator=make_generator("young", seed, number), change=(20, -0.15))
        found = {count: change_indices(values[:count]) for count in range(6, 31)}
        for new in (5, 10):
            tally.count(
                f"young within {new}",
                any(abs(index - 20) <= 2 for count in range(21, 21 + new) for index in found[count]),
            )
        tally.count("young besides", any(abs(index - 20) > NEAR for each in found.values() for index in each))


def _measure_first_days(seed: int, tally: Tally) -> None:
    """Series of 7 to 10 runs that lose 20 or 15 % of 3 %, and fleets of young series in which nothing happens."""
    for kind in STATIONARY:
        for known in (7, 8, 9, 10):
            for number in range(6):
                for loss in (0.15, 0.2):
                    generator = make_generator("first days", seed, kind, known, number, loss)
                    # Of one workload: spreads of series differ by a quarter.
                    variation = 0.03 * float(np.exp(0.25 * generator.standard_normal()))
                    values = make_history(
                        kind, known + 3, variation=variation, generator=generator, change=(known, -loss)
                    )
                    judged = judge_metric(np.array(values), smallest_change=0.05, usual_spread=0.03)
                    tally.count(
                        f"first days {loss}", any(abs(each.index - known) <= 1 for each in judged.changes)
                    )
    for values in make_values(hosts=5, cells=100, runs=14, seed=seed):
        found = [
            change
            for runs in range(6, 15)
            for change in judge_metric(values[:runs], smallest_change=0.05, usual_spread=0.037).changes
        ]
        tally.count("first days false", any(change.usual_spread is not None for change in found))
        tally.count("first days false, detector", any(change.usual_spread is None for change in found))


def _measure_bad_runs(seed: int, tally: Tally) -> None:
    """Sixty runs and sixty after a loss of 10 %, spread 2 %; a share of all runs is low by 40 %."""
    for share in BAD_SHARES:
        for number in range(60):
            generator = make_generator("bad runs", seed, share, number)
            values = make_history("even", 120, variation=0.02, generator=generator, change=(60, -0.1))
            is_bad = generator.random(120) < share
            apart = [abs(index - 60) for index in change_indices(np.where(is_bad, 0.6, 1.0) * values)]
            tally.count(f"bad {share}", any(distance <= NEAR for distance in apart))
            tally.count("bad besides", sum(distance > NEAR for distance in apart))


def _measure_repetitions(seed: int, tally: Tally) -> None:
    """Twelve nights of ten runs: 3 % between nights, .5 % within; nothing happens, or 20 % less from the sixth on."""
    for number in range(60):
        generator = make_generator("repetitions", seed, number)
        nights = np.repeat(1 + 0.03 * generator.standard_normal(12), 10)
        values = nights * (1 + 0.005 * generator.standard_normal(120))
        tally.count("nights", len(_judge_nights(values)))
        tally.count("nights found", 60 in _judge_nights(values * np.where(np.arange(120) < 60, 1, 0.8)))


def _judge_nights(values: Array) -> list[int]:
    """Return the first runs of the changes of ten runs a night, ten minutes apart."""
    places = np.arange(len(values))
    times = (places // 10 * 1440 + places % 10 * 10) * 60_000_000
    starts = find_repetitions(times, values)
    if starts is None:
        return [change.index for change in judge_metric(values, smallest_change=0.05).changes]
    judged = judge_metric(merge_repetitions(values, starts), smallest_change=0.05)
    return [int(starts[change.index]) for change in judged.changes]


def _find_delays(values: list[float], known: int) -> Iterator[int]:
    for count in range(known + 1, len(values) + 1):
        if any(abs(index - known) <= NEAR for index in change_indices(values[:count])):
            yield count - known


ROWS: Final = (
    ("false alarms in 1 000 clean points, whole histories", "clean", "≤ 0.15", 2),
    ("false alarms in 1 000 clean points, point by point", "grown", "≤ 1.0", 2),
    ("found, step of 1–2 spreads", "found 1–2", "", 3),
    ("found, step of 2–4 spreads", "found 2–4", "≥ 0.85", 3),
    ("found, step of 4–8 spreads", "found 4–8", "≥ 0.97", 3),
    ("found, step of 8–20 spreads", "found ≥ 8", "≥ 0.99", 3),
    ("of those the exact point", "exact", "≥ 0.88", 3),
    ("of those the exact point, 4–8 spreads", "exact 4–8", "", 3),
    ("other changes in 1 000 points of a history with one", "besides", "", 2),
    ("found within 10 new points, 2–4 spreads", "within 10 2–4", "", 3),
    ("found within 5 new points, 4–8 spreads", "within 5 4–8", "≥ 0.95", 3),
    ("found within 5 new points, 8–20 spreads", "within 5 ≥ 8", "", 3),
    ("young history with bad runs, 15 % less: within 5", "young within 5", "", 2),
    ("the same within 10", "young within 10", "", 2),
    ("the same, other changes ever said", "young besides", "", 2),
    ("7–10 runs of a young series, 20 % less: within 3", "first days 0.2", "≥ 0.90", 2),
    ("the same, 15 % less", "first days 0.15", "", 2),
    ("young series with a false change by the prior in 14 runs", "first days false", "≤ 0.01", 3),
    ("the same, by the detector", "first days false, detector", "", 3),
    *((f"{share:.0%} of runs 40 % lower, 10 % less: found", f"bad {share}", "", 2) for share in BAD_SHARES),
    ("the same, other changes of a history", "bad besides", "", 2),
    ("ten runs a night, false changes of 12 nights", "nights", "", 2),
    ("the same, 20 % less from the sixth night: found", "nights found", "", 2),
    ("suspected within 3 new points, 4–8 spreads", "suspected within 3 4–8", "", 3),
    ("suspected within 3 new points, 8–20 spreads", "suspected within 3 ≥ 8", "", 3),
    ("false suspicions in 1 000 clean points", "suspected", "", 2),
)


def _list_rows(tallies: list[Tally]) -> Iterator[str]:
    for label, name, aim, digits in ROWS:
        rates = [tally.rate(name) for tally in tallies]
        cells = " | ".join(f"{rate:.{digits}f}" for rate in [*rates, statistics.fmean(rates)])
        yield f"| {label:58} | {aim} | {cells} |"


def _print_kinds(tallies: list[Tally]) -> None:
    print("\n| noise | false alarms in 1 000 clean points, whole | point by point | found, all steps |")
    print("|---|---|---|---|")
    for kind in KINDS:
        rates = [
            statistics.fmean(tally.rate(f"{name} {kind}") for tally in tallies)
            for name in ("clean", "grown", "found")
        ]
        print(f"| {kind} | {rates[0]:.2f} | {rates[1]:.2f} | {rates[2]:.3f} |")


def _print_speed() -> None:
    print("\n| points | ms, all of them | aim | ms, one more point | aim |\n|---|---|---|---|---|")
    for points, aim in ((100, 1), (1000, 8), (10_000, 80), (100_000, None)):
        generator = make_generator("speed", points)
        values = make_history(
            "tails", points + 20, variation=0.02, generator=generator, change=(points // 2, -0.1)
        )
        change_indices(values[:points])
        whole = [_time_whole(values[:points]) for _ in range(9 if points < 10_000 else 3)]
        one = _time_one_more(values, points)
        print(
            f"| {points} | {statistics.median(whole):.2f} | {aim or ''} | {statistics.median(one):.2f} | 2 |"
        )

    generator = make_generator("speed", "restless")
    levels = 1 - 0.1 * (np.arange(10_020) // 25 % 2)
    values = (levels * make_history("even", 10_020, variation=0.01, generator=generator)).tolist()
    one = _time_one_more(values, 10_000)
    print(f"| 10000, a change every 25 | | | {statistics.median(one):.2f} | 2 |")


def _time_whole(values: list[float]) -> float:
    started = time.process_time()
    change_indices(values)
    return 1e3 * (time.process_time() - started)


def _time_one_more(values: list[float], points: int) -> list[float]:
    history = judge_values(values[:points]).history
    times_ms = []
    for value in values[points:]:
        started = time.process_time()
        result = judge_next(history, value)
        times_ms.append(1e3 * (time.process_time() - started))
        history = result.history
    return times_ms


if __name__ == "__main__":
    main()
