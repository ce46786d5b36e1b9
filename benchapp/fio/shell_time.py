"""The small-files test: a shell loop timed by the shell, once for writing and once for reading."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchapp.fio.merging.jobs import roll_up
from benchapp.fio.report import Direction, Document, Job, Notes, Reading, UnreadableOutput

Kind = Literal["write", "read"]

# The word where a command begins: behind a prompt, a path or a bracket.
_TIME: Final = re.compile(r"(?:^|[\s/$#%>;(&|])time\s{1,20}(?:-p\s{1,20})?(?=\S)", re.ASCII)
_LOOP: Final = re.compile(r"\b(?:for|while|until)\b", re.ASCII)
_DONE: Final = re.compile(r"\bdone\b", re.ASCII)
# To a file, not to a descriptor (2>&1), nor nowhere.
_INTO_FILE: Final = re.compile(r"""(?<![0-9&>=-])>{1,2}\|?\s{0,20}(?!/dev/null\b)["'\w$./~{]""", re.ASCII)
_FROM_FILE: Final = re.compile(r"""(?<!<)<\s{0,20}(?!/dev/(?:zero|u?random|null)\b)["'\w$./~{]""", re.ASCII)
# A loop, a program that goes through many files, or names with a wildcard.
_MANY: Final = re.compile(
    r"\b(?:for|while|until|xargs|find|parallel|seq)\b|[*?{]|\$\(|\bsh\s|\.sh\b", re.ASCII
)
_WRITER: Final = re.compile(r"\b(?:touch|tee|truncate|fallocate)\s", re.ASCII)
_READER: Final = re.compile(r"\b(?:cat|head|tail|wc|md5sum|sha\d{1,3}sum|cksum|grep)\s", re.ASCII)
_DD_OUTPUT: Final = re.compile(r"\bof=(?!/dev/null\b)\S", re.ASCII)
_DD_INPUT: Final = re.compile(r"\bif=(?!/dev/(?:zero|u?random)\b)\S", re.ASCII)
_DD: Final = re.compile(r"(?:^|[\s/(;&|])dd\s", re.ASCII)
_FIO: Final = re.compile(r"(?:^|[\s/(;&|])fio\s", re.ASCII)

_BRACES: Final = re.compile(r"\{(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?\}", re.ASCII)
_SEQ: Final = re.compile(
    r"\bseq\s{1,20}(?:-w\s{1,20})?(-?\d{1,9})(?:\s{1,20}(-?\d{1,9}))?(?:\s{1,20}(-?\d{1,9}))?", re.ASCII
)
_COUNTED: Final = re.compile(
    r"\(\(\s{0,9}(\w{1,40})\s{0,9}=\s{0,9}(\d{1,9})\s{0,9};\s{0,9}\1\s{0,9}(<=?)\s{0,9}(\d{1,9})\s{0,9};"
    r"\s{0,9}(?:\1\+\+|\+\+\1)\s{0,9}\)\)",
    re.ASCII,
)


def find_command(line: str) -> str:
    """Return the command after `time` in a line of a terminal; empty if nothing is timed."""
    match = _TIME.search(line)
    return line[match.end() :].strip() if match else ""


def is_unfinished(command: str) -> bool:
    """Return whether a command continues in the next line: an unfinished loop, or a backslash."""
    return command.endswith("\\") or bool(_LOOP.search(command) and not _DONE.search(command))


def is_fio(command: str) -> bool:
    """Return whether fio itself was timed, which reports more than its time."""
    return _FIO.search(command) is not None


def is_dd(command: str) -> bool:
    """Return whether dd was timed, which reads and writes one file."""
    return _DD.search(command) is not None


def find_kind(command: str) -> Kind | None:
    """Return whether a command writes or reads many files; None if neither, for one file, or for fio.

    What goes into a file is written, even if it was read from another.
    """
    if is_fio(command) or not _MANY.search(command):
        return None
    if _DD_OUTPUT.search(command) or _INTO_FILE.search(command) or _WRITER.search(command):
        return "write"
    if _DD_INPUT.search(command) or _FROM_FILE.search(command) or _READER.search(command):
        return "read"
    return None


def count_files(command: str) -> int | None:
    """Return the number of files of a loop, both ends included: {0..1000} is 1001. None if it is not visible."""
    braces = _BRACES.search(command)
    if braces:
        first, last, step = braces.groups()
        return _count(int(first), int(last), int(step or 1))
    sequence = _SEQ.search(command)
    if sequence:
        numbers = [int(number) for number in sequence.groups() if number]
        first_number = numbers[0] if len(numbers) > 1 else 1
        return _count(first_number, numbers[-1], numbers[1] if len(numbers) > 2 else 1)
    counted = _COUNTED.search(command)
    if counted:
        _, first, comparison, last = counted.groups()
        return max(int(last) - int(first) + (comparison == "<="), 0)
    return None


def _count(first: int, last: int, step: int) -> int:
    return abs(last - first) // (abs(step) or 1) + 1


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
