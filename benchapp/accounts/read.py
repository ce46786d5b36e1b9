"""Tokens of hosts and users, and signed links, without their digests and signatures."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from benchapp.framework.read.pagination import Cursor, Page, behind, by_time, cut_page, read_cursor
from benchapp.models import ApiToken, Scope, SignedLink, User

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


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its digest. host: None unless it is the token of a host."""

    id: int
    public_id: str
    scope: Scope
    host: str | None
    label: str
    created_at: datetime
    created_by: str | None
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenFilter:
    """Which tokens to list; None: no restriction. is_valid: neither revoked nor expired."""

    scope: str | None = None
    host: str | None = None
    is_valid: bool | None = None


_TOKEN_COLUMNS: Final = (
    *("id", "public_id", "scope", "host__name", "label", "created_at", "created_by__username"),
    *("last_used_at", "expires_at", "revoked_at"),
)


def page_tokens(
    filters: TokenFilter, *, after: str | None = None, limit: int = 100, oldest_first: bool = False
) -> Page[TokenRow]:
    """Return tokens after the cursor, newest first; one query. Raises BadCursor."""
    wanted = Q()
    if filters.scope is not None:
        wanted &= Q(scope=filters.scope)
    if filters.host is not None:
        wanted &= Q(host__name=filters.host.lower())
    if filters.is_valid is not None:
        valid = ApiToken.objects.valid_at(timezone.now()).values("pk")
        wanted &= Q(pk__in=valid) if filters.is_valid else ~Q(pk__in=valid)
    cursor = read_cursor(after)
    tokens = ApiToken.objects.filter(wanted).filter(
        behind("created_at", cursor, is_descending=not oldest_first)
    )
    rows = _make_rows(tokens.order_by(*by_time("created_at", oldest_first=oldest_first))[: limit + 1])
    return cut_page(rows, limit, cursor_of=lambda row: Cursor(row.created_at, row.id))


def read_tokens(host_id: int) -> tuple[TokenRow, ...]:
    """Return the tokens of a host, newest first; one query."""
    return _make_rows(ApiToken.objects.filter(host_id=host_id).order_by("-created_at", "-id"))


def read_one_token(public_id: str) -> TokenRow | None:
    """Return a token; None if it does not exist."""
    return next(iter(_make_rows(ApiToken.objects.filter(public_id=public_id))), None)


def _make_rows(tokens: QuerySet[ApiToken]) -> tuple[TokenRow, ...]:
    return tuple(TokenRow(*row) for row in tokens.values_list(*_TOKEN_COLUMNS))
