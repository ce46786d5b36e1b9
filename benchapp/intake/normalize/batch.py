"""Claim received submissions, parse them and store their runs: in batches, each result once."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone

from benchapp.fio import PARSER_VERSION
from benchapp.framework.write.conflicts import end_if_frozen, retry_conflicts
from benchapp.intake.normalize.plan import Plan, plan_reported, plan_submission
from benchapp.intake.normalize.sender_context import SubmissionSource, Unstorable
from benchapp.intake.normalize.series_lookup import count_new_series, judge_new_series
from benchapp.intake.normalize.store import Stored, store_plans
from benchapp.intake.normalize.time_limit import DOCUMENT_LIMIT_S, TookTooLong, limit_time
from benchapp.intake.posts.envelope import BadEnvelope, read_envelope
from benchapp.intake.posts.submissions import unpack
from benchapp.models import Attempt, Kind, State, Submission
from benchapp.models.submission import REJECTED_CODE
from benchapp.requests.write.polling import settle_requests
from benchapp.storage.read.hosts import read_name_mappings

log = structlog.get_logger(__name__)

# One transaction per 50 submissions is 3 to 8 times the throughput of one each (measured).
BATCH_SIZE: Final = 50
# Bounds the memory of a batch of large bodies; 50 usual ones are 1 MB.
BATCH_BYTES: Final = 16 * 2**20
ATTEMPTS_MAXIMUM: Final = 5
# Until the next attempt, by the number of attempts. The first may have been in a batch with the one at fault.
RETRY_PAUSES_S: Final = [10, 60, 240, 960, 0]
# A document that needs more CPU time is processed alone, behind others.
BATCH_TIME_LIMIT_S: Final = 1.0
TIME_OUTS_MAXIMUM: Final = 2
# Of a batch with slow documents: the rest of it is processed alone, too.
BATCH_PLANNING_S: Final = 5.0
# Likewise a document with more measurements: storing so many new series takes a second.
BATCH_MEASUREMENTS: Final = 1000
# Of the oldest submissions as many are shared out among hosts.
_SHARED_OUT: Final = 1000
# pg_advisory lock ("arch") that an import of an archive holds while it inserts: a batch would wait for its rows until
# the time limit of the task ends it, with one attempt less for its submissions. What stores runs holds it shared: the
# import has decided by then which rows are new.
IMPORT_LOCK: Final = 0x61726368
# Evaluated once for the statement; shared, so that workers do not exclude each other.
_NO_IMPORT: Final = f"(SELECT pg_try_advisory_xact_lock_shared({IMPORT_LOCK}))"


class ImportRunning(Exception):
    """An archive is being imported; runs can be stored after it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Result of one batch. claimed: number of rows; 0 if none is waiting."""

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

    @property
    def stored_reason(self) -> str:
        """Return the reason without NUL characters, which PostgreSQL cannot store."""
        return self.reason.replace("\x00", "\ufffd")


def normalize_batch(*, limit: int = BATCH_SIZE) -> Batch:
    """Claim and process up to `limit` waiting submissions; idempotent, and safe to run concurrently.

    The claim counts the attempt and commits first, so that a body that kills its worker is counted. Processing is one
    transaction that holds the row locks, which PostgreSQL releases if the worker dies. New submissions are processed in
    batches, hosts in turn; one that failed before or takes long alone, when no others wait.
    """
    fresh = claim_fresh(limit)
    batch = _settle_or_isolate(fresh)
    retried = _settle_or_isolate(claim_retried() if len(fresh) < limit else (), is_retried=True)
    return Batch(
        batch.claimed + retried.claimed,
        batch.stored + retried.stored,
        batch.rejected + retried.rejected,
        tuple(sorted({*batch.series_ids, *retried.series_ids})),
    )


@transaction.atomic
def claim_fresh(limit: int) -> list[UUID]:
    """Count the first attempt for untried submissions and return their ids, bounded by bytes too.

    The oldest of each host, then its second, and so on: a host with many does not delay the others. None while an
    archive is imported.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, host_id FROM benchapp_submission WHERE state = 'received' AND attempts = 0"
            " ORDER BY received_at LIMIT %s",
            [_SHARED_OUT],
        )
        # Some more than the limit, as other workers lock the first of them. By their ids: PostgreSQL, whose statistics
        # of a queue are never right, would join the two by comparing all pairs.
        in_turn = _take_turns(cursor.fetchall())[: 4 * limit]
        cursor.execute(
            "SELECT id, body_bytes FROM benchapp_submission WHERE state = 'received' AND attempts = 0"  # noqa: S608
            f" AND id = ANY(%s) AND {_NO_IMPORT} ORDER BY array_position(%s, id) LIMIT %s FOR UPDATE SKIP LOCKED",
            [in_turn, in_turn, limit],
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


def _take_turns(rows: Sequence[tuple[UUID, int]]) -> list[UUID]:
    """Return ids, of rows with their hosts: the first of each host, then the second of each, and so on."""
    taken: Counter[int] = Counter()
    turns: list[tuple[int, UUID]] = []
    for submission_id, host_id in rows:
        turns.append((taken[host_id], submission_id))
        taken[host_id] += 1
    return [submission_id for _, submission_id in sorted(turns, key=lambda turn: turn[0])]


@transaction.atomic
def claim_retried() -> list[UUID]:
    """Count another attempt for the submission that is due longest of those that failed; reject those that had five.

    None while an archive is imported.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, attempts FROM benchapp_submission WHERE state = 'received' AND attempts > 0"  # noqa: S608
            " AND coalesce(retry_at, received_at) <= clock_timestamp()"
            f" AND {_NO_IMPORT} ORDER BY coalesce(retry_at, received_at) LIMIT %s FOR UPDATE SKIP LOCKED",
            [BATCH_SIZE],
        )
        rows: list[tuple[UUID, int]] = cursor.fetchall()
    chosen = [submission_id for submission_id, attempts in rows if attempts < ATTEMPTS_MAXIMUM][:1]
    _reject(
        [
            Rejection(
                submission_id,
                "attempts-exhausted",
                f"the worker failed or was killed {ATTEMPTS_MAXIMUM} times while processing it; see the worker's log",
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
            "UPDATE benchapp_submission SET attempts = attempts + 1,"
            " retry_at = clock_timestamp() + (%s::int[])[attempts + 1] * interval '1 s' WHERE id = ANY(%s)",
            [RETRY_PAUSES_S, list(ids)],
        )


def _uncount_attempt(ids: Sequence[UUID]) -> None:
    Submission.objects.filter(id__in=ids, state=State.RECEIVED, attempts__gt=0).update(
        attempts=F("attempts") - 1, retry_at=None
    )


def _make_due(ids: Sequence[UUID]) -> None:
    """Have submissions tried again alone as soon as no others wait."""
    Submission.objects.filter(id__in=ids, state=State.RECEIVED).update(retry_at=timezone.now())


@transaction.atomic
def _count_time_out(submission_id: UUID) -> None:
    """Count a time-out; the second one rejects the submission, which the first has tried again after a minute."""
    row = Submission.objects.select_for_update().get(pk=submission_id)
    row.time_outs += 1
    row.retry_at = timezone.now() + timedelta(minutes=1)
    row.save(update_fields=["time_outs", "retry_at"])
    log.warning("normalize.time_out", submission=str(submission_id), time_outs=row.time_outs)
    if row.time_outs >= TIME_OUTS_MAXIMUM:
        limits = f"{DOCUMENT_LIMIT_S:.0f} s, in {TIME_OUTS_MAXIMUM} attempts"
        reason = f"processing took more than {limits}: split the result"
        _reject([Rejection(submission_id, "took-too-long", reason)], timezone.now())


def exclude_imports() -> None:
    """Make imports of archives, moves of hosts to pools, and changes of mappings wait for this transaction.

    Raises ImportRunning while one runs.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_NO_IMPORT}")
        if cursor.fetchone() != (True,):
            raise ImportRunning("an archive is being imported, or a host moves to another pool")


