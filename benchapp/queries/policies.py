"""Detection policies with their activity log, and dry runs of thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from benchapp.metrics import SMALLEST_CHANGES
from benchapp.models import (
    DetectionDryRun,
    DetectionPolicy,
    DetectionPolicyAction,
    DetectionPolicyLogEntry,
    DryRunState,
    name_person,
)
from benchapp.models.policies.thresholds import list_matching_series
from benchapp.queries.pagination import Cursor, Page, behind, by_time, cut_page, read_cursor

# Older entries are left out.
_LOG_MAXIMUM: Final = 200
_DRY_RUNS_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class DetectionPolicyRow:
    """One policy. smallest_change: relative; default: that of the catalog. names are "" if unknown."""

    id: int
    metric: str
    smallest_change: float
    default: float
    filter: str
    label: str
    reason: str
    created_by_name: str
    created_at: datetime
    canceled_by_name: str
    canceled_at: datetime | None


@dataclass(frozen=True, slots=True)
class PolicyLogRow:
    """One entry of the activity log. by_name: "" for a token without owner; via: the API token, "" for a person."""

    at: datetime
    action: DetectionPolicyAction
    by_name: str
    via: str

    @property
    def action_text(self) -> str:
        """Return the text of the action."""
        return str(self.action.label)


@dataclass(frozen=True, slots=True)
class DetectionPolicyDetail:
    """One policy with its activity log, oldest first. series_count: measured series that match."""

    row: DetectionPolicyRow
    activity: tuple[PolicyLogRow, ...]
    series_count: int


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
    *, is_canceled: bool = False, after: str | None = None, limit: int = 100, oldest_first: bool = False
) -> Page[DetectionPolicyRow]:
    """Return a page of policies, newest first; one query. Raises BadCursor."""
    cursor = read_cursor(after)
    rows = (
        DetectionPolicy.objects.filter(
            behind("created_at", cursor, is_descending=not oldest_first), canceled_at__isnull=not is_canceled
        )
        .select_related("created_by", "canceled_by")
        .order_by(*by_time("created_at", oldest_first=oldest_first))[: limit + 1]
    )
    return cut_page(
        [_make_row(policy) for policy in rows], limit, cursor_of=lambda row: Cursor(row.created_at, row.id)
    )


def read_detection_policy(policy_id: int) -> DetectionPolicyDetail | None:
    """Return one policy or None; three queries, four with a label."""
    found = DetectionPolicy.objects.filter(pk=policy_id).select_related("created_by", "canceled_by").first()
    if found is None:
        return None
    entries = DetectionPolicyLogEntry.objects.filter(policy=found).order_by("at", "id")
    rows = entries.values_list("at", "action", "by__username", "via")[:_LOG_MAXIMUM]
    return DetectionPolicyDetail(
        _make_row(found),
        tuple(
            PolicyLogRow(at, DetectionPolicyAction(action), name_person(name), via)
            for at, action, name, via in rows
        ),
        series_count=len(list_matching_series(found.filter, found.label)),
    )


def list_dry_runs() -> tuple[DryRunRow, ...]:
    """Return the newest dry runs, at most 20; one query."""
    rows = DetectionDryRun.objects.select_related("created_by").order_by("-id")[:_DRY_RUNS_LISTED]
    return tuple(map(_make_dry_run, rows))


def read_dry_run(dry_run_id: int) -> DryRunRow | None:
    """Return one dry run or None; one query."""
    found = DetectionDryRun.objects.filter(pk=dry_run_id).select_related("created_by").first()
    return None if found is None else _make_dry_run(found)


def _make_row(policy: DetectionPolicy) -> DetectionPolicyRow:
    return DetectionPolicyRow(
        id=policy.pk,
        metric=policy.metric,
        smallest_change=policy.smallest_change,
        default=SMALLEST_CHANGES[policy.metric],
        filter=policy.filter,
        label=policy.label,
        reason=policy.reason,
        created_by_name=name_person(policy.created_by),
        created_at=policy.created_at,
        canceled_by_name=name_person(policy.canceled_by),
        canceled_at=policy.canceled_at,
    )


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
