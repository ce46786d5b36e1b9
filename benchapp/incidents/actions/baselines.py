"""Accept the new level of an incident as the baseline of its series, and what that would change."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

import structlog
from django.db import transaction
from django.utils import timezone
from msgspec import Meta

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.incidents.actions.triage import BadTriage, NotPossible, lock_incident, read_comment
from benchapp.incidents.write.incidents import describe_state, write_event
from benchapp.models import (
    Change,
    ChangeState,
    Channel,
    DetectionResult,
    Incident,
    IncidentEvent,
    IncidentState,
    Notice,
    NoticeState,
    Series,
    User,
    Verdict,
)

log = structlog.get_logger(__name__)


def preview_accept(*incident_ids: int, series_ids: Collection[int] | None = None) -> tuple[Change, ...]:
    """Return what `accept_level` of these incidents would accept: the newest change of each metric of each series.

    series_ids: None is all. Without suspected and withdrawn changes. One query.
    """
    changes = Change.objects.stated().filter(
        incident_id__in=incident_ids, state__in=(ChangeState.PROVISIONAL, ChangeState.CONFIRMED)
    )
    if series_ids is not None:
        changes = changes.filter(series_id__in=series_ids)
    newest = {(change.series_id, change.metric): change for change in changes.order_by("started_at", "id")}
    return tuple(newest[key] for key in sorted(newest))


@transaction.atomic
def accept_level(
    incident_id: int, *, by: User | None, comment: str = "", series_ids: Collection[int] | None = None
) -> IncidentEvent:
    """Accept the new level from the first run of each change on, and resolve the incident as expected.

    Earlier runs are no longer compared; undo restores them. Raises UnknownIncident, NotPossible; BadTriage if there
    is no level to accept.
    """
    reason = read_comment(comment, is_required=False)
    accepted = preview_accept(incident_id, series_ids=series_ids)
    # Series before incidents, in the lock order of detection, to avoid deadlocks.
    series = {level.series_id for level in accepted}
    lock_rows(series)
    incident = lock_incident(incident_id)
    check_acceptable(incident, accepted)
    before = {**describe_state(incident), "baselines": [_set_baseline(level) for level in accepted]}
    Series.objects.filter(pk__in=series).update(judging_is_due=True)
    now = timezone.now()
    incident.state, incident.verdict = IncidentState.RESOLVED, Verdict.EXPECTED
    incident.resolved_at = incident.updated_at = now
    incident.save(update_fields=["state", "verdict", "resolved_at", "updated_at"])
    count = f"{len(accepted)} level{'s' if len(accepted) > 1 else ''} of {len(series)} series"
    text = f"{count}: {reason}" if reason else count
    log.info("incident.accepted", incident=incident_id, levels=len(accepted), by=by.username if by else "")
    return write_event(incident, "accepted", by=by, text=text, before=before, now=now)


def check_acceptable(incident: Incident, accepted: Collection[Change]) -> None:
    """Raise BadTriage if there is no level to accept, NotPossible if the incident is resolved."""
    if not accepted:
        raise BadTriage("no new level to accept: all changes are suspected or withdrawn")
    if incident.state == IncidentState.RESOLVED:
        raise NotPossible("it is resolved already: reopen it first")


def lock_rows(series_ids: Collection[int]) -> None:
    """Lock these series in the order of ids."""
    if series_ids:
        list(Series.objects.select_for_update().filter(pk__in=series_ids).order_by("pk").values_list("pk"))


def restore_baselines(baselines: Collection[tuple[int, str, str | None]]) -> None:
    """Restore baselines, (series, metric, start or None), and mark the series for detection."""
    for series_id, metric, moment in baselines:
        DetectionResult.objects.filter(series_id=series_id, metric=metric).update(
            baseline_from_at=datetime.fromisoformat(moment) if moment else None
        )
    if baselines:
        touched = {series_id for series_id, _, _ in baselines}
        Series.objects.filter(pk__in=touched).update(judging_is_due=True)


def _set_baseline(level: Change) -> tuple[int, str, str | None]:
    """Set the baseline, and return the earlier one."""
    result = DetectionResult.objects.filter(series_id=level.series_id, metric=level.metric).first()
    earlier = result.baseline_from_at if result else None
    DetectionResult.objects.filter(series_id=level.series_id, metric=level.metric).update(
        baseline_from_at=level.level_from_at
    )
    return level.series_id, level.metric, earlier.isoformat() if earlier else None


OverlapKind = Literal["earlier", "later", "drift"]
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)


@dataclass(frozen=True, slots=True)
class OverlappingIncident:
    """An open incident that is not accepted, with changes of the accepted metrics and series, which are counted."""

    id: int
    title: str
    earlier: Annotated[
        int, Meta(description="changes from before the baseline: not evaluated any more, it stays open")
    ]
    later: Annotated[int, Meta(description="later changes: evaluated again, against the baseline")]
    drifts: Annotated[int, Meta(description="drifts from the earlier baseline: withdrawn")]


@dataclass(frozen=True, slots=True)
class NotifiedSubscription:
    """An active subscription with a notice of an accepted incident. is_waiting: the notice is still to be sent."""

    id: int
    owner: str
    channel: Channel
    is_waiting: Annotated[bool, Meta(description="its notice is not sent yet, and still will be")]


@dataclass(frozen=True, slots=True)
class AcceptImpact:
    """What `accept_level` changes. incidents: newest first; subscriptions: by owner; they get no further notice."""

    levels: tuple[Change, ...]
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
    incident_ids: Sequence[int], levels: Sequence[Change]
) -> tuple[OverlappingIncident, ...]:
    starts = {(level.series_id, level.metric): level.level_from_at for level in levels}
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
        NotifiedSubscription(subscription_id, owner, Channel(channel), subscription_id in waiting)
        for subscription_id, (owner, channel) in found.items()
    )
