"""Who may open a page, and the pages that refuse."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from benchapp.models import Role, User

View = Callable[..., HttpResponseBase]


def may_read(view: View) -> View:
    """Allow signed-in users, and everybody if BENCHAPP_PUBLIC_READ is on."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if settings.PUBLIC_READ or request.user.is_authenticated:
            return view(request, *args, **kwargs)
        return redirect_to_sign_in(request)

    return guarded


def needs_role(role: Role) -> Callable[[View], View]:
    """Allow users with this role or a higher one; others get 403 with the required role."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_sign_in(request)
            if not request.user.has_role(role):
                raise PermissionDenied(
                    f"This requires the role {role.value}; your role is {request.user.role}. An admin can change it."
                )
            return view(request, *args, **kwargs)

        guarded.role = role  # type: ignore[attr-defined]  # for the search (pages.py)
        return guarded

    return decorate


def redirect_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the sign-in page, with `next` for GET and HEAD."""
    here = request.get_full_path() if request.method in ("GET", "HEAD") else ""
    query = f"?{urlencode({'next': here})}" if here and here != "/" else ""
    return HttpResponseRedirect(reverse("sign_in") + query)


def choose_next(request: HttpRequest, default: str) -> str:
    """Return the address after sign-in: `next` if it is on this server, else the default view."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None, require_https=request.is_secure())
    return wanted if wanted.startswith("/") and is_ours else reverse(default)


def read_person(request: HttpRequest) -> User:
    """Return the signed-in user, for views that require one."""
    if not isinstance(request.user, User):
        raise PermissionDenied("Sign in first.")
    return request.user


def find_person_id(request: HttpRequest) -> int | None:
    """Return the id of the signed-in user; None without one."""
    return request.user.pk if isinstance(request.user, User) else None


def can(user: object, role: Role) -> bool:
    """Return whether this user has the role; False if not signed in."""
    return isinstance(user, User) and user.is_authenticated and user.has_role(role)


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
