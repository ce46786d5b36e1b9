"""Novelty of a level: distance from all windows of the same length on the other side.

This separates changes from caches, noisy neighbors and correlated noise, of which a t test considers only the first
lag: these return to earlier levels.
"""

from typing import Final

from benchapp.detection.changepoints.segmentation import Levels

# Points: the longest window of the new level that is compared; longer ones are not temporary states.
LONGEST_VISIT: Final = 20


def measure_novelty(levels: Levels, start: int, place: int, *, end: int) -> float:
    """Return the distance of the shorter side from windows of the same length of the longer one, as share of the shift.

    1 if that window has the mean of its side; 0 if the old level was at the new one for as long.
    """
    before, after = place - start, end - place
    sums, ends = levels.sum_list, levels.sums
    mean_before = (sums[place] - sums[start]) / before
    mean_after = (sums[end] - sums[place]) / after
    shift = mean_after - mean_before
    if before >= after:
        (first, last), longer, shorter, fewer = (start, place), before, mean_after, after
    else:
        (first, last), longer, shorter, fewer = (place, end), after, mean_before, before
        shift = -shift
    length = min(fewer, max(longer // 2, 1), LONGEST_VISIT)
    stretches = ends[first + length : last + 1] - ends[first : last + 1 - length]
    farthest = float(stretches.max() if shift > 0 else stretches.min()) / length
    return (shorter - farthest) / shift
