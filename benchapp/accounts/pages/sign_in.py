"""Sign-in, sign-out, account setup."""

import hashlib
from datetime import timedelta
from threading import BoundedSemaphore
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, login, logout
from django.core.exceptions import PermissionDenied, ValidationError
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from benchapp.accounts.pages.forms import SetUpForm, SignInForm
from benchapp.accounts.pages.oidc import read_sign_out_url
from benchapp.accounts.write.accounts import (
    InvitationRefused,
    SignInSource,
    accept_invitation,
    count_sign_in_attempt,
    find_invitation,
    forget_sign_in_attempt,
    record_sign_in,
)
from benchapp.accounts.write.oidc_accounts import read_provider
from benchapp.accounts.write.password_reset import has_reset_by_email
from benchapp.accounts.write.throttle import LimitReached
from benchapp.framework.pages.access import choose_next
from benchapp.framework.pages.security import read_client_address
from benchapp.models import Role, User

# Argon2 takes 100 MiB for each attempt, and under ASGI each request has a thread: two at once, the rest wait.
HASHING: Final = BoundedSemaphore(2)
_WRONG = "Wrong user name or password, or the account is deactivated."
_KNOWN_BROWSER: Final = "known_browser"
_KNOWN_BROWSER_LIFETIME: Final = timedelta(days=90)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in with user name and password."""
    if request.user.is_authenticated:
        return redirect(choose_next(request, "home"))
    form, provider = SignInForm(request.POST or None), read_provider()
    status, wait_s = 200, 0
    if request.method == "POST":
        status = 400
        if not settings.LOCAL_SIGN_IN:
            raise PermissionDenied("This server has no sign-in with a password.")
        if form.is_valid():
            try:
                user = _authenticate(request, form)
            except LimitReached as problem:
                form.add_error(None, f"{str(problem).capitalize()}.")
                status, wait_s = 429, problem.wait_s
            else:
                if user is not None:
                    login(request, user)
                    record_sign_in(user)
                    return remember_browser(redirect(choose_next(request, "home")), user)
                form.add_error(None, _WRONG)
    context = {
        "form": form,
        "next": choose_next(request, "home"),
        "next_query": urlencode({"next": choose_next(request, "home")}),
        "has_local_sign_in": settings.LOCAL_SIGN_IN,
        "provider_name": provider.name if provider else "",
        "has_reset_by_email": has_reset_by_email(),
        "has_people": User.objects.filter(is_active=True).exists(),
    }
    answer = render(request, "accounts/sign_in.html", context, status=status)
    if wait_s:
        answer["Retry-After"] = str(wait_s)
    return answer


def _authenticate(request: HttpRequest, form: SignInForm) -> User | None:
    """Return the authenticated user, None for wrong credentials. Raises LimitReached."""
    username = form.cleaned_data["username"]
    source = SignInSource(username, read_client_address(request), _read_known_browser(request, username))
    # Counted behind the lock: a hundred people who sign in at the same time do not meet a limit of failures.
    with HASHING:
        count_sign_in_attempt(source)
        user = authenticate(request, **form.cleaned_data)
    if user is not None:
        forget_sign_in_attempt(source)
    return user


def remember_browser(answer: HttpResponse, user: User) -> HttpResponse:
    """Set a cookie so that failed attempts from other browsers do not lock out this one."""
    answer.set_signed_cookie(
        _KNOWN_BROWSER,
        _digest_name(user.username),
        salt=_KNOWN_BROWSER,
        max_age=_KNOWN_BROWSER_LIFETIME,
        path=reverse("sign_in"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return answer


def _read_known_browser(request: HttpRequest, username: str) -> str:
    """Return the cookie of a browser in which this user signed in before, else ""."""
    name = request.get_signed_cookie(
        _KNOWN_BROWSER, default="", salt=_KNOWN_BROWSER, max_age=_KNOWN_BROWSER_LIFETIME
    )
    return request.COOKIES[_KNOWN_BROWSER] if name == _digest_name(username) else ""


def _digest_name(username: str) -> str:
    return hashlib.sha256(username.encode()).hexdigest()


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session; the session at a provider ends on its page."""
    sign_out_url, provider = read_sign_out_url(request), read_provider()
    logout(request)
    if sign_out_url and provider:
        context = {"sign_out_url": sign_out_url, "provider_name": provider.name}
        return render(request, "accounts/signed_out.html", context)
    messages.success(request, "You are signed out.")
    return redirect("sign_in")


@never_cache
@sensitive_post_parameters("password", "password_again")
@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, secret: str) -> HttpResponse:
    """Create the account of a one-time link and sign in."""
    invitation = find_invitation(secret) if settings.LOCAL_SIGN_IN else None
    if invitation is None:
        return render(request, "accounts/setup_refused.html", status=410)
    form = SetUpForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and (user := _accept(secret, form)) is not None:
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
        record_sign_in(user)
        messages.success(request, f"Welcome, {user.username}. Your role is {user.role}.", extra_tags="good")
        return remember_browser(redirect("home"), user)
    context = {"form": form, "role": Role(invitation.role), "is_first": invitation.created_by_id is None}
    return render(request, "accounts/setup.html", context, status=400 if form.errors else 200)


def _accept(secret: str, form: Form) -> User | None:
    values = form.cleaned_data
    try:
        return accept_invitation(secret, values["username"], password=values["password"])
    except InvitationRefused as refusal:
        form.add_error(None, str(refusal))
    except ValidationError as error:
        for field, problems in _by_field(error).items():
            form.add_error(field if field in form.fields else None, problems)
    return None


def _by_field(error: ValidationError) -> dict[str, list[str]]:
    """Return the messages by field; password validators name no field."""
    if hasattr(error, "error_dict"):
        return error.message_dict
    return {"password": error.messages}
