"""Sign in and out, account set-up: with a password, a link for a lost one, or an OpenID Connect provider.

OpenID Connect is the authorization code flow with PKCE, state and nonce. Authlib checks signature, issuer, audience,
expiry and nonce of the ID token. Each request makes a client, which reads the metadata and keys of the provider anew,
so that rotated keys need no restart. Authlib is imported at the first use.
"""

import hashlib
from datetime import timedelta
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, login, logout
from django.core.exceptions import PermissionDenied, ValidationError
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.accounts.pages.forms import LoginForm, NewPasswordForm, SetUpForm, SignInForm
from benchapp.accounts.write.accounts import (
    InvitationRefused,
    OidcProvider,
    SignInRefused,
    SignInSource,
    accept_invitation,
    count_sign_in_attempt,
    find_invitation,
    find_or_create_account,
    forget_sign_in_attempt,
    network_of,
    read_provider,
    record_sign_in,
)
from benchapp.accounts.write.password_reset import (
    count_reset_request,
    find_reset_user,
    has_reset_by_email,
    reset_password,
)
from benchapp.accounts.write.throttle import LimitReached, count_attempt
from benchapp.framework.pages.access import choose_next
from benchapp.framework.pages.security import read_client_address
from benchapp.framework.queue import queue_reset_links
from benchapp.models import Role, User

if TYPE_CHECKING:
    from authlib.integrations.django_client import DjangoOAuth2App

log = structlog.get_logger(__name__)

LIMIT_S: Final = 10
# Each start writes a session.
STARTS_IN_10_MINUTES: Final = 100
# No symmetric ones: the client secret would sign. No "none".
_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
_NEXT: Final = "oidc_next"
_SIGN_OUT: Final = "oidc_sign_out"


class _BadProvider(Exception):
    """An answer of the provider that cannot be used; the message gives the reason."""


