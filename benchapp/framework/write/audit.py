"""The audit record: each write of a person, a token or a command, in the transaction of the write.

Results that arrive are not in it: a submission is its own record.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import connection, models
from django.db.models import Q
from django.utils import timezone

from benchapp.framework.read.pagination import (
    Cursor,
    Page,
    behind,
    by_time,
    cut_page,
    match_times,
    read_cursor,
)
from benchapp.models import ApiToken, AuditKind, AuditRecord, User, name_person

log = structlog.get_logger(__name__)

_MISSING: Final = object()
_BUDGET_S: Final = 20.0
_BATCH_SIZE: Final = 1000
_FORGET: Final = """
DELETE FROM benchapp_auditrecord WHERE id IN (
 SELECT id FROM benchapp_auditrecord WHERE at < %(before)s ORDER BY at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
"""


@dataclass(frozen=True, slots=True)
class WriteSource:
    """Where writes come from. find_user: the responsible user, looked up at the first write.

    via: the token or the command, "" for a session. address: of the client, "" for a command.
    """

    find_user: Callable[[], User | None]
    via: str = ""
    address: str = ""


def _find_nobody() -> None:
    return None


_NOBODY: Final = WriteSource(_find_nobody)
# Each request runs in a copy of the context (handler.py).
_SOURCE: Final[ContextVar[WriteSource]] = ContextVar("write_source", default=_NOBODY)


@contextmanager
def write_from(source: WriteSource) -> Iterator[None]:
    """Name the source of the writes within."""
    earlier = _SOURCE.set(source)
    try:
        yield
    finally:
        _SOURCE.reset(earlier)


def write_from_command(name: str, *, author: User | None = None) -> AbstractContextManager[None]:
    """Name a management command as the source of the writes within. author: for whom it runs, if that is known."""
    return write_from(WriteSource(lambda: author, via=f"manage.py {name}"))


def note_token(token: ApiToken) -> None:
    """Name the token of the current request as the source of its writes, until `write_from` ends."""
    source = replace(_SOURCE.get(), find_user=lambda: token.created_by, via=f"bench_{token.public_id}")
    _SOURCE.set(source)


def find_client_address() -> str:
    """Return the address of the client of the current request; "" outside of a request."""
    return _SOURCE.get().address


def snapshot(row: models.Model, *names: str) -> dict[str, Any]:
    """Return these fields of a row, for before or after. Never name a secret."""
    return {name: getattr(row, name) for name in names}


def record_write(
    kind: AuditKind,
    action: str,
    *,
    object_id: object = "",
    name: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    by: User | None = None,
) -> None:
    """Write an audit record; call it in the transaction of the write.

    action: a participle ("created"). name: of the object, for readers. Of before and after, only the members that
    differ are stored; nothing is written if none does. by: the responsible user where it is not that of the request,
    such as an account that is just created.
    """
    if before is not None and after is not None:
        if before == after:
            return
        old, new = before, after
        before = {member: value for member, value in old.items() if value != new.get(member, _MISSING)}
        after = {member: value for member, value in new.items() if value != old.get(member, _MISSING)}
    source = _SOURCE.get()
    user = by or source.find_user()
    AuditRecord.objects.create(
        at=timezone.now(),
        user_id=user.pk if user else None,
        username=user.username if user else "",
        via=source.via,
        kind=kind.value,
        object_id=str(object_id),
        object_name=name,
        action=action,
        before=before or None,
        after=after or None,
        address=source.address,
        request_id=structlog.contextvars.get_contextvars().get("request_id", ""),
    )


def forget_old_audit_records(*, now: datetime | None = None, limit: int = _BATCH_SIZE) -> int:
    """Delete records older than BENCHAPP_AUDIT_RETENTION_DAYS; return their number.

    In batches of `limit`, for at most 20 s. 0 days keeps all.
    """
    if not settings.AUDIT_RETENTION_DAYS:
        return 0
    before = (now or timezone.now()) - timedelta(days=settings.AUDIT_RETENTION_DAYS)
    started, forgotten = time.monotonic(), 0
    while time.monotonic() - started < _BUDGET_S:
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, {"before": before, "limit": limit})
            deleted = int(cursor.rowcount)
        forgotten += deleted
        if deleted < limit:
            break
    if forgotten:
        log.info("audit.forgotten", records=forgotten, before=before.isoformat())
    return forgotten


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which records; "" and None: no restriction. username: exact. from_at inclusive, to_at exclusive."""

    username: str = ""
    via: str = ""
    kind: str = ""
    object_id: str = ""
    action: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None


def page_audit_records(
    chosen: AuditFilter, *, after: str | None = None, limit: int = 100, oldest_first: bool = False
) -> Page[AuditRecord]:
    """Return records behind the cursor, newest first; one query. Raises BadCursor."""
    wanted = Q(
        **{
            name: value
            for name in ("username", "via", "kind", "object_id", "action")
            if (value := getattr(chosen, name))
        }
    )
    wanted &= match_times("at", chosen.from_at, chosen.to_at)
    records = AuditRecord.objects.filter(
        wanted, behind("at", read_cursor(after), is_descending=not oldest_first)
    )
    rows = list(records.order_by(*by_time("at", oldest_first=oldest_first))[: limit + 1])
    for row in rows:
        row.username = name_person(row.username)
    return cut_page(rows, limit, cursor_of=lambda row: Cursor(row.at, row.id))