def _settle_or_isolate(ids: Sequence[UUID], *, is_retried: bool = False) -> Batch:
    if not ids:
        return Batch(0, (), (), ())
    try:
        with limit_time(DOCUMENT_LIMIT_S) if len(ids) == 1 else nullcontext():
            return _settle(ids, is_retried=is_retried)
    except TookTooLong:
        _count_time_out(ids[0])
        return Batch(1, (), (), ())
    except ImportRunning:
        # It began after the claim.
        _uncount_attempt(ids)
        return Batch(0, (), (), ())
    except (OperationalError, InterfaceError):
        # The database is unavailable, or a lock timed out: not caused by the rows, so the attempt is not counted.
        with suppress(OperationalError, InterfaceError):
            connection.close()
            _uncount_attempt(ids)
        raise
    except Exception as error:
        # Untrusted input: the database rejects a value of one of them.
        log.exception("normalize.batch_failed", count=len(ids))
        if len(ids) > 1:
            _make_due(ids)
            return Batch(len(ids), (), (), ())
        _reject(
            [Rejection(ids[0], "database-refused", f"{type(error).__name__}: {error}"[:2000])], timezone.now()
        )
        return Batch(1, (), (ids[0],), ())


def has_waiting() -> bool:
    """Return whether any submission can be processed now."""
    return Submission.objects.due().exists()


