"""The lines of one report, sorted by kind and not yet parsed: most lines of snapshots are never needed."""

import re
from datetime import datetime
from functools import lru_cache
from typing import Final

from msgspec import Struct, field

from benchapp.fio.text_report.header import Header, strip_noise
from benchapp.fio.text_report.rates import RateSummary, read_summary

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

    pid: as printed; printed_at: by the clock of the host, without a zone.
    """

    name: str
    groupid: int
    clones: int
    error: int
    complaint: str
    pid: str
    printed_at: datetime | None
    hostname: str | None
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
    continues: whether it is another snapshot of the execution of the report before it.
    """

    line_numbers: list[int] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    repeated: set[int] = field(default_factory=set)
    fio_version: str = ""
    started: int | None = None
    is_client: bool = False
    jobs: list[JobDraft] = field(default_factory=list)
    identities: dict[Identity, datetime | None] = field(default_factory=dict)
    totals: list[str] = field(default_factory=list)
    disks: list[str] = field(default_factory=list)
    has_end: bool = False
    continues: bool = False

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
