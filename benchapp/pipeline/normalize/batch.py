"""Claim received submissions, parse them and store their runs: in batches, each result once."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone

from benchapp.fio import PARSER_VERSION
from benchapp.models import Kind, State, Submission
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.intake.submissions import unpack
from benchapp.pipeline.normalize.plan import Plan, plan_submission
from benchapp.pipeline.normalize.plan_published import plan_reported
from benchapp.pipeline.normalize.sender_context import SubmissionSource, Unstorable
from benchapp.pipeline.normalize.store import Stored, store_plans

log = structlog.get_logger(__name__)

# One transaction per 50 submissions is 3 to 8 times the throughput of one each (measured).
BATCH_SIZE: Final = 50
# Bounds the memory of a batch of large bodies; 50 usual ones are 1 MB.
BATCH_BYTES: Final = 16 * 2**20
ATTEMPTS_MAXIMUM: Final = 5


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch did. claimed: rows taken; 0 means that nothing waits."""

    claimed: int
    stored: tuple[UUID, ...]
    rejected: tuple[UUID, ...]
    series_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a submission cannot be stored."""

    submission_id: UUID
    code: str
    reason: str


def normalize_batch(*, limit: int = BATCH_SIZE) -> Batch:
    """Claim up to `limit` waiting submissions and settle them; safe to run anywhere, any number of times.

    The claim commits first and counts the attempt, so that a body that kills its worker is counted. The work is
    one transaction that holds the rows' locks: a worker that dies drops them at once, and no lease has to run out.
    Fresh submissions come in batches; one that failed before comes alone behind them, so that it takes no
    neighbour with it.
    """
    batch = _settle_or_isolate(claim_fresh(limit))
    retried = _settle_or_isolate(claim_retried())
    return Batch(
        batch.claimed + retried.claimed,
        batch.stored + retried.stored,
        batch.rejected + retried.rejected,
        tuple(sorted({*batch.series_ids, *retried.series_ids})),
    )


@transaction.atomic
def claim_fresh(limit: int) -> list[UUID]:
    """Count the first attempt for the oldest untried submissions and return their ids, bounded by bytes too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, body_bytes FROM benchapp_submission WHERE state = 'received' AND attempts = 0"
            " ORDER BY received_at LIMIT %s FOR UPDATE SKIP LOCKED",
            [limit],
        )
        rows: list[tuple[UUID, int]] = cursor.fetchall()
        total_bytes = 0
        chosen: list[UUID] = []
        for submission_id, body_bytes in rows:
            total_bytes += body_bytes
            if chosen and total_bytes > BATCH_BYTES:
                break
            chosen.append(submission_id)
        _count_attempt(chosen)
    return chosen


