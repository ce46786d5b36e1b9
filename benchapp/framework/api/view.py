"""The class of all views of the API, and the limits of what a reader may ask at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.http import http_date
from rest_framework import serializers
from rest_framework.exceptions import APIException, ParseError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from benchapp.accounts.write.accounts import network_of
from benchapp.accounts.write.throttle import Counted, WindowQuota
from benchapp.framework.api.answers import JsonRenderer
from benchapp.framework.api.permissions import read_api_token
from benchapp.framework.api.problems import Problem, answer_database_away, bad_value
from benchapp.framework.readiness import DATABASE_AWAY
from benchapp.framework.write.audit import find_client_address
from benchapp.models import FOLLOWED, follow_name

_WINDOW_S: Final = 60
# A key takes a few hundred bytes. Further ones share one count.
_QUOTA: Final = WindowQuota(window_s=_WINDOW_S, keys_maximum=10_000)
ClientKey = tuple[str, object]
_COUNTED: Final = "_benchapp_counted"
# Supervisors ask for the first two. The agent is a file, which all hosts of a network fetch after an update. Posts of
# results count for their host.
_UNCOUNTED_PAGES: Final = frozenset({"healthz", "readyz", "agent_archive", "api_submission_batch", "api_fio"})


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
    counted = _count(find_client(request) if is_authenticated else _key_of_address())
    # For the headers of the answer.
    setattr(request, _COUNTED, counted)
    if counted is not None and counted.is_over:
        raise Problem(
            429,
            "quota-exceeded",
            "Too many requests",
            f"the limit of {settings.REQUESTS_PER_MINUTE} requests per minute is reached: try again later",
            headers={"Retry-After": str(counted.seconds_left)},
        )


class PageLimit:
    """The middleware that counts pages; the API counts its own requests. Behind `name_reader_and_writer`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response."""
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> HttpResponse | None:
        """Return 429 above the limit, before the view reads anything."""
        is_api = hasattr(view, "cls")
        is_uncounted = request.resolver_match and request.resolver_match.url_name in _UNCOUNTED_PAGES
        if is_api or is_uncounted or not settings.REQUESTS_PER_MINUTE:
            return None
        try:
            user_key = _key_of_user(request)
        except DATABASE_AWAY as error:
            return answer_database_away(request, error)
        counted = _count(user_key or _key_of_address())
        if counted is None or not counted.is_over:
            return None
        context = {
            "maximum": settings.REQUESTS_PER_MINUTE,
            "wait_s": counted.seconds_left,
            "is_signed_in": user_key is not None,
        }
        # Without the request: the navigation bar would query.
        page = render_to_string("429.html", context)
        headers = {"Retry-After": str(counted.seconds_left), "Cache-Control": "no-store"}
        return HttpResponse(page, status=429, headers=headers)


def _count(key: ClientKey) -> Counted | None:
    """Count a request; None without a limit."""
    maximum = settings.REQUESTS_PER_MINUTE
    return _QUOTA.count(key, maximum=maximum) if maximum else None


def add_limit_headers(request: Request, response: HttpResponseBase) -> None:
    """Add the limit and what is left of it (draft-ietf-httpapi-ratelimit-headers); nothing without a limit."""
    counted: Counted | None = getattr(request, _COUNTED, None)
    if counted is None:
        return
    maximum = settings.REQUESTS_PER_MINUTE
    response["RateLimit-Policy"] = f'"requests";q={maximum};w={_WINDOW_S}'
    response["RateLimit"] = f'"requests";r={max(0, maximum - counted.count)};t={counted.seconds_left}'


def find_client(request: Request) -> ClientKey:
    """Return whom limits count a request for: its token, its signed-in user, or its address."""
    token = read_api_token(request)
    if token is not None:
        return "token", token.pk
    return _key_of_user(request) or _key_of_address()


def _key_of_user(request: HttpRequest | Request) -> ClientKey | None:
    return ("user", request.user.pk) if request.user and request.user.is_authenticated else None


def _key_of_address() -> ClientKey:
    return "address", network_of(find_client_address())


def read_body(request: Request, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Return the validated members of a JSON body; Problem 400 for an invalid or unknown one."""
    if not isinstance(request.data, dict):
        raise bad_value("the body must be a JSON object")
    unknown = sorted(set(request.data) - set(kind().fields))
    if unknown:
        raise Problem(
            400,
            "member-unknown",
            "Unknown member",
            f"unknown member {unknown[0][:80]!r}. Valid members: {', '.join(kind().fields)}",
            pointer=f"/{unknown[0][:80]}",
        )
    serializer = kind(data=request.data)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


