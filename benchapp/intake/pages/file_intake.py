"""Accept or preview uploaded files, with the status codes of the API."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import BoundedSemaphore
from typing import Any, Final

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from benchapp.intake.importing.discovery import UnreadableFile, unpack_bytes
from benchapp.intake.importing.file_parameters import FileParameters, UnknownFile
from benchapp.intake.importing.log_pairing import is_log, make_submission, pair_logs
from benchapp.intake.normalize.batch import Rejection
from benchapp.intake.normalize.preview import check_format_in_process, preview_incoming
from benchapp.intake.pages.previews import describe_preview
from benchapp.intake.posts.envelope import BadEnvelope
from benchapp.intake.posts.format_check import check_format_quickly
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.query_parameters import BadParameter, read_parameters
from benchapp.intake.posts.submissions import (
    VALIDATED_BYTES_MAXIMUM,
    AcceptOutcome,
    IncomingSubmission,
    accept_submission,
    find_known,
)

_STATUSES: Final = {AcceptOutcome.NEW: 202, AcceptOutcome.REPLAYED: 200, AcceptOutcome.CONFLICT: 409}
# Each parses, and compares with existing series; threads of the process must remain for other requests.
_PREVIEWS: Final = BoundedSemaphore(2)
_FILE_STATUSES: Final = {"body-too-big": 413, "gzip-invalid": 400, "body-empty": 400}


@dataclass(frozen=True, slots=True)
class FileResult:
    """Result of one file. status, code: as in the API, 503 if there is no preview; id: empty if nothing was stored.

    log_count: number of logs attached to it. series: those that it would join or create, of a preview; None if it was
    not previewed. omitted: number of further ones.
    """

    name: str
    status: int
    code: str = ""
    detail: str = ""
    id: str = ""
    state: str = ""
    log_count: int = 0
    series: tuple[dict[str, Any], ...] | None = None
    omitted: int = 0

    @property
    def is_accepted(self) -> bool:
        """Return whether the file is stored, now or from an earlier upload."""
        return self.status in (200, 202)

    @property
    def is_new(self) -> bool:
        """Return whether the file was accepted just now."""
        return self.status == 202

    def as_row(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)


def take_files(
    host_id: int, files: Sequence["UploadedFile[Any]"], *, parameters: FileParameters, is_preview: bool
) -> list[FileResult]:
    """Accept each output with its logs; return the result of each output and of each unmatched log.

    is_preview: tell what each would become, and store nothing.
    """
    if not is_preview:
        return _take_all(host_id, files, parameters=parameters, is_preview=False)
    if not _PREVIEWS.acquire(blocking=False):
        detail = "other files are being previewed: try again"
        return [FileResult(file.name or "", 503, "busy", detail) for file in files]
    try:
        return _take_all(host_id, files, parameters=parameters, is_preview=True)
    finally:
        _PREVIEWS.release()


def _take_all(
    host_id: int, files: Sequence["UploadedFile[Any]"], *, parameters: FileParameters, is_preview: bool
) -> list[FileResult]:
    contents, names, results = _read_all(files)
    logs = [name for name, content in contents.items() if is_log(name, content[:64])]
    others = [name for name in contents if name not in logs]
    check = check_format_in_process if is_preview else check_format_quickly
    faults = {name: fault for name in others if (fault := check(contents[name])) is not None}
    outputs = [name for name in others if name not in faults]
    pairing = pair_logs(outputs, logs)
    for name in outputs:
        own = {log: contents[log] for log in pairing.logs_of.get(name, ())}
        results.append(
            _take(
                host_id,
                name,
                contents[name],
                parameters=parameters,
                file_name=names[name],
                logs=own,
                is_preview=is_preview,
            )
        )
    results += [_reject(name, fault.code, fault.detail) for name, fault in faults.items()]
    results += [_reject(name, "log-alone", f"fio log: {why}") for name, why in pairing.unmatched.items()]
    return results


def _read_all(
    files: Sequence["UploadedFile[Any]"],
) -> tuple[dict[str, bytes], dict[str, str], list[FileResult]]:
    """Return the files by unique name, unpacked, their own names, and the results of files that cannot be read.

    The limit of one body applies to all files together: a form of small gzips must not fill the memory.
    """
    contents: dict[str, bytes] = {}
    names: dict[str, str] = {}
    rejected: list[FileResult] = []
    room = settings.UNPACKED_LIMIT_BYTES
    for file in files:
        name = _make_unique_name(file.name or "", names)
        names[name] = file.name or ""
        try:
            contents[name] = _read(file, room)
            room -= len(contents[name])
        except UnreadableFile as error:
            rejected.append(_reject(name, error.code, str(error)))
    return contents, names, rejected


def _make_unique_name(name: str, taken: Mapping[str, str]) -> str:
    """Return the name, with a number if files of several folders share it."""
    number, unique = 2, name
    while unique in taken:
        unique, number = f"{name} ({number})", number + 1
    return unique


def _read(file: "UploadedFile[Any]", room: int) -> bytes:
    try:
        content = unpack_bytes(file.read(), limit=room)
    except UnreadableFile as error:
        if error.code != "body-too-big":
            raise
        most = settings.UNPACKED_LIMIT_BYTES // 2**20
        raise UnreadableFile(
            error.code, f"the files of one upload exceed {most} MiB unpacked: upload this file separately"
        ) from error
    if not content.strip() and not is_log(file.name or "", b""):
        raise UnreadableFile("body-empty", "the file is empty: fio may not have written any output")
    return content


def _take(
    host_id: int,
    name: str,
    output: bytes,
    *,
    parameters: FileParameters,
    file_name: str,
    logs: Mapping[str, bytes],
    is_preview: bool,
) -> FileResult:
    """Accept or preview one output. name: unique in the upload; file_name: its own, for the pattern and the table."""
    try:
        own = read_parameters(parameters.read(file_name).items())
        submission = make_submission(host_id, output, parameters=own, logs=logs)
    except UnknownFile as error:
        return _reject(name, "file-unknown", str(error))
    except BadLayout as error:
        return _reject(name, "parameter-invalid", f"{error.pointer.lstrip('/')}: {error}")
    except BadParameter as error:
        return _reject(name, error.code, str(error))
    except BadEnvelope as error:
        return _reject(name, error.code, str(error))
    if is_preview:
        return _preview(name, submission, log_count=len(logs))
    result = accept_submission(submission)
    if result.outcome == AcceptOutcome.CONFLICT:
        return FileResult(name, 409, "id-taken", f"submission {result.id} exists with a different body")
    return FileResult(
        name,
        _STATUSES[result.outcome],
        id=str(result.id),
        state=result.state.value,
        log_count=len(logs),
    )


def _preview(name: str, submission: IncomingSubmission, *, log_count: int) -> FileResult:
    if len(submission.body) > VALIDATED_BYTES_MAXIMUM:
        limit = VALIDATED_BYTES_MAXIMUM // 2**20
        # The preview is unavailable; nothing is known about the file.
        return FileResult(name, 503, detail=f"a preview reads at most {limit} MiB; the file can be uploaded")
    known = find_known(submission)
    found = preview_incoming(submission, known.id)
    if isinstance(found, Rejection):
        return _reject(name, found.code, found.reason)
    series, omitted = describe_preview(found)
    is_known = known.outcome == AcceptOutcome.REPLAYED
    return FileResult(
        name,
        200,
        id=str(known.id) if is_known else "",
        state="known" if is_known else "",
        log_count=log_count,
        series=series,
        omitted=omitted,
    )


def _reject(name: str, code: str, detail: str) -> FileResult:
    return FileResult(name, _FILE_STATUSES.get(code, 422), code, detail)
