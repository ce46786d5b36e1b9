"""Detection policies, and dry runs of thresholds."""

from typing import Final

from benchapp.framework.read.pagination import Page, read_page_by_time
from benchapp.models import DetectionDryRun, DetectionPolicy

_DRY_RUNS_LISTED: Final = 20


def list_detection_policies(
    *,
    is_canceled: bool | None = False,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[DetectionPolicy]:
    """Return a page of policies in effect, or of canceled ones, newest first; one query. Raises BadCursor."""
    rows = DetectionPolicy.objects.filter(canceled_at__isnull=not is_canceled)
    rows = rows.select_related("created_by", "canceled_by")
    return read_page_by_time(rows, "created_at", after=after, limit=limit, oldest_first=oldest_first)


def read_detection_policy(policy_id: int) -> DetectionPolicy | None:
    """Return one policy or None; one query."""
    return DetectionPolicy.objects.select_related("created_by", "canceled_by").filter(pk=policy_id).first()


def list_dry_runs() -> list[DetectionDryRun]:
    """Return the newest dry runs, at most 20; one query."""
    return list(DetectionDryRun.objects.select_related("created_by").order_by("-id")[:_DRY_RUNS_LISTED])


def read_dry_run(dry_run_id: int) -> DetectionDryRun | None:
    """Return one dry run or None; one query."""
    return DetectionDryRun.objects.select_related("created_by").filter(pk=dry_run_id).first()
