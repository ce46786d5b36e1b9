"""What people know beforehand: a change to come, a maintenance; said, ended early, taken back, each with its undo."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.grammar import BadFilter, Filter, parse_filter
from benchapp.models import (
    Expectation,
    ExpectationAct,
    ExpectationEvent,
    ExpectationKind,
    Series,
    User,
)
from benchapp.models.filtering import match_series
from benchapp.models.host_filtering import leave_scopes_out, names_scope
from benchapp.pipeline.conflicts import retry_conflicts

log = structlog.get_logger(__name__)

REASON_MAXIMUM: Final = 500
# A host that is out for longer is retired, and a level that stays is accepted as the new baseline.
SPAN_MAXIMUM: Final = timedelta(days=366)
AHEAD_MAXIMUM: Final = timedelta(days=2 * 366)
# Each different filter costs the judge some time for each batch of series that it meets.
OPEN_MAXIMUM: Final = 500
_FIRST_AT: Final = datetime(1980, 1, 1, tzinfo=UTC)


class BadExpectation(Exception):
    """An expectation that cannot be kept; field names what is wrong, the message says why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class UnknownExpectation(Exception):
    """An expectation that there is not."""


class NotSchedulable(Exception):
    """What cannot be done with an expectation as it stands; the message says what can."""


@dataclass(frozen=True, slots=True)
class EventPlan:
    """What somebody expects, checked. filter: as it was written, "" for all; from_at inclusive, to_at exclusive."""

    kind: ExpectationKind
    filter: str
    from_at: datetime
    to_at: datetime
    reason: str


def read_plan(kind: str, filter: str, *, from_at: datetime, to_at: datetime, reason: str) -> EventPlan:
    """Return what somebody said, checked; the reason in one line. Raises BadExpectation."""
    if kind not in ExpectationKind.values:
        raise BadExpectation("kind", f"choose one of {', '.join(ExpectationKind.values)}")
    try:
        parse_filter(filter)
    except BadFilter as error:
        raise BadExpectation("filter", str(error)) from error
    if from_at < _FIRST_AT:
        raise BadExpectation("from_at", f"it begins in {from_at.year}: nothing is kept from before 1980")
    if from_at >= to_at:
        raise BadExpectation("to_at", "it ends before it begins, or at the same moment")
    if to_at - from_at > SPAN_MAXIMUM:
        raise BadExpectation("to_at", f"it lasts more than {SPAN_MAXIMUM.days} days")
    if to_at > timezone.now() + AHEAD_MAXIMUM:
        raise BadExpectation("to_at", "it ends more than two years ahead")
    words = " ".join(reason.replace("\x00", "\ufffd").split())
    if not words:
        raise BadExpectation("reason", "say why: whoever meets it later has nothing else to go by")
    if len(words) > REASON_MAXIMUM:
        raise BadExpectation("reason", f"at most {REASON_MAXIMUM} characters; it has {len(words)}")
    return EventPlan(ExpectationKind(kind), filter.strip(), from_at, to_at, words)


@retry_conflicts
def expect(
    kind: ExpectationKind,
    filter: str,
    *,
    from_at: datetime,
    to_at: datetime,
    reason: str,
    by: User | None,
    via: str = "",
) -> Expectation:
    """Keep an expectation for the series that the filter leaves now and later; "" is all.

    by: who answers for it; via: the program's token, for the trail. Series whose runs lie in a maintenance are judged
    anew. Raises BadExpectation.
    """
    plan = read_plan(kind, filter, from_at=from_at, to_at=to_at, reason=reason)
    with transaction.atomic():
        _refuse_more(plan.to_at)
        expectation = Expectation.objects.create(
            kind=plan.kind,
            filter=plan.filter,
            from_at=plan.from_at,
            to_at=plan.to_at,
            reason=plan.reason,
            created_by=by,
        )
        _note(expectation, ExpectationAct.SAID, by=by, via=via, at=expectation.created_at)
    return expectation


@retry_conflicts
def end_expectation(expectation_id: int, *, by: User | None, via: str = "") -> Expectation:
    """End what holds at this moment before its planned end, and return it; runs from now on count again.

    Raises UnknownExpectation, and NotPossible where it has not begun or is over.
    """
    with transaction.atomic():
        expectation, now = _lock(expectation_id), timezone.now()
        if expectation.taken_back_at is not None or expectation.over_at <= now:
            raise NotSchedulable("it is over already")
        if expectation.from_at >= now:
            raise NotSchedulable("it has not begun: take it back instead")
        _change(expectation, ended_at=now, ended_by=by)
        _note(expectation, ExpectationAct.ENDED, by=by, via=via, at=now)
    return expectation


@retry_conflicts
def resume_expectation(expectation_id: int, *, by: User | None, via: str = "") -> Expectation:
    """Undo an early end, and return it: it holds until its planned end. Raises UnknownExpectation, NotPossible."""
    with transaction.atomic():
        expectation = _lock(expectation_id)
        if expectation.taken_back_at is not None or expectation.ended_at is None:
            raise NotSchedulable("nobody ended it early")
        _change(expectation, ended_at=None, ended_by=None)
        _note(expectation, ExpectationAct.RESUMED, by=by, via=via, at=timezone.now())
    return expectation


