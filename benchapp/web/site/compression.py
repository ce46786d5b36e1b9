"""Compression of pages, except those with secrets.

The size of a compressed page that has a secret beside text of an attacker's choice (a filter in the URL) reveals the
secret (BREACH). Django adds up to 100 random bytes, which only slows that down. CSRF tokens are masked anew in each
answer. The API compresses its answers itself; they have no secrets.
"""

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

# Pages with links or tokens that stay valid: of shared studies, of people who are invited, of subscriptions.
_SECRET_PATHS: Final = (
    "/account/",
    "/confirm-address/",
    "/people/",
    "/setup/",
    "/shared/",
    "/sign-in/",
    "/studies/",
    "/subscriptions/",
    "/tokens/",
)
_MARK: Final = "benchapp.has_secret"


def mark_secret(request: HttpRequest) -> None:
    """Leave the answer to this request uncompressed: it shows a secret once."""
    request.META[_MARK] = True


class PageCompression(GZipMiddleware):
    """Gzip for clients that accept it. Inside of the sessions, so that it runs in the thread of the view."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response unless it may have a secret."""
        if request.path.startswith(_SECRET_PATHS) or request.META.get(_MARK):
            return response
        return super().process_response(request, response)
