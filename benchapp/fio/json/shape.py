"""The JSON of all fio versions as printed: decoded, not converted.

The types limit numbers to what the database can store; `tolerance` drops others. None if a key is absent. The
structures have no cycles, so that the garbage collector can ignore them.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from benchapp.fio.numbers import BIGINT_MAXIMUM, INTEGER_MAXIMUM

Count = Annotated[int, Meta(ge=0, le=BIGINT_MAXIMUM)]
Amount = Count | Annotated[float, Meta(ge=0, lt=2.0**63)]
Errno = Annotated[int, Meta(ge=-INTEGER_MAXIMUM, le=INTEGER_MAXIMUM)]
# Per cent → latency; fio before 3.4 pads with 0.00.
Percentiles = dict[Annotated[float, Meta(ge=0, le=100)], Amount]
Bins = dict[Count, Annotated[int, Meta(gt=0, le=BIGINT_MAXIMUM)]]
Depths = dict[str, Amount]
Options = dict[str, str]
# From fio 3.39 a list where there are several servers.
GlobalOptions = Options | list[dict[str, str | int]]

_NONE: Final[Mapping[str, str]] = {}


class PrintedLatency(Struct, gc=False):
    """slat, clat or lat: µs or ns, by its key; N: samples, from 3.18."""

    min: Amount | None = None
    max: Amount | None = None
    mean: Amount | None = None
    stddev: Amount | None = None
    N: Count | None = None
    percentile: Percentiles | None = None
    bins: Bins | None = None


class PrintedDirection(Struct, gc=False):
    """read, write, trim, mixed or sync; bw in KiB/s, runtime in ms, io_bytes in KiB before 2.21."""

    io_bytes: Count | None = None
    io_kbytes: Amount | None = None
    bw_bytes: Amount | None = None
    bw: Amount | None = None
    iops: Amount | None = None
    runtime: Count | None = None
    total_ios: Count | None = None
    short_ios: Count | None = None
    drop_ios: Count | None = None
    slat_ns: PrintedLatency | None = None
    clat_ns: PrintedLatency | None = None
    lat_ns: PrintedLatency | None = None
    slat: PrintedLatency | None = None
    clat: PrintedLatency | None = None
    lat: PrintedLatency | None = None
    bw_min: Amount | None = None
    bw_max: Amount | None = None
    bw_mean: Amount | None = None
    bw_dev: Amount | None = None
    bw_samples: Count | None = None
    iops_min: Amount | None = None
    iops_max: Amount | None = None
    iops_mean: Amount | None = None
    iops_stddev: Amount | None = None
    iops_samples: Count | None = None


class OddDirection(PrintedDirection):
    """A direction of which numbers were dropped; odd: key → reason code."""

    odd: Mapping[str, str] = _NONE


def list_odd(raw: PrintedDirection) -> Mapping[str, str]:
    """Return the reasons of dropped values; the decoder itself drops none."""
    return raw.odd if isinstance(raw, OddDirection) else _NONE


class PrintedShares(Struct, gc=False):
    """latency_ns or latency_us: per cent of I/Os below a bound and above the one before; fio prints all of them."""

    below_2: Amount = field(name="2")
    below_4: Amount = field(name="4")
    below_10: Amount = field(name="10")
    below_20: Amount = field(name="20")
    below_50: Amount = field(name="50")
    below_100: Amount = field(name="100")
    below_250: Amount = field(name="250")
    below_500: Amount = field(name="500")
    below_750: Amount = field(name="750")
    below_1000: Amount = field(name="1000")


class PrintedLongShares(PrintedShares, gc=False):
    """latency_ms, which has two more."""

    below_2000: Amount = field(name="2000")
    above: Amount = field(name=">=2000")


class PrintedSteadyData(Struct, gc=False):
    """Means over the window: bw in bytes/s, here alone."""

    bw_mean: Amount | None = None
    iops_mean: Amount | None = None


class PrintedSteadyState(Struct, gc=False):
    """steadystate, from 2.16; duration in s."""

    ss: str | None = None
    duration: Amount | None = None
    attained: Count | None = None
    criterion: str | None = None
    data: PrintedSteadyData | None = None


class PrintedJob(Struct, gc=False):
    """One entry of the list; job_start in ms since 1970, elapsed in s."""

    jobname: str | None = None
    groupid: Count | None = None
    hostname: str | None = None
    port: int | str | None = None
    job_start: Count | None = None
    error: Errno = 0
    elapsed: Count | None = None
    options: Options | None = field(default=None, name="job options")
    desc: str | None = None
    read: PrintedDirection | None = None
    write: PrintedDirection | None = None
    trim: PrintedDirection | None = None
    mixed: PrintedDirection | None = None
    sync: PrintedDirection | None = None
    job_runtime: Count | None = None
    usr_cpu: Amount | None = None
    sys_cpu: Amount | None = None
    ctx: Count | None = None
    majf: Count | None = None
    minf: Count | None = None
    iodepth_level: Depths | None = None
    iodepth_submit: Depths | None = None
    iodepth_complete: Depths | None = None
    latency_ns: PrintedShares | None = None
    latency_us: PrintedShares | None = None
    latency_ms: PrintedLongShares | None = None
    latency_depth: Count | None = None
    steadystate: PrintedSteadyState | None = None


class PrintedDisk(Struct, gc=False):
    """A line of disk_util; ticks and in_queue in ms. aggr_util: there for md and dm, before their members."""

    name: str = ""
    read_ios: Count | None = None
    write_ios: Count | None = None
    read_merges: Count | None = None
    write_merges: Count | None = None
    read_ticks: Count | None = None
    write_ticks: Count | None = None
    in_queue: Count | None = None
    util: Amount | None = None
    aggr_util: Amount | None = None


class PrintedReport(Struct, gc=False):
    """A complete report; an invalid entry is None. A report has jobs or client_stats."""

    version: str | None = field(default=None, name="fio version")
    timestamp: Count | None = None
    timestamp_ms: Count | None = None
    global_options: GlobalOptions | None = field(default=None, name="global options")
    jobs: list[PrintedJob | None] | None = None
    client_stats: list[PrintedJob | None] | None = None
    disk_util: list[PrintedDisk | None] | None = None

    @property
    def entries(self) -> list[PrintedJob | None] | None:
        """The jobs or, in client mode, the entries of the servers; None if this is not a report."""
        return self.client_stats if self.jobs is None else self.jobs
