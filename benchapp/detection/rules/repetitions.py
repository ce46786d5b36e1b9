"""Repetitions: runs in quick succession whose values depend on the day rather than on the run. Pure.

Ten runs of one night are one observation if they agree with each other and differ from those of the next night; as ten
observations they would make a level of every night.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.segmentation import take_median

Array = NDArray[np.float64]
Times = NDArray[np.int64]
Places = NDArray[np.intp]

# Usual intervals between runs from which a pause begins another group.
_PAUSE_INTERVALS: Final = 4.0
# Minimum groups, and average runs in them.
_GROUPS_MINIMUM: Final = 5
_GROUP_RUNS_MINIMUM: Final = 3.0
# Squared differences of neighbors between groups, in multiples of those within: 1 for independent runs; 4 if three
# quarters of the variance are between groups. Medians, so that changes of level do not count.
_RATIO_MINIMUM: Final = 4.0


def find_repetitions(times: Times, values: Array) -> Places | None:
    """Return the index of the first run of each group of repetitions; None if runs are not repetitions.

    times: of the runs, ascending; values: finite, of the same length.
    """
    is_pause = _find_pauses(times)
    if is_pause is None:
        return None
    squares = np.diff(values) ** 2
    between, within = float(np.median(squares[is_pause])), float(np.median(squares[~is_pause]))
    if between <= _RATIO_MINIMUM * within:
        return None
    return np.concatenate([np.zeros(1, np.intp), np.flatnonzero(is_pause) + 1])


def may_have_repetitions(times: Times) -> bool:
    """Return whether runs are in groups that may be repetitions, whatever their values."""
    return _find_pauses(times) is not None


def _find_pauses(times: Times) -> NDArray[np.bool_] | None:
    """Return for each interval whether it separates two groups; None if runs are not in groups."""
    intervals = np.diff(times)
    if len(intervals) < _GROUPS_MINIMUM * _GROUP_RUNS_MINIMUM - 1:
        return None
    is_pause: NDArray[np.bool_] = intervals > _PAUSE_INTERVALS * take_median(intervals)
    groups = int(np.count_nonzero(is_pause)) + 1
    is_grouped = groups >= _GROUPS_MINIMUM and len(times) >= _GROUP_RUNS_MINIMUM * groups
    return is_pause if is_grouped else None


def merge_repetitions(values: Array, starts: Places) -> Array:
    """Return the median of each group."""
    return np.array([np.median(group) for group in np.split(values, starts[1:])])
