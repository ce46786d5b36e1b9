"""What a series' noise allows to be said of it: spread, correlation, the smallest change that would be found."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Standard errors: what 5 new runs need to be taken for a change, and two for the scatter of what is measured. After 60
# old runs 87 of 100 such changes are found in 5 new ones, 99 in 8 (counted on made-up histories that set no limit).
DETECTABLE_SCORES: Final = 5.8
# New runs within which a change should be found, and the most that a boundary's side counts.
FEWEST_NEW_RUNS: Final = 5
MOST_RUNS: Final = 60
# Runs before a series is judged in earnest.
BASELINE_RUNS: Final = 20
# Standard deviations of a normal distribution between its quartiles; the tails that lie beyond 5 spreads are spikes.
_QUARTILES_APART: Final = 1.349
_SPIKE_SPREADS: Final = 5.0
_MOST_CORRELATION: Final = 0.9
# Times the level: beyond it a value is as good as infinite, and its square still a number.
_MOST_RESIDUAL: Final = 1e9


class SeriesState(StrEnum):
    """Whether a series can be judged. A stale one has no news; a learning one too few runs; a too noisy one hides
    changes of the size that its people care about."""

    LEARNING = "learning"
    TOO_NOISY = "too noisy"
    STALE = "stale"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class NoiseProfile:
    """The noise of a series around its levels, as share of the level; `points` are those of the present level.

    `smallest_change` is what 5 more runs would show, None under 6 points.
    """

    spread: float
    correlation: float
    points: int
    smallest_change: float | None


@dataclass(frozen=True, slots=True)
class StateJudgement:
    """A state, and how many runs are missing: to the baseline, or after a change of the wanted size until it is found.

    `runs_needed` is None where nothing is missing, or no number of runs would do.
    """

    state: SeriesState
    runs_needed: int | None


def profile_noise(values: Iterable[float], changes: Iterable[int] = ()) -> NoiseProfile:
    """Return the noise of a series around the levels that begin at 0 and at the given indices, as shares of the level.

    Lag-1 correlation is 0 to 0.9, lifted by the bias of the fitted levels. Values that are not finite are passed over;
    an index counts all values.
    """
    given = np.asarray(list(values), dtype=np.float64)
    edges = [0, *sorted(index for index in set(changes) if 0 < index < len(given)), len(given)]
    levels = [level[np.isfinite(level)] for level in (given[a:b] for a, b in pairwise(edges))]
    residuals = [_take_residuals(level) for level in levels if len(level)]
    points = len(levels[-1])
    if not residuals:
        return NoiseProfile(0.0, 0.0, points, None)
    spread = _measure_spread(np.concatenate(residuals))
    correlation = _measure_correlation(residuals, spread)
    smallest = (
        find_smallest_change(spread, correlation, old_runs=points) if points >= FEWEST_NEW_RUNS + 1 else None
    )
    return NoiseProfile(spread, correlation, points, smallest)


def find_smallest_change(
    spread: float, correlation: float, *, old_runs: int, new_runs: int = FEWEST_NEW_RUNS
) -> float:
    """Return the relative change that is found nearly nine times in ten: 5.8·σ·√[(1+φ)/(1−φ)·(1/k+1/m)].

    k new runs, at least 5, after m old ones; of either at most 60 count. `spread` is σ as share of the level.
    """
    new, old = (
        min(max(runs, least), MOST_RUNS) for runs, least in ((new_runs, FEWEST_NEW_RUNS), (old_runs, 1))
    )
    inflation = (1 + correlation) / (1 - correlation)
    return DETECTABLE_SCORES * spread * math.sqrt(inflation * (1 / new + 1 / old))


def count_runs_needed(profile: NoiseProfile, wanted_change: float) -> int | None:
    """Return how many runs after a change of the wanted size it takes to find it, 5 to 60; None if even 60 do not."""
    for runs in range(FEWEST_NEW_RUNS, MOST_RUNS + 1):
        smallest = find_smallest_change(
            profile.spread, profile.correlation, old_runs=profile.points, new_runs=runs
        )
        if smallest <= wanted_change:
            return runs
    return None


def judge_state(
    profile: NoiseProfile,
    *,
    runs: int,
    wanted_change: float,
    silent_s: float | None = None,
    stale_after_s: float | None = None,
) -> StateJudgement:
    """Return the state of a series of so many runs, of which none came for `silent_s`.

    `wanted_change` is the relative change that its people want to hear of (0.05 is 5 %). Staleness goes before
    learning, and learning before noise: what has no news needs no patience.
    """
    if silent_s is not None and stale_after_s is not None and silent_s > stale_after_s:
        return StateJudgement(SeriesState.STALE, None)
    if runs < BASELINE_RUNS or profile.smallest_change is None:
        missing = max(BASELINE_RUNS - runs, FEWEST_NEW_RUNS + 1 - profile.points)
        return StateJudgement(SeriesState.LEARNING, missing)
    if profile.smallest_change > wanted_change:
        return StateJudgement(SeriesState.TOO_NOISY, count_runs_needed(profile, wanted_change))
    return StateJudgement(SeriesState.STEADY, None)


def _take_residuals(level: Array) -> Array:
    """Return the values of one level as shares of its size around its median."""
    largest = float(np.abs(level).max())
    if largest == 0:
        return np.zeros_like(level)
    shares = level / largest  # or two huge values would overflow
    median = float(np.median(shares))
    size = abs(median) or float(np.abs(shares).mean())
    limit = size * _MOST_RESIDUAL
    return np.clip(shares - median, -limit, limit) / size if size > 0 else np.zeros_like(level)


def _measure_spread(residuals: Array) -> float:
    """Return the standard deviation without what lies 5 spreads out: both of two modes count, a spike does not."""
    low, high = np.quantile(residuals, (0.25, 0.75))
    kept = residuals
    limit = _SPIKE_SPREADS * float(high - low) / _QUARTILES_APART
    if limit > 0:
        kept = residuals[np.abs(residuals) <= limit]
    # Each level's own median is one degree of freedom; that of one level is close enough.
    return float(np.sqrt(np.sum(kept * kept) / max(len(kept) - 1, 1)))


def _measure_correlation(levels: Sequence[Array], spread: float) -> float:
    if spread <= 0:
        return 0.0
    limit = _SPIKE_SPREADS * spread
    clipped = [np.clip(level - level.mean(), -limit, limit) for level in levels]
    squares = sum(float(level @ level) for level in clipped)
    if squares <= 0:
        return 0.0
    count = sum(len(level) for level in clipped)
    products = sum(float(level[1:] @ level[:-1]) for level in clipped)
    return min(max(products / squares + len(clipped) / count, 0.0), _MOST_CORRELATION)
