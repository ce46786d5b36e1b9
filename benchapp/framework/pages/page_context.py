"""Context of the navigation bar and footer."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse

from benchapp import __version__
from benchapp.framework.pages.access import can
from benchapp.framework.pages.pages import find_help
from benchapp.framework.pages.unknown_parameters import describe_unknown
from benchapp.framework.times import name_zone
from benchapp.incidents.read.incidents import count_new
from benchapp.models import BROWSER_ZONE, RateUnits, Role, User


@dataclass(frozen=True, slots=True)
class NavigationPlace:
    """One entry of the navigation bar. sections: first parts of the paths of its pages. has_filter: takes a filter."""

    label: str
    view: str
    sections: frozenset[str]
    has_filter: bool = True


PLACES: Final = (
    NavigationPlace("Scaling", "scaling", frozenset({"scaling", "layouts", "prices"})),
    NavigationPlace("Matrix", "matrix", frozenset({"matrix"})),
    NavigationPlace("History", "series_list", frozenset({"series", "history"})),
    NavigationPlace("Runs", "runs", frozenset({"runs"})),
    NavigationPlace("Compare", "compare", frozenset({"compare"}), has_filter=False),
    NavigationPlace("Incidents", "incidents", frozenset({"incidents", "maintenance", "policies"})),
    NavigationPlace("Studies", "studies", frozenset({"studies"}), has_filter=False),
    NavigationPlace("Hosts", "hosts", frozenset({"hosts", "tokens"})),
    NavigationPlace("Uploads", "uploads", frozenset({"uploads"}), has_filter=False),
)


@dataclass(frozen=True, slots=True)
class ShownPreferences:
    """Attributes of the page for scripts and style sheets. theme: None for visitors, whose browser stores it.

    follows_browser: the time zone is that of the browser, which a script compares with time_zone.
    """

    time_zone: str
    follows_browser: bool = False
    rate_units: str = RateUnits.SI.value
    theme: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One rendered entry. takes_filter: its link has the filter. new: number of items nobody has opened yet."""

    label: str
    url: str
    is_here: bool
    takes_filter: bool
    new: int = 0


def describe_frame(request: HttpRequest) -> dict[str, Any]:
    """Return navigation, permissions and preferences of this visitor, documentation of the page, version."""
    section = request.path_info.split("/")[1]
    visitor = find_visitor(request)
    may_see = settings.PUBLIC_READ or visitor is not None
    suffix = f"?{urlencode({'q': visitor.default_filter})}" if visitor and visitor.default_filter else ""
    return {
        "places": [_link_place(place, section) for place in PLACES] if may_see else [],
        # Links have the filter of the page; the default filter of the user on pages without a filter bar.
        "default_query": suffix,
        "home_url": f"{_find_path('home')}{suffix}",
        "preferences": _describe_preferences(visitor),
        "may_see": may_see,
        "is_editor": can(visitor, Role.EDITOR),
        "is_admin": can(visitor, Role.ADMIN),
        "help": find_help(request),
        "unknown_parameters": describe_unknown(request.GET),
        "version": __version__,
    }


def _describe_preferences(visitor: User | None) -> ShownPreferences:
    zone = name_zone()
    if visitor is None:
        return ShownPreferences(zone)
    follows_browser = visitor.time_zone == BROWSER_ZONE
    return ShownPreferences(zone, follows_browser, visitor.rate_units, visitor.theme)


def _link_place(place: NavigationPlace, section: str) -> Link:
    new = _count_new() if place.view == "incidents" else 0
    return Link(place.label, _find_path(place.view), section in place.sections, place.has_filter, new)


@cache
def _find_path(view: str) -> str:
    """Return the path of a page without arguments, which never changes."""
    return reverse(view)


def _count_new() -> int:
    """Return the number of new regressions; 0 while the database is not available, as error pages use this too."""
    try:
        return count_new()
    except DatabaseError:
        return 0


def make_base_url(request: HttpRequest) -> str:
    """Return the base URL of this server, without a trailing slash."""
    return settings.PUBLIC_URL or f"{request.scheme}://{request.get_host()}"


def find_visitor(request: HttpRequest) -> User | None:
    """Return the signed-in user; None if anonymous, or if the database is not available."""
    try:
        user = getattr(request, "user", None)
        return user if isinstance(user, User) and user.is_authenticated else None
    except DatabaseError:
        return None
