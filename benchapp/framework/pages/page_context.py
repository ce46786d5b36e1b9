"""What every page has: its place in the list of pages, context, preferences, unknown parameters.

Preferences apply to pages only: answers of the API, images and pages of shared studies are the same for every reader.
Pages of signed-in users are in no cache (security.py), and cached results of queries have values, not texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.times import find_zone, name_zone
from benchapp.incidents.read.incidents import Tab, match_tab
from benchapp.models import BROWSER_ZONE, Correction, DetectionPolicy, RateUnits, Role, User, WantedSchedule
from benchapp.models.limits import limited, make_limit, read_limit

TIMES: Final = ("from", "to", "zone")
RANGED: Final = ("q", *TIMES)
CHARTED: Final = (*RANGED, "metric")


@dataclass(frozen=True, slots=True)
class SitePage:
    """One page. documentation: page and section of docs/, "" without.

    label: its title in tabs, in the browser and in the search, "" if none leads to it; words: other words for it.
    role: who may open it, None: every reader. keeps: parameters that links of the bar and of tabs take along.
    """

    name: str
    documentation: str
    label: str
    words: str
    role: Role | None
    keeps: tuple[str, ...]

    @property
    def url(self) -> str:
        """Return the path of a page without arguments."""
        return _find_path(self.name)


def may_open(page: SitePage, visitor: User | None) -> bool:
    """Return whether a page is for this visitor, who may read; None: anonymous."""
    return page.role is None or can(visitor, page.role)


# By the name of the URL; filled by benchapp/overview/pages/urls.py.
PAGES: Final[dict[str, SitePage]] = {}


def page(
    route: str,
    view: View,
    documentation: str,
    label: str = "",
    words: str = "",
    *,
    keeps: tuple[str, ...] = (),
    name: str = "",
) -> URLPattern:
    """Return the URL of a page, and list the page (see SitePage). name: of the URL, the view's if it is the same."""
    name = name or view.__name__
    PAGES[name] = SitePage(name, documentation, label, words, getattr(view, "role", None), keeps)
    return path(route, view, name=name)


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
class Place:
    """One entry of the navigation bar. names: of its pages, the tabs; the entry leads to the first."""

    label: str
    names: tuple[str, ...]

    @property
    def page(self) -> SitePage:
        """Return the page to which the entry leads."""
        return PAGES[self.names[0]]


PLACES: Final = (
    Place("Overview", ("home",)),
    Place("Explore", ("scaling", "matrix", "history", "compare", "runs")),
    Place("Incidents", ("incidents", "benchmark_health", "planned_events", "detection_policies")),
    Place("Choose a layout", ("layouts",)),
    Place("Hosts", ("hosts", "schedules", "run_requests", "uploads", "corrections")),
    Place("Reports", ("studies", "saved_views")),
)
# The menu with the name of the user.
ACCOUNT: Final = Place(
    "Account", ("account", "subscriptions", "signed_links", "people", "tokens", "audit_records", "status")
)
# Pages below a tab whose addresses begin differently.
_BELOW: Final = {
    "/series/": "history",
    "/experiment/": "compare",
    "/overview/": "home",
    "/prices/": "layouts",
}
# These tabs are shown from the first row on; before, their pages are linked where they are of use, and searched.
_FROM_FIRST_ROW: Final = {
    "schedules": WantedSchedule,
    "detection_policies": DetectionPolicy,
    "corrections": Correction,
}
OPEN_SHOWN_MAXIMUM: Final = 99


def describe_frame(request: HttpRequest) -> dict[str, Any]:
    """Return navigation, permissions and preferences of this visitor, title and documentation of the page, version."""
    visitor = find_visitor(request)
    may_see = settings.PUBLIC_READ or visitor is not None
    suffix = f"?{urlencode({'q': visitor.default_filter})}" if visitor and visitor.default_filter else ""
    match = request.resolver_match
    known = PAGES.get(match.view_name) if match else None
    return {
        **(_describe_places(request.path_info, visitor) if may_see else {}),
        "home_url": f"{_find_path('home')}{suffix}",
        "preferences": _describe_preferences(visitor),
        "may_see": may_see,
        "is_editor": can(visitor, Role.EDITOR),
        "is_admin": can(visitor, Role.ADMIN),
        "page_title": known.label if known else "",
        "help": known.documentation if known else "",
        "unknown_parameters": describe_unknown(request.GET),
        "version": __version__,
    }


