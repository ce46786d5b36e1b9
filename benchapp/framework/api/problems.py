"""All API errors in one format: application/problem+json (RFC 9457)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeVar

import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, OperationalError, connection
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from msgspec import UNSET, Meta, UnsetType
from psycopg.errors import QueryCanceled
from psycopg_pool import PoolTimeout
from rest_framework import exceptions
from rest_framework.response import Response

from benchapp.framework.api.answers import ApiAnswer, dump_json
from benchapp.framework.read.pagination import BadCursor
from benchapp.framework.readiness import DATABASE_AWAY
from benchapp.framework.write.conflicts import BadValue, is_conflict
from benchapp.watched_postgresql.base import DatabaseHangs

log = structlog.get_logger(__name__)

CONTENT_TYPE: Final = "application/problem+json"
# Crash recovery of PostgreSQL on a laptop takes some seconds; cron retries later in any case.
RETRY_AFTER_S: Final = 15


class ProblemAnswer(ApiAnswer, kw_only=True, frozen=True):
    """RFC 9457."""

    type: Annotated[str, Meta(extra_json_schema={"format": "uri-reference"})]
    title: str
    status: int
    code: Annotated[str, Meta(description="stable; documented at /docs/errors")]
    detail: Annotated[str, Meta(description="what is wrong and where")]
    pointer: Annotated[
        str | UnsetType, Meta(description="JSON pointer or query parameter, where one is at fault")
    ] = UNSET
    valid: Annotated[Sequence[str] | UnsetType, Meta(description="the valid names of query parameters")] = (
        UNSET
    )
    request_id: Annotated[
        str | UnsetType, Meta(description="as in the header X-Request-ID and in the server's log")
    ] = UNSET


class Problem(Exception):
    """An error response.

    code: stable, documented in `problem_codes.PROBLEMS`; detail: what is wrong and where. pointer: JSON pointer into
    the body, or the name of the query parameter, if one of them is wrong; valid: the valid names instead.
    """

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str,
        *,
        pointer: str | None = None,
        headers: Mapping[str, str] | None = None,
        valid: Sequence[str] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.pointer = pointer
        self.headers: Mapping[str, str] = headers or {}
        self.valid = valid


ErrorProblems = Mapping[type[Exception], Callable[[Any], Problem]]


def not_found(noun: str, detail: object) -> Problem:
    """Return the problem for an object that does not exist, or that the sender may not see. noun: "run"."""
    return Problem(404, "not-found", f"No such {noun}", str(detail))


def bad_value(detail: object, *, pointer: str | None = None) -> Problem:
    """Return the problem for an invalid value of a body. pointer: JSON pointer, by default that of a BadValue."""
    if isinstance(detail, BadValue):
        pointer = detail.pointer or None
    return Problem(400, "value-invalid", "Bad value", str(detail), pointer=pointer)


def bad_parameter(name: str, detail: object) -> Problem:
    """Return the problem for an invalid value of a query parameter."""
    return Problem(400, "parameter-invalid", "Bad query parameter", f"{name}: {detail}", pointer=name)


def state_differs(detail: object) -> Problem:
    """Return the problem for an action that the state of an object does not allow."""
    return Problem(409, "state-differs", "Not in this state", str(detail))


@contextmanager
def map_errors(problems: ErrorProblems) -> Iterator[None]:
    """Raise the problems of exceptions by their classes, as `{UnknownRun: partial(not_found, "run")}`."""
    try:
        yield
    except tuple(problems) as error:
        make = next(make for kind, make in problems.items() if isinstance(error, kind))
        raise make(error) from error


def describe_problem(problem: Problem) -> ProblemAnswer:
    """Return the body of application/problem+json."""
    return ProblemAnswer(
        type=f"/docs/errors#{problem.code}",
        title=problem.title,
        status=problem.status,
        code=problem.code,
        detail=problem.detail,
        pointer=UNSET if problem.pointer is None else problem.pointer,
        valid=UNSET if problem.valid is None else problem.valid,
        request_id=structlog.contextvars.get_contextvars().get("request_id", UNSET),
    )


def answer_problem(problem: Problem) -> HttpResponse:
    """Return the response for a problem outside DRF."""
    return HttpResponse(
        dump_json(describe_problem(problem)),
        status=problem.status,
        content_type=CONTENT_TYPE,
        headers={"Cache-Control": "no-store", **problem.headers},
    )


def answer_exception(exception: Exception, context: Mapping[str, Any]) -> Response:
    """Return the response for any exception of a view; an unexpected one is logged with its traceback, 500."""
    problem = find_problem(exception)
    if problem is None:
        # The edge of the process: DRF sends whatever response this returns.
        log.exception("api.fault", exc_info=exception)
        problem = Problem(500, "fault", "Internal server error", "internal error; see the server log")
    return Response(
        describe_problem(problem),
        status=problem.status,
        headers={"Cache-Control": "no-store", **problem.headers},
        content_type=CONTENT_TYPE,
    )


def answer_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Return the response for an unknown API path."""
    return answer_problem(_not_found(f"unknown path {request.path[:200]}; /api/v1/ lists the resources"))


