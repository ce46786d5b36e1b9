"""fio's normal text output, 2.0 to today: find the reports in a text, line by line."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchapp.fio.json.documents import DOCUMENTS_MAXIMUM, check_job_count
from benchapp.fio.merging.jobs import measure_growth_ms
from benchapp.fio.numbers import Version, parse_version
from benchapp.fio.report import Notes, Reading, UnreadableOutput
from benchapp.fio.text_report.direction import count_issued, read_issued
from benchapp.fio.text_report.draft import (
    DirectionDraft,
    Header,
    JobDraft,
    Lines,
    ReportDraft,
    read_greeting,
    read_header,
    read_job_line,
    read_starting_line,
    read_version_line,
)
from benchapp.fio.text_report.figures import MODERN, OLD_BYTES, OLD_COUNTS, read_figure
from benchapp.fio.text_report.report import build_document
from benchapp.fio.workload import AGGREGATE

# 11.9 MiB may print as 11.0 before 3.26; decimals before 2.20 are junk.
_BYTES_WITHIN: Final = 0.1
# fio 3.19 counts to the moment of printing until a job that ended is reaped: 152 ms too much were seen.
_REAPED_WITHIN_MS: Final = 250
# As in terse: more than clones of one device differ, and less than two executions that are worth comparing.
_SHARES_WITHIN: Final = 1.5


class _Progress(Struct, frozen=True):
    """Progress of a direction: rounded bytes, printed run time in ms, I/Os issued if printed."""

    io_bytes: float
    runtime_ms: int
    total_ios: int | None


def has_gone_on(earlier: ReportDraft, later: ReportDraft) -> bool:
    """Return whether the jobs in both reports did more I/O in more time, or all have equal values."""
    version = parse_version(earlier.fio_version)
    jobs = {job.identity: job for job in earlier.jobs}
    return all(
        _has_job_gone_on(jobs[job.identity], job, version) for job in later.jobs if job.identity in jobs
    )


def _has_job_gone_on(before: JobDraft, after: JobDraft, version: Version) -> bool:
    issued = [read_issued(job.lines.get("issued", "")).total for job in (before, after)]
    if any(old > new for old, new in zip(*issued, strict=False)):
        return False
    directions = {direction.label: direction for direction in before.directions}
    pairs = [(directions[new.label], new) for new in after.directions if new.label in directions]
    return all(
        _has_direction_gone_on((old, _measure(old, issued[0])), (new, _measure(new, issued[1])), version)
        for old, new in pairs
    )


def _measure(direction: DirectionDraft, issued: tuple[int, ...]) -> _Progress | None:
    summary = direction.figures
    figure = read_figure(summary.io, MODERN if summary.is_modern else OLD_BYTES) if summary else None
    if summary is None or figure is None:
        return None
    return _Progress(figure.value, summary.runtime_ms, count_issued(issued, direction.label))


def _has_direction_gone_on(
    before: tuple[DirectionDraft, _Progress | None],
    after: tuple[DirectionDraft, _Progress | None],
    version: Version,
) -> bool:
    (old_lines, old), (new_lines, new) = before, after
    if old is None or new is None:
        return True
    growth_ms = measure_growth_ms((old.io_bytes, old.runtime_ms), (new.io_bytes, new.runtime_ms), version)
    counts = (old.total_ios, new.total_ios)
    if old.io_bytes == new.io_bytes and (None in counts or counts[0] == counts[1]):
        # It has ended; another execution with the same number of bytes has other latencies.
        return -_REAPED_WITHIN_MS <= growth_ms <= 0 and old_lines.latencies == new_lines.latencies
    has_grown = growth_ms > 0 and new.io_bytes >= old.io_bytes * (1 - _BYTES_WITHIN)
    # The counts of all directions have been compared; a job whose lines are not all there may have none.
    return has_grown and (None in counts or counts[0] != counts[1])


def split_runs(report: ReportDraft) -> list[ReportDraft]:
    """Return the executions that a report is: of jobs without headers and end, only equal rates make clones."""
    if report.headers or report.has_end or report.is_client:
        return [report]
    runs: list[ReportDraft] = []
    last_of: dict[tuple[str, int], JobDraft] = {}
    for job in report.jobs:
        key = job.name, job.groupid
        if not runs or (key in last_of and not _may_be_clone(last_of[key], job)):
            continues = job.identity in runs[-1].identities if runs else report.continues
            runs.append(replace(report, jobs=[], identities={}, continues=continues))
            last_of = {}
        runs[-1].jobs.append(job)
        runs[-1].identities[job.identity] = job.printed_at
        last_of[key] = job
    return runs


def _may_be_clone(one: JobDraft, other: JobDraft) -> bool:
    if one.pid == other.pid and one.pid.isdigit():
        return one == other
    rates = {direction.label: _read_iops(direction) for direction in one.directions}
    return all(
        max(pair) <= min(pair) * _SHARES_WITHIN
        for direction in other.directions
        if direction.label in rates
        for pair in [(rates[direction.label], _read_iops(direction))]
    )


def _read_iops(direction: DirectionDraft) -> float:
    summary = direction.figures
    figure = read_figure(summary.iops, MODERN if summary.is_modern else OLD_COUNTS) if summary else None
    return figure.value if figure else 0


def keep_last_snapshots(reports: Iterable[ReportDraft], notes: Notes) -> Iterator[tuple[int, ReportDraft]]:
    """Yield the last complete report of each execution, with its place in the text; only one is in memory.

    Raises UnreadableOutput where there are too many reports, or jobs in one.
    """
    kept: tuple[int, ReportDraft] | None = None
    dropped: list[int] = []
    for number, report in enumerate(reports):
        if kept is not None and report.continues:
            _check_continuation(kept[1], report)
        check_job_count(len(report.jobs))
        if number >= DOCUMENTS_MAXIMUM:
            raise UnreadableOutput(
                "too-many-reports",
                f"the text contains more than {DOCUMENTS_MAXIMUM} reports of fio, the maximum",
            )
        if kept is not None and not report.continues:
            yield kept
        elif kept is not None and kept[1].is_whole and not report.is_whole:
            dropped.append(number)
            continue
        elif kept is not None:
            dropped.append(kept[0])
        kept = number, report
    if kept is not None:
        yield kept
    notes.add_snapshots(dropped)


def _check_continuation(earlier: ReportDraft, later: ReportDraft) -> None:
    """Remove the properties inherited from the report before if this is another execution with the same process id."""
    later.continues = has_gone_on(earlier, later)
    if later.continues:
        later.headers, later.repeated, later.started = earlier.headers, earlier.repeated, earlier.started
        later.fio_version = earlier.fio_version
    else:
        later.headers, later.repeated, later.started, later.fio_version = [], set(), None, ""


_JOB_MARK: Final = "(groupid="
_HEADER_MARK: Final = "): rw="
_LABELS: Final = {
    word: label
    for label in ("read", "write", "trim", "mixed")
    for word in (label, f"{label}:", f"{label.capitalize()}:", f"{label.upper()}:")
}
_COUNTED: Final = ("IO", "submit", "complete", "issued")
_ONCE: Final = (*_COUNTED, "cpu", "latency", "steadystate", "Description", "errors", "states")
_LATENCIES: Final = ("slat", "clat", "lat", "sync")
_SAMPLES: Final = ("bw", "iops")
# Distributions of one priority before 3.30, and of the blocks that a flash device lost.
_IGNORED: Final = ("high", "low", "block")
_GROUP_LABELS: Final = frozenset(("READ:", "WRITE:", "TRIM:", "MIXED:", "SYNC:"))
_HOST_PREFIX: Final = re.compile(r"[ \t]*+<([^>\n]{1,255})>(?: |$)(.*)", re.DOTALL)
# In the order in which fio prints them.
_RANKS: Final = {"slat": 0, "clat": 1, "lat": 2, "sync": 3, "bw": 5, "iops": 6}
_RANK_OF_TABLES: Final = 4
_GREETED: Final = re.compile(r"^[ \t]*+(?:<[^>\n]{1,255}> )?hostname=[^,\n]{0,255}, be=", re.MULTILINE)
_TAGGED: Final = re.compile(
    r"^[ \t]*+<([^>\n]{1,255})> ++(?:read|write|trim|IO depths|[cs]?lat|cpu) ", re.MULTILINE
)
_STATUS: Final = "Jobs: "
_ANNOUNCED: Final = re.compile(r"<([^<>\n]{1,255})>[ \t\r\n]*+\Z")
_PRINTED_WITHIN_S: Final = 2
_LAYING_OUT: Final = ": Laying out IO file"


def read_normal(text: str, notes: Notes) -> Reading:
    """Return the reports that fio printed as text, and the lines outside of them.

    One pass over the lines; a text without a report costs one search. Snapshots of one execution are dropped but
    for the last whole one. Raises UnreadableOutput where there are too many reports, or jobs in one.
    """
    if _JOB_MARK not in text:
        return Reading((), text)
    lines = Lines(text)
    scan = _Scan(text, lines)
    found = []
    for number, draft in keep_last_snapshots(scan.find_reports(), notes):
        document = build_document(draft, where=f"document {number}", notes=notes)
        if document is not None:
            found.append(document)
    return Reading(tuple(found), "".join(map(lines.read, sorted(scan.foreign))))


class _Scan:
    """Sorts lines into reports; foreign: numbers of the lines outside of reports."""

    def __init__(self, text: str, lines: Lines) -> None:
        self._lines = lines
        self.foreign: list[int] = []
        self._closed: list[ReportDraft] = []
        self._report: ReportDraft | None = None
        self._job: JobDraft | None = None
        self._direction: DirectionDraft | None = None
        self._rank = -1
        self._rows: list[str] | None = None
        self._hostname: str | None = None
        self._server: str | None = None
        # fio's client names a host where it greeted it, or at every line of its jobs; any other tag is a log's.
        self._is_client = AGGREGATE in text or ("hostname=" in text and bool(_GREETED.search(text)))
        self._tags = frozenset(_TAGGED.findall(text)) if "<" in text else frozenset()
        self._is_tagged = False
        # Servers whose results follow, and how many of these results were read without telling whose they are.
        self._announced: list[str] = []
        self._untold = 0
        self._number = 0
        self._broken = ""

    def find_reports(self) -> Iterator[ReportDraft]:
        """Sort all lines, and give each report as soon as another one begins."""
        for number, line in enumerate(self._lines):
            words = line.split(None, 1)
            if not words or (number == self._lines.open_end and self._is_cut(words[0])):
                continue
            if words[0] == "|" and self._rows is not None:
                self._rows.append(line)
                continue
            # Nearly every line is part of a job: try this before the tests of _read_line.
            if line[0] == " " and "(g" not in line and self._read_job_line(words):
                continue
            self._number = number
            if not self._read_line(line, words):
                self.foreign.append(number)
            if self._closed:
                yield from self._closed
                self._closed.clear()
        self._close()
        yield from self._closed

    def _is_cut(self, word: str) -> bool:
        """Return whether a text without a final line end may end within a number of a job."""
        if self._job is None or self._job.is_whole:
            return False
        return word in _LATENCIES or word in _SAMPLES or (word in _ONCE and word != "issued")

    def _read_line(self, line: str, words: list[str]) -> bool:
        """Return whether the line belongs to a report of fio."""
        self._is_tagged = False
        if words[0][0] == "<" and (match := _HOST_PREFIX.match(line)):
            tag, line = match.groups()
            self._hostname = tag if self._is_client or tag in self._tags else None
            words = line.split(None, 1)
            self._is_tagged = bool(words)
            if not words:
                self._announced.append(tag)
                return self._report is not None
            if words[0] == "|" and self._rows is not None:
                self._rows.append(line)
                return True
        if "(g" in line and (_JOB_MARK in line or _HEADER_MARK in line):
            return self._begin(line)
        if words[0] == "Jobs:" and line.lstrip().startswith(_STATUS):
            if announced := _ANNOUNCED.search(line):
                self._announced.append(announced[1])
            return True
        return self._read_job_line(words) or self._read_around(line, words)

    def _preamble(self) -> ReportDraft:
        """Return the report whose jobs follow, and add this line to it."""
        report = self._report
        if report is None or report.jobs:
            self._close()
            report = self._report = ReportDraft()
        report.line_numbers.append(self._number)
        return report

    def _close(self) -> None:
        report, self._report = self._report, None
        self._job = self._direction = self._rows = None
        if report is None:
            return
        if report.jobs:
            self._closed.extend(split_runs(report))
        else:
            self.foreign.extend(report.line_numbers)

    def _begin(self, line: str) -> bool:
        """Begin a job or add a header; a status line without a line end may be before it."""
        line = line.strip()
        if line.startswith(_STATUS):
            line = line[line.rfind("]", 0, line.find("(g")) + 1 :].strip()
        job = read_job_line(line, self._hostname)
        if job is not None:
            self._begin_job(job)
            return True
        header = read_header(line, self._hostname)
        if header is None:
            # A terminal may have broken it.
            self._broken = line
            return False
        return self._begin_header(header)

    def _begin_header(self, header: Header) -> bool:
        report = self._report
        if report is not None and not report.jobs and _is_started(report):
            # Headers come first: the execution before printed no jobs.
            self._close()
        self._preamble().headers.append(header)
        self._broken = ""
        return True

    def _begin_job(self, job: JobDraft) -> None:
        report = self._report
        if job.name == AGGREGATE:
            job.hostname = None
        elif self._is_client:
            self._name_server(job, report)
        if report is None:
            report = self._report = ReportDraft()
        elif _is_of_other_report(report, job):
            report = self._repeat(report, job)
        if job.server:
            job.server = report.servers = report.servers + (report.has_end or not report.jobs)
        report.jobs.append(job)
        report.identities[job.identity] = job.printed_at
        report.has_end = report.has_end and job.name == AGGREGATE
        self._job, self._direction, self._rows = job, None, None

    def _name_server(self, job: JobDraft, report: ReportDraft | None) -> None:
        """Name the server of a job: all that it may be, where the lines of several servers are mixed.

        A server announces its results by an empty line, after which fio's client prints them without its name.
        """
        job.server = 1
        if self._is_tagged:
            return
        is_first = report is None or report.has_end or not report.jobs
        job.hostname = self._server
        if is_first or (self._announced and not self._untold):
            headers = report.headers if report else []
            asked = {each.hostname for each in headers if each.hostname and each.name == job.name}
            # Between jobs of one server, another may begin to answer.
            possible = {*self._announced, *([self._server] if self._server and not is_first else [])}
            hosts = asked & possible or possible
            if not is_first:
                job.hostname = ", ".join(sorted(hosts)) or None
                return
            if len(hosts) == 1:
                self._server = hosts.pop()
                self._announced.remove(self._server)
            elif hosts:
                self._server = ", ".join(sorted(hosts))
                self._untold += 1
            else:
                self._server = self._hostname
            if self._untold >= len(self._announced):
                self._announced.clear()
                self._untold = 0
        job.hostname = self._server

    def _repeat(self, earlier: ReportDraft, job: JobDraft) -> ReportDraft:
        """Begin a report that no header announces: a snapshot, or an execution whose beginning was cut off."""
        self._close()
        report = self._report = ReportDraft()
        if job.identity in earlier.identities:
            report.continues = True
            report.headers, report.repeated = earlier.headers, earlier.repeated
            report.fio_version, report.started = earlier.fio_version, earlier.started
            report.clients = earlier.clients
        return report

    def _read_job_line(self, words: list[str]) -> bool:
        """Add a line of a job's block by its first word."""
        keep = _KEEPERS.get(words[0])
        if keep is None or self._job is None or len(words) != 2:
            return False
        return keep(self, self._job, words[0], words[1])

    def _keep_direction(self, job: JobDraft, word: str, rest: str) -> bool:
        rest = rest.lstrip(": ")
        if not rest.startswith(("IOPS=", "io=")):
            if "IOPS=" not in rest and "runt=" not in rest:
                return False
            # The lines after one that cannot be read do not belong to the direction before it.
            rest = ""
        self._begin_direction(job, _LABELS[word], rest)
        return True

    def _begin_direction(self, job: JobDraft, label: str, summary: str) -> DirectionDraft:
        direction = self._direction = DirectionDraft(label, summary)
        job.directions.append(direction)
        self._rank, self._rows = -1, None
        return direction

    def _find_direction(self, job: JobDraft, direction: DirectionDraft, rank: int) -> DirectionDraft:
        """Return the direction of a line: a new one if it does not follow those that were read."""
        if rank <= self._rank:
            direction = self._begin_direction(job, "", "")
        self._rank = rank
        return direction

    def _keep_once(self, job: JobDraft, word: str, rest: str) -> bool:
        if ":" not in rest:
            return False
        job.lines.setdefault(word, rest)
        self._rows = None
        return True

    def _keep_samples(self, job: JobDraft, word: str, rest: str) -> bool:
        if "min=" not in rest or self._direction is None:
            return False
        self._find_direction(job, self._direction, _RANKS[word]).samples[word] = rest
        self._rows = None
        return True

    def _ignore_table(self, job: JobDraft, word: str, rest: str) -> bool:
        if "prio" not in rest and "percentiles" not in rest:
            return False
        self._rows = []
        return True

    def _keep_latency(self, job: JobDraft, word: str, rest: str) -> bool:
        """Add a distribution, the head of its table, or shares of latencies, which have the same first word."""
        direction = self._direction
        if rest[0] == "(" and "min=" not in rest:
            job.shares.append(rest)
            self._rows = None
        elif direction is None:
            return False
        elif rest[0] == "(":
            self._find_direction(job, direction, _RANKS[word]).latencies[word] = rest
            self._rows = None
        elif rest.startswith("percentiles"):
            if self._rank > _RANK_OF_TABLES or word in direction.percentiles:
                direction = self._begin_direction(job, "", "")
            self._rank = _RANK_OF_TABLES
            self._rows = direction.percentiles[word] = [rest]
        else:
            # Of one priority only, not of all I/Os.
            self._rows = []
            return "prio" in rest
        return True

    def _read_around(self, line: str, words: list[str]) -> bool:
        """Add a line before or after the jobs of a report."""
        word, report = words[0], self._report
        if self._job is not None and word.startswith("fsync/"):
            self._begin_direction(self._job, "sync", "")
            return True
        if report is not None and report.jobs and word in ("Run", "Disk"):
            if not line.lstrip().startswith(("Run status group ", "Disk stats ")):
                return False
            report.has_end = True
            report.totals.append(line)
            self._job = self._direction = self._rows = None
            return True
        if report is not None and report.has_end:
            if word in _GROUP_LABELS:
                report.totals.append(line)
                return True
            if ": ios=" in line:
                report.disks.append(line)
                return True
        return self._read_preamble(line, word)

    def _read_preamble(self, line: str, word: str) -> bool:
        if self._broken:
            # Hard, or between words.
            for blank in ("", " "):
                if header := read_header(f"{self._broken}{blank}{line.rstrip()}", self._hostname):
                    return self._begin_header(header)
        self._broken = ""
        if word.startswith("hostname=") and (greeting := read_greeting(line.lstrip())):
            announced = self._preamble()
            announced.fio_version = greeting.fio_version
            announced.clients += 1
            return True
        if word.startswith("fio") and (fio_version := read_version_line(line)):
            self._preamble().fio_version = fio_version
            return True
        report = self._report
        if report is None or report.jobs:
            return False
        if word == "..." and report.headers:
            report.repeated.add(len(report.headers) - 1)
        elif word == "Starting" and (started := read_starting_line(line)):
            report.started = started
        elif word[0].isdigit() and (fio_version := read_version_line(line)):
            report.fio_version = fio_version
        elif _LAYING_OUT not in line:
            return False
        report.line_numbers.append(self._number)
        return True


