"""Validity rules: practitioners' rules of thumb about storage benchmarks, each with its source.

A rule without all of its inputs reports nothing. docs/runs.md describes the rules for users.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from benchapp.catalog.metrics import join_first

# In display order, most severe first.
CODES: Final = (
    "failed-job",
    "no-io",
    "inconsistent",
    "several-targets",
    "littles-law",
    "cached",
    "memory-filesystem",
    "degraded-raid",
    "busy",
    "too-short",
    "above-baseline",
    "not-steady",
    "cpu-bound",
    "stalls",
    "few-samples",
    "reported",
)
SEVERAL_TARGETS: Final = "several-targets"
# Do not make a mark hollow: values with few samples are hidden already, runs of a short profile are compared only with
# each other, and published results are shown as published.
HARMLESS: Final = ("few-samples", "too-short", "reported")

_THIN_SPACE: Final = "\u202f"
_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES: Final = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


@dataclass(frozen=True, slots=True)
class Badge:
    """One data-quality finding about a measurement.

    code: one of CODES. numbers: the values that it is based on, by name, in base units.
    """

    code: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def is_doubtful(codes: Iterable[str]) -> bool:
    """Return whether a measurement with these badges needs a check before it is compared."""
    return any(code not in HARMLESS for code in codes)


def sort_codes(codes: Iterable[str]) -> list[str]:
    """Return each code once, in alphabetical order, as stored."""
    return sorted(set(codes))


def format_time(value_ns: float) -> str:
    """Format ns with three digits in the largest unit: "1.24 ms"."""
    return _format_scaled(value_ns, _TIMES)


def format_size(value: float) -> str:
    """Format bytes with three digits in the largest binary unit: "2 GiB"."""
    return _format_scaled(value, _SIZES)


def format_count(value: float) -> str:
    """Format a number with thin spaces between thousands, with three digits if small: "33 415", "5.2"."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", _THIN_SPACE)
    return f"{value:.3g}"


def format_percent(share: float) -> str:
    """Format a share (1.0 is all) in per cent: "12.3 %"."""
    return f"{format_count(share * 100)} %"


