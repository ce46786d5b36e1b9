"""How many further runs would decide between the two best layouts: pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Literal

from msgspec import Meta

from benchapp.layouts.rules.ranking import LevelSpread, LoadLevels, Requirement, Verdict

# Below three runs the spread is not known; a level of three runs has a median.
RUNS_LEAST: Final = 3
# More runs than this are not proposed.
RUNS_MAXIMUM: Final = 30
STALE_AGE: Final = timedelta(days=90)
# Relative standard deviation of fewer than RUNS_LEAST runs, as of scaling models; and the least, as few runs may agree.
_SPREAD_UNKNOWN: Final = 0.10
_SPREAD_LEAST: Final = 0.01
# Distance of p10 and p90 of a normal distribution, in standard deviations.
_DECILES_DISTANCE: Final = 2.563
# The standard error of p10 (or p90) of n runs is √(0.1 · 0.9) / φ(1.2816) · s / √n (David and Nagaraja, Order
# Statistics, 2003, section 10.2).
_DECILE_ERROR: Final = 1.709
# Error rate 5 %, two-sided; a true difference is found in 80 % of the cases.
_QUANTILES: Final = 1.960 + 0.842

# Of the 95 % interval of a median, on each side.
INTERVAL_MAXIMUM: Final = 0.05
# The standard error of the median of n normally distributed values is √(π / 2) · s / √n.
_MEDIAN_ERROR: Final = 1.2533

ReasonName = Literal[
    "few-runs",
    "old",
    "unknown",
    "near-requirement",
    "near-rival",
    "one-direction",
    "missing",
    "failed",
    "wide",
]
MeasuredName = Literal["iops", "bandwidth_bytes_per_s", "latency_p99_ns"]
MEASURED: Final[tuple[MeasuredName, ...]] = ("iops", "bandwidth_bytes_per_s", "latency_p99_ns")


@dataclass(frozen=True, slots=True)
class LayoutCandidate:
    """A layout under the load that decides. n, age: of its runs, of the newest one. lacks: names of what is not met.

    price: None if unknown, or without prices. margin: throughput at p10 / required − 1, None if unknown.
    """

    verdict: Verdict
    lacks: tuple[str, ...]
    levels: LoadLevels
    n: int
    age: timedelta
    price: float | None
    margin: float | None


@dataclass(frozen=True, slots=True)
class RunReason:
    """Why to measure a candidate. gap, spread: None for reasons without them."""

    name: ReasonName
    runs: Annotated[int | None, Meta(description="further runs; null: more than 30 would be needed")]
    metric: Annotated[MeasuredName | None, Meta(description="what is unknown or near")] = None
    gap: Annotated[
        float | None,
        Meta(description="to the requirement or the other layout: logarithm of the ratio, without sign"),
    ] = None
    spread: Annotated[float | None, Meta(description="relative standard deviation of the runs")] = None


def find_spread(level: LevelSpread, n: int) -> float:
    """Return the relative standard deviation of the runs of a level, from p10 and p90; 10 % below three runs."""
    if n < RUNS_LEAST or level.p10 <= 0:
        return _SPREAD_UNKNOWN
    return max(_SPREAD_LEAST, math.log(level.p90 / level.p10) / _DECILES_DISTANCE)


def count_required_runs(spread: float, gap: float) -> int | None:
    """Return the runs after which a gap between a decile and a fixed value is significant; None beyond RUNS_MAXIMUM.

    n = (1.709 · (1.960 + 0.842) · spread / gap)²: 5 % two-sided, found in 80 % of the cases.
    """
    if gap <= 0:
        return None
    required = math.ceil((_DECILE_ERROR * _QUANTILES * spread / gap) ** 2)
    return required if required <= RUNS_MAXIMUM else None


def list_gap_reasons(level: LevelSpread, n: int, *, is_stale: bool) -> Iterator[RunReason]:
    """Yield why a level should be measured again: few runs, stale, or a 95 % interval of the median beyond ±5 %.

    n = (1.96 · 1.2533 · spread / 0.05)² runs make it narrower.
    """
    if n < RUNS_LEAST:
        yield RunReason("few-runs", RUNS_LEAST - n)
    elif (spread := find_spread(level, n)) > 0:
        needed = math.ceil((1.960 * _MEDIAN_ERROR * spread / INTERVAL_MAXIMUM) ** 2)
        if needed > n:
            yield RunReason("wide", needed - n if needed <= RUNS_MAXIMUM else None, spread=spread)
    if is_stale:
        yield RunReason("old", 1)


def plan_decision(
    candidates: Sequence[LayoutCandidate], requirement: Requirement, *, has_prices: bool
) -> list[tuple[int, RunReason]]:
    """Return the reasons to measure, each with the index of its candidate; none if more runs would change nothing.

    The candidates that meet the requirement, or may meet it, are ordered by price, without prices by margin; the first
    two count. With prices the second one counts only if the first one is not certain to meet the requirement.
    """
    chosen: list[int] = []
    found: list[tuple[int, RunReason]] = []
    for place in _order(candidates, requirement, has_prices=has_prices)[:2]:
        reasons = list(list_reasons(candidates[place], requirement))
        found += [(place, reason) for reason in reasons]
        chosen.append(place)
        if has_prices and candidates[place].verdict == "meets" and not reasons:
            break
    if not has_prices and len(chosen) > 1:
        found += _compare_rivals(candidates, chosen[0], chosen[1], requirement)
    return found


def list_reasons(candidate: LayoutCandidate, requirement: Requirement) -> Iterator[RunReason]:
    """Yield why it is not certain whether a candidate meets the requirement."""
    if candidate.age > STALE_AGE:
        yield RunReason("old", RUNS_LEAST)
    is_few = False
    for name in MEASURED:
        required = getattr(requirement, name)
        if required is None:
            continue
        level: LevelSpread | None = getattr(candidate.levels, name)
        if level is None:
            yield RunReason("unknown", RUNS_LEAST, name)
            continue
        gap, spread = _find_gap(name, level, required), find_spread(level, candidate.n)
        needed = count_required_runs(spread, gap)
        if needed is not None and needed <= candidate.n:
            continue
        if candidate.n < RUNS_LEAST:
            is_few = True
            continue
        runs = None if needed is None else needed - candidate.n
        yield RunReason("near-requirement", runs, name, gap, spread)
    if is_few:
        yield RunReason("few-runs", RUNS_LEAST - candidate.n)


def _find_gap(name: MeasuredName, level: LevelSpread, required: float) -> float:
    """Return the distance of the deciding decile from what is required: p90 of a latency, else p10."""
    value = level.p90 if name == "latency_p99_ns" else level.p10
    return abs(math.log(value / required)) if value > 0 else math.inf


def _order(candidates: Sequence[LayoutCandidate], requirement: Requirement, *, has_prices: bool) -> list[int]:
    """Return the candidates that meet the requirement, or may meet it, the best first."""
    open_places = [place for place, each in enumerate(candidates) if _may_meet(each, requirement)]

    def rank(place: int) -> tuple[bool, float, float]:
        each = candidates[place]
        price = each.price if has_prices else 0.0
        return price is None, price or 0.0, -(each.margin or 0.0)

    return sorted(open_places, key=rank)


def _may_meet(candidate: LayoutCandidate, requirement: Requirement) -> bool:
    """Return whether further runs may show that a candidate meets the requirement, or it does."""
    if candidate.verdict in ("meets", "median-only"):
        return True
    if any(name not in MEASURED for name in candidate.lacks):
        return False
    reasons = [reason for reason in list_reasons(candidate, requirement) if reason.name != "old"]
    if candidate.verdict == "unknown":
        return bool(reasons)
    # Each requirement that is missed must be open, not only one of them.
    open_names = {reason.metric for reason in reasons if reason.metric}
    return any(reason.name == "few-runs" for reason in reasons) or set(candidate.lacks) <= open_names


def _compare_rivals(
    candidates: Sequence[LayoutCandidate], first: int, second: int, requirement: Requirement
) -> Iterator[tuple[int, RunReason]]:
    """Yield the runs that would tell the margins of two candidates apart: the errors of both p10 add up."""
    name: MeasuredName = "iops" if requirement.iops is not None else "bandwidth_bytes_per_s"
    pair = [(place, getattr(candidates[place].levels, name)) for place in (first, second)]
    if any(level is None or level.p10 <= 0 for _, level in pair):
        return
    gap = abs(math.log(pair[0][1].p10 / pair[1][1].p10))
    spreads = [find_spread(level, candidates[place].n) for place, level in pair]
    spread = math.hypot(*spreads)
    needed = count_required_runs(spread, gap)
    for place, _ in pair:
        n = candidates[place].n
        if needed is None or needed > n:
            runs = None if needed is None else needed - n
            yield place, RunReason("near-rival", runs, name, gap, spread)
