"""Inputs of the validity rules: plain values, None if unknown."""

from dataclasses import dataclass
from typing import Final, Literal


def _split(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Engines that keep iodepth I/Os in flight.
ASYNCHRONOUS_ENGINES: Final = _split(
    "libaio io_uring io_uring_cmd posixaio windowsaio solarisaio guasi syslet-rw"
    " rbd rados gfapi_async libiscsi nbd libblkio spdk spdk_bdev"
)
# Engines whose I/O goes through the page cache unless it is direct.
PAGE_CACHED_ENGINES: Final = _split(
    "sync psync vsync pvsync pvsync2 libaio io_uring posixaio mmap splice windowsaio solarisaio"
)
# Engines without I/O to storage: steadiness and CPU use are meaningless.
IDLE_ENGINES: Final = _split("null cpuio exec")
NETWORK_ENGINES: Final = _split("rbd rados gfapi gfapi_async libiscsi nbd nfs http libhdfs")


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Steadiness of a trace, as shares of its average.

    excursion_share: maximum minus minimum; slope_share: change of the regression line over the trace. average: in
    operations/s if is_iops, else in bytes/s.
    """

    excursion_share: float
    slope_share: float
    average: float | None = None
    is_iops: bool = True


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """What the volumes or the instance of a run sustain without burst credits; None: no limit."""

    name: str
    iops: float | None
    bandwidth_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run failed. error: fio's first errno, INCOMPLETE if no job reported one."""

    error: int
    reason: str


@dataclass(frozen=True, slots=True)
class ValidityInputs:
    """Inputs for one direction of a group of jobs; None is unknown. Times in ns or s as named, sizes in bytes.

    iops, bandwidth_bytes_per_s: of the summary.
    error: fio's errno. failure: of the run, for a job without one. engine: empty if unknown. storage: kind of device.
    file_bytes: all files of the group together. waits_for_media: the page cache cannot answer: a flush or trim, or
    writes followed by flushes.
    read_mean_ns, read_p50_ns: total latency of reads. in_flight: IOPS × mean total latency (s) over all directions and
    entries of the group; slots: iodepth × numjobs; ios_per_slot: of all directions; is_throttled: an option limits the
    queue; unknown also if fio summed clones that may have ended at different times.
    is_steady, steady_criterion, steady_deviation: of fio's own steadystate.
    cpu_percent: user and system of one clone; is_polling: busy-waits for completions, as configured.
    samples: of the percentiles, an upper bound if is_sample_limit; percents: those with a metric.
    mean_ns, minimum_ns, maximum_ns, p99_99_ns, percentiles: of one distribution; percentiles (per cent, ns), ascending,
    only if they are precise. saturated: the first one beyond fio's histogram.
    bandwidth_variation: stdev/mean of bandwidth_samples samples. members_missing, sync_action: of an md array;
    raid_state: as reported by btrfs, ZFS or a controller. cached_by: storage that caches direct I/O, "" for none.
    load: average of the minute before the run; other_io_percent: time in which others kept the storage busy.
    all_iops, all_bytes_per_s: of all directions of the group.
    memory_filesystem: tmpfs, ramfs or a RAM disk that holds the files.
    """

    error: int | None = None
    failure: RunFailure | None = None
    did_io: bool = True
    iops: float | None = None
    bandwidth_bytes_per_s: float | None = None
    runtime_s: float | None = None
    engine: str = ""
    storage: Literal["network", "memory"] | None = None
    is_direct: bool | None = None
    is_random: bool | None = None
    waits_for_media: bool = False
    file_bytes: int | None = None
    reads_each_byte_once: bool = False
    memory_bytes: int | None = None
    read_mean_ns: float | None = None
    read_p50_ns: float | None = None
    in_flight: float | None = None
    slots: int | None = None
    ios_per_slot: float | None = None
    is_throttled: bool | None = None
    is_steady: bool | None = None
    steady_criterion: str = ""
    steady_deviation: str = ""
    steadiness: Steadiness | None = None
    cpu_percent: float | None = None
    is_polling: bool | None = False
    samples: int | None = None
    is_sample_limit: bool = False
    percents: tuple[float, ...] = ()
    mean_ns: float | None = None
    minimum_ns: float | None = None
    maximum_ns: float | None = None
    p99_99_ns: float | None = None
    percentiles: tuple[tuple[float, float], ...] = ()
    saturated: tuple[float, float] | None = None
    bandwidth_variation: float | None = None
    bandwidth_samples: int | None = None
    ios_per_sample: float | None = None
    members_missing: int | None = None
    sync_action: str = ""
    raid_state: str = ""
    memory_filesystem: str = ""
    targets: tuple[str, ...] = ()
    stated_name: str = ""
    cached_by: str = ""
    load: float | None = None
    cpu_count: int | None = None
    other_io_percent: float | None = None
    sustained: tuple[SustainedRate, ...] = ()
    all_iops: float | None = None
    all_bytes_per_s: float | None = None
