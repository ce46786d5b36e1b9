"""What people know beforehand: a change to come, a maintenance; said, taken back, and matched to series."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.grammar import BadFilter, parse_filter
from benchapp.models import Expectation, ExpectationKind, Series, User
from benchapp.models.filtering import match_series

log = structlog.get_logger(__name__)

REASON_MAXIMUM: Final = 500


class BadExpectation(Exception):
    """An expectation that cannot be kept; the message says what is wrong."""


class UnknownExpectation(Exception):
    """An expectation that there is not, or that was taken back before."""


def expect(
    kind: ExpectationKind,
    filter: str,
    *,
    from_at: datetime,
    to_at: datetime,
    reason: str,
    by: User | None,
) -> Expectation:
    """Keep an expectation for the series that the filter leaves now and later; "" is all.

    Series whose runs lie in a maintenance are judged anew. Raises BadExpectation.
    """
    words = " ".join(reason.replace("\x00", "\ufffd").split())
    if not words or len(words) > REASON_MAXIMUM:
        raise BadExpectation(f"say why, in at most {REASON_MAXIMUM} characters")
    if from_at >= to_at:
        raise BadExpectation(f"it ends at {to_at}, before it begins at {from_at}")
    try:
        parse_filter(filter)
    except BadFilter as error:
        raise BadExpectation(str(error)) from error
    with transaction.atomic():
        expectation = Expectation.objects.create(
            kind=kind, filter=filter, from_at=from_at, to_at=to_at, reason=words, created_by=by
        )
        _mark_touched(expectation)
    log.info("expectation.kept", expectation=expectation.pk, kind=kind, by=by.username if by else "")
    return expectation


def end_expectation(expectation_id: int, *, by: User | None) -> Expectation:
    """Take an expectation back, and return it; runs of a maintenance count again. Raises UnknownExpectation."""
    with transaction.atomic():
        ended = Expectation.objects.filter(pk=expectation_id, ended_at__isnull=True).update(
            ended_at=timezone.now()
        )
        if not ended:
            raise UnknownExpectation(f"there is no expectation {expectation_id} to take back")
        expectation = Expectation.objects.get(pk=expectation_id)
        _mark_touched(expectation)
    log.info("expectation.ended", expectation=expectation_id, by=by.username if by else "")
    return expectation


def match_expectations(
    expectations: QuerySet[Expectation], series: QuerySet[Series]
) -> dict[int, list[Expectation]]:
    """Return the expectations that hold for each of these series, by its id; a query for each different filter.

    A filter that today's grammar no longer reads holds for nothing, and the log says so.
    """
    by_filter: dict[str, list[Expectation]] = defaultdict(list)
    for expectation in expectations.order_by("id"):
        by_filter[expectation.filter].append(expectation)
    matched: dict[int, list[Expectation]] = defaultdict(list)
    for text, held in by_filter.items():
        for series_id in _find_series(text, series):
            matched[series_id].extend(held)
    return dict(matched)


def _find_series(text: str, series: QuerySet[Series]) -> Iterable[int]:
    try:
        condition = match_series(parse_filter(text)) if text.strip() else Q()
    except BadFilter as error:
        log.warning("expectation.filter_unreadable", filter=text[:200], error=str(error)[:200])
        return ()
    return series.filter(condition).values_list("id", flat=True)


def _mark_touched(expectation: Expectation) -> None:
    """Have judged anew what a maintenance takes runs from; rows are locked in the order of ids, as everywhere."""
    if expectation.kind != ExpectationKind.MAINTENANCE:
        return
    reached = Series.objects.filter(last_at__gte=expectation.from_at, first_at__lt=expectation.to_at)
    touched = list(_find_series(expectation.filter, reached))
    list(Series.objects.select_for_update().filter(pk__in=touched).order_by("pk").values_list("pk"))
    Series.objects.filter(pk__in=touched).update(judging_is_due=True)
