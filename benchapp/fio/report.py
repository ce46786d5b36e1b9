"""The parsed content of one text: the same typed model for every format and version of fio.

Base units throughout: ns, bytes/s, operations/s, bytes, seconds. A value that fio did not report is None, and
`Direction.missing` has the reason. Nothing is guessed, and every value can be stored: without NUL, lone surrogates,
nan, infinity, and numbers of 2^63 or more.

Reasons in `Direction.missing`, by the name of the absent field (`latency` if both completion and total latency are
absent):
- not-measured: fio counted no samples (gtod_reduce, disable_lat, an engine without that phase)
- not-reported: not printed by this version or with these options (clat_percentiles=0)
- no-io: configured, but without I/O
- short-run: shorter than one sample of 500 ms
- zero-runtime: fio measured a runtime of 0 ms, so that its rates of 0 are invalid
- out-of-range: a negative number or 2^63 and more
- unreliable-version: fio 2.0.10 to 2.0.14 print stale samples
- per-job-samples: fio before 3.13 averages the samples of clones over jobs instead of adding them up
- clones: samples of separate entries have no common moments
- clones-without-bins: percentiles of several entries need the histograms that only json+ has
- clones-disagree: one clone measured it and another did not
- clones-missing: the text ends before the last clone, so that totals are unknown
- groups-without-bins: the same for several concurrent jobs, in `Document.totals`
- groups-without-counts: the I/O counts of the jobs, the weights of means, are unknown
- not-in-format: not part of this format (terse has no samples before v5, a timing only seconds)
- not-a-number: fio printed nan or inf for a value that it could not calculate
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct, field

from benchapp.catalog.metrics import cut_text

# "total" is ours: what read, write and trim did together, in `Document.totals` alone.
DirectionName = Literal["read", "write", "trim", "mixed", "sync", "total"]
# As fio prints them.
PRINTED_DIRECTIONS: Final[tuple[DirectionName, ...]] = ("read", "write", "trim", "mixed", "sync")
# Of percentiles, without --percentile_list.
USUAL_PERCENTS: Final = (
    *(1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0),
    *(99.0, 99.5, 99.9, 99.95, 99.99),
)
Format = Literal["json", "json+", "terse", "normal", "time"]


class Note(Struct, frozen=True, gc=False):
    """A warning with a stable code.

    where: a path such as "document 0, job 2 (randread), write", empty for the whole text; message: a sentence
    for the operator.
    """

    code: str
    where: str
    message: str


class Latency(Struct, frozen=True, gc=False):
    """One latency distribution, ns.

    count: number of samples, None if the version does not print it.
    percentiles: (per cent, ns), ascending by per cent; fio gives bucket midpoints (within 0.8 %).
    bins: bucket value in ns → samples, ascending by value, from json+ only.
    """

    minimum_ns: float | None
    maximum_ns: float | None
    mean_ns: float | None
    stddev_ns: float | None
    count: int | None
    percentiles: tuple[tuple[float, float], ...] = ()
    bins: Mapping[int, int] | None = None


class Samples(Struct, frozen=True, gc=False):
    """fio's own samples of bandwidth (bytes/s) or IOPS within the run, one every 500 ms by default."""

    minimum: float
    maximum: float
    mean: float
    stddev: float
    count: int | None


class Direction(Struct, frozen=True, gc=False):
    """The values of one direction of one job, or of a group of jobs that ran together.

    submission, completion, total: fio's slat, clat, lat; None if not measured.
    Directions without I/O are included only if they are configured. "sync" has only total_ios and total.
    elapsed_s: wall-clock time of work that is timed as a whole; only in the format "time", which has no other value.
    missing: name of an absent value → reason code, as listed at the top of this module.
    sources: name of a value → its name in the output and conversion ("bw_bytes", "io_bytes in KiB × 1024"); shared
      between directions, read-only.
    """

    name: DirectionName
    io_bytes: int | None
    total_ios: int | None
    iops: float | None
    bandwidth_bytes_per_s: float | None
    runtime_s: float | None
    submission: Latency | None = None
    completion: Latency | None = None
    total: Latency | None = None
    bandwidth_samples: Samples | None = None
    iops_samples: Samples | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    short_ios: int | None = None
    dropped_ios: int | None = None
    elapsed_s: float | None = None


