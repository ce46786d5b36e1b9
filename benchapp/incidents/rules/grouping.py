"""Clusters of simultaneous changes, and the incident they belong to. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Final

# Distance in runs of simultaneous changes: detection can be off by one run, and schedules jitter.
_CLUSTER_RUNS: Final = 1.25
# Distance in runs within which a change joins an incident: the start of a weak change is off by some runs.
_INCIDENT_RUNS: Final = 5.0
# Lower bound, for unknown intervals.
_APART_MINIMUM: Final = timedelta(hours=1)
# The same between hosts: one may run at any time between two runs of the other, and the start of a weak change is off.
_HOSTS_RUNS: Final = 4.0


def find_event_window(intervals_s: Sequence[float]) -> timedelta:
    """Return the maximum distance of changes of one event on different hosts: 4 usual intervals, at least an hour.

    intervals_s: the usual interval of the runs of each changed series, in s.
    """
    usual = median(intervals_s or (0.0,))
    return max(timedelta(seconds=usual) * _HOSTS_RUNS, _APART_MINIMUM)


@dataclass(frozen=True, slots=True)
class Moment:
    """Start of a change, and the usual interval of the runs of its series in s."""

    key: int
    at: datetime
    interval_s: float

    @property
    def reach(self) -> timedelta:
        """Return the maximum distance of simultaneous changes."""
        return self._measure(_CLUSTER_RUNS)

    @property
    def incident_reach(self) -> timedelta:
        """Return the maximum distance to the changes of its incident."""
        return self._measure(_INCIDENT_RUNS)

    def _measure(self, runs: float) -> timedelta:
        return max(timedelta(seconds=self.interval_s) * runs, _APART_MINIMUM)


def cluster_moments(moments: Iterable[Moment]) -> list[list[Moment]]:
    """Return clusters of simultaneous moments by time, each within reach of its densest moment.

    The densest cluster is taken first, so that an earlier chance change does not split it, and no chain of small
    distances joins moments that are days apart.
    """
    clusters = []
    for waiting in _split_at_gaps(sorted(moments, key=lambda moment: (moment.at, moment.key))):
        while waiting:
            first, end = max(_list_ranges(waiting), key=lambda span: (span[1] - span[0], -span[0]))
            clusters.append(waiting[first:end])
            del waiting[first:end]
    return sorted(clusters, key=lambda cluster: (cluster[0].at, cluster[0].key))


def _split_at_gaps(moments: Sequence[Moment]) -> list[list[Moment]]:
    """Split at gaps larger than any reach, which bounds the cost for long histories."""
    parts: list[list[Moment]] = []
    for moment in moments:
        last = parts[-1][-1] if parts else None
        if last is not None and moment.at - last.at <= max(last.reach, moment.reach):
            parts[-1].append(moment)
        else:
            parts.append([moment])
    return parts


def _list_ranges(moments: Sequence[Moment]) -> Iterator[tuple[int, int]]:
    """Yield for each moment the index range (right exclusive) of those within its reach."""
    times = [moment.at for moment in moments]
    for moment in moments:
        yield bisect_left(times, moment.at - moment.reach), bisect_right(times, moment.at + moment.reach)


@dataclass(frozen=True, slots=True)
class IncidentSpan:
    """First and last start of the changes of an incident."""

    key: int
    first_at: datetime
    last_at: datetime

    def distance(self, moment: Moment) -> timedelta:
        """Return the distance of a moment from the span."""
        return max(self.first_at - moment.at, moment.at - self.last_at, timedelta(0))


def find_matching_incident(spans: Iterable[IncidentSpan], cluster: Sequence[Moment]) -> IncidentSpan | None:
    """Return the nearest incident within five runs of a cluster; None if there is none."""
    reached = [
        (distance, span.key, span.first_at, span)
        for span in spans
        if (distance := min(span.distance(moment) for moment in cluster))
        <= max(m.incident_reach for m in cluster)
    ]
    return min(reached, key=lambda one: one[:3])[3] if reached else None
