"""Models of throughput against the number of volumes or stripes: how far a layout scales, with its uncertainty. Pure.

X(n) is the throughput of n volumes, a that of one, as the model sees it:

- linear: a n
- Amdahl: a n / (1 + σ (n - 1)); σ is the contention (Amdahl 1967, as a throughput)
- USL: a n / (1 + σ (n - 1) + κ n (n - 1)); κ is the coherency (Gunther, "Guerrilla Capacity Planning", 2007)
- saturation: a n up to a limit c

The values are medians of runs. Their relative errors are known: the standard error of the median from the spread of
its runs (`curves.estimate_error`), and LAYOUT_ERROR between layouts. A fit minimizes the squares of the logarithms of
the values over these errors (χ²). Selected is the model with the smallest χ² + 2 k + 2 k (k + 1) / (m - k - 1), which
is Akaike's criterion for k parameters and m widths with the correction for small samples (Hurvich and Tsai, 1989).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

ModelName = Literal["linear", "amdahl", "usl", "saturation"]
RefusalCode = Literal["few-widths", "not-positive", "no-fit", "outside"]
Floats = NDArray[np.float64]

WIDTHS_MINIMUM: Final = 4
# Predictions end here: times the largest measured width.
RANGE_FACTOR: Final = 1.5
# Medians of layouts differ by more than their runs tell: other volumes, other hours. benchmarks/README.md has a check.
LAYOUT_ERROR: Final = 0.05
# The error of a value whose runs are too few to tell: that of a single run.
UNKNOWN_ERROR: Final = 0.10
# A model that misses a value by more than this share of it, and by more than three of its errors, does not fit.
MISFIT_MAXIMUM: Final = 0.25
_MISFIT_ERRORS: Final = 3.0
SAMPLES: Final = 400
# A prediction lies within its interval in 80 % of cases, a parameter in 95 %.
PREDICTION_TAIL: Final = 0.1
PARAMETER_TAIL: Final = 0.025
# From this share of the maximum more volumes are of little use.
KNEE_SHARE: Final = 0.9
# Of a quotient of two fitted numbers.
_ROUNDING: Final = 1e-6
PARAMETERS: Final[dict[ModelName, int]] = {"linear": 1, "amdahl": 2, "saturation": 2, "usl": 3}


class NoModel(Exception):
    """No model, or no prediction, can be given; code and message say why."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        """Keep the code beside the message."""
        super().__init__(message)
        self.code: RefusalCode = code


@dataclass(frozen=True, slots=True)
class WidthValue:
    """The throughput of one width, > 0, in any unit. error: the standard error in that unit; None if unknown."""

    count: int
    value: float
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """A value within an interval: of 80 % for a prediction, of 95 % for a parameter."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The throughput expected at a width. is_measured: the width is one of the measured."""

    width: int
    throughput: Interval
    is_measured: bool


@dataclass(frozen=True, slots=True)
class Criterion:
    """Akaike's criterion of a model for few widths; the smallest is selected."""

    model: ModelName
    value: float


