"""What every page has: its place in the list of pages, context, preferences, unknown parameters.

Preferences apply to pages only: answers of the API, images and pages of shared studies are the same for every reader.
Pages of signed-in users are in no cache (security.py), and cached results of queries have values, not texts.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from benchapp import __version__
from benchapp.catalog.metrics import show_rates_in
from benchapp.framework.pages.access import View, can
from benchapp.framework.times import find_zone, name_zone
from benchapp.incidents.read.incidents import count_new
from benchapp.models import BROWSER_ZONE, RateUnits, Role, User


@dataclass(frozen=True, slots=True)
class SitePage:
    """One page. documentation: page and section of docs/, "" without.

    label: the name by which the search finds it, "" if it does not; words: other words for it. role: who may open it,
    None: every reader.
    """

    name: str
    documentation: str
    label: str
    words: str
    role: Role | None

    @property
    def url(self) -> str:
        """Return the path of a page without arguments."""
        return reverse(self.name)


# By the name of the URL; filled by benchapp/overview/pages/urls.py.
PAGES: Final[dict[str, SitePage]] = {}


def page(
    route: str, view: View, documentation: str, label: str = "", words: str = "", *, name: str = ""
) -> URLPattern:
    """Return the URL of a page, and list the page (see SitePage). name: of the URL, the view's if it is the same."""
    name = name or view.__name__
    PAGES[name] = SitePage(name, documentation, label, words, getattr(view, "role", None))
    return path(route, view, name=name)


def find_help(request: HttpRequest) -> str:
    """Return page and section of docs/ for the page that this request shows, "" without."""
    match = request.resolver_match
    known = PAGES.get(match.view_name) if match else None
    return known.documentation if known else ""


# Links of mails and other sites have them, to count visits: they are no request to the page.
_FOREIGN: Final = ("utm_", "fbclid", "gclid", "msclkid", "mc_", "_ga", "ref")
# The place in a list, which a page without rows does not read.
_PLACE: Final = "after"
# Beside q: of the form without script, and in links of before the filter bar.
_UNNAMED: Final = frozenset({"add", "value", "host", "pool", "rw", "direction", "text"})
_API: Final = "/api/"


class AskedQuery(QueryDict):
    """The parameters of an address, which knows which of them were asked for; also those that it does not have.

    Reading all of them, as links to the same page do, asks for none. A copy knows with its original.
    """

    asked: dict[str, None]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.asked = {}
        super().__init__(*arguments, **options)
        # Its own methods ask whether they have a name.
        self.asked.clear()

    def __getitem__(self, key: str) -> Any:
        self.asked[key] = None
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked[str(key)] = None
        return super().__contains__(key)

    def getlist(self, key: str, default: Any = None) -> Any:
        """Return the values of a parameter."""
        self.asked[key] = None
        return super().getlist(key, default)

    def items(self) -> Any:
        """Yield the name and the last value of each parameter."""
        return ((name, values[-1] if values else []) for name, values in self.lists())

    def dict(self) -> Any:
        """Return the last value of each parameter."""
        return {name: value for name, value in self.items()}  # noqa: C416

    def __deepcopy__(self, memo: Any) -> "AskedQuery":
        other = super().__deepcopy__(memo)
        other.asked = self.asked
        return other


def note_parameters(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Let each page with parameters know which of them it has read."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.GET and not request.path_info.startswith(_API):
            # A QueryDict of the same text; the stubs have a private class.
            request.GET = AskedQuery(request.GET.urlencode())  # type: ignore[assignment]
        return get_response(request)

    return answer


def describe_unknown(query: QueryDict) -> str:
    """Return which parameters the page has not read, and what it takes; "" if it has read all of them."""
    if not isinstance(query, AskedQuery):
        return ""
    unknown = [name for name in query if name not in query.asked and not name.startswith((*_FOREIGN, _PLACE))]
    if not unknown:
        return ""
    names = ", ".join(repr(name[:80]) for name in unknown[:5])
    known = list(_list_taken(query.asked))
    takes = f"this page takes {', '.join(known)}" if known else "this page takes no parameters"
    return f"Unknown parameter{'s' * (len(unknown) > 1)} {names}: {takes}."


def _list_taken(asked: Iterable[str]) -> Iterator[str]:
    """Yield the names that a reader may use: not those that forms give to `from` and `to`."""
    names = {*asked} - _UNNAMED if "q" in asked else {*asked}
    yield from sorted(names - {"from_at", "to_at"})


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


def _describe_preferences(visitor: User | None) -> dict[str, Any]:
    zone = name_zone()
    if visitor is None:
        return {"time_zone": zone, "follows_browser": False, "rate_units": RateUnits.SI.value, "theme": None}
    follows_browser = visitor.time_zone == BROWSER_ZONE
    return {
        "time_zone": zone,
        "follows_browser": follows_browser,
        "rate_units": visitor.rate_units,
        "theme": visitor.theme,
    }


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


# Set by static/js/site/browser_zone.js for accounts whose time zone is that of the browser.
ZONE_COOKIE: Final = "benchapp_time_zone"
_NAME_MAXIMUM: Final = 64
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
