"""The hot path: POST /api/v1/submissions and /api/v1/fio, answered beside Django's stack.

Django's middleware and thread hops cost more under ASGI than all the rest of a POST; this small application has
one hop, to a thread that checks the token and commits one INSERT through Django's connection pool.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from benchapp.api.authentication import authenticate_bearer
from benchapp.api.guard import Body, Receive, Scope, Send, SenderLeft, Wire, read_wire, unpack_wire
from benchapp.api.limits import Limits, try_later
from benchapp.api.problems import DATABASE_AWAY, Problem, database_busy, problem_body
from benchapp.api.unavailable import refresh_connections
from benchapp.models import ApiToken, Kind
from benchapp.models import Scope as TokenScope
from benchapp.pipeline.conflicts import is_conflict
from benchapp.pipeline.envelope import BadEnvelope, load_document, type_envelope
from benchapp.pipeline.intake import Arrival, Outcome, Receipt, accept_submission
from benchapp.pipeline.layout import BadLayout
from benchapp.pipeline.parameters import BadParameter, read_parameters
from benchapp.pipeline.peek import find_fault_at_door
from benchapp.pipeline.reported import is_reported, read_reported
from benchapp.tasks import wake_up

log = structlog.get_logger(__name__)

PATHS: Final = {"/api/v1/submissions": Kind.ENVELOPE, "/api/v1/fio": Kind.FIO}
# Eight requests in hand keep two cores and PostgreSQL busy; more only queue inside.
_THREADS: Final = 8
# Bodies that wait for a thread, 8 MiB each at most; cron on hundreds of hosts at one minute stays below.
_IN_HAND_MAXIMUM: Final = 256
# Posts that come together need one wake-up between them: the worker claims in batches.
_WAKE_UP_DELAY_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Post:
    """One request with its body whole."""

    path: str
    query: str
    headers: Mapping[str, str]
    wire: Wire


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and JSON of a response."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


def answer_post(post: Post) -> Answer:
    """Authenticate, validate, store, answer. Synchronous; raises Problem."""
    token = authenticate_bearer(post.headers.get("authorization", ""))
    if token.scope != TokenScope.INGEST or token.host_id is None:
        raise Problem(
            403,
            "scope-insufficient",
            "Token may not post results",
            f"{token} posts no results: use a host's token",
        )
    _LIMITS.check(token.host_id)
    arrival = _read_arrival(post, unpack_wire(post.wire, limit=settings.UNPACKED_LIMIT_BYTES), token)
    return _answer_receipt(accept_submission(arrival))


async def answer_intake(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the ASGI requests whose path is in PATHS."""
    try:
        if scope["method"] != "POST":
            raise Problem(
                405,
                "method-not-allowed",
                "Method not allowed",
                "POST results here",
                headers={"Allow": "POST"},
            )
        wire = await read_wire(scope, receive, limit=settings.BODY_LIMIT_BYTES)
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        post = Post(scope["path"], _read_query(scope), headers, wire)
        answer = await _answer_soon(post)
    except SenderLeft:
        return
    except Problem as problem:
        answer = _answer_problem(problem)
    if answer.status == 202:
        _WAKE_UPS.ask()
    await _send(send, answer)


async def _answer_soon(post: Post) -> Answer:
    """Answer in a thread; refuse at once when more wait for one than memory should hold."""
    global _in_hand
    if _in_hand >= _IN_HAND_MAXIMUM:
        raise try_later("busy", f"{_IN_HAND_MAXIMUM} results are being taken in just now: try again")
    _in_hand += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_executor, _answer_in_thread, post)
    finally:
        _in_hand -= 1


def _answer_in_thread(post: Post) -> Answer:
    try:
        try:
            return answer_post(post)
        except (OperationalError, InterfaceError):
            # The connection may have died in the pool, with a PostgreSQL that is back since. Arrival is idempotent.
            refresh_connections()
            return answer_post(post)
    except Problem as problem:
        return _answer_problem(problem)
    except DATABASE_AWAY as error:
        if is_conflict(error):
            return _answer_problem(database_busy())
        log.warning("intake.database_away", error=str(error)[:200])
        return _answer_problem(
            try_later("database-away", "the database does not answer just now; nothing was stored: try again")
        )
    except Exception:
        # The process edge: a fault of ours must reach the log and leave the sender its file.
        log.exception("intake.failed")
        return _answer_problem(
            Problem(500, "fault", "Our fault", "this failed on our side; nothing was stored: try again later")
        )
    finally:
        connection.close()  # back to the pool


