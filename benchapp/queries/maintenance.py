"""Maintenance windows and expected changes: the list, and one with its trail."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Q, TextChoices

from benchapp.models import (
    Change,
    Expectation,
    ExpectationAct,
    ExpectationEvent,
    ExpectationKind,
    Incident,
)
from benchapp.queries.pagination import Cursor, Page, behind, cut_page, read_cursor

# Nobody ends and resumes one more often; what is older is left out.
TRAIL_MAXIMUM: Final = 200
_SCOPES_MAXIMUM: Final = 50


class ExpectationState(TextChoices):
    """Where an expectation is in its time."""

    RUNNING = "running", "active"
    COMING = "coming", "upcoming"
    PAST = "past", "past"
    TAKEN_BACK = "taken_back", "canceled"


# Running and to come: the parts that a person looks at, and may still change.
CURRENT: Final = (ExpectationState.RUNNING, ExpectationState.COMING)


@dataclass(frozen=True, slots=True)
class ExpectationRow:
    """One expectation at a moment. over_at: its end, planned or early; names are "" where nobody is known."""

    id: int
    kind: ExpectationKind
    filter: str
    from_at: datetime
    to_at: datetime
    over_at: datetime
    reason: str
    state: ExpectationState
    created_by_name: str
    created_at: datetime
    ended_at: datetime | None
    ended_by_name: str
    taken_back_at: datetime | None
    taken_back_by_name: str

    @property
    def is_maintenance(self) -> bool:
        """Say whether runs within it count in no level."""
        return self.kind == ExpectationKind.MAINTENANCE


@dataclass(frozen=True, slots=True)
class TrailRow:
    """One act. by_name: "" for a program that nobody made; via: its token, "" for a person."""

    at: datetime
    act: ExpectationAct
    by_name: str
    via: str

    @property
    def label(self) -> str:
        """Return the text of the action."""
        return str(self.act.label)


@dataclass(frozen=True, slots=True)
class ExpectationDetail:
    """One expectation, and all that was done with it, the oldest first."""

    row: ExpectationRow
    trail: tuple[TrailRow, ...]


def list_expectations(
    states: Sequence[ExpectationState],
    *,
    now: datetime,
    kind: ExpectationKind | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Page[ExpectationRow]:
    """Return those of any of these states, that begin last first, behind the cursor; one query. Raises BadCursor.

    No state is every state.
    """
    cursor = read_cursor(after)
    wanted = Q()
    for state in states:
        wanted |= _match_state(state, now)
    if kind is not None:
        wanted &= Q(kind=kind)
    rows = (
        Expectation.objects.filter(wanted, behind("from_at", cursor, is_descending=True))
        .select_related("created_by", "ended_by", "taken_back_by")
        .order_by("-from_at", "-id")[: limit + 1]
    )
    return cut_page(
        [_make_row(row, now) for row in rows], limit, cursor_of=lambda row: Cursor(row.from_at, row.id)
    )


def count_expectations(*, now: datetime, kind: ExpectationKind | None = None) -> dict[ExpectationState, int]:
    """Return how many there are of each state; one query."""
    found = Expectation.objects.filter(**({} if kind is None else {"kind": kind}))
    counts = found.aggregate(
        **{state.value: Count("pk", filter=_match_state(state, now)) for state in ExpectationState}
    )
    return {state: counts[state.value] for state in ExpectationState}


def read_expectation(expectation_id: int, *, now: datetime) -> ExpectationDetail | None:
    """Return one expectation, None where there is none; two queries."""
    people = ("created_by", "ended_by", "taken_back_by")
    found = Expectation.objects.filter(pk=expectation_id).select_related(*people).first()
    if found is None:
        return None
    events = ExpectationEvent.objects.filter(expectation=found).order_by("at", "id")
    trail = events.values_list("at", "act", "by__username", "via")[:TRAIL_MAXIMUM]
    return ExpectationDetail(
        row=_make_row(found, now),
        trail=tuple(TrailRow(at, ExpectationAct(act), name or "", via) for at, act, name, via in trail),
    )


def read_incident_reach(incident_id: int) -> tuple[datetime | None, list[str]]:
    """Return when an incident began, and the scopes of its changes, at most fifty; None and none where there is none.

    Two queries.
    """
    started_at = Incident.objects.filter(pk=incident_id).values_list("started_at", flat=True).first()
    changes = Change.objects.filter(incident_id=incident_id).order_by("series__scope")
    return started_at, list(changes.values_list("series__scope", flat=True).distinct()[:_SCOPES_MAXIMUM])


def _match_state(state: ExpectationState, now: datetime) -> Q:
    is_taken_back = Q(taken_back_at__isnull=False)
    is_over = Q(to_at__lte=now) | Q(ended_at__lte=now)
    if state == ExpectationState.TAKEN_BACK:
        return is_taken_back
    if state == ExpectationState.PAST:
        return ~is_taken_back & is_over
    begins = Q(from_at__gt=now) if state == ExpectationState.COMING else Q(from_at__lte=now)
    return Q(
        Q(ended_at__isnull=True) | Q(ended_at__gt=now), begins, taken_back_at__isnull=True, to_at__gt=now
    )


def _find_state(expectation: Expectation, now: datetime) -> ExpectationState:
    if expectation.taken_back_at is not None:
        return ExpectationState.TAKEN_BACK
    if expectation.over_at <= now:
        return ExpectationState.PAST
    return ExpectationState.COMING if expectation.from_at > now else ExpectationState.RUNNING


def _make_row(expectation: Expectation, now: datetime) -> ExpectationRow:
    return ExpectationRow(
        id=expectation.pk,
        kind=ExpectationKind(expectation.kind),
        filter=expectation.filter,
        from_at=expectation.from_at,
        to_at=expectation.to_at,
        over_at=expectation.over_at,
        reason=expectation.reason,
        state=_find_state(expectation, now),
        created_by_name=expectation.created_by.username if expectation.created_by else "",
        created_at=expectation.created_at,
        ended_at=expectation.ended_at,
        ended_by_name=expectation.ended_by.username if expectation.ended_by else "",
        taken_back_at=expectation.taken_back_at,
        taken_back_by_name=expectation.taken_back_by.username if expectation.taken_back_by else "",
    )
