"""One entry of fio's list of jobs, with its directions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchapp.catalog.metrics import cut_text
from benchapp.fio.json.direction import Printing, describe_idle, is_idle, read_json_direction, read_sync
from benchapp.fio.json.entries import Entry
from benchapp.fio.json.latency import read_json_shares
from benchapp.fio.json.shape import PrintedDirection, PrintedJob, PrintedSteadyData, PrintedSteadyState
from benchapp.fio.numbers import read_moment
from benchapp.fio.report import Direction, DirectionName, Job, SteadyState
from benchapp.fio.version import Version
from benchapp.fio.workload.options import AGGREGATE, is_set, list_directions_asked

_NONE: Final[Mapping[str, float]] = {}
# Criterion and deviation of a steady state, as "iops_slope:0.3%".
_STEADY_LENGTH: Final = 100
# Until 3.12, lat_percentiles=1, which clat_percentiles=0 implied, printed percentiles of lat under clat_ns: init.c
# and stat.c of fio.
_MISLABELED: Final[tuple[Version, Version]] = ((3, 1, 0), (3, 13, 0))


def read_job(entry: Entry, *, clones: int, version: Version, is_client: bool) -> Job:
    """Return one entry; clones: how many jobs fio summed into it."""
    printed = entry.printed
    options = entry.options
    name = printed.jobname or ""
    printing = Printing(
        version,
        clones,
        is_mislabeled=_MISLABELED[0] <= version < _MISLABELED[1] and _wants_total(options),
    )
    return Job(
        index=entry.index,
        name=name,
        groupid=printed.groupid or 0,
        hostname=entry.hostname,
        error=printed.error,
        clones=clones,
        options=options,
        directions=tuple(_read_directions(printed, printing, list_directions_asked(options))),
        started_at=read_moment(None, milliseconds=printed.job_start) if printed.job_start else None,
        description=printed.desc,
        cpu_user_percent=printed.usr_cpu,
        cpu_system_percent=printed.sys_cpu,
        context_switches=printed.ctx,
        depth=printed.iodepth_level or _NONE,
        iodepth=printed.latency_depth or None,
        is_aggregate=is_client and name == AGGREGATE and not printed.options,
        depth_submitted=printed.iodepth_submit or _NONE,
        depth_completed=printed.iodepth_complete or _NONE,
        latency_shares=read_json_shares(printed),
        major_faults=printed.majf,
        minor_faults=printed.minf,
        steady_state=_read_steady_state(printed.steadystate),
        has_all_options=entry.has_all_options,
    )


def _wants_total(options: Mapping[str, str]) -> bool:
    if "lat_percentiles" in options:
        return is_set(options, "lat_percentiles")
    return "clat_percentiles" in options and not is_set(options, "clat_percentiles")


def _read_directions(printed: PrintedJob, printing: Printing, asked: Sequence[str]) -> Iterator[Direction]:
    parts: tuple[tuple[DirectionName, PrintedDirection | None], ...] = (
        ("read", printed.read),
        ("write", printed.write),
        ("trim", printed.trim),
        ("mixed", printed.mixed),
    )
    for name, part in parts:
        if part is None:
            continue
        if not is_idle(part):
            yield read_json_direction(name, part, printing)
        elif name in asked:
            yield describe_idle(name)
    if printed.sync is not None and printed.sync.total_ios:
        yield read_sync(printed.sync)


def _read_steady_state(printed: PrintedSteadyState | None) -> SteadyState | None:
    if printed is None or not printed.ss:
        return None
    means = printed.data or PrintedSteadyData()
    return SteadyState(
        criterion=cut_text(printed.ss, _STEADY_LENGTH),
        is_attained=bool(printed.attained),
        duration_s=None if printed.duration is None else float(printed.duration),
        deviation=cut_text(printed.criterion or "", _STEADY_LENGTH),
        iops=means.iops_mean,
        bandwidth_bytes_per_s=means.bw_mean,
    )
