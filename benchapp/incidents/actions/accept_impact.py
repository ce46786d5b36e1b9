"""The impact of accepting a new baseline, for its preview: levels, other incidents, subscriptions. Changes nothing."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.incidents.actions.accepted_levels import AcceptedLevel, preview_accept
from benchapp.models import Change, ChangeState, Notice, NoticeState

OverlapKind = Literal["earlier", "later", "drift"]
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)


@dataclass(frozen=True, slots=True)
class OverlappingIncident:
    """An open incident that is not accepted, with changes of the accepted metrics and series, which are counted.

    earlier: began before the new baseline and are not evaluated any more; the incident stays open. later: began after
    it and are evaluated against it. drifts: from an older baseline, begun after the new one; they are withdrawn.
    """

    id: int
    title: str
    earlier: int
    later: int
    drifts: int


@dataclass(frozen=True, slots=True)
class NotifiedSubscription:
    """An active subscription with a notice of an accepted incident. is_waiting: the notice is still to be sent."""

    id: int
    owner_name: str
    channel: str
    is_waiting: bool


@dataclass(frozen=True, slots=True)
class AcceptImpact:
    """What `accept_level` changes. incidents: newest first; subscriptions: by owner; they get no further notice."""

    levels: tuple[AcceptedLevel, ...]
    incidents: tuple[OverlappingIncident, ...]
    subscriptions: tuple[NotifiedSubscription, ...]

    @property
    def series_count(self) -> int:
        """Return the number of series with a new baseline."""
        return len({level.series_id for level in self.levels})


def preview_accept_impact(*incident_ids: int, series_ids: Collection[int] | None = None) -> AcceptImpact:
    """Return the impact of accepting the new levels of these incidents; at most three queries.

    series_ids: only these series; None is all.
    """
    levels = preview_accept(*incident_ids, series_ids=series_ids)
    return AcceptImpact(levels, _find_overlapping(incident_ids, levels), _list_notified(incident_ids))


def _find_overlapping(
    incident_ids: Sequence[int], levels: Sequence[AcceptedLevel]
) -> tuple[OverlappingIncident, ...]:
    starts = {(level.series_id, level.metric): level.from_at for level in levels}
    if not starts:
        return ()
    rows = (
        Change.objects.filter(
            series_id__in={series_id for series_id, _ in starts},
            state__in=_LIVE,
            incident__is_open=True,
        )
        .exclude(incident_id__in=incident_ids)
        .values_list("incident_id", "incident__title", "series_id", "metric", "started_at", "method")
    )
    titles: dict[int, str] = {}
    counts: dict[int, Counter[OverlapKind]] = defaultdict(Counter)
    for other_id, title, series_id, metric, started_at, method in rows:
        from_at = starts.get((series_id, metric))
        if from_at is not None:
            titles[other_id] = title
            is_later = started_at > from_at
            counts[other_id][
                "earlier" if not is_later else "drift" if method == DRIFT_METHOD else "later"
            ] += 1
    return tuple(
        OverlappingIncident(other_id, titles[other_id], count["earlier"], count["later"], count["drift"])
        for other_id, count in sorted(counts.items(), reverse=True)
    )


def _list_notified(incident_ids: Sequence[int]) -> tuple[NotifiedSubscription, ...]:
    rows = (
        Notice.objects.filter(
            incident_id__in=incident_ids,
            state__in=(NoticeState.WAITING, NoticeState.SENT),
            subscription__is_active=True,
        )
        .order_by("subscription__owner__username", "subscription_id")
        .values_list("subscription_id", "subscription__owner__username", "subscription__channel", "state")
    )
    waiting = {subscription_id for subscription_id, *_, state in rows if state == NoticeState.WAITING}
    found = {subscription_id: (owner, channel) for subscription_id, owner, channel, _ in rows}
    return tuple(
        NotifiedSubscription(subscription_id, owner, channel, subscription_id in waiting)
        for subscription_id, (owner, channel) in found.items()
    )
