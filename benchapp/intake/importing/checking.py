"""Check the files of an import and of an upload, and make the submission of each output; without the database."""

import csv
import hashlib
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final, Literal
from uuid import UUID, uuid5

import orjson
from django.conf import settings

from benchapp.fio.logs import split_log_name
from benchapp.fio.report import Notes
from benchapp.fio.text import decode_output
from benchapp.intake.importing.discovery import (
    Folder,
    UnreadableFile,
    read_beginning,
    read_dated_file,
    read_file,
)
from benchapp.intake.posts.envelope import (
    SCHEMA,
    BadEnvelope,
    BadParameter,
    read_envelope,
    read_parameters,
    refuse_unknown_names,
)
from benchapp.intake.posts.format_check import Fault, check_format
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.submissions import IncomingSubmission
from benchapp.models import Kind

PATTERN_LENGTH: Final = 200
ROWS_MAXIMUM: Final = 10_000
_FILE: Final = "file"
_OF_OUTPUT: Final = frozenset({"rw", "bs", "iodepth", "numjobs"})
_FAULTS_MAXIMUM: Final = 10
_PART: Final = re.compile(r"\{([^{}]*)\}|(\*)|([^{}*]+)|(.)", re.DOTALL)
# Of names that are matched with a pattern and a table.
_ENDINGS: Final = frozenset({".json", ".jsonl", ".txt", ".out", ".log", ".terse"})


class BadFileParameters(Exception):
    """A pattern or a table that cannot be used; the message gives the reason."""


class UnknownFile(Exception):
    """A file whose name does not match the pattern, or that the table does not list."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern of file names. names: of its values, in the order of the groups of the expression."""

    text: str
    names: tuple[str, ...]
    expression: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class FileParameters:
    """Parameters by name: common to all files, by the pattern of their names, and by the rows of a table.

    A row precedes the name, that precedes the common ones; empty cells state nothing. folder: of the files, where the
    sender names it; a pattern with "/" is compared with as many of its last parts.
    """

    common: Mapping[str, str] = field(default_factory=dict)
    pattern: NamePattern | None = None
    rows: Mapping[str, Mapping[str, str]] | None = None
    folder: str = ""

    def read(self, name: str) -> dict[str, str]:
        """Return the parameters of a file. Raises UnknownFile."""
        found = dict(self.common)
        if self.pattern is not None:
            depth = self.pattern.text.count("/")
            parts = [part for part in self.folder.split("/") if part][-depth:] if depth else []
            match = self.pattern.expression.fullmatch("/".join((*parts, _strip_ending(name))))
            if match is None:
                raise UnknownFile(f"the name does not match the pattern {self.pattern.text}")
            values = dict(zip(self.pattern.names, match.groups(), strict=True))
            found |= {key: value for key, value in values.items() if key not in _OF_OUTPUT}
        if self.rows is not None:
            row = self.rows.get(plain_name(name))
            if row is None:
                raise UnknownFile("the table of parameters does not list this file")
            found |= {column: cell for column, cell in row.items() if cell}
        return found


def read_name_pattern(text: str) -> NamePattern | None:
    """Return the pattern of a text as "{volume_type}-{volume_count}x-*"; None for an empty one.

    {rw}, {bs}, {iodepth} and {numjobs} are skipped: the output itself states them. A value ends before the next
    character of the pattern, so that each name matches in one way. Raises BadFileParameters.
    """
    text = text.strip()
    if not text:
        return None
    if len(text) > PATTERN_LENGTH:
        raise BadFileParameters(f"{len(text)} characters; at most {PATTERN_LENGTH} are allowed")
    names: list[str] = []
    expression = ""
    parts = list(_PART.finditer(text))
    for place, part in enumerate(parts):
        name, star, literal, odd = part.groups()
        if odd is not None:
            raise BadFileParameters(f"{odd} is not closed: write {{volume_type}}")
        if literal is not None:
            expression += re.escape(literal)
            continue
        following = parts[place + 1] if place + 1 < len(parts) else None
        if following is not None and following[3] is None:
            raise BadFileParameters("two values need a text between them")
        value = f"[^{re.escape(following[3][0])}]+" if following is not None else ".+"
        expression += f"({value})" if star is None else value
        if star is None:
            names.append(name.strip())
    if len(set(names)) < len(names):
        raise BadFileParameters("a name occurs twice")
    _check_names(names)
    return NamePattern(text, tuple(names), re.compile(expression))