def _describe_places(address: str, visitor: User | None) -> dict[str, Any]:
    """Return the entries of the bar, the tabs of the one that has the address, and the menu of the account."""
    tab = _find_tab(address)
    here = next((place for place in (*PLACES, ACCOUNT) if tab in place.names), None)
    open_count, filled = _read_state(visitor)
    tabs, account_pages = (
        [
            PAGES[name]
            for name in (place.names if place else ())
            if may_open(PAGES[name], visitor)
            and (name == tab or name not in _FROM_FIRST_ROW or name in filled)
        ]
        for place in (here, ACCOUNT if visitor else None)
    )
    return {
        "places": PLACES,
        "current_place": here,
        "current_tab": tab,
        "page_tabs": tabs if len(tabs) > 1 else (),
        "account_pages": account_pages,
        "open_badge": f"{OPEN_SHOWN_MAXIMUM}+" if open_count > OPEN_SHOWN_MAXIMUM else open_count,
    }


def _find_tab(address: str) -> str:
    """Return the name of the page of a place that has the longest beginning of an address; "" without one."""
    begins = {_find_path(name): name for place in (*PLACES, ACCOUNT) for name in place.names} | _BELOW
    found = [begin for begin in begins if address == begin or (begin != "/" and address.startswith(begin))]
    return begins[max(found, key=len)] if found else ""


def _read_state(visitor: User | None) -> tuple[int, set[str]]:
    """Return the number of open incidents, at most one more than is shown, and the tabs that have rows; one query.

    They are of the visitor's limit, also where the rest of the page is not, such as on shared studies.

    Nothing while the database is not available, as error pages use this too.
    """
    # On every page: to compose the query takes twenty times as long as to run it.
    is_open = match_tab(Tab.OPEN)
    have_rows = ", ".join(
        f"EXISTS (SELECT FROM {model._meta.db_table})" for model in _FROM_FIRST_ROW.values()
    )
    query = (
        "SELECT (SELECT count(*) FROM (SELECT FROM benchapp_incident"  # noqa: S608
        f" WHERE {is_open.text} LIMIT %s) AS counted), {have_rows}"
    )
    limit = make_limit(visitor.pools, visitor.pk) if visitor and read_limit() is None else None
    try:
        with limited(limit):
            ((count, *filled),) = fetch_rows(query, [*is_open.values, OPEN_SHOWN_MAXIMUM + 1])
    except DatabaseError:
        return 0, set()
    return count, {name for name, has_rows in zip(_FROM_FIRST_ROW, filled, strict=True) if has_rows}


def write_kept(names: Iterable[str], request: HttpRequest, context: Mapping[str, Any]) -> str:
    """Return the query string with which a link to another page shows the same; "" without parameters.

    names: of SitePage.keeps. context: of the page; its filter bar, if it has one, has the filter, otherwise the address
    or the default filter of the user. Of an address with errors the filter alone is kept (kept_only).
    """
    given = dict(request.GET.lists())
    match = request.resolver_match
    if match and "series_id" in match.kwargs:
        given["series"] = [match.kwargs["series_id"]]
    if bar := context.get("bar"):
        given["q"] = ["" if bar.error else bar.text]
    elif "q" not in given and (visitor := find_visitor(request)):
        given["q"] = [visitor.default_filter]
    taken = [name for name in names if name in context.get("kept_only", names)]
    query = urlencode([(name, value) for name in taken for value in given.get(name, ()) if value != ""])
    return f"?{query}" if query else ""


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


@cache
def _find_path(view: str) -> str:
    """Return the path of a page without arguments, which never changes."""
    return reverse(view)


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
