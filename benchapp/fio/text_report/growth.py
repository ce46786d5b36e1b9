"""Whether a text report can be a later one of the same execution: cumulative values have increased."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchapp.fio.merging.growth import measure_growth_ms
from benchapp.fio.text_report.direction import count_issued, read_issued
from benchapp.fio.text_report.draft import DirectionDraft, JobDraft, ReportDraft
from benchapp.fio.text_report.figures import MODERN, OLD_BYTES, OLD_COUNTS, read_figure
from benchapp.fio.version import Version, parse_version

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
