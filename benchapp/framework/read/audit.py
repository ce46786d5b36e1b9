"""Audit records, newest first."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from benchapp.framework.read.pagination import (
    Cursor,
    Page,
    behind,
    by_time,
    cut_page,
    match_times,
    read_cursor,
)
from benchapp.models import AuditRecord, name_person


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
