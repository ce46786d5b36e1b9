"""Give what is believed an incident: the one that holds what began with it, one that begins anew, or a new one."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from benchapp.analysis.grouping import Span, find_home
from benchapp.models import Change, Incident, IncidentState, Verdict
from benchapp.pipeline.group_candidates import Candidate
from benchapp.pipeline.group_expected import Expected
from benchapp.pipeline.group_homes import find_relapsed
from benchapp.pipeline.incident_events import Events, make_incident, reopen_incident

# What began longer ago than this, by the clock of the series, when it was first found (an import, a new method) is
# kept as history: recorded, resolved, and told to nobody.
_HISTORY: Final = timedelta(days=30)


def find_known(together: Sequence[Candidate], spans: Sequence[Span]) -> int | None:
    """Return the incident that holds what began with these; else the open one that is nearest, within reach."""
    homes = [candidate for candidate in together if candidate.incident_id is not None]
    if homes:
        return min(
            homes, key=lambda candidate: (candidate.is_resolved, candidate.incident_id or 0)
        ).incident_id
    span = find_home(spans, [candidate.moment for candidate in together])
    return span.key if span else None


def place(
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
    relapsed = find_relapsed(believed, now=events.now)
    if relapsed is None:
        return None
    reopen_incident(relapsed, events, words="the same moved the same way again")
    return relapsed.pk


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
