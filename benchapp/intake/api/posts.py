"""Answer a POST of results: check limits and sender, read the body, store it; a batch in one transaction."""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote
from uuid import UUID

from django.conf import settings
from msgspec import UNSET, Meta, UnsetType

from benchapp.accounts.write.throttle import WindowQuota
from benchapp.framework.api.answers import (
    ApiAnswer,
    LastRejectedAnswer,
    ReceiptAnswer,
    RejectedResultsAnswer,
    build,
)
from benchapp.framework.api.permissions import authenticate_bearer
from benchapp.framework.api.problems import CONTENT_TYPE as PROBLEM_TYPE
from benchapp.framework.api.problems import RETRY_AFTER_S, Problem, ProblemAnswer, describe_problem
from benchapp.framework.readiness import measure_disk
from benchapp.intake.api.body import unpack_wire
from benchapp.intake.api.documents import (
    BATCH,
    Post,
    read_document,
    read_post,
    refuse_query_parameters,
    refuse_wrapped,
    suggest_lines,
)
from benchapp.intake.posts.submissions import (
    VALIDATED_BYTES_MAXIMUM,
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submission,
    accept_submissions,
    count_backlog,
    find_known,
    read_rejected,
    store_attempt,
)
from benchapp.models import ApiToken, Attempt, State
from benchapp.models import Scope as TokenScope

BATCH_MAXIMUM: Final = 200
_BLANK_LINES: Final = re.compile(rb"\n\s*\n")


class BatchItemAnswer(ApiAnswer, kw_only=True, frozen=True):
    """The answer about one line: what a single POST would answer."""

    index: Annotated[int, Meta(description="number of the document, from 0; blank lines do not count")]
    status: Annotated[int, Meta(description="202 received, 200 received before, else a problem")]
    id: UUID | None
    state: State | None
    url: str | None
    problem: ProblemAnswer | None


class BatchAnswer(ApiAnswer, kw_only=True, frozen=True):
    """One answer for each document, in their order."""

    received: Annotated[int, Meta(description="number of lines that were stored now")]
    replayed: Annotated[int, Meta(description="number of lines that were stored before")]
    refused: Annotated[int, Meta(description="number of lines with a problem; they are not stored")]
    items: Sequence[BatchItemAnswer]


class RefusedBatchAnswer(ProblemAnswer, kw_only=True, frozen=True):
    """RFC 9457, with the answer for each document."""

    items: Sequence[BatchItemAnswer]


def split_batch(post: Post, body: bytes) -> list[bytes]:
    """Return the lines of a batch, as many as documents; raises Problem 400 or 413."""
    refuse_query_parameters(parse_qsl(post.query, keep_blank_values=True))
    if "idempotency-key" in post.headers:
        raise Problem(
            400,
            "idempotency-key-invalid",
            "Bad Idempotency-Key",
            "a batch has no Idempotency-Key: the id of each document is its key",
        )
    if not body.strip():
        raise Problem(400, "body-empty", "Empty body", "the body is empty: send one document per line")
    refuse_wrapped(post.path, body)
    # Counted before it is split: a body of millions of lines would be a list of these.
    lines = _BLANK_LINES.sub(b"\n", b"\n%b\n" % body)[1:-1]
    count = lines.count(b"\n") + 1
    if count > BATCH_MAXIMUM:
        raise Problem(
            413,
            "batch-too-long",
            "Batch too long",
            f"{count} lines exceed the maximum of {BATCH_MAXIMUM}; nothing was stored{suggest_lines(body)}",
        )
    return lines.split(b"\n")


def store_batch(lines: Sequence[bytes], host_id: int) -> BatchAnswer:
    """Store the valid documents in one transaction; a line that is refused does not prevent the others."""
    read = [_read_line(line, host_id) for line in lines]
    results = iter(accept_submissions([each for each in read if isinstance(each, IncomingSubmission)]))
    items = [
        _describe_refusal(index, each)
        if isinstance(each, Problem)
        else _describe_result(index, next(results))
        for index, each in enumerate(read)
    ]
    statuses = [item.status for item in items]
    received, replayed = statuses.count(202), statuses.count(200)
    return BatchAnswer(
        received=received, replayed=replayed, refused=len(items) - received - replayed, items=items
    )


