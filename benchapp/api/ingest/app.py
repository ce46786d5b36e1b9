"""The hot path: POST /api/v1/submissions, its batch, and /api/v1/fio, handled in front of Django.

Django's middleware and thread hops cost more under ASGI than all the rest of a POST; this small application has
one hop to a thread, that checks the token and commits one INSERT through Django's connection pool. A token that was
not seen within the last minute has a separate hop before a byte of the body is read.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from threading import BoundedSemaphore
from typing import Final, TypeVar

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from benchapp.api.framework.answers import ApiAnswer, ReceiptAnswer
from benchapp.api.framework.authentication import authenticate_bearer, require_bearer
from benchapp.api.framework.database_errors import refresh_connections
from benchapp.api.framework.json import dump_json
from benchapp.api.framework.parameters import refuse_undecodable
from benchapp.api.framework.problems import CONTENT_TYPE as PROBLEM_TYPE
from benchapp.api.framework.problems import (
    DATABASE_AWAY,
    Problem,
    database_busy,
    describe_problem,
    is_hanging,
)
from benchapp.api.ingest.batch import (
    describe_refused_batch,
    refuse_conflict,
    split_batch,
    store_batch,
)
from benchapp.api.ingest.body import (
    BODIES,
    HeldBody,
    Receive,
    Scope,
    Send,
    discard_rest,
    read_wire,
    unpack_wire,
)
from benchapp.api.ingest.documents import Post, read_post
from benchapp.api.ingest.hints import BATCH, FIO, SUBMISSIONS
from benchapp.api.ingest.limits import Limits, try_later
from benchapp.models import ApiToken
from benchapp.models import Scope as TokenScope
from benchapp.pipeline.conflicts import is_conflict
from benchapp.pipeline.intake.submissions import (
    VALIDATED_BYTES_MAXIMUM,
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submission,
    find_known,
)
from benchapp.queue import wake_up

log = structlog.get_logger(__name__)

_Result = TypeVar("_Result")

PATHS: Final = (SUBMISSIONS, FIO, BATCH)
# Eight concurrent requests saturate two cores and PostgreSQL; more only queue.
_THREADS: Final = 8
# Concurrent validations of a process, of its threads: each parses, and compares with existing series.
VALIDATIONS_MAXIMUM: Final = 2
# Concurrent posts share one wake-up: the worker claims in batches.
_WAKE_UP_DELAY_S: Final = 0.02
# How long a valid token is taken for valid while its body is read, and how many are remembered (1 MB).
_RECENT_S: Final = 60.0
_RECENT_MAXIMUM: Final = 10_000


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


def admit_sender(authorization: str) -> ApiToken:
    """Return the token of a host that may post now; raises Problem 401, 403, 429 or 503."""
    token = authenticate_bearer(authorization)
    if token.scope != TokenScope.INGEST or token.host_id is None:
        raise Problem(
            403,
            "scope-insufficient",
            "Token may not post results",
            f"{token} cannot post results: use a host token",
        )
    _LIMITS.check(token.host_id)
    return token


def answer_post(post: Post, token: ApiToken | None = None, *, validate: Validate) -> Answer:
    """Check, store, answer; token: of a sender that was admitted for this. Synchronous; raises Problem."""
    if token is None:
        token = admit_sender(post.headers.get("authorization", ""))
    assert token.host_id is not None
    body = unpack_wire(post.wire, limit=settings.UNPACKED_LIMIT_BYTES)
    if post.path == BATCH:
        return _answer_batch(post, body.unpacked, token.host_id)
    read = read_post(post, body, token.host_id)
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


async def answer_intake(scope: Scope, receive: Receive, send: Send, *, validate: Validate) -> None:
    """Serve the ASGI requests whose path is in PATHS."""
    with BODIES.hold() as held:
        try:
            answer = await _take_in(scope, receive, held, validate=validate)
        except Problem as problem:
            answer = make_problem_answer(problem)
    if answer.is_new:
        _WAKE_UPS.ask()
    await send_answer(send, answer)
    if not held.is_whole:
        await discard_rest(receive, limit=settings.BODY_LIMIT_BYTES)


async def _take_in(scope: Scope, receive: Receive, held: HeldBody, *, validate: Validate) -> Answer:
    """Check the sender, then read the body and store it; raises Problem."""
    if scope["method"] != "POST":
        raise Problem(
            405, "method-not-allowed", "Method not allowed", "POST results here", headers={"Allow": "POST"}
        )
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = _read_query(scope)
    authorization = headers.get("authorization", "")
    # Not in a thread: requests without a token must not cost a thread or a connection to PostgreSQL.
    require_bearer(authorization)
    token: ApiToken | None = None
    if not _RECENT.is_known(authorization):
        admitted = await work(partial(admit_sender, authorization))
        if isinstance(admitted, Answer):
            return admitted
        token = admitted
        _RECENT.add(authorization)
    wire = await read_wire(scope, receive, limit=settings.BODY_LIMIT_BYTES, held=held)
    post = Post(scope["path"], query, headers, wire)
    return await work(partial(answer_post, post, token, validate=validate))


async def work(task: Callable[[], _Result]) -> _Result | Answer:
    """Call a synchronous function in a thread; return its answer, or the answer to its exception."""
    # With the context of the request: its id is in the log lines of the thread.
    call = partial(copy_context().run, _work_in_thread, task)
    return await asyncio.get_running_loop().run_in_executor(_executor, call)


def _work_in_thread(task: Callable[[], _Result]) -> _Result | Answer:
    # The traceback of an exception on the event loop would keep the body in memory.
    try:
        try:
            return task()
        except (OperationalError, InterfaceError) as error:
            # The pooled connection may be dead after a restart of PostgreSQL. Submission is idempotent: retry.
            refresh_connections(error)
            if is_hanging(error):
                raise
            return task()
    except Problem as problem:
        return make_problem_answer(problem)
    except DATABASE_AWAY as error:
        if is_conflict(error):
            return make_problem_answer(database_busy())
        log.warning("intake.database_away", error=str(error)[:200])
        return make_problem_answer(
            try_later("database-away", "the database does not answer just now; nothing was stored: try again")
        )
    except Exception:
        # Process edge: log the bug and let the sender keep its file.
        log.exception("intake.failed")
        return make_problem_answer(
            Problem(
                500, "fault", "Internal error", "internal server error; nothing was stored: try again later"
            )
        )
    finally:
        connection.close()  # back to the pool


def _read_query(scope: Scope) -> str:
    try:
        query = str(scope["query_string"].decode())
    except UnicodeDecodeError:
        raise Problem(
            400, "parameter-invalid", "Bad query parameter", "the query is not UTF-8: percent-encode it"
        ) from None
    refuse_undecodable(query)
    return query


def _answer_result(result: AcceptResult) -> Answer:
    refuse_conflict(result)
    url = f"/api/v1/submissions/{result.id}"
    body = ReceiptAnswer(id=result.id, state=result.state, url=url, page=f"/uploads/{result.id}/")
    if result.outcome == AcceptOutcome.NEW:
        return Answer(202, body, {"Location": url}, is_new=True)
    return Answer(200, body, {"Location": url, "Idempotency-Replayed": "true"})


def make_problem_answer(problem: Problem) -> Answer:
    """Convert a problem to an answer."""
    return Answer(problem.status, describe_problem(problem), problem.headers, "application/problem+json")


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a complete answer."""
    body = dump_json(answer.body)
    headers = {
        "Content-Type": answer.content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        # Not handled by Django, whose middleware adds the security headers of pages.
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        **answer.headers,
    }
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})


