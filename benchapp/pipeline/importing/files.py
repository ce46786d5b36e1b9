"""Import fio output files: check, accept and process each, and count the results."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError
from django.db.models import Count

from benchapp.models import Host, Run, State, Submission
from benchapp.pipeline.hosts import check_host_name
from benchapp.pipeline.importing.checking import (
    CheckedFile,
    ImportOptions,
    OutputFile,
    check_file,
    list_tasks,
)
from benchapp.pipeline.importing.discovery import Folder
from benchapp.pipeline.intake.submissions import (
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    PackedSubmission,
    accept_submissions,
    read_known,
    retry_submission,
)
from benchapp.pipeline.normalize.batch import BATCH_BYTES, ImportRunning, normalize_batch
from benchapp.pipeline.normalize.plan import Plan
from benchapp.pipeline.normalize.prepared import PreparedSubmission, ScopeChanged, store_prepared

log = structlog.get_logger(__name__)

# Submissions of one transaction: with 50 an import takes a tenth longer.
_BATCH_SIZE: Final = 200
# File names listed per group; a folder of a million files must not fill the memory.
_NAMES_MAXIMUM: Final = 5
# Polling interval for submissions that a worker claimed first.
_PAUSE_S: Final = 0.05


class UnknownHost(Exception):
    """The host does not exist or is retired; the message has the remedy."""


@dataclass(slots=True)
class FileGroup:
    """Files with the same result and reason code: their count, and the first ones with details."""

    count: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class ImportSummary:
    """Results so far. files: outputs, logs and others; groups by reason code.

    waiting: accepted, not yet processed. attached_logs: of the outputs that were accepted by this import.
    """

    files: int = 0
    stored: int = 0
    runs: int = 0
    already_there: int = 0
    waiting: int = 0
    attached_logs: int = 0
    rejected: dict[str, FileGroup] = field(default_factory=dict)
    foreign: dict[str, FileGroup] = field(default_factory=dict)
    unmatched_logs: dict[str, FileGroup] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Result:
    """What became of a submission. runs: number of its runs."""

    outcome: AcceptOutcome
    state: State
    runs: int = 0
    reason_code: str = ""
    reason: str = ""


def find_host(name: str, *, may_create: bool = False) -> Host:
    """Return the host of this name; create it if allowed. Raises UnknownHost or EnrollmentRefused."""
    checked = check_host_name(name)
    host = Host.objects.filter(name=checked).first()
    if host is None and may_create:
        return Host.objects.get_or_create(name=checked)[0]
    if host is None:
        raise UnknownHost(
            f"host {checked!r} does not exist: create it with --create-host, or have an admin add it on the Hosts page"
        )
    if host.retired_at is not None:
        raise UnknownHost(f"host {checked!r} is retired: an admin can reactivate it on its page")
    return host


def import_files(
    folders: Sequence[Folder], options: ImportOptions, *, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[ImportSummary]:
    """Import all files in batches; yield the summary so far, the same object each time, after each file.

    Memory is bounded by one batch. On request to stop, the files checked so far are submitted.
    """
    summary = ImportSummary()
    batch: list[OutputFile] = []
    body_bytes = 0
    scope = None if options.is_queued else Host.objects.get(pk=options.host_id).scope
    for task in list_tasks(folders):
        checked = task if isinstance(task, CheckedFile) else check_file(task, options, scope=scope)
        summary.files += checked.files
        for skipped in checked.skipped:
            _add_to_group(getattr(summary, skipped.group), skipped.code, skipped.detail, skipped.path)
        if checked.output is not None:
            batch.append(checked.output)
            body_bytes += checked.output.submission.body_bytes
        if len(batch) >= _BATCH_SIZE or body_bytes > BATCH_BYTES:
            _submit(batch, options, summary, should_stop=should_stop)
            batch, body_bytes = [], 0
        yield summary
        if should_stop():
            break
    _submit(batch, options, summary, should_stop=should_stop)
    yield summary


def _submit(
    batch: Sequence[OutputFile],
    options: ImportOptions,
    summary: ImportSummary,
    *,
    should_stop: Callable[[], bool],
) -> None:
    """Store what is prepared; accept the rest, and process it unless it is queued. Count the results."""
    results = _store_new([output.prepared for output in batch if output.prepared])
    results |= _find_settled([each.submission for each in batch if each.submission.id not in results])
    rest = [output.submission for output in batch if output.submission.id not in results]
    processed = iter(_accept_and_process(rest, options, should_stop))
    for output in batch:
        submission_id = output.submission.id
        result = results.get(submission_id) or next(processed)
        _count_result(output, result, summary)
        if result.outcome == AcceptOutcome.NEW and submission_id in results:
            # A later file may have the same content.
            results[submission_id] = replace(result, outcome=AcceptOutcome.REPLAYED)


def _store_new(submissions: Sequence[PreparedSubmission]) -> dict[UUID, _Result]:
    """Store those that are new; return their results. None are if they cannot be stored together."""
    if not submissions:
        return {}
    try:
        new = store_prepared(submissions)
    except (OperationalError, InterfaceError):
        # The database is unavailable: not caused by the files.
        raise
    except (ImportRunning, ScopeChanged):
        return {}
    except Exception:
        # Untrusted input: the database rejects a value of one of them.
        log.exception("import.batch_failed", count=len(submissions))
        return {}
    return {each.packed.id: _describe_new(each) for each in reversed(submissions) if each.packed.id in new}


def _describe_new(prepared: PreparedSubmission) -> _Result:
    outcome = prepared.outcome
    if isinstance(outcome, Plan):
        return _Result(AcceptOutcome.NEW, State.STORED, len(outcome.runs))
    return _Result(AcceptOutcome.NEW, State.REJECTED, 0, outcome.code, outcome.stored_reason)


def _find_settled(submissions: Sequence[PackedSubmission]) -> dict[UUID, _Result]:
    """Return the results of those that were stored before, and of those whose id is taken."""
    if not submissions:
        return {}
    return {
        submission_id: _Result(result.outcome, result.state)
        for submission_id, result in read_known(submissions).items()
        if result.state == State.STORED or result.outcome == AcceptOutcome.CONFLICT
    }


def _accept_and_process(
    submissions: Sequence[PackedSubmission], options: ImportOptions, should_stop: Callable[[], bool]
) -> list[_Result]:
    if not submissions:
        return []
    accepted = accept_or_retry([submission.unpack() for submission in submissions])
    ids = {result.id for result in accepted}
    if not options.is_queued:
        process_submissions(ids, should_stop)
    rows = {row.id: row for row in Submission.objects.filter(id__in=ids).defer("body")}
    runs = Run.objects.filter(submission_id__in=ids).values("submission_id").annotate(count=Count("id"))
    run_counts = {row["submission_id"]: row["count"] for row in runs.order_by()}
    return [
        _Result(
            result.outcome,
            State(rows[result.id].state),
            run_counts.get(result.id, 0),
            rows[result.id].reason_code,
            rows[result.id].reason,
        )
        for result in accepted
    ]


def accept_or_retry(submissions: Sequence[IncomingSubmission]) -> list[AcceptResult]:
    """Accept submissions; retry those that were rejected before, since the current parser can read them."""
    return [
        AcceptResult(result.id, AcceptOutcome.NEW, State.RECEIVED)
        if result.state == State.REJECTED and retry_submission(result.id)
        else result
        for result in accept_submissions(submissions)
    ]


def process_submissions(ids: set[UUID], should_stop: Callable[[], bool] = lambda: False) -> None:
    """Process these submissions, or wait for the workers that claimed them; stop on request."""
    while Submission.objects.waiting().filter(id__in=ids).exists():
        claimed = normalize_batch().claimed
        if should_stop():
            return
        if claimed == 0:
            # A worker claimed them first.
            time.sleep(_PAUSE_S)


def _count_result(output: OutputFile, result: _Result, summary: ImportSummary) -> None:
    if result.outcome == AcceptOutcome.CONFLICT:
        detail = f"submission {output.submission.id} exists with a different body"
        _add_to_group(summary.rejected, "id-taken", detail, output.path)
    elif result.state == State.REJECTED:
        _add_to_group(summary.rejected, result.reason_code, result.reason, output.path)
    elif result.outcome == AcceptOutcome.REPLAYED:
        summary.already_there += 1
    else:
        summary.attached_logs += output.log_count
        if result.state == State.STORED:
            summary.stored += 1
            summary.runs += result.runs
        else:
            summary.waiting += 1


def _add_to_group(groups: dict[str, FileGroup], code: str, detail: str, path: Path) -> None:
    group = groups.setdefault(code, FileGroup())
    group.count += 1
    if len(group.first) < _NAMES_MAXIMUM:
        group.first.append((str(path), detail))
