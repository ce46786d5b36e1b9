"""The lines of one report, sorted by kind and not yet parsed: most lines of snapshots are never needed."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from benchapp.fio.text_report.figures import MODERN, OLD_BYTES, Figure, RateSummary, read_figure, read_summary

# rw=…, bs=…, ioengine=…, iodepth=…; bs itself has commas and blanks.
_HEADER: Final = re.compile(
    r"(.{1,500}?): \(g=(\d{1,10})\): rw=([^,]{1,40}), (?:odir=[^,]{0,10}, )?bs=([^=]{1,200}), "
    r"(?:ioengine=([^,]{1,60}), )?iodepth=(\d{1,10})",
    re.ASCII,
)
# "[n1] job": a section of a job file cannot have such a name.
_TAG: Final = re.compile(r"(?:\[[^\]]{0,100}\]|\{[^}]{0,100}\}|<[^>]{0,100}>) ++(?=\S)")
# A terminal shows the command before the first line.
_COMMAND: Final = re.compile(r"(?:^|[\s/$#%>])fio (?:.* )?(?:-{1,2}\w|\S+\.(?:fio|ini|job)\b)")
_VERSION: Final = re.compile(r"(?:fio[- ])?\d{1,4}\.\d{1,4}[\w.+-]{0,60}", re.ASCII)
_STARTING: Final = re.compile(r"Starting (\d{1,10}) (?:process|thread)(?:es|s)?(?: and (\d{1,10}) process)?")
_GREETING: Final = re.compile(r"hostname=([^,]{0,255}), be=\d.{0,200}? fio=([^,\s]{1,100})", re.ASCII)
_RANGE: Final = re.compile(r"(?:\([RWT]\) )?([\d.]{1,20}[KMGTPEik]{0,2}B?)-([\d.]{1,20}[KMGTPEik]{0,2}B?)")
_RANGES: Final = re.compile(r"[,/] ?")

# Of reads, writes and trims, bytes; None where it is a range, or printed with fewer digits than it has.
BlockSizes = tuple[int | None, int | None, int | None]


class Header(Struct, frozen=True, gc=False):
    """The header line of one job, or of several clones ("..." follows).

    options: rw, bs or bsrange in plain bytes, ioengine, iodepth; as fio names them. Shared between headers.
    """

    name: str
    groupid: int
    hostname: str | None
    options: Mapping[str, str]
    block_sizes: BlockSizes


class Greeting(Struct, frozen=True, gc=False):
    """The greeting of a server to its client."""

    hostname: str
    fio_version: str


def read_header(line: str, hostname: str | None) -> Header | None:
    """Read "job: (g=0): rw=randrw, bs=4K-4K/4K-4K, ioengine=libaio, iodepth=4"; None for anything else."""
    match = _HEADER.match(line)
    if match is None:
        return None
    name, groupid, *asked = match.groups()
    options, block_sizes = _read_asked(*asked)
    return Header(strip_noise(name), int(groupid), hostname, options, block_sizes)


def strip_noise(name: str) -> str:
    """Return the name of a job without what precedes it on the line: a tag, or the command that a terminal shows."""
    name = _TAG.sub("", name)
    before, _, last = name.rpartition(" ")
    return last if before and _COMMAND.search(before) else name


# Executions of one series have the same header: 20 µs each without the cache.
@lru_cache(maxsize=256)
def _read_asked(
    rw: str, sizes: str, engine: str | None, iodepth: str
) -> tuple[Mapping[str, str], BlockSizes]:
    ranges = _read_ranges(sizes)
    options = {"rw": rw, **_name_block_size(ranges)}
    if engine:
        options["ioengine"] = engine
    options["iodepth"] = iodepth
    sizes_known = [_know_size(low, high) for low, high in ranges] or [None]
    filled = (*sizes_known, *[sizes_known[-1]] * 3)
    return options, (filled[0], filled[1], filled[2])


def _read_ranges(text: str) -> list[tuple[Figure, Figure]]:
    """Read "(R) 4096B-4096B, (W) 64.0KiB-64.0KiB" or "4K-4K/64K-64K"; empty if a part is not a range."""
    prefixes = MODERN if "B" in text else OLD_BYTES
    ranges = []
    for part in _RANGES.split(text)[:3]:
        match = _RANGE.fullmatch(part.strip())
        low, high = (read_figure(end, prefixes) for end in match.groups()) if match else (None, None)
        if low is None or high is None:
            return []
        ranges.append((low, high))
    return ranges


def _name_block_size(ranges: list[tuple[Figure, Figure]]) -> dict[str, str]:
    if not ranges:
        return {}
    ends = [(str(int(low.value)), str(int(high.value))) for low, high in ranges]
    if all(low == high for low, high in ends):
        name, values = "bs", [low for low, _ in ends]
    else:
        name, values = "bsrange", ["-".join(pair) for pair in ends]
    return {name: values[0] if len(set(values)) == 1 else ",".join(values)}


def _know_size(low: Figure, high: Figure) -> int | None:
    """Return the one size of a range; 64.0KiB counts as whole, 63.5KiB has lost digits."""
    if low.value != high.value or not low.is_round:
        return None
    return int(low.value)


def read_version_line(line: str) -> str | None:
    """Return "fio-3.28" or, before 2.0.10, "fio 2.0" or "2.0.8", if the line is that and nothing else."""
    line = line.strip()
    return line if _VERSION.fullmatch(line) else None


def read_starting_line(line: str) -> int | None:
    """Return how many jobs fio starts."""
    match = _STARTING.match(line.strip())
    return None if match is None else int(match[1]) + int(match[2] or 0)


def read_greeting(line: str) -> Greeting | None:
    """Read the line with which a server answers a client; None for anything else."""
    match = _GREETING.match(line)
    return None if match is None else Greeting(match[1], match[2])


# "randrw: (groupid=0, jobs=1): err= 0: pid=123: Sat Nov 21 …", with "err=28 (file:…, error=…): pid=…" after errors.
_JOB: Final = re.compile(
    r"(.{0,500}?): \(groupid=(\d{1,10}|[^,\s]{1,20}), jobs=(\d{1,10})\): err= *+(-?\d{1,10})"
    r"(?: \((.{0,1000}?)\))?: pid=(-?\d{1,10}|[^:\s]{1,20})"
    r"(?:: \w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4}))?",
    re.ASCII,
)

# What may close a string around a line, or a row of a table.
_QUOTES: Final = " \t\r\n\"'|\u2502\\"

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Identity = tuple[str | None, str, str, int]


class DirectionDraft(Struct, gc=False):
    """Lines of one direction: label ("read", …, "sync"), what follows it, and what is listed under it.

    A label is empty if its line is missing.

    latencies: by slat, clat, lat, sync, from the unit on; percentiles: the same, head and rows of the table;
    samples: by bw, iops.
    """

    label: str
    summary: str
    latencies: dict[str, str] = field(default_factory=dict)
    percentiles: dict[str, list[str]] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    _figures: RateSummary | None = None

    @property
    def figures(self) -> RateSummary | None:
        """The figures of the summary; None if it cannot be read."""
        figures = self._figures
        if figures is None and self.summary:
            figures = self._figures = read_summary(self.summary)
        return figures


class JobDraft(Struct, gc=False):
    """Lines of one job: those that occur once by their first word ("cpu", "issued"), and the directions.

    pid: as printed; printed_at: by the clock of the host, without a zone. server: of fio's client, from 1, in the order
    of results.
    """

    name: str
    groupid: int
    clones: int
    error: int
    complaint: str
    pid: str
    printed_at: datetime | None
    hostname: str | None
    server: int = 0
    directions: list[DirectionDraft] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)
    shares: list[str] = field(default_factory=list)

    @property
    def identity(self) -> Identity:
        """What distinguishes a job from others of one execution."""
        return self.hostname, self.pid, self.name, self.groupid

    @property
    def is_whole(self) -> bool:
        """Whether it was printed to its count of I/Os, which comes near the end."""
        issued = self.lines.get("issued", "").rstrip(_QUOTES)
        # Before 2.1.14 nothing is dropped, and what is short comes last.
        return "short=" in issued and issued[-1].isdigit()

    @property
    def is_complete(self) -> bool:
        """Whether it is whole, and each direction is there once, with the line that it begins with."""
        return (
            self.is_whole
            and len({direction.label for direction in self.directions}) == len(self.directions)
            and all(
                direction.label == "sync" or direction.figures is not None for direction in self.directions
            )
        )

    @property
    def is_readable(self) -> bool:
        """Whether it has results: it is whole, or a direction has its IOPS, bandwidth, bytes and run time."""
        return self.is_whole or any(direction.figures is not None for direction in self.directions)


class ReportDraft(Struct, gc=False):
    """Lines of one report. line_numbers: of the lines before its first job.

    has_end: whether the status of the groups follows, so that all jobs were printed; totals: its lines.
    continues: whether it is another snapshot of the execution of the report before it. clients: servers that greeted
    fio's client; servers: those whose results were read.
    """

    line_numbers: list[int] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    repeated: set[int] = field(default_factory=set)
    fio_version: str = ""
    started: int | None = None
    clients: int = 0
    servers: int = 0
    jobs: list[JobDraft] = field(default_factory=list)
    identities: dict[Identity, datetime | None] = field(default_factory=dict)
    totals: list[str] = field(default_factory=list)
    disks: list[str] = field(default_factory=list)
    has_end: bool = False
    continues: bool = False

    @property
    def is_client(self) -> bool:
        """Whether a server greeted fio's client."""
        return self.clients > 0

    @property
    def is_whole(self) -> bool:
        """Whether fio printed all jobs, and each to its end."""
        return self.has_end and all(job.is_whole for job in self.jobs)