@retry_conflicts
def take_back(expectation_id: int, *, by: User | None, via: str = "") -> Expectation:
    """Let an expectation hold for nothing, as if it had never been said, and return it; the same again changes nothing.

    Incidents that it resolved stay as they are. Raises UnknownExpectation.
    """
    with transaction.atomic():
        expectation, now = _lock(expectation_id), timezone.now()
        if expectation.taken_back_at is not None:
            return expectation
        _change(expectation, taken_back_at=now, taken_back_by=by)
        _note(expectation, ExpectationAct.TAKEN_BACK, by=by, via=via, at=now)
    return expectation


@retry_conflicts
def put_back(expectation_id: int, *, by: User | None, via: str = "") -> Expectation:
    """Let hold again what was taken back, and return it; the same again changes nothing.

    Raises UnknownExpectation, and BadExpectation where there are too many.
    """
    with transaction.atomic():
        expectation = _lock(expectation_id)
        if expectation.taken_back_at is None:
            return expectation
        _refuse_more(expectation.over_at)
        _change(expectation, taken_back_at=None, taken_back_by=None)
        _note(expectation, ExpectationAct.PUT_BACK, by=by, via=via, at=timezone.now())
    return expectation


def match_expectations(
    expectations: QuerySet[Expectation], series: QuerySet[Series]
) -> dict[int, list[Expectation]]:
    """Return the expectations that hold for each of these series, by its id.

    Hosts and pools are matched here, as most filters name nothing else: two queries, and one more for each different
    filter that says more (500 of 200 series took 3.4 s when each was asked for). A filter that today's grammar no
    longer reads holds for nothing, and the log says so.
    """
    by_filter: dict[str, list[Expectation]] = defaultdict(list)
    for expectation in expectations.order_by("id"):
        by_filter[expectation.filter].append(expectation)
    if not by_filter:
        return {}
    by_scope: dict[str, list[int]] = defaultdict(list)
    for series_id, scope in series.values_list("id", "scope"):
        by_scope[scope].append(series_id)
    matched: dict[int, list[Expectation]] = defaultdict(list)
    for text, held in by_filter.items():
        for series_id in _find_among(text, by_scope):
            matched[series_id].extend(held)
    return dict(matched)


def _find_among(text: str, by_scope: Mapping[str, Sequence[int]]) -> Iterable[int]:
    filter = _read_filter(text)
    if filter is None:
        return ()
    ids = [each for scope, ids in by_scope.items() if names_scope(filter, scope) for each in ids]
    rest = leave_scopes_out(filter)
    if not ids or not (rest.terms or rest.words):
        return ids
    return Series.objects.filter(match_series(rest), pk__in=ids).values_list("id", flat=True)


def _read_filter(text: str) -> Filter | None:
    try:
        return parse_filter(text)
    except BadFilter as error:
        log.warning("expectation.filter_unreadable", filter=text[:200], error=str(error)[:200])
        return None


def _refuse_more(to_at: datetime) -> None:
    now = timezone.now()
    if to_at <= now:
        return
    standing = Expectation.objects.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=now), taken_back_at__isnull=True, to_at__gt=now
    )
    if standing.count() >= OPEN_MAXIMUM:
        raise BadExpectation(
            "", f"{OPEN_MAXIMUM} hold or are to come, which is the most: end or take back some first"
        )


def _lock(expectation_id: int) -> Expectation:
    rows = Expectation.objects.select_for_update(no_key=True)
    expectation = rows.filter(pk=expectation_id).first()
    if expectation is None:
        raise UnknownExpectation(f"there is no expectation {expectation_id}")
    return expectation


def _change(expectation: Expectation, **values: Any) -> None:
    for name, value in values.items():
        setattr(expectation, name, value)
    expectation.save(update_fields=list(values))


def _note(expectation: Expectation, act: ExpectationAct, *, by: User | None, via: str, at: datetime) -> None:
    """Write the act into the trail, and have judged anew what it touches."""
    ExpectationEvent.objects.create(expectation=expectation, at=at, by=by, via=via, act=act)
    _mark_touched(expectation)
    log.info(
        "expectation.act",
        expectation=expectation.pk,
        act=act.value,
        kind=str(expectation.kind),
        by=by.username if by else "",
        via=via,
    )


def _mark_touched(expectation: Expectation) -> None:
    """Have judged anew what a maintenance takes runs from; rows are locked in the order of ids, as everywhere.

    By its planned end: what lies behind an early one comes back.
    """
    if expectation.kind != ExpectationKind.MAINTENANCE:
        return
    reached = Series.objects.filter(last_at__gte=expectation.from_at, first_at__lt=expectation.to_at)
    filter = _read_filter(expectation.filter)
    touched = list(reached.filter(match_series(filter)).values_list("pk", flat=True)) if filter else []
    list(Series.objects.select_for_update().filter(pk__in=touched).order_by("pk").values_list("pk"))
    Series.objects.filter(pk__in=touched).update(judging_is_due=True)
