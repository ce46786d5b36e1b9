"""Take in files that a person handed over, with the answers that the API gives."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from benchapp.pipeline.importing.discovery import UnreadableFile, unpack_bytes
from benchapp.pipeline.importing.log_pairing import is_log, make_arrival, pair_logs
from benchapp.pipeline.intake.envelope import BadEnvelope
from benchapp.pipeline.intake.format_check import check_format_quickly
from benchapp.pipeline.intake.submissions import AcceptOutcome, accept_submission

_STATUSES: Final = {AcceptOutcome.NEW: 202, AcceptOutcome.REPLAYED: 200, AcceptOutcome.CONFLICT: 409}
_FILE_STATUSES: Final = {"body-too-big": 413, "gzip-invalid": 400, "body-empty": 400}


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file. status and code are those of the API; id is empty where nothing was stored.

    log_count: how many logs went with it.
    """

    name: str
    status: int
    code: str = ""
    detail: str = ""
    id: str = ""
    state: str = ""
    log_count: int = 0

    @property
    def is_taken(self) -> bool:
        """Say whether it is stored, now or from before."""
        return self.status in (200, 202)

    @property
    def is_new(self) -> bool:
        """Say whether it was taken in just now."""
        return self.status == 202

    def as_row(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def take_in_files(
    host_id: int, files: Sequence["UploadedFile[Any]"], *, parameters: Mapping[str, Any]
) -> list[FileResult]:
    """Take in every output among the files, its logs with it; return what became of each output and of lone logs."""
    contents, handed = _read_all(files)
    logs = [name for name, content in contents.items() if is_log(name, content[:64])]
    others = [name for name in contents if name not in logs]
    faults = {name: fault for name in others if (fault := check_format_quickly(contents[name])) is not None}
    outputs = [name for name in others if name not in faults]
    pairing = pair_logs(outputs, logs)
    for name in outputs:
        own = {log: contents[log] for log in pairing.logs_of.get(name, ())}
        handed.append(_take_in(host_id, name, contents[name], parameters=parameters, logs=own))
    handed += [_refuse(name, fault.code, fault.detail) for name, fault in faults.items()]
    handed += [_refuse(name, "log-alone", f"a log of fio: {why}") for name, why in pairing.alone.items()]
    return handed


def _read_all(files: Sequence["UploadedFile[Any]"]) -> tuple[dict[str, bytes], list[FileResult]]:
    """Return the files by name, unpacked, and those that cannot be read.

    All together have the room of one: a form of small gzips must not fill the memory.
    """
    contents: dict[str, bytes] = {}
    refused: list[FileResult] = []
    room = settings.UNPACKED_LIMIT_BYTES
    for file in files:
        name = _name_apart(file.name or "", contents)
        try:
            contents[name] = _read(file, room)
            room -= len(contents[name])
        except UnreadableFile as error:
            refused.append(_refuse(name, error.code, str(error)))
    return contents, refused


def _name_apart(name: str, taken: Mapping[str, bytes]) -> str:
    """Return the name, with a number where files of several folders share it."""
    number, apart = 2, name
    while apart in taken:
        apart, number = f"{name} ({number})", number + 1
    return apart


def _read(file: "UploadedFile[Any]", room: int) -> bytes:
    try:
        content = unpack_bytes(file.read(), limit=room)
    except UnreadableFile as error:
        if error.code != "body-too-big":
            raise
        most = settings.UNPACKED_LIMIT_BYTES // 2**20
        raise UnreadableFile(
            error.code, f"the files of one upload are more than {most} MiB, unpacked: send it by itself"
        ) from error
    if not content.strip() and not is_log(file.name or "", b""):
        raise UnreadableFile("body-empty", "the file is empty: was it written, did fio print anything?")
    return content


def _take_in(
    host_id: int, name: str, output: bytes, *, parameters: Mapping[str, Any], logs: Mapping[str, bytes]
) -> FileResult:
    try:
        arrival = make_arrival(host_id, output, parameters=parameters, logs=logs)
    except BadEnvelope as error:
        return _refuse(name, error.code, str(error))
    receipt = accept_submission(arrival)
    if receipt.outcome == AcceptOutcome.CONFLICT:
        return FileResult(name, 409, "id-taken", f"submission {receipt.id} exists with another body")
    return FileResult(
        name,
        _STATUSES[receipt.outcome],
        id=str(receipt.id),
        state=receipt.state.value,
        log_count=len(logs),
    )


def _refuse(name: str, code: str, detail: str) -> FileResult:
    return FileResult(name, _FILE_STATUSES.get(code, 422), code, detail)
