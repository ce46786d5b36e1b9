"""Whether the conditions of an experiment changed while it ran."""

from dataclasses import dataclass
from math import exp, sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchapp.layouts.rules.experiments.confidence_sequence import find_p_of_t
from benchapp.layouts.rules.experiments.paired_runs import ArmRuns, RunPairs

_Floats = NDArray[np.float64]
# Of each check. They are three, and made at every look: a stricter limit than that of a single test.
CHECK_LIMIT: Final = 0.01
# Below, a check has too few values to find anything.
_PAIRS_MINIMUM: Final = 5
# Share of pairs in the same order from which on a linear drift does not cancel.
_SAME_ORDER_MAXIMUM: Final = 2 / 3

Caveat = Literal["not-interleaved", "unbalanced", "drift", "difference-drifts", "order"]


@dataclass(frozen=True, slots=True)
class ArmDrift:
    """A relative change, 0.02 for +2 %, and its two-sided p in one look."""

    change: float
    p: float

    @property
    def is_present(self) -> bool:
        """Return whether it is more than chance."""
        return self.p < CHECK_LIMIT


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """drift: of both arms over the experiment, which pairs in ABBA order cancel. difference: of B / A over the
    experiment. order: of B / A if B is first against A first. Each None for fewer than five pairs, or if all pairs
    have one order or time.
    """

    drift: ArmDrift | None
    difference: ArmDrift | None
    order: ArmDrift | None
    caveats: tuple[Caveat, ...]


def check_drift(a: ArmRuns, b: ArmRuns, pairs: RunPairs) -> DriftCheck:
    """Look for drift in the values of both arms, in their ratio, and by the order within pairs."""
    drift = difference = order = None
    if len(pairs.a) >= _PAIRS_MINIMUM:
        first, second = a.at[pairs.a].astype(float), b.at[pairs.b].astype(float)
        drift = _fit_trend((first, np.log(a.values[pairs.a])), (second, np.log(b.values[pairs.b])))
        difference = _fit_trend(((first + second) / 2, pairs.log_ratios))
        order = _compare_orders(pairs)
    return DriftCheck(drift, difference, order, tuple(_list_caveats(pairs, drift, difference, order)))


def _list_caveats(
    pairs: RunPairs, drift: ArmDrift | None, difference: ArmDrift | None, order: ArmDrift | None
) -> list[Caveat]:
    found: list[Caveat] = []
    count = len(pairs.a)
    if pairs.unpaired > 2 * count:
        found.append("not-interleaved")
    first = int(pairs.is_a_first.sum())
    if count >= _PAIRS_MINIMUM and max(first, count - first) > _SAME_ORDER_MAXIMUM * count:
        found.append("unbalanced")
    checks: tuple[tuple[Caveat, ArmDrift | None], ...] = (
        ("drift", drift),
        ("difference-drifts", difference),
        ("order", order),
    )
    return found + [name for name, shift in checks if shift is not None and shift.is_present]


def _fit_trend(*groups: tuple[_Floats, _Floats]) -> ArmDrift | None:
    """Return the change over the whole span by a common slope of groups with separate means; None without a span."""
    times = np.concatenate([at for at, _ in groups])
    span = float(times.max() - times.min())
    if span <= 0:
        return None
    x = np.concatenate([(at - at.mean()) / span for at, _ in groups])
    y = np.concatenate([values - values.mean() for _, values in groups])
    width = float((x**2).sum())
    if width <= 0:
        return None
    slope = float((x * y).sum()) / width
    degrees = len(x) - len(groups) - 1
    variance = float(((y - slope * x) ** 2).sum()) / degrees / width
    return _make_drift(slope, variance, degrees)


def _compare_orders(pairs: RunPairs) -> ArmDrift | None:
    """Return the ratio of pairs with B first against those with A first; None for fewer than two of either."""
    groups = [pairs.log_ratios[pairs.is_a_first == is_first] for is_first in (True, False)]
    if min(map(len, groups)) < 2:
        return None
    degrees = len(pairs.log_ratios) - 2
    pooled = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / degrees
    distance = float(groups[1].mean() - groups[0].mean())
    return _make_drift(distance, pooled * sum(1 / len(group) for group in groups), degrees)


def _make_drift(log_change: float, variance: float, degrees: int) -> ArmDrift:
    # Exact values, as of a counter: any change is a change.
    if variance <= 1e-24:
        return ArmDrift(exp(log_change) - 1, 0.0 if abs(log_change) > 1e-9 else 1.0)
    return ArmDrift(exp(log_change) - 1, find_p_of_t(log_change / sqrt(variance), degrees))
