"""Answer a POST of results: check the sender, read the body, store it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import Final
from urllib.parse import quote

from django.conf import settings

from benchapp.framework.api.answers import ApiAnswer, ReceiptAnswer
from benchapp.framework.api.permissions import authenticate_bearer
from benchapp.framework.api.problems import CONTENT_TYPE as PROBLEM_TYPE
from benchapp.framework.api.problems import Problem
from benchapp.intake.api.batch import (
    describe_refused_batch,
    refuse_conflict,
    split_batch,
    store_batch,
)
from benchapp.intake.api.body import unpack_wire
from benchapp.intake.api.documents import Post, read_post
from benchapp.intake.api.hints import BATCH
from benchapp.intake.api.limits import Limits
from benchapp.intake.posts.submissions import (
    VALIDATED_BYTES_MAXIMUM,
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submission,
    find_known,
    store_attempt,
)
from benchapp.models import ApiToken, Attempt
from benchapp.models import Scope as TokenScope

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


def authenticate_sender(authorization: str) -> ApiToken:
    """Return the token of a host that may post; raises Problem 401 or 403."""
    token = authenticate_bearer(authorization)
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
    token = authenticate_sender(post.headers.get("authorization", ""))
    assert token.host_id is not None
    _LIMITS.check(token.host_id)
    body = unpack_wire(post.wire, limit=settings.UNPACKED_LIMIT_BYTES)
    if post.path == BATCH:
        return _answer_batch(post, body.unpacked, token.host_id)
    read = read_post(post, body, token.host_id)
    if isinstance(read, Attempt):
        return _answer_attempt(read, token)
    if not read.is_validated:
        return _answer_result(accept_submission(read.submission))
    return _answer_validation(read.submission, validate=validate)


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


def _answer_result(result: AcceptResult) -> Answer:
    refuse_conflict(result)
    url = f"/api/v1/submissions/{result.id}"
    body = ReceiptAnswer(id=result.id, state=result.state, url=url, page=f"/uploads/{result.id}/")
    if result.outcome == AcceptOutcome.NEW:
        return Answer(202, body, {"Location": url}, is_new=True)
    return Answer(200, body, {"Location": url, "Idempotency-Replayed": "true"})


def _answer_attempt(attempt: Attempt, token: ApiToken) -> Answer:
    result = store_attempt(attempt)
    refuse_conflict(result)
    name = quote(token.host.name if token.host else "", safe="")
    url = f"/api/v1/hosts/{name}/attempts"
    body = ReceiptAnswer(id=result.id, state=result.state, url=url, page=f"/hosts/{name}/#attempts")
    if result.outcome == AcceptOutcome.NEW:
        return Answer(202, body, {"Location": url})
    return Answer(200, body, {"Location": url, "Idempotency-Replayed": "true"})


_VALIDATIONS = BoundedSemaphore(VALIDATIONS_MAXIMUM)
_LIMITS = Limits()
