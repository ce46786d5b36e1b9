"""What every page's frame needs to know."""

from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse

from benchapp import __version__
from benchapp.models import Role, User
from benchapp.queries.incidents.incidents import count_new
from benchapp.web.site.access import can


@dataclass(frozen=True, slots=True)
class NavigationPlace:
    """One entry of the bar: views lists the names of the pages that belong to it."""

    label: str
    view: str
    views: frozenset[str]


PLACES: Final = (
    NavigationPlace("Scaling", "scaling", frozenset({"scaling"})),
    NavigationPlace("Matrix", "matrix", frozenset({"matrix"})),
    NavigationPlace("History", "series_list", frozenset({"series_list", "series", "history"})),
    NavigationPlace("Runs", "runs", frozenset({"runs", "run", "run_report"})),
    NavigationPlace("Compare", "compare", frozenset({"compare"})),
    NavigationPlace(
        "Incidents",
        "incidents",
        frozenset(
            {"incidents", "incident", "watched", "expectations", "expectation", "add_expectation"},
        ),
    ),
    NavigationPlace("Studies", "studies", frozenset({"studies", "study", "add_study", "edit_study"})),
    NavigationPlace("Hosts", "hosts", frozenset({"hosts", "host", "tokens"})),
    NavigationPlace("Uploads", "uploads", frozenset({"uploads", "upload", "hand_in"})),
)


@dataclass(frozen=True, slots=True)
class Link:
    """A place as the bar shows it. new: how many things there nobody has looked at."""

    label: str
    url: str
    is_here: bool
    new: int = 0


def describe_frame(request: HttpRequest) -> dict[str, Any]:
    """Return the places, what this visitor may do, and the version, for base.html."""
    here = request.resolver_match.url_name if request.resolver_match else None
    visitor = find_visitor(request)
    may_see = settings.PUBLIC_READ or visitor is not None
    return {
        "places": [_link_place(place, here) for place in PLACES] if may_see else [],
        "may_see": may_see,
        "is_editor": can(visitor, Role.EDITOR),
        "is_admin": can(visitor, Role.ADMIN),
        "version": __version__,
    }


def _link_place(place: NavigationPlace, here: str | None) -> Link:
    new = _count_new() if place.view == "incidents" else 0
    return Link(place.label, reverse(place.view), here in place.views, new)


def _count_new() -> int:
    """Return how many regressions are new; none where the database is away, as this is on error pages too."""
    try:
        return count_new()
    except DatabaseError:
        return 0


def make_base_url(request: HttpRequest) -> str:
    """Return how people and hosts reach this server, without a slash at the end."""
    return settings.PUBLIC_URL or f"{request.scheme}://{request.get_host()}"


def find_visitor(request: HttpRequest) -> User | None:
    """Return who is signed in; None for a stranger, and on an error page that comes before we can know."""
    try:
        user = getattr(request, "user", None)
        return user if isinstance(user, User) and user.is_authenticated else None
    except DatabaseError:
        return None
