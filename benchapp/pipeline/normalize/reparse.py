"""Parse stored submissions again with the current parser, and report what changes.

Read again, little by little, what an older parser read: a series whose points mix two readings compares badly.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from benchapp.fio import PARSER_VERSION
from benchapp.models import Series, State, Submission
from benchapp.pipeline.normalize.batch import (
    ATTEMPTS_MAXIMUM,
    BATCH_BYTES,
    Rejection,
    lock_sources,
    plan_or_reject,
)
from benchapp.pipeline.normalize.plan import Plan
from benchapp.pipeline.normalize.reparse_report import ReparseDifference, compare_rows, read_rows
from benchapp.pipeline.normalize.store import store_plans

_BATCH_SIZE: Final = 50


@dataclass(slots=True)
class ReparseOutcome:
    """What reading again did, or would do. lost: points that each series has fewer, by its id; negative: more."""

    read: int = 0
    unchanged: int = 0
    differences: list[ReparseDifference] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)
    recovered: int = 0
    series_ids: set[int] = field(default_factory=set)
    lost: Counter[int] = field(default_factory=Counter)


def select_submissions(
    *, ids: Sequence[UUID] = (), only_older: bool = False, include_rejected: bool = False
) -> list[UUID]:
    """Return the settled submissions whose body is kept, oldest first.

    only_older: leave out what this parser's version has read already.
    """
    rows = Submission.objects.filter(body__isnull=False, state=State.STORED)
    if include_rejected:
        rows = Submission.objects.filter(body__isnull=False).exclude(state=State.RECEIVED)
    if ids:
        rows = Submission.objects.filter(body__isnull=False, id__in=ids).exclude(state=State.RECEIVED)
    if only_older:
        rows = rows.filter(Q(parser_version__lt=PARSER_VERSION) | Q(parser_version__isnull=True))
    return list(rows.order_by("received_at", "id").values_list("id", flat=True))


def renormalize(ids: Sequence[UUID], *, is_dry_run: bool) -> Iterator[ReparseOutcome]:
    """Read these submissions again, a transaction per 50, and yield what each batch did.

    A run keeps its id, a stored submission that can no longer be read keeps its runs and is reported, a rejected
    one that now can be read becomes stored. A dry run rolls every batch back.
    """
    for start in range(0, len(ids), _BATCH_SIZE):
        with transaction.atomic():
            outcome = _renormalize_batch(ids[start : start + _BATCH_SIZE])
            if is_dry_run:
                transaction.set_rollback(True)
        yield outcome


def count_emptied(lost: Mapping[int, int], *, is_dry_run: bool) -> int:
    """Return how many series have no point left, or would have none; lost: of all batches together.

    Such a series stays as a row, so that its key keeps its id, and is in no list.
    """
    fewer = {series_id: count for series_id, count in lost.items() if count > 0}
    counts = Series.objects.filter(pk__in=fewer).values_list("pk", "measurement_count")
    return sum(count == (fewer[series_id] if is_dry_run else 0) for series_id, count in counts)


def _renormalize_batch(ids: Sequence[UUID]) -> ReparseOutcome:
    outcome = ReparseOutcome()
    plans: list[Plan] = []
    for source in lock_sources(ids, state=None):
        outcome.read += 1
        planned = plan_or_reject(source)
        if isinstance(planned, Plan):
            plans.append(planned)
        else:
            outcome.refused.append(planned)
    planned_ids = [plan.source.submission_id for plan in plans]
    before = read_rows(planned_ids)
    outcome.series_ids.update(store_plans(plans).series_ids)
    after = read_rows(planned_ids)
    for submission_id in planned_ids:
        differences = list(compare_rows(submission_id, before[submission_id], after[submission_id]))
        outcome.differences.extend(differences)
        outcome.unchanged += not differences
        outcome.lost.update(before[submission_id].count_points())
        outcome.lost.subtract(after[submission_id].count_points())
    outcome.recovered = _settle(planned_ids)
    return outcome


def _settle(ids: Sequence[UUID]) -> int:
    recovered = Submission.objects.filter(id__in=ids, state=State.REJECTED).update(
        state=State.STORED,
        reason_code="",
        reason="",
        settled_at=timezone.now(),
        parser_version=PARSER_VERSION,
    )
    Submission.objects.filter(id__in=ids, state=State.STORED).update(parser_version=PARSER_VERSION)
    return recovered


log = structlog.get_logger(__name__)

# Small, so that what is fresh never waits long for its series' locks.
_OUTDATED_BATCH_SIZE: Final = 20
# To be stored it may have taken as many as there are; each reading that dies of it counts one more.
_ATTEMPTS_MAXIMUM: Final = 2 * ATTEMPTS_MAXIMUM


def count_outdated(*, at_most: int) -> int:
    """Return how many stored submissions an older parser read and this one can read again; at_most bounds the work."""
    return _find_older()[:at_most].count()


def reparse_outdated() -> int:
    """Read the oldest few of them again and return how many were taken; 0 means that none is left.

    Like `normalize_batch`: the claim commits first and counts the attempt, one whose reader died is taken alone, and
    left as it is after five. What can no longer be read keeps its runs, and is not tried again.
    """
    ids = _claim()
    if not ids:
        return 0
    try:
        refused = [refusal for outcome in renormalize(ids, is_dry_run=False) for refusal in outcome.refused]
    except (OperationalError, InterfaceError):
        # PostgreSQL is away, or would not wait for a lock: no fault of the rows.
        with suppress(OperationalError, InterfaceError):
            connection.close()
            _give_back_attempt(ids)
        raise
    except Exception:
        # The edge around foreign input: one of them holds what the database will not take; each is alone next time.
        log.exception("catch_up.batch_refused", count=len(ids))
        return len(ids)
    _give_back_attempt(ids)
    for refusal in refused:
        _leave(refusal.submission_id, reason=f"{refusal.code}: {refusal.reason}")
    return len(ids)


@transaction.atomic
def _claim() -> list[UUID]:
    rows = list(
        _find_older()
        .select_for_update(skip_locked=True)
        .values_list("id", "attempts", "body_bytes")[:_OUTDATED_BATCH_SIZE]
    )
    chosen: list[UUID] = []
    total_bytes = 0
    for submission_id, attempts, body_bytes in rows:
        total_bytes += body_bytes
        if chosen and (attempts > 1 or total_bytes > BATCH_BYTES):
            break
        chosen.append(submission_id)
        if attempts > 1:
            break
    if chosen and rows[0][1] >= _ATTEMPTS_MAXIMUM:
        _leave(chosen[0], reason="its worker died or failed at it again and again")
    Submission.objects.filter(id__in=chosen).update(attempts=F("attempts") + 1)
    return chosen


def _find_older() -> QuerySet[Submission]:
    """Return them in the order of their index; its condition must be said in full."""
    older = Submission.objects.filter(
        state=State.STORED, body__isnull=False, parser_version__lt=PARSER_VERSION
    )
    return older.order_by("parser_version", "received_at")


def _give_back_attempt(ids: Sequence[UUID]) -> None:
    Submission.objects.filter(id__in=ids, attempts__gt=0).update(attempts=F("attempts") - 1)


def _leave(submission_id: UUID, *, reason: str) -> None:
    """Count it as seen by this parser: its runs keep their numbers, and the version that they came from."""
    Submission.objects.filter(id=submission_id).update(parser_version=PARSER_VERSION)
    log.warning("catch_up.left_as_it_is", submission=str(submission_id), reason=reason[:500])