def read_job_line(line: str, hostname: str | None) -> JobDraft | None:
    """Return the draft of a job from its first line; None for any other line."""
    match = _JOB.match(line)
    if match is None:
        return None
    name, groupid, clones, error, complaint, pid, *moment = match.groups(default="")
    return JobDraft(
        strip_noise(name),
        int(groupid) if groupid.isdigit() else 0,
        max(int(clones), 1),
        int(error),
        complaint,
        pid=pid,
        printed_at=_read_moment(tuple(moment)),
        hostname=hostname,
    )


# All jobs of a report are printed in the same second or two.
@lru_cache(maxsize=256)
def _read_moment(parts: tuple[str, ...]) -> datetime | None:
    month, day, hour, minute, second, year = parts
    try:
        return datetime(int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
    except ValueError:
        return None


# Of Markdown, Jira, BBCode and HTML: no line of fio's has them, but for what people wrote into a description, "<b> "
# of a host, and "[a=b]" of a status line.
_TAGS: Final = "(?:b|strong|i|em|u|mark|code|span|font|color|pre|tt|br)"
_BLOCKS: Final = "(?:p|div|li|tr|td)"
_EMPHASIS: Final = re.compile(
    rf"\*+|`+|~~|</{_TAGS}>|<{_TAGS}(?: [^<>\n]{{0,200}})?/?>(?! )|\[/?{_TAGS}(?:=[^\[\]\n]{{0,60}})?\]"
    rf"|</?{_BLOCKS}(?: [^<>\n]{{0,200}})?>|^[ \t]*[-=]+> ?"
    r"|\{(?:code|noformat|color|quote)(?::[^{}\n]{0,60})?\}|(?<![^\W_])_+(?=\w)|(?<=[\w%/)])_+(?![^\W_])",
    re.IGNORECASE,
)
# By their first character, as a search for one character costs far less.
_MARKS: Final = {
    "*": ("**", "*IOPS="),
    "`": ("`",),
    "~": ("~~",),
    "<": ("</", "<b", "<strong>", "<i>", "<em>", "<u>", "<mark>", "<code>", "<pre>", "<font", "<span"),
    "[": ("[b", "[i]", "[u]", "[code", "[color"),
    "{": ("{code", "{noformat", "{color", "{quote"),
    "_": ("_IOPS",),
    "->": ("->",),
    "=>": ("=>",),
}
# As of a run in a locale that writes 1,5.
# Each begins with letters, which are searched for much faster than digits.
_DECIMAL_COMMAS: Final = (re.compile(r"avg= *+\d++,\d"), re.compile(r"usr= *+\d++,\d"))
_COMMA: Final = re.compile(r"(?<=\d),(?=\d)")
_DASHES: Final = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))
_DESCRIPTION: Final = "Description"