class _RecentTokens:
    """Tokens that were valid a moment ago: their bodies are read at once, and the token is checked with the INSERT.

    This saves a busy sender one of two hops to a thread. Nothing is stored by it: a token that was revoked meanwhile
    gets its body read, and a 401.
    """

    def __init__(self) -> None:
        self._known_until: dict[bytes, float] = {}

    def add(self, authorization: str) -> None:
        """Remember a valid token, as its digest."""
        if len(self._known_until) >= _RECENT_MAXIMUM:
            self._known_until.clear()
        self._known_until[_digest(authorization)] = time.monotonic() + _RECENT_S

    def is_known(self, authorization: str) -> bool:
        """Say whether the token was valid within the last minute."""
        return self._known_until.get(_digest(authorization), 0.0) > time.monotonic()


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()


class _WakeUps:
    """Publishes one wake-up for concurrent posts."""

    def __init__(self) -> None:
        self._is_asked = False

    def ask(self) -> None:
        """Schedule a wake-up; call on the event loop."""
        if self._is_asked:
            return
        self._is_asked = True
        asyncio.get_running_loop().call_later(_WAKE_UP_DELAY_S, self._publish)

    def _publish(self) -> None:
        self._is_asked = False
        asyncio.get_running_loop().run_in_executor(_publisher, wake_up)


_executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="intake")
_publisher = ThreadPoolExecutor(1, thread_name_prefix="wake-up")
_VALIDATIONS = BoundedSemaphore(VALIDATIONS_MAXIMUM)
_LIMITS = Limits()
_RECENT = _RecentTokens()  # for the event loop alone
_WAKE_UPS = _WakeUps()
