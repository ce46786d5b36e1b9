"""Read again, little by little, what an older parser read: a series whose points mix two readings compares badly."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, QuerySet

from benchapp.fio import PARSER_VERSION
from benchapp.models import State, Submission
from benchapp.pipeline.normalize import ATTEMPTS_MAXIMUM, BATCH_BYTES
from benchapp.pipeline.renormalize import renormalize

log = structlog.get_logger(__name__)

# Small, so that what is fresh never waits long for its series' locks.
_BATCH_SIZE: Final = 20
# To be stored it may have taken as many as there are; each reading that dies of it counts one more.
_ATTEMPTS_MAXIMUM: Final = 2 * ATTEMPTS_MAXIMUM


def count_older(*, at_most: int) -> int:
    """Return how many stored submissions an older parser read and this one can read again; at_most bounds the work."""
    return _find_older()[:at_most].count()


def renormalize_older() -> int:
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
        .values_list("id", "attempts", "body_bytes")[:_BATCH_SIZE]
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