class SteadyState(Struct, frozen=True, gc=False):
    """What fio's own steadystate found.

    criterion: as asked ("iops_slope:0.3%"); deviation: as reached ("2.54%"); iops, bandwidth_bytes_per_s: means
    over its window of duration_s.
    """

    criterion: str
    is_attained: bool
    duration_s: float | None = None
    deviation: str = ""
    iops: float | None = None
    bandwidth_bytes_per_s: float | None = None


class Job(Struct, frozen=True, gc=False):
    """One entry as fio printed it.

    index: its place in the document; clones: how many jobs fio summed into it (1 unless group_reporting).
    hostname: of the server in client mode, as `name_server` names it; "a, b" where a text does not tell
      whose results these are. server_number: from 1 where a text or terse has results of several servers under one
      hostname, in the order printed, which differs from run to run; else 0.
    options: effective options as typed, global ones overlaid by the job's own; empty where fio prints none,
      as before 2.3.
    is_aggregate: fio's own "All clients", the sum of the others: in no group.
    iodepth: in effect at the end (2.1.5 on); it differs from the option's under latency_target.
    depth, depth_submitted, depth_completed: iodepth level → per cent of I/Os; cpu_user_percent,
      cpu_system_percent as fio printed them: of one clone's run time, averaged over a group.
    latency_shares: (upper bound in ns, per cent of I/Os under it and above the bound before), ascending; the last
      bound is None, for all that took longer. Of all directions together.
    has_all_options: False if the format prints only some (a text's header) or none.
    may_hide_jobs: fio summed, or may have summed, other jobs into this entry; `clones` is the least number.
    """

    index: int
    name: str
    groupid: int
    hostname: str | None
    error: int
    clones: int
    options: Mapping[str, str]
    directions: tuple[Direction, ...]
    started_at: datetime | None = None
    description: str | None = None
    cpu_user_percent: float | None = None
    cpu_system_percent: float | None = None
    context_switches: int | None = None
    depth: Mapping[str, float] = field(default_factory=dict)
    iodepth: int | None = None
    is_aggregate: bool = False
    depth_submitted: Mapping[str, float] = field(default_factory=dict)
    depth_completed: Mapping[str, float] = field(default_factory=dict)
    latency_shares: tuple[tuple[int | None, float], ...] = ()
    major_faults: int | None = None
    minor_faults: int | None = None
    steady_state: SteadyState | None = None
    has_all_options: bool = True
    may_hide_jobs: bool = False
    server_number: int = 0


class Group(Struct, frozen=True, gc=False):
    """Concurrent clones of one job, merged: one measurement per direction.

    jobs: indices of the merged entries. A single entry is unchanged. Of several, I/O, IOPS and bandwidth are summed,
    the runtime is the longest, means are weighted by samples (else by I/Os, else by bytes, as in `sources`), standard
    deviations pooled; percentiles are calculated from merged bins, else withheld with a reason in `missing`.
    numjobs: as configured, or the number of jobs seen if larger; None if unknown, as fio may have summed other jobs, or
    clones are missing. iodepth: of its first job. hostname, server_number: as in Job.
    """

    name: str
    groupid: int
    hostname: str | None
    numjobs: int | None
    error: int
    options: Mapping[str, str]
    directions: tuple[Direction, ...]
    jobs: tuple[int, ...]
    iodepth: int | None = None
    has_all_options: bool = True
    server_number: int = 0


class Total(Struct, frozen=True, gc=False):
    """Total of all jobs of one fio group, which ran at the same time, on all servers.

    directions: as in Group, by the same rules; followed by "total" if there are several of read, write
    and trim. groups: indices into Document.groups.
    """

    groupid: int
    directions: tuple[Direction, ...]
    groups: tuple[int, ...]


