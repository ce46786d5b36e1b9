"""Accept the new level of an incident as the baseline of its series."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import transaction
from django.utils import timezone

from benchapp.incidents.actions.triage import BadTriage, NotPossible, lock_incident, read_comment
from benchapp.incidents.write.events import describe_state, write_event
from benchapp.models import (
    Change,
    ChangeState,
    DetectionResult,
    Incident,
    IncidentEvent,
    IncidentState,
    Series,
    User,
    Verdict,
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AcceptedLevel:
    """A possible baseline of one metric of one series, in the metric's base unit; from_at: its first run.

    before, level, relative, is_regression: of the stored change; relative is level / before − 1.
    """

    series_id: int
    metric: str
    from_at: datetime
    before: float
    level: float
    relative: float
    is_regression: bool


def preview_accept(
    *incident_ids: int, series_ids: Collection[int] | None = None
) -> tuple[AcceptedLevel, ...]:
    """Return what `accept_level` of these incidents would accept: the newest change of each metric of each series.

    series_ids: None is all. Without suspected and withdrawn changes. One query.
    """
    changes = Change.objects.stated().filter(
        incident_id__in=incident_ids, state__in=(ChangeState.PROVISIONAL, ChangeState.CONFIRMED)
    )
    if series_ids is not None:
        changes = changes.filter(series_id__in=series_ids)
    newest = {(change.series_id, change.metric): change for change in changes.order_by("started_at", "id")}
    return tuple(
        AcceptedLevel(
            series_id,
            metric,
            change.level_from_at,
            change.before_median,
            change.after_median,
            change.relative,
            change.is_regression,
        )
        for (series_id, metric), change in sorted(newest.items())
    )


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


def check_acceptable(incident: Incident, accepted: Collection[AcceptedLevel]) -> None:
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


def _set_baseline(level: AcceptedLevel) -> tuple[int, str, str | None]:
    """Set the baseline, and return the earlier one."""
    result = DetectionResult.objects.filter(series_id=level.series_id, metric=level.metric).first()
    earlier = result.baseline_from_at if result else None
    DetectionResult.objects.filter(series_id=level.series_id, metric=level.metric).update(
        baseline_from_at=level.from_at
    )
    return level.series_id, level.metric, earlier.isoformat() if earlier else None
