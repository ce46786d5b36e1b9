"""Compression of pages, except those with secrets.

The size of a compressed page that has a secret beside text of an attacker's choice (a filter in the URL) reveals the
secret (BREACH). Django adds up to 100 random bytes, which only slows that down. CSRF tokens are masked anew in each
answer. The API compresses its answers itself; they have no secrets.
"""

import re
from typing import Final

import brotli
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

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
