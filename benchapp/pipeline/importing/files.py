"""Import fio output files: check, accept and process each, and count the results."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
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
    accept_submissions,
    retry_submission,
)
from benchapp.pipeline.normalize.batch import BATCH_BYTES, BATCH_SIZE, normalize_batch

# File names listed per group; a folder of a million files must not fill the memory.
_NAMES_MAXIMUM: Final = 5
_BEGINNING_BYTES: Final = 256 * 1024
_LINE_BYTES: Final = 64
# Polling interval for submissions that a worker claimed first.
_PAUSE_S: Final = 0.05


class UnknownHost(Exception):
    """The host does not exist or is retired; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options for all files of an import.

    parameters: as `query_parameters.read_parameters` returns them. dates_by_file: the modification time of a file is
    the start of a run whose output has none. is_queued: submissions are left to the workers, and not waited for.
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
    batch: list[_PendingFile] = []
    for pending in (pending for folder in folders for pending in _check_folder(folder, options, summary)):
        if pending is not None:
            batch.append(pending)
        if len(batch) >= BATCH_SIZE or sum(len(each.submission.body) for each in batch) > BATCH_BYTES:
            _submit(batch, options, summary, should_stop=should_stop)
            batch = []
        yield summary
        if should_stop():
            break
    _submit(batch, options, summary, should_stop=should_stop)
    yield summary


def _check_folder(
    folder: Folder, options: ImportOptions, summary: ImportSummary
) -> Iterator[_PendingFile | None]:
    """Yield the submission of each output of a folder, and None for any other file; count what is not imported."""
    if folder.fault:
        _add_to_group(summary.rejected, "file-unreadable", folder.fault, folder.path)
        yield None
    logs = {path.name: path for path in folder.files if _is_log(path)}
    pairing = _pair(folder, logs) if logs else Pairing({}, {})
    for path in folder.files:
        if path.name not in logs:
            log_paths = [logs[name] for name in pairing.logs_of.get(path.name, ())]
            summary.files += 1
            yield _check_file(folder, path, log_paths, options, summary)
    unmatched = summary.rejected if folder.is_named else summary.unmatched_logs
    for name, reason in pairing.unmatched.items():
        summary.files += 1
        _add_to_group(unmatched, "log-alone", reason, logs[name])
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


def _check_file(
    folder: Folder, path: Path, log_paths: Sequence[Path], options: ImportOptions, summary: ImportSummary
) -> _PendingFile | None:
    """Return the submission of an output with its logs; None, and counted, if the file is not an output."""
    try:
        output, modified_at = read_dated_file(path, limit=settings.UNPACKED_LIMIT_BYTES)
        fault = check_format(output)
    except UnreadableFile as error:
        fault = _check_beginning(path, error)
    if fault is not None:
        is_expected = fault.is_foreign and not folder.is_named
        _add_to_group(summary.foreign if is_expected else summary.rejected, fault.code, fault.detail, path)
        return None
    parameters = dict(options.parameters)
    if options.dates_by_file:
        parameters["started_at"] = parameters.get("started_at") or modified_at.isoformat()
    summary.files += len(log_paths)
    try:
        logs = _read_logs(log_paths, limit=settings.UNPACKED_LIMIT_BYTES - len(output))
        submission = make_submission(options.host_id, output, parameters=parameters, logs=logs)
    except (BadEnvelope, UnreadableFile) as error:
        # The output is imported without its logs.
        logs = {}
        submission = make_submission(options.host_id, output, parameters=parameters, logs=logs)
        for log in log_paths:
            _add_to_group(summary.unmatched_logs, "logs-left-out", str(error), log)
    return _PendingFile(path, submission, len(logs))


def _read_logs(paths: Sequence[Path], *, limit: int) -> dict[str, bytes]:
    """Return the logs by name; limit: bytes of all of them. Raises UnreadableFile."""
    logs: dict[str, bytes] = {}
    for path in paths:
        try:
            logs[path.name] = read_file(path, limit=limit)
        except UnreadableFile as error:
            if error.code != "body-too-big":
                raise
            limit_mib = settings.UNPACKED_LIMIT_BYTES // 2**20
            raise UnreadableFile(error.code, f"with its logs the output exceeds {limit_mib} MiB") from error
        limit -= len(logs[path.name])
    return logs


def _check_beginning(path: Path, error: UnreadableFile) -> Fault:
    """Distinguish an output that is too large from a test file of fio, which is not an output."""
    if error.code == "body-too-big":
        fault = check_format(read_beginning(path, size=_BEGINNING_BYTES))
        if fault is not None and fault.is_foreign:
            return Fault("no-report", f"{error.detail}, and it does not begin with a fio report")
    return Fault(error.code, error.detail)


def _submit(
    batch: Sequence[_PendingFile],
    options: ImportOptions,
    summary: ImportSummary,
    *,
    should_stop: Callable[[], bool],
) -> None:
    """Accept a batch, process it unless it is queued, and count the results."""
    if not batch:
        return
    results = accept_or_retry([pending.submission for pending in batch])
    ids = {result.id for result in results}
    if not options.is_queued:
        process_submissions(ids, should_stop)
    submissions = {row.id: row for row in Submission.objects.filter(id__in=ids).defer("body")}
    runs = Run.objects.filter(submission_id__in=ids).values("submission_id").annotate(count=Count("id"))
    run_counts = {row["submission_id"]: row["count"] for row in runs.order_by()}
    for pending, result in zip(batch, results, strict=True):
        _count_result(pending, result, submissions[result.id], run_counts.get(result.id, 0), summary)


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


def _count_result(
    pending: _PendingFile,
    result: AcceptResult,
    submission: Submission,
    run_count: int,
    summary: ImportSummary,
) -> None:
    if result.outcome == AcceptOutcome.CONFLICT:
        _add_to_group(
            summary.rejected,
            "id-taken",
            f"submission {result.id} exists with a different body",
            pending.path,
        )
    elif submission.state == State.REJECTED:
        _add_to_group(summary.rejected, submission.reason_code, submission.reason, pending.path)
    elif result.outcome == AcceptOutcome.REPLAYED:
        summary.already_there += 1
    else:
        summary.attached_logs += pending.log_count
        if submission.state == State.STORED:
            summary.stored += 1
            summary.runs += run_count
        else:
            summary.waiting += 1


def _add_to_group(groups: dict[str, FileGroup], code: str, detail: str, path: Path) -> None:
    group = groups.setdefault(code, FileGroup())
    group.count += 1
    if len(group.first) < _NAMES_MAXIMUM:
        group.first.append((str(path), detail))