@retry_conflicts
@transaction.atomic
def _settle(ids: Sequence[UUID], *, is_retried: bool = False) -> Batch:
    end_if_frozen()
    exclude_imports()
    # A worker that claims at the same time locks rows of this claim for a moment. Its first attempt may still hold one
    # that is retried.
    sources = lock_sources(ids, waits=not is_retried)
    plans: list[Plan] = []
    rejections: list[Rejection] = []
    slow: list[UUID] = []
    started = time.monotonic()
    for source in sources:
        if time.monotonic() - started > BATCH_PLANNING_S:
            slow.append(source.submission_id)
            continue
        outcome = plan_or_reject(source) if len(ids) == 1 else _plan_in_batch(source)
        if outcome is None:
            slow.append(source.submission_id)
        else:
            (plans if isinstance(outcome, Plan) else rejections).append(outcome)  # type: ignore[arg-type]
    _make_due(slow)
    now = timezone.now()
    added, refused = judge_new_series(plans, now=now)
    rejections += [Rejection(each, "too-many-series", reason) for each, reason in refused.items()]
    plans = [plan for plan in plans if plan.source.submission_id not in refused]
    stored = store_plans(plans)
    count_new_series(added, now=now)
    _mark_stored(plans, now)
    _reject(rejections, now)
    settle_requests(
        [plan.source.submission_id for plan in plans],
        _list_failures(plans, rejections),
        now=now,
    )
    return _describe(len(ids), plans, rejections, stored)


def _list_failures(plans: Iterable[Plan], rejections: Iterable[Rejection]) -> dict[UUID, str]:
    """Return why these results are no measurements, by submission, without those that are."""
    failed = {plan.source.submission_id: plan.failure for plan in plans if plan.failure}
    return failed | {each.submission_id: f"the result was rejected: {each.reason}" for each in rejections}


def lock_sources(
    ids: Sequence[UUID], *, state: State | None = State.RECEIVED, waits: bool = False
) -> list[SubmissionSource]:
    """Lock and return the submissions in this state (None: any), oldest first; waits: also for locked ones."""
    rows = Submission.objects.select_for_update(of=("self",), skip_locked=not waits).select_related("host")
    if state is not None:
        rows = rows.filter(state=state)
    chosen = list(rows.filter(id__in=ids, body__isnull=False).order_by("received_at", "id"))
    mappings = read_name_mappings({row.host for row in chosen})
    return [
        SubmissionSource(
            submission_id=row.id,
            host_id=row.host_id,
            # Not the pool at the time of the upload: the results of a host follow it.
            scope=row.host.scope,
            kind=row.kind,
            body=unpack(bytes(row.body or b"")),
            parameters=row.parameters,
            received_at=row.received_at,
            mappings=mappings[row.host_id],
            changes={int(document): changes for document, changes in (row.relabeled or {}).items()},
        )
        for row in chosen
    ]


def plan_or_reject(source: SubmissionSource) -> Plan | Rejection:
    """Return the rows of a submission, or the reason of rejection; a crash of the parser is a reason too."""
    try:
        return plan_reported(source) if source.kind == Kind.REPORTED else plan_submission(source)
    except Unstorable as error:
        return Rejection(source.submission_id, error.code, str(error)[:2000])
    except Exception as error:
        # Untrusted input: an unexpected error is logged with its traceback; the submission can be retried.
        log.exception("normalize.parser_failed", submission=str(source.submission_id))
        return Rejection(source.submission_id, "reader-fault", f"{type(error).__name__}: {error}"[:2000])


def plan_all(sources: Sequence[SubmissionSource]) -> list[Plan | Rejection]:
    """Plan each of these submissions as `plan_or_reject`."""
    return [plan_or_reject(source) for source in sources]


def _plan_in_batch(source: SubmissionSource) -> Plan | Rejection | None:
    """Plan a submission among others; None if it would delay them."""
    try:
        with limit_time(BATCH_TIME_LIMIT_S):
            outcome = plan_or_reject(source)
    except TookTooLong:
        return None
    is_large = (
        isinstance(outcome, Plan) and sum(len(run.measurements) for run in outcome.runs) > BATCH_MEASUREMENTS
    )
    return None if is_large else outcome


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
            reason=rejection.stored_reason,
        )
    _note_attempts([rejection.submission_id for rejection in rejections])


def _note_attempts(ids: Sequence[UUID]) -> None:
    """Store the rejected results of agents as runs without a result."""
    attempts = []
    for row in Submission.objects.filter(id__in=ids, kind=Kind.ENVELOPE, state=State.REJECTED):
        profile, target_name, started_at = "", "", row.received_at
        with suppress(BadEnvelope):
            envelope = read_envelope(unpack(bytes(row.body or b"")))
            profile, target_name = envelope.profile, envelope.target["target_name"] or ""
            started_at = min(envelope.started_at or row.received_at, row.received_at)
        attempts.append(
            Attempt(
                sender_id=row.pk,
                host_id=row.host_id,
                profile=profile,
                target_name=target_name,
                started_at=started_at,
                received_at=row.received_at,
                reason_code=REJECTED_CODE,
                reason=f"rejected: {row.reason}"[:500],
            )
        )
    Attempt.objects.bulk_create(attempts, ignore_conflicts=True)


def _describe(claimed: int, plans: Sequence[Plan], rejections: Sequence[Rejection], stored: Stored) -> Batch:
    return Batch(
        claimed,
        tuple(plan.source.submission_id for plan in plans),
        tuple(rejection.submission_id for rejection in rejections),
        stored.series_ids,
    )
