"""Import fio output files: check, accept and process each, and count the results."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count

from benchapp.models import Host, Run, State, Submission
from benchapp.pipeline.hosts import check_host_name
from benchapp.pipeline.importing.discovery import (
    Folder,
    UnreadableFile,
    read_beginning,
    read_dated_file,
    read_file,
)
from benchapp.pipeline.importing.log_pairing import Pairing, is_log, make_submission, pair_logs, plain_name
from benchapp.pipeline.intake.envelope import BadEnvelope
from benchapp.pipeline.intake.format_check import Fault, check_format
from benchapp.pipeline.intake.submissions import (
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submission,
    retry_submission,
)
from benchapp.pipeline.normalize.batch import BATCH_BYTES, BATCH_SIZE, normalize_batch

# File names listed per group; a folder of a million files must not fill the memory.
_NAMES_KEPT: Final = 5
_BEGINNING_BYTES: Final = 256 * 1024
_LINE_BYTES: Final = 64
# Polling interval for submissions that a worker claimed first.
_PAUSE_S: Final = 0.05


class UnknownHost(Exception):
    """The host does not exist or is retired; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options for all files of an import.

    parameters: as `parameters.read_parameters` returns them. dates_by_file: the time of a file's last change stands
    in for the start of a run that does not tell it. is_queued: workers do the rest, nobody waits for them.
    """

    host_id: int
    parameters: Mapping[str, Any]
    dates_by_file: bool = False
    is_queued: bool = False


@dataclass(slots=True)
class FileGroup:
    """Files with the same result and reason code: their count, and the first ones with details."""

    count: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class ImportSummary:
    """Results so far. files: outputs, logs and others; groups by reason code.

    waiting: taken in, and not worked in yet. attached_logs: counted with the outputs that were taken in now.
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
class _PendingFile:
    path: Path
    submission: IncomingSubmission
    log_count: int


def find_host(name: str, *, may_create: bool = False) -> Host:
    """Return the host of this name; create it if allowed. Raises UnknownHost or EnrollmentRefused."""
    checked = check_host_name(name)
    host = Host.objects.filter(name=checked).first()
    if host is None and may_create:
        return Host.objects.get_or_create(name=checked)[0]
    if host is None:
        raise UnknownHost(
            f"there is no host {checked!r}: add --create-host to create it, or let an admin add it on the Hosts page"
        )
    if host.retired_at is not None:
        raise UnknownHost(f"host {checked!r} is retired: an admin can reactivate it on its page")
    return host


