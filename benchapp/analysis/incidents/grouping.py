"""Which of many changes began together, and which incident they belong to. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

# "Neighbouring runs": a change is placed one run too early or late now and then, and a schedule jitters.
_NEIGHBOURS: Final = 1.25
# A weak change is placed some runs beside where it began; so near it still joins what others show (as judging has it).
_BESIDE: Final = 5.0
# What runs rarer than daily have in common is the sweep, not the week.
_APART_MAXIMUM: Final = timedelta(days=1) * _NEIGHBOURS
# Of a host whose runs say no interval.
_APART_MINIMUM: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a change began, and the usual distance of the runs of its series in s."""

    key: int
    at: datetime
    interval_s: float

    @property
    def reach(self) -> timedelta:
        """Return how far apart another may have begun and still be of the same event."""
        return self._measure(_NEIGHBOURS)

    @property
    def home_reach(self) -> timedelta:
        """Return how far from an incident's changes it may have begun and still belong to it."""
        return self._measure(_BESIDE)

    def _measure(self, runs: float) -> timedelta:
        usual = timedelta(seconds=self.interval_s) * runs
        return min(max(usual, _APART_MINIMUM), _APART_MAXIMUM)


def cluster_moments(moments: Iterable[Moment]) -> list[list[Moment]]:
    """Return what began together, in the order of time: those within reach of the one that most began around.

    The densest first, so that a chance change shortly before does not part what began at once; and no chain of small
    distances joins what is days apart.
    """
    clusters = []
    for waiting in _part_at_gaps(sorted(moments, key=lambda moment: (moment.at, moment.key))):
        while waiting:
            first, end = max(_list_ranges(waiting), key=lambda span: (span[1] - span[0], -span[0]))
            clusters.append(waiting[first:end])
            del waiting[first:end]
    return sorted(clusters, key=lambda cluster: (cluster[0].at, cluster[0].key))


def _part_at_gaps(moments: Sequence[Moment]) -> list[list[Moment]]:
    """Part what no reach connects, so that a long history costs no more than its busiest day."""
    parts: list[list[Moment]] = []
    for moment in moments:
        last = parts[-1][-1] if parts else None
        if last is not None and moment.at - last.at <= max(last.reach, moment.reach):
            parts[-1].append(moment)
        else:
            parts.append([moment])
    return parts


def _list_ranges(moments: Sequence[Moment]) -> Iterator[tuple[int, int]]:
    """Yield for each moment the places, from and up to before, of those within its reach."""
    times = [moment.at for moment in moments]
    for moment in moments:
        yield bisect_left(times, moment.at - moment.reach), bisect_right(times, moment.at + moment.reach)


@dataclass(frozen=True, slots=True)
class IncidentSpan:
    """From the first to the last begin of the changes that an incident holds."""

    key: int
    first_at: datetime
    last_at: datetime

    def distance(self, moment: Moment) -> timedelta:
        """Return how far a moment lies outside."""
        return max(self.first_at - moment.at, moment.at - self.last_at, timedelta(0))


def find_matching_incident(spans: Iterable[IncidentSpan], cluster: Sequence[Moment]) -> IncidentSpan | None:
    """Return the incident that a cluster belongs to: the nearest within five runs of it, a day at most; None: none."""
    reached = [
        (distance, span.key, span.first_at, span)
        for span in spans
        if (distance := min(span.distance(moment) for moment in cluster))
        <= max(m.home_reach for m in cluster)
    ]
    return min(reached, key=lambda one: one[:3])[3] if reached else None