@never_cache
@require_safe
def start_oidc(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider."""
    provider = _get_provider()
    counted = count_attempt(
        "oidc start",
        network_of(read_client_address(request)),
        window=timedelta(minutes=10),
        now=timezone.now(),
    )
    if counted.count > STARTS_IN_10_MINUTES:
        return _refuse(request, "Too many attempts to sign in. Try again later.", status=429)
    try:
        client = _make_client(provider)
        answer: HttpResponse = client.authorize_redirect(request, _write_callback())
    except _list_errors() as error:
        log.warning("oidc.unavailable", issuer=provider.issuer, error=str(error)[:300])
        return _refuse(request, f"{provider.name} cannot be reached. Try again later.", status=502)
    request.session[_NEXT] = choose_next(request, "home")
    return answer


@never_cache
@require_safe
def finish_oidc(request: HttpRequest) -> HttpResponse:
    """Sign in the person with whom the provider returns."""
    provider = _get_provider()
    wanted = str(request.session.pop(_NEXT, ""))
    try:
        client = _make_client(provider)
        claims, sign_out = _read_claims(client, request, provider)
        user = find_or_create_account(claims, provider)
    except SignInRefused as refusal:
        log.info("oidc.refused", reason=str(refusal)[:200])
        return _refuse(request, f"Not signed in: {refusal}.", status=403)
    except _list_errors() as error:
        log.warning("oidc.failed", issuer=provider.issuer, error=str(error)[:300])
        return _refuse(request, f"{provider.name} did not confirm the sign-in. Try again.", status=400)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    record_sign_in(user)
    request.session[_SIGN_OUT] = sign_out
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None, require_https=request.is_secure())
    return redirect(wanted if wanted.startswith("/") and is_ours else reverse("home"))


def read_sign_out_url(request: HttpRequest) -> str:
    """Return the address that ends the session at the provider, "" if there is none."""
    return str(request.session.get(_SIGN_OUT, ""))


def _get_provider() -> OidcProvider:
    provider = read_provider()
    if provider is None:
        raise Http404("This server has no OpenID Connect provider.")
    return provider


def _write_callback() -> str:
    return f"{settings.PUBLIC_URL}{reverse('finish_oidc')}"


def _make_client(provider: OidcProvider) -> "DjangoOAuth2App":
    from authlib.integrations.django_client import OAuth  # 15 MiB

    client: DjangoOAuth2App = OAuth().register(
        "oidc",
        client_id=provider.client_id,
        client_secret=provider.client_secret or None,
        server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": provider.scopes,
            "code_challenge_method": "S256",
            "default_timeout": LIMIT_S,
            **({} if provider.client_secret else {"token_endpoint_auth_method": "none"}),
        },
    )
    metadata = client.load_server_metadata()
    if metadata.get("issuer") != provider.issuer:
        raise _BadProvider(f"the issuer is {metadata.get('issuer')!r}, expected {provider.issuer!r}")
    offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
    client.server_metadata["id_token_signing_alg_values_supported"] = [
        each for each in offered if each in _ALGORITHMS
    ]
    return client


def _read_claims(
    client: "DjangoOAuth2App", request: HttpRequest, provider: OidcProvider
) -> tuple[dict[str, Any], str]:
    """Return the claims of the verified ID token, and the address that ends the session at the provider."""
    token = client.authorize_access_token(
        request,
        claims_options={
            "iss": {"essential": True, "value": provider.issuer},
            "aud": {"essential": True, "value": provider.client_id},
            "exp": {"essential": True},
            "sub": {"essential": True},
            "nonce": {"essential": True},
        },
    )
    if "userinfo" not in token:
        raise _BadProvider("no ID token")
    claims = dict(token["userinfo"])
    needed = {provider.username_claim, *((provider.groups_claim,) if provider.roles else ())}
    if needed - set(claims) and client.server_metadata.get("userinfo_endpoint"):
        more = dict(client.userinfo(token=token))
        if more.get("sub") != claims["sub"]:
            raise _BadProvider("the user info is of another subject")
        claims = {**more, **claims}
    end = client.server_metadata.get("end_session_endpoint", "")
    query = {
        "id_token_hint": token["id_token"],
        "client_id": provider.client_id,
        "post_logout_redirect_uri": f"{settings.PUBLIC_URL}{reverse('sign_in')}",
    }
    return claims, f"{end}{'&' if '?' in end else '?'}{urlencode(query)}" if end else ""


def _list_errors() -> tuple[type[Exception], ...]:
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError
    from requests import RequestException

    return (AuthlibBaseError, JoseError, RequestException, _BadProvider, ValueError, KeyError, RuntimeError)


def _refuse(request: HttpRequest, text: str, *, status: int) -> HttpResponse:
    return render(request, "accounts/oidc_refused.html", {"text": text}, status=status)


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


@never_cache
@require_http_methods(["GET", "POST"])
def request_password_link(request: HttpRequest) -> HttpResponse:
    """Ask for a link to set a new password by e-mail.

    The answer does not depend on whether the account exists: the worker looks it up.
    """
    if not has_reset_by_email():
        raise Http404("This server sends no links for lost passwords by e-mail.")
    form, status, wait_s = LoginForm(request.POST or None), 200, 0
    if request.method == "POST":
        status = 400
        if form.is_valid():
            typed = form.cleaned_data["login"]
            try:
                count_reset_request(typed, read_client_address(request))
            except LimitReached as problem:
                form.add_error(None, f"{str(problem).capitalize()}.")
                status, wait_s = 429, problem.wait_s
            else:
                if queue_reset_links(typed):
                    return render(request, "accounts/password_link_requested.html")
                form.add_error(None, "No mail can be sent at present. Try again later.")
                status = 503
    answer = render(request, "accounts/request_password_link.html", {"form": form}, status=status)
    if wait_s:
        answer["Retry-After"] = str(wait_s)
    return answer


@never_cache
@sensitive_post_parameters("password", "password_again")
@require_http_methods(["GET", "POST"])
def set_new_password(request: HttpRequest, secret: str) -> HttpResponse:
    """Set a new password with a one-time link, and sign in."""
    user = find_reset_user(secret) if settings.LOCAL_SIGN_IN else None
    if user is None:
        return render(request, "accounts/setup_refused.html", status=410)
    form = NewPasswordForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with HASHING:
                user = reset_password(secret, form.cleaned_data["password"])
        except InvitationRefused as refusal:
            form.add_error(None, str(refusal))
        except ValidationError as error:
            form.add_error("password", error.messages)
        else:
            login(request, user, backend="django.contrib.auth.backends.ModelBackend")
            record_sign_in(user)
            messages.success(request, "Password changed. Other sessions are signed out.", extra_tags="good")
            return remember_browser(redirect("home"), user)
    context = {"form": form, "person": user}
    return render(request, "accounts/set_new_password.html", context, status=400 if form.errors else 200)