def _format_scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    # 999.7 ms would be written as 1e+03 ms: step up where the rounded figure reaches the next unit.
    divisor, unit = next((scale for scale in scales if abs(value) >= scale[0] * 0.9995), scales[-1])
    return f"{format_count(value / divisor)} {unit}"


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
    operations/s if is_iops, else in bytes/s. logs: number of logs that were added.
    """

    excursion_share: float
    slope_share: float
    average: float | None = None
    is_iops: bool = True
    logs: int = 0


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
    target_name: str | None = None
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
    numjobs: int | None = None
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


# s. Cloud providers and vendors recommend 60 to 300 s; below 30 s, bursts and caches dominate.
SHORTEST_S: Final = 30.0
# Times the memory. Practitioners' rule: smaller files are mostly in the page cache.
CACHE_FACTOR: Final = 2.0
# ns. Practitioners' rule: no device behind a block layer has a lower mean read latency.
FASTEST_MEAN_NS: Final = 5_000.0
# ns. The same with polled completions, which save the interrupt. Own estimate: polled reads of Optane take 4.5 µs with
# direct io_uring; no known device is twice as fast.
FASTEST_POLLED_MEAN_NS: Final = 2_000.0
# ns. The same for network storage: a round trip alone takes longer.
FASTEST_NETWORK_P50_NS: Final = 10_000.0
# In flight to slots. Measured on 3 400 jobs of asynchronous engines, fio 2.18 to 3.36: median 0.997, p5 0.94, p1 0.82,
# most 1.000.
LEAST_IN_FLIGHT_SHARE: Final = 0.85
MOST_IN_FLIGHT_SHARE: Final = 1.02
# I/Os per slot. Below this, filling and draining the queue takes more than 1 %.
LEAST_IOS_PER_SLOT: Final = 100
# fio's percentiles are midpoints of buckets, within 0.8 %; terse and old JSON have whole µs. Of 3 000 distributions in
# recorded outputs one exceeds these, by a fault of fio 2.1.3.
MEAN_WITHIN: Final = 0.02
_MEAN_NOISE_NS: Final = 1_000.0
# The trace without its ends may differ from the summary by the slope that is still steady, and as much again.
TRACE_FACTOR: Final = 1.2
# Above the rounding of sizes and rates.
BURST_FACTOR: Final = 1.1
# Per cent of the time. As the agent's --skip-if-busy.
OTHER_IO_PERCENT: Final = 20.0
# Of the average over the window. SNIA Solid State Storage Performance Test Specification 2.0: data and slope excursion.
MOST_EXCURSION_SHARE: Final = 0.20
MOST_SLOPE_SHARE: Final = 0.10
# Per cent of one CPU, user and system. "Near 100": fio includes setup and teardown.
BUSY_CPU_PERCENT: Final = 95.0
# Samples above a percentile: with fewer, its relative error is a third (1/sqrt(10)).
LEAST_BEYOND: Final = 10
# 100 − 99.9 is 0.0999…: rounding must not decide at exactly 10 000 samples.
_NOISE: Final = 1e-6
# Times p99.99, and stdev/mean of fio's bandwidth samples. No distribution without stalls seen so far exceeds them.
STALL_FACTOR: Final = 100.0
MOST_BANDWIDTH_VARIATION: Final = 0.2
# Samples of 500 ms, and I/Os in each: below these, counting noise dominates the variation.
LEAST_BANDWIDTH_SAMPLES: Final = 20
LEAST_IOS_PER_SAMPLE: Final = 100
# In the sentence of a badge.
TARGETS_NAMED: Final = 8


def judge_validity(inputs: ValidityInputs) -> tuple[Badge, ...]:
    """Return the badges of a measurement, at most one of each code.

    A failed job is checked only by the rules that do not depend on its runtime behavior.
    """
    return tuple(_find_badges(inputs))


def is_too_few(samples: int | None, percent: float) -> bool:
    """Return whether fewer than 10 samples are expected above a percentile (0 to 100); False if unknown."""
    return samples is not None and samples * (100 - percent) / 100 < LEAST_BEYOND - _NOISE


def count_beyond(samples: int, percent: float) -> float:
    """Return how many samples are expected above a percentile (0 to 100)."""
    return round(samples * (100 - percent) / 100, 6)


def _find_badges(inputs: ValidityInputs) -> Iterator[Badge]:
    has_failed = bool(inputs.error or inputs.failure)
    if has_failed:
        yield _describe_failure(inputs)
    rules: tuple[Callable[[ValidityInputs], Badge | None], ...] = ()
    if not has_failed and not inputs.did_io:
        yield _describe_silence(inputs)
    elif not has_failed:
        rules = (_judge_duration,) if inputs.engine in IDLE_ENGINES else _OF_A_WHOLE_JOB
    for judge in (*rules, *_OF_ANY_JOB):
        badge = judge(inputs)
        if badge is not None:
            yield badge


def _describe_failure(inputs: ValidityInputs) -> Badge:
    error, failure = inputs.error, inputs.failure
    what = (
        f"The run failed: {failure.reason}."
        if failure
        else f"fio ended the job with error {error} ({os.strerror(abs(error or 0))})."
    )
    number = error or (failure.error if failure else 0)
    return Badge("failed-job", f"{what} The values do not count in medians.", {"error": number})


def _describe_silence(inputs: ValidityInputs) -> Badge:
    runtime_s = inputs.runtime_s or 0.0
    who = inputs.target_name or "the storage"
    return Badge(
        "no-io",
        f"No I/O completed in {format_time(runtime_s * 1e9)}: {who} did not answer. The values are 0.",
        {"runtime_s": runtime_s},
    )


def _judge_duration(inputs: ValidityInputs) -> Badge | None:
    runtime_s = inputs.runtime_s
    if runtime_s is None or runtime_s >= SHORTEST_S:
        return None
    return Badge(
        "too-short",
        f"Runtime {format_time(runtime_s * 1e9)}; below {SHORTEST_S:.0f} s, caches and burst credits dominate.",
        {"runtime_s": runtime_s, "least_runtime_s": SHORTEST_S},
    )


def _judge_cache(inputs: ValidityInputs) -> Badge | None:
    return _judge_page_cache(inputs) or _judge_read_latency(inputs)


def _judge_page_cache(inputs: ValidityInputs) -> Badge | None:
    file_bytes, memory_bytes = inputs.file_bytes, inputs.memory_bytes
    cached_by = inputs.cached_by
    if (inputs.is_direct is not False and not cached_by) or inputs.engine not in PAGE_CACHED_ENGINES:
        return None
    # fio drops the page cache of its files before it starts: data read once comes from the storage.
    if inputs.reads_each_byte_once and not cached_by:
        return None
    if inputs.waits_for_media or not file_bytes or not memory_bytes:
        return None
    if file_bytes >= CACHE_FACTOR * memory_bytes:
        return None
    return Badge(
        "cached",
        f"{f'Direct I/O is cached by {cached_by}' if cached_by else 'Buffered I/O'}: the files"
        f" ({format_size(file_bytes)}) are smaller than twice the host's memory ({format_size(memory_bytes)}). The"
        " cache may have served the I/O instead of the storage.",
        {"file_bytes": file_bytes, "memory_bytes": memory_bytes, "least_factor": CACHE_FACTOR},
    )


def _judge_read_latency(inputs: ValidityInputs) -> Badge | None:
    """Find reads faster than any device; buffered sequential reads are exempt because of read-ahead."""
    if inputs.storage == "memory" or inputs.engine not in PAGE_CACHED_ENGINES | NETWORK_ENGINES:
        return None
    if not inputs.is_direct and not inputs.is_random:
        return None
    mean_ns, p50_ns = inputs.read_mean_ns, inputs.read_p50_ns
    # Only direct I/O is polled; buffered I/O ignores the option.
    may_poll = inputs.is_polling is not False and inputs.is_direct is not False
    least_ns = FASTEST_POLLED_MEAN_NS if may_poll else FASTEST_MEAN_NS
    if mean_ns is not None and 0 < mean_ns < least_ns:
        return Badge(
            "cached",
            f"Mean read latency {format_time(mean_ns)}, below the {format_time(least_ns)} of any storage: a cache"
            " served the reads.",
            {"read_mean_ns": mean_ns, "least_mean_ns": least_ns},
        )
    is_network = inputs.storage == "network" or inputs.engine in NETWORK_ENGINES
    if is_network and p50_ns is not None and 0 < p50_ns < FASTEST_NETWORK_P50_NS:
        return Badge(
            "cached",
            f"Median read latency {format_time(p50_ns)}, below the {format_time(FASTEST_NETWORK_P50_NS)} of any"
            " network: a cache on the host served the reads.",
            {"read_p50_ns": p50_ns, "least_p50_ns": FASTEST_NETWORK_P50_NS},
        )
    return None


def _judge_flight(inputs: ValidityInputs) -> Badge | None:
    """Apply Little's law: a full queue holds iodepth × numjobs I/Os, so that IOPS × latency must be near it."""
    in_flight, slots = inputs.in_flight, inputs.slots
    if in_flight is None or not slots or inputs.engine not in ASYNCHRONOUS_ENGINES:
        return None
    if inputs.ios_per_slot is None or inputs.ios_per_slot < LEAST_IOS_PER_SLOT:
        return None
    share = in_flight / slots
    numbers = {"in_flight": in_flight, "slots": slots, "share": share}
    average = f"IOPS × mean latency gives {format_count(in_flight)} I/Os in flight"
    if share > MOST_IN_FLIGHT_SHARE:
        return Badge(
            "littles-law",
            f"{average}, more than iodepth × numjobs ({format_count(slots)}): a unit was misread or jobs were counted"
            " twice. Do not use these values.",
            numbers,
        )
    if share >= LEAST_IN_FLIGHT_SHARE or inputs.is_throttled is not False:
        return None
    # io_uring passes buffered I/O to its workers; other engines block on submission.
    is_blocking = inputs.is_direct is False and not inputs.engine.startswith("io_uring")
    cause = (
        f"with buffered I/O {inputs.engine} waits for each I/O, so that iodepth has no effect"
        if is_blocking
        else "fio, the CPU or the file system was the limit, not the storage"
    )
    return Badge(
        "littles-law",
        f"{average}, {format_percent(share)} of iodepth × numjobs ({format_count(slots)}): {cause}.",
        numbers,
    )


