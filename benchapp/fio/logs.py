"""fio's logs of one job (as of `write_bw_log`): its values over time, compact, in base units."""

import io
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from typing import Final, Literal

from benchapp.fio.numbers import UNKNOWN_VERSION, Version

LogKind = Literal["bw", "iops", "lat", "clat", "slat"]
LogDirection = Literal["read", "write", "trim"]

# As fio makes them: the name given, the kind, and the number of the job (from 2.1.10 on). tests/data/log_names.json
# holds this together with static/js/intake/batches.js.
_NAME: Final = re.compile(
    r"(?:([^/\\\x00-\x1f\x7f]{1,200})_)?(bw|iops|lat|clat|slat|clat_hist)(?:\.([0-9]{1,6}))?\.log"
)
_KINDS: Final[Mapping[str, LogKind]] = {
    "bw": "bw",
    "iops": "iops",
    "lat": "lat",
    "clat": "clat",
    "slat": "slat",
}
_DIRECTIONS: Final[tuple[LogDirection, ...]] = ("read", "write", "trim")
_KIB: Final = 1024
# From this version latencies are in ns, before they were in µs; nothing was released in between.
_NANOSECONDS: Final[Version] = (2, 99, 0)
_MS_PER_S: Final = 1000
# In ms: the year 1973, and 3 years of a job.
_EPOCH_MS: Final = 10**11
# time, value, direction, block size; with the maximum after the value, the offset, the priority (as 0x… with
# log_prio) and the time of issue there are eight.
_FIELD: Final = rb"[ \t]{0,8}(?:\d{1,20}|0x[0-9a-fA-F]{1,8})[ \t]{0,8}"
_LINE: Final = re.compile(rb"%b(?:,%b){3,7}" % (_FIELD, _FIELD))
_COLUMNS_WITH_MAXIMUM: Final = 6
# Longer than eight numbers.
_LINE_LENGTH_MAXIMUM: Final = 400
# Read at once: its fields as objects are ten times its size, and so stay small beside the whole.
_CHUNK_BYTES: Final = 128 * 1024
_PLAIN: Final = rb" {0,2}\d{1,18}"
_PLAIN_DIRECTION: Final = rb" {0,2}[012]"


class UnreadableLog(ValueError):
    """A log cannot be read.

    code: "log-kind-not-read" (a histogram, or a name that fio does not give to logs), "log-unit-unknown" (a log of
    latencies of an unknown version), "unreadable-log" (a line that is not an entry); detail: for the operator.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class LogName:
    """The parts of the file name of a log. stem: the name passed to fio, often that of its output.

    kind: a LogKind, or "clat_hist"; job: None without (per_job_logs=0, fio before 2.1.10).
    """

    stem: str
    kind: str
    job: int | None


@dataclass(frozen=True, slots=True)
class LogValues:
    """The entries of one direction, as parallel arrays, in the order of the file.

    at_s: end of the window, or of the I/O. values: bytes/s, operations/s or ns. block_bytes: of the I/O, 0 for a
    window. maximums: of each window, with log_window_value=both; else empty.
    """

    at_s: "array[float]" = field(default_factory=lambda: array("d"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    block_bytes: "array[int]" = field(default_factory=lambda: array("Q"))
    maximums: "array[float]" = field(default_factory=lambda: array("d"))


@dataclass(frozen=True, slots=True)
class Log:
    """One log of one job.

    job: its number in the name, None without (per_job_logs=0, fio before 2.2). is_windowed: with log_avg_msec,
    each entry is the mean of a window (or its maximum, with log_max_value, which the log does not show); else each
    is one I/O. began_at_ms: with log_unix_epoch, the clock at the first entry, from which at_s then counts; else
    None, and at_s counts from the start of the job. is_cut: the last line was not whole, and was dropped.
    """

    kind: LogKind
    job: int | None
    is_windowed: bool
    directions: Mapping[LogDirection, LogValues]
    began_at_ms: int | None = None
    is_cut: bool = False


@dataclass(slots=True)
class _LogScan:
    """The state of reading; direction_at: the column of the direction."""

    scale: int
    direction_at: int = 2
    columns: int = 0
    first_ms: int | None = None
    is_windowed: bool = True
    last: bytes = b""
    directions: dict[LogDirection, LogValues] = field(default_factory=dict)


class _HasMaximums(Exception):
    """The third column holds values and not directions: log_window_value=both."""


def read_log(name: str, text: bytes, *, version: Version) -> Log:
    """Return a log by the name of its file ("read_lat.1.log"), in base units; linear, about the size of the text.

    version: of the fio that wrote it, (0, 0, 0) if not known. An empty log, as fio makes for a phase that an
    engine does not have, is one without directions. Raises UnreadableLog.
    """
    kind, job = read_log_name(name)
    scale = _find_scale(kind, version)
    is_unended, end = _find_end(text)
    try:
        scan = _scan_lines(text, end, _LogScan(scale))
    except _HasMaximums:
        scan = _scan_lines(text, end, _LogScan(scale, direction_at=3))
    is_cut = is_unended and not _take_last(text[end:], scan)
    began_at_ms = None
    if scan.first_ms is not None and scan.first_ms >= _EPOCH_MS:
        began_at_ms = scan.first_ms
        for values in scan.directions.values():
            _make_relative(values.at_s, began_at_ms / _MS_PER_S)
    return Log(kind, job, scan.is_windowed, scan.directions, began_at_ms, is_cut)


def split_log_name(name: str) -> LogName | None:
    """Return the parts of a file name without folder; None if it is not the name of a fio log."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    stem, kind, job = match.groups()
    return LogName(stem or "", kind, None if job is None else int(job))


