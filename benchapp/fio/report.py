"""What the reader says of one text: the same typed model for every format and version of fio.

Base units throughout: ns, bytes/s, operations/s, bytes, seconds. A value that fio did not give is None, and
`Direction.missing` says why. Nothing here is guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

DirectionName = Literal["read", "write", "trim", "mixed", "sync"]


@dataclass(frozen=True, slots=True)
class Note:
    """A warning with a stable code.

    where: a path such as "document 0, job 2 (randread), write"; message: a sentence for the operator.
    """

    code: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency distribution, ns.

    count: samples behind it, None where the version does not say.
    percentiles: (per cent, ns), ascending by per cent; fio gives bucket midpoints (within 0.8 %).
    bins: bucket value in ns → samples, from json+ only.
    """

    minimum_ns: float | None
    maximum_ns: float | None
    mean_ns: float | None
    stddev_ns: float | None
    count: int | None
    percentiles: tuple[tuple[float, float], ...] = ()
    bins: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """fio's own samples of bandwidth (bytes/s) or IOPS within the run, one every 500 ms by default."""

    minimum: float
    maximum: float
    mean: float
    stddev: float
    count: int | None


@dataclass(frozen=True, slots=True)
class Direction:
    """The values of one direction of one job, or of a group of jobs that ran together.

    submission, completion, total: fio's slat, clat, lat; None where fio measured none.
    missing: name of what is absent → stable reason code, for example
      {"percentiles": "clones-without-bins"}, {"latency": "not-measured"}, {"iops_samples": "short-run"}.
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


@dataclass(frozen=True, slots=True)
class Job:
    """One entry as fio printed it.

    index: its place in the document; clones: how many jobs fio summed into it (1 unless group_reporting).
    options: effective options as typed, global ones overlaid by the job's own.
    depth: iodepth level → per cent of I/Os; cpu_user_percent, cpu_system_percent as fio printed them.
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
    is_aggregate: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Clones of one job that ran together, rolled up: what becomes one measurement per direction.

    jobs: indices of the entries merged. Totals are sums (io, iops, bandwidth over the longest runtime as fio
    does for group_reporting); means are weighted by samples, minima and maxima kept; percentiles come from a
    single entry or from merged bins, else they are withheld and `missing` says so.
    numjobs: as asked for by the options, or as seen.
    """

    name: str
    groupid: int
    hostname: str | None
    numjobs: int
    error: int
    options: Mapping[str, str]
    directions: tuple[Direction, ...]
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Disk:
    """One line of disk_util: counts of I/Os, milliseconds busy as seconds, utilisation in per cent."""

    name: str
    read_ios: int | None
    write_ios: int | None
    utilisation_percent: float | None


@dataclass(frozen=True, slots=True)
class Document:
    """One report of fio: one execution, one Run.

    started_at: job_start, or the moment of printing less the elapsed time; None where fio says neither.
    finished_at: the moment of printing. is_partial: the text ended before the report did.
    """

    format: Literal["json", "json+", "terse", "normal"]
    fio_version: str
    started_at: datetime | None
    finished_at: datetime | None
    jobs: tuple[Job, ...]
    groups: tuple[Group, ...]
    disks: tuple[Disk, ...] = ()
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was read from one text.

    messages: the lines that were not part of a report (fio's own complaints, a wrapper's chatter), in order.
    """

    documents: tuple[Document, ...]
    warnings: tuple[Note, ...]
    messages: tuple[str, ...]
    parser_version: int
