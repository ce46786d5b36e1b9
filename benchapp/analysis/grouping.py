"""Which of many findings to believe, and which of them moved together. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

# "Neighbouring runs": a change is placed one run too early or late now and then, and a schedule jitters.
_NEIGHBOURS: Final = 1.25
# What runs rarer than daily have in common is the sweep, not the week.
_APART_MAXIMUM: Final = timedelta(days=1) * _NEIGHBOURS
# Of a host whose runs say no interval.
_APART_MINIMUM: Final = timedelta(hours=1)


def find_threshold(chances: Iterable[float], *, family: int, level: float) -> float:
    """Return the largest chance of noise that is believed among `family` tests, so that of all believed ones at most
    the share `level` is false; 0 where none is.

    Benjamini and Hochberg 1995. Tests that found nothing need not be given; `family` counts them.
    """
    threshold = 0.0
    for rank, chance in enumerate(sorted(chances), start=1):
        if chance <= rank * level / max(family, rank):
            threshold = chance
    return threshold


@dataclass(frozen=True, slots=True)
class Moment:
    """When a change began, and the usual distance of the runs of its series in s."""

    key: int
    at: datetime
    interval_s: float

    @property
    def reach(self) -> timedelta:
        """Return how far apart another may have begun and still be of the same event."""
        usual = timedelta(seconds=self.interval_s) * _NEIGHBOURS
        return min(max(usual, _APART_MINIMUM), _APART_MAXIMUM)


def cluster_moments(moments: Iterable[Moment]) -> list[list[Moment]]:
    """Return what began together: each within reach of the one before, and of the first within twice that.

    The second keeps a chain of small distances from joining what is a week apart.
    """
    clusters: list[list[Moment]] = []
    for moment in sorted(moments, key=lambda moment: (moment.at, moment.key)):
        if clusters and _is_near(clusters[-1], moment):
            clusters[-1].append(moment)
        else:
            clusters.append([moment])
    return clusters


def _is_near(cluster: Sequence[Moment], moment: Moment) -> bool:
    reach = max(cluster[-1].reach, moment.reach)
    return moment.at - cluster[-1].at <= reach and moment.at - cluster[0].at <= 2 * reach


@dataclass(frozen=True, slots=True)
class Span:
    """From the first to the last begin of the changes that an incident holds."""

    key: int
    first_at: datetime
    last_at: datetime

    def distance(self, moment: Moment) -> timedelta:
        """Return how far a moment lies outside."""
        return max(self.first_at - moment.at, moment.at - self.last_at, timedelta(0))


def find_home(spans: Iterable[Span], cluster: Sequence[Moment]) -> Span | None:
    """Return the incident that a cluster belongs to: the nearest within reach of it; None where there is none."""
    reached = [
        (distance, span.key, span)
        for span in spans
        if (distance := min(span.distance(moment) for moment in cluster)) <= max(m.reach for m in cluster)
    ]
    return min(reached)[2] if reached else None
