"""Put changes that belong together into incidents: same scope, same direction of badness, same time.

Grouping reads what stands in the tables and not only what was just judged: whatever the order in which batches come,
the same changes make the same incidents. One at a time groups, or two judges would open two incidents for one event.

Which changes somebody expected.

The incidents that there are: which a change may join, and which it opens again.

Give what is believed an incident: the one that holds what began with it, one that begins anew, or a new one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import Max, Min
from django.utils import timezone

from benchapp.analysis.detection.baselines import DRIFT_METHOD
from benchapp.analysis.incidents.belief import ChangeClaim, filter_significant, find_belonging
from benchapp.analysis.incidents.grouping import IncidentSpan, cluster_moments, find_matching_incident
from benchapp.models import (
    Change,
    ChangeState,
    Incident,
    IncidentState,
    PlannedEvent,
    PlannedEventKind,
    Series,
    Verdict,
)
from benchapp.pipeline.incidents.candidates import Candidate, TestFamily, read_candidates, read_families
from benchapp.pipeline.incidents.events import Events, make_incident, reopen_incident
from benchapp.pipeline.incidents.merging import merge_wide
from benchapp.pipeline.incidents.refresh import refresh_incidents
from benchapp.pipeline.maintenance.planned_events import match_planned_events


@dataclass(frozen=True, slots=True)
class Expected:
    """The planned event that a change falls under."""

    planned_event_id: int
    reason: str


def find_expected(candidates: Sequence[Candidate]) -> dict[int, Expected]:
    """Return the planned event of each change that began within one, by the change's id."""
    if not candidates:
        return {}
    times = [candidate.at for candidate in candidates]
    held = PlannedEvent.objects.meeting(min(times), max(times)).filter(kind=PlannedEventKind.CHANGE)
    ids = {candidate.series_id for candidate in candidates}
    matched = match_planned_events(held, Series.objects.filter(pk__in=ids))
    found = {}
    for candidate in candidates:
        for planned_event in matched.get(candidate.series_id, ()):
            if planned_event.from_at <= candidate.at < planned_event.ends_at:
                found[candidate.change_id] = Expected(planned_event.pk, planned_event.reason)
                break
    return found


# Days after it was resolved in which the same counts as the same again.
_RELAPSE: Final = timedelta(days=14)
# Of the cells that moved now, those that the incident held: fewer are another event that touches it.
_RELAPSED_SHARE: Final = 0.5
_RELAPSING: Final = (Verdict.FIXED, Verdict.REAL, Verdict.ENVIRONMENT, Verdict.NOISE)


def read_spans(scope: str, *, is_regression: bool) -> list[IncidentSpan]:
    """Return the open incidents that hold live changes of a scope, with the time of these."""
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


