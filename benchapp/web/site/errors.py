"""What people read when something is not there, not allowed, or broken."""

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say that the request cannot be understood; without the frame, which needs a host name that is known."""
    reason = str(exception) if isinstance(exception, BadRequest) else ""
    return HttpResponse(render_to_string("400.html", {"reason": reason}), status=400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say which role it takes."""
    return render(request, "403.html", {"exception": str(exception or "")}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say that there is nothing here; with our reason where a view gave one."""
    # For an unknown path Django gives a dict of the patterns that it tried: nothing for a reader.
    given = exception.args[0] if isinstance(exception, Http404) and exception.args else None
    return render(request, "404.html", {"reason": given if isinstance(given, str) else ""}, status=404)


def fault(request: HttpRequest) -> HttpResponse:
    """Say that it is our fault; without the frame, as what it asks for may be what failed."""
    return HttpResponse(render_to_string("500.html"), status=500)
