"""What was said of a metric and is not found now: it is over, or the detector wavers; else it is withdrawn. Plain.

Said is what was confirmed, and what is in an incident. The detector weighs a whole history each time: a short level
between two that are the same it takes for chance, and one near its threshold it finds today and not tomorrow.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchapp.analysis.judging import CONFIRMED_AFTER_RUNS, NEWEST_RUNS
from benchapp.analysis.level_shift_v1 import Level
from benchapp.analysis.recovery import LEAST_RUNS, find_end
from benchapp.models import ChangeState
from benchapp.pipeline.detect_metric import Found, find_ended
from benchapp.pipeline.detect_reconcile import Known, is_same
from benchapp.pipeline.detect_rows import Row

Floats = NDArray[np.float64]


def list_said(known: Sequence[Known], rows: Mapping[int, Row]) -> list[Known]:
    """Return the changes that were confirmed, and the provisional ones that are in an incident."""
    return [
        row
        for row in known
        if row.state == ChangeState.CONFIRMED
        or (row.state == ChangeState.PROVISIONAL and rows[row.change_id]["incident_id"] is not None)
    ]


def list_ended(
    values: Floats,
    changes: Sequence[Found],
    said: Sequence[Known],
    rows: Mapping[int, Row],
    *,
    smallest_change: float,
) -> list[Found]:
    """Return those that are not found any more because they are over: they are kept as they were before their end."""
    ended: list[Found] = []
    for row in said:
        if any(is_same(row, found) for found in [*changes, *ended]):
            continue
        before, after = read_levels(rows[row.change_id])
        if not _has_lasted(values, row, before, after):
            continue
        found = find_ended(values, row.index, before=before, after=after, smallest_change=smallest_change)
        if found is not None and not any(found.index == other.index for other in [*changes, *ended]):
            ended.append(found)
    return ended


def find_standing(
    values: Floats, changes: Sequence[Found], said: Sequence[Known], rows: Mapping[int, Row]
) -> frozenset[int]:
    """Return the ids of those that stay as they are though the detector is in two minds about them.

    Both levels are still nearer to what was said of them than to each other, and no other change tells the same.
    """
    return frozenset(
        row.change_id for row in said if _is_standing(values, changes, row, *read_levels(rows[row.change_id]))
    )


def read_levels(row: Row) -> tuple[Level, Level]:
    """Return the levels before and after a change, as its row has them."""
    before, after = (
        Level(row[f"{side}_median"], row[f"{side}_spread"], row[f"{side}_n"]) for side in ("before", "after")
    )
    return before, after


def _is_standing(values: Floats, changes: Sequence[Found], row: Known, before: Level, after: Level) -> bool:
    if row.index == 0 or not _has_lasted(values, row, before, after):
        return False
    first, end = max(row.index - before.points, 0), row.index + _count_runs(values, row, before, after)
    if any(found.is_rise == row.is_rise and first < found.index < end for found in changes):
        return False
    middle = (before.median + after.median) / 2
    old, new = float(np.median(values[first : row.index])), float(np.median(values[row.index : end]))
    return old < middle < new if row.is_rise else new < middle < old


def _has_lasted(values: Floats, row: Known, before: Level, after: Level) -> bool:
    """Say whether a level is long enough not to be taken back: if it is over unconfirmed, as long as confirming takes.

    Over is what three runs say: one or two that are good again may be luck.
    """
    lasted = _count_runs(values, row, before, after)
    is_over = len(values) - row.index - lasted >= LEAST_RUNS
    is_young = is_over and row.state != ChangeState.CONFIRMED
    return lasted >= (CONFIRMED_AFTER_RUNS if is_young else NEWEST_RUNS)


def _count_runs(values: Floats, row: Known, before: Level, after: Level) -> int:
    return find_end(values[row.index :].tolist(), before_median=before.median, after_median=after.median)
