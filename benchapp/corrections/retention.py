"""Retention: remove what is older than a number of days, a tier at a time; of points daily roll-ups stay.

Exempt are runs that begin a level or a change, runs of accepted baselines, the newest of each series, and runs in the
time range of a pinned chart or a study. Incidents stay that are not resolved, or that explain a present level.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, TruncDay
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.read.binary_columns import fetch_rows, from_us, to_us
from benchapp.framework.read.days import parse_moment
from benchapp.framework.write.conflicts import BadValue, lock_incidents
from benchapp.framework.write.list_entries import read_series_filter
from benchapp.incidents.write.candidates import CHANGES_REACH
from benchapp.intake.normalize.store import recalculate_series, remove_measurements
from benchapp.models import (
    DELETED_RUNS_KEPT,
    Change,
    ChangeState,
    Correction,
    CorrectionKind,
    DeletedRun,
    Incident,
    IncidentState,
    Level,
    Measurement,
    PinnedChart,
    RetentionTier,
    Run,
    State,
    Study,
    Submission,
    Trace,
)
from benchapp.models.filtering import match_changes, match_runs, read_filter_to_store

KEEP_DAYS_LEAST: Final = DELETED_RUNS_KEPT.days
_KEEP_DAYS_MOST: Final = 36_500
_EVERY: Final = timedelta(days=1)
_EVER: Final = datetime(1, 1, 1, tzinfo=UTC)
_RUNS_AT_ONCE: Final = 200
_INCIDENTS_AT_ONCE: Final = 50
# Of a preview; the rest is estimated from them.
_LOOKED_AT: Final = 10_000
# Newest points of a series that stay: detection needs them to know its noise.
POINTS_KEPT: Final = 50

# Names of our own columns.
_ROLL_UP: Final = (
    "INSERT INTO benchapp_dailypoint (series_id, day, n, values)"  # noqa: S608
    " SELECT series_id, (started_at AT TIME ZONE 'UTC')::date, count(*), jsonb_strip_nulls(jsonb_build_object("
    + ", ".join(
        f"'{name}', CASE WHEN count({name}) > 0 THEN jsonb_build_array(min({name}),"
        f" percentile_cont(0.5) WITHIN GROUP (ORDER BY {name}), max({name})) END"
        for name in CATALOG
    )
    + ")) FROM benchapp_measurement WHERE run_id = ANY(%s) AND error = 0 AND NOT is_excluded GROUP BY 1, 2"
)
_COUNT_RUNS: Final = (
    "UPDATE benchapp_host SET run_count = run_count - counted.count FROM"
    " (SELECT host_id, count(*) FROM benchapp_run WHERE id = ANY(%s) GROUP BY host_id) counted"
    " WHERE benchapp_host.id = counted.host_id"
)
_MARK_DELETED: Final = (
    "INSERT INTO benchapp_deletedrun (id, correction_id, submission_id, document, row)"
    " SELECT id, %s, submission_id, document, '{}' FROM benchapp_run WHERE id = ANY(%s)"
)
_HISTOGRAMS_SIZE: Final = (
    "SELECT count(*), sum(pg_column_size(percentiles) + coalesce(pg_column_size(latency_bins), 0))"
    " FROM benchapp_measurement WHERE run_id = ANY(%s) AND (percentiles <> '{}' OR latency_bins IS NOT NULL)"
)
_OUTPUT_SIZE: Final = (
    "SELECT count(*), sum(octet_length(body)) FROM benchapp_submission"
    " WHERE id IN (SELECT submission_id FROM benchapp_run WHERE id = ANY(%s))"
)
_TRACES_SIZE: Final = (
    "SELECT count(*), sum(pg_column_size(one.*)) FROM benchapp_trace one WHERE run_id = ANY(%s)"
)
_POINTS_SIZE: Final = (
    "SELECT count(*), sum(pg_column_size(one.*)) FROM benchapp_measurement one WHERE run_id = ANY(%s)"
)
_SIZES: Final = {
    RetentionTier.OUTPUT: (_OUTPUT_SIZE,),
    RetentionTier.TRACES: (_TRACES_SIZE,),
    RetentionTier.HISTOGRAMS: (_HISTOGRAMS_SIZE,),
    # A run goes with all that it has.
    RetentionTier.POINTS: (
        _POINTS_SIZE,
        "SELECT count(*), sum(pg_column_size(one.*)) FROM benchapp_run one WHERE id = ANY(%s)",
        _TRACES_SIZE,
        _OUTPUT_SIZE,
    ),
    RetentionTier.INCIDENTS: (
        "SELECT count(*), sum(pg_column_size(one.*)) FROM benchapp_incident one WHERE id = ANY(%s)",
        "SELECT count(*), sum(pg_column_size(one.*)) FROM benchapp_incidentevent one WHERE incident_id = ANY(%s)",
    ),
}


@dataclass(frozen=True, slots=True)
class RetentionEffect:
    """What a retention removes at once. before_at: of what began, or was resolved, before.

    rows: of the tier; kept: old runs or incidents that are exempt. is_estimated: from the oldest 10 000 runs.
    """

    before_at: datetime
    rows: int
    size_bytes: int
    kept: int
    is_estimated: bool


def check_retention(entry: Correction) -> None:
    """Write the values of a retention in their canonical form. Raises BadValue."""
    if not entry.is_retention:
        if entry.tier or entry.keep_days is not None:
            raise BadValue("tier" if entry.tier else "keep_days", f"a {entry.kind} has none")
        return
    if entry.run_ids or entry.from_at or entry.to_at or entry.changes:
        raise BadValue("filter", "a retention has a filter, a tier and a number of days only")
    if entry.tier not in RetentionTier.values:
        raise BadValue("tier", f"say what to remove: {', '.join(RetentionTier.values)}")
    if entry.keep_days is None or not KEEP_DAYS_LEAST <= entry.keep_days <= _KEEP_DAYS_MOST:
        raise BadValue("keep_days", f"keep from {KEEP_DAYS_LEAST} to {_KEEP_DAYS_MOST} days")
    if entry.tier == RetentionTier.INCIDENTS:
        entry.filter = read_series_filter(entry.filter)
        return
    try:
        entry.filter = read_filter_to_store(entry.filter)
    except BadFilter as error:
        raise BadValue("filter", str(error)) from error


def preview_retention(entry: Correction) -> RetentionEffect:
    """Return what a retention that is not saved would remove at once. Raises BadValue."""
    check_retention(entry)
    before_at = _find_start(entry)
    if entry.tier == RetentionTier.INCIDENTS:
        incidents = _select_incidents(entry, before_at)
        ids = list(incidents.filter(~_is_present()).values_list("pk", flat=True))
        rows, size_bytes = _measure(entry, ids)
        return RetentionEffect(before_at, rows, size_bytes, incidents.count() - len(ids), False)
    old = _select_runs(entry, before_at)
    looked_at = list(old.order_by("started_at", "id").values_list("pk", flat=True)[: _LOOKED_AT + 1])
    is_estimated = len(looked_at) > _LOOKED_AT
    share = old.count() / _LOOKED_AT if is_estimated else 1.0
    looked = Run.objects.filter(pk__in=looked_at[:_LOOKED_AT]).filter(_has_tier(entry, before_at))
    ids = list(looked.filter(~_is_exempt(entry.tier)).values_list("pk", flat=True))
    rows, size_bytes = _measure(entry, ids)
    kept = looked.count() - len(ids)
    return RetentionEffect(
        before_at, round(rows * share), round(size_bytes * share), round(kept * share), is_estimated
    )


def make_retentions_due() -> int:
    """Make the retentions due that have not removed anything for a day; return their number."""
    rows = Correction.objects.filter(kind=CorrectionKind.RETENTION, canceled_at=None, is_due=False)
    return rows.filter(removed_at__lt=timezone.now() - _EVERY).update(is_due=True, position=0)


def advance_retention(entry: Correction) -> None:
    """Remove a batch of what is old, in its transaction, and note in the entry how far it is; the caller saves it."""
    before_at = _find_start(entry)
    if entry.tier == RetentionTier.INCIDENTS:
        removed = _remove_incidents(entry, before_at)
    else:
        removed = _remove_of_runs(entry, before_at)
    entry.done_count += removed
    entry.is_due = removed > 0
    entry.removed_at = timezone.now()


def _find_start(entry: Correction) -> datetime:
    """Return the start of the first day that is kept."""
    today = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=entry.keep_days or 0)


def _measure(entry: Correction, ids: Sequence[int]) -> tuple[int, int]:
    """Return the number of rows of the tier and their bytes, of these runs or incidents."""
    found = [fetch_rows(query, [list(ids)])[0] for query in _SIZES[RetentionTier(entry.tier)]]
    return int(found[0][0]), sum(int(size or 0) for _, size in found)


def _select_runs(entry: Correction, before_at: datetime) -> QuerySet[Run]:
    return Run.objects.filter(match_runs(parse_filter(entry.filter)), started_at__lt=before_at)


def _has_tier(entry: Correction, before_at: datetime) -> Q:
    """Return the condition on old runs that have what is removed."""
    of_run = {"run": OuterRef("pk")}
    if entry.tier == RetentionTier.TRACES:
        return Q(Exists(Trace.objects.filter(**of_run)))
    if entry.tier == RetentionTier.HISTOGRAMS:
        stored = ~Q(percentiles={}) | Q(latency_bins__isnull=False)
        return Q(Exists(Measurement.objects.filter(stored, **of_run)))
    if entry.tier == RetentionTier.POINTS:
        return Q()
    # Raw output is of all runs of a submission, and of deleted ones that can be restored.
    is_old = match_runs(parse_filter(entry.filter)) & Q(started_at__lt=before_at) & ~_is_exempt(entry.tier)
    others = Run.objects.filter(submission=OuterRef("submission")).exclude(pk=OuterRef("pk"))
    deleted = DeletedRun.objects.filter(submission=OuterRef("submission")).exclude(row={})
    return (
        Q(submission__body__isnull=False, submission__state=State.STORED)
        & ~Exists(others.filter(~is_old))
        & ~Exists(deleted)
    )


def _is_exempt(tier: str) -> Q:
    """Return the condition on runs that stay."""
    levels = Level.objects.filter(first_run_id=OuterRef("pk"), series__measurements__run=OuterRef("pk"))
    baselines = Measurement.objects.filter(
        run=OuterRef("pk"), series__detection_results__baseline_from_at__lte=F("started_at")
    )
    exempt = (
        Q(Exists(levels))
        | Q(Exists(Change.objects.filter(run=OuterRef("pk"))))
        | Q(Exists(Change.objects.filter(last_good_run=OuterRef("pk"))))
        | Q(Exists(baselines))
    )
    for shown in _list_shown():
        exempt |= shown
    if tier == RetentionTier.POINTS:
        # With their whole day, as detection reads what is newer than the newest daily point.
        others = Measurement.objects.filter(series=OuterRef("series"), error=0, is_excluded=False)
        days = others.order_by("-started_at", "-pk").values(day=TruncDay("started_at", tzinfo=UTC))
        oldest_kept = Subquery(days[POINTS_KEPT - 1 : POINTS_KEPT])
        kept = Q(started_at__gte=Coalesce(oldest_kept, _EVER))
        exempt |= Q(Exists(Measurement.objects.filter(kept, run=OuterRef("pk"))))
    return exempt


def _list_shown() -> Iterator[Q]:
    """Yield the conditions on runs in the time ranges of pinned charts and studies; without a start none."""
    now = timezone.now()
    queries = set(PinnedChart.objects.values_list("query", flat=True))
    queries |= {
        panel["query"] for panels in Study.objects.values_list("panels", flat=True) for panel in panels
    }
    for query in sorted(queries):
        given = dict(parse_qsl(query))
        # Compare has a range and a filter for each side.
        for side in ("", "a", "b"):
            start, end = (given.get(f"{side}_{name}" if side else name, "") for name in ("from", "to"))
            if start:
                yield _match_shown(start, end, filters=(given.get("q", ""), given.get(side, "")), now=now)


def _match_shown(start: str, end: str, *, filters: Sequence[str], now: datetime) -> Q:
    """Return the condition on runs of a range; what cannot be read of it exempts more."""
    shown = Q(pk__isnull=False)
    # Days may be those of any time zone.
    with suppress(ValueError, OverflowError):
        shown &= Q(started_at__gte=parse_moment(start, now=now) - timedelta(days=1))
    with suppress(ValueError, OverflowError):
        shown &= Q(started_at__lt=parse_moment(end, now=now) + timedelta(days=2)) if end else Q()
    for text in filters:
        with suppress(BadFilter):
            shown &= match_runs(parse_filter(text))
    return shown


def _remove_of_runs(entry: Correction, before_at: datetime) -> int:
    """Remove the tier of the next runs in the order of time; return the number of rows."""
    rows = _select_runs(entry, before_at).filter(_has_tier(entry, before_at)).filter(~_is_exempt(entry.tier))
    rows = rows.filter(started_at__gte=from_us(entry.position)).order_by("started_at", "pk")
    if entry.tier == RetentionTier.POINTS:
        ids = _list_points(entry, rows)
    else:
        found = list(rows.values_list("pk", "started_at")[:_RUNS_AT_ONCE])
        entry.position = to_us(found[-1][1]) if found else entry.position
        ids = [pk for pk, _ in found]
    if not ids:
        return 0
    # In the order of those who read submissions again.
    submissions = Submission.objects.select_for_update().filter(runs__in=ids).order_by("pk")
    submission_ids = list(submissions.values_list("pk", flat=True))
    list(Run.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    if entry.tier == RetentionTier.OUTPUT:
        return Submission.objects.filter(pk__in=submission_ids).update(body=None)
    if entry.tier == RetentionTier.TRACES:
        return Trace.objects.filter(run__in=ids).delete()[0]
    if entry.tier == RetentionTier.HISTOGRAMS:
        stored = ~Q(percentiles={}) | Q(latency_bins__isnull=False)
        return Measurement.objects.filter(stored, run__in=ids).update(percentiles={}, latency_bins=None)
    return _remove_points(entry, ids, submission_ids)


def _list_points(entry: Correction, rows: QuerySet[Run]) -> list[int]:
    """Return the next runs, with all others of their hosts or pools on these days: a day is rolled up once."""
    found = list(rows.values_list("started_at", "host_id", "host__pool")[:_RUNS_AT_ONCE])
    if not found:
        return []
    first, last = (
        at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for at in (found[0][0], found[-1][0])
    )
    entry.position = to_us(first)
    same = Q(host__pool__in={pool for _, _, pool in found if pool})
    same |= Q(host__in={host_id for _, host_id, pool in found if not pool})
    return list(rows.filter(same, started_at__lt=last + timedelta(days=1)).values_list("pk", flat=True))


def _remove_points(entry: Correction, ids: Sequence[int], submission_ids: Sequence[Any]) -> int:
    points = Measurement.objects.filter(run__in=ids).count()
    with connection.cursor() as cursor:
        cursor.execute(_ROLL_UP, [list(ids)])
        cursor.execute(_COUNT_RUNS, [list(ids)])
        # Where other runs of a submission stay, reading it again still leaves these out.
        cursor.execute(_MARK_DELETED, [entry.pk, list(ids)])
    series_ids = remove_measurements(ids)
    Run.objects.filter(pk__in=ids).delete()
    restorable = DeletedRun.objects.filter(submission=OuterRef("pk")).exclude(row={})
    emptied = Submission.objects.filter(pk__in=submission_ids, runs=None).exclude(Exists(restorable))
    Submission.objects.filter(pk__in=list(emptied.values_list("pk", flat=True))).delete()
    recalculate_series(sorted(series_ids))
    return max(points, len(ids))


def _select_incidents(entry: Correction, before_at: datetime) -> QuerySet[Incident]:
    rows = Incident.objects.filter(state=IncidentState.RESOLVED, resolved_at__lt=before_at, merged_into=None)
    if entry.filter:
        changes = Change.objects.filter(match_changes(parse_filter(entry.filter)), incident=OuterRef("pk"))
        rows = rows.filter(Exists(changes))
    return rows.order_by("pk")


def _is_present() -> Q:
    """Return the condition on incidents that stay: with a change that began a present level, or drifts still.

    Without them, changes of the time that detection looks back would open others.
    """
    recent = timezone.now() - CHANGES_REACH
    levels = Level.objects.filter(is_current=True, change__incident=OuterRef("pk"))
    drifts = Change.objects.filter(incident=OuterRef("pk"), method__startswith="drift-")
    drifts = drifts.exclude(state=ChangeState.WITHDRAWN).exclude(evidence__is_back=True)
    young = Change.objects.filter(incident=OuterRef("pk"), started_at__gte=recent)
    return Q(Exists(levels)) | Q(Exists(drifts)) | Q(Exists(young))


def _remove_incidents(entry: Correction, before_at: datetime) -> int:
    """Remove the next incidents with their activity, and those that were merged into them; return their number."""
    lock_incidents()
    rows = _select_incidents(entry, before_at).filter(~_is_present())
    ids = set(rows.values_list("pk", flat=True)[:_INCIDENTS_AT_ONCE])
    found = len(ids)
    while merged := set(
        Incident.objects.filter(merged_into__in=ids).exclude(pk__in=ids).values_list("pk", flat=True)
    ):
        ids |= merged
    Incident.objects.filter(pk__in=ids).delete()
    return found
