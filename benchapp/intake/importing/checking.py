"""Check the files of an import, and make the submission of each output; without the database."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from django.conf import settings

from benchapp.intake.importing.discovery import (
    Folder,
    UnreadableFile,
    read_beginning,
    read_dated_file,
    read_file,
)
from benchapp.intake.importing.file_parameters import FileParameters, UnknownFile
from benchapp.intake.importing.log_pairing import Pairing, is_log, make_submission, pair_logs, plain_name
from benchapp.intake.posts.envelope import BadEnvelope
from benchapp.intake.posts.format_check import Fault, check_format
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.query_parameters import read_parameters
from benchapp.intake.posts.submissions import IncomingSubmission

_BEGINNING_BYTES: Final = 256 * 1024
_LINE_BYTES: Final = 64

GroupName = Literal["rejected", "foreign", "unmatched_logs"]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options for all files of an import.

    parameters: of all files, and by their names and folders. dates_by_file: the modification time of a file is the
    start of a run whose output has none. is_queued: submissions are left to the workers, and not waited for.
    """

    host_id: int
    parameters: FileParameters
    dates_by_file: bool = False
    is_queued: bool = False


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is not imported, or only without its logs. group: field of the summary."""

    group: GroupName
    code: str
    detail: str
    path: Path


@dataclass(frozen=True, slots=True)
class OutputFile:
    """The submission of an output. log_count: logs in it."""

    path: Path
    submission: IncomingSubmission
    log_count: int


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The result of one file. files: those that it accounts for; output: None if it is not imported."""

    files: int = 1
    output: OutputFile | None = None
    skipped: tuple[SkippedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file to check, with the logs that belong to it. is_named: given one by one, not found in a folder."""

    path: Path
    log_paths: tuple[Path, ...]
    is_named: bool


def list_tasks(folders: Sequence[Folder]) -> Iterator[FileTask | CheckedFile]:
    """Yield all files in order; the results of those that need not be read. The order is the same each time."""
    for folder in folders:
        if folder.fault:
            fault = SkippedFile("rejected", "file-unreadable", folder.fault, folder.path)
            yield CheckedFile(files=0, skipped=(fault,))
        logs = {path.name: path for path in folder.files if _is_log(path)}
        pairing = _pair(folder, logs) if logs else Pairing({}, {})
        for path in folder.files:
            if path.name not in logs:
                own = tuple(logs[name] for name in pairing.logs_of.get(path.name, ()))
                yield FileTask(path, own, folder.is_named)
        group: GroupName = "rejected" if folder.is_named else "unmatched_logs"
        for name, reason in pairing.unmatched.items():
            yield CheckedFile(skipped=(SkippedFile(group, "log-alone", reason, logs[name]),))


def check_file(task: FileTask, options: ImportOptions) -> CheckedFile:
    """Read a file and return its submission; without one if it is not an output."""
    path = task.path
    try:
        output, modified_at = read_dated_file(path, limit=settings.UNPACKED_LIMIT_BYTES)
    except UnreadableFile as error:
        return _skip(task, _check_beginning(path, error))
    if fault := check_format(output):
        return _skip(task, fault)
    try:
        own = replace(options.parameters, folder=path.parent.absolute().as_posix()).read(path.name)
        parameters = read_parameters(own.items())
    except UnknownFile as error:
        return _skip(task, Fault("file-unknown", str(error)))
    except BadLayout as error:
        return _skip(task, Fault("parameter-invalid", f"{error.pointer.lstrip('/')}: {error}"))
    if options.dates_by_file:
        parameters["started_at"] = parameters.get("started_at") or modified_at.isoformat()
    submission, log_count, skipped = _make_submission(task, output, parameters, options.host_id)
    return CheckedFile(1 + len(task.log_paths), OutputFile(path, submission, log_count), skipped)


def _skip(task: FileTask, fault: Fault) -> CheckedFile:
    is_expected = fault.is_foreign and not task.is_named
    group: GroupName = "foreign" if is_expected else "rejected"
    return CheckedFile(skipped=(SkippedFile(group, fault.code, fault.detail, task.path),))


def _make_submission(
    task: FileTask, output: bytes, parameters: Mapping[str, Any], host_id: int
) -> tuple[IncomingSubmission, int, tuple[SkippedFile, ...]]:
    """Return the submission, the number of logs in it, and the logs that are not."""
    try:
        logs = _read_logs(task.log_paths, limit=settings.UNPACKED_LIMIT_BYTES - len(output))
        return make_submission(host_id, output, parameters=parameters, logs=logs), len(logs), ()
    except (BadEnvelope, UnreadableFile) as error:
        # The output is imported without its logs.
        submission = make_submission(host_id, output, parameters=parameters, logs={})
        skipped = (SkippedFile("unmatched_logs", "logs-left-out", str(error), log) for log in task.log_paths)
        return submission, 0, tuple(skipped)


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
