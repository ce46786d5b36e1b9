"""503 with Retry-After instead of 500 while PostgreSQL is not available."""

from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string

from benchapp.framework.api.problems import (
    DATABASE_AWAY,
    RETRY_AFTER_S,
    answer_problem,
    database_away,
    database_busy,
    database_too_slow,
    is_hanging,
    is_too_slow,
)
from benchapp.framework.write.conflicts import is_conflict

log = structlog.get_logger(__name__)

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
