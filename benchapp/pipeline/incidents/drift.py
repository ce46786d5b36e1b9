"""Group drifts into incidents: one per host or pool and direction, whatever their start."""

from collections import defaultdict
from collections.abc import Sequence

from benchapp.analysis.detection.baselines import DRIFT_METHOD
from benchapp.models import Change, ChangeState, Incident, IncidentState, Series, Severity, Verdict
from benchapp.pipeline.incidents.events import Events
from benchapp.pipeline.incidents.expected import ChangeStart, Expected, find_expected
from benchapp.pipeline.incidents.grouping import lock_incidents


def assign_drifts(changes: Sequence[Change], events: Events) -> None:
    """Assign new drifts to the open drift incident of their host or pool, or open one; one notice each."""
    if not changes:
        return
    lock_incidents()
    scopes = dict(
        Series.objects.filter(pk__in={change.series_id for change in changes}).values_list("pk", "scope")
    )
    expected = find_expected([_describe(change) for change in changes])
    groups: dict[tuple[str, bool, int], list[Change]] = defaultdict(list)
    for change in changes:
        planned_event = expected.get(change.pk)
        key = planned_event.planned_event_id if planned_event else 0
        groups[scopes[change.series_id], change.is_regression, key].append(change)
    for (scope, is_regression, _), members in sorted(groups.items()):
        planned_event = expected.get(members[0].pk)
        incident = None if planned_event else _find_open(scope, is_regression=is_regression)
        if incident is None:
            incident = _open(scope, members, planned_event, events=events)
        Change.objects.filter(pk__in=[change.pk for change in members]).update(incident=incident)


def _find_open(scope: str, *, is_regression: bool) -> Incident | None:
    """Return the oldest open incident of a scope with a drift."""
    rows = Change.objects.filter(
        method=DRIFT_METHOD,
        is_regression=is_regression,
        series__scope=scope,
        incident__merged_into=None,
        incident__state__in=(IncidentState.NEW, IncidentState.ACKNOWLEDGED),
    ).exclude(state=ChangeState.WITHDRAWN)
    row = rows.order_by("incident_id").select_related("incident").first()
    return row.incident if row else None


def _describe(change: Change) -> ChangeStart:
    return ChangeStart(
        change.pk, change.series_id, change.metric, is_regression=change.is_regression, at=change.started_at
    )


def _open(scope: str, members: Sequence[Change], expected: Expected | None, *, events: Events) -> Incident:
    is_regression = members[0].is_regression
    incident = Incident(
        scope=scope,
        is_regression=is_regression,
        state=IncidentState.RESOLVED if expected else IncidentState.NEW,
        verdict=Verdict.EXPECTED if expected else Verdict.NONE,
        resolved_at=events.now if expected else None,
        planned_event_id=expected.planned_event_id if expected else None,
        # Set by the refresh at the end of the batch.
        severity=Severity.LOW,
        started_at=min(change.started_at for change in members),
        relative=max((change.relative for change in members), key=abs),
        opened_at=events.now,
        updated_at=events.now,
    )
    incident.save()
    words = (
        f"drifted from the baseline; expected: {expected.reason}" if expected else "drifted from the baseline"
    )
    events.add(incident, "opened", words=words, is_notified=is_regression and expected is None)
    return incident
