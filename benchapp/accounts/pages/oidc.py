"""Sign in with an OpenID Connect provider: authorization code flow with PKCE, state and nonce.

Authlib checks signature, issuer, audience, expiry and nonce of the ID token. Each request makes a client, which reads
the metadata and keys of the provider anew, so that rotated keys need no restart. Authlib is imported at the first use.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from benchapp.accounts.write.accounts import network_of, record_sign_in
from benchapp.accounts.write.oidc_accounts import (
    OidcProvider,
    SignInRefused,
    find_or_create_account,
    read_provider,
)
from benchapp.accounts.write.throttle import count_attempt
from benchapp.framework.pages.access import choose_next
from benchapp.framework.pages.security import read_client_address

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