class Disk(Struct, frozen=True, gc=False):
    """One line of disk_util: counts of I/Os, milliseconds busy as seconds, utilisation in per cent.

    is_member: a disk under the md or dm device that was listed before it.
    """

    name: str
    read_ios: int | None
    write_ios: int | None
    utilisation_percent: float | None
    read_merges: int | None = None
    write_merges: int | None = None
    read_busy_s: float | None = None
    write_busy_s: float | None = None
    queued_s: float | None = None
    is_member: bool = False


def make_disk(
    name: str, counts: Sequence[int | None], utilisation_percent: float | None, *, is_member: bool = False
) -> Disk:
    """Return a disk; counts: reads, writes, merges of both, ms of both and in the queue, as all formats list them."""
    read_ios, write_ios, read_merges, write_merges, read_ms, write_ms, queued_ms = counts
    return Disk(
        name,
        read_ios,
        write_ios,
        utilisation_percent,
        read_merges,
        write_merges,
        None if read_ms is None else read_ms / 1000,
        None if write_ms is None else write_ms / 1000,
        None if queued_ms is None else queued_ms / 1000,
        is_member,
    )


class Document(Struct, frozen=True, gc=False):
    """One report of fio: one execution, one Run.

    fio_version: as printed, "fio-3.33"; empty if the text has none.
    format_version: of terse (2 to 5). has_precise_values: False where the format rounds to four digits (text).
    started_at: job_start, or the moment of printing less the elapsed time (of text, the run time of its groups, where
      the time zone is given); None if fio prints neither. finished_at: the moment of printing.
    is_partial: the text ended before the report did, or lines of it are missing; jobs that have results are here.
    has_faults: it is partial only because values contradict each other or cannot be read: nothing was cut off.
    totals: empty until totals.add_totals has run.
    """

    format: Format
    fio_version: str
    started_at: datetime | None
    finished_at: datetime | None
    jobs: tuple[Job, ...]
    groups: tuple[Group, ...]
    disks: tuple[Disk, ...] = ()
    is_partial: bool = False
    has_faults: bool = False
    totals: tuple[Total, ...] = ()
    format_version: int | None = None
    has_precise_values: bool = True


class Report(Struct, frozen=True, gc=False):
    """Everything that was read from one text.

    messages: the lines that were not part of a report (fio's own complaints, a wrapper's chatter), in order,
      without the status lines of --eta; limited; a warning gives the number of those omitted.
    """

    documents: tuple[Document, ...]
    warnings: tuple[Note, ...]
    messages: tuple[str, ...]
    parser_version: int


class Reading(Struct, frozen=True, gc=False):
    """The reports of one format in a text and the other lines, both in order."""

    documents: tuple[Document, ...]
    rest: str


# More than a person reads; the raw text is stored anyway.
NOTES_MAXIMUM: Final = 100
# A warning may quote names that the text chose.
_LENGTH_MAXIMUM: Final = 500
_LISTED_MAXIMUM: Final = 20
# FIO_NET_PORT of server.h.
_USUAL_PORTS: Final = (8765, "8765")
# Of a server that cannot be reached, or that went away.
_MISSING_CLIENT: Final = re.compile(
    r"fio: (?:failed to connect to ([^\s,]{1,255})|client ([^\s,]{1,255}) timed out)"
)