class Lines:
    r"""The lines of a text, also those that a lone carriage return ends, with their ends.

    open_end: number of the line without an end with which the text ends, -1 where there is none.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._has_emphasis = any(
            mark in text for character, marks in _MARKS.items() if character in text for mark in marks
        )
        self._has_decimal_commas = any(pattern.search(text) for pattern in _DECIMAL_COMMAS)
        self._is_ascii = text.isascii()
        self.open_end = -1 if text.endswith(("\n", "\r")) else len(self._lines) - 1

    def __iter__(self) -> Iterator[str]:
        """Give each line, without emphasis, with a point before decimals and plain hyphens."""
        lines = iter(self._lines)
        if self._has_emphasis:
            lines = map(_remove_emphasis, lines)
        if self._has_decimal_commas:
            lines = map(_write_points, lines)
        return lines if self._is_ascii else map(_write_hyphens, lines)

    def read(self, number: int) -> str:
        """Return one line."""
        return self._lines[number]


def _remove_emphasis(line: str) -> str:
    return line if _DESCRIPTION in line else _EMPHASIS.sub("", line)


def _write_points(line: str) -> str:
    # Counts of I/Os are separated by commas.
    return line if "issued " in line or _DESCRIPTION in line else _COMMA.sub(".", line)


def _write_hyphens(line: str) -> str:
    return line if _DESCRIPTION in line else line.translate(_DASHES)