def _judge_consistency(inputs: ValidityInputs) -> Badge | None:
    return _judge_latencies(inputs) or _judge_trace(inputs)


def _judge_trace(inputs: ValidityInputs) -> Badge | None:
    """Find a trace above the summary, or below it if each job has a log."""
    found = inputs.steadiness
    summary = inputs.iops if found and found.is_iops else inputs.bandwidth_bytes_per_s
    if found is None or found.average is None or not summary:
        return None
    is_below = inputs.numjobs == found.logs and found.average * TRACE_FACTOR < summary
    if found.average <= TRACE_FACTOR * summary and not is_below:
        return None
    return Badge(
        "inconsistent",
        f"The trace has {format_percent(found.average / summary)} of the"
        f" {'IOPS' if found.is_iops else 'bandwidth'} in the report: do not use either value.",
        {"trace": found.average, "report": summary},
    )


def _judge_latencies(inputs: ValidityInputs) -> Badge | None:
    """Compare the mean with minimum, maximum and percentiles of its distribution: p99 below the mean may be right."""
    if inputs.saturated:
        percent, end_ns = inputs.saturated
        return Badge(
            "inconsistent",
            f"fio's histogram ends at {format_time(end_ns)}: percentiles from p{percent:g} on are longer, and hidden."
            " Mean and maximum are right.",
            {"percent": percent, "end_ns": end_ns},
        )
    if inputs.mean_ns is None:
        return None
    least_ns, most_ns = _bound_mean(inputs)
    if (
        least_ns * (1 - MEAN_WITHIN) - _MEAN_NOISE_NS
        <= inputs.mean_ns
        <= most_ns * (1 + MEAN_WITHIN) + _MEAN_NOISE_NS
    ):
        return None
    return Badge(
        "inconsistent",
        f"The mean latency {format_time(inputs.mean_ns)} contradicts minimum, maximum and percentiles, which allow"
        f" {format_time(least_ns)} to {format_time(most_ns)}: do not use the latencies.",
        {"mean_ns": inputs.mean_ns, "least_mean_ns": least_ns, "most_mean_ns": most_ns},
    )