def describe_refused_batch(stored: BatchAnswer, body: bytes) -> RefusedBatchAnswer:
    """Return the answer to a batch without an accepted line: some senders look at the status alone."""
    reason = next(item.problem.detail for item in stored.items if item.problem is not None)
    problem = Problem(
        422,
        "batch-refused",
        "Batch refused",
        f"none of {len(stored.items)} lines was taken; nothing was stored{suggest_lines(body)}; the first: {reason}",
    )
    return build(RefusedBatchAnswer, describe_problem(problem), items=stored.items)


def refuse_conflict(result: AcceptResult) -> None:
    """Raise Problem 409 if another body has the id."""
    if result.outcome == AcceptOutcome.CONFLICT:
        raise Problem(
            409,
            "id-taken",
            "Id taken",
            f"submission {result.id} exists with a different body: create a new id for each result",
        )


def _read_line(line: bytes, host_id: int) -> IncomingSubmission | Problem:
    try:
        kind, document_id = read_document(line, None)
    except Problem as problem:
        return problem
    return IncomingSubmission(host_id, kind, line, document_id)


def _describe_result(index: int, result: AcceptResult) -> BatchItemAnswer:
    try:
        refuse_conflict(result)
    except Problem as problem:
        return _describe_refusal(index, problem)
    return BatchItemAnswer(
        index=index,
        status=202 if result.outcome == AcceptOutcome.NEW else 200,
        id=result.id,
        state=result.state,
        url=f"/api/v1/submissions/{result.id}",
        problem=None,
    )


def _describe_refusal(index: int, problem: Problem) -> BatchItemAnswer:
    return BatchItemAnswer(
        index=index,
        status=problem.status,
        id=None,
        state=None,
        url=None,
        problem=describe_problem(problem),
    )


_CHECK_INTERVAL_S: Final = 1.0
_HOUR_S: Final = 3600


class Limits:
    """Limits of this process: backlog and disk, checked once per second, and its own count per host."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checked_at = float("-inf")
        self._shortage: tuple[str, str] | None = None
        self._quota = WindowQuota(window_s=_HOUR_S)

    def check(self, host_id: int) -> None:
        """Raise Problem 429 or 503 if a limit is reached for this host."""
        now = time.monotonic()
        with self._lock:
            is_due = now - self._checked_at >= _CHECK_INTERVAL_S
            if is_due:
                self._checked_at = now
        if is_due:
            self._shortage = find_shortage()
        if self._shortage is not None:
            # A new exception each time: the traceback of a reused one would keep every rejected body in memory.
            raise try_later(*self._shortage)
        self.count(host_id)

    def count(self, host_id: int, results: int = 1) -> None:
        """Count results of a host; raises Problem 429 if they exceed its quota, and counts none of them then."""
        quota = settings.HOST_QUOTA_PER_HOUR
        counted = self._quota.count(host_id, results, maximum=quota)
        if counted.is_over:
            raise Problem(
                429,
                "quota-exceeded",
                "Too many results",
                f"this host reached its quota of {quota} results per hour: try again later",
                headers={"Retry-After": str(counted.seconds_left)},
            )


def find_shortage() -> tuple[str, str] | None:
    """Return code and text of the limit that is reached, None if none is."""
    disk = measure_disk()
    if disk is not None and disk.is_low:
        return ("disk-low", "the server's disk is nearly full; nothing was stored: try again later")
    if count_backlog(settings.BACKLOG_LIMIT) >= settings.BACKLOG_LIMIT:
        return (
            "backlog-full",
            f"{settings.BACKLOG_LIMIT} results are waiting to be processed: try again later",
        )
    return None


def try_later(code: str, detail: str) -> Problem:
    """Return a 503 with Retry-After."""
    return Problem(503, code, "Try again later", detail, headers={"Retry-After": str(RETRY_AFTER_S)})


# Concurrent validations of a process, of its threads: each parses, and compares with existing series.
VALIDATIONS_MAXIMUM: Final = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and JSON of a response. is_new: a worker has something to do."""

    status: int
    body: ApiAnswer
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    is_new: bool = False


# Describes what a submission would become: by the code of workers, which this module does not load.
Validate = Callable[[IncomingSubmission, AcceptResult], ApiAnswer]


def authenticate_sender(authorization: str, date: str) -> ApiToken:
    """Return the token of a host that may post, by two headers; raises Problem 401 or 403."""
    token = authenticate_bearer(authorization, date=date)
    if token.scope != TokenScope.INGEST or token.host_id is None:
        raise Problem(
            403,
            "scope-insufficient",
            "Token may not post results",
            f"{token} cannot post results: use a host token",
        )
    return token


