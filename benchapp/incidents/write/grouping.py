"""Group changes into incidents: same scope, same direction, same time.

Grouping reads the stored changes, not only those of the batch, so that the order of batches does not matter. Only one
process groups at a time; two would open two incidents for one event. A significant change joins the incident with
simultaneous changes, reopens a recently resolved one with the same series, or opens a new one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Max, Min, Q
from django.utils import timezone

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD
from benchapp.detection.rules.significance import (
    ScopeTests,
    filter_significant,
    find_belonging,
)
from benchapp.framework.write.conflicts import lock_incidents
from benchapp.incidents.rules.grouping import IncidentSpan, cluster_moments, find_matching_incident
from benchapp.incidents.write.candidates import (
    Candidate,
    read_candidates,
    read_families,
    read_pooled_candidates,
)
from benchapp.incidents.write.drift import absorb_steps, assign_drifts
from benchapp.incidents.write.events import Events, make_incident, reopen_incident
from benchapp.incidents.write.expected import ChangeStart, Expected, find_expected
from benchapp.incidents.write.merging import merge_wide
from benchapp.incidents.write.recovery import (
    COVERED_SHARE,
    are_bad,
    count_bad_runs,
    has_regressed_again,
    has_unresolved_incidents,
    update_recoveries,
)
from benchapp.incidents.write.refresh import refresh_incidents
from benchapp.models import Change, ChangeState, Incident, IncidentEvent, IncidentState, Verdict

# Time after the resolution in which the same series reopen the incident.
_RECURRENCE: Final = timedelta(days=14)
# Share of the changed metrics that were in the incident; less indicates another event.
_RECURRED_SHARE: Final = 0.5
_RECURRING: Final = (Verdict.FIXED, Verdict.REAL, Verdict.ENVIRONMENT, Verdict.NOISE)


def read_spans(scope: str, *, is_regression: bool) -> list[IncidentSpan]:
    """Return the open incidents with live changes of a scope, with their time spans."""
    rows = (
        Change.objects.filter(series__scope=scope, is_regression=is_regression, incident__merged_into=None)
        .exclude(state=ChangeState.WITHDRAWN)
        .exclude(method=DRIFT_METHOD)
        .exclude(incident=None)
        .exclude(incident__state=IncidentState.RESOLVED)
        .values("incident_id")
        .annotate(first=Min("started_at"), last=Max("started_at"))
        .values_list("incident_id", "first", "last")
    )
    return [IncidentSpan(*row) for row in rows]


def find_recurred(significant: Sequence[Candidate], *, now: datetime) -> Incident | None:
    """Return the incident of which most series changed again in the same direction; locked.

    It was resolved within 14 days, or is open and has recovered, or was reopened since the changes began.
    """
    resolved = Q(
        incident__state=IncidentState.RESOLVED,
        incident__verdict__in=_RECURRING,
        incident__resolved_at__gte=now - _RECURRENCE,
    )
    since = min(candidate.at for candidate in significant)
    reopened = IncidentEvent.objects.filter(kind="reopened", undone_at=None, at__gte=since)
    recovered = ~Q(incident__state=IncidentState.RESOLVED) & (
        Q(incident__recovered_at__isnull=False) | Q(incident__in=reopened.values("incident"))
    )
    cells = {(candidate.series_id, candidate.metric) for candidate in significant}
    rows = (
        Change.objects.filter(
            resolved | recovered,
            series_id__in={series_id for series_id, _ in cells},
            is_regression=significant[0].is_regression,
            incident__merged_into=None,
        )
        .exclude(method=DRIFT_METHOD)
        .values_list("incident_id", "series_id", "metric")
        .distinct()
    )
    counts = Counter(incident_id for incident_id, *cell in rows if tuple(cell) in cells)
    if not counts:
        return None
    incident_id, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    if count < _RECURRED_SHARE * len(cells):
        return None
    incident = Incident.objects.select_for_update().get(pk=incident_id)
    affected = set(Change.objects.filter(incident=incident).values_list("series_id", flat=True))
    if len(affected & {series_id for series_id, _ in cells}) >= COVERED_SHARE * len(affected):
        return incident
    # Also where the changes of the others are not found yet.
    return incident if incident.recovered_at is not None and has_regressed_again(incident) else None


# Changes that began longer before the newest run of their series (an import, a new method) are history: recorded as
# resolved, without notices.
_HISTORY: Final = timedelta(days=30)


def find_open_incident(together: Sequence[Candidate], spans: Sequence[IncidentSpan]) -> int | None:
    """Return the incident with simultaneous changes, or the nearest open one within reach."""
    assigned = [candidate for candidate in together if candidate.incident_id is not None]
    if assigned:
        return min(
            assigned, key=lambda candidate: (candidate.is_resolved, candidate.incident_id or 0)
        ).incident_id
    span = find_matching_incident(spans, [candidate.moment for candidate in together])
    return span.key if span else None


def assign_to_incident(
    significant: Sequence[Candidate], known_id: int | None, expected: Expected | None, *, events: Events
) -> int | None:
    """Assign significant changes to the known incident, a reopened one, or a new one; return its id.

    None: they wait until they last long enough to reopen an incident.
    """
    incident_id = known_id
    if incident_id is None and expected is None and (recurred := find_recurred(significant, now=events.now)):
        if not _reopen(recurred, significant, events):
            return None
        incident_id = recurred.pk
    if incident_id is None:
        incident_id = _open(significant, expected, events)
    Change.objects.filter(pk__in=[candidate.change_id for candidate in significant]).update(
        incident_id=incident_id
    )
    return incident_id


def _reopen(recurred: Incident, significant: Sequence[Candidate], events: Events) -> bool:
    """Reopen an incident unless it is open, if these changes last long enough; return whether it is open."""
    is_over = recurred.state == IncidentState.RESOLVED or recurred.recovered_at is not None
    if not is_over:
        return True
    change_ids = [candidate.change_id for candidate in significant]
    if not are_bad(change_ids, runs=count_bad_runs(recurred)):
        return False
    reopen_incident(recurred, events, text="the same series changed again")
    return True


def _open(significant: Sequence[Candidate], expected: Expected | None, events: Events) -> int:
    is_history = all(candidate.newest_at - candidate.at > _HISTORY for candidate in significant)
    is_notified = not (expected or is_history or not significant[0].is_regression)
    text = ""
    if expected:
        text = f"expected: {expected.reason}"
    elif is_history:
        text = "found in history: began more than 30 days before the newest run"
    is_over = bool(expected) or is_history
    incident = Incident(
        scope=significant[0].scope,
        is_regression=significant[0].is_regression,
        state=IncidentState.RESOLVED if is_over else IncidentState.NEW,
        verdict=Verdict.EXPECTED if expected else Verdict.NONE,
        resolved_at=events.now if is_over else None,
        planned_event_id=expected.planned_event_id if expected else None,
    )
    return make_incident(incident, significant, events=events, text=text, is_notified=is_notified)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Updated incidents, and the events to notify about."""

    incident_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()


