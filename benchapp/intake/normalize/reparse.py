"""Parse stored submissions again with the current parser, and report what changes.

Submissions of an older parser are parsed again in small batches, so that a series does not mix two parser versions.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from benchapp.catalog.metrics import CATALOG, cut_text
from benchapp.fio import PARSER_VERSION
from benchapp.framework.write.audit import record_write
from benchapp.intake.normalize.batch import (
    ATTEMPTS_MAXIMUM,
    BATCH_BYTES,
    ImportRunning,
    Rejection,
    exclude_imports,
    lock_sources,
    plan_all,
)
from benchapp.intake.normalize.plan import Plan
from benchapp.intake.normalize.sender_context import SubmissionSource
from benchapp.intake.normalize.store import store_plans
from benchapp.models import (
    REREAD,
    Attempt,
    AuditKind,
    Measurement,
    Run,
    Series,
    State,
    Submission,
    TargetMapping,
    Trace,
)
from benchapp.series.read.titles import describe_workload, name_place
from benchapp.series.write import continue_series

# Relative difference of floating-point sums in another order.
_TOLERANCE: Final = 1e-12
_NUMBERS: Final = (*CATALOG, "latency_stddev_ns", "total_ios", "io_bytes", "runtime_s", "clones")
_OF_MEASUREMENT: Final = (
    "error",
    "job_name",
    "latency_kind",
    "missing",
    "percentiles",
    "badges",
    "latency_bins",
)
_OF_RUN: Final = (
    "started_at",
    "finished_at",
    "format",
    "fio_version",
    "profile",
    "error",
    "is_partial",
    "warnings",
)
# Characters of a value in the report.
_TEXT_MAXIMUM: Final = 80


@dataclass(frozen=True, slots=True)
class ReparseDifference:
    """One value before and after; None if absent. name: a column; metrics and counts are numbers, other values text."""

    submission_id: UUID
    where: str
    name: str
    before: float | str | None
    after: float | str | None


# Document, id of the series, ordinal.
_Key = tuple[int, int, int]


@dataclass(slots=True)
class Rows:
    """The rows of one submission: runs by document, measurements by document, series and ordinal."""

    runs: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    measurements: dict[_Key, Mapping[str, Any]] = field(default_factory=dict)

    def count_points(self) -> Counter[int]:
        """Return the number of points in each series, by id."""
        return Counter(row["series_id"] for row in self.measurements.values())


def read_rows(ids: Sequence[UUID]) -> dict[UUID, Rows]:
    """Return the stored rows of these submissions; three queries."""
    rows = {submission_id: Rows() for submission_id in ids}
    traces = _read_traces(ids)
    runs = Run.objects.filter(submission_id__in=ids)
    for run in runs.values("id", "submission_id", "document", *_OF_RUN):
        rows[run["submission_id"]].runs[run["document"]] = {**run, "traces": traces.get(run["id"], [])}
    measurements = (
        Measurement.objects.filter(run__submission_id__in=ids)
        .order_by("run", "position")
        .values(
            "run",
            "run__submission_id",
            "run__document",
            "series_id",
            "series__direction",
            "series__target_name",
            "ordinal",
            *_NUMBERS,
            *_OF_MEASUREMENT,
        )
    )
    for row in measurements:
        key = (row["run__document"], row["series_id"], row["ordinal"])
        rows[row["run__submission_id"]].measurements[key] = row
    return rows


def compare_rows(submission_id: UUID, before: Rows, after: Rows) -> Iterator[ReparseDifference]:
    """Yield the differences of each run, then of each measurement."""
    for document in sorted({*before.runs, *after.runs}):
        old, new = before.runs.get(document, {}), after.runs.get(document, {})
        where = f"document {document}"
        for name in (*_OF_RUN, "traces"):
            if old.get(name) != new.get(name):
                yield ReparseDifference(submission_id, where, name, *_describe_both(name, old, new))
    for old, new in pair_rows(before, after):
        yield from _compare_measurements(submission_id, old, new)


def list_new_names(before: Rows, after: Rows) -> Iterator[tuple[int, str]]:
    """Yield the series that measurements had, and the name of their target, for each whose name is another one now."""
    for old, new in pair_rows(before, after):
        name = new.get("series__target_name")
        if old and name and name != old["series__target_name"]:
            yield old["series_id"], name


def pair_rows(before: Rows, after: Rows) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each measurement before and after, empty where there is none; of other series by their job."""
    moved: dict[object, list[Mapping[str, Any]]] = defaultdict(list)
    for key, old in before.measurements.items():
        if key in after.measurements:
            yield old, after.measurements[key]
        else:
            moved[_name_job(key, old)].append(old)
    for key, new in after.measurements.items():
        if key not in before.measurements:
            candidates = moved[_name_job(key, new)]
            yield candidates.pop(0) if candidates else {}, new
    for rest in moved.values():
        yield from ((old, {}) for old in rest)


