"""Totals of all jobs of one group of fio."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.directions import DIRECTIONS, GROUPS, did_io, merge_alike, merge_directions
from benchapp.fio.report import Direction, Group, Report, Total

_ADDED: Final = ("read", "write", "trim")


def add_totals(report: Report) -> Report:
    """Return the report with the totals of each document."""
    return replace(
        report,
        documents=tuple(replace(document, totals=total_up(document.groups)) for document in report.documents),
    )


def total_up(groups: Sequence[Group]) -> tuple[Total, ...]:
    """Return the total of each group of fio, over all its jobs and servers, in order of appearance.

    By the rules of roll_up, with "groups-without-bins" where percentiles cannot be known. "mixed", which fio prints
    beside read and write if asked for both, is added to nothing; fio's "All clients" is in no group.
    """
    if len(groups) == 1:
        return (Total(groups[0].groupid, _add_total(groups[0].directions), (0,)),)
    of_group: dict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        of_group[group.groupid].append(place)
    return tuple(
        Total(groupid, _add_total(_merge([groups[place] for place in places])), tuple(places))
        for groupid, places in of_group.items()
    )


def _merge(groups: Sequence[Group]) -> tuple[Direction, ...]:
    if len(groups) == 1:
        return groups[0].directions
    return merge_directions([group.directions for group in groups], GROUPS)


def _add_total(directions: tuple[Direction, ...]) -> tuple[Direction, ...]:
    """Add the total of read, write and trim if there is more than one of them."""
    if len(directions) < 2:
        return directions
    added = [
        direction
        for direction in directions
        # A timing of a whole has no rates to add up.
        if direction.name in _ADDED and direction.elapsed_s is None and did_io(direction)
    ]
    return directions if len(added) < 2 else (*directions, merge_alike("total", added, DIRECTIONS))