def read_log_name(name: str) -> tuple[LogKind, int | None]:
    """Return kind and job number from the name of a file, with or without its folder. Raises UnreadableLog."""
    base = name.replace("\\", "/").rpartition("/")[2]
    found = split_log_name(base)
    if found is None:
        raise UnreadableLog(
            "log-kind-not-read",
            f"{base[:200]}: not the name of a fio log: NAME_bw.1.log, or iops, lat, clat, slat instead of bw",
        )
    if found.kind not in _KINDS:
        raise UnreadableLog("log-kind-not-read", f"{base[:200]}: logs of histograms are not read")
    return _KINDS[found.kind], found.job


def _find_scale(kind: LogKind, version: Version) -> int:
    """Return the factor that converts a value to bytes/s, operations/s or ns."""
    if kind == "bw":
        return _KIB
    if kind == "iops":
        return 1
    if version == UNKNOWN_VERSION:
        raise UnreadableLog(
            "log-unit-unknown",
            "latencies in a log are in µs before fio 3.0 and in ns since; the version of fio is not known",
        )
    return 1 if is_latency_in_ns(version) else 1000


def is_latency_in_ns(version: Version) -> bool:
    """Return whether this version logs latencies in ns; earlier versions log them in µs."""
    return version >= _NANOSECONDS


def _find_end(text: bytes) -> tuple[bool, int]:
    """Return whether the last line lacks its end, and where the lines that have theirs stop."""
    end = text.rfind(b"\n") + 1
    return bool(text[end:].strip()), end


def _scan_lines(text: bytes, end: int, scan: _LogScan) -> _LogScan:
    # In pieces, out of the buffer: a list of all lines would be four times the text.
    place, number = 0, 1
    while place < end:
        # The first entry, read alone, gives the number of columns.
        stop = text.find(b"\n", place + (_CHUNK_BYTES if scan.columns else 0), end) + 1 or end
        chunk = text[place:stop]
        if not _take_entries(chunk, scan):
            _scan_chunk(chunk, number, scan)
        place, number = stop, number + chunk.count(b"\n")
    return scan


def _scan_chunk(chunk: bytes, number: int, scan: _LogScan) -> None:
    """Add the entries line by line; number: of the first line, in the log."""
    with io.BytesIO(chunk) as lines:
        for at, line in enumerate(lines, number):
            if line.isspace():
                continue
            if not _take_entry(line, scan):
                excerpt = line[:80].decode("utf-8", "replace").strip()
                raise UnreadableLog("unreadable-log", f"line {at} is not an entry of a fio log: {excerpt}")


