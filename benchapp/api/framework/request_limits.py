"""Limit of API requests per token, user or client address, counted in this process."""

from typing import Any, Final

from django.conf import settings
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from benchapp.api.framework.permissions import is_signed_in, read_api_token
from benchapp.api.framework.problems import Problem
from benchapp.pipeline.access.accounts import network_of
from benchapp.pipeline.access.rate_limit import Counted, WindowQuota
from benchapp.pipeline.audit import find_client_address

_WINDOW_S: Final = 60
# A key takes a few hundred bytes. Further ones share one count.
_QUOTA: Final = WindowQuota(window_s=_WINDOW_S, keys_maximum=10_000)
_COUNTED: Final = "_benchapp_counted"


class RequestLimit(BaseThrottle):
    """BENCHAPP_REQUESTS_PER_MINUTE for each token, signed-in user or, without both, address; 0: no limit.

    Checked after authentication and permissions. A request above the limit is refused before its query, and not
    counted. ApiView counts the requests that authentication or permissions refuse.
    """

    def allow_request(self, request: Request, view: Any) -> bool:
        """Return True; Problem 429 above the limit."""
        count_request(request)
        return True


def count_request(request: Request, *, is_authenticated: bool = True) -> None:
    """Count a request; Problem 429 above the limit.

    is_authenticated: False if authentication refused it; then it counts for its address.
    """
    maximum = settings.REQUESTS_PER_MINUTE
    if not maximum:
        return
    counted = _QUOTA.count(_find_key(request) if is_authenticated else _key_of_address(), maximum=maximum)
    # For the headers of the answer.
    setattr(request, _COUNTED, counted)
    if counted.is_over:
        raise Problem(
            429,
            "quota-exceeded",
            "Too many requests",
            f"the limit of {maximum} API requests per minute is reached: try again later",
            headers={"Retry-After": str(counted.seconds_left)},
        )


def add_limit_headers(request: Request, response: HttpResponseBase) -> None:
    """Add the limit and what is left of it (draft-ietf-httpapi-ratelimit-headers); nothing without a limit."""
    counted: Counted | None = getattr(request, _COUNTED, None)
    if counted is None:
        return
    maximum = settings.REQUESTS_PER_MINUTE
    response["RateLimit-Policy"] = f'"requests";q={maximum};w={_WINDOW_S}'
    response["RateLimit"] = f'"requests";r={max(0, maximum - counted.count)};t={counted.seconds_left}'


def _find_key(request: Request) -> tuple[str, object]:
    token = read_api_token(request)
    if token is not None:
        return "token", token.pk
    if is_signed_in(request):
        return "user", request.user.pk
    return _key_of_address()


def _key_of_address() -> tuple[str, str]:
    return "address", network_of(find_client_address())