_Keeper = Callable[[_Scan, JobDraft, str, str], bool]
_KEEPERS: Final[Mapping[str, _Keeper]] = {
    **dict.fromkeys(_LATENCIES, _Scan._keep_latency),
    **dict.fromkeys(_LABELS, _Scan._keep_direction),
    **dict.fromkeys(_ONCE, _Scan._keep_once),
    **dict.fromkeys(_SAMPLES, _Scan._keep_samples),
    **dict.fromkeys(_IGNORED, _Scan._ignore_table),
}


def _is_started(report: ReportDraft) -> bool:
    """Return whether the version or "Starting" was printed; a server greets its client at once."""
    return not report.is_client and bool(report.fio_version or report.started is not None)


def _is_of_other_report(report: ReportDraft, job: JobDraft) -> bool:
    """Return whether a job was printed by another execution, or again; fio prints all jobs of a report at once."""
    if report.servers < report.clients and report.jobs and report.jobs[-1].name != AGGREGATE:
        # Containers on two hosts may have one process id.
        return False
    if report.is_client or job.hostname is not None or job.name == AGGREGATE:
        return report.has_end and job.identity in report.identities
    if report.has_end or not report.jobs:
        return report.has_end
    earlier = report.jobs[-1].printed_at
    if earlier and job.printed_at and abs((job.printed_at - earlier).total_seconds()) > _PRINTED_WITHIN_S:
        return True
    return report.identities.get(job.identity, job.printed_at) != job.printed_at
