"""Keyset pagination: the next page starts after the last row, regardless of new rows."""

import math
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, Self, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

T = TypeVar("T")
Row = TypeVar("Row", bound=Model)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NUMBERED: Final = struct.Struct(">qq")
_UNIQUE: Final = struct.Struct(">q16s")
_SIZED: Final = struct.Struct(">cdq")


class BadCursor(Exception):
    """Not a valid cursor, or the cursor of another list."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position after a row: its time and id, as times alone are not unique."""

    at: datetime
    id: int | UUID

    def encode(self) -> str:
        """Return the cursor as opaque, URL-safe text."""
        microseconds = (self.at - _EPOCH) // _MICROSECOND
        if isinstance(self.id, UUID):
            packed = _UNIQUE.pack(microseconds, self.id.bytes)
        else:
            packed = _NUMBERED.pack(microseconds, self.id)
        return urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the cursor from the text of `encode`; BadCursor for any other text."""
        try:
            packed = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            if len(packed) == _NUMBERED.size:
                microseconds, number = _NUMBERED.unpack(packed)
                return cls(_EPOCH + microseconds * _MICROSECOND, number)
            microseconds, octets = _UNIQUE.unpack(packed)
            return cls(_EPOCH + microseconds * _MICROSECOND, UUID(bytes=octets))
        except (Base64Error, UnicodeEncodeError, struct.error, OverflowError) as error:
            raise _no_cursor(text) from error


@dataclass(frozen=True, slots=True)
class SizeCursor:
    """The position after a row of a list by size: its size and id."""

    size: float
    id: int

    def encode(self) -> str:
        """Return the cursor as opaque, URL-safe text."""
        return urlsafe_b64encode(_SIZED.pack(b"s", self.size, self.id)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the cursor from the text of `encode`; BadCursor for any other text."""
        try:
            mark, size, number = _SIZED.unpack(
                urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            )
        except (Base64Error, UnicodeEncodeError, struct.error) as error:
            raise _no_cursor(text) from error
        if mark != b"s" or math.isnan(size):
            raise _no_cursor(text)
        return cls(size, number)


def _no_cursor(text: str) -> BadCursor:
    return BadCursor(f"{text[:80]!r} is no cursor of this list: take `next` from its answer")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows of a list; next_cursor is None on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None


def behind(
    field: str, cursor: Cursor | None, *, is_descending: bool, is_id_descending: bool | None = None
) -> Q:
    """Return the condition for the rows that follow the cursor in the order (field, id).

    is_id_descending: where the index orders ids the other way than times. The first bound repeats what the second
    says, so that PostgreSQL starts inside the index and not at its end.
    """
    if cursor is None:
        return Q()
    beyond = "lt" if is_descending else "gt"
    beyond_id = "lt" if (is_descending if is_id_descending is None else is_id_descending) else "gt"
    return Q(**{f"{field}__{beyond}e": cursor.at}) & (
        Q(**{f"{field}__{beyond}": cursor.at}) | Q(**{f"id__{beyond_id}": cursor.id})
    )


def match_times(field: str, from_at: datetime | None, to_at: datetime | None) -> Q:
    """Return the condition for rows with a time from `from_at`, inclusive, to `to_at`, exclusive; None is open."""
    bounds = {f"{field}__gte": from_at, f"{field}__lt": to_at}
    return Q(**{name: at for name, at in bounds.items() if at is not None})


def by_time(field: str, *, oldest_first: bool) -> tuple[str, str]:
    """Return the columns of order_by for the order (field, id) of `behind`."""
    return (field, "id") if oldest_first else (f"-{field}", "-id")


def behind_size(field: str, cursor: SizeCursor | None, *, is_descending: bool) -> Q:
    """Return the condition for the rows that follow the cursor in the order (field, id)."""
    if cursor is None:
        return Q()
    beyond = "lt" if is_descending else "gt"
    return Q(**{f"{field}__{beyond}": cursor.size}) | Q(**{field: cursor.size, f"id__{beyond}": cursor.id})


def read_cursor(after: str | None, kind: type[int] | type[UUID] = int) -> Cursor | None:
    """Return the cursor of a request, None for the first page; BadCursor if it belongs to another list."""
    if after is None:
        return None
    cursor = Cursor.decode(after)
    if not isinstance(cursor.id, kind):
        raise BadCursor(f"{after[:80]!r} is a cursor of another list: take `next` from this list's answer")
    return cursor


def cut_page(rows: Sequence[T], limit: int, *, cursor_of: Callable[[T], Cursor | SizeCursor]) -> Page[T]:
    """Return a page of rows selected with limit + 1: the extra row indicates a next page."""
    items = tuple(rows[:limit])
    has_more = len(rows) > limit
    return Page(items, cursor_of(items[-1]).encode() if has_more and items else None)


def read_page_by_time(
    rows: QuerySet[Row], field: str, *, after: str | None, limit: int, oldest_first: bool
) -> Page[Row]:
    """Return a page of rows in the order of a time, the newest first by default; one query. Raises BadCursor."""
    follows = behind(field, read_cursor(after), is_descending=not oldest_first)
    ordered = rows.filter(follows).order_by(*by_time(field, oldest_first=oldest_first))
    return cut_page(
        list(ordered[: limit + 1]), limit, cursor_of=lambda row: Cursor(getattr(row, field), row.pk)
    )