def answer_post(post: Post, *, validate: Validate) -> Answer:
    """Check, store, answer; raises Problem."""
    token = authenticate_sender(*(post.headers.get(name, "") for name in ("authorization", "date")))
    assert token.host_id is not None
    _LIMITS.check(token.host_id)
    body = unpack_wire(post.wire, limit=settings.UNPACKED_LIMIT_BYTES)
    if post.path == BATCH:
        return _answer_batch(post, body.unpacked, token.host_id)
    read = read_post(post, body, token.host_id)
    if isinstance(read, Attempt):
        return _answer_attempt(read, token)
    submission, is_validated = read
    if not is_validated:
        return _answer_result(accept_submission(submission), token.host_id)
    return _answer_validation(submission, validate=validate)


def _answer_validation(submission: IncomingSubmission, *, validate: Validate) -> Answer:
    """Parse the body as a worker would: few at a time, so that threads remain for results of hosts."""
    if len(submission.body) > VALIDATED_BYTES_MAXIMUM:
        raise Problem(
            413,
            "body-too-big",
            "Body too big",
            f"{len(submission.body)} bytes, uncompressed, exceed the maximum of {VALIDATED_BYTES_MAXIMUM // 2**20} MiB"
            " for validate=1; without it the body can be stored",
        )
    known = find_known(submission)
    refuse_conflict(known)
    if not _VALIDATIONS.acquire(blocking=False):
        raise Problem(
            503,
            "busy",
            "Try again later",
            f"{VALIDATIONS_MAXIMUM} results are being validated: try again",
            headers={"Retry-After": "2"},
        )
    try:
        return Answer(200, validate(submission, known))
    finally:
        _VALIDATIONS.release()


def _answer_batch(post: Post, body: bytes, host_id: int) -> Answer:
    lines = split_batch(post, body)
    quota = settings.HOST_QUOTA_PER_HOUR
    if len(lines) > quota:
        raise Problem(
            413,
            "batch-too-long",
            "Batch too long",
            f"{len(lines)} lines exceed the quota of {quota} results per hour; nothing was stored",
        )
    # The first is counted with the token.
    _LIMITS.count(host_id, len(lines) - 1)
    stored = store_batch(lines, host_id)
    if stored.refused == len(lines):
        return Answer(422, describe_refused_batch(stored, body), content_type=PROBLEM_TYPE)
    return Answer(207 if stored.refused else 200, stored, is_new=bool(stored.received))


def _answer_result(result: AcceptResult, host_id: int) -> Answer:
    refuse_conflict(result)
    url = f"/api/v1/submissions/{result.id}"
    body = ReceiptAnswer(
        id=result.id,
        state=result.state,
        url=url,
        page=f"/uploads/{result.id}/",
        rejected=_describe_rejected(host_id),
    )
    if result.outcome == AcceptOutcome.NEW:
        return Answer(202, body, {"Location": url}, is_new=True)
    return Answer(200, body, {"Location": url, "Idempotency-Replayed": "true"})


def _answer_attempt(attempt: Attempt, token: ApiToken) -> Answer:
    result = store_attempt(attempt)
    refuse_conflict(result)
    name = quote(token.host.name if token.host else "", safe="")
    url = f"/api/v1/hosts/{name}/attempts"
    body = ReceiptAnswer(
        id=result.id,
        state=result.state,
        url=url,
        page=f"/hosts/{name}/#attempts",
        rejected=_describe_rejected(attempt.host_id),
    )
    if result.outcome == AcceptOutcome.NEW:
        return Answer(202, body, {"Location": url})
    return Answer(200, body, {"Location": url, "Idempotency-Replayed": "true"})


def _describe_rejected(host_id: int) -> RejectedResultsAnswer | UnsetType:
    rejected = read_rejected(host_id)
    if rejected is None:
        return UNSET
    last = LastRejectedAnswer(
        id=rejected.pk,
        received_at=rejected.received_at,
        title=rejected.reason_code,
        detail=rejected.reason[:300],
        page=f"/uploads/{rejected.pk}/",
    )
    return RejectedResultsAnswer(count=rejected.count, since=rejected.since, last=last)


_VALIDATIONS = BoundedSemaphore(VALIDATIONS_MAXIMUM)
_LIMITS = Limits()
