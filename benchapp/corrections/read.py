"""Deletions of runs, in pages, and one."""

from datetime import datetime

from benchapp.framework.read.pagination import Page, match_times, read_page_by_time
from benchapp.models import Deletion


def list_deletions(
    *,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[Deletion]:
    """Return a page of the deletions that were made in a range, newest first; one query. Raises BadCursor."""
    rows = Deletion.objects.filter(match_times("created_at", from_at, to_at))
    rows = rows.select_related("created_by", "canceled_by")
    return read_page_by_time(rows, "created_at", after=after, limit=limit, oldest_first=oldest_first)


def read_deletion(deletion_id: int) -> Deletion | None:
    """Return one deletion or None; one query."""
    return Deletion.objects.select_related("created_by", "canceled_by").filter(pk=deletion_id).first()
