"""Significance of simultaneous changes in one scope, and of the values of new runs for the gate. Pure.

The detector's confidence per series is not enough among hundreds of series: correlated noise causes "one in a million"
changes more often than that. The rate was measured; tested is the chance that noise alone causes that many simultaneous
changes, each at least as certain.

The gate tests each series and metric, and the series of a metric together. The change is the mean of the new values
relative to the median of the baseline. Its error comes from m new values and a median of n old ones, with the
standard deviation and the lag-1 correlation of the baseline, whose noise new runs are assumed to have. A few new values
cannot show their own.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, fmean
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.rules.noise_profile import profile_noise

# Family-wise false-positive rate per sweep of the fleet; four sweeps a day give one false incident in 25 days.
FALSE_CHANCE: Final = 0.01
# False discovery rate of the changes that join an incident.
_FALSE_SHARE: Final = 0.1
# Rate per run at which noise causes a change of one direction in one metric of one series whose chance, according to
# the detector, is at most x, as counted on realistic histories: `python -m benchmarks significance`, at all places and
# lengths, of which the detector reports a part. By correlation small chances are far more frequent than x; below 1e-8
# the rate decreases faster, with the root instead of the cube root.
_RATE_MAXIMUM: Final = 1e-3
_RATE_FACTOR: Final = 2.5e-3
_RATE_STEEP_FROM: Final = 1e-8
# A separated change: all new values beyond all old ones by this share of the shift, with this score of the t test, at
# least so many runs before and after. Its rate, counted in the same way with 60 runs before it, is per series: if one
# metric of a run is far outside, so are the others. Fewer runs before exclude fewer temporary states.
_SEPARATION_MINIMUM: Final = 0.4
_SEPARATED_T_MINIMUM: Final = 8.0
_SEPARATED_BEFORE_MINIMUM: Final = 30
_SEPARATED_AFTER_MINIMUM: Final = 4
_SEPARATED_RATE: Final = 1.4e-6
_SEPARATED_RATE_BEFORE: Final = 60
# Family-wise false-positive rate of drifts in two months of the fleet.
_FALSE_DRIFT_CHANCE: Final = 0.1
# Rate at which noise causes a drift of a series in two months, by its distance from the threshold in standard errors:
# counted over 40 days of 6 400 series, 31 beyond 1.96, 11 beyond 2.58, 7 beyond 3, 2 beyond 3.5, none beyond 4
# (`python -m benchmarks fleet --seed 2101`).
_DRIFT_RATE: Final = 0.01
_DRIFT_SCORE: Final = 1.96
_DRIFT_DECAY: Final = 1.8
# Runs within which changes count as simultaneous: the same one, and one on either side.
_TOGETHER_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class ChangeClaim:
    """A change of one metric of one series. chance: that noise alone causes it, according to the detector.

    counts: whether it is evidence; otherwise it can only join an event of others. separated_before: runs before a
    separated change; 0 for others.
    """

    key: int
    cell: int
    chance: float
    counts: bool = True
    separated_before: int = 0


@dataclass(frozen=True, slots=True)
class ScopeTests:
    """The family of tests of a scope. tests: judged metrics of its series; scopes: those of the whole fleet."""

    tests: int
    series: int
    scopes: int


def count_separated(*, separation: float, t_score: float, before_n: int, after_n: int) -> int:
    """Return the runs before a separated change, `separated_before` of its claim; 0 for others."""
    is_separated = (
        separation >= _SEPARATION_MINIMUM
        and t_score >= _SEPARATED_T_MINIMUM
        and before_n >= _SEPARATED_BEFORE_MINIMUM
        and after_n >= _SEPARATED_AFTER_MINIMUM
    )
    return before_n if is_separated else 0


def estimate_rate(chance: float) -> float:
    """Return the rate per run of changes by noise with at most this chance, in one metric of one series."""
    chance = max(chance, 0.0)
    steep = math.sqrt(min(chance / _RATE_STEEP_FROM, 1.0))
    return min(_RATE_FACTOR * math.cbrt(max(chance, _RATE_STEEP_FROM)) * steep, _RATE_MAXIMUM)


def measure_joint_chance(claims: Iterable[ChangeClaim], family: ScopeTests) -> float:
    """Return the chance that noise causes this many simultaneous changes in a family of tests; 1 if none counts.

    The minimum over all numbers of series (Berk and Jones 1979) of the chance that one change begins at this run and
    the others within reach of it, each at least as certain (Poisson), times 1 + log₂ of the numbers tried. A series
    counts once, by its most certain metric.
    """
    strongest: dict[int, float] = {}
    for claim in claims:
        if claim.counts:
            strongest[claim.cell] = min(_expect(claim, family), strongest.get(claim.cell, math.inf))
    if not strongest:
        return 1.0
    least = min(
        expected * _find_tail(others, _TOGETHER_RUNS * expected)
        for others, expected in enumerate(sorted(strongest.values()))
    )
    return min(least * (1 + math.log2(len(strongest))), 1.0)


def filter_significant(claims: Sequence[ChangeClaim], family: ScopeTests) -> frozenset[int]:
    """Return the keys of the significant claims among simultaneous changes of one scope.

    Empty if noise explains all of them.
    """
    if measure_joint_chance(claims, family) > FALSE_CHANCE / max(family.scopes, 1):
        return frozenset()
    return find_belonging(claims, family)


def find_belonging(claims: Sequence[ChangeClaim], family: ScopeTests) -> frozenset[int]:
    """Return the keys of the claims that belong to a significant event, at a false discovery rate of 10 %.

    Benjamini and Hochberg 1995.
    """
    ordered = sorted(claims, key=lambda claim: (_expect(claim, family), claim.chance, claim.key))
    count = max(
        (
            rank
            for rank, claim in enumerate(ordered, start=1)
            if _TOGETHER_RUNS * _expect(claim, family) <= _FALSE_SHARE * rank
        ),
        default=0,
    )
    return frozenset(claim.key for claim in ordered[:count])


def are_significant_drifts(scores: Iterable[float], family: ScopeTests) -> bool:
    """Return whether noise alone does not explain the drifts of a scope; scores: of each series, its largest.

    A score is the distance of the drift from the threshold in standard errors. As for changes, the chance that noise
    causes so many drifts, each at least as far: a family-wise error of 10 % in two months.
    """
    rates = sorted(estimate_drift_rate(score) * max(family.series, 1) for score in scores)
    if not rates:
        return False
    least = min(_find_tail(count, expected) for count, expected in enumerate(rates, start=1))
    least *= 1 + math.log2(len(rates))
    return least <= _FALSE_DRIFT_CHANCE / max(family.scopes, 1)


def estimate_drift_rate(score: float) -> float:
    """Return the rate in two months at which noise causes a drift of a series with at least this score."""
    return _DRIFT_RATE * math.exp(-_DRIFT_DECAY * max(score - _DRIFT_SCORE, 0.0))


def find_required_chance(family: ScopeTests) -> float:
    """Return the chance, according to the detector, at which a change of one series alone is significant.

    The inverse of `estimate_rate`; 1 if any change that the detector finds is.
    """
    rate = FALSE_CHANCE / max(family.scopes, 1) / max(family.tests, 1)
    if rate >= _RATE_MAXIMUM:
        return 1.0
    flat = (rate / _RATE_FACTOR) ** 3
    if flat >= _RATE_STEEP_FROM:
        return min(flat, 1.0)
    return _RATE_STEEP_FROM * (rate / (_RATE_FACTOR * math.cbrt(_RATE_STEEP_FROM))) ** 2


def count_required_series(claim: ChangeClaim, family: ScopeTests) -> int | None:
    """Return how many series need a simultaneous change like this claim to be significant; None if all are too few."""
    low, high = 1, max(family.series, 1)

    def is_enough(count: int) -> bool:
        claims = [replace(claim, key=key, cell=key, counts=True) for key in range(count)]
        return bool(filter_significant(claims, family))

    if not is_enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


def _expect(claim: ChangeClaim, family: ScopeTests) -> float:
    """Return the expected number of changes by noise at one run that are as certain as this one."""
    expected = max(family.tests, 1) * estimate_rate(claim.chance)
    if not claim.separated_before:
        return expected
    before = min(claim.separated_before, _SEPARATED_RATE_BEFORE)
    return min(expected, max(family.series, 1) * _SEPARATED_RATE * _SEPARATED_RATE_BEFORE / before)


def _find_tail(count: int, expected: float) -> float:
    """Return the chance of `count` or more events: the upper tail of the Poisson distribution."""
    if count == 0:
        return 1.0
    if expected <= 0:
        return 0.0
    term = math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
    tail, place = term, count
    while term > 1e-12 * tail and place < count + 1000:
        place += 1
        term *= expected / place
        tail += term
    return min(tail, 1.0)


GateOutcome = Literal["passed", "regressed", "undecided"]
GateReason = Literal["", "no-value", "no-baseline", "other-kind", "too-noisy"]
# Fewer values have no usable standard deviation.
BASELINE_RUNS_MINIMUM: Final = 5
# More runs than this are not asked for.
RUNS_NEEDED_MAXIMUM: Final = 100
# Runs beyond the first of a build from which the share of the variance that repetitions have in common is estimated.
REPETITIONS_MINIMUM: Final = 3
UNKNOWN_SHARED_VARIANCE: Final = 0.5
# Probability that a value passes that is worse than the baseline by the limit.
MISS_RATE: Final = 0.05
# Variance of a median relative to that of a mean, for normal noise.
MEDIAN_VARIANCE: Final = math.pi / 2
# Noise that is measured as 0 (values rounded to few digits) is taken for this share of the level.
_LEAST_DEVIATION: Final = 1e-4


@dataclass(frozen=True, slots=True)
class GateSample:
    """What the gate compares of one series and metric, or of several: finite values by the id of their run, in order.

    limit: the relative loss that must be found, 0 or more. builds: of runs of the baseline; runs of one build
    are repetitions, a run without one is a build.
    """

    metric: str
    baseline: Mapping[int, float]
    values: Mapping[int, float]
    is_higher_better: bool
    limit: float
    builds: Mapping[int, str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Return the median of the baseline; 0 without one that changes can be relative to."""
        return float(np.median(list(self.baseline.values()))) if len(self.baseline) >= 2 else 0.0

    def list_builds(self) -> list[list[float]]:
        """Return the values of each build of the baseline."""
        found: dict[str, list[float]] = {}
        for run, value in self.baseline.items():
            found.setdefault(self.builds.get(run) or f"run {run}", []).append(value)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of one series and metric. Values in the metric's base unit; changes are relative to the median.

    baseline_n: builds; baseline_deviation: relative standard deviation. change: of the mean of the new values, positive
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