@transaction.atomic
def claim_retried() -> list[UUID]:
    """Count another attempt for the oldest submission that failed before; reject those that had five."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, attempts FROM benchapp_submission WHERE state = 'received' AND attempts > 0"
            " ORDER BY attempts, received_at LIMIT %s FOR UPDATE SKIP LOCKED",
            [BATCH_SIZE],
        )
        rows: list[tuple[UUID, int]] = cursor.fetchall()
    chosen = [submission_id for submission_id, attempts in rows if attempts < ATTEMPTS_MAXIMUM][:1]
    _reject(
        [
            Rejection(
                submission_id,
                "attempts-exhausted",
                f"its worker died or failed {ATTEMPTS_MAXIMUM} times at it; the worker's log says how",
            )
            for submission_id, attempts in rows
            if attempts >= ATTEMPTS_MAXIMUM
        ],
        timezone.now(),
    )
    _count_attempt(chosen)
    return chosen


def _count_attempt(ids: Sequence[UUID]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE benchapp_submission SET attempts = attempts + 1 WHERE id = ANY(%s)", [list(ids)]
        )


def _give_back_attempt(ids: Sequence[UUID]) -> None:
    with suppress(OperationalError, InterfaceError):
        connection.close()
        Submission.objects.filter(id__in=ids, state=State.RECEIVED, attempts__gt=0).update(
            attempts=F("attempts") - 1
        )


def _settle_or_isolate(ids: Sequence[UUID]) -> Batch:
    if not ids:
        return Batch(0, (), (), ())
    try:
        return _settle(ids)
    except (OperationalError, InterfaceError):
        # PostgreSQL is away, or would not wait for a lock: no fault of the rows, so the attempt does not count.
        _give_back_attempt(ids)
        raise
    except Exception as error:
        # The edge around foreign input: one of them holds what the database will not take.
        log.exception("normalize.batch_refused", count=len(ids))
        if len(ids) > 1:
            # Each is claimed alone next time, as it has failed before.
            return Batch(len(ids), (), (), ())
        _reject(
            [Rejection(ids[0], "database-refused", f"{type(error).__name__}: {error}"[:2000])], timezone.now()
        )
        return Batch(1, (), (ids[0],), ())


def has_waiting() -> bool:
    """Say whether anything is received and not settled."""
    return Submission.objects.waiting().exists()


@retry_conflicts
@transaction.atomic
def _settle(ids: Sequence[UUID]) -> Batch:
    sources = lock_sources(ids)
    plans: list[Plan] = []
    rejections: list[Rejection] = []
    for source in sources:
        outcome = plan_or_reject(source)
        (plans if isinstance(outcome, Plan) else rejections).append(outcome)  # type: ignore[arg-type]
    stored = store_plans(plans)
    now = timezone.now()
    _mark_stored(plans, now)
    _reject(rejections, now)
    return _describe(len(ids), plans, rejections, stored)


def lock_sources(ids: Sequence[UUID], *, state: State | None = State.RECEIVED) -> list[SubmissionSource]:
    """Lock the submissions that are still in this state and in nobody's hands, and return them, oldest first."""
    rows = Submission.objects.select_for_update(of=("self",), skip_locked=True).select_related("host")
    if state is not None:
        rows = rows.filter(state=state)
    return [
        SubmissionSource(
            submission_id=row.id,
            host_id=row.host_id,
            scope=row.scope or row.host.scope,
            kind=row.kind,
            body=unpack(bytes(row.body or b"")),
            parameters=row.parameters,
            received_at=row.received_at,
        )
        for row in rows.filter(id__in=ids, body__isnull=False).order_by("received_at", "id")
    ]


def plan_or_reject(source: SubmissionSource) -> Plan | Rejection:
    """Return the rows of a submission, or why it has none; a fault of the reader is a reason too."""
    try:
        return plan_reported(source) if source.kind == Kind.REPORTED else plan_submission(source)
    except Unstorable as error:
        return Rejection(source.submission_id, error.code, str(error)[:2000])
    except Exception as error:
        # The edge around foreign input: what the reader did not foresee is logged whole, and can be retried.
        log.exception("normalize.reader_failed", submission=str(source.submission_id))
        return Rejection(source.submission_id, "reader-fault", f"{type(error).__name__}: {error}"[:2000])


def _mark_stored(plans: Iterable[Plan], now: datetime) -> None:
    Submission.objects.filter(
        id__in=[plan.source.submission_id for plan in plans], state=State.RECEIVED
    ).update(state=State.STORED, settled_at=now, parser_version=PARSER_VERSION)


def _reject(rejections: Sequence[Rejection], now: datetime) -> None:
    for rejection in rejections:
        Submission.objects.filter(id=rejection.submission_id, state=State.RECEIVED).update(
            state=State.REJECTED,
            settled_at=now,
            parser_version=PARSER_VERSION,
            reason_code=rejection.code,
            reason=rejection.reason.replace("\x00", "\ufffd"),
        )


def _describe(claimed: int, plans: Sequence[Plan], rejections: Sequence[Rejection], stored: Stored) -> Batch:
    return Batch(
        claimed,
        tuple(plan.source.submission_id for plan in plans),
        tuple(rejection.submission_id for rejection in rejections),
        stored.series_ids,
    )
