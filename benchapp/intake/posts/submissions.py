"""Accept posts: one durable INSERT of the bytes without secrets, once for all retries. Retry rejected submissions."""

import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final
from uuid import UUID, uuid5

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Min, Window
from django.utils import timezone

from benchapp.fio.redaction import remove_from_body, remove_from_document
from benchapp.framework.write.audit import record_write
from benchapp.models import Attempt, AuditKind, Kind, State, Submission
from benchapp.storage.write.hosts import canonical_json

# Namespace of ids for senders without their own: same host, same bytes, same id.
_DERIVED_IDS: Final = UUID("b3a04a4e-6b0c-4a57-9a0e-3a2a5f6b7c11")
# Of a body that is parsed while its sender waits, uncompressed: 2 MiB take 0.1 s as JSON and 0.7 s as text; a result of
# 300 jobs has 1 MiB.
VALIDATED_BYTES_MAXIMUM: Final = 2 * 2**20
# The newest answers to a sender name its results that were rejected within this time.
REJECTED_FOR: Final = timedelta(days=7)
# Runs without a result that are kept of a host: ten days of one every 15 minutes.
ATTEMPTS_MAXIMUM: Final = 1000


class AcceptOutcome(Enum):
    """Outcome of a submission."""

    NEW = "new"
    REPLAYED = "replayed"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class IncomingSubmission:
    """Content of one POST as it was received, checked for size and framing only.

    body: unpacked bytes; packed: the received gzip, if it was compressed. id: of the sender; None for senders without
    one (curl), for which equal bytes from one host are one submission.
    """

    host_id: int
    kind: Kind
    body: bytes
    id: UUID | None = None
    packed: bytes | None = None
    parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AcceptResult:
    """Result of accepting a submission. state: of the stored row."""

    id: UUID
    outcome: AcceptOutcome
    state: State


_INSERT: Final = (
    "INSERT INTO benchapp_submission"
    " (id, host_id, scope, kind, parameters, body, body_bytes, digest, received_at, state, attempts, reason_code,"
    "  reason) VALUES {rows} ON CONFLICT (id) DO NOTHING RETURNING id"
)
_ROW: Final = (
    "(%s, %s, (SELECT CASE WHEN pool <> '' THEN 'pool:' || pool ELSE 'host:' || name END"
    " FROM benchapp_host WHERE id = %s), %s, %s, %s, %s, %s, %s, 'received', 0, '', '')"
)


def accept_submission(submission: IncomingSubmission, *, now: datetime | None = None) -> AcceptResult:
    """Store a submission unless its id is known; return the outcome. Durable when it returns."""
    (result,) = _insert_unknown([submission], now=now)
    return result


def accept_submissions(submissions: Sequence[IncomingSubmission]) -> list[AcceptResult]:
    """Store submissions in one transaction, and return an outcome for each; all are durable when it returns.

    Of two with the same id the first is stored.
    """
    with transaction.atomic():
        return _insert_unknown(submissions)


def _insert_unknown(
    submissions: Sequence[IncomingSubmission], *, now: datetime | None = None
) -> list[AcceptResult]:
    """Store the submissions whose ids are not known by one INSERT."""
    if not submissions:
        return []
    digests = [_digest(submission) for submission in submissions]
    ids = [_choose_id(submission, digest) for submission, digest in zip(submissions, digests, strict=True)]
    first_at = now or timezone.now()
    rows = [
        # A microsecond apart: they are processed in the order in which they are given.
        _list_columns(submission, ids[place], digests[place], first_at + timedelta(microseconds=place))
        for place, submission in enumerate(submissions)
    ]
    # By id, as two senders of the same submissions would wait for each other otherwise.
    values = [value for place in sorted(range(len(ids)), key=ids.__getitem__) for value in rows[place]]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT.format(rows=", ".join([_ROW] * len(ids))), values)
        new = {row[0] for row in cursor.fetchall()}
    results = []
    for submission, submission_id, digest in zip(submissions, ids, digests, strict=True):
        if submission_id in new:
            new.remove(submission_id)
            results.append(AcceptResult(submission_id, AcceptOutcome.NEW, State.RECEIVED))
            continue
        known = _read_known(submission_id, submission.host_id, digest=digest)
        assert known is not None, "rows of submissions are never deleted"
        results.append(known)
    return results


def read_rejected(host_id: int, *, now: datetime | None = None) -> Any | None:
    """Return the newest rejected envelope of a host, with count and first receipt (since) of those of seven days."""
    rejected = Submission.objects.filter(host=host_id, kind=Kind.ENVELOPE, state=State.REJECTED)
    recent = rejected.filter(received_at__gt=(now or timezone.now()) - REJECTED_FOR)
    counted = recent.annotate(count=Window(Count("*")), since=Window(Min("received_at")))
    return counted.defer("body").order_by("-received_at").first()


