"""Exclude a run from medians, with user and reason, and include it again; its measurements are not changed."""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from benchapp.framework.write.audit import record_write
from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.models import AuditKind, DailyPoint, FormerName, Measurement, Run, Series, User

log = structlog.get_logger(__name__)

REASON_MAXIMUM: Final = 500


def continue_series(moved: Mapping[int, int]) -> None:
    """Have links and daily points of series that lost their last point follow to those that have its points now.

    moved: the new series by the old one. A series that has points again is its own.
    """
    counts = dict(
        Series.objects.filter(pk__in={*moved, *moved.values()}).values_list("pk", "measurement_count")
    )
    FormerName.objects.filter(scope__in=[f"series:{pk}" for pk, count in counts.items() if count]).delete()
    for old, new in moved.items():
        if counts.get(old) == 0 and counts.get(new):
            values = {"present": f"series:{new}", "renamed_at": timezone.now()}
            FormerName.objects.filter(present=f"series:{old}").update(present=f"series:{new}")
            FormerName.objects.update_or_create(scope=f"series:{old}", defaults=values)
            daily = DailyPoint.objects.filter(series=old)
            newest = daily.aggregate(day=Max("day"))["day"]
            # Points older than a daily one would no longer count.
            if newest and not Measurement.objects.filter(series=new, started_at__date__lte=newest).exists():
                daily.update(series=new)


class UnknownRun(Exception):
    """The run does not exist."""


class BadReason(Exception):
    """The reason is missing, too long, or has characters that PostgreSQL rejects."""


@retry_conflicts
def exclude_run(run_id: int, by: User | None, *, reason: str, via: str = "") -> Run:
    """Exclude a run from all medians and summaries, and return it; idempotent.

    by: the responsible user, None for an API token without an owner; via: the token, for the log. With another
    reason it is excluded anew. Raises UnknownRun, BadReason.
    """
    reason_text = read_reason(reason)
    with transaction.atomic():
        run = _lock(run_id)
        if run.excluded_at is not None and run.excluded_reason == reason_text:
            return run
        _record(run, "excluded", {"is_excluded": True, "reason": reason_text}, by)
        run.excluded_at, run.excluded_by, run.excluded_reason = timezone.now(), by, reason_text
        run.save(update_fields=["excluded_at", "excluded_by", "excluded_reason"])
        _mark_measurements(run_id, is_excluded=True)
    log.info("run.excluded", run=run_id, by=by.username if by else "", via=via, reason=reason_text)
    return run


@retry_conflicts
def include_run(run_id: int, by: User | None, *, via: str = "") -> Run:
    """Include a run in medians and summaries again, and return it; no change if it is not excluded.

    The reason stays in the row, so that the page can offer it for excluding the run again. Raises UnknownRun.
    """
    with transaction.atomic():
        run = _lock(run_id)
        if run.excluded_at is None:
            return run
        _record(run, "included", {"is_excluded": False, "reason": run.excluded_reason}, by)
        run.excluded_at = run.excluded_by = None
        run.save(update_fields=["excluded_at", "excluded_by"])
        _mark_measurements(run_id, is_excluded=False)
    log.info("run.included", run=run_id, by=by.username if by else "", via=via, reason=run.excluded_reason)
    return run


def _record(run: Run, action: str, after: dict[str, Any], by: User | None) -> None:
    before = {"is_excluded": run.excluded_at is not None, "reason": run.excluded_reason}
    record_write(AuditKind.RUN, action, object_id=run.pk, before=before, after=after, by=by)


def read_reason(text: str) -> str:
    """Return a reason in one line. Raises BadReason if it is empty or too long."""
    reason = " ".join(text.replace("\x00", "\ufffd").split())
    if not reason:
        raise BadReason("a reason is required")
    if len(reason) > REASON_MAXIMUM:
        raise BadReason(f"the reason has {len(reason)} characters; at most {REASON_MAXIMUM} are allowed")
    return reason


def _lock(run_id: int) -> Run:
    """Return the run, locked: a concurrent reparse keeps the exclusion, or waits for it."""
    rows = Run.objects.select_for_update(of=("self",), no_key=True).select_related("excluded_by")
    run = rows.filter(pk=run_id).first()
    if run is None:
        raise UnknownRun(f"run {run_id} does not exist")
    return run


def _mark_measurements(run_id: int, *, is_excluded: bool) -> None:
    """Mark the run's measurements, and their series as due; rows are locked in the order of `store_plans`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE benchapp_measurement SET is_excluded = %s WHERE run_id = %s RETURNING series_id",
            [is_excluded, run_id],
        )
        touched = sorted({series_id for (series_id,) in cursor.fetchall()})
    list(Series.objects.select_for_update().filter(pk__in=touched).order_by("pk").values_list("pk"))
    Series.objects.filter(pk__in=touched).update(judging_is_due=True)
