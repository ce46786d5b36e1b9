"""Preferences of the reader, applied to everything that formats a page: time zone, units of throughput, theme.

Only to pages: answers of the API, images and pages of shared studies are the same for every reader. Pages of signed-in
users are in no cache (site/security.py), and cached results of queries have values, not texts.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import tzinfo
from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from benchapp.catalog.metrics import show_rates_in
from benchapp.framework.pages.page_context import find_visitor
from benchapp.framework.times import find_zone
from benchapp.models import BROWSER_ZONE, User

# Set by static/js/site/browser_zone.js for accounts whose time zone is that of the browser.
ZONE_COOKIE: Final = "benchapp_time_zone"
_NAME_MAXIMUM: Final = 64
_API: Final = "/api/"
# The same page for every reader; one rendered page is sent to many.
_SHARED: Final = "/shared/"


def apply_preferences(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Format pages in the time zone and the units of the signed-in user; in the time zone of the server for others."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(_API):
            return get_response(request)
        user = None if request.path_info.startswith(_SHARED) else find_visitor(request)
        with ExitStack() as stack:
            stack.enter_context(timezone.override(_find_reader_zone(request, user)))
            if user is not None:
                stack.enter_context(show_rates_in("binary" if user.rate_units == "binary" else "si"))
            return get_response(request)

    return answer


@contextmanager
def without_preferences() -> Iterator[None]:
    """Format what is stored or cached for all readers as for a visitor: in the time zone of the server and SI units."""
    with timezone.override(settings.PAGE_TIME_ZONE), show_rates_in("si"):
        yield


def name_server_zone() -> str:
    """Return the time zone of visitors, and of users without a preference."""
    return str(settings.PAGE_TIME_ZONE)


def _find_reader_zone(request: HttpRequest, user: User | None) -> tzinfo:
    """Return the time zone of the reader; a name that this system does not know counts as none."""
    name = user.time_zone if user else ""
    if name == BROWSER_ZONE:
        name = request.COOKIES.get(ZONE_COOKIE, "")[:_NAME_MAXIMUM]
    own = find_zone(name) if name else None
    server: tzinfo = settings.PAGE_TIME_ZONE
    return own or server
