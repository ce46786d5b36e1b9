"""Who may look and who may change."""

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
    """Let in whoever is signed in, and everybody where BENCHAPP_PUBLIC_READ is on."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if settings.PUBLIC_READ or request.user.is_authenticated:
            return view(request, *args, **kwargs)
        return redirect_to_sign_in(request)

    return guarded


def needs_role(role: Role) -> Callable[[View], View]:
    """Let in whoever has this role or a higher one; others read which role it takes."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_sign_in(request)
            if not request.user.has_role(role):
                raise PermissionDenied(
                    f"This needs the role {role.value}; you are {request.user.role}. An admin can change that."
                )
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def redirect_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Send to the sign-in page, and back here afterwards where this page can be asked for again."""
    here = request.get_full_path() if request.method in ("GET", "HEAD") else ""
    query = f"?{urlencode({'next': here})}" if here and here != "/" else ""
    return HttpResponseRedirect(reverse("sign_in") + query)


def choose_next(request: HttpRequest, default: str) -> str:
    """Return where to go after signing in: `next` where it is a page of ours, else the default view."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None, require_https=request.is_secure())
    return wanted if wanted.startswith("/") and is_ours else reverse(default)


def read_person(request: HttpRequest) -> User:
    """Return who is signed in, behind a decorator that lets in nobody else."""
    if not isinstance(request.user, User):
        raise PermissionDenied("Sign in first.")
    return request.user


def can(user: object, role: Role) -> bool:
    """Say whether this visitor, signed in or not, may do what the role may."""
    return isinstance(user, User) and user.is_authenticated and user.has_role(role)