def _read_query(scope: Scope) -> str:
    try:
        return str(scope["query_string"].decode())
    except UnicodeDecodeError:
        raise Problem(
            400, "parameter-invalid", "Bad query parameter", "the query is no UTF-8: percent-encode it"
        ) from None


def _read_arrival(post: Post, body: Body, token: ApiToken) -> Arrival:
    kind = PATHS[post.path]
    if not body.unpacked.strip():
        raise Problem(
            400,
            "body-empty",
            "Empty body",
            "the body is empty: was the file written, did fio print anything?",
        )
    key = _read_idempotency_key(post.headers.get("idempotency-key"))
    assert token.host_id is not None
    if kind == Kind.ENVELOPE:
        kind, document_id = _check_document(body.unpacked, key)
        return Arrival(token.host_id, kind, body.unpacked, document_id, body.packed)
    try:
        parameters = read_parameters(parse_qsl(post.query, keep_blank_values=True))
    except BadParameter as error:
        raise Problem(400, error.code, "Bad query parameter", str(error), pointer=error.parameter) from error
    except BadLayout as error:
        raise Problem(
            400, "parameter-invalid", "Bad query parameter", str(error), pointer=error.pointer
        ) from error
    fault = find_fault_at_door(body.unpacked)
    if fault is not None:
        raise Problem(422, fault.code, "No output of fio", fault.detail)
    return Arrival(token.host_id, kind, body.unpacked, key, body.packed, parameters)


def _check_document(body: bytes, key: UUID | None) -> tuple[Kind, UUID]:
    """Return what a document is and its id: an agent's envelope, or numbers that someone published."""
    try:
        document = load_document(body)
        if is_reported(document):
            kind, document_id = Kind.REPORTED, read_reported(document).id
        else:
            kind, document_id = Kind.ENVELOPE, type_envelope(document).id
    except BadEnvelope as error:
        status = 400 if error.code == "envelope-not-json" else 422
        raise Problem(status, error.code, "Bad document", str(error), pointer=error.pointer) from error
    if key is not None and key != document_id:
        raise Problem(
            422,
            "idempotency-key-differs",
            "Two ids",
            f"Idempotency-Key is {key} and the document's id is {document_id}: they must be one",
            pointer="/id",
        )
    return kind, document_id


def _read_idempotency_key(value: str | None) -> UUID | None:
    if value is None:
        return None
    try:
        return UUID(value.strip().strip('"'))
    except ValueError:
        raise Problem(
            400,
            "idempotency-key-invalid",
            "Bad Idempotency-Key",
            f"Idempotency-Key {value[:80]!r} is no UUID",
        ) from None


def _answer_receipt(receipt: Receipt) -> Answer:
    url = f"/api/v1/submissions/{receipt.id}"
    body = {"id": str(receipt.id), "state": receipt.state.value, "url": url}
    if receipt.outcome == Outcome.NEW:
        return Answer(202, body, {"Location": url})
    if receipt.outcome == Outcome.REPLAYED:
        return Answer(200, body, {"Location": url, "Idempotency-Replayed": "true"})
    raise Problem(
        409,
        "id-taken",
        "Id taken",
        f"submission {receipt.id} exists with another body: an id is made once for each result",
    )


def _answer_problem(problem: Problem) -> Answer:
    return Answer(problem.status, problem_body(problem), problem.headers, "application/problem+json")


async def _send(send: Send, answer: Answer) -> None:
    body = orjson.dumps(answer.body)
    headers = {
        "Content-Type": answer.content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        # Answered before Django, whose middleware adds the policies of pages.
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


class _WakeUps:
    """Publishes one wake-up for all posts that came within a moment."""

    def __init__(self) -> None:
        self._is_asked = False

    def ask(self) -> None:
        """Have a wake-up published soon; call on the event loop."""
        if self._is_asked:
            return
        self._is_asked = True
        asyncio.get_running_loop().call_later(_WAKE_UP_DELAY_S, self._publish)

    def _publish(self) -> None:
        self._is_asked = False
        asyncio.get_running_loop().run_in_executor(_publisher, wake_up)


_in_hand = 0  # counted on the event loop alone
_executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="intake")
_publisher = ThreadPoolExecutor(1, thread_name_prefix="wake-up")
_LIMITS = Limits()
_WAKE_UPS = _WakeUps()


async def send_problem(send: Send, problem: Problem) -> None:
    """Answer an ASGI request with a problem."""
    await _send(send, _answer_problem(problem))
