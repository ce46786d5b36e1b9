"""CORS: scripts of listed origins may read the API."""

from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.http import HttpRequest


class ReadOnlyCors(CorsMiddleware):
    """CORS for the methods of CORS_ALLOW_METHODS alone.

    A browser compares the listed methods with every method but POST, which it sends after any preflight that succeeds
    (Fetch standard, "CORS-preflight fetch"). So the preflight of another method gets no CORS headers.
    """

    def is_enabled(self, request: HttpRequest) -> bool:
        """Return whether the answer to this request has CORS headers."""
        asked = request.headers.get("Access-Control-Request-Method") if request.method == "OPTIONS" else None
        return (asked or request.method) in settings.CORS_ALLOW_METHODS and super().is_enabled(request)
