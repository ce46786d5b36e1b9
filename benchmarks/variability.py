"""Increases in spread and alternations between two states: found, and found where there are none.

    python -m benchmarks variability [--seed 9301] [--draws 120]

Histories of 120 to 480 runs with variation 1 to 8 %. An increase begins at run 60 of 120; a state lasts 10 runs on
average. Limits were set on other seeds.
"""

import argparse
from collections.abc import Iterator
from typing import Final

import numpy as np

from benchapp.detection.changepoints.detector import change_indices
from benchapp.detection.rules.noise_profile import find_spread_increase, find_two_states
from benchapp.detection.write.metric import judge_metric
from benchmarks.histories import STATIONARY, Array, Generator, make_generator, make_history

_THRESHOLD: Final = 0.05
_VARIATIONS: Final = (0.01, 0.02, 0.04, 0.08)
_RUNS: Final = (120, 240, 480)
# Kinds that have two states themselves.
_WITH_STATES: Final = ("states", "sticky states")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks variability")
    parser.add_argument("--seed", type=int, default=9301)
    parser.add_argument("--draws", type=int, default=120)
    options = parser.parse_args()
    print("| noise | series | with an increase in spread | with two states |\n|---|---|---|---|")
    total = np.zeros(2, dtype=int)
    series = 0
    for kind in STATIONARY:
        found = np.array([_find(values) for values in _draw_all(kind, options.seed, options.draws)])
        print(f"| {kind} | {len(found)} | {found[:, 0].sum()} | {found[:, 1].sum()} |", flush=True)
        if kind not in _WITH_STATES:
            total += found.sum(axis=0)
            series += len(found)
    print(f"| all without states | {series} | {total[0] / series:.4f} | {total[1] / series:.4f} |")
    print("\n| planted | found after 20 runs | 40 | 60 |\n|---|---|---|---|")
    for words, before, after in (
        ("spread 2 → 8 %", 0.02, 0.08),
        ("2 → 6 %", 0.02, 0.06),
        ("2 → 4 %", 0.02, 0.04),
    ):
        draws = [_draw_increase(options.seed, number, before, after) for number in range(options.draws)]
        shares = [np.mean([_find(values[: 60 + new])[0] for values in draws]) for new in (20, 40, 60)]
        print(f"| {words} | {' | '.join(f'{share:.2f}' for share in shares)} |", flush=True)
    _print_states(options.seed, options.draws)


def _print_states(seed: int, draws: int) -> None:
    for apart in (0.08, 0.15):
        drawn = [_draw_states(seed, number, apart) for number in range(draws)]
        shares = [np.mean([_find(values[: 60 + new])[1] for values in drawn]) for new in (20, 40, 60)]
        print(
            f"| two states {apart:.0%} apart | {' | '.join(f'{share:.2f}' for share in shares)} |", flush=True
        )

    print("\n| 240 runs, point by point from the 40th | changes of the detector | reported |\n|---|---|---|")
    for apart in (0.08, 0.15):
        counts = np.array(
            [_count_changes(_draw_states(seed, number, apart, runs=240)) for number in range(draws // 4)]
        )
        means = " | ".join(f"{mean:.1f}" for mean in counts.mean(axis=0))
        print(f"| two states {apart:.0%} apart | {means} |", flush=True)


def _count_changes(values: Array) -> tuple[int, int]:
    """Return how many changes are found as the history grows: by the detector alone, and without alternations."""
    found: list[list[int]] = [[], []]
    for runs in range(40, len(values) + 1):
        judged = judge_metric(values[:runs], smallest_change=_THRESHOLD).changes
        every = [change_indices(values[:runs].tolist()), [change.index for change in judged]]
        for seen, indices in zip(found, every, strict=True):
            seen += [index for index in indices if all(abs(index - other) > 5 for other in seen)]
    return len(found[0]), len(found[1])


def _draw_all(kind: str, seed: int, draws: int) -> Iterator[Array]:
    for variation in _VARIATIONS:
        for runs in _RUNS:
            for number in range(draws // len(_RUNS)):
                generator = make_generator("variability", seed, kind, variation, runs, number)
                yield np.array(make_history(kind, runs, variation=variation, generator=generator))


def _draw_increase(seed: int, number: int, before: float, after: float) -> Array:
    generator = make_generator("spread", seed, number, before, after)
    spread = np.where(np.arange(120) < 60, before, after)
    return np.maximum(1000 * (1 + spread * generator.standard_normal(120)), 10.0)


def _draw_states(seed: int, number: int, apart: float, *, runs: int = 120) -> Array:
    generator: Generator = make_generator("two states", seed, number, apart)
    is_low = np.cumsum(generator.random(runs) < 0.1) % 2
    return 1000 * (1 - apart * is_low) * (1 + 0.01 * generator.standard_normal(runs))


def _find(values: Array) -> tuple[bool, bool]:
    """Return whether there is an increase in spread, and whether there are two states."""
    states = find_two_states(values, smallest_change=_THRESHOLD)
    increase = None if states else find_spread_increase(values, change_indices(values))
    return increase is not None, states is not None


if __name__ == "__main__":
    main()
