"""Snapshots of fio before 2.1.14 have their run time in µs, as if it were ms: found by latencies and processor time."""

from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.growth import SHORTEST_SNAPSHOT_US, SNAPSHOTS_IN_MS
from benchapp.fio.numbers import read_amount
from benchapp.fio.report import Direction, Job
from benchapp.fio.version import Version

# Least share of its depth that a benchmark uses; and more ns of CPU time than an I/O of a benchmark takes.
_BUSY: Final = 0.2
_PROCESSOR_NS_MINIMUM: Final = 2_000_000
# Shorter than this there are no samples, as of a run in ms.
_SHORT_RUN_S: Final = 2.0
_SECTOR: Final = 512
RUNTIME_IN_US: Final = "the run time is in µs, as fio before 2.1.14 prints it in snapshots"


def correct_runtime(job: Job, version: Version) -> Job | None:
    """Return the job with its run time, IOPS and bandwidth from µs; None where what fio calls msec is ms."""
    if version >= SNAPSHOTS_IN_MS or not _has_runtime_in_us(job):
        return None
    return replace(job, directions=tuple(map(_correct_direction, job.directions)))


def _has_runtime_in_us(job: Job) -> bool:
    """Return whether the run time must be µs.

    By its latencies, a job was then busy for a thousandth of its run; in µs it is all of the run at the printed
    depth. And each I/O took more CPU time than possible.
    """
    depths = [int(level.removeprefix(">=")) for level, share in job.depth.items() if share >= 1]
    user, system = job.cpu_user_percent, job.cpu_system_percent
    if not depths or user is None or system is None:
        return False
    runtime_s, waited_ns, ios = 0.0, 0.0, 0.0
    for direction in job.directions:
        count = _count_ios(direction)
        if not count or direction.runtime_s is None:
            continue
        if direction.completion is None or direction.completion.mean_ns is None:
            return False
        runtime_s = max(runtime_s, direction.runtime_s)
        waited_ns += direction.completion.mean_ns * count
        ios += count
    if runtime_s * 1000 < SHORTEST_SNAPSHOT_US or not ios:
        return False
    depth_in_us = waited_ns / (runtime_s * 1e6)
    processor_ns = (user + system) / 100 * runtime_s * 1e9 / ios
    return min(depths) * _BUSY <= depth_in_us <= 2 * max(depths) and processor_ns >= _PROCESSOR_NS_MINIMUM


def _count_ios(direction: Direction) -> float | None:
    """Return the count of I/Os: as printed, else by the one block size that fits the whole IOPS, else by IOPS."""
    if direction.total_ios is not None:
        return direction.total_ios
    iops, runtime_s, io_bytes = direction.iops, direction.runtime_s, direction.io_bytes
    if not (iops and runtime_s and io_bytes):
        return None
    smallest, largest = io_bytes / ((iops + 1) * runtime_s), io_bytes / (iops * runtime_s)
    block_size = int(largest / _SECTOR) * _SECTOR
    is_unique = block_size > smallest >= block_size - _SECTOR
    return io_bytes // block_size if is_unique else iops * runtime_s


def _correct_direction(direction: Direction) -> Direction:
    runtime_s, count = direction.runtime_s, _count_ios(direction)
    if not runtime_s:
        return direction
    runtime_s = round(runtime_s * 1000) / 1_000_000
    sources = {
        **direction.sources,
        "iops": "total_ios / run time"
        if direction.total_ios is not None
        else "io_bytes / block size / run time",
        "bandwidth_bytes_per_s": "io_bytes / run time",
        "runtime_s": "msec / 1 000 000, as it is in µs",
    }
    missing = dict(direction.missing)
    for name in ("bandwidth_samples", "iops_samples"):
        if missing.get(name) == "not-measured" and runtime_s < _SHORT_RUN_S:
            missing[name] = "short-run"
    return replace(
        direction,
        runtime_s=runtime_s,
        iops=None if count is None else read_amount(count / runtime_s),
        bandwidth_bytes_per_s=None
        if direction.io_bytes is None
        else read_amount(direction.io_bytes / runtime_s),
        sources=sources,
        missing=missing,
    )
