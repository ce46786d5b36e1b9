"""Base class of API views."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

import orjson
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.http import http_date
from rest_framework import serializers
from rest_framework.exceptions import APIException, ParseError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchapp.framework.api.json import JsonRenderer
from benchapp.framework.api.problems import Problem, bad_value
from benchapp.framework.api.request_limits import RequestLimit, add_limit_headers, count_request


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
