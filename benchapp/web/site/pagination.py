"""Pagination of lists."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.http import HttpRequest

from benchapp.queries.pagination import BadCursor, Page
from benchapp.web.site.filter_forms import keep_query

T = TypeVar("T")


def turn_page(
    request: HttpRequest, errors: list[str], *, read: Callable[[str | None], Page[T]]
) -> tuple[Page[T], dict[str, Any]]:
    """Return the page at the cursor of the address, and the links to the newest and the older rows.

    An invalid cursor gives the first page, and an error.
    """
    after = request.GET.get("after")
    try:
        page = read(after)
    except BadCursor:
        errors.append("Invalid page link; this is the first page.")
        after = None
        page = read(None)
    return page, {
        "newest_url": keep_query(request.GET, after=None) if after else None,
        "older_url": keep_query(request.GET, after=page.next_cursor) if page.next_cursor else None,
    }
