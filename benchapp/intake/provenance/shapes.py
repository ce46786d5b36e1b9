"""Provenance of the values of one run, as frozen dataclasses for page and API."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from benchapp.fio.report import Note, SteadyState


@dataclass(frozen=True, slots=True)
class DerivedValue:
    """One value. value: in the base unit `unit`, None if absent.

    printed_as: the value in the fio output and its conversion, empty if unknown. how: derivation.
    code: reason of absence, stable; reason: the same as text.
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
class DerivedPercentile:
    """One percentile, per cent and ns."""

    percent: float
    ns: float


@dataclass(frozen=True, slots=True)
class DerivedPercentiles:
    """All percentiles of one distribution. kind: clat or lat; how: derivation, or reason of absence."""

    kind: str
    printed_as: str
    how: str
    code: str | None
    values: tuple[DerivedPercentile, ...]


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """One part of a workload. value: canonical; source: where it was reported, or that it was not."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class MergedJob:
    """One entry of fio's report. index: its position; clones: jobs that fio summed into it."""

    index: int
    name: str
    hostname: str | None
    clones: int


@dataclass(frozen=True, slots=True)
class MeasurementProvenance:
    """One measurement, at its position in the run's table.

    jobs: the merged entries, truncated; job_count: the jobs in all of them.
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
    values: tuple[DerivedValue, ...]
    percentiles: DerivedPercentiles

    def is_stored_as(self, job_name: str, direction: str) -> bool:
        """Return whether the stored measurement at this position is the same; another parser may have found others."""
        return direction == self.direction and job_name == self.job_name[:200]


@dataclass(frozen=True, slots=True)
class TotalProvenance:
    """Total of one fio group in one direction, or in all ("total").

    job_names: truncated.
    """

    groupid: int
    job_names: tuple[str, ...]
    direction: str
    values: tuple[DerivedValue, ...]


@dataclass(frozen=True, slots=True)
class LatencyShare:
    """Percentage of I/Os below below_ns and at or above the previous bound; None: the rest."""

    below_ns: int | None
    percent: float


@dataclass(frozen=True, slots=True)
class ReportedJob:
    """Values of one entry of the fio report besides its directions.

    is_aggregate: fio's total over servers, not stored. depth: iodepth level → percentage of I/Os.
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
    steady_state: SteadyState | None


@dataclass(frozen=True, slots=True)
class ReportedDisk:
    """Disk statistics reported by fio. is_member: of the preceding md or dm device."""

    name: str
    is_member: bool
    read_ios: int | None
    write_ios: int | None
    read_busy_s: float | None
    write_busy_s: float | None
    utilisation_percent: float | None


@dataclass(frozen=True, slots=True)
class ReportProvenance:
    """Provenance of one document of a fio output, by the current parser.

    document: its index, documents: their count. format_version: of terse; has_precise_values: False if the format
    rounds. measurements, totals, jobs, disks: one page of each, from `position` on; next_position: of the next page,
    None on the last one. measurement_count: on all pages. warnings, messages: of the whole output; messages are lines
    outside of reports.
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
    measurements: tuple[MeasurementProvenance, ...]
    totals: tuple[TotalProvenance, ...]
    jobs: tuple[ReportedJob, ...]
    disks: tuple[ReportedDisk, ...]
    warnings: tuple[Note, ...]
    messages: tuple[str, ...]