def read_parameter_table(text: str) -> dict[str, dict[str, str]]:
    """Return the parameters by file name of a CSV with the column "file" and columns of parameters.

    Lines that start with "#" are comments; columns that the output itself states are skipped, as in a pattern. Raises
    BadFileParameters with the lines that are wrong.
    """
    lines = [(number, cells) for number, cells in _list_rows(text) if any(cell.strip() for cell in cells)]
    if not lines:
        raise BadFileParameters("the table is empty: the first line names the columns, as file,volume_type")
    header = [cell.strip() for cell in lines[0][1]]
    if _FILE not in header or len(set(header)) < len(header):
        raise BadFileParameters(
            f"line {lines[0][0]}: one column must be {_FILE}, and no name may occur twice"
        )
    _check_names([name for name in header if name != _FILE])
    if len(lines) - 1 > ROWS_MAXIMUM:
        raise BadFileParameters(f"{len(lines) - 1} rows; at most {ROWS_MAXIMUM} are allowed")
    rows: dict[str, dict[str, str]] = {}
    faults: list[str] = []
    for number, cells in lines[1:]:
        row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        name = plain_name(PurePath(row.get(_FILE, "")).name)
        if len(cells) != len(header):
            faults.append(f"line {number}: {len(cells)} cells, but {len(header)} columns")
        elif not name:
            faults.append(f"line {number}: the name of the file is empty")
        elif name in rows:
            faults.append(f"line {number}: {name} is listed twice")
        else:
            rows[name] = {column: cell for column, cell in row.items() if column not in (_FILE, *_OF_OUTPUT)}
    if faults:
        more = [f"and {len(faults) - _FAULTS_MAXIMUM} more"] if len(faults) > _FAULTS_MAXIMUM else []
        raise BadFileParameters("; ".join([*faults[:_FAULTS_MAXIMUM], *more]))
    return rows


def _list_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with the numbers of their lines; comments are emptied, which keeps the numbers."""
    written = text.removeprefix("\ufeff").splitlines()
    source = "\n".join("" if line.startswith("#") else line for line in written)
    reader = csv.reader(io.StringIO(source, newline=""), strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise BadFileParameters(f"line {reader.line_num}: not a valid CSV: {error}") from error


def _check_names(names: list[str]) -> None:
    try:
        refuse_unknown_names(names, skipped=_OF_OUTPUT)
    except BadParameter as error:
        raise BadFileParameters(str(error)) from error


def _strip_ending(name: str) -> str:
    plain = PurePath(plain_name(name))
    return plain.stem if plain.suffix.lower() in _ENDINGS else plain.name


# Namespace of the ids of created envelopes: same host, same output and logs, same id.
_ENVELOPE_IDS: Final = UUID("0f7c2f0e-52f4-4d0b-9d58-6c1a3d0c9e27")
_LOG_BEGINNING: Final = re.compile(rb"\s{0,16}\d{1,20},")
_PACKED: Final = re.compile(r"\.(?:gz|xz|bz2|zst)\Z", re.IGNORECASE)
_BENCH_FIO: Final = re.compile(r"-(?:iodepth|numjobs)-(?=\d)")
_SEPARATORS: Final = "_.-"


def plain_name(name: str) -> str:
    """Return a file name without the suffix of its packing."""
    return _PACKED.sub("", name)


def is_log(name: str, beginning: bytes) -> bool:
    """Return whether a file is a fio log, by name and first line; also an empty one."""
    is_named_so = split_log_name(plain_name(name)) is not None
    return is_named_so and (not beginning.strip() or _LOG_BEGINNING.match(beginning) is not None)


def pair_logs(outputs: Sequence[str], logs: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the logs of a folder by their output, by name, and why others have none.

    A log belongs to the output whose name without extension is the log's prefix, or begins it before one of `_.-`;
    the longest such name is used. Without one it belongs to the only output of the folder.
    """
    stems = {name: plain_name(name).rpartition(".")[0] or plain_name(name) for name in outputs}
    counts = Counter(stems.values())
    named = {stem: name for name, stem in stems.items()}
    logs_of: dict[str, list[str]] = defaultdict(list)
    unmatched: dict[str, str] = {}
    for log in logs:
        stem = next((prefix for prefix in _list_prefixes(log) if prefix in named), None)
        if stem is not None and counts[stem] > 1:
            unmatched[log] = f"{counts[stem]} outputs have the name {stem}"
        elif stem is not None or len(outputs) == 1:
            logs_of[named[stem] if stem is not None else outputs[0]].append(log)
        else:
            unmatched[log] = (
                f"its name begins with the name of none of the {len(outputs)} outputs"
                if outputs
                else "no output in this folder"
            )
    return logs_of, unmatched