def _bound_mean(inputs: ValidityInputs) -> tuple[float, float]:
    """Return the smallest and the largest mean of a distribution with these percentiles, minimum and maximum."""
    maximum_ns = math.inf if inputs.maximum_ns is None else inputs.maximum_ns
    before, before_ns, least_ns, most_ns = 0.0, inputs.minimum_ns or 0.0, 0.0, 0.0
    for percent, value_ns in (*inputs.percentiles, (100.0, maximum_ns)):
        least_ns += (percent - before) / 100 * before_ns
        most_ns += (percent - before) / 100 * value_ns if percent > before else 0.0
        before, before_ns = percent, value_ns
    return least_ns, most_ns


def _judge_steadiness(inputs: ValidityInputs) -> Badge | None:
    if inputs.is_steady is False:
        criterion = f" ({inputs.steady_criterion})" if inputs.steady_criterion else ""
        reached = f"; deviation {inputs.steady_deviation}" if inputs.steady_deviation else ""
        return Badge("not-steady", f"The configured steady state{criterion} was not attained{reached}.")
    found = inputs.steadiness
    if found is None:
        return None
    if found.excursion_share <= MOST_EXCURSION_SHARE and abs(found.slope_share) <= MOST_SLOPE_SHARE:
        return None
    return Badge(
        "not-steady",
        f"The trace ranges over {format_percent(found.excursion_share)} of its average and drifts by"
        f" {format_percent(abs(found.slope_share))}; SNIA allows {format_percent(MOST_EXCURSION_SHARE)} and"
        f" {format_percent(MOST_SLOPE_SHARE)}.",
        {"excursion_share": found.excursion_share, "slope_share": found.slope_share},
    )


def _judge_cpu(inputs: ValidityInputs) -> Badge | None:
    cpu_percent = inputs.cpu_percent
    if cpu_percent is None or cpu_percent < BUSY_CPU_PERCENT or inputs.is_polling is not False:
        return None
    return Badge(
        "cpu-bound",
        f"Each job used {format_count(cpu_percent)} % of a CPU: the CPU, not the storage, may be the limit.",
        {"cpu_percent": cpu_percent, "busy_percent": BUSY_CPU_PERCENT},
    )


def _judge_stalls(inputs: ValidityInputs) -> Badge | None:
    maximum_ns, tail_ns = inputs.maximum_ns, inputs.p99_99_ns
    is_known = inputs.samples is not None and not is_too_few(inputs.samples, 99.99)
    if is_known and maximum_ns and tail_ns and maximum_ns >= STALL_FACTOR * tail_ns:
        return Badge(
            "stalls",
            f"The slowest I/O took {format_time(maximum_ns)}, {format_count(maximum_ns / tail_ns)} times p99.99"
            f" ({format_time(tail_ns)}): the storage stalled (throttling, garbage collection, snapshot or reset).",
            {"maximum_ns": maximum_ns, "p99_99_ns": tail_ns},
        )
    variation = inputs.bandwidth_variation
    if variation is None or variation <= MOST_BANDWIDTH_VARIATION:
        return None
    if (inputs.bandwidth_samples or 0) < LEAST_BANDWIDTH_SAMPLES:
        return None
    if (inputs.ios_per_sample or 0) < LEAST_IOS_PER_SAMPLE:
        return None
    return Badge(
        "stalls",
        f"Bandwidth varied by {format_percent(variation)} (standard deviation to mean over"
        f" {format_count(inputs.bandwidth_samples or 0)} samples): the mean hides fast and slow periods.",
        {"bandwidth_variation": variation, "most_variation": MOST_BANDWIDTH_VARIATION},
    )