def database_away() -> Problem:
    """Return the problem for an unavailable database."""
    return Problem(
        503,
        "database-away",
        "Try again later",
        "the database is not available; try again",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def database_busy() -> Problem:
    """Return the problem for a transaction that conflicted repeatedly with others; the database itself is fine."""
    return Problem(
        503,
        "busy",
        "Try again later",
        "conflict with a concurrent change; nothing was stored. Try again",
        headers={"Retry-After": "1"},
    )


def is_too_slow(exception: Exception) -> bool:
    """Return whether PostgreSQL canceled a statement after BENCHAPP_STATEMENT_TIMEOUT_S."""
    return isinstance(exception, OperationalError) and isinstance(exception.__cause__, QueryCanceled)


def is_hanging(exception: Exception) -> bool:
    """Return whether the database does not answer at all; another attempt would only wait again."""
    return any(isinstance(error, PoolTimeout | DatabaseHangs) for error in (exception, exception.__cause__))


def database_too_slow() -> Problem:
    """Return the problem for a query that exceeded the statement timeout."""
    return Problem(
        503,
        "database-too-slow",
        "Query timeout",
        "the query was canceled because it took too long; narrow the filter or the time range",
    )


def find_problem(exception: Exception) -> Problem | None:
    """Return the problem for an exception; None for an unexpected one."""
    if isinstance(exception, Problem):
        return exception
    if is_too_slow(exception):
        log.warning("database.too_slow")
        return database_too_slow()
    if is_conflict(exception):
        log.warning("database.conflict", error=str(exception)[:200])
        return database_busy()
    if isinstance(exception, DATABASE_AWAY):
        return database_away()
    if isinstance(exception, BadCursor):
        return Problem(400, "cursor-invalid", "Bad cursor", str(exception), pointer="cursor")
    if isinstance(exception, DataError):
        # A value that no column can store, such as a NUL in a path: no such object can exist.
        return _not_found("not found: the name has characters or numbers that are not allowed")
    if isinstance(exception, Http404):
        return _not_found(str(exception) or "not found")
    if isinstance(exception, DjangoPermissionDenied):
        return Problem(403, "forbidden", "Not allowed", str(exception) or "not allowed")
    if isinstance(exception, RequestDataTooBig):
        return Problem(413, "body-too-big", "Body too big", str(exception))
    if isinstance(exception, SuspiciousOperation):
        return Problem(400, "request-invalid", "Bad request", str(exception) or "the request is not valid")
    if isinstance(exception, exceptions.APIException):
        return _translate(exception)
    return None


def _not_found(detail: str) -> Problem:
    return Problem(404, "not-found", "Not found", detail)


def _translate(exception: exceptions.APIException) -> Problem:
    """Return the problem for one of DRF's own exceptions."""
    if isinstance(exception, exceptions.ValidationError):
        pointer, detail = next(_walk(exception.detail, ""), ("", "the values are not valid"))
        return Problem(
            400, "value-invalid", "Bad value", f"{pointer or 'body'}: {detail}", pointer=pointer or None
        )
    code, title = _TRANSLATED.get(type(exception), ("request-invalid", "Bad request"))
    return Problem(exception.status_code, code, title, str(exception.detail), headers=_headers_of(exception))


_TRANSLATED: Final[dict[type[exceptions.APIException], tuple[str, str]]] = {
    exceptions.ParseError: ("body-not-json", "Body is not JSON"),
    exceptions.AuthenticationFailed: ("token-missing", "Not signed in"),
    exceptions.NotAuthenticated: ("token-missing", "Not signed in"),
    exceptions.PermissionDenied: ("forbidden", "Not allowed"),
    exceptions.NotFound: ("not-found", "Not found"),
    exceptions.MethodNotAllowed: ("method-not-allowed", "Method not allowed"),
    exceptions.NotAcceptable: ("not-acceptable", "Not acceptable"),
    exceptions.UnsupportedMediaType: ("media-type-unsupported", "Media type not supported"),
    exceptions.Throttled: ("quota-exceeded", "Too many requests"),
}


def _headers_of(exception: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(exception, "auth_header", None):
        headers["WWW-Authenticate"] = str(challenge)
    if (wait := getattr(exception, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait))
    return headers


def _walk(detail: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield (pointer, sentence) for every error of DRF's nested structure, in order."""
    if isinstance(detail, Mapping):
        for name, part in detail.items():
            yield from _walk(part, pointer if name == "non_field_errors" else f"{pointer}/{name}")
    elif isinstance(detail, list):
        for part in detail:
            yield from _walk(part, pointer)
    else:
        yield pointer, str(detail)


def no_host(name: str) -> Problem:
    """Return the problem for an unknown host name."""
    return not_found("host", f"host {name[:100]!r} does not exist")


_Result = TypeVar("_Result")


def answer_unavailable_database(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answer 503 with Retry-After while the database is not available; must be last in MIDDLEWARE.

    Uses Django's `process_exception` hook: get_response has already turned exceptions into 500.
    """
    answer: Any = _pass(get_response)
    answer.process_exception = answer_database_away
    return answer  # type: ignore[no-any-return]


def answer_database_away(request: HttpRequest, exception: Exception) -> HttpResponse | None:
    """Return 503 for an unavailable database, a conflict or a statement timeout; None for any other exception."""
    if not isinstance(exception, DATABASE_AWAY):
        return None
    if is_too_slow(exception):
        return _answer_too_slow(request)
    if is_conflict(exception):
        return _answer_busy(request)
    log.warning("database.away", path=request.path, error=str(exception)[:200])
    refresh_connections(exception)
    if request.path.startswith("/api/"):
        return answer_problem(database_away())
    # Without the request: the navigation bar would query the signed-in user.
    page = render_to_string("503.html", {"retry_after_s": RETRY_AFTER_S})
    headers = {"Retry-After": str(RETRY_AFTER_S), "Cache-Control": "no-store"}
    return HttpResponse(page, status=503, headers=headers)


def _answer_too_slow(request: HttpRequest) -> HttpResponse:
    log.warning("database.too_slow", path=request.path)
    if request.path.startswith("/api/"):
        return answer_problem(database_too_slow())
    page = render_to_string("503.html", {"is_too_slow": True})
    return HttpResponse(page, status=503, headers={"Cache-Control": "no-store"})


def _answer_busy(request: HttpRequest) -> HttpResponse:
    log.warning("database.conflict", path=request.path)
    problem = database_busy()
    if request.path.startswith("/api/"):
        return answer_problem(problem)
    page = render_to_string("503.html", {"is_busy": True, "retry_after_s": problem.headers["Retry-After"]})
    return HttpResponse(page, status=503, headers={**problem.headers, "Cache-Control": "no-store"})


def _pass(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def answer(request: HttpRequest) -> HttpResponseBase:
        return get_response(request)

    return answer


def call_with_retry(function: Callable[[], _Result]) -> _Result:
    """Call an idempotent function; again if its pooled connection was lost, as after a restart of PostgreSQL."""
    try:
        return function()
    except (OperationalError, InterfaceError) as error:
        refresh_connections(error)
        if is_hanging(error):
            raise
        return function()


def refresh_connections(exception: Exception) -> None:
    """Drop broken connections from the pool, so that one request fails instead of sixteen.

    Called after a failure instead of testing each connection before use, which costs every POST a round trip. Not
    while the database hangs: each test would wait, and connections work again when the database does.
    """
    connection.close()
    pool = getattr(connection, "pool", None)
    if pool is not None and not is_hanging(exception):
        pool.check()


PROBLEMS: Final[dict[str, str]] = {
    "backlog-full": "Too many submissions are waiting to be processed. Nothing was stored; send it again later.",
    "batch-refused": "No line of the batch was taken; `items` has the reason of each. Nothing was stored.",
    "batch-too-long": (
        "The batch has more than 200 lines, or more than the host may send in an hour. Nothing was stored; send it in"
        " parts."
    ),
    "body-broken": "The body ended early or its chunks are malformed. Nothing was stored; send it again.",
    "body-empty": "The body is empty. Check that the file was written and that fio printed its results.",
    "body-length": "The body is shorter or longer than Content-Length. Send it again.",
    "body-not-json": "The body is not valid JSON.",
    "body-too-big": "The body exceeds the size limit, as sent or uncompressed.",
    "body-too-slow": "The body did not arrive in time. Send it again.",
    "body-wrapped": "The body is a form, or compressed without Content-Encoding: gzip. `detail` names what to send.",
    "busy": "Too many requests of this kind, or a concurrent change. Nothing was stored; try again after Retry-After.",
    "cursor-invalid": "The cursor does not belong to this list. Use `next` or `next_cursor` of its previous page.",
    "database-away": "PostgreSQL is not available. Nothing was stored; try again after Retry-After.",
    "database-too-slow": "The query was canceled because it took too long. Narrow the filter or the time range.",
    "disk-low": "The server's disk is nearly full. Nothing was stored; try again later.",
    "encoding-unsupported": "Content-Encoding or Transfer-Encoding is not supported. Use gzip or none.",
    "envelope-invalid": "A field of the envelope is not valid; `pointer` names it.",
    "envelope-kind": "The kind of the envelope is unknown.",
    "envelope-not-json": "The envelope is not valid JSON.",
    "envelope-schema": "The schema of the envelope is unknown. Update the server if the agent is newer.",
    "fault": "Internal server error; the server log has details. Nothing was stored.",
    "forbidden": "Not allowed; `detail` names the required role or scope.",
    "format-unavailable": "The server cannot write this format; `detail` names what it lacks.",
    "gzip-invalid": "The body is not valid gzip.",
    "gzip-trailing": "The body has bytes after the end of the gzip data. Send one gzip member.",
    "gzip-truncated": "The gzip data is truncated. Send it again.",
    "host-exists": "A host with this name is enrolled and has a valid token. Revoke the token, or use another name.",
    "host-name-invalid": "Not a valid host name: letters, digits, dots, hyphens and underscores; `me` is reserved.",
    "host-name-not-allowed": "The enrollment token is for other host names: see its pattern on the page Tokens.",
    "host-retired": "The host is retired. Reactivate it on its settings page, or enroll it again.",
    "id-taken": "A submission with this id and another body exists. Use a new id for each result.",
    "idempotency-key-differs": "The header Idempotency-Key differs from the id of the envelope.",
    "idempotency-key-invalid": "The header Idempotency-Key is not a valid UUID.",
    "media-type-unsupported": "Content-Type is not supported. Use application/json, for prices text/csv.",
    "member-unknown": "A member of the JSON body is unknown; `detail` lists the valid ones.",
    "method-not-allowed": "The method is not supported for this URL; the header Allow lists the supported ones.",
    "not-acceptable": "No supported format matches the header Accept.",
    "not-found": "Not found, or not visible to you.",
    "output-expired": "The raw output of this run was deleted after its retention period; the run itself still exists.",
    "parameter-invalid": "The value of a query parameter is not valid, or not UTF-8; `pointer` names it.",
    "parameter-repeated": "A query parameter occurs more than once.",
    "parameter-unknown": "A query parameter is unknown; `valid` lists the valid ones.",
    "quota-exceeded": "A limit was reached, such as submissions per hour. Try again after Retry-After.",
    "report-unreadable": "The current parser cannot read this report in the stored body; `detail` gives the reason.",
    "reported-invalid": "A member of a document of published numbers is not valid; `pointer` names it.",
    "request-invalid": "The request is not valid; `detail` gives the reason.",
    "run-request-refused": "The host does not allow this run, or its quota is used up; `detail` gives the reason.",
    "scope-insufficient": "The scope of the token does not allow this.",
    "state-differs": "The current state does not allow this; `detail` names the state. Read the resource again.",
    "time-zone-unknown": "`time_zone` is not the name of a time zone, such as Europe/Berlin.",
    "token-expired": "The token has expired. Ask an admin for a new one.",
    "token-malformed": "Not a valid token. Check that it was copied completely.",
    "token-missing": "Send a token as `Authorization: Bearer bench_…`, or sign in.",
    "token-revoked": "The token was revoked. Ask an admin for a new one.",
    "token-unknown": "The token is unknown. Check that it belongs to this server.",
    "value-invalid": "A value of the JSON body is not valid; `pointer` names it.",
}
