"""Access control of pages."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
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
