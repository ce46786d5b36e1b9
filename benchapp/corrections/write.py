"""Delete and relabel runs in the background, undo it, and remove deleted runs for good after 30 days; lists."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from benchapp.catalog.dimensions import LABEL_PREFIX, find_filter_dimension
from benchapp.catalog.grammar import BadFilter
from benchapp.catalog.metrics import UNKNOWN
from benchapp.corrections.retention import (
    advance_retention,
    check_retention,
    preview_retention,
)
from benchapp.fio import PARSER_VERSION
from benchapp.framework.queue import wake_correction
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Page, match_times, read_page_by_time
from benchapp.framework.write.audit import record_write
from benchapp.framework.write.conflicts import BadValue, end_if_frozen, retry_conflicts
from benchapp.framework.write.list_entries import EntryList, NotInThisState, read_entry_reason
from benchapp.intake.normalize.batch import ImportRunning, exclude_imports
from benchapp.intake.normalize.effect import RereadEffect, find_reread_effect
from benchapp.intake.normalize.reparse import renormalize_batch
from benchapp.intake.normalize.store import recalculate_series, remove_measurements
from benchapp.intake.posts.envelope import RELABELED, BadParameter, locate_parameter, read_changes
from benchapp.intake.posts.metadata import BadLayout
from benchapp.models import (
    DELETED_RUNS_KEPT,
    REREAD,
    AuditKind,
    Correction,
    CorrectionKind,
    DeletedRun,
    FormerName,
    Host,
    Incident,
    RelabeledRun,
    Run,
    Series,
    Submission,
    User,
)
from benchapp.models.coverage import read_stored_filter
from benchapp.models.filtering import match_runs, read_filter_to_store
from benchapp.series.read.titles import describe_target, describe_value

log = structlog.get_logger(__name__)

# Of one correction.
RUNS_MAXIMUM: Final = 100_000
# That are in progress; a worker advances one after the other.
DUE_MAXIMUM: Final = 20
INCIDENTS_NAMED: Final = 5
# Small, so that new submissions do not wait long for the locks of series.
_RUNS_AT_ONCE: Final = 50
_SUBMISSIONS_AT_ONCE: Final = 500

_KEEP: Final = (
    "INSERT INTO benchapp_deletedrun (id, correction_id, submission_id, document, row)"
    " SELECT id, %s, submission_id, document, to_jsonb(run) FROM benchapp_run run WHERE id = ANY(%s)"
)
# The account of who excluded it may be gone.
_BRING_BACK: Final = (
    "INSERT INTO benchapp_run SELECT (jsonb_populate_record(NULL::benchapp_run, row || jsonb_build_object("
    " 'excluded_by_id', (SELECT id FROM benchapp_user WHERE id = (row->>'excluded_by_id')::bigint)))).*"
    " FROM benchapp_deletedrun WHERE id = ANY(%s)"
)
_NOTE_RELABELED: Final = (
    "INSERT INTO benchapp_relabeledrun (correction_id, submission_id, document)"
    " SELECT %s, submission_id, document FROM benchapp_run WHERE id = ANY(%s) ORDER BY id"
)
_NOTED: Final = (
    "SELECT run.id FROM benchapp_relabeledrun noted JOIN benchapp_run run"
    " ON run.submission_id = noted.submission_id AND run.document = noted.document WHERE noted.id = ANY(%s)"
    " ORDER BY run.id"
)
# Of corrections of the same value, the last one wins.
_HAVE_REREAD: Final = (
    "WITH corrected AS MATERIALIZED (SELECT id, ("
    "  SELECT jsonb_object_agg(document, changes) FROM ("
    "   SELECT document, jsonb_object_agg(change.key, change.value ORDER BY correction.id) AS changes"
    "   FROM benchapp_relabeledrun run JOIN benchapp_correction correction ON correction.id = run.correction_id"
    "   CROSS JOIN jsonb_each(correction.changes) AS change"
    "   WHERE run.submission_id = submission.id AND correction.canceled_at IS NULL GROUP BY document) AS documents"
    "  ) AS relabeled FROM benchapp_submission submission WHERE id = ANY(%(ids)s))"
    " UPDATE benchapp_submission stored SET parser_version = %(reread)s, relabeled = corrected.relabeled FROM corrected"
    " WHERE stored.id = corrected.id"
    " AND (stored.relabeled IS DISTINCT FROM corrected.relabeled OR stored.parser_version = %(reread)s)"
    " RETURNING stored.id"
)
# Detection of a host waits while any of its results is to be read again: the one that is read last.
_HOLD_HOSTS: Final = (
    "UPDATE benchapp_submission SET parser_version = %s WHERE id IN ("
    " SELECT DISTINCT ON (host_id) submission.id FROM benchapp_relabeledrun run"
    " JOIN benchapp_submission submission ON submission.id = run.submission_id"
    " WHERE run.correction_id = %s AND submission.body IS NOT NULL ORDER BY host_id, run.id DESC)"
)
_COUNT_RUNS: Final = (
    "UPDATE benchapp_host SET run_count = run_count + %s * counted.count FROM"
    " (SELECT host_id, count(*) FROM benchapp_run WHERE id = ANY(%s) GROUP BY host_id) counted"
    " WHERE benchapp_host.id = counted.host_id"
)
_AFFECTED: Final = (
    "WITH counted AS (SELECT series_id, count(*) FROM benchapp_measurement WHERE run_id = ANY(%(ids)s)"
    "  GROUP BY series_id)"
    " SELECT count(*), ARRAY_AGG(series.id) FILTER (WHERE counted.count < series.measurement_count),"
    " (SELECT count(DISTINCT host_id) FROM benchapp_run WHERE id = ANY(%(ids)s)),"
    " (SELECT min(started_at) FROM benchapp_run WHERE id = ANY(%(ids)s)),"
    " (SELECT max(started_at) FROM benchapp_run WHERE id = ANY(%(ids)s)),"
    " ARRAY(SELECT DISTINCT incident_id FROM benchapp_change JOIN counted USING (series_id)"
    "  WHERE incident_id IS NOT NULL)"
    " FROM counted JOIN benchapp_series series ON series.id = counted.series_id"
)
# A submission is removed with its last run: the raw output of those that stay has all of them.
_REMOVABLE: Final = (
    "SELECT DISTINCT gone.submission_id FROM benchapp_deletedrun gone WHERE gone.correction_id = %s"
    " AND NOT EXISTS (SELECT FROM benchapp_run run WHERE run.submission_id = gone.submission_id)"
    " AND NOT EXISTS (SELECT FROM benchapp_deletedrun other"
    "  JOIN benchapp_correction kept ON kept.id = other.correction_id"
    "  WHERE other.submission_id = gone.submission_id AND kept.id <> gone.correction_id AND kept.removed_at IS NULL)"
    " LIMIT %s"
)
# Of the runs that a form shows.
_LABEL_VALUES_MAXIMUM: Final = 1000
_COLUMNS: Final = ", ".join(".".join(locate_parameter(name)) for name in RELABELED)
_VALUES: Final = (
    f"SELECT {_COLUMNS}, count(*) FROM benchapp_run run JOIN benchapp_target target ON target.id = target_id"  # noqa: S608
    " JOIN benchapp_environment environment ON environment.id = environment_id WHERE run.id = ANY(%s)"
    f" GROUP BY {_COLUMNS}"
)
_LABELS: Final = (
    "SELECT name, value, count(*) FROM benchapp_run, jsonb_each_text(labels) AS label(name, value)"
    " WHERE id = ANY(%s) GROUP BY name, value ORDER BY count(*) DESC, name, value LIMIT %s"
)


class CorrectionList(EntryList[Correction]):
    """The corrections; canceling one undoes it."""

    model = Correction
    kind = AuditKind.CORRECTION
    noun = "correction"

    def check(self, entry: Correction) -> None:
        """Write filter, changes and reason in their canonical form, and count the runs. Raises BadValue."""
        check_retention(entry)
        if entry.is_retention:
            entry.run_count, entry.last_run_id = preview_retention(entry).rows, 0
        else:
            find_runs(entry)
            check_changes(entry)
        entry.reason = read_entry_reason(entry.reason)

    def refuse_more(self, entry: Correction) -> None:
        """Raise BadValue if too many corrections are in progress; NotInThisState if this one is over."""
        if entry.pk and entry.is_over:
            raise NotInThisState("its runs were restored more than 30 days ago: delete them anew")
        if Correction.objects.filter(is_due=True).count() >= DUE_MAXIMUM:
            raise BadValue("", f"{DUE_MAXIMUM} corrections are in progress: wait until one is done")

    def apply(self, entry: Correction) -> None:
        """Have a worker correct the runs, or undo it."""
        entry.is_due, entry.position = not (entry.is_retention and entry.canceled_at), 0
        if not entry.is_retention:
            entry.done_count, entry.unreadable_count = 0, 0
            if not entry.relabeled_runs.exists():
                _note_runs(entry, _select_runs(entry))
        if entry.kind == CorrectionKind.RELABELING:
            with connection.cursor() as cursor:
                cursor.execute(_HOLD_HOSTS, [REREAD, entry.pk])
        entry.save(update_fields=["is_due", "position", "done_count", "unreadable_count"])
        transaction.on_commit(wake_correction)

    def cancel(self, entry_id: int, *, by: User | None, via: str = "") -> Correction:
        """Undo a correction and return it. Raises UnknownEntry; NotInThisState for a deletion after 30 days."""
        row = Correction.objects.filter(pk=entry_id).first()
        if row is not None and row.canceled_at is None and row.is_over:
            raise NotInThisState("it was made more than 30 days ago, so its runs are deleted for good")
        return super().cancel(entry_id, by=by, via=via)


CORRECTIONS: Final = CorrectionList()


def _note_runs(entry: Correction, runs: QuerySet[Run]) -> None:
    """Note the runs of a new correction: what they match may change until a worker comes to them."""
    with connection.cursor() as cursor:
        cursor.execute(_NOTE_RELABELED, [entry.pk, list(runs.values_list("pk", flat=True))])


def _have_reread(ids: Collection[UUID]) -> list[UUID]:
    """Write what is corrected of these results, and return those that are to be read again."""
    with connection.cursor() as cursor:
        cursor.execute(_HAVE_REREAD, {"ids": list(ids), "reread": REREAD})
        return [submission_id for (submission_id,) in cursor.fetchall()]


def check_changes(entry: Correction) -> None:
    """Write the changes of a relabeling in their canonical form. Raises BadValue."""
    if entry.is_deletion and entry.changes:
        raise BadValue("changes", "a deletion changes no values")
    if not entry.is_deletion and not entry.changes:
        raise BadValue("changes", "name at least one value to change")
    try:
        entry.changes = read_changes(entry.changes)
    except BadLayout as error:
        raise BadValue(f"changes/{error.pointer}", str(error)) from error
    except BadParameter as error:
        raise BadValue(f"changes/{error.parameter}", str(error)) from error


def find_runs(entry: Correction) -> list[int]:
    """Return the ids of the runs that a new correction matches, and write their number and the newest run into it.

    Raises BadValue if there are none, or too many, or nothing says which.
    """
    if entry.run_ids and (entry.filter or entry.from_at or entry.to_at):
        raise BadValue("run_ids", "give either ids of runs, or a filter and a time range")
    if not (entry.run_ids or entry.filter.strip() or entry.from_at or entry.to_at):
        raise BadValue("filter", "say which runs: a filter, a time range, or ids of runs")
    if entry.from_at and entry.to_at and entry.to_at <= entry.from_at:
        raise BadValue("to_at", "the end is not after the start")
    try:
        entry.filter = read_filter_to_store(entry.filter)
    except BadFilter as error:
        raise BadValue("filter", str(error)) from error
    newest = Run.objects.order_by("-id").values_list("id", flat=True).first()
    entry.last_run_id = newest or 0
    ids = list(_select_runs(entry).values_list("pk", flat=True)[: RUNS_MAXIMUM + 1])
    if missing := sorted(set(entry.run_ids) - set(ids)):
        raise BadValue("run_ids", f"run {missing[0]} does not exist")
    if not ids:
        raise BadValue("filter", "no run matches")
    if len(ids) > RUNS_MAXIMUM:
        raise BadValue("filter", f"more than {RUNS_MAXIMUM} runs match: narrow the filter or the time range")
    entry.run_count = len(ids)
    return ids


def _select_runs(entry: Correction) -> QuerySet[Run]:
    """Select the runs of a correction that exist, by id."""
    rows = Run.objects.filter(pk__lte=entry.last_run_id).order_by("pk")
    if entry.run_ids:
        return rows.filter(pk__in=entry.run_ids)
    read = read_stored_filter(entry.filter)
    if read is None:
        return rows.none()
    return rows.filter(match_runs(read), match_times("started_at", entry.from_at, entry.to_at))


@dataclass(frozen=True, slots=True)
class CorrectionEffect:
    """What a deletion or relabeling affects. emptied: series that lose all runs; incidents: (id, title) of open ones.

    values: of a relabeling, those of the runs now, with their number, by parameter; reread: what becomes of the series.
    unreadable: runs without raw output, which a retention removed: a relabeling leaves them, a deletion is for good.
    """

    runs: int
    hosts: int
    series: int
    emptied: int
    from_at: datetime
    to_at: datetime
    incidents: Sequence[tuple[int, str]]
    values: Mapping[str, Counter[Any]]
    reread: RereadEffect | None
    unreadable: int


def preview_correction(entry: Correction) -> CorrectionEffect:
    """Return what a correction that is not saved would affect. Raises BadValue; ImportRunning for a relabeling."""
    ids = find_runs(entry)
    check_changes(entry)
    with connection.cursor() as cursor:
        cursor.execute(_AFFECTED, {"ids": ids})
        series, staying, hosts, from_at, to_at, incident_ids = cursor.fetchone()
    incidents = Incident.objects.filter(pk__in=incident_ids, is_open=True).order_by("-started_at", "-id")
    return CorrectionEffect(
        runs=len(ids),
        hosts=hosts,
        series=series,
        emptied=series - len(staying or ()),
        from_at=from_at,
        to_at=to_at,
        incidents=tuple(incidents.values_list("id", "title")),
        values={} if entry.is_deletion else count_values(ids),
        reread=None if entry.is_deletion else _preview_reread(copy(entry), staying or ()),
        unreadable=Run.objects.filter(pk__in=ids, submission__body=None).count(),
    )


@retry_conflicts
@transaction.atomic
def _preview_reread(entry: Correction, staying: Sequence[int]) -> RereadEffect:
    exclude_imports()
    entry.save(force_insert=True)
    runs = _select_runs(entry)

    def relabel(ids: Sequence[UUID]) -> None:
        _note_runs(entry, runs.filter(submission__in=ids))
        _have_reread(ids)

    submissions = Submission.objects.filter(pk__in=runs.order_by().values("submission"))
    effect = find_reread_effect(submissions, describe_target, prepare=relabel, staying=staying)
    transaction.set_rollback(True)
    return effect


def has_due_corrections() -> bool:
    """Return whether any run waits to be corrected, or for its undo."""
    return Correction.objects.filter(is_due=True).exists()


def advance_corrections(*, budget_s: float) -> bool:
    """Correct runs, or undo it, for this time, the oldest correction first; return whether any work is left."""
    started = time.monotonic()
    while time.monotonic() - started < budget_s:
        try:
            if not _advance_oldest():
                return False
        except ImportRunning:
            # The next sweep comes after it.
            return False
    return True


@retry_conflicts
@transaction.atomic
def _advance_oldest() -> bool:
    """Handle the next runs of the oldest correction that no other worker has; False without one."""
    end_if_frozen()
    exclude_imports()
    rows = Correction.objects.select_for_update(no_key=True, skip_locked=True)
    # Retentions have time.
    entry = rows.filter(is_due=True).order_by(F("keep_days").asc(nulls_first=True), "id").first()
    if entry is None:
        return False
    if entry.is_retention:
        advance_retention(entry)
        entry.save(update_fields=["position", "done_count", "is_due", "removed_at"])
        return True
    is_deleting = entry.is_deletion and entry.canceled_at is None
    if is_deleting and not entry.relabeled_runs.exists():
        # It began before deletions noted their runs.
        _note_runs(entry, _select_runs(entry))
        entry.position = 0
    noted = DeletedRun.objects if entry.is_deletion and not is_deleting else RelabeledRun.objects
    waiting = noted.filter(correction=entry, pk__gt=entry.position).order_by("pk")
    ids = list(waiting.values_list("pk", flat=True)[:_RUNS_AT_ONCE])
    if is_deleting:
        _delete(entry, _list_noted(ids))
    else:
        entry.unreadable_count += _try_each(
            ids, _reread if not entry.is_deletion else lambda batch: _restore(entry, batch)
        )
    entry.position = ids[-1] if ids else entry.position
    entry.done_count += len(ids)
    entry.is_due = len(ids) == _RUNS_AT_ONCE
    entry.save(update_fields=["position", "done_count", "unreadable_count", "is_due"])
    return True


def _list_noted(ids: Sequence[int]) -> list[int]:
    """Return the runs that were noted, those that still are there."""
    return [run_id for (run_id,) in fetch_rows(_NOTED, [list(ids)])]


def _delete(entry: Correction, ids: Sequence[int]) -> None:
    """Delete runs with what was measured and derived; their rows are kept for `_restore`."""
    # In the order of those who read submissions again.
    submissions = Submission.objects.select_for_update().filter(runs__in=ids).order_by("pk")
    list(submissions.values_list("pk"))
    list(Run.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    with connection.cursor() as cursor:
        cursor.execute(_KEEP, [entry.pk, list(ids)])
        cursor.execute(_COUNT_RUNS, [-1, list(ids)])
    series_ids = remove_measurements(ids)
    Run.objects.filter(pk__in=ids).delete()
    recalculate_series(sorted(series_ids))


def _try_each(ids: Sequence[int], act: Callable[[Sequence[int]], int]) -> int:
    """Act on rows at once, or one by one if that fails; return the number of rows that it could not act on."""
    if not ids:
        return 0
    try:
        with transaction.atomic():
            return act(ids)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        # Untrusted input: the database rejects a value of one of them.
        log.exception("correction.reading_failed", count=len(ids))
        return 1 if len(ids) == 1 else sum(_try_each([each], act) for each in ids)


def _restore(entry: Correction, ids: Sequence[int]) -> int:
    """Restore runs with their ids by reading their results again; return how many are rejected now."""
    rows = DeletedRun.objects.filter(pk__in=ids)
    runs = dict(rows.values_list("pk", "submission_id"))
    wanted = sorted(set(runs.values()))
    bare = set(Submission.objects.filter(pk__in=wanted, body=None).values_list("pk", flat=True))
    list(Submission.objects.select_for_update().filter(pk__in=wanted).order_by("pk").values_list("pk"))
    with connection.cursor() as cursor:
        cursor.execute(_BRING_BACK, [list(ids)])
        cursor.execute(_COUNT_RUNS, [1, list(ids)])
    rows.delete()
    outcome = renormalize_batch(wanted)
    rejected = bare | {rejection.submission_id for rejection in outcome.rejected}
    unreadable = [run_id for run_id, submission_id in runs.items() if submission_id in rejected]
    if unreadable:
        _delete(entry, unreadable)
    return len(unreadable)


def _reread(ids: Sequence[int]) -> int:
    """Read the results of relabeled runs again; return how many stay as they were."""
    runs = Counter(RelabeledRun.objects.filter(pk__in=ids).values_list("submission_id", flat=True))
    results = Submission.objects.filter(pk__in=runs)
    list(results.select_for_update().order_by("pk").values_list("pk"))
    renormalize_batch(_have_reread(runs))
    unread = list(results.filter(parser_version=REREAD).values_list("pk", flat=True))
    Submission.objects.filter(pk__in=unread).update(parser_version=PARSER_VERSION)
    return sum(runs[submission_id] for submission_id in unread)


def remove_deleted_runs() -> int:
    """Remove what was deleted more than 30 days ago for good, with raw output; return the number of deletions.

    Merges of hosts of then cannot be undone any more.
    """
    FormerName.objects.filter(renamed_at__lt=timezone.now() - DELETED_RUNS_KEPT).update(undo=None)
    over = Correction.objects.filter(
        kind=CorrectionKind.DELETION,
        canceled_at=None,
        removed_at=None,
        is_due=False,
        created_at__lt=timezone.now() - DELETED_RUNS_KEPT,
    )
    entries = list(over.order_by("id"))
    for entry in entries:
        host_ids = (
            DeletedRun.objects.filter(correction=entry).values_list("row__host_id", flat=True).distinct()
        )
        emptied = list(host_ids.order_by())
        while ids := _list_removable(entry.pk):
            Submission.objects.filter(pk__in=ids).delete()
        with transaction.atomic():
            _remove_hosts(emptied)
            # Where other runs of a submission stay, reading it again still leaves this one out.
            DeletedRun.objects.filter(correction=entry).update(row={})
            entry.removed_at = timezone.now()
            entry.save(update_fields=["removed_at"])
        log.info("deletion.final", correction=entry.pk, runs=entry.run_count)
    return len(entries)


def _remove_hosts(ids: Sequence[int]) -> None:
    """Remove those of these hosts that are retired and have no run, not even a deleted one."""
    runs = DeletedRun.objects.filter(submission__host=OuterRef("pk"))
    empty = Host.objects.filter(pk__in=ids, retired_at__isnull=False, runs=None).exclude(Exists(runs))
    for host in empty.select_for_update(of=("self",)):
        Series.objects.filter(host=host).delete()
        Submission.objects.filter(host=host).delete()
        FormerName.objects.filter(present=f"host:{host.name}").delete()
        host.delete()
        record_write(AuditKind.HOST, "removed", object_id=host.name, name=host.name)
        log.info("host.removed", host=host.name)


def _list_removable(correction_id: int) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_REMOVABLE, [correction_id, _SUBMISSIONS_AT_ONCE])
        return [submission_id for (submission_id,) in cursor.fetchall()]


def list_corrections(
    *,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[Correction]:
    """Return a page of the corrections that were made in a range, newest first; one query. Raises BadCursor."""
    rows = Correction.objects.filter(match_times("created_at", from_at, to_at))
    rows = rows.select_related("created_by", "canceled_by")
    return read_page_by_time(rows, "created_at", after=after, limit=limit, oldest_first=oldest_first)


def read_correction(correction_id: int) -> Correction | None:
    """Return one correction or None; one query."""
    return Correction.objects.select_related("created_by", "canceled_by").filter(pk=correction_id).first()


def count_values(ids: Sequence[int]) -> Mapping[str, Counter[Any]]:
    """Return how many of these runs have each value, by parameter of a post; two queries.

    Of labels, the 1000 most frequent values.
    """
    counts: dict[str, Counter[Any]] = defaultdict(Counter)
    for *values, count in fetch_rows(_VALUES, [list(ids)]):
        for name, value in zip(RELABELED, values, strict=True):
            counts[name][value] += count
    for name, value, count in fetch_rows(_LABELS, [list(ids), _LABEL_VALUES_MAXIMUM]):
        counts[f"{LABEL_PREFIX}{name}"][value] = count
    return counts


def name_parameter(name: str) -> str:
    """Return the label of a parameter of a post: "Volume type", "Label rack"."""
    dimension = find_filter_dimension(name)
    return dimension.label if dimension else f"Label {name.removeprefix(LABEL_PREFIX)}"


def format_parameter(name: str, value: Any) -> str:
    """Format a value of a parameter of a post for its label."""
    dimension = find_filter_dimension(name)
    return describe_value(dimension.name, value) if dimension else str(value or UNKNOWN)


@dataclass(frozen=True, slots=True)
class RelabeledValue:
    """A value of a run by a correction; stated: what its sender stated. None: not stated."""

    name: str
    value: Any
    stated: Any
    correction: Correction


def list_relabeled(run: Run) -> tuple[RelabeledValue, ...]:
    """Return the values of a run that are not its sender's; one query if there are any."""
    if not run.stated:
        return ()
    rows = Correction.objects.filter(
        relabeled_runs__submission=run.submission_id, relabeled_runs__document=run.document, canceled_at=None
    )
    latest = {
        name: (value, row)
        for row in rows.select_related("created_by").order_by("pk")
        for name, value in row.changes.items()
    }
    return tuple(
        RelabeledValue(name, value, run.stated[name], row)
        for name, (value, row) in latest.items()
        if name in run.stated
    )
