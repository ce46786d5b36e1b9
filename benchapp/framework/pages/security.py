"""Security headers of all responses, the client address, and pages that are not compressed.

The size of a compressed page that has a secret beside text of an attacker's choice (a filter in the URL) reveals the
secret (BREACH). Django adds up to 100 random bytes, which only slows that down. CSRF tokens are masked anew in each
answer. The API compresses its answers itself; they have no secrets.
"""

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

import brotli
import structlog
from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

from benchapp.framework.write.audit import WriteSource, write_from
from benchapp.models import User, shown_to
from benchapp.models.limits import limit_person, limitable_request

log = structlog.get_logger(__name__)

# No inline scripts or styles and no other origins: injected HTML, as in a job name, has no effect.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PERMISSIONS_POLICY: Final = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


def add_headers(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Add the policies to every response, and keep personal responses out of caches."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _add_headers(request, get_response(request))

    return answer


def check_proxy(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Ignore what a peer reports about the sender unless it is a trusted proxy: any client can write it.

    Raises BadRequest where an unknown TLS proxy would be redirected to the address that it was asked for, without end.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        peer = request.META.get("REMOTE_ADDR", "")
        if is_trusted_proxy(peer):
            return get_response(request)
        names = [name for name in request.META if name.startswith("HTTP_X_FORWARDED_")]
        reported = {name: request.META.pop(name) for name in names}
        if reported.get("HTTP_X_FORWARDED_PROTO") == "https" and _is_redirected(request):
            log.warning("proxy.not_trusted", peer=peer)
            raise BadRequest(
                f"TLS proxy {peer} is not trusted: add its address to BENCHAPP_TRUSTED_PROXIES, or remove the header "
                "X-Forwarded-Proto"
            )
        return get_response(request)

    return answer


def name_reader_and_writer(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Name user and client address, for audit records, and limit the user; without one the reader is a stranger."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        def find_user() -> User | None:
            return request.user if isinstance(request.user, User) else None

        with (
            write_from(WriteSource(find_user, address=read_client_address(request))),
            shown_to(lambda: find_user() is None),
            limitable_request(),
        ):
            if settings.SESSION_COOKIE_NAME in request.COOKIES and not _has_other_key(request):
                limit_person(find_user())
            return get_response(request)

    return answer


def _has_other_key(request: HttpRequest) -> bool:
    """Return whether not the session decides: a token of the API, or the secret of a shared study or an invitation."""
    path = request.path_info
    return path.startswith(("/shared/", "/setup/", "/reset-password/", "/confirm-address/")) or (
        path.startswith("/api/") and bool(request.headers.get("Authorization"))
    )


def _is_redirected(request: HttpRequest) -> bool:
    """Return whether SecurityMiddleware redirects a request without TLS."""
    path = request.path.lstrip("/")
    is_exempt = any(re.search(pattern, path) for pattern in settings.SECURE_REDIRECT_EXEMPT)
    return settings.SECURE_SSL_REDIRECT and not is_exempt


def read_client_address(request: HttpRequest) -> str:
    """Return the client address: the rightmost hop that is not a trusted proxy.

    X-Forwarded-For is used only if the connection comes from a trusted proxy, as any client can send it.
    """
    address = request.META.get("REMOTE_ADDR", "") or "unknown"
    hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",") if hop.strip()]
    while hops and is_trusted_proxy(address):
        address = hops.pop()
    return address


def is_trusted_proxy(address: str) -> bool:
    """Return whether an address is one of BENCHAPP_TRUSTED_PROXIES; ::ffff:10.0.0.1 is 10.0.0.1."""
    try:
        client = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(client, "ipv4_mapped", None) or client
    return any(mapped in network for network in settings.TRUSTED_PROXIES)


def _add_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    if _is_personal(request, response):
        # Views may override this: API reads use ETags, the agent archive is public.
        response.headers.setdefault("Cache-Control", "private, no-store")
    return response


def _is_personal(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Return whether the request has a session or token, valid or not, or the response sets a cookie; no query."""
    has_key = settings.SESSION_COOKIE_NAME in request.COOKIES or "Authorization" in request.headers
    return has_key or bool(response.cookies)


# Pages with links or tokens that stay valid: of shared studies, of people who are invited, of subscriptions.
_SECRET_PATHS: Final = (
    "/account/",
    "/confirm-address/",
    "/people/",
    "/setup/",
    "/reset-password/",
    "/shared/",
    "/sign-in/",
    "/studies/",
    "/subscriptions/",
    "/tokens/",
)
_MARK: Final = "benchapp.has_secret"
_ACCEPTS_BROTLI: Final = re.compile(r"\bbr\b(?!\s*;\s*q=0(?:\.0*)?(?:,|\s|$))")
# On a page, half the time of gzip's usual level 6, and smaller.
_BROTLI_QUALITY: Final = 4
_SMALLEST_BYTES: Final = 200  # as GZipMiddleware


def mark_secret(request: HttpRequest) -> None:
    """Leave the answer to this request uncompressed: it shows a secret once."""
    request.META[_MARK] = True


class PageCompression(GZipMiddleware):
    """Brotli or gzip, as the client accepts. Inside of the sessions, so that it runs in the thread of the view."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response unless it may have a secret."""
        if request.path.startswith(_SECRET_PATHS) or request.META.get(_MARK):
            return response
        if (
            isinstance(response, HttpResponse)
            and _ACCEPTS_BROTLI.search(request.META.get("HTTP_ACCEPT_ENCODING", ""))
            and len(response.content) >= _SMALLEST_BYTES
            and not response.has_header("Content-Encoding")
        ):
            return _compress_with_brotli(response)
        return super().process_response(request, response)


def _compress_with_brotli(response: HttpResponse) -> HttpResponse:
    patch_vary_headers(response, ("Accept-Encoding",))
    response.content = brotli.compress(response.content, quality=_BROTLI_QUALITY)
    response.headers["Content-Encoding"] = "br"
    response.headers["Content-Length"] = str(len(response.content))
    etag = response.get("ETag", "")
    if etag.startswith('"'):
        response.headers["ETag"] = f"W/{etag}"
    return response


class ReadOnlyCors(CorsMiddleware):
    """CORS for the methods of CORS_ALLOW_METHODS alone.

    A browser compares the listed methods with every method but POST, which it sends after any preflight that succeeds
    (Fetch standard, "CORS-preflight fetch"). So the preflight of another method gets no CORS headers.
    """

    def is_enabled(self, request: HttpRequest) -> bool:
        """Return whether the answer to this request has CORS headers."""
        asked = request.headers.get("Access-Control-Request-Method") if request.method == "OPTIONS" else None
        return (asked or request.method) in settings.CORS_ALLOW_METHODS and super().is_enabled(request)