def make_submission(
    host_id: int, output: bytes, *, parameters: Mapping[str, Any], logs: Mapping[str, bytes]
) -> IncomingSubmission:
    """Return the submission: the bare output, or an envelope of output and logs.

    parameters: as `query_parameters.read_parameters` returns them; logs: file name → bytes. Raises BadEnvelope if the
    logs are not valid in an envelope, or make it exceed the limit.
    """
    if not logs:
        return IncomingSubmission(host_id, Kind.FIO, output, parameters=parameters)
    document = _make_document(output, parameters, logs)
    digest = hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
    envelope_id = uuid5(_ENVELOPE_IDS, f"{host_id}:{digest}")
    body = orjson.dumps({"schema": SCHEMA, "id": str(envelope_id), "kind": "fio", **document})
    if len(body) > settings.UNPACKED_LIMIT_BYTES:
        raise BadEnvelope(
            "body-too-big",
            f"with its {len(logs)} logs the output is {len(body) // 2**20} MiB;"
            f" the limit is {settings.UNPACKED_LIMIT_BYTES // 2**20} MiB",
        )
    read_envelope(body)
    return IncomingSubmission(host_id, Kind.ENVELOPE, body, id=envelope_id)


def _list_prefixes(log: str) -> Iterator[str]:
    """Yield the possible names of the output of a log, longest first."""
    name = split_log_name(plain_name(log))
    stem = name.stem if name else ""
    yield stem
    # bench-fio writes randread-16-1.json beside randread-iodepth-16-numjobs-1_bw.1.log.
    yield _BENCH_FIO.sub("-", stem)
    for place in range(len(stem) - 1, 0, -1):
        if stem[place] in _SEPARATORS:
            yield stem[:place]


def _make_document(output: bytes, parameters: Mapping[str, Any], logs: Mapping[str, bytes]) -> dict[str, Any]:
    target = parameters.get("target") or {}
    return {
        "profile": parameters.get("profile") or "",
        "started_at": parameters.get("started_at"),
        "fio_output": _as_text(output),
        "logs": {plain_name(name): _as_text(log) for name, log in logs.items()},
        "target": {
            "name" if field == "target_name" else field: value
            for field, value in target.items()
            if value is not None
        },
        "labels": dict(parameters.get("labels") or {}),
        "environment": {
            name: value for name, value in (parameters.get("environment") or {}).items() if value
        },
    }


def _as_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return decode_output(content, Notes())


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
        logs_of, unmatched = _pair(folder, logs)
        for path in folder.files:
            if path.name not in logs:
                own = tuple(logs[name] for name in logs_of.get(path.name, ()))
                yield FileTask(path, own, folder.is_named)
        group: GroupName = "rejected" if folder.is_named else "unmatched_logs"
        for name, reason in unmatched.items():
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


def _pair(folder: Folder, logs: Mapping[str, Path]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Check all other files first: only outputs can have logs."""
    if not logs:
        return {}, {}
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
