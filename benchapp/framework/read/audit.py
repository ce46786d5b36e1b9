"""Audit records, newest first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

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
from benchapp.models import AuditKind, AuditRecord, name_person


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


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One write, as of `AuditRecord`. username: "" without a person; via: "" for a session."""

    id: int
    at: datetime
    username: str
    via: str
    kind: AuditKind
    object_id: str
    object_name: str
    action: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    address: str
    request_id: str

    @property
    def action_text(self) -> str:
        """Return the action in words."""
        return self.action.replace("_", " ")


_COLUMNS: Final = tuple(AuditRow.__dataclass_fields__)


def page_audit_records(
    chosen: AuditFilter, *, after: str | None = None, limit: int = 100, oldest_first: bool = False
) -> Page[AuditRow]:
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
    rows = [
        AuditRow(**{**row, "kind": AuditKind(row["kind"]), "username": name_person(row["username"])})
        for row in records.order_by(*by_time("at", oldest_first=oldest_first)).values(*_COLUMNS)[: limit + 1]
    ]
    return cut_page(rows, limit, cursor_of=lambda row: Cursor(row.at, row.id))