def import_files(
    folders: Sequence[Folder], options: ImportOptions, *, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[ImportSummary]:
    """Import every file and yield the summary so far, the same object each time, after each file.

    In batches, bounded in memory whatever the files are. Asked to stop, it takes in the batch at hand and ends.
    """
    summary = ImportSummary()
    batch: list[_PendingFile] = []
    for folder in folders:
        for pending in _look_through(folder, options, summary):
            batch += [pending] if pending is not None else []
            if len(batch) >= BATCH_SIZE or sum(len(one.submission.body) for one in batch) > BATCH_BYTES:
                _take_in(batch, options, summary, should_stop=should_stop)
                batch = []
            yield summary
            if should_stop():
                break
        if should_stop():
            break
    _take_in(batch, options, summary, should_stop=should_stop)
    yield summary


def _look_through(
    folder: Folder, options: ImportOptions, summary: ImportSummary
) -> Iterator[_PendingFile | None]:
    """Yield the submissions of a folder, and None for each file without one."""
    if folder.fault:
        _put(summary.rejected, "file-unreadable", folder.fault, folder.path)
        yield None
    logs = {path.name: path for path in folder.files if _is_log(path)}
    pairing = _pair(folder, logs) if logs else Pairing({}, {})
    for path in folder.files:
        if path.name not in logs:
            summary.files += 1
            yield _look_at(
                folder, path, options, [logs[name] for name in pairing.logs_of.get(path.name, ())], summary
            )
    for name, reason in pairing.unmatched.items():
        summary.files += 1
        _put(summary.rejected if folder.is_named else summary.unmatched_logs, "log-alone", reason, logs[name])
        yield None


def _pair(folder: Folder, logs: Mapping[str, Path]) -> Pairing:
    """Check all other files first: only outputs can have logs."""
    outputs = [path.name for path in folder.files if path.name not in logs and _is_output(path)]
    return pair_logs(outputs, list(logs))


def _is_log(path: Path) -> bool:
    if not plain_name(path.name).endswith(".log"):
        return False
    try:
        return is_log(path.name, read_beginning(path, size=_LINE_BYTES))
    except UnreadableFile:
        return False


def _is_output(path: Path) -> bool:
    try:
        return check_format(read_file(path, limit=settings.UNPACKED_LIMIT_BYTES)) is None
    except UnreadableFile:
        return False


def _look_at(
    folder: Folder, path: Path, options: ImportOptions, log_paths: Sequence[Path], summary: ImportSummary
) -> _PendingFile | None:
    try:
        output, changed_at = read_dated_file(path, limit=settings.UNPACKED_LIMIT_BYTES)
        fault = check_format(output)
    except UnreadableFile as error:
        fault = _judge_unread(path, error)
    if fault is not None:
        is_excused = fault.is_foreign and not folder.is_named
        _put(summary.foreign if is_excused else summary.rejected, fault.code, fault.detail, path)
        return None
    parameters = _date(changed_at, options) if options.dates_by_file else options.parameters
    summary.files += len(log_paths)
    try:
        logs = _read_logs(log_paths, room=settings.UNPACKED_LIMIT_BYTES - len(output))
        submission = make_submission(options.host_id, output, parameters=parameters, logs=logs)
    except (BadEnvelope, UnreadableFile) as error:
        # The output is imported without its logs.
        for log in log_paths:
            _put(summary.unmatched_logs, "logs-left-out", str(error), log)
        return _PendingFile(path, make_submission(options.host_id, output, parameters=parameters, logs={}), 0)
    return _PendingFile(path, submission, len(logs))


def _read_logs(paths: Sequence[Path], *, room: int) -> dict[str, bytes]:
    """Return the logs by name; room: bytes that they may have together."""
    logs: dict[str, bytes] = {}
    for path in paths:
        try:
            logs[path.name] = read_file(path, limit=room)
        except UnreadableFile as error:
            if error.code != "body-too-big":
                raise
            most = settings.UNPACKED_LIMIT_BYTES // 2**20
            raise UnreadableFile(error.code, f"with its logs the output exceeds {most} MiB") from error
        room -= len(logs[path.name])
    return logs


def _judge_unread(path: Path, error: UnreadableFile) -> Fault:
    """Distinguish a large output, which is rejected, from a test file of fio, which is not an output."""
    if error.code == "body-too-big":
        fault = check_format(read_beginning(path, size=_BEGINNING_BYTES))
        if fault is not None and fault.is_foreign:
            return Fault("no-report", f"{error.detail}, and its beginning has no fio report")
    return Fault(error.code, error.detail)


def _date(changed_at: datetime, options: ImportOptions) -> dict[str, Any]:
    return {
        **options.parameters,
        "started_at": options.parameters.get("started_at") or changed_at.isoformat(),
    }


def _take_in(
    batch: Sequence[_PendingFile],
    options: ImportOptions,
    summary: ImportSummary,
    *,
    should_stop: Callable[[], bool],
) -> None:
    if not batch:
        return
    with transaction.atomic():
        results = [accept_or_retry(pending.submission) for pending in batch]
    ids = {result.id for result in results}
    if not options.is_queued:
        settle(ids, should_stop)
    rows = {row.id: row for row in Submission.objects.filter(id__in=ids).defer("body")}
    counted = Run.objects.filter(submission_id__in=ids).values("submission_id").annotate(count=Count("id"))
    runs = {row["submission_id"]: row["count"] for row in counted.order_by()}
    for pending, result in zip(batch, results, strict=True):
        _count(pending, result, rows[result.id], runs.get(result.id, 0), summary)


def accept_or_retry(submission: IncomingSubmission) -> AcceptResult:
    """Accept a submission; retry it if it was rejected before, as it is readable now."""
    result = accept_submission(submission)
    if result.state == State.REJECTED and retry_submission(result.id):
        return AcceptResult(result.id, AcceptOutcome.NEW, State.RECEIVED)
    return result


def settle(ids: set[UUID], should_stop: Callable[[], bool] = lambda: False) -> None:
    """Process these submissions, or wait for the workers that claimed them; stop on request."""
    while Submission.objects.waiting().filter(id__in=ids).exists():
        claimed = normalize_batch().claimed
        if should_stop():
            return
        if claimed == 0:
            # A worker claimed them first.
            time.sleep(_PAUSE_S)


def _count(
    pending: _PendingFile, result: AcceptResult, row: Submission, runs: int, summary: ImportSummary
) -> None:
    if result.outcome == AcceptOutcome.CONFLICT:
        _put(
            summary.rejected, "id-taken", f"submission {result.id} exists with a different body", pending.path
        )
    elif row.state == State.REJECTED:
        _put(summary.rejected, row.reason_code, row.reason, pending.path)
    elif result.outcome == AcceptOutcome.REPLAYED:
        summary.already_there += 1
    else:
        summary.attached_logs += pending.log_count
        if row.state == State.STORED:
            summary.stored += 1
            summary.runs += runs
        else:
            summary.waiting += 1


def _put(groups: dict[str, FileGroup], code: str, detail: str, path: Path) -> None:
    pile = groups.setdefault(code, FileGroup())
    pile.count += 1
    if len(pile.first) < _NAMES_KEPT:
        pile.first.append((str(path), detail))