@transaction.atomic
def group_changes(change_ids: Iterable[int], series_ids: Collection[int]) -> Grouped:
    """Group changes with the simultaneous ones of their scopes, and update their incidents; safe to run again.

    series_ids: the evaluated series. Open incidents with changes in them may have recovered, also without written ones,
    and those of written changes: a pooled one is evaluated with the last series of a sweep.
    """
    rows = Change.objects.filter(pk__in=list(change_ids))
    touched = list(rows.values_list("series__scope", "incident_id", "started_at", "method", "series_id"))
    if not touched and not has_unresolved_incidents(series_ids):
        return Grouped()
    lock_incidents()
    events = Events(timezone.now())
    if not touched:
        return Grouped(tuple(sorted(update_recoveries(series_ids, events))), events.list_to_notify())
    scopes = sorted({scope for scope, *_ in touched})
    known = {incident_id for _, incident_id, *_ in touched if incident_id is not None}
    around = min(started_at for _, _, started_at, *_ in touched)
    candidates = read_candidates(scopes, around=around)
    joined = _assign_all(candidates, read_families(scopes), events)
    # After the changes of single series: a pooled change joins their incident.
    if any(method == POOLED_METHOD for *_, method, _ in touched):
        joined |= _assign_pooled(read_pooled_candidates(scopes, around=around), events)
    # After the changes of level, which explain some drifts.
    joined |= assign_drifts(series_ids, events)
    recovered = update_recoveries({*series_ids, *(series_id for *_, series_id in touched)}, events)
    refresh_incidents(known | joined, events)
    # Steps of several hosts at once are no part of the drift of one of them, which is merged with the steps on its way
    # before it is merged with other drifts.
    wide = merge_wide(known | joined, events, is_drift=False)
    drifting = absorb_steps(scopes, events)
    wide |= merge_wide(known | joined | drifting, events, is_drift=True)
    refresh_incidents(wide | drifting, events)
    return Grouped(tuple(sorted(known | joined | recovered | drifting | wide)), events.list_to_notify())