class Notes:
    """The warnings of one text, in the order in which they were found, each one once."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}
        self._left_out = 0

    def add(self, code: str, where: str, message: str) -> None:
        """Add a warning, or count it above the limit."""
        note = Note(code, cut_text(where, _LENGTH_MAXIMUM), cut_text(message, _LENGTH_MAXIMUM))
        if len(self._notes) < NOTES_MAXIMUM:
            self._notes[note] = None
        elif note not in self._notes:
            self._left_out += 1

    def add_snapshots(self, numbers: Sequence[int], *, kind: str = "reports", place: str = "") -> None:
        """Add a warning that reports of these numbers are snapshots; none for no number."""
        if numbers:
            listed = ", ".join(map(str, numbers[:_LISTED_MAXIMUM]))
            more = ", …" if len(numbers) > _LISTED_MAXIMUM else ""
            message = f"{len(numbers)} {kind} ({place}{listed}{more}) are snapshots of an execution and were skipped"
            self.add("cumulative-snapshots", "", f"{message}; its last complete report was read")

    def add_missing_clients(self, hosts: Iterable[str], where: str = "") -> None:
        """Add a warning for each fio server without results."""
        for host in dict.fromkeys(hosts):
            self.add("client-missing", where, f"the report has no results of the client {host}")

    def add_all(self, others: "Notes") -> None:
        """Add the warnings of a part of the text."""
        for note in others._notes:
            self.add(note.code, note.where, note.message)
        self._left_out += others._left_out

    def list_all(self) -> tuple[Note, ...]:
        """Return the warnings; above the limit the last one gives the number of those omitted."""
        notes = tuple(self._notes)
        if not self._left_out:
            return notes
        return (*notes, Note("more-warnings", "", f"{self._left_out} more warnings were omitted"))


def name_server(hostname: str, port: object) -> str:
    """Return the name of a fio server: its host, and its port unless that is fio's own."""
    return hostname if port in (None, 0, *_USUAL_PORTS) else f"{hostname}:{port}"


def list_missing_clients(messages: str) -> list[str]:
    """Return the fio servers that fio complains about, by its messages."""
    return [(match[1] or match[2]).removesuffix(":8765") for match in _MISSING_CLIENT.finditer(messages)]


# The reason codes of report.py that are used here; any other fact is a source.
_REASONS: Final = frozenset(
    (
        "clones",
        "clones-disagree",
        "clones-missing",
        "clones-without-bins",
        "groups-without-bins",
        "groups-without-counts",
        "no-io",
        "not-a-number",
        "not-in-format",
        "not-measured",
        "not-reported",
        "out-of-range",
        "per-job-samples",
        "short-run",
        "unreliable-version",
        "zero-runtime",
    )
)
# Of a direction without I/O.
IDLE: Final[Mapping[str, str]] = dict.fromkeys(
    ("iops", "bandwidth_bytes_per_s", "latency", "percentiles", "bandwidth_samples", "iops_samples"), "no-io"
)


class SourceFacts(Struct, frozen=True, gc=False):
    """For each value its source, the reason code for its absence, or None for neither."""

    io_bytes: str | None = None
    total_ios: str | None = None
    iops: str | None = None
    bandwidth_bytes_per_s: str | None = None
    runtime_s: str | None = None
    submission: str | None = None
    completion: str | None = None
    total: str | None = None
    latency: str | None = None
    percentiles: str | None = None
    bandwidth_samples: str | None = None
    iops_samples: str | None = None
    short_ios: str | None = None
    dropped_ios: str | None = None


class ValueSources(Struct, frozen=True, gc=False):
    """missing and sources of a direction, as in report.py."""

    missing: Mapping[str, str]
    sources: Mapping[str, str]


@lru_cache(maxsize=1024)
def collect_sources(facts: SourceFacts) -> ValueSources:
    """Split facts into missing values and sources; cached, as a text has few different combinations."""
    missing: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name in facts.__struct_fields__:
        fact = getattr(facts, name)
        if fact is not None:
            (missing if fact in _REASONS else sources)[name] = fact
    return ValueSources(missing, sources)


class UnreadableOutput(Exception):
    """No report can be read from a text.

    code: stable, for programs: empty-output, no-report, truncated-report, invalid-json, no-jobs, unreadable-terse,
    too-many-reports, too-many-jobs or too-many-timings. detail: a sentence for the operator of the host. seen: the
    format that was recognized, "JSON", "terse" or "text"; empty without one.
    """

    def __init__(self, code: str, detail: str, *, seen: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.seen = seen
