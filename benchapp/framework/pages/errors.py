"""Error pages."""

from collections.abc import Sequence

import structlog
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string


class BadParameters(Exception):
    """Parameters of an address are invalid; the message has a sentence for each."""


def require_valid(errors: Sequence[str]) -> None:
    """Raise BadParameters if there are errors."""
    if errors:
        raise BadParameters(" ".join(errors).removesuffix("."))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400, without the navigation bar, which needs a valid host name."""
    reason = str(exception) if isinstance(exception, BadRequest) else ""
    return HttpResponse(render_to_string("400.html", {"reason": reason}), status=400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403 with the required role."""
    return render(request, "403.html", {"exception": str(exception or "")}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404, with the reason if a view gave one."""
    # For an unknown path Django passes a dict of URL patterns, which is not shown.
    given = exception.args[0] if isinstance(exception, Http404) and exception.args else None
    return render(request, "404.html", {"reason": given if isinstance(given, str) else ""}, status=404)


def fault(request: HttpRequest) -> HttpResponse:
    """500, without the navigation bar, whose queries may be what failed."""
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    return HttpResponse(render_to_string("500.html", {"request_id": request_id}), status=500)
