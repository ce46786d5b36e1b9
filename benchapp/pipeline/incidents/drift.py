"""Group drifts into incidents: one per host or pool and direction, whatever their start."""

from collections import defaultdict
from collections.abc import Sequence

from benchapp.analysis.detection.baselines import DRIFT_METHOD
from benchapp.models import Change, ChangeState, Incident, IncidentState, Series, Severity
from benchapp.pipeline.incidents.events import Events
from benchapp.pipeline.incidents.grouping import lock_incidents


def assign_drifts(changes: Sequence[Change], events: Events) -> None:
    """Assign new drifts to the open drift incident of their host or pool, or open one; one notice each."""
    if not changes:
        return
    lock_incidents()
    scopes = dict(
        Series.objects.filter(pk__in={change.series_id for change in changes}).values_list("pk", "scope")
    )
    groups: dict[tuple[str, bool], list[Change]] = defaultdict(list)
    for change in changes:
        groups[scopes[change.series_id], change.is_regression].append(change)
    for (scope, is_regression), members in sorted(groups.items()):
        incident = _find_open(scope, is_regression=is_regression)
        if incident is None:
            incident = _open(scope, members, is_regression=is_regression, events=events)
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


def _open(scope: str, members: Sequence[Change], *, is_regression: bool, events: Events) -> Incident:
    incident = Incident(
        scope=scope,
        is_regression=is_regression,
        state=IncidentState.NEW,
        # Set by the refresh at the end of the batch.
        severity=Severity.LOW,
        started_at=min(change.started_at for change in members),
        relative=max((change.relative for change in members), key=abs),
        opened_at=events.now,
        updated_at=events.now,
    )
    incident.save()
    events.add(incident, "opened", words="drifted from the baseline", is_notified=is_regression)
    return incident
