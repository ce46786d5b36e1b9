"""Charts and series are read from a replica of PostgreSQL, if there is one (DATABASE_REPLICA_URL).

Who reads, streams, and what follows a write of the same browser are read from the primary.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

import structlog
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from benchapp.models.limits import limitable_request, read_limit

log = structlog.get_logger(__name__)

REPLICA: Final = "replica"
_PATHS: Final = re.compile(
    r"/(?:api/v1/)?(?:scaling|matrix|history|compare|comparison|series|points|dimensions)(?:[/.]|\Z)"
)
# Within this time after a write, a browser reads the primary.
_WROTE: Final = "benchapp_wrote"
_WROTE_S: Final = 30
# A replica that cannot be reached is not tried for so long.
_AWAY_S: Final = 10.0
# A query that took longer is not sent to the primary, too.
_SLOW_S: Final = 5.0


def read_from_replica(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answer GET requests of charts and series from the replica; of people who are limited to pools never."""
    if REPLICA not in settings.DATABASES:
        raise MiddlewareNotUsed
    away_until_s = 0.0

    def answer(request: HttpRequest) -> HttpResponseBase:
        nonlocal away_until_s
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            response = get_response(request)
            if settings.SESSION_COOKIE_NAME in request.COOKIES:
                secure = settings.SESSION_COOKIE_SECURE
                response.set_cookie(
                    _WROTE, "1", max_age=_WROTE_S, httponly=True, samesite="Lax", secure=secure
                )
            return response
        if (
            _WROTE in request.COOKIES
            or read_limit() is not None
            or not _PATHS.match(request.path_info)
            or monotonic() < away_until_s
        ):
            return get_response(request)
        try:
            connections[REPLICA].ensure_connection()
        except DatabaseError as error:
            away_until_s = monotonic() + _AWAY_S
            log.warning("replica.away", error=str(error)[:200])
            return get_response(request)
        # Not later, and from the replica: a session that has ended.
        request.user.is_authenticated  # noqa: B018
        started = monotonic()
        # The limit of a token ends on the connection on which it began.
        with _reading(connections[REPLICA]), limitable_request():
            response = get_response(request)
        if response.status_code == 503 and monotonic() - started < _SLOW_S:
            # It ended, or a query conflicts with what it replays.
            away_until_s = monotonic() + _AWAY_S
            log.warning("replica.failed", path=request.path)
            connections[REPLICA].close()
            return get_response(request)
        return response

    return answer


@contextmanager
def on_primary() -> Iterator[None]:
    """Read and write the primary within, also where a request reads the replica."""
    primary = getattr(connections[DEFAULT_DB_ALIAS], "primary", None)
    if primary is None:
        yield
        return
    with _reading(primary):
        yield


@contextmanager
def _reading(to: Any) -> Iterator[None]:
    before = connections[DEFAULT_DB_ALIAS]
    if to.alias == REPLICA:
        to.primary = before
    connections[DEFAULT_DB_ALIAS] = to
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = before
