"""Every error that a machine is told, in one shape: application/problem+json (RFC 9457)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from psycopg.errors import QueryCanceled
from psycopg_pool import PoolTimeout
from rest_framework import exceptions
from rest_framework.response import Response

from benchapp.pipeline.conflicts import is_conflict
from benchapp.queries.pagination import BadCursor

log = structlog.get_logger(__name__)

CONTENT_TYPE: Final = "application/problem+json"
# What tells that PostgreSQL is away rather than that a query is wrong.
DATABASE_AWAY: Final = (OperationalError, InterfaceError, PoolTimeout)
# Crash recovery of a laptop's PostgreSQL takes some seconds; cron comes back later in any case.
RETRY_AFTER_S: Final = 15


class Problem(Exception):
    """An answer that is an error.

    code: stable, and explained in `catalogue.PROBLEMS`; detail: a sentence that names what is wrong and where.
    pointer: JSON pointer into the body, or the name of the query parameter, where one of them is at fault.
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
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.pointer = pointer
        self.headers: Mapping[str, str] = headers or {}
        self.extra: Mapping[str, Any] = extra or {}


def problem_body(problem: Problem) -> dict[str, Any]:
    """Return the members of application/problem+json."""
    body: dict[str, Any] = {
        "type": f"/docs/errors#{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
    }
    if problem.pointer is not None:
        body["pointer"] = problem.pointer
    return body | dict(problem.extra)


def answer_problem(problem: Problem) -> HttpResponse:
    """Answer a problem outside DRF."""
    return HttpResponse(
        orjson.dumps(problem_body(problem)),
        status=problem.status,
        content_type=CONTENT_TYPE,
        headers={"Cache-Control": "no-store", **problem.headers},
    )


def answer_exception(exception: Exception, context: Mapping[str, Any]) -> Response:
    """Answer whatever a view raised; a fault of ours is logged with its traceback and answered with 500."""
    problem = find_problem(exception)
    if problem is None:
        # The edge of the process: DRF hands over what it caught and goes on with what it gets.
        log.exception("api.fault", exc_info=exception)
        problem = Problem(500, "fault", "Our fault", "this failed on our side; the server's log says more")
    return Response(
        problem_body(problem),
        status=problem.status,
        headers={"Cache-Control": "no-store", **problem.headers},
        content_type=CONTENT_TYPE,
    )


def answer_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer a path of the API that leads nowhere."""
    return answer_problem(
        _not_found(f"there is nothing at {request.path[:200]}; /api/v1/ lists what there is")
    )


def database_away() -> Problem:
    """Return the problem that says: not now, try again."""
    return Problem(
        503,
        "database-away",
        "Try again later",
        "the database does not answer just now: try again",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def database_busy() -> Problem:
    """Return the problem of a transaction that met others again and again: nothing is wrong with the database."""
    return Problem(
        503,
        "busy",
        "Try again later",
        "others changed the same at the same time; nothing was stored: try again",
        headers={"Retry-After": "1"},
    )


def is_too_slow(exception: Exception) -> bool:
    """Say whether PostgreSQL stopped a statement that took longer than one may (BENCHAPP_STATEMENT_TIMEOUT_S)."""
    return isinstance(exception, OperationalError) and isinstance(exception.__cause__, QueryCanceled)


def database_too_slow() -> Problem:
    """Return the problem that says: not this, ask for less."""
    return Problem(
        503,
        "database-too-slow",
        "Too much to ask",
        "the database was stopped as this took too long: ask for less, by a narrower filter or a shorter time",
    )


def find_problem(exception: Exception) -> Problem | None:
    """Return the problem that an exception stands for, None where it is a fault of ours."""
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
        # A value that no column can hold, such as a NUL in a path: nothing of that name can be here.
        return _not_found("there is nothing under a name that holds such characters or numbers")
    if isinstance(exception, Http404):
        return _not_found(str(exception) or "there is nothing here")
    if isinstance(exception, DjangoPermissionDenied):
        return Problem(403, "forbidden", "Not allowed", str(exception) or "you may not do this")
    if isinstance(exception, RequestDataTooBig):
        return Problem(413, "body-too-big", "Body too big", str(exception))
    if isinstance(exception, SuspiciousOperation):
        return Problem(400, "request-invalid", "Bad request", str(exception) or "this request makes no sense")
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