def _name_job(key: _Key, row: Mapping[str, Any]) -> object:
    return key[0], row["job_name"], row["series__direction"]


def _compare_measurements(
    submission_id: UUID, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[ReparseDifference]:
    row = new or old
    where = f"document {row['run__document']}, {row['job_name']}, {row['series__direction']}"
    if old and new and old["series_id"] != new["series_id"]:
        names = (str(each["series_id"]) for each in (old, new))
        yield ReparseDifference(submission_id, where, "series", *names)
    for name in _NUMBERS:
        if not _is_same(old.get(name), new.get(name)):
            yield ReparseDifference(submission_id, where, name, old.get(name), new.get(name))
    for name in _OF_MEASUREMENT:
        if old.get(name) != new.get(name):
            both = _describe_both(name, old, new)
            # The text of a badge may change without its code: not a difference.
            if name != "badges" or both[0] != both[1]:
                yield ReparseDifference(submission_id, where, name, *both)


def _read_traces(ids: Sequence[UUID]) -> dict[int, list[str]]:
    traces: dict[int, list[str]] = {}
    rows = Trace.objects.filter(run__submission_id__in=ids).order_by("kind", "direction")
    for run_id, kind, direction, entries in rows.values_list("run_id", "kind", "direction", "entries"):
        traces.setdefault(run_id, []).append(f"{kind} {direction} of {entries}")
    return traces


def _describe_both(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    before, after = _describe_value(name, old.get(name)), _describe_value(name, new.get(name))
    if name != "badges" and before is not None and before == after:
        # Truncated or only counted: the difference is in the omitted part.
        return before, f"{after}, others"
    return before, after


def _describe_value(name: str, value: Any) -> str | None:
    """Describe a value briefly; None if it is absent."""
    if value is None or value in ("", [], {}):
        return None
    if name in ("warnings", "badges"):
        text = ", ".join(dict.fromkeys(entry["code"] for entry in value))
    elif name == "missing":
        text = ", ".join(f"{absent}: {code}" for absent, code in sorted(value.items()))
    elif name == "percentiles":
        text = "1 percentile" if len(value) == 1 else f"{len(value)} percentiles"
    elif name == "latency_bins":
        text = f"{sum(value[1:])} samples in {len(value) - 1} buckets"
    elif name == "traces":
        text = ", ".join(value)
    else:
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return cut_text(text, _TEXT_MAXIMUM)


def _is_same(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return abs(old - new) <= _TOLERANCE * max(abs(old), abs(new))


_BATCH_SIZE: Final = 50
_MOVE_CHANGES: Final = (
    "UPDATE benchapp_change SET series_id = chosen.to_id FROM ("
    " SELECT DISTINCT ON (moved.to_id, change.metric, change.started_at) change.id, moved.to_id"
    "  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS moved(run_id, from_id, to_id)"
    "  JOIN benchapp_change change ON change.series_id = moved.from_id AND change.run_id = moved.run_id"
    "  WHERE NOT EXISTS (SELECT FROM benchapp_change twin WHERE twin.series_id = moved.to_id"
    "   AND twin.metric = change.metric AND twin.started_at = change.started_at)"
    "  ORDER BY moved.to_id, change.metric, change.started_at, change.id) chosen"
    " WHERE benchapp_change.id = chosen.id"
)


@dataclass(slots=True)
class ReparseOutcome:
    """Result of parsing again, or of a dry run. lost: points that each series loses, by id; negative: gains.

    names: of targets that were not known before, by the series that had their measurements; of several, the series is
    split, and goes on under the first. moves: measurements by series before and after.
    """

    read: int = 0
    unchanged: int = 0
    differences: list[ReparseDifference] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    recovered: int = 0
    series_ids: set[int] = field(default_factory=set)
    lost: Counter[int] = field(default_factory=Counter)
    names: dict[int, list[str]] = field(default_factory=dict)
    moves: Counter[tuple[int, int]] = field(default_factory=Counter)

    def add_names(self, names: Iterable[tuple[int, str]]) -> None:
        """Add names of targets, each once, by series."""
        for series_id, name in names:
            if name not in self.names.setdefault(series_id, []):
                self.names[series_id].append(name)


def select_submissions(
    *, ids: Sequence[UUID] = (), only_older: bool = False, include_rejected: bool = False
) -> list[UUID]:
    """Return the stored submissions that still have a body, oldest first; rejected ones if they are included or named.

    only_older: only those of an older parser.
    """
    rows = Submission.objects.filter(body__isnull=False, state=State.STORED)
    if include_rejected:
        rows = Submission.objects.filter(body__isnull=False).exclude(state=State.RECEIVED)
    if ids:
        rows = Submission.objects.filter(body__isnull=False, id__in=ids).exclude(state=State.RECEIVED)
    if only_older:
        rows = rows.filter(Q(parser_version__lt=PARSER_VERSION) | Q(parser_version__isnull=True))
    return list(rows.order_by("received_at", "id").values_list("id", flat=True))


def renormalize(ids: Sequence[UUID], *, is_dry_run: bool) -> Iterator[ReparseOutcome]:
    """Parse these submissions again, one transaction per 50, and yield the result of each batch.

    Runs keep their ids. A stored submission that the current parser rejects keeps its runs and is reported; a rejected
    one that it can parse becomes stored. A dry run rolls back each batch. Raises ImportRunning while an archive is
    imported; the batches before are stored.
    """
    for start in range(0, len(ids), _BATCH_SIZE):
        with transaction.atomic():
            exclude_imports()
            outcome = renormalize_batch(ids[start : start + _BATCH_SIZE])
            if is_dry_run:
                transaction.set_rollback(True)
        yield outcome


def count_emptied(lost: Mapping[int, int], *, is_dry_run: bool) -> int:
    """Return how many series have no points after it; lost: of all batches.

    The row of such a series is kept, so that its key keeps its id; lists omit it.
    """
    fewer = {series_id: count for series_id, count in lost.items() if count > 0}
    counts = Series.objects.filter(pk__in=fewer).values_list("pk", "measurement_count")
    return sum(count == (fewer[series_id] if is_dry_run else 0) for series_id, count in counts)


def renormalize_batch(
    ids: Sequence[UUID],
    *,
    plan_all: Callable[[Sequence[SubmissionSource]], list[Plan | Rejection]] = plan_all,
) -> ReparseOutcome:
    """Parse these submissions again; call inside a transaction. Changes follow the runs that they began with."""
    outcome = ReparseOutcome()
    plans: list[Plan] = []
    for planned in plan_all(lock_sources(ids, state=None)):
        outcome.read += 1
        if isinstance(planned, Plan):
            plans.append(planned)
        else:
            outcome.rejected.append(planned)
    planned_ids = [plan.source.submission_id for plan in plans]
    before = read_rows(planned_ids)
    outcome.series_ids.update(store_plans(plans, is_reread=True).series_ids)
    after = read_rows(planned_ids)
    moved: set[tuple[int, int, int]] = set()
    for submission_id in planned_ids:
        differences = list(compare_rows(submission_id, before[submission_id], after[submission_id]))
        outcome.differences.extend(differences)
        outcome.unchanged += not differences
        outcome.add_names(list_new_names(before[submission_id], after[submission_id]))
        for old, new in pair_rows(before[submission_id], after[submission_id]):
            if old and new:
                outcome.moves[old["series_id"], new["series_id"]] += 1
                moved.add((old["run"], old["series_id"], new["series_id"]))
        outcome.lost.update(before[submission_id].count_points())
        outcome.lost.subtract(after[submission_id].count_points())
    _move_changes(moved)
    _record_splits(outcome)
    # Where most of their points went.
    continue_series(
        {old: new for (old, new), _ in sorted(outcome.moves.items(), key=itemgetter(1)) if old != new}
    )
    outcome.recovered = _settle(planned_ids)
    return outcome


def _move_changes(moved: Collection[tuple[int, int, int]]) -> None:
    """Have changes follow the run that they began with, of (run, series before, series after).

    They stay where the run has a measurement still, and where the other series has the change already.
    """
    staying = {(run_id, before) for run_id, before, after in moved if before == after}
    rows = sorted((run, old, new) for run, old, new in moved if (run, old) not in staying)
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_MOVE_CHANGES, [list(column) for column in zip(*rows, strict=True)])


def _record_splits(outcome: ReparseOutcome) -> None:
    """Record each series that begins with measurements of another one, which has others still."""
    sources = {new_id: old_id for old_id, new_id in outcome.moves if old_id != new_id}
    split = Series.objects.filter(pk__in=sources.values(), measurement_count__gt=0)
    ids = set(split.values_list("pk", flat=True))
    sources = {new_id: old_id for new_id, old_id in sources.items() if old_id in ids}
    for series in Series.objects.filter(pk__in=sources):
        name = series.target_name
        if series.measurement_count == -outcome.lost[series.pk]:
            record_write(
                AuditKind.SERIES,
                "split",
                object_id=series.pk,
                name=f"{describe_workload(series, direction=series.direction)} on {name_place(series.scope, name)}",
                after={"target_name": name, "was_part_of_series": sources[series.pk]},
            )


def _settle(ids: Sequence[UUID]) -> int:
    Attempt.objects.filter(sender_id__in=ids).delete()
    recovered = Submission.objects.filter(id__in=ids, state=State.REJECTED).update(
        state=State.STORED,
        reason_code="",
        reason="",
        settled_at=timezone.now(),
        parser_version=PARSER_VERSION,
    )
    Submission.objects.filter(id__in=ids, state=State.STORED).update(parser_version=PARSER_VERSION)
    return recovered


log = structlog.get_logger(__name__)

# Small, so that new submissions do not wait long for the locks of series.
_OUTDATED_BATCH_SIZE: Final = 20
# It may have needed ATTEMPTS_MAXIMUM to be stored; each failed attempt to parse it again counts one more.
_ATTEMPTS_MAXIMUM: Final = 2 * ATTEMPTS_MAXIMUM


def count_outdated(*, limit: int) -> int:
    """Return how many stored submissions are from an older parser, at most `limit`."""
    # Those of `_find_outdated`. On the overview: to compose the query takes ten times as long as to run it.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT FROM benchapp_submission WHERE state = %s AND body IS NOT NULL"
            " AND parser_version > %s AND parser_version < %s LIMIT %s) AS outdated",
            [State.STORED.value, REREAD, PARSER_VERSION, limit],
        )
        count: int = cursor.fetchone()[0]
    return count


def reparse_outdated() -> int:
    """Parse the oldest of them again and return the number claimed; 0 if none is left.

    Without AUTO_RENORMALIZE only those of changed mappings. The last of these ends the mappings that were removed.

    As in `normalize_batch`, the claim counts the attempt and commits first; one that failed before is claimed alone,
    and skipped after five failures. Those that cannot be parsed any more keep their runs and are not tried again.
    0, too, while an archive is imported.
    """
    ids = _claim()
    if not ids:
        if not has_rereads():
            TargetMapping.objects.filter(removed_at__isnull=False).delete()
        return 0
    rejected: list[Rejection] = []
    try:
        for outcome in renormalize(ids, is_dry_run=False):
            rejected += outcome.rejected
            if outcome.names:
                log.info("reparse.named", names=outcome.names)
    except ImportRunning:
        _uncount_attempt(ids)
        return 0
    except (OperationalError, InterfaceError):
        # The database is unavailable, or a lock timed out: not caused by the rows.
        with suppress(OperationalError, InterfaceError):
            connection.close()
            _uncount_attempt(ids)
        raise
    except Exception:
        # Untrusted input: the database rejects a value of one of them; next time each is claimed alone.
        log.exception("reparse.batch_failed", count=len(ids))
        return len(ids)
    _uncount_attempt(ids)
    for rejection in rejected:
        _skip(rejection.submission_id, reason=f"{rejection.code}: {rejection.reason}")
    return len(ids)


@transaction.atomic
def _claim() -> list[UUID]:
    rows = list(
        _find_outdated()
        .select_for_update(skip_locked=True)
        .values_list("id", "attempts", "body_bytes")[:_OUTDATED_BATCH_SIZE]
    )
    chosen: list[UUID] = []
    total_bytes = 0
    for submission_id, attempts, body_bytes in rows:
        total_bytes += body_bytes
        if chosen and (attempts > 1 or total_bytes > BATCH_BYTES):
            break
        chosen.append(submission_id)
        if attempts > 1:
            break
    if chosen and rows[0][1] >= _ATTEMPTS_MAXIMUM:
        _skip(chosen[0], reason="the worker repeatedly failed or was killed while parsing it")
    Submission.objects.filter(id__in=chosen).update(attempts=F("attempts") + 1)
    return chosen


def _find_outdated() -> QuerySet[Submission]:
    """Return them in the order of their partial index, whose condition must be repeated."""
    version = PARSER_VERSION if settings.AUTO_RENORMALIZE else REREAD + 1
    older = Submission.objects.filter(state=State.STORED, body__isnull=False, parser_version__lt=version)
    return older.order_by("parser_version", "received_at")


def has_rereads() -> bool:
    """Return whether history is to be read again because a mapping of names changed."""
    return Submission.objects.filter(state=State.STORED, body__isnull=False, parser_version=REREAD).exists()


def _uncount_attempt(ids: Sequence[UUID]) -> None:
    Submission.objects.filter(id__in=ids, attempts__gt=0).update(attempts=F("attempts") - 1)


def _skip(submission_id: UUID, *, reason: str) -> None:
    """Set the current parser version on the submission; its runs keep their values and parser version."""
    Submission.objects.filter(id=submission_id).update(parser_version=PARSER_VERSION)
    log.warning("reparse.skipped", submission=str(submission_id), reason=reason[:500])
