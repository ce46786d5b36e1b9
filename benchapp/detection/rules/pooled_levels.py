"""Pooled levels: what the series of a host or pool have in common, as one series of ratios. Pure.

A change of 3 % is below the threshold of each series and within its noise. If it affects all 40 series of a host, the
median of their ratios shows it after a few runs.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.estimates import measure_spreads
from benchapp.detection.changepoints.segmentation import take_median

Array = NDArray[np.float64]
Times = NDArray[np.int64]
Indices = NDArray[np.intp]

# Name and version of the method, stored with each change.
POOLED_METHOD: Final = "pooled-v1"
# Two live changes of a metric cannot have the same start: a pooled one starts 2 µs after its run, a drift 1 µs.
POOLED_TICK: Final = timedelta(microseconds=2)
# Minimum series of a pooled level. With 20 the common noise of realistic fleets caused one change in 8 000 runs of a
# host, with 10 seven in as many (benchmarks/pooled.py).
MEMBERS_MINIMUM: Final = 20
# Minimum runs of a member, and slots of a pooled level: as for the baseline of a series.
SLOTS_MINIMUM: Final = 20
# Slots from the newest one in which stored changes are updated; earlier ones have too few slots before them.
UPDATED_SLOTS: Final = 100
# Share of the threshold of a metric from which a pooled change is reported: 2 % for IOPS.
THRESHOLD_SHARE: Final = 0.4
# Share of the members, each with its weight, that must have changed in the direction of the pooled level. If half of
# them changed, noise adds a quarter.
CHANGED_SHARE_MINIMUM: Final = 0.85
# Share of a pooled change that members without an individual change must show: less is nearer to none.
_OTHERS_SHARE_MINIMUM: Final = 0.5
# Share of the members that are measured in a complete slot.
_COMPLETE_SHARE: Final = 0.8
_MEASURED_SHARE: Final = 0.5
# Slots from which the number of members of a complete slot is known.
_USUAL_SLOTS: Final = 10
# Newest runs of each member for the usual interval and the gap between sweeps.
_GRID_RUNS: Final = 30
# Slots on each side of a change that are compared, as for single series.
_SIDE_SLOTS: Final = 60
# Minimum slots of a new level, and the share of the smallest change from which the detector is asked.
_NEWEST_MINIMUM: Final = 3
_MOST_OF_CHANGE: Final = 0.6
# Relative spread below which a member weighs no more.
_SPREAD_MINIMUM: Final = 0.005


@dataclass(frozen=True, slots=True)
class SlotGrid:
    """Time slots of the usual interval of a host's series. origin: start of slot 0; both in µs.

    The slots begin in the largest gap between the runs of consecutive sweeps, so that each contains one sweep.
    """

    origin: int
    interval: int

    def find_slots(self, times: Times) -> Indices:
        """Return the number of the slot of each time."""
        return ((times - self.origin) // self.interval).astype(np.intp)

    def find_slot(self, time: int) -> int:
        """Return the number of the slot of one time."""
        return (time - self.origin) // self.interval

    def find_start(self, slot: int) -> int:
        """Return when a slot begins, in µs."""
        return self.origin + slot * self.interval


@dataclass(frozen=True, slots=True)
class PooledRatios:
    """Logarithms of the values of members relative to their own level: a row for each slot, a column for each member.

    slots: the number of each row, ascending; only slots with at least half of the members. ratios: NaN where a member
    has no value. weights: of the members, the reciprocals of their spreads.
    """

    slots: Indices
    ratios: Array
    weights: Array


@dataclass(frozen=True, slots=True)
class ChangedMembers:
    """How many members changed in the direction of a pooled change.

    members: with values on both sides; changed: of these, in its direction; share: of their weight, 0 to 1; relative:
    median change of all of them.
    """

    members: int
    changed: int
    share: float
    relative: float


def find_grid(members: Indices, times: Times) -> SlotGrid | None:
    """Return the slots of series by the times of their runs in µs; None for fewer than two runs each.

    members: the number of the series of each run, ascending; the runs of a series are in the order of time.
    """
    counts = np.bincount(members)
    back = np.cumsum(counts)[members] - np.arange(len(members))
    is_newest = (back <= _GRID_RUNS) & (counts[members] > 1)
    newest = times[is_newest]
    if not len(newest):
        return None
    table = np.full((len(counts), _GRID_RUNS), np.nan)
    table[members[is_newest], -back[is_newest]] = newest
    gaps = np.diff(table[counts > 1], axis=1)
    interval = int(take_median(_take_medians(gaps, np.minimum(counts[counts > 1], _GRID_RUNS) - 1)))
    if interval <= 0:
        return None
    phases = np.unique(newest % interval)
    gaps = np.diff(phases, append=phases[0] + interval)
    widest = int(np.argmax(gaps))
    return SlotGrid(int(phases[widest] + gaps[widest] // 2) % interval, interval)


def align_members(
    members: Indices, slots: Indices, values: Array, *, count: int, slots_maximum: int
) -> PooledRatios:
    """Return the ratios of `count` members in the newest complete slots.

    members, slots, values: of each run, the number of its member, ascending, that of its slot, and a positive value.
    Of several values of a member in a slot the last one counts. An incomplete newest slot is omitted.
    """
    end = int(slots.max(initial=0)) + 1
    columns = slots - (end - slots_maximum)
    is_new = columns >= 0
    ratios = np.full((count, slots_maximum), np.nan)
    ratios[members[is_new], columns[is_new]] = np.log(values[is_new])
    known = ~np.isnan(ratios)
    numbers = known.sum(axis=1)
    ratios -= _take_medians(ratios, numbers)[:, np.newaxis]
    spreads = _measure_spreads(ratios, known, numbers)
    counts = known.sum(axis=0)
    is_used = counts >= max(_MEASURED_SHARE * count, 1)
    usual = float(np.median(counts[:-1][is_used[:-1]][-_USUAL_SLOTS:])) if is_used[:-1].any() else 0.0
    is_used[-1] &= counts[-1] >= _COMPLETE_SHARE * usual
    by_slot = np.ascontiguousarray(ratios[:, is_used].T)
    return PooledRatios(np.flatnonzero(is_used) + end - slots_maximum, by_slot, 1 / spreads)


def _take_medians(rows: Array, counts: Indices) -> Array:
    """Return the median of each row, of which so many values are known; NaN without any."""
    ordered, places = np.sort(rows, axis=1), np.arange(len(rows))
    medians: Array = (
        ordered[places, (np.maximum(counts, 1) - 1) // 2]
        + ordered[places, np.minimum(counts // 2, rows.shape[1] - 1)]
    ) / 2
    return medians


def _measure_spreads(ratios: Array, known: NDArray[np.bool_], numbers: Indices) -> Array:
    """Return the spread of each row. Those with the same number of known values are calculated together."""
    spreads = np.empty(len(ratios))
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        values = ratios[rows][known[rows]].reshape(len(rows), number)
        spreads[rows] = measure_spreads(values, least=_SPREAD_MINIMUM)
    return spreads


def pool_ratios(ratios: Array, weights: Array) -> Array:
    """Return the pooled level in each slot: the weighted median of the ratios of members, 1.0 at their own level.

    The median weighted by 1/σ minimizes Σ|ratio − median| / σ: a noisy member counts less.
    """
    pooled: Array = np.exp(_take_weighted_medians(ratios, weights))
    return pooled


def _take_weighted_medians(ratios: Array, weights: Array) -> Array:
    """Return the median of each row, of which NaN is unknown; weights: of the columns."""
    order = np.argsort(ratios, axis=1)
    ordered = weights[order]
    counts = ratios.shape[1] - np.isnan(ratios).sum(axis=1)
    # Unknown values are last.
    ordered[np.arange(ratios.shape[1]) >= counts[:, np.newaxis]] = 0.0
    sums = np.cumsum(ordered, axis=1)
    rows, places = np.arange(len(ratios)), np.argmax(sums >= sums[:, -1:] / 2, axis=1)
    medians: Array = ratios[rows, order[rows, places]]
    return medians


def may_have_changed(levels: Array, *, tolerated_changes: Array) -> NDArray[np.bool_]:
    """Return whether the mean of the newest runs, 3 to 60, differs from that of the 60 before by most of a change.

    levels: a row for each pooled level, a column for each slot; tolerated_changes: relative, of each row. Most
    evaluations end here, at a hundredth of the cost of the detector.
    """
    count = levels.shape[1]
    sums = np.zeros((len(levels), count + 1))
    np.cumsum(np.log(levels), axis=1, out=sums[:, 1:])
    newest = np.arange(_NEWEST_MINIMUM, min(_SIDE_SLOTS, count - _NEWEST_MINIMUM) + 1)
    if not len(newest):
        return np.zeros(len(levels), np.bool_)
    places = count - newest
    starts = np.maximum(places - _SIDE_SLOTS, 0)
    shifts = (sums[:, count:] - sums[:, places]) / newest
    shifts -= (sums[:, places] - sums[:, starts]) / (places - starts)
    has_changed: NDArray[np.bool_] = np.abs(shifts).max(axis=1) >= _MOST_OF_CHANGE * np.log1p(
        tolerated_changes
    )
    return has_changed


def count_changed(ratios: Array, weights: Array, index: int, *, is_rise: bool) -> ChangedMembers:
    """Compare the medians of members before and from a slot on, at most 60 slots on each side."""
    shifts = _measure_shifts(ratios, index)
    has_both = ~np.isnan(shifts)
    if not has_both.any():
        return ChangedMembers(0, 0, 0.0, 0.0)
    shifts, weights = shifts[has_both], weights[has_both]
    has_changed = shifts > 0 if is_rise else shifts < 0
    return ChangedMembers(
        members=len(shifts),
        changed=int(has_changed.sum()),
        share=float(weights[has_changed].sum() / weights.sum()),
        relative=float(np.expm1(np.median(shifts))),
    )


def do_others_follow(ratios: Array, weights: Array, index: int, *, relative: float) -> bool:
    """Return whether members without an individual change show at least half of a pooled change of this size.

    A large change of a quarter of the members moves the pooled level of all, too. Their shifts are compared by the
    median, weighted as in the pooled level. False without members on both sides.
    """
    shifts = _measure_shifts(ratios, index)
    if np.isnan(shifts).all():
        return False
    shift = float(_take_weighted_medians(shifts[np.newaxis], weights)[0])
    return shift / math.log1p(relative) >= _OTHERS_SHARE_MINIMUM


def _measure_shifts(ratios: Array, index: int) -> Array:
    """Return the median of each member from a slot on relative to that before, of at most 60 slots; NaN if unknown."""
    before = ratios[max(index - _SIDE_SLOTS, 0) : index]
    after = ratios[index : index + _SIDE_SLOTS]
    has_both = (~np.isnan(before)).any(axis=0) & (~np.isnan(after)).any(axis=0)
    shifts = np.full(ratios.shape[1], np.nan)
    shifts[has_both] = np.nanmedian(after[:, has_both], axis=0) - np.nanmedian(before[:, has_both], axis=0)
    return shifts
