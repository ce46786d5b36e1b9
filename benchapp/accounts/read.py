"""Tokens of hosts and users, and signed links, without their digests and signatures."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from benchapp.framework.read.pagination import Cursor, Page, behind, by_time, cut_page, read_cursor
from benchapp.models import ApiToken, SignedLink, User, follow_name

_LINK_COLUMNS: Final = (
    *("id", "url", "created_at", "created_by__username", "token__public_id", "expires_at", "revoked_at"),
    "is_valid",
)


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A signed link. url: path and query, without expiry and signature. token: the public id of the one that made it.

    is_valid: can be read now.
    """

    id: int
    url: str
    created_at: datetime
    created_by: str | None
    token: str | None
    expires_at: datetime
    revoked_at: datetime | None
    is_valid: bool


def belongs_to(person: User | None, token: ApiToken | None) -> Q:
    """Return the links that somebody made: a token its own, a person also those of the person's tokens."""
    return Q(token=token) if token is not None else Q(created_by=person)


def page_links(
    chosen: Q,
    *,
    is_valid: bool | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[LinkRow]:
    """Return links after the cursor, newest first; one query. Raises BadCursor."""
    cursor = read_cursor(after)
    opened = SignedLink.objects.open_at(timezone.now()).filter(pk=OuterRef("pk"))
    links = SignedLink.objects.annotate(is_valid=Exists(opened)).filter(chosen)
    if is_valid is not None:
        links = links.filter(is_valid=is_valid)
    links = links.filter(behind("created_at", cursor, is_descending=not oldest_first))
    ordered = links.order_by(*by_time("created_at", oldest_first=oldest_first))[: limit + 1]
    rows = tuple(LinkRow(*row) for row in ordered.values_list(*_LINK_COLUMNS))
    return cut_page(rows, limit, cursor_of=lambda row: Cursor(row.created_at, row.id))


_TOKENS: Final = ApiToken.objects.select_related("host", "created_by").defer("digest", "created_by__password")


def page_tokens(
    *,
    scope: str | None = None,
    host: str | None = None,
    is_valid: bool | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[ApiToken]:
    """Return tokens after the cursor, newest first; one query. Raises BadCursor.

    None: no restriction. is_valid: neither revoked nor expired.
    """
    wanted = Q()
    if scope is not None:
        wanted &= Q(scope=scope)
    if host is not None:
        wanted &= Q(host__name=follow_name("host", host.lower()))
    if is_valid is not None:
        valid = ApiToken.objects.valid_at(timezone.now()).values("pk")
        wanted &= Q(pk__in=valid) if is_valid else ~Q(pk__in=valid)
    cursor = read_cursor(after)
    tokens = _TOKENS.filter(wanted).filter(behind("created_at", cursor, is_descending=not oldest_first))
    rows = tuple(tokens.order_by(*by_time("created_at", oldest_first=oldest_first))[: limit + 1])
    return cut_page(rows, limit, cursor_of=lambda row: Cursor(row.created_at, row.id))


def read_tokens(host_id: int) -> tuple[ApiToken, ...]:
    """Return the tokens of a host, newest first; one query."""
    return tuple(_TOKENS.filter(host_id=host_id).order_by("-created_at", "-id"))


def read_one_token(public_id: str) -> ApiToken | None:
    """Return a token; None if it does not exist."""
    return _TOKENS.filter(public_id=public_id).first()
