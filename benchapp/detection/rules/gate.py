"""The gate: whether the values of new runs are worse than those of a baseline by more than a limit. Pure.

One series and metric at a time. The change is the mean of the new values relative to the median of the baseline. Its
error is that of m new values and of a median of n old ones, with the standard deviation and the lag-1 correlation of
the baseline, whose noise new runs are assumed to have. A few new values cannot show their own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.rules.noise_profile import profile_noise

GateOutcome = Literal["passed", "regressed", "undecided"]
GateReason = Literal["", "no-value", "no-baseline", "other-kind", "too-noisy"]
# Fewer values have no usable standard deviation.
BASELINE_RUNS_MINIMUM: Final = 5
# More runs than this are not asked for.
RUNS_NEEDED_MAXIMUM: Final = 100
# Probability that a value passes that is worse than the baseline by the limit.
MISS_RATE: Final = 0.05
# Variance of a median relative to that of a mean, for normal noise.
_MEDIAN_VARIANCE: Final = math.pi / 2
# Noise that is measured as 0 (values rounded to few digits) is taken for this share of the level.
_LEAST_DEVIATION: Final = 1e-4


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of one series and metric. Values in the metric's base unit; changes are relative to the median.

    baseline_n: runs; baseline_deviation: relative standard deviation. change: of the mean of the new values, positive
    is an increase. best, worst: the bounds of the true change towards better, at the error rate of the gate, and
    towards worse, at MISS_RATE; None without a baseline. runs_needed: further runs after which a decision is expected
    if the change stays the same; None if there is a decision, or 100 do not suffice.
    """

    outcome: GateOutcome
    reason: GateReason
    n: int
    value: float | None
    baseline_n: int
    baseline_median: float | None = None
    baseline_deviation: float | None = None
    change: float | None = None
    best: float | None = None
    worst: float | None = None
    runs_needed: int | None = None


def pass_gate(
    baseline: Sequence[float] | NDArray[np.float64],
    values: Sequence[float] | NDArray[np.float64],
    *,
    is_higher_better: bool,
    limit: float,
    error_rate: float,
) -> GateResult:
    """Compare new values with those of a baseline; all finite.

    limit: tolerated relative change for the worse, 0 or more. error_rate: probability of "regressed" if the true change
    is just the limit, above 0 and below 0.5; of a family of tests, its share. "regressed": the bound towards better is
    beyond the limit. "passed": the bound towards worse is within it. Otherwise "undecided".
    """
    old, new = np.asarray(baseline, dtype=float), np.asarray(values, dtype=float)
    value = float(new.mean()) if len(new) else None
    median = float(np.median(old)) if len(old) else None
    deviation = max(profile_noise(old).spread, _LEAST_DEVIATION) if len(old) >= 2 and median else None
    if value is None:
        return GateResult("undecided", "no-value", 0, None, len(old), median, deviation)
    if len(old) < BASELINE_RUNS_MINIMUM or not median or deviation is None:
        return GateResult("undecided", "no-baseline", len(new), value, len(old), median, deviation)
    change = (value - median) / abs(median)
    margin = _Margin(len(old), deviation, correlation=profile_noise(old).correlation, error_rate=error_rate)
    # Positive: worse.
    loss = -change if is_higher_better else change
    least, most = loss - margin.towards_better(len(new)), loss + margin.towards_worse(len(new))
    outcome: GateOutcome = "regressed" if least > limit else "passed" if most <= limit else "undecided"
    sign = -1 if is_higher_better else 1
    return GateResult(
        outcome,
        "too-noisy" if outcome == "undecided" else "",
        len(new),
        value,
        len(old),
        median,
        deviation,
        change,
        sign * least,
        sign * most,
        margin.count_missing(loss - limit, len(new)) if outcome == "undecided" else None,
    )


class _Margin:
    """The width of the bounds of a change after so many new runs."""

    def __init__(self, n: int, deviation: float, *, correlation: float, error_rate: float) -> None:
        self._variance = deviation * deviation
        # Neighbors that are alike make the median less certain; new runs are as far from it as any.
        self._of_median = _MEDIAN_VARIANCE * (1 + correlation) / (1 - correlation) / n
        self._better, self._worse = (find_t_quantile(rate, n - 1) for rate in (error_rate, MISS_RATE))

    def towards_better(self, runs: int) -> float:
        return self._better * self._find_error(runs)

    def towards_worse(self, runs: int) -> float:
        return self._worse * self._find_error(runs)

    def count_missing(self, distance: float, runs: int) -> int | None:
        """Return the further runs after which a bound excludes the limit, `distance` from the change."""
        bound = self.towards_better if distance > 0 else self.towards_worse
        wanted = range(runs + 1, runs + RUNS_NEEDED_MAXIMUM + 1)
        return next((total - runs for total in wanted if bound(total) < abs(distance)), None)

    def _find_error(self, runs: int) -> float:
        return math.sqrt(self._variance * (1 / runs + self._of_median))


def find_t_quantile(tail: float, freedom: int) -> float:
    """Return the value that Student's t exceeds with a probability below 0.5, by the inverse of Wallace's 1959 score.

    Up to 7 % too large with 4 degrees of freedom and a tail of 1e-4, 1 % from 9 on; not too small.
    """
    score = NormalDist().inv_cdf(1 - tail) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(score * score / freedom))