def judge_build(
    samples: Sequence[GateSample], *, error_rate: float, asks: int = 1
) -> tuple[list[GateResult], list[tuple[GateSample, GateResult, int]]]:
    """Return the result of each sample, and of series together: their mean, its result and their number.

    error_rate: probability of any "regressed" if nothing is worse than the baseline, above 0 and below 0.5: half of
    it for the series together, as a loss that all have in common is clearer there. asks: how often the gate is asked
    about the build at most, after further runs. Series of a metric with the same new runs are together if they have
    five builds of the baseline in common: their noise within a run is then in the scatter of their mean.
    """
    together = _pool(samples)
    share = error_rate / asks / (2 if together else 1)

    def judge(family: Sequence[GateSample]) -> list[GateResult]:
        shared = measure_shared_variance(family)
        return [
            pass_gate(each, error_rate=share / len(family), miss_rate=MISS_RATE / asks, shared=shared)
            for each in family
        ]

    pooled = judge([each for each, _ in together])
    return judge(samples), [
        (each, result, count) for (each, count), result in zip(together, pooled, strict=True)
    ]


def combine_outcomes(outcomes: Collection[GateOutcome]) -> GateOutcome:
    """Return the outcome of a build: regressed if any is, passed if all are, of at least one."""
    if "regressed" in outcomes:
        return "regressed"
    return "passed" if set(outcomes) == {"passed"} else "undecided"


