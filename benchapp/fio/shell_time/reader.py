"""The small-files test: a shell loop timed by the shell, once for writing and once for reading."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.fio.merging.rollup import roll_up
from benchapp.fio.notes import Notes
from benchapp.fio.report import Direction, Document, Job, Reading
from benchapp.fio.shell_time.command import (
    Kind,
    count_files,
    find_command,
    find_kind,
    is_dd,
    is_fio,
    is_unfinished,
)
from benchapp.fio.unreadable import UnreadableOutput

_LINE: Final = re.compile(r"[^\r\n]++")
_SECONDS: Final = r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(\d{1,9}(?:[.,]\d{1,9})?)s?"
# bash, ksh, dash, and time -p: three lines in this order.
_SHELL: Final = tuple(
    re.compile(rf"\s{{0,20}}{name}\s{{1,20}}{_SECONDS}\s{{0,20}}", re.ASCII)
    for name in ("real", "user", "sys")
)
_CLOCK: Final = r"(?:(?:(\d{1,6}):)?(\d{1,6}):)?(\d{1,9}(?:[.,]\d{1,9})?)"
_NUMBER: Final = r"(\d{1,9}[.,]\d{1,9})"
_ZSH: Final = re.compile(rf"{_NUMBER}s user {_NUMBER}s system \d{{1,6}}% cpu {_CLOCK} total", re.ASCII)
_BSD: Final = re.compile(
    rf"\s{{0,20}}{_SECONDS}\s{{1,20}}real\s{{1,20}}{_SECONDS}\s{{1,20}}user\s{{1,20}}{_SECONDS}\s{{1,20}}sys",
    re.ASCII,
)
_GNU: Final = re.compile(rf"\s{{0,20}}{_NUMBER}user {_NUMBER}system {_CLOCK}elapsed", re.ASCII)
# Longer lines are neither a timing nor a command that is read.
_LINE_LENGTH_MAXIMUM: Final = 4096
_COMMAND_LINES_MAXIMUM: Final = 20
# The recipe makes two; who times a thousand commands times something else.
_TIMINGS_MAXIMUM: Final = 1000
_CLASSIC: Final[tuple[Kind, Kind]] = ("write", "read")
_MISSING: Final = dict.fromkeys(
    (
        *("io_bytes", "total_ios", "iops", "bandwidth_bytes_per_s", "runtime_s"),
        *("latency", "percentiles", "bandwidth_samples", "iops_samples"),
    ),
    "not-in-format",
)
_SOURCES: Final = {"elapsed_s": "real time, as the shell or time(1) printed it"}


@dataclass(frozen=True, slots=True)
class _Span:
    """A line: its text, and where it begins and ends, in characters."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Timing:
    """One timed command, s; command: empty where it is not shown; spans: its lines and those of its times."""

    real_s: float
    user_s: float
    system_s: float
    command: str
    spans: tuple[_Span, ...]


def read_timing(text: str, notes: Notes) -> Reading:
    """Return the timings in a text, and the lines that are not theirs.

    A document is what was timed until a kind of work comes again: writing and reading, as the classic recipe has
    it. real, user and sys must be on adjacent lines. Times without a visible command are read only if there are exactly
    two, with a note; another note lists those that were skipped. Raises UnreadableOutput ("too-many-timings") at
    the first beyond 1000, whole or not.
    """
    if not any(word in text for word in ("real", "elapsed", "s system ")):
        return Reading((), text)
    timings = list(_find_timings(text))
    kinds = _find_kinds(timings, notes)
    used = [(timing, kind) for timing, kind in zip(timings, kinds, strict=True) if kind]
    if not used:
        return Reading((), text)
    documents: list[list[tuple[_Timing, Kind]]] = []
    for timing, kind in used:
        if not documents or any(kind == before for _, before in documents[-1]):
            documents.append([])
        documents[-1].append((timing, kind))
    found = tuple(_make_document(members, notes) for members in documents)
    return Reading(found, _leave_out(text, [span for timing, _ in used for span in timing.spans]))


def _leave_out(text: str, spans: Sequence[_Span]) -> str:
    parts, done_to = [], 0
    for span in spans:
        parts.append(text[done_to : span.start])
        done_to = span.end
    return "".join((*parts, text[done_to:]))


def _find_timings(text: str) -> Iterator[_Timing]:
    """Yield the timings in order; each has the last command between it and the timing before."""
    begun = 0
    shown: list[_Span] = []
    times: list[_Span] = []
    seconds: list[float] = []
    for match in _LINE.finditer(text):
        if match.end() - match.start() > _LINE_LENGTH_MAXIMUM:
            times, seconds = [], []
            continue
        span = _Span(match[0], match.start(), match.end())
        shell = _SHELL[len(times)].fullmatch(span.text)
        if shell is None and times:
            times, seconds = [], []
            shell = _SHELL[0].fullmatch(span.text)
        if shell is not None:
            begun += not times
            _check_count(begun)
            times.append(span)
            seconds.append(_read_seconds(*shell.groups()))
            if len(times) == len(_SHELL):
                yield _Timing(seconds[0], seconds[1], seconds[2], _join(shown), (*shown, *times))
                shown, times, seconds = [], [], []
            continue
        single = _read_single(span, shown)
        if single is not None:
            begun += 1
            _check_count(begun)
            yield single
            shown = []
        elif find_command(span.text):
            shown = [span]
        elif shown and len(shown) < _COMMAND_LINES_MAXIMUM and is_unfinished(_join(shown)):
            shown.append(span)


