"""Group drifts into incidents: one per host or pool and direction, whatever their start."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from benchapp.analysis.detection.baselines import DRIFT_METHOD
from benchapp.analysis.incidents.significance import ScopeTests, are_significant_drifts
from benchapp.models import Change, ChangeState, Incident, IncidentState, Series, Severity, Verdict
from benchapp.pipeline.incidents.candidates import read_families
from benchapp.pipeline.incidents.events import Events
from benchapp.pipeline.incidents.expected import ChangeStart, Expected, find_expected

# Maximum length of the slope of a step in noise, as medians of 20 runs show it, and its distance from the step.
_STEP_RUNS: Final = 30
_STEP_MARGIN_RUNS: Final = 10


def assign_drifts(series_ids: Collection[int], events: Events) -> set[int]:
    """Assign drifts of these series to the open drift incident of their host or pool, or open one; one notice each.

    A new incident needs two series that drift, or one whose 99 % interval exceeds the threshold, and more or clearer
    ones than noise causes in a fleet of this size. Others wait, and so do short slopes where other series of the scope
    have a change of level in an incident. Call it under `lock_incidents`, and refresh the returned incidents.
    """
    waiting = Change.objects.filter(method=DRIFT_METHOD, incident=None).exclude(state=ChangeState.WITHDRAWN)
    touched = set(waiting.filter(series_id__in=series_ids).values_list("series__scope", flat=True))
    changes = list(waiting.filter(series__scope__in=touched).order_by("id")) if touched else []
    changes = [change for change in changes if not change.evidence.get("is_back")]
    if not changes:
        return set()
    scopes = dict(
        Series.objects.filter(pk__in={change.series_id for change in changes}).values_list("pk", "scope")
    )
    expected = find_expected([_describe(change) for change in changes])
    groups: dict[tuple[str, bool, int], list[Change]] = defaultdict(list)
    for change in changes:
        planned_event = expected.get(change.pk)
        key = planned_event.planned_event_id if planned_event else 0
        groups[scopes[change.series_id], change.is_regression, key].append(change)
    families = read_families(list(touched))
    assigned: set[int] = set()
    for (scope, is_regression, _), found in sorted(groups.items()):
        starts = _read_starts(scope, is_regression=is_regression)
        members = [change for change in found if not _is_known_step(change, starts)]
        if not members:
            continue
        planned_event = expected.get(members[0].pk)
        incident = None if planned_event else _find_open(scope, is_regression=is_regression)
        if incident is None and not _is_significant(members, families[scope]):
            continue
        if incident is None:
            incident = _open(scope, members, planned_event, events=events)
        Change.objects.filter(pk__in=[change.pk for change in members]).update(incident=incident)
        assigned.add(incident.pk)
    return assigned


def _read_starts(scope: str, *, is_regression: bool) -> set[datetime]:
    """Return when the changes of level in incidents of a scope and direction began."""
    rows = Change.objects.filter(series__scope=scope, is_regression=is_regression).exclude(incident=None)
    live = rows.exclude(method=DRIFT_METHOD).exclude(state=ChangeState.WITHDRAWN)
    return set(live.values_list("started_at", flat=True))


def _is_known_step(change: Change, starts: Collection[datetime]) -> bool:
    """Return whether a drift is a step that other series of the scope show clearly, and that has an incident."""
    interval = timedelta(seconds=change.evidence["interval_s"])
    first, last = (datetime.fromisoformat(change.evidence[f"slope_{end}"]) for end in ("from", "to"))
    margin = _STEP_MARGIN_RUNS * interval
    is_short = last - first <= _STEP_RUNS * interval
    return is_short and any(first - margin <= start <= last + margin for start in starts)


def _is_significant(members: Sequence[Change], family: ScopeTests) -> bool:
    scores: dict[int, float] = {}
    for change in members:
        # Drifts that were found before scores were stored have only the two intervals.
        known = change.evidence.get("score", 2.6 if change.evidence.get("is_clear") else 2.0)
        scores[change.series_id] = max(known, scores.get(change.series_id, 0.0))
    is_clear = any(change.evidence.get("is_clear") for change in members)
    return (is_clear or len(scores) > 1) and are_significant_drifts(scores.values(), family)


def _find_open(scope: str, *, is_regression: bool) -> Incident | None:
    """Return the oldest open incident of a scope with a drift.

    Not one of several scopes: only what has its common factor is merged into it (pipeline/incidents/merging.py).
    """
    rows = Change.objects.filter(
        method=DRIFT_METHOD,
        is_regression=is_regression,
        series__scope=scope,
        incident__merged_into=None,
        incident__state__in=(IncidentState.NEW, IncidentState.ACKNOWLEDGED),
    ).exclude(state=ChangeState.WITHDRAWN)
    rows = rows.exclude(incident__scope="")
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
        relative=members[0].relative,
        opened_at=events.now,
        updated_at=events.now,
    )
    incident.save()
    text = f"gradual change; expected: {expected.reason}" if expected else "gradual change"
    events.add(incident, "opened", text=text, is_notified=is_regression and expected is None)
    return incident