def _take_entries(chunk: bytes, scan: _LogScan) -> bool:
    """Add whole lines at once if all have the usual form and the columns are known; else add none, return False."""
    if not scan.columns or not _compile_lines(scan.columns, scan.direction_at).fullmatch(chunk):
        return False
    fields = chunk.replace(b"\n", b",").split(b",")
    fields.pop()
    columns = [fields[place :: scan.columns] for place in range(scan.direction_at + 2)]
    times, values, blocks = (list(map(int, columns[place])) for place in (0, 1, scan.direction_at + 1))
    maximums = list(map(int, columns[2])) if scan.direction_at > 2 else []
    directions = list(map(int, columns[scan.direction_at]))
    for number in sorted(set(directions), key=directions.index):
        kept = scan.directions.setdefault(_DIRECTIONS[number], LogValues())
        is_own = [direction == number for direction in directions]
        kept.at_s.extend([at_ms / _MS_PER_S for at_ms in compress(times, is_own)])
        kept.values.extend([value * scan.scale for value in compress(values, is_own)])
        kept.block_bytes.extend(compress(blocks, is_own))
        if maximums:
            kept.maximums.extend([value * scan.scale for value in compress(maximums, is_own)])
    scan.is_windowed = scan.is_windowed and not any(blocks)
    scan.last = fields[-1].rstrip(b"\r")
    return True


@cache
def _compile_lines(columns: int, direction_at: int) -> re.Pattern[bytes]:
    """Return the pattern of lines with so many columns as fio prints them: few spaces, numbers that fit 8 bytes."""
    further = [rb" {0,2}(?:0x[0-9a-fA-F]{1,8}|\d{1,20})"] * (columns - direction_at - 2)
    line = b",".join([*[_PLAIN] * direction_at, _PLAIN_DIRECTION, _PLAIN, *further])
    return re.compile(rb"(?:%b\r?\n)*+" % line)


def _take_entry(line: bytes, scan: _LogScan) -> bool:
    """Add an entry; False if the line is not an entry, or has other columns than the first one."""
    stripped = line.rstrip(b"\r\n")
    if len(stripped) > _LINE_LENGTH_MAXIMUM or not _LINE.fullmatch(stripped):
        return False
    fields = stripped.split(b",")
    count = len(fields)
    if count != scan.columns:
        if scan.columns:
            return False
        scan.columns = count
    place = scan.direction_at
    if count <= place + 1 or b"x" in fields[place] or b"x" in fields[0] or b"x" in fields[1]:
        return False
    direction = int(fields[place])
    if direction >= len(_DIRECTIONS):
        if place == 2 and count >= _COLUMNS_WITH_MAXIMUM:
            raise _HasMaximums
        return False
    block_text = fields[place + 1]
    at_ms, block_bytes = int(fields[0]), 0 if b"x" in block_text else int(block_text)
    if at_ms > 2**63 or block_bytes > 2**63:
        return False
    if scan.first_ms is None:
        scan.first_ms = at_ms
    _keep(scan, _DIRECTIONS[direction], at_ms, fields, block_bytes)
    return True


def _keep(scan: _LogScan, direction: LogDirection, at_ms: int, fields: list[bytes], block_bytes: int) -> None:
    values = scan.directions.get(direction)
    if values is None:
        values = scan.directions[direction] = LogValues()
    values.at_s.append(at_ms / _MS_PER_S)
    values.values.append(int(fields[1]) * scan.scale)
    values.block_bytes.append(block_bytes)
    if block_bytes:
        scan.is_windowed = False
    if scan.direction_at > 2:
        values.maximums.append(int(fields[2]) * scan.scale)
    scan.last = fields[-1]


def _take_last(line: bytes, scan: _LogScan) -> bool:
    """Add a line without a line end, as in a stripped text, if its last column equals that of the line before."""
    fields = line.rstrip(b"\r\n").split(b",")
    if len(fields) != scan.columns or fields[-1] != scan.last:
        return False
    return _take_entry(line, scan)


def _make_relative(at_s: "array[float]", began_at_s: float) -> None:
    at_s[:] = array("d", [round(moment_s - began_at_s, 3) for moment_s in at_s])