def _assign_all(candidates: Sequence[Candidate], families: dict[str, ScopeTests], events: Events) -> set[int]:
    """Assign each significant candidate to an incident; return the updated incidents."""
    if all(candidate.incident_id is not None for candidate in candidates):
        return set()
    touched = set()
    for members, planned_event in _divide(candidates):
        if any(candidate.incident_id is None for candidate in members):
            touched |= _assign_members(members, families[members[0].scope], planned_event, events=events)
    return touched


def _assign_pooled(candidates: Sequence[Candidate], events: Events) -> set[int]:
    """Assign pooled changes, which are significant, to the incident of the same event, or open one."""
    touched = set()
    for members, expected in _divide(candidates):
        by_key = {candidate.change_id: candidate for candidate in members}
        spans = [] if expected else read_spans(members[0].scope, is_regression=members[0].is_regression)
        for cluster in cluster_moments(candidate.moment for candidate in members):
            together = [by_key[moment.key] for moment in cluster]
            waiting = [candidate for candidate in together if candidate.incident_id is None]
            if waiting:
                known_id = find_open_incident(together, spans)
                incident_id = assign_to_incident(waiting, known_id, expected, events=events)
                if incident_id is not None:
                    touched.add(incident_id)
    return touched


def _divide(candidates: Sequence[Candidate]) -> Iterator[tuple[list[Candidate], Expected | None]]:
    """Yield the changes of each scope and direction, expected ones separately, with their planned event."""
    if not candidates:
        return
    expected = find_expected([_describe(candidate) for candidate in candidates])
    groups: dict[tuple[str, bool, int], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        planned_event = expected.get(candidate.change_id)
        key = (
            candidate.scope,
            candidate.is_regression,
            planned_event.planned_event_id if planned_event else 0,
        )
        groups[key].append(candidate)
    for _, members in sorted(groups.items()):
        yield members, expected.get(members[0].change_id)


def _describe(candidate: Candidate) -> ChangeStart:
    return ChangeStart(
        candidate.change_id,
        candidate.series_id,
        candidate.metric,
        is_regression=candidate.is_regression,
        at=candidate.at,
    )


def _assign_members(
    members: Sequence[Candidate], family: ScopeTests, expected: Expected | None, *, events: Events
) -> set[int]:
    """Assign simultaneous changes of one scope and direction; expected changes join expected ones only."""
    by_key = {candidate.change_id: candidate for candidate in members}
    spans = [] if expected else read_spans(members[0].scope, is_regression=members[0].is_regression)
    touched = set()
    for cluster in cluster_moments(candidate.moment for candidate in members):
        together = [by_key[moment.key] for moment in cluster]
        known_id = find_open_incident(together, spans)
        significant = _filter_significant(together, family, is_known=known_id is not None)
        if significant:
            incident_id = assign_to_incident(significant, known_id, expected, events=events)
            if incident_id is not None:
                spans.append(IncidentSpan(incident_id, cluster[0].at, cluster[-1].at))
                touched.add(incident_id)
    return touched


def _filter_significant(
    together: Sequence[Candidate], family: ScopeTests, *, is_known: bool
) -> list[Candidate]:
    """Return the significant changes without incident, or those that belong to a known incident."""
    claims = [candidate.claim for candidate in together]
    if is_known:
        keys = find_belonging(claims, family)
    else:
        keys = filter_significant(claims, family)
    return [
        candidate
        for candidate in together
        if candidate.incident_id is None and candidate.may_join and candidate.change_id in keys
    ]