def _judge_samples(inputs: ValidityInputs) -> Badge | None:
    samples = inputs.samples
    few = [percent for percent in inputs.percents if is_too_few(samples, percent)]
    if samples is None or not few:
        return None
    names = ", ".join(f"p{percent:g}" for percent in few)
    counted = f"at most {format_count(samples)}" if inputs.is_sample_limit else format_count(samples)
    return Badge(
        "few-samples",
        f"Fewer than {LEAST_BEYOND} of {counted} samples are above {names}: hidden, not statistically meaningful.",
        {"samples": samples} | {f"beyond_p{percent:g}": count_beyond(samples, percent) for percent in few},
    )


def _judge_raid(inputs: ValidityInputs) -> Badge | None:
    parts = []
    if inputs.members_missing:
        parts.append(f"missing members: {inputs.members_missing}")
    if inputs.sync_action:
        parts.append(f"{inputs.sync_action} in progress")
    if inputs.raid_state:
        parts.append(f"state “{inputs.raid_state}”")
    if not parts:
        return None
    numbers = {"members_missing": inputs.members_missing} if inputs.members_missing else {}
    return Badge("degraded-raid", f"RAID array degraded during the run ({', '.join(parts)}).", numbers)


def _judge_load(inputs: ValidityInputs) -> Badge | None:
    load, cpus, percent = inputs.load, inputs.cpu_count, inputs.other_io_percent
    parts: list[str] = []
    numbers: dict[str, float] = {}
    if load is not None and cpus and load > cpus:
        parts.append(f"the load was {format_count(load)} on {cpus} CPUs")
        numbers |= {"load": load, "cpu_count": cpus}
    if percent is not None and percent >= OTHER_IO_PERCENT:
        parts.append(f"other I/O kept the storage {format_percent(percent / 100)} busy")
        numbers |= {"other_io_percent": percent}
    if not parts:
        return None
    return Badge(
        "busy", f"Before the run, {' and '.join(parts)}: the storage was not measured alone.", numbers
    )


def _judge_burst(inputs: ValidityInputs) -> Badge | None:
    """Find rates that burst credits alone explain; volumes merge small sequential I/Os, so that their IOPS do not."""
    if not inputs.is_direct or inputs.cached_by:
        return None
    iops, bandwidth = inputs.all_iops if inputs.is_random else None, inputs.all_bytes_per_s
    for limit in inputs.sustained:
        for rate, least, scale, unit in (
            (iops, limit.iops, 1.0, "IOPS"),
            (bandwidth, limit.bandwidth_bytes_per_s, 1e6, "MB/s"),
        ):
            if rate is not None and least is not None and rate > BURST_FACTOR * least:
                return Badge(
                    "above-baseline",
                    f"{format_count(rate / scale)} {unit} exceed the {format_count(least / scale)} {unit} that"
                    f" {limit.name} sustains: burst credits served the rest, until they are spent.",
                    {"rate": rate, "sustained": least},
                )
    return None


def _judge_memory_filesystem(inputs: ValidityInputs) -> Badge | None:
    if not inputs.memory_filesystem:
        return None
    return Badge(
        "memory-filesystem",
        f"The files were in memory ({inputs.memory_filesystem}): the values are those of memory, not of storage.",
    )


def _judge_targets(inputs: ValidityInputs) -> Badge | None:
    count = len(inputs.targets)
    if count < 2:
        return None
    names = join_first(inputs.targets, TARGETS_NAMED)
    sentence = (
        f"{count} targets have the name {inputs.stated_name} and one series: {names}. Its level may be that of none."
        if inputs.stated_name
        else f"The job opened {count} targets: {names}. The values are of all together."
    )
    return Badge(SEVERAL_TARGETS, sentence, {"targets": count})


_OF_ANY_JOB: Final = (_judge_targets, _judge_memory_filesystem, _judge_raid, _judge_load, _judge_samples)
_OF_A_WHOLE_JOB: Final = (
    _judge_consistency,
    _judge_flight,
    _judge_cache,
    _judge_duration,
    _judge_burst,
    _judge_steadiness,
    _judge_cpu,
    _judge_stalls,
)
