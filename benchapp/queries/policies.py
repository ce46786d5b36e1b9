"""Detection policies, and dry runs of thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from benchapp.metrics import SMALLEST_CHANGES
from benchapp.models import DetectionDryRun, DetectionPolicy, DryRunState, name_person
from benchapp.queries.pagination import Page, read_page_by_time

_DRY_RUNS_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class DryRunIncident:
    """An incident that a dry run adds or removes. series: changed ones, series_id: the most changed of them.

    incident_id: the stored incident with these changes; None if there is none.
    """

    scope: str
    started_at: datetime
    metric: str
    relative: float
    series: int
    series_id: int
    incident_id: int | None


@dataclass(frozen=True, slots=True)
class DryRunRow:
    """One dry run. series_count: that match; evaluated_count: the first of them, which are evaluated; done_count: so
    far.

    current, proposed: incidents with the thresholds of today and with the proposed one; None until it is done. added,
    removed: the first of added_count and removed_count.
    """

    id: int
    state: DryRunState
    metric: str
    smallest_change: float
    default: float
    filter: str
    label: str
    from_at: datetime
    series_count: int
    evaluated_count: int
    done_count: int
    current: int | None
    proposed: int | None
    added_count: int
    removed_count: int
    added: tuple[DryRunIncident, ...]
    removed: tuple[DryRunIncident, ...]
    created_by_name: str
    created_at: datetime
    finished_at: datetime | None


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


def list_dry_runs() -> tuple[DryRunRow, ...]:
    """Return the newest dry runs, at most 20; one query."""
    rows = DetectionDryRun.objects.select_related("created_by").order_by("-id")[:_DRY_RUNS_LISTED]
    return tuple(map(_make_dry_run, rows))


def read_dry_run(dry_run_id: int) -> DryRunRow | None:
    """Return one dry run or None; one query."""
    found = DetectionDryRun.objects.filter(pk=dry_run_id).select_related("created_by").first()
    return None if found is None else _make_dry_run(found)


def _make_dry_run(found: DetectionDryRun) -> DryRunRow:
    result: Mapping[str, Any] = found.result
    return DryRunRow(
        id=found.pk,
        state=DryRunState(found.state),
        metric=found.metric,
        smallest_change=found.smallest_change,
        default=SMALLEST_CHANGES[found.metric],
        filter=found.filter,
        label=found.label,
        from_at=found.from_at,
        series_count=found.series_count,
        evaluated_count=len(found.series_ids),
        done_count=found.done_count,
        current=result.get("current"),
        proposed=result.get("proposed"),
        added_count=result.get("added_count", 0),
        removed_count=result.get("removed_count", 0),
        added=_make_incidents(result.get("added", ())),
        removed=_make_incidents(result.get("removed", ())),
        created_by_name=name_person(found.created_by),
        created_at=found.created_at,
        finished_at=found.finished_at,
    )


def _make_incidents(rows: Sequence[Mapping[str, Any]]) -> tuple[DryRunIncident, ...]:
    return tuple(
        DryRunIncident(
            scope=row["scope"],
            started_at=datetime.fromisoformat(row["started_at"]),
            metric=row["metric"],
            relative=row["relative"],
            series=row["series"],
            series_id=row["series_id"],
            incident_id=row["incident"],
        )
        for row in rows
    )
