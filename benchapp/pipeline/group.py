"""Put changes that belong together into incidents: same scope, same direction of badness, same time.

Grouping reads what stands in the tables and not only what was just judged: whatever the order in which batches come,
the same changes make the same incidents. One at a time groups, or two judges would open two incidents for one event.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from benchapp.analysis.grouping import Moment, cluster_moments, find_home, find_threshold
from benchapp.models import Change, Incident, IncidentState, Verdict
from benchapp.pipeline.group_candidates import Candidate, Family, read_candidates, read_families
from benchapp.pipeline.group_expected import Expected, find_expected
from benchapp.pipeline.group_homes import find_relapsed, read_spans
from benchapp.pipeline.group_wide import join_wide
from benchapp.pipeline.incident_events import Events, make_incident, reopen_incident
from benchapp.pipeline.incident_refresh import refresh_incidents

_LOCK: Final = 0x67726F70  # pg_advisory lock: "grop"; also of triage
# Chance of any false incident in one sweep over the whole fleet, by the detector's own chances, which hold about what
# they say (measured on heavy-tailed, correlated noise): with four sweeps a day one in 25 days.
FALSE_CHANCE: Final = 0.01
# What was found still there five runs later is believed at so many times the chance: of what noise made a third
# lasts so long (measured), so that this makes about as many false incidents again.
_CONFIRMED_BONUS: Final = 5.0
# What began longer ago than this, by the clock of the series, when it was first found (an import, a new method) is
# kept as history: recorded, resolved, and told to nobody.
_HISTORY: Final = timedelta(days=30)


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
    wide = join_wide(joined, events)
    refresh_incidents(wide, events)
    return Grouped(tuple(sorted(known | joined | wide)), events.list_told())


def _place_all(candidates: Sequence[Candidate], families: dict[str, Family], events: Events) -> set[int]:
    """Give each candidate that is believed an incident; return the incidents that got one."""
    if all(candidate.incident_id is not None for candidate in candidates):
        return set()
    expected = find_expected(candidates)
    apart: dict[tuple[str, bool, int], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        expectation = expected.get(candidate.change_id)
        key = (candidate.scope, candidate.is_regression, expectation.expectation_id if expectation else 0)
        apart[key].append(candidate)
    touched = set()
    for (scope, _, _), members in sorted(apart.items()):
        by_key = {candidate.change_id: candidate for candidate in members}
        for cluster in cluster_moments(candidate.moment for candidate in members):
            together = [by_key[moment.key] for moment in cluster]
            believed = _believe(together, families[scope])
            if believed:
                touched.add(_place(believed, together, expected.get(believed[0].change_id), events=events))
    return touched


def _believe(together: Sequence[Candidate], family: Family) -> list[Candidate]:
    """Return those without incident that noise does not explain, among all that was judged in their scope."""
    chances = [candidate.chance for candidate in together]
    level = FALSE_CHANCE / family.scopes
    fresh = find_threshold(chances, family=family.tests, level=level)
    confirmed = find_threshold(chances, family=family.tests, level=_CONFIRMED_BONUS * level)
    return [
        candidate
        for candidate in together
        if candidate.incident_id is None
        and candidate.may_open
        and candidate.chance <= (confirmed if candidate.is_confirmed else fresh)
    ]


def _place(
    believed: Sequence[Candidate],
    together: Sequence[Candidate],
    expected: Expected | None,
    *,
    events: Events,
) -> int:
    incident_id = _find_incident(believed, together, events=None if expected else events)
    if incident_id is None:
        incident_id = _open(believed, expected, events)
    Change.objects.filter(pk__in=[candidate.change_id for candidate in believed]).update(
        incident_id=incident_id
    )
    return incident_id


def _find_incident(
    believed: Sequence[Candidate], together: Sequence[Candidate], *, events: Events | None
) -> int | None:
    """Return the incident that holds what began with them; else one that is over and begins anew, which reopens.

    events: None for what was expected, which neither joins what was not nor opens it again.
    """
    homes = [candidate for candidate in together if candidate.incident_id is not None]
    if homes:
        return min(
            homes, key=lambda candidate: (candidate.is_resolved, candidate.incident_id or 0)
        ).incident_id
    if events is None:
        return None
    moments: list[Moment] = [candidate.moment for candidate in believed]
    span = find_home(read_spans(believed[0].scope, is_regression=believed[0].is_regression), moments)
    if span is not None:
        return span.key
    relapsed = find_relapsed(believed, now=events.now)
    if relapsed is not None:
        reopen_incident(relapsed, events, words="the same moved the same way again")
        return relapsed.pk
    return None


def _open(believed: Sequence[Candidate], expected: Expected | None, events: Events) -> int:
    is_history = all(candidate.newest_at - candidate.at > _HISTORY for candidate in believed)
    is_told = not (expected or is_history or not believed[0].is_regression)
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
    return make_incident(incident, believed, events=events, words=words, is_told=is_told)