class JsonParser(BaseParser):
    """JSON by orjson: at most 1024 levels, no NaN."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """Parse the body; ParseError if it is not valid JSON."""
        try:
            return orjson.loads(stream.read())
        except orjson.JSONDecodeError as error:
            raise ParseError(f"the body is not JSON: {error}") from error


class WhateverIsAccepted(BaseContentNegotiation):
    """Ignore the header Accept: the parameter `format` selects the format where there are several."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return the parser for the body's type."""
        named = (request.content_type or "application/json").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == named), None)

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Return the first renderer."""
        return renderers[0], renderers[0].media_type


@dataclass(frozen=True, slots=True)
class Deprecation:
    """A deprecated resource. since: when; removed_at: not earlier. link: address of what replaces it."""

    since: datetime
    removed_at: datetime
    link: str


def add_deprecation_headers(deprecation: Deprecation, answer: HttpResponseBase) -> None:
    """Add Deprecation (RFC 9745), Sunset (RFC 8594) and a Link to what replaces the resource."""
    answer["Deprecation"] = f"@{int(deprecation.since.timestamp())}"
    answer["Sunset"] = http_date(deprecation.removed_at.timestamp())
    link = f'<{deprecation.link}>; rel="deprecation"'
    answer["Link"] = f"{answer['Link']}, {link}" if answer.has_header("Link") else link


class ApiView(APIView):
    """A resource: authenticate, validate, one call, respond."""

    parser_classes = [JsonParser]
    renderer_classes = [JsonRenderer]
    content_negotiation_class = WhateverIsAccepted
    throttle_classes = [RequestLimit]
    # Set it when an operation is deprecated, and `deprecated` in its schema (docs/api.md, "Versions").
    deprecation: Deprecation | None = None

    def perform_authentication(self, request: Request) -> None:
        """Authenticate; a request that is refused counts for its address."""
        try:
            super().perform_authentication(request)
        except (APIException, Problem):
            count_request(request, is_authenticated=False)
            raise

    def permission_denied(
        self, request: Request, message: str | None = None, code: str | None = None
    ) -> NoReturn:
        """Count the request, and refuse it."""
        count_request(request)
        super().permission_denied(request, message, code)

    def handle_exception(self, exc: Exception) -> Response:
        """Answer an error; a former name of a host or series is answered as its present one."""
        is_unknown = isinstance(exc, Problem) and exc.status == 404
        for kind, part in FOLLOWED.items() if is_unknown else ():
            name = str(self.kwargs.get(part, "")).lower()
            if not name or (present := follow_name(kind, name)) == name:
                continue
            self.kwargs[part] = type(self.kwargs[part])(present)
            try:
                act = getattr(self, str(self.request.method).lower())
                answer: Response = act(self.request, **self.kwargs)
            except Exception as problem:
                return super().handle_exception(problem)
            return answer
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Add the headers of limits and of a deprecation."""
        answer = super().finalize_response(request, response, *args, **kwargs)
        add_limit_headers(request, answer)
        if self.deprecation is not None:
            add_deprecation_headers(self.deprecation, answer)
        return answer

    def options(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Return the header Allow only; the schema describes the rest."""
        return Response(status=204)
