"""Whether a level is new: how far it lies beyond all that the other side has shown for as long. Part of method v1.

This is what tells a change from caches, noisy neighbours and correlated noise, of which a t test knows only the first
lag: they come back to where they were.
"""

from typing import Final

from benchapp.analysis.changepoints.segmentation_v1 import Levels

# Points: the longest stretch of the new level that is compared with the old; longer ones never are mere visits.
LONGEST_VISIT: Final = 20


def measure_novelty(levels: Levels, start: int, place: int, *, end: int) -> float:
    """Return how far the shorter side lies beyond any equally long stretch of the longer, as share of the shift.

    1 where even that stretch has the mean of its side; 0 where the old level has visited the new one for as long.
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
