"""Say "try again" and not "error" while PostgreSQL is away."""

from collections.abc import Callable
from typing import Any

import structlog
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.decorators import sync_only_middleware

from benchapp.api.framework.problems import (
    DATABASE_AWAY,
    RETRY_AFTER_S,
    answer_problem,
    database_away,
    database_busy,
    database_too_slow,
    is_too_slow,
)
from benchapp.pipeline.conflicts import is_conflict

log = structlog.get_logger(__name__)


@sync_only_middleware
def answer_unavailable_database(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Turn a database that is away into 503 with Retry-After; stands last in MIDDLEWARE.

    By Django's `process_exception` hook: a middleware's get_response has turned exceptions into 500 already.

    Sync only, and on purpose: under ASGI the last middleware decides for all before it. One that can be async leaves
    each of Django's with two hops to a thread, 14 for a request; this way the whole chain is one.
    """
    answer: Any = _pass(get_response)
    answer.process_exception = answer_database_away
    return answer  # type: ignore[no-any-return]


def answer_database_away(request: HttpRequest, exception: Exception) -> HttpResponse | None:
    """Answer 503 for an exception that says that PostgreSQL is away, or was asked too much; None for any other."""
    if not isinstance(exception, DATABASE_AWAY):
        return None
    if is_too_slow(exception):
        return _answer_too_slow(request)
    if is_conflict(exception):
        return _answer_busy(request)
    log.warning("database.away", path=request.path, error=str(exception)[:200])
    refresh_connections()
    if request.path.startswith("/api/"):
        return answer_problem(database_away())
    # Without the request: the frame of other pages asks who is signed in, and that is a query.
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


def refresh_connections() -> None:
    """Throw out the pool's connections that died with PostgreSQL, so that one request meets that and not sixteen.

    Called after a failure instead of testing each connection before its use: that costs every POST a round trip.
    """
    connection.close()
    pool = getattr(connection, "pool", None)
    if pool is not None:
        pool.check()
