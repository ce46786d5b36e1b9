"""Pagination of lists."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.http import HttpRequest, QueryDict

from benchapp.framework.pages.filter_bar import keep_query
from benchapp.framework.read.pagination import BadCursor, Page

T = TypeVar("T")

_POSITION_DIGITS_MAXIMUM: Final = 8
_PAGE_DIGITS_MAXIMUM: Final = 6


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


def read_position(request: HttpRequest) -> int:
    """Return the position of the first row of a page, from 0; 0 for an invalid one."""
    given = request.GET.get("position", "")
    is_valid = given.isascii() and given.isdigit() and len(given) < _POSITION_DIGITS_MAXIMUM
    return int(given) if is_valid else 0


def read_page_number(query: QueryDict, errors: list[str]) -> int:
    """Return the page of the address, from 1; an invalid one gives the first page, and an error."""
    given = query.get("page") or "1"
    if given.isascii() and given.isdigit() and len(given) <= _PAGE_DIGITS_MAXIMUM and int(given):
        return int(given)
    errors.append(f"{given[:40]!r} is not a valid page number.")
    return 1
