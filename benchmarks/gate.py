"""How the gate decides about simulated builds: without a loss and with one, by noise and number of runs.

A build measures four series, IOPS and p99 of each. The baseline has 30 builds, every second of them measured twice.
The series of a run share half of its variance; p99 has 1.8 times the noise of IOPS. Repetitions of a
build have the stated share of the variance of IOPS in common. As `bench-agent gate --repeat auto` does,
up to five runs are made until the gate is decided. Limits: 5 % of IOPS, 20 % of p99.
"""

import argparse
from collections import Counter
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.running import AUTO_RUNS_MAXIMUM
from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.detection.rules.significance import GateSample, combine_outcomes, judge_build

BUILDS: Final = 300
BASELINE_BUILDS: Final = 30
SERIES: Final = 4
NOISES: Final = (0.01, 0.02, 0.03, 0.05)
SHARES: Final = (0.0, 0.5)
# Loss of IOPS, and in how many of the series.
LOSSES: Final = ((0.0, SERIES), (0.05, SERIES), (0.05, 1), (0.1, SERIES), (0.1, 1))


def main() -> None:
    """Print outcomes in percent of the builds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    chance = np.random.default_rng(parser.parse_args().seed)
    print(
        "| noise | of the build | loss | passed, regressed, undecided after one run | after up to five | runs |"
    )
    print("|---|---|---|---|---|---|")
    for noise, share, (loss, losing) in product(NOISES, SHARES, LOSSES):
        ends = [_build(chance, noise, share, loss, losing) for _ in range(BUILDS)]
        first, last = (_count([outcomes[place] for outcomes in ends]) for place in (0, -1))
        runs = np.mean([len(outcomes) for outcomes in ends])
        where = "" if losing == SERIES else f" in {losing} of {SERIES} series"
        named = f"{loss:.0%}{where}" if loss else "none"
        print(f"| {noise:.0%} | {share:.0%} | {named} | {first} | {last} | {runs:.1f} |", flush=True)


def _build(chance: np.random.Generator, noise: float, share: float, loss: float, losing: int) -> list[str]:
    """Return the outcome after each run."""
    speed = np.ones(SERIES)
    speed[:losing] -= loss
    repeated = [1 + build % 2 for build in range(BASELINE_BUILDS)]
    commits = [str(build) for build, runs in enumerate(repeated) for _ in range(runs)]
    parts = [_measure(chance, noise, share, runs, np.ones(SERIES)) for runs in repeated]
    known = {metric: np.concatenate([part[metric] for part in parts]) for metric in parts[0]}
    new = _measure(chance, noise, share, AUTO_RUNS_MAXIMUM, speed)
    outcomes: list[str] = []
    while len(outcomes) < AUTO_RUNS_MAXIMUM and outcomes[-1:] in ([], ["undecided"]):
        samples = [
            GateSample(
                metric,
                dict(enumerate(known[metric][:, series].tolist())),
                dict(enumerate(new[metric][: len(outcomes) + 1, series].tolist(), len(commits))),
                is_higher_better=metric == "iops",
                limit=SMALLEST_CHANGES[metric],
                builds=dict(enumerate(commits)),
            )
            for metric in known
            for series in range(SERIES)
        ]
        results, together = judge_build(samples, error_rate=0.01, asks=AUTO_RUNS_MAXIMUM)
        rows = [*results, *(result for _, result, _ in together)]
        outcomes.append(combine_outcomes([each.outcome for each in rows]))
    return outcomes


def _measure(
    chance: np.random.Generator, noise: float, share: float, runs: int, speed: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return IOPS and p99 of the runs of a build, (runs, series)."""

    def draw(count: int) -> NDArray[np.float64]:
        return (chance.normal(0, 1, (count, 1)) + chance.normal(0, 1, (count, SERIES))) * noise / np.sqrt(2)

    parts = np.sqrt(share) * draw(1) + np.sqrt(1 - share) * draw(runs)
    tails = chance.normal(0, 1.5 * noise, (runs, SERIES))
    return {"iops": 1000 * speed * (1 + parts), "latency_p99_ns": 1e6 / speed * (1 - parts + tails)}


def _count(outcomes: list[str]) -> str:
    counts = Counter(outcomes)
    return ", ".join(
        f"{100 * counts[each] / len(outcomes):.1f}" for each in ("passed", "regressed", "undecided")
    )


if __name__ == "__main__":
    main()
