"""Import files that fio printed into: look at each, take it in, work it in, and keep count of what became of it."""

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

# The names of a pile that are kept to be shown; a folder of a million files must not fill the memory.
_NAMES_KEPT: Final = 5
_BEGINNING_BYTES: Final = 256 * 1024
_LINE_BYTES: Final = 64
# How often to look whether a worker is done with what it took before us.
_PAUSE_S: Final = 0.05


class UnknownHost(Exception):
    """The host to import for is not there, or is retired; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What holds for every file of an import.

    parameters: as `parameters.read_parameters` returns them. dates_by_file: the time of a file's last change stands
    in for the start of a run that does not tell it. is_queued: workers do the rest, nobody waits for them.
    """

    host_id: int
    parameters: Mapping[str, Any]
    dates_by_file: bool = False
    is_queued: bool = False


@dataclass(slots=True)
class FileGroup:
    """Files that share a fate and the code of its reason: how many, and the first with what was said of each."""

    count: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class ImportSummary:
    """What became of the files so far. files: outputs, logs and others; piles by the code of their reason.

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
    lone_logs: dict[str, FileGroup] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _PendingFile:
    path: Path
    submission: IncomingSubmission
    log_count: int


def find_host(name: str, *, may_create: bool = False) -> Host:
    """Return the host of this name, made where it is new and may be. Raises UnknownHost or EnrollmentRefused."""
    checked = check_host_name(name)
    host = Host.objects.filter(name=checked).first()
    if host is None and may_create:
        return Host.objects.get_or_create(name=checked)[0]
    if host is None:
        raise UnknownHost(
            f"there is no host {checked!r}: add --create-host to make it, or let an admin add it on the page Hosts"
        )
    if host.retired_at is not None:
        raise UnknownHost(
            f"host {checked!r} is retired: an admin brings it back on its page, or name another host"
        )
    return host


def import_files(
    folders: Sequence[Folder], order: ImportOptions, *, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[ImportSummary]:
    """Import every file and give the summary so far, the same object each time, after each file.

    In batches, bounded in memory whatever the files are. Asked to stop, it takes in the batch at hand and ends.
    """
    summary = ImportSummary()
    batch: list[_PendingFile] = []
    for folder in folders:
        for piece in _look_through(folder, order, summary):
            batch += [piece] if piece is not None else []
            if len(batch) >= BATCH_SIZE or sum(len(one.submission.body) for one in batch) > BATCH_BYTES:
                _take_in(batch, order, summary, should_stop=should_stop)
                batch = []
            yield summary
            if should_stop():
                break
        if should_stop():
            break
    _take_in(batch, order, summary, should_stop=should_stop)
    yield summary


def _look_through(
    folder: Folder, order: ImportOptions, summary: ImportSummary
) -> Iterator[_PendingFile | None]:
    """Give what can be taken in of a folder, and None for each file of which nothing can."""
    if folder.fault:
        _put(summary.rejected, "file-unreadable", folder.fault, folder.path)
        yield None
    logs = {path.name: path for path in folder.files if _is_log(path)}
    pairing = _pair(folder, logs) if logs else Pairing({}, {})
    for path in folder.files:
        if path.name not in logs:
            summary.files += 1
            yield _look_at(
                folder, path, order, [logs[name] for name in pairing.logs_of.get(path.name, ())], summary
            )
    for name, reason in pairing.alone.items():
        summary.files += 1
        _put(summary.rejected if folder.is_named else summary.lone_logs, "log-alone", reason, logs[name])
        yield None


def _pair(folder: Folder, logs: Mapping[str, Path]) -> Pairing:
    """Look at every other file first: only an output can have logs."""
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
    folder: Folder, path: Path, order: ImportOptions, log_paths: Sequence[Path], summary: ImportSummary
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
    parameters = _date(changed_at, order) if order.dates_by_file else order.parameters
    summary.files += len(log_paths)
    try:
        logs = _read_logs(log_paths, room=settings.UNPACKED_LIMIT_BYTES - len(output))
        submission = make_submission(order.host_id, output, parameters=parameters, logs=logs)
    except (BadEnvelope, UnreadableFile) as error:
        # The numbers of the output count without its logs too.
        for log in log_paths:
            _put(summary.lone_logs, "logs-left-out", str(error), log)
        return _PendingFile(path, make_submission(order.host_id, output, parameters=parameters, logs={}), 0)
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
            raise UnreadableFile(error.code, f"with its logs the output is more than {most} MiB") from error
        room -= len(logs[path.name])
    return logs


def _judge_unread(path: Path, error: UnreadableFile) -> Fault:
    """Tell a big output, which is refused, from the file that fio measured on, which is no output."""
    if error.code == "body-too-big":
        fault = check_format(read_beginning(path, size=_BEGINNING_BYTES))
        if fault is not None and fault.is_foreign:
            return Fault("no-report", f"{error.detail}, and no report of fio is in its beginning")
    return Fault(error.code, error.detail)


def _date(changed_at: datetime, order: ImportOptions) -> dict[str, Any]:
    return {**order.parameters, "started_at": order.parameters.get("started_at") or changed_at.isoformat()}


def _take_in(
    batch: Sequence[_PendingFile],
    order: ImportOptions,
    summary: ImportSummary,
    *,
    should_stop: Callable[[], bool],
) -> None:
    if not batch:
        return
    with transaction.atomic():
        receipts = [accept_or_retry(piece.submission) for piece in batch]
    ids = {receipt.id for receipt in receipts}
    if not order.is_queued:
        settle(ids, should_stop)
    rows = {row.id: row for row in Submission.objects.filter(id__in=ids).defer("body")}
    counted = Run.objects.filter(submission_id__in=ids).values("submission_id").annotate(count=Count("id"))
    runs = {row["submission_id"]: row["count"] for row in counted.order_by()}
    for piece, receipt in zip(batch, receipts, strict=True):
        _count(piece, receipt, rows[receipt.id], runs.get(receipt.id, 0), summary)


def accept_or_retry(submission: IncomingSubmission) -> AcceptResult:
    """Take an submission in; one that is there and was rejected gets another try, as it is known to be readable now."""
    receipt = accept_submission(submission)
    if receipt.state == State.REJECTED and retry_submission(receipt.id):
        return AcceptResult(receipt.id, AcceptOutcome.NEW, State.RECEIVED)
    return receipt


def settle(ids: set[UUID], should_stop: Callable[[], bool] = lambda: False) -> None:
    """Work these submissions in here, or wait until the workers that have them are done; or until told to stop."""
    while Submission.objects.waiting().filter(id__in=ids).exists():
        claimed = normalize_batch().claimed
        if should_stop():
            return
        if claimed == 0:
            # A worker was faster: it has them in its hands.
            time.sleep(_PAUSE_S)


def _count(
    piece: _PendingFile, receipt: AcceptResult, row: Submission, runs: int, summary: ImportSummary
) -> None:
    if receipt.outcome == AcceptOutcome.CONFLICT:
        _put(summary.rejected, "id-taken", f"submission {receipt.id} exists with another body", piece.path)
    elif row.state == State.REJECTED:
        _put(summary.rejected, row.reason_code, row.reason, piece.path)
    elif receipt.outcome == AcceptOutcome.REPLAYED:
        summary.already_there += 1
    else:
        summary.attached_logs += piece.log_count
        if row.state == State.STORED:
            summary.stored += 1
            summary.runs += runs
        else:
            summary.waiting += 1


def _put(piles: dict[str, FileGroup], code: str, detail: str, path: Path) -> None:
    pile = piles.setdefault(code, FileGroup())
    pile.count += 1
    if len(pile.first) < _NAMES_KEPT:
        pile.first.append((str(path), detail))
