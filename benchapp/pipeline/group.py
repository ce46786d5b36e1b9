"""Put changes that belong together into incidents: same scope, same direction of badness, same time.

Grouping reads what stands in the tables and not only what was just judged: whatever the order in which batches come,
the same changes make the same incidents. One at a time groups, or two judges would open two incidents for one event.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from benchapp.analysis.gate import Claim, believe, find_belonging
from benchapp.analysis.grouping import Span, cluster_moments
from benchapp.models import Change
from benchapp.pipeline.group_candidates import Candidate, Family, read_candidates, read_families
from benchapp.pipeline.group_expected import Expected, find_expected
from benchapp.pipeline.group_homes import read_spans
from benchapp.pipeline.group_placing import find_known, place
from benchapp.pipeline.group_wide import join_wide
from benchapp.pipeline.incident_events import Events
from benchapp.pipeline.incident_refresh import refresh_incidents

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
    wide = join_wide(known | joined, events)
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
        if any(candidate.incident_id is None for candidate in members):
            expectation = expected.get(members[0].change_id)
            touched |= _place_members(members, families[scope], expectation, events=events)
    return touched


def _place_members(
    members: Sequence[Candidate], family: Family, expected: Expected | None, *, events: Events
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
            incident_id = place(believed, known_id, expected, events=events)
            spans.append(Span(incident_id, cluster[0].at, cluster[-1].at))
            touched.add(incident_id)
    return touched


def _believe(together: Sequence[Candidate], family: Family, *, is_known: bool) -> list[Candidate]:
    """Return those without incident that noise does not explain, or that belong to what is known."""
    claims = [
        Claim(candidate.change_id, candidate.series_id, candidate.chance, counts=candidate.may_open)
        for candidate in together
    ]
    if is_known:
        keys = find_belonging(claims, tests=family.tests)
    else:
        keys = believe(claims, tests=family.tests, scopes=family.scopes)
    return [
        candidate
        for candidate in together
        if candidate.incident_id is None and candidate.may_join and candidate.change_id in keys
    ]