def store_attempt(attempt: Attempt) -> AcceptResult:
    """Store a run without a result unless its id is known, and remove the oldest of its host beyond 1 000."""
    try:
        with transaction.atomic():
            attempt.save(force_insert=True)
    except IntegrityError:
        known = Attempt.objects.get(sender_id=attempt.sender_id)
        is_same = all(
            getattr(known, name) == getattr(attempt, name)
            for name in ("host_id", "started_at", "reason_code")
        )
        outcome = AcceptOutcome.REPLAYED if is_same else AcceptOutcome.CONFLICT
        return AcceptResult(attempt.sender_id, outcome, State.STORED)
    own = Attempt.objects.filter(host_id=attempt.host_id).order_by("-started_at", "-id")
    Attempt.objects.filter(pk__in=list(own.values_list("pk", flat=True)[ATTEMPTS_MAXIMUM:])).delete()
    return AcceptResult(attempt.sender_id, AcceptOutcome.NEW, State.STORED)


def remove_submission_secrets(submission: IncomingSubmission) -> IncomingSubmission:
    """Return a submission as it may be stored: itself if it has no secret.

    The digest and a derived id are those of what was received, so that a repeated POST is recognized.
    """
    body = remove_from_body(submission.body, is_document=submission.kind != Kind.FIO)
    parameters = remove_from_document(submission.parameters)
    packed = submission.packed if body is submission.body else None
    return replace(submission, body=body, parameters=parameters, packed=packed)


def _list_columns(
    submission: IncomingSubmission, submission_id: UUID, digest: bytes, received_at: datetime
) -> tuple[Any, ...]:
    """Return the values of _ROW."""
    kept = remove_submission_secrets(submission)
    return (
        submission_id,
        submission.host_id,
        submission.host_id,
        submission.kind,
        canonical_json(kept.parameters or {}).decode(),
        kept.packed or pack(kept.body),
        len(kept.body),
        digest,
        received_at,
    )


def find_known(submission: IncomingSubmission) -> AcceptResult:
    """Return what accepting a submission would return; stores nothing."""
    digest = _digest(submission)
    submission_id = _choose_id(submission, digest)
    known = _read_known(submission_id, submission.host_id, digest=digest)
    return known or AcceptResult(submission_id, AcceptOutcome.NEW, State.RECEIVED)


def _read_known(submission_id: UUID, host_id: int, *, digest: bytes) -> AcceptResult | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT host_id, digest, state FROM benchapp_submission WHERE id = %s", [submission_id]
        )
        row = cursor.fetchone()
    if row is None:
        return None
    known_host_id, known_digest, state = row
    is_same = known_host_id == host_id and bytes(known_digest) == digest
    return AcceptResult(
        submission_id, AcceptOutcome.REPLAYED if is_same else AcceptOutcome.CONFLICT, State(state)
    )


def count_backlog(limit: int) -> int:
    """Return how many submissions wait for a worker, counting up to the limit."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT 1 FROM benchapp_submission WHERE state = 'received' LIMIT %s) waiting",
            [limit],
        )
        return int(cursor.fetchone()[0])


def pack(body: bytes) -> bytes:
    """Return the body as gzip; level 1 costs a third of level 6 and gives 3 KB instead of 2.6 KB of 21 KB."""
    return gzip.compress(body, compresslevel=1, mtime=0)


def unpack(packed: bytes) -> bytes:
    """Return the exact bytes received."""
    return zlib.decompress(packed, wbits=31)


def _choose_id(submission: IncomingSubmission, digest: bytes) -> UUID:
    return submission.id or uuid5(_DERIVED_IDS, f"{submission.host_id}:{digest.hex()}")


def _digest(submission: IncomingSubmission) -> bytes:
    parameters = canonical_json(submission.parameters or {})
    return hashlib.sha256(b"%d\n%b\n%b" % (len(parameters), parameters, submission.body)).digest()


def retry_submission(submission_id: UUID) -> bool:
    """Reset a rejected submission to received; False if it is not rejected or its body was removed."""
    return _retry(id=submission_id) == 1


def retry_rejected(reason_code: str) -> int:
    """Reset all submissions rejected for this reason to received; return how many."""
    return _retry(reason_code=reason_code)


def _retry(**which: object) -> int:
    with transaction.atomic():
        rejected = Submission.objects.filter(state=State.REJECTED, body__isnull=False, **which)
        Attempt.objects.filter(sender_id__in=rejected.values("pk")).delete()
        count = rejected.update(
            state=State.RECEIVED,
            attempts=0,
            retry_at=None,
            time_outs=0,
            settled_at=None,
            reason_code="",
            reason="",
            parser_version=None,
        )
        if count:
            record_write(
                AuditKind.SUBMISSION,
                "retried",
                object_id=which.get("id", ""),
                before={"state": State.REJECTED.value, **which},
                after={"state": State.RECEIVED.value, "submissions": count},
            )
    return count