def _check_count(begun: int) -> None:
    if begun > _TIMINGS_MAXIMUM:
        raise UnreadableOutput(
            "too-many-timings",
            f"the text contains more than {_TIMINGS_MAXIMUM} shell timings: send those of one run only",
        )


def _join(shown: Sequence[_Span]) -> str:
    """Return a command that may be typed over several lines, which the shell begins with "> "."""
    if not shown:
        return ""
    further = (span.text.strip().removeprefix(">").strip() for span in shown[1:])
    return "\n".join((find_command(shown[0].text), *further))


def _read_single(span: _Span, shown: Sequence[_Span]) -> _Timing | None:
    """Read a line that holds all three times: of BSD or mksh, of GNU time, or zsh's, which begins with the command."""
    spans = (*shown, span)
    bsd = _BSD.match(span.text) if " real" in span.text else None
    if bsd is not None:
        times = bsd.groups()
        real_s, user_s, system_s = (_read_seconds(*times[place : place + 3]) for place in (0, 3, 6))
        return _Timing(real_s, user_s, system_s, _join(shown), spans)
    gnu = _GNU.match(span.text) if "elapsed" in span.text else None
    zsh = _ZSH.search(span.text) if gnu is None and " total" in span.text else None
    match = gnu or zsh
    if match is None:
        return None
    user, system, hours, minutes, seconds = match.groups()
    named = span.text[: match.start()].strip()
    return _Timing(
        _read_seconds(hours, minutes, seconds),
        _read_seconds(None, None, user),
        _read_seconds(None, None, system),
        named if find_kind(named) else _join(shown),
        spans,
    )


def _read_seconds(hours: str | None, minutes: str | None, seconds: str) -> float:
    """Return the seconds of "1h2m3.4s"; a locale may print a decimal comma."""
    # To the digits that are printed: 1m0.116s is 60.116 and not 60.11600000000001.
    whole = int(hours or 0) * 3600 + int(minutes or 0) * 60
    return round(whole + float(seconds.replace(",", ".")), 9)


def _find_kinds(timings: Sequence[_Timing], notes: Notes) -> list[Kind | None]:
    """Return the kind of each timing; None for skipped ones."""
    if len(timings) == len(_CLASSIC) and not any(timing.command for timing in timings):
        notes.add(
            "commands-not-shown",
            "",
            "the text has two timings without their commands: read as writing and reading, in this order",
        )
        return list(_CLASSIC)
    kinds: list[Kind | None] = []
    for number, timing in enumerate(timings):
        kind = find_kind(timing.command)
        kinds.append(kind)
        if kind is None and not is_fio(timing.command):
            message = f"real {timing.real_s:g} s was skipped: {_explain_skipped(timing.command)}"
            notes.add("unreadable-timing", f"timing {number}", message)
    return kinds


def _explain_skipped(command: str) -> str:
    if not command:
        return "its command is not shown"
    if is_dd(command):
        return "dd, one large file is not the small-files test"
    return "the timed command is not a storage benchmark, or not one of many files"


def _make_document(members: Sequence[tuple[_Timing, Kind]], notes: Notes) -> Document:
    jobs = tuple(_make_job(index, timing, kind) for index, (timing, kind) in enumerate(members))
    return Document(
        format="time",
        fio_version="",
        started_at=None,
        finished_at=None,
        jobs=jobs,
        groups=roll_up(jobs, where="timing", is_partial=False, notes=notes),
    )


def _make_job(index: int, timing: _Timing, kind: Kind) -> Job:
    direction = Direction(
        kind,
        None,
        None,
        None,
        None,
        None,
        missing=_MISSING,
        sources=_SOURCES,
        elapsed_s=timing.real_s,
    )
    return Job(
        index=index,
        name=kind,
        groupid=index,
        hostname=None,
        error=0,
        clones=1,
        options=_list_options(timing, kind),
        directions=(direction,),
        cpu_user_percent=_share(timing.user_s, timing.real_s),
        cpu_system_percent=_share(timing.system_s, timing.real_s),
        has_all_options=bool(timing.command),
    )


def _list_options(timing: _Timing, kind: Kind) -> Mapping[str, str]:
    options = {"rw": kind, "ioengine": "shell"}
    files = count_files(timing.command)
    return options if files is None else {**options, "nrfiles": str(files)}


def _share(part_s: float, whole_s: float) -> float | None:
    return round(part_s / whole_s * 100, 6) if whole_s else None