def _pool(samples: Sequence[GateSample]) -> list[tuple[GateSample, int]]:
    """Return the mean of each group of series in percent of their medians, and their number; at least two series."""
    groups: dict[tuple[str, frozenset[int]], list[GateSample]] = {}
    for each in samples:
        if each.values and each.median and len(each.list_builds()) >= BASELINE_RUNS_MINIMUM:
            groups.setdefault((each.metric, frozenset(each.values)), []).append(each)
    pooled = []
    for (metric, _), group in groups.items():
        medians, builds = [each.median for each in group], group[0].builds
        baseline, values = (
            pool_runs([(list(each), list(each.values())) for each in columns], medians, least=len(group))
            for columns in ([each.baseline for each in group], [each.values for each in group])
        )
        limit = fmean(each.limit for each in group)
        mean = GateSample(metric, baseline, values, group[0].is_higher_better, limit, builds)
        if len(group) > 1 and len(mean.list_builds()) >= BASELINE_RUNS_MINIMUM:
            pooled.append((mean, len(group)))
    return pooled


def pool_runs(
    columns: Sequence[tuple[Sequence[int] | NDArray[np.int64], Sequence[float] | NDArray[np.float64]]],
    medians: Sequence[float],
    *,
    least: int = 1,
) -> dict[int, float]:
    """Return the mean of several series by run, in percent of their medians, in the order of their first values.

    columns: runs and values of each series. A run with fewer values than `least` is left out.
    """
    runs, firsts, places, counts = np.unique(
        np.concatenate([ids for ids, _ in columns]),
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    relative = [np.asarray(of) / median for (_, of), median in zip(columns, medians, strict=True)]
    means = 100 * np.bincount(places, weights=np.concatenate(relative)) / counts
    order = [place for place in np.argsort(firsts) if counts[place] >= least]
    return dict(zip(runs[order].tolist(), means[order].tolist(), strict=True))


def pass_gate(
    sample: GateSample,
    *,
    error_rate: float,
    miss_rate: float = MISS_RATE,
    shared: float = UNKNOWN_SHARED_VARIANCE,
) -> GateResult:
    """Compare new values with those of a baseline; shared: as of `measure_shared_variance`.

    "passed": the bound towards worse is within the limit. "regressed": it is not, the bound towards better is still a
    loss, and the change is nearer to the limit than to none. Otherwise "undecided". error_rate: probability of
    "regressed" without any loss; miss_rate: of "passed" with a loss of the limit; of a family of tests, its share.
    """
    builds = sample.list_builds()
    new = list(sample.values.values())
    value = fmean(new) if new else None
    median = sample.median or None
    deviation = max(profile_noise(sample.baseline.values()).spread, _LEAST_DEVIATION) if median else None
    if value is None:
        return GateResult("undecided", "no-value", 0, None, len(builds), median, deviation)
    if len(builds) < BASELINE_RUNS_MINIMUM or not median or deviation is None:
        return GateResult("undecided", "no-baseline", len(new), value, len(builds), median, deviation)
    change = (value - median) / abs(median)
    margin = _Margin(builds, deviation=deviation, shared=shared, error_rate=error_rate, miss_rate=miss_rate)
    sign = -1 if sample.is_higher_better else 1
    # Positive: worse.
    loss = sign * change
    outcome = margin.decide(loss, len(new), limit=sample.limit)
    wanted = range(len(new) + 1, len(new) + RUNS_NEEDED_MAXIMUM + 1) if outcome == "undecided" else ()
    needed = (
        total - len(new) for total in wanted if margin.decide(loss, total, limit=sample.limit) != "undecided"
    )
    return GateResult(
        outcome,
        "too-noisy" if outcome == "undecided" else "",
        len(new),
        value,
        len(builds),
        median,
        deviation,
        change,
        sign * (loss - margin.towards_better(len(new))),
        sign * (loss + margin.towards_worse(len(new))),
        next(needed, None),
    )


class _Margin:
    """The width of the bounds of a change after so many new runs of one build."""

    def __init__(
        self,
        builds: Sequence[Sequence[float]],
        *,
        deviation: float,
        shared: float,
        error_rate: float,
        miss_rate: float,
    ) -> None:
        n = len(builds)
        self._variance = deviation * deviation
        self._shared = shared
        correlation = profile_noise([fmean(values) for values in builds]).correlation
        # Neighbors that are alike make the median less certain; new runs are as far from it as any.
        self._of_median = MEDIAN_VARIANCE * (1 + correlation) / (1 - correlation) / n
        self._better, self._worse = (find_t_quantile(rate, n - 1) for rate in (error_rate, miss_rate))

    def decide(self, loss: float, runs: int, *, limit: float) -> GateOutcome:
        if loss + self.towards_worse(runs) <= limit:
            return "passed"
        is_worse = loss > max(self.towards_better(runs), limit / 2)
        return "regressed" if is_worse else "undecided"

    def towards_better(self, runs: int) -> float:
        return self._better * self._find_error(runs)

    def towards_worse(self, runs: int) -> float:
        return self._worse * self._find_error(runs)

    def _find_error(self, runs: int) -> float:
        # What repetitions have in common does not average out.
        of_mean = self._shared + (1 - self._shared) / runs
        return math.sqrt(self._variance * (of_mean + self._of_median))


def measure_shared_variance(samples: Sequence[GateSample]) -> float:
    """Return the share of the variance of runs that the repetitions of a build have in common: 0 to 1.

    The mean over samples, from builds of the baseline with several runs; a half with fewer than three repetitions.
    """
    shares = []
    for each in samples:
        repeated = [np.asarray(values) for values in each.list_builds() if len(values) > 1]
        freedom = sum(len(values) - 1 for values in repeated)
        variance = (profile_noise(each.baseline.values()).spread * each.median) ** 2
        if freedom >= REPETITIONS_MINIMUM and variance:
            within = math.fsum(float(((values - values.mean()) ** 2).sum()) for values in repeated) / freedom
            shares.append(1 - within / variance)
    return min(max(fmean(shares), 0.0), 1.0) if shares else UNKNOWN_SHARED_VARIANCE


def find_t_quantile(tail: float, freedom: int) -> float:
    """Return the value that Student's t exceeds with a probability below 0.5, by the inverse of Wallace's 1959 score.

    Up to 7 % too large with 4 degrees of freedom and a tail of 1e-4, 1 % from 9 on; not too small.
    """
    score = -NormalDist().inv_cdf(tail) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(score * score / freedom))