def find_recurred(believed: Sequence[Candidate], *, now: datetime) -> Incident | None:
    """Return the incident, resolved within 14 days, whose cells moved the same way again; locked."""
    cells = {(candidate.series_id, candidate.metric) for candidate in believed}
    rows = (
        Change.objects.filter(
            series_id__in={series_id for series_id, _ in cells},
            is_regression=believed[0].is_regression,
            incident__state=IncidentState.RESOLVED,
            incident__verdict__in=_RELAPSING,
            incident__resolved_at__gte=now - _RELAPSE,
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
    if count < _RELAPSED_SHARE * len(cells):
        return None
    return Incident.objects.select_for_update().get(pk=incident_id)


# What began longer ago than this, by the clock of the series, when it was first found (an import, a new method) is
# kept as history: recorded, resolved, and told to nobody.
_HISTORY: Final = timedelta(days=30)


def find_known(together: Sequence[Candidate], spans: Sequence[IncidentSpan]) -> int | None:
    """Return the incident that holds what began with these; else the open one that is nearest, within reach."""
    homes = [candidate for candidate in together if candidate.incident_id is not None]
    if homes:
        return min(
            homes, key=lambda candidate: (candidate.is_resolved, candidate.incident_id or 0)
        ).incident_id
    span = find_matching_incident(spans, [candidate.moment for candidate in together])
    return span.key if span else None


def assign_to_incident(
    believed: Sequence[Candidate], known_id: int | None, expected: Expected | None, *, events: Events
) -> int:
    """Put changes that are believed into the incident that is known, or else one that is found; return its id."""
    incident_id = known_id
    if incident_id is None and expected is None:
        incident_id = _reopen(believed, events)
    if incident_id is None:
        incident_id = _open(believed, expected, events)
    Change.objects.filter(pk__in=[candidate.change_id for candidate in believed]).update(
        incident_id=incident_id
    )
    return incident_id


def _reopen(believed: Sequence[Candidate], events: Events) -> int | None:
    relapsed = find_recurred(believed, now=events.now)
    if relapsed is None:
        return None
    reopen_incident(relapsed, events, words="the same moved the same way again")
    return relapsed.pk


def _open(believed: Sequence[Candidate], expected: Expected | None, events: Events) -> int:
    is_history = all(candidate.newest_at - candidate.at > _HISTORY for candidate in believed)
    is_notified = not (expected or is_history or not believed[0].is_regression)
    words = ""
    if expected:
        words = f"expected: {expected.reason}"
    elif is_history:
        words = "found in history: it began more than 30 days before the newest run"
    is_over = bool(expected) or is_history
    incident = Incident(
        scope=believed[0].scope,
        is_regression=believed[0].is_regression,
        state=IncidentState.RESOLVED if is_over else IncidentState.NEW,
        verdict=Verdict.EXPECTED if expected else Verdict.NONE,
        resolved_at=events.now if is_over else None,
    )
    return make_incident(incident, believed, events=events, words=words, is_notified=is_notified)


_LOCK: Final = 0x67726F70  # pg_advisory lock: "grop"; also of triage


@dataclass(frozen=True, slots=True)
class Grouped:
    """Incidents that were touched, and their events that somebody may want to be told of."""

    incident_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()


def lock_incidents() -> None:
    """Wait until nobody else groups or triages; held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


@transaction.atomic
def group_changes(change_ids: Iterable[int]) -> Grouped:
    """Group what moved together with these changes, and bring their incidents up to date; safe to run again."""
    rows = Change.objects.filter(pk__in=list(change_ids))
    touched = list(rows.values_list("series__scope", "incident_id", "started_at"))
    if not touched:
        return Grouped()
    lock_incidents()
    events = Events(timezone.now())
    scopes = sorted({scope for scope, _, _ in touched})
    known = {incident_id for _, incident_id, _ in touched if incident_id is not None}
    candidates = read_candidates(scopes, around=min(started_at for _, _, started_at in touched))
    joined = _place_all(candidates, read_families(scopes), events)
    refresh_incidents(known | joined, events)
    wide = merge_wide(known | joined, events)
    refresh_incidents(wide, events)
    return Grouped(tuple(sorted(known | joined | wide)), events.list_to_notify())


def _place_all(candidates: Sequence[Candidate], families: dict[str, TestFamily], events: Events) -> set[int]:
    """Give each candidate that is believed an incident; return the incidents that got one."""
    if all(candidate.incident_id is not None for candidate in candidates):
        return set()
    expected = find_expected(candidates)
    apart: dict[tuple[str, bool, int], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        planned_event = expected.get(candidate.change_id)
        key = (
            candidate.scope,
            candidate.is_regression,
            planned_event.planned_event_id if planned_event else 0,
        )
        apart[key].append(candidate)
    touched = set()
    for (scope, _, _), members in sorted(apart.items()):
        if any(candidate.incident_id is None for candidate in members):
            planned_event = expected.get(members[0].change_id)
            touched |= _place_members(members, families[scope], planned_event, events=events)
    return touched


def _place_members(
    members: Sequence[Candidate], family: TestFamily, expected: Expected | None, *, events: Events
) -> set[int]:
    """Place what began together of one scope and direction; what was expected joins only what was expected."""
    by_key = {candidate.change_id: candidate for candidate in members}
    spans = [] if expected else read_spans(members[0].scope, is_regression=members[0].is_regression)
    touched = set()
    for cluster in cluster_moments(candidate.moment for candidate in members):
        together = [by_key[moment.key] for moment in cluster]
        known_id = find_known(together, spans)
        believed = _believe(together, family, is_known=known_id is not None)
        if believed:
            incident_id = assign_to_incident(believed, known_id, expected, events=events)
            spans.append(IncidentSpan(incident_id, cluster[0].at, cluster[-1].at))
            touched.add(incident_id)
    return touched


def _believe(together: Sequence[Candidate], family: TestFamily, *, is_known: bool) -> list[Candidate]:
    """Return those without incident that noise does not explain, or that belong to what is known."""
    claims = [
        ChangeClaim(candidate.change_id, candidate.series_id, candidate.chance, counts=candidate.may_open)
        for candidate in together
    ]
    if is_known:
        keys = find_belonging(claims, tests=family.tests)
    else:
        keys = filter_significant(claims, tests=family.tests, scopes=family.scopes)
    return [
        candidate
        for candidate in together
        if candidate.incident_id is None and candidate.may_join and candidate.change_id in keys
    ]
