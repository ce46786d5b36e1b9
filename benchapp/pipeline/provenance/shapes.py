"""How the numbers of one run were computed, as plain frozen values that both doors show."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ExplainedValue:
    """One value. value: in the base unit that `unit` names, None where it is absent.

    printed_as: what fio printed it as and how that was converted, empty where the reader does not say.
    how: how it was made of what was printed. code: why it is absent, stable; reason: the same in words.
    """

    name: str
    label: str
    unit: str
    value: float | None
    printed_as: str
    how: str
    code: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class ExplainedPercentile:
    """One percentile, per cent and ns."""

    percent: float
    ns: float


@dataclass(frozen=True, slots=True)
class ExplainedPercentiles:
    """All percentiles of one distribution. kind: clat or lat; how: whose they are, or why there are none."""

    kind: str
    printed_as: str
    how: str
    code: str | None
    values: tuple[ExplainedPercentile, ...]


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """One thing that was asked for. value: as read, canonical; source: where it was told, or that it was not."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class MergedJob:
    """One entry of fio's report. index: its place there; clones: jobs that fio summed into it."""

    index: int
    name: str
    hostname: str | None
    clones: int


@dataclass(frozen=True, slots=True)
class ExplainedMeasurement:
    """One measurement, at the place that it has in the run's table.

    jobs: the entries merged into it, the first of many; job_count: the jobs in all of them.
    """

    position: int
    job_name: str
    hostname: str | None
    groupid: int
    direction: str
    error: int
    numjobs: int
    job_count: int
    jobs: tuple[MergedJob, ...]
    workload: tuple[WorkloadPart, ...]
    values: tuple[ExplainedValue, ...]
    percentiles: ExplainedPercentiles

    def is_stored_as(self, job_name: str, direction: str) -> bool:
        """Say whether a stored measurement of this place is the same; another parser may have found others."""
        return direction == self.direction and job_name == self.job_name[:200]


@dataclass(frozen=True, slots=True)
class ExplainedTotal:
    """What the jobs of one group of fio did together in one direction, or in all ("total").

    job_names: the first of many.
    """

    groupid: int
    job_names: tuple[str, ...]
    direction: str
    values: tuple[ExplainedValue, ...]


@dataclass(frozen=True, slots=True)
class LatencyShare:
    """Per cent of the I/Os that took less than below_ns and no less than the bound before; None: all the rest."""

    below_ns: int | None
    percent: float


@dataclass(frozen=True, slots=True)
class ExplainedSteadyState:
    """What fio's own steadystate found, as it printed it."""

    criterion: str
    is_attained: bool
    duration_s: float | None
    deviation: str
    iops: float | None
    bandwidth_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class ExplainedJob:
    """What fio printed of one entry besides its directions.

    is_aggregate: fio's own sum over servers, which counts nowhere. depth: iodepth level → per cent of the I/Os.
    """

    index: int
    name: str
    hostname: str | None
    groupid: int
    clones: int
    error: int
    is_aggregate: bool
    cpu_user_percent: float | None
    cpu_system_percent: float | None
    context_switches: int | None
    depth: Mapping[str, float]
    latency_shares: tuple[LatencyShare, ...]
    steady_state: ExplainedSteadyState | None


@dataclass(frozen=True, slots=True)
class ExplainedDisk:
    """One disk as fio saw it. is_member: of the md or dm device before it."""

    name: str
    is_member: bool
    read_ios: int | None
    write_ios: int | None
    read_busy_s: float | None
    write_busy_s: float | None
    utilisation_percent: float | None


@dataclass(frozen=True, slots=True)
class ExplainedNote:
    """A warning of the reader; code is stable."""

    code: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class ReportProvenance:
    """How today's parser reads one document of a text.

    document: its place among `documents`. format_version: of terse; has_precise_values: False where the format rounds.
    measurements, totals, jobs, disks: of each those from `position` on; next_position: where the others begin, None
    where all of them are told; measurement_count: of all. warnings, messages: of the whole text; messages are the
    lines that are no part of a report.
    """

    format: str
    format_version: int | None
    has_precise_values: bool
    is_partial: bool
    fio_version: str
    parser_version: int
    documents: int
    document: int
    started_at: datetime | None
    finished_at: datetime | None
    measurement_count: int
    position: int
    next_position: int | None
    measurements: tuple[ExplainedMeasurement, ...]
    totals: tuple[ExplainedTotal, ...]
    jobs: tuple[ExplainedJob, ...]
    disks: tuple[ExplainedDisk, ...]
    warnings: tuple[ExplainedNote, ...]
    messages: tuple[str, ...]