@dataclass(frozen=True, slots=True)
class ScalingModel:
    """The selected model of one curve.

    one: throughput of one volume. contention: σ, 0 and more; coherency: κ, 0 and more; limit: c, throughput; each None
    where the model does not have it. criteria: Akaike's criterion of every model that the widths allow, smallest first.
    misfit: the largest difference of a value from the model, as a share of the value, and at which width.
    """

    name: ModelName
    one: Interval
    contention: Interval | None
    coherency: Interval | None
    limit: Interval | None
    criteria: tuple[Criterion, ...]
    misfit: float
    misfit_width: int
    counts: tuple[int, ...]
    samples: "_Selected"

    @property
    def count_maximum(self) -> int:
        """Return the largest width that the model predicts: 1.5 times the largest measured."""
        return int(RANGE_FACTOR * self.counts[-1])

    def covers(self, count: int) -> bool:
        """Return whether the model predicts this width."""
        return self.counts[0] <= count <= self.count_maximum

    def predict(self, count: int) -> Prediction:
        """Return the median of a layout of this width with the interval of 80 %. Raises NoModel outside the range."""
        if not self.covers(count):
            raise NoModel(
                "outside",
                f"a width of {count} is outside {self.counts[0]} to {self.count_maximum}: measured were"
                f" {self.counts[0]} to {self.counts[-1]}, and a model says nothing beyond 1.5 times that",
            )
        values = self.samples.evaluate(np.array([float(count)]))[:, 0] * self.samples.noise
        throughput = _make_interval(self._compute(count), values, tail=PREDICTION_TAIL)
        return Prediction(count, throughput, is_measured=count in self.counts)

    def find_peak(self) -> int | None:
        """Return the width with the highest throughput, where the model has one within its range; else None."""
        if self.name == "usl" and self.coherency is not None and self.contention is not None:
            if self.coherency.value <= 0:
                return None
            at = sqrt(max(1 - self.contention.value, 0.0) / self.coherency.value)
            peak = max(round(at), 1)
        elif self.limit is not None:
            peak = ceil(self.limit.value / self.one.value - _ROUNDING)
        else:
            return None
        return peak if self.covers(peak) else None

    def find_share(self, count: int) -> float | None:
        """Return the share of the highest throughput that a width reaches; None without a peak in the range."""
        peak = self.find_peak()
        if peak is None:
            return None
        return self._compute(count) / self._compute(peak)

    def find_knee(self) -> int | None:
        """Return the smallest width that reaches 90 % of the highest throughput; None without a peak in the range."""
        peak = self.find_peak()
        if peak is None:
            return None
        # Every model grows up to its peak, which can be at millions.
        widths = range(self.counts[0], peak + 1)
        return widths[bisect_left(widths, KNEE_SHARE * self._compute(peak), key=self._compute)]

    def _compute(self, count: int) -> float:
        return float(_evaluate(self.name, self._parameters(), np.array([float(count)]))[0, 0])

    def _parameters(self) -> Floats:
        return np.array(
            [
                [
                    self.one.value,
                    *(part.value if part is not None else 0.0 for part in (self.contention, self.coherency)),
                    self.limit.value if self.limit is not None else np.inf,
                ]
            ]
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Selected:
    """The selected fits of all samples: parameters (a, σ, κ, c) by model; noise: the factor of one more layout."""

    parts: tuple[tuple[ModelName, Floats], ...]
    noise: Floats

    def evaluate(self, counts: Floats) -> Floats:
        """Return the throughput of each sample at each width."""
        return np.concatenate([_evaluate(name, parameters, counts) for name, parameters in self.parts])


def fit_scaling(points: Sequence[WidthValue], *, seed: int = 1) -> ScalingModel:
    """Return the model that describes these points best; the same points and seed give the same intervals.

    Raises NoModel for fewer than four widths, values that are not positive, or if every model misses a value by more
    than 25 % of it and three of its errors.
    """
    ordered = sorted(points, key=lambda point: point.count)
    if len({point.count for point in ordered}) != len(ordered):
        raise ValueError("a width has several values")
    if len(ordered) < WIDTHS_MINIMUM:
        raise NoModel(
            "few-widths", f"{len(ordered)} widths were measured; a model needs at least {WIDTHS_MINIMUM}"
        )
    if any(not isfinite(point.value) or point.value <= 0 or point.count < 1 for point in ordered):
        raise NoModel("not-positive", "a model needs values and widths above zero")
    counts = np.array([float(point.count) for point in ordered])
    logs = np.log([point.value for point in ordered])
    errors = np.array([_find_error(point) for point in ordered])
    fits = _fit_all(counts, logs[None, :], errors)
    # Of models that fit equally well, the one with a limit: of a flat curve it says that more volumes are of no use.
    order = sorted(fits, key=lambda name: (round(float(fits[name].criterion[0]), 6), name != "saturation"))
    fitting = [name for name in order if not _is_misfit(fits[name].misfits[0], errors)]
    if not fitting:
        best = _compute_shares(fits[order[0]].misfits[0])
        at = int(np.argmax(best))
        raise NoModel(
            "no-fit",
            f"no model describes these values: the best misses the one of width {ordered[at].count} by"
            f" {100 * float(best[at]):.0f} %",
        )
    name = fitting[0]
    parameters, misfits = fits[name].parameters[0], _compute_shares(fits[name].misfits[0])
    sampled = _resample(counts, logs, errors, seed=seed)
    own = sampled.fits[name].parameters
    at = int(np.argmax(misfits))
    return ScalingModel(
        name=name,
        one=_make_interval(float(parameters[0]), own[:, 0]),
        contention=_make_interval(float(parameters[1]), own[:, 1]) if name in ("amdahl", "usl") else None,
        coherency=_make_interval(float(parameters[2]), own[:, 2]) if name == "usl" else None,
        limit=_make_interval(float(parameters[3]), own[:, 3]) if name == "saturation" else None,
        criteria=tuple(Criterion(each, float(fits[each].criterion[0])) for each in order),
        misfit=float(misfits[at]),
        misfit_width=ordered[at].count,
        counts=tuple(point.count for point in ordered),
        samples=_select(sampled, fitting),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Fits of one model to several samples: parameters (samples, 4), misfits as logarithms (samples, widths)."""

    parameters: Floats
    misfits: Floats
    criterion: Floats


def _find_error(point: WidthValue) -> float:
    own = UNKNOWN_ERROR if point.error is None else point.error / point.value
    return sqrt(own**2 + LAYOUT_ERROR**2)


def _is_misfit(misfits: Floats, errors: Floats) -> bool:
    is_large = (_compute_shares(misfits) > MISFIT_MAXIMUM) & (np.abs(misfits) > _MISFIT_ERRORS * errors)
    return bool(is_large.any())


def _compute_shares(misfits: Floats) -> Floats:
    """Return each difference of the model as a share of the value; misfits: logarithms of value / model."""
    return np.asarray(np.abs(np.expm1(-misfits)))


def _make_interval(value: float, samples: Floats, *, tail: float = PARAMETER_TAIL) -> Interval:
    low, high = np.quantile(samples, (tail, 1 - tail))
    return Interval(min(float(low), value), value, max(float(high), value))


def _fit_all(counts: Floats, logs: Floats, errors: Floats) -> dict[ModelName, _Fit]:
    """Fit every model that the number of widths allows to each sample (rows of logs)."""
    widths = len(counts)
    found = {}
    for name, size in PARAMETERS.items():
        if widths - size - 1 <= 0:
            continue
        parameters = (
            _fit_saturation(counts, logs, errors)
            if name == "saturation"
            else _fit_rational(counts, logs, errors, size=size)
        )
        misfits = logs - np.log(_evaluate(name, parameters, counts))
        penalty = 2 * size + 2 * size * (size + 1) / (widths - size - 1)
        found[name] = _Fit(parameters, misfits, ((misfits / errors) ** 2).sum(axis=1) + penalty)
    return found


def _evaluate(name: ModelName, parameters: Floats, counts: Floats) -> Floats:
    """Return the throughput of each row of parameters (a, σ, κ, c) at each width."""
    one, contention, coherency, limit = (parameters[:, [place]] for place in range(4))
    if name == "saturation":
        return np.asarray(np.minimum(one * counts, limit))
    return np.asarray(one * counts / (1 + contention * (counts - 1) + coherency * counts * (counts - 1)))


def _fit_rational(counts: Floats, logs: Floats, errors: Floats, *, size: int) -> Floats:
    """Fit linear (size 1), Amdahl (2) or USL (3): n / X is linear in 1, n - 1 and n (n - 1), factors from 0.

    Relative errors of n / X are those of X. Of every set of factors above zero the best fit is taken, by logarithms.
    """
    bases = np.stack([np.ones_like(counts), counts - 1, counts * (counts - 1)])[:size]
    best = np.full(len(logs), np.inf)
    found = np.zeros((len(logs), 4))
    found[:, 3] = np.inf
    inverse = counts / np.exp(logs)
    for chosen in _list_subsets(size):
        # Rows divided by n / X and its error: what is minimized are the squares of relative differences.
        rows = bases[list(chosen)].T[None, :, :] / (inverse * errors)[:, :, None]
        target = np.broadcast_to(1 / errors, logs.shape)
        normal = rows.transpose(0, 2, 1) @ rows
        factors = np.linalg.solve(normal, (rows.transpose(0, 2, 1) @ target[:, :, None]))[:, :, 0]
        parameters = np.zeros((len(logs), 4))
        parameters[:, 3] = np.inf
        is_valid = (factors > 0).all(axis=1)
        base = np.where(is_valid, factors[:, 0], 1.0)
        parameters[:, 0] = 1 / base
        for place, factor in zip(chosen[1:], factors.T[1:], strict=True):
            parameters[:, place] = np.where(is_valid, factor / base, 0.0)
        distance = (((logs - np.log(_evaluate("usl", parameters, counts))) / errors) ** 2).sum(axis=1)
        is_better = is_valid & (distance < best)
        best[is_better], found[is_better] = distance[is_better], parameters[is_better]
    return found


def _list_subsets(size: int) -> list[tuple[int, ...]]:
    return [(0,), (0, 1), (0, 2), (0, 1, 2)][: {1: 1, 2: 2, 3: 4}[size]]


def _fit_saturation(counts: Floats, logs: Floats, errors: Floats) -> Floats:
    """Fit a line through zero up to a limit: for each place of the bend the weighted means of both parts."""
    weights = errors**-2.0
    each = logs - np.log(counts)
    best = np.full(len(logs), np.inf)
    found = np.zeros((len(logs), 4))
    for bend in range(1, len(counts)):
        one = np.exp((each[:, :bend] * weights[:bend]).sum(axis=1) / weights[:bend].sum())
        limit = np.exp((logs[:, bend:] * weights[bend:]).sum(axis=1) / weights[bend:].sum())
        parameters = np.stack([one, np.zeros_like(one), np.zeros_like(one), limit], axis=1)
        distance = (((logs - np.log(_evaluate("saturation", parameters, counts))) / errors) ** 2).sum(axis=1)
        is_better = distance < best
        best[is_better], found[is_better] = distance[is_better], parameters[is_better]
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Sampled:
    """Fits of all models to the same samples of the values."""

    fits: dict[ModelName, _Fit]
    noise: Floats


def _resample(counts: Floats, logs: Floats, errors: Floats, *, seed: int) -> _Sampled:
    generator = np.random.default_rng(seed)
    values = logs + errors * generator.standard_normal((SAMPLES, len(counts)))
    # What one more layout of this kind would be measured at, beside the error of the curve.
    noise = np.exp(float(np.median(errors)) * generator.standard_normal(SAMPLES))
    return _Sampled(_fit_all(counts, values, errors), noise)


def _select(sampled: _Sampled, candidates: Sequence[ModelName]) -> _Selected:
    """Let each sample select its model, so that the doubt which model holds is part of the interval."""
    selected = np.stack([sampled.fits[name].criterion for name in candidates]).argmin(axis=0)
    parts = tuple(
        (name, sampled.fits[name].parameters[selected == place])
        for place, name in enumerate(candidates)
        if (selected == place).any()
    )
    return _Selected(parts, sampled.noise)
