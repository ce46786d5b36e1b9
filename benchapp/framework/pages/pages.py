"""What the header and the search know about each page: its documentation, its name, who may open it."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.urls import URLPattern, path, reverse

from benchapp.framework.pages.access import View
from benchapp.models import Role


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
