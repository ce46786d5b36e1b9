"""Import fio output files: check, accept and process each, and count the results."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from django.db.models import Count

from benchapp.intake.importing.checking import (
    CheckedFile,
    ImportOptions,
    OutputFile,
    check_file,
    list_tasks,
)
from benchapp.intake.importing.discovery import Folder
from benchapp.intake.normalize.batch import BATCH_BYTES, BATCH_SIZE, normalize_batch
from benchapp.intake.posts.submissions import (
    AcceptOutcome,
    AcceptResult,
    IncomingSubmission,
    accept_submissions,
    retry_submission,
)
from benchapp.models import Host, Measurement, State, Submission, follow_name
from benchapp.series.validity.rules import SEVERAL_TARGETS
from benchapp.storage.write.hosts import check_host_name

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
    mixed: dict[str, FileGroup] = field(default_factory=dict)


def find_host(name: str, *, may_create: bool = False) -> Host:
    """Return the host of this name; create it if allowed. Raises UnknownHost or EnrollmentRefused."""
    checked = check_host_name(follow_name("host", name))
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
    for task in list_tasks(folders):
        checked = task if isinstance(task, CheckedFile) else check_file(task, options)
        summary.files += checked.files
        for skipped in checked.skipped:
            _add_to_group(getattr(summary, skipped.group), skipped.code, skipped.detail, skipped.path)
        if checked.output is not None:
            batch.append(checked.output)
            body_bytes += len(checked.output.submission.body)
        if len(batch) >= BATCH_SIZE or body_bytes > BATCH_BYTES:
            _submit(batch, options, summary)
            batch, body_bytes = [], 0
        yield summary
        if should_stop():
            break
    _submit(batch, options, summary)
    yield summary


def _submit(batch: Sequence[OutputFile], options: ImportOptions, summary: ImportSummary) -> None:
    """Accept outputs, process them unless they are queued, and count the results."""
    accepted = accept_or_retry([output.submission for output in batch])
    ids = {result.id for result in accepted}
    if not options.is_queued:
        process_submissions(ids)
    rows = Submission.objects.filter(id__in=ids).defer("body").annotate(run_count=Count("runs")).in_bulk()
    mixed = _read_mixed(ids)
    for output, result in zip(batch, accepted, strict=True):
        _count_result(output, result.outcome, rows[result.id], summary)
        if result.id in mixed:
            _add_to_group(summary.mixed, SEVERAL_TARGETS, mixed[result.id], output.path)


def _read_mixed(ids: set[UUID]) -> dict[UUID, str]:
    """Return which targets the results mix in one measurement or series, a sentence each, by submission."""
    rows = Measurement.objects.filter(
        run__submission__in=ids, run__badges__contains=[SEVERAL_TARGETS]
    ).order_by("run", "position")
    sentences: dict[UUID, str] = {}
    for submission_id, badges in rows.values_list("run__submission", "badges"):
        for badge in badges:
            if badge["code"] == SEVERAL_TARGETS:
                sentences.setdefault(submission_id, badge["sentence"])
    return sentences


def accept_or_retry(submissions: Sequence[IncomingSubmission]) -> list[AcceptResult]:
    """Accept submissions; retry those that were rejected before, since the current parser can read them."""
    return [
        AcceptResult(result.id, AcceptOutcome.NEW, State.RECEIVED)
        if result.state == State.REJECTED and retry_submission(result.id)
        else result
        for result in accept_submissions(submissions)
    ]


def process_submissions(ids: set[UUID]) -> None:
    """Process these submissions, or wait for the workers that claimed them."""
    while Submission.objects.waiting().filter(id__in=ids).exists():
        if normalize_batch().claimed == 0:
            # A worker claimed them first.
            time.sleep(_PAUSE_S)


def _count_result(
    output: OutputFile, outcome: AcceptOutcome, row: Submission, summary: ImportSummary
) -> None:
    if outcome == AcceptOutcome.CONFLICT:
        detail = f"submission {row.id} exists with a different body"
        _add_to_group(summary.rejected, "id-taken", detail, output.path)
    elif row.state == State.REJECTED:
        _add_to_group(summary.rejected, row.reason_code, row.reason, output.path)
    elif outcome == AcceptOutcome.REPLAYED:
        summary.already_there += 1
    else:
        summary.attached_logs += output.log_count
        if row.state == State.STORED:
            summary.stored += 1
            summary.runs += row.run_count  # type: ignore[attr-defined]
        else:
            summary.waiting += 1


def _add_to_group(groups: dict[str, FileGroup], code: str, detail: str, path: Path) -> None:
    group = groups.setdefault(code, FileGroup())
    group.count += 1
    if len(group.first) < _NAMES_MAXIMUM:
        group.first.append((str(path), detail))
