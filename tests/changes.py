"""Changes of plain values."""

from collections.abc import Iterable

from benchapp.detection.changepoints.detector import LEAST_RELATIVE_CHANGE, ChangePoint, judge_values


def find_changes(
    values: Iterable[float], *, least_relative_change: float = LEAST_RELATIVE_CHANGE
) -> list[ChangePoint]:
    """Return the changes of a series."""
    return list(judge_values(values, least_relative_change=least_relative_change).changes)
