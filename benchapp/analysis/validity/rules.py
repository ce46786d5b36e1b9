"""How far to trust a measurement: rules of thumb of people who measure storage, each with its source.

An unknown is never held against a measurement: a rule that lacks one of its numbers says nothing. docs/validity.md
tells the same to readers.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final

from benchapp.analysis.validity.badges import Badge, say_count, say_percent, say_size, say_time
from benchapp.analysis.validity.inputs import (
    ASYNCHRONOUS_ENGINES,
    IDLE_ENGINES,
    NETWORK_ENGINES,
    PAGE_CACHED_ENGINES,
    Steadiness,
    ValidityInputs,
)

__all__ = ["Badge", "Steadiness", "ValidityInputs", "count_beyond", "is_too_few", "judge_validity"]

# s. What is ranked runs 60 to 300 s in the recipes of clouds and vendors; below half a minute bursts and caches decide.
SHORTEST_S: Final = 30.0
# Times the memory. Practitioners' rule: smaller files stay in the page cache for the better part.
CACHE_FACTOR: Final = 2.0
# ns. Practitioners' rule: through a block layer no device's reads come back in less than this on average.
FASTEST_MEAN_NS: Final = 5_000.0
# ns. The same where fio polls for completions, which spares the interrupt. Our own judgement: polled reads of Optane
# take 4.5 µs with direct io_uring, and no device that we know of less than half of that.
FASTEST_POLLED_MEAN_NS: Final = 2_000.0
# ns. The same for storage behind a network, where a round trip alone takes longer.
FASTEST_NETWORK_P50_NS: Final = 10_000.0
# In flight to slots. Measured on 3 400 jobs of asynchronous engines, fio 2.18 to 3.36: median 0.997, p5 0.94, p1 0.82,
# most 1.000.
LEAST_IN_FLIGHT_SHARE: Final = 0.85
MOST_IN_FLIGHT_SHARE: Final = 1.02
# I/Os per slot. Below this the first and the last fill of the queue weigh more than a hundredth.
LEAST_IOS_PER_SLOT: Final = 100
# Of the average over the window. SNIA Solid State Storage Performance Test Specification 2.0: data and slope excursion.
MOST_EXCURSION_SHARE: Final = 0.20
MOST_SLOPE_SHARE: Final = 0.10
# Per cent of one CPU, user and system. "Near 100": fio counts the seconds of setting up and reaping, too.
BUSY_CPU_PERCENT: Final = 95.0
# Samples beyond a percentile: with fewer it moves by chance alone (1/sqrt(10) is a third).
LEAST_BEYOND: Final = 10
# 100 − 99.9 is 0.0999…: the noise of doubles must not decide about exactly 10 000 samples.
_NOISE: Final = 1e-6
# Times p99.99, and stdev/mean of fio's bandwidth samples: single stalls stand out of any distribution seen so far.
STALL_FACTOR: Final = 100.0
MOST_BANDWIDTH_VARIATION: Final = 0.2
# Samples of 500 ms, and I/Os in each: below these the variation is that of counting, not of the storage.
LEAST_BANDWIDTH_SAMPLES: Final = 20
LEAST_IOS_PER_SAMPLE: Final = 100


def judge_validity(evidence: ValidityInputs) -> tuple[Badge, ...]:
    """Return the badges that a measurement earns, at most one of each code; none where nothing speaks against it.

    Of a failed job only what does not depend on its course is judged besides.
    """
    return tuple(_find_badges(evidence))


def is_too_few(samples: int | None, percent: float) -> bool:
    """Say whether fewer than 10 of so many samples are expected beyond a percentile (0 to 100); unknown is not few."""
    return samples is not None and samples * (100 - percent) / 100 < LEAST_BEYOND - _NOISE


def count_beyond(samples: int, percent: float) -> float:
    """Return how many of so many samples are expected beyond a percentile (0 to 100)."""
    return round(samples * (100 - percent) / 100, 6)


def _find_badges(evidence: ValidityInputs) -> Iterator[Badge]:
    if evidence.error:
        yield _describe_failure(evidence.error)
    rules: tuple[Callable[[ValidityInputs], Badge | None], ...] = ()
    if not evidence.error:
        rules = (_judge_duration,) if evidence.engine in IDLE_ENGINES else _OF_A_WHOLE_JOB
    for judge in (*rules, *_OF_ANY_JOB):
        badge = judge(evidence)
        if badge is not None:
            yield badge


def _describe_failure(error: int) -> Badge:
    return Badge(
        "failed-job",
        f"fio ended the job with error {error} ({os.strerror(error)}): what it printed is not the whole test"
        " and counts in no median.",
        {"error": error},
    )


def _judge_duration(evidence: ValidityInputs) -> Badge | None:
    runtime_s = evidence.runtime_s
    if runtime_s is None or runtime_s >= SHORTEST_S:
        return None
    return Badge(
        "too-short",
        f"It ran {say_time(runtime_s * 1e9)}; below {SHORTEST_S:.0f} s caches, burst credits and chance decide.",
        {"runtime_s": runtime_s, "least_runtime_s": SHORTEST_S},
    )


def _judge_cache(evidence: ValidityInputs) -> Badge | None:
    return _judge_page_cache(evidence) or _judge_read_latency(evidence)


def _judge_page_cache(evidence: ValidityInputs) -> Badge | None:
    file_bytes, memory_bytes = evidence.file_bytes, evidence.memory_bytes
    if evidence.is_direct is not False or evidence.engine not in PAGE_CACHED_ENGINES:
        return None
    # fio drops the cache of its files before it starts: what is read once comes from the storage.
    if evidence.reads_each_byte_once:
        return None
    if evidence.waits_for_media or not file_bytes or not memory_bytes:
        return None
    if file_bytes >= CACHE_FACTOR * memory_bytes:
        return None
    return Badge(
        "cached",
        f"The I/O was not direct, and its {say_size(file_bytes)} of files are less than twice the host's"
        f" {say_size(memory_bytes)} of memory: the page cache may have answered instead of the storage.",
        {"file_bytes": file_bytes, "memory_bytes": memory_bytes, "least_factor": CACHE_FACTOR},
    )


def _judge_read_latency(evidence: ValidityInputs) -> Badge | None:
    """Doubt reads that are faster than the device can be; read-ahead explains buffered sequential ones."""
    if evidence.storage == "memory" or evidence.engine not in PAGE_CACHED_ENGINES | NETWORK_ENGINES:
        return None
    if not evidence.is_direct and not evidence.is_random:
        return None
    mean_ns, p50_ns = evidence.read_mean_ns, evidence.read_p50_ns
    # Only direct I/O is polled for; buffered I/O takes the option and ignores it.
    may_poll = evidence.is_polling is not False and evidence.is_direct is not False
    least_ns = FASTEST_POLLED_MEAN_NS if may_poll else FASTEST_MEAN_NS
    if mean_ns is not None and 0 < mean_ns < least_ns:
        return Badge(
            "cached",
            f"Reads took {say_time(mean_ns)} on average, and no storage answers within {say_time(least_ns)}:"
            " some cache did.",
            {"read_mean_ns": mean_ns, "least_mean_ns": least_ns},
        )
    is_network = evidence.storage == "network" or evidence.engine in NETWORK_ENGINES
    if is_network and p50_ns is not None and 0 < p50_ns < FASTEST_NETWORK_P50_NS:
        return Badge(
            "cached",
            f"Half of the reads took at most {say_time(p50_ns)}, and no network answers within"
            f" {say_time(FASTEST_NETWORK_P50_NS)}: some cache on the host did.",
            {"read_p50_ns": p50_ns, "least_p50_ns": FASTEST_NETWORK_P50_NS},
        )
    return None


def _judge_flight(evidence: ValidityInputs) -> Badge | None:
    """Apply Little's law: a full queue holds iodepth × numjobs I/Os, so that IOPS × latency must be near it."""
    in_flight, slots = evidence.in_flight, evidence.slots
    if in_flight is None or not slots or evidence.engine not in ASYNCHRONOUS_ENGINES:
        return None
    if evidence.ios_per_slot is None or evidence.ios_per_slot < LEAST_IOS_PER_SLOT:
        return None
    share = in_flight / slots
    numbers = {"in_flight": in_flight, "slots": slots, "share": share}
    said = f"IOPS × mean latency says that {say_count(in_flight)} I/Os were in flight"
    if share > MOST_IN_FLIGHT_SHARE:
        return Badge(
            "littles-law",
            f"{said}, more than the {say_count(slots)} that iodepth × numjobs allows: a unit was misread or jobs"
            " were counted twice. Do not use these numbers.",
            numbers,
        )
    if share >= LEAST_IN_FLIGHT_SHARE or evidence.is_throttled is not False:
        return None
    # io_uring hands buffered I/O to its workers; the others block where they should only submit.
    is_blocking = evidence.is_direct is False and not evidence.engine.startswith("io_uring")
    cause = (
        f"buffered I/O makes {evidence.engine} wait for each one, so that iodepth did nothing"
        if is_blocking
        else "fio, the CPU or the file system was the limit, not the storage"
    )
    return Badge(
        "littles-law",
        f"{said}, {say_percent(share)} of the {say_count(slots)} of iodepth × numjobs: {cause}.",
        numbers,
    )


def _judge_steadiness(evidence: ValidityInputs) -> Badge | None:
    if evidence.is_steady is False:
        asked = f" ({evidence.steady_criterion})" if evidence.steady_criterion else ""
        reached = f"; it came to {evidence.steady_deviation}" if evidence.steady_deviation else ""
        return Badge(
            "not-steady", f"The steady state that fio was asked for{asked} was not attained{reached}."
        )
    found = evidence.steadiness
    if found is None:
        return None
    if found.excursion_share <= MOST_EXCURSION_SHARE and abs(found.slope_share) <= MOST_SLOPE_SHARE:
        return None
    return Badge(
        "not-steady",
        f"Over the run's log the values lie {say_percent(found.excursion_share)} of their average apart and drift by"
        f" {say_percent(abs(found.slope_share))}; SNIA allows {say_percent(MOST_EXCURSION_SHARE)} and"
        f" {say_percent(MOST_SLOPE_SHARE)}.",
        {"excursion_share": found.excursion_share, "slope_share": found.slope_share},
    )


def _judge_cpu(evidence: ValidityInputs) -> Badge | None:
    cpu_percent = evidence.cpu_percent
    if cpu_percent is None or cpu_percent < BUSY_CPU_PERCENT or evidence.is_polling is not False:
        return None
    return Badge(
        "cpu-bound",
        f"Each job kept a CPU {say_count(cpu_percent)} % busy: it could not have asked for more,"
        " whatever the storage can do.",
        {"cpu_percent": cpu_percent, "busy_percent": BUSY_CPU_PERCENT},
    )


def _judge_stalls(evidence: ValidityInputs) -> Badge | None:
    maximum_ns, tail_ns = evidence.maximum_ns, evidence.p99_99_ns
    is_known = evidence.samples is not None and not is_too_few(evidence.samples, 99.99)
    if is_known and maximum_ns and tail_ns and maximum_ns >= STALL_FACTOR * tail_ns:
        return Badge(
            "stalls",
            f"The slowest I/O took {say_time(maximum_ns)}, {say_count(maximum_ns / tail_ns)} times p99.99"
            f" ({say_time(tail_ns)}): the storage stood still (throttling, garbage collection, a snapshot, a reset).",
            {"maximum_ns": maximum_ns, "p99_99_ns": tail_ns},
        )
    variation = evidence.bandwidth_variation
    if variation is None or variation <= MOST_BANDWIDTH_VARIATION:
        return None
    if (evidence.bandwidth_samples or 0) < LEAST_BANDWIDTH_SAMPLES:
        return None
    if (evidence.ios_per_sample or 0) < LEAST_IOS_PER_SAMPLE:
        return None
    return Badge(
        "stalls",
        f"Bandwidth varied by {say_percent(variation)} (standard deviation to mean over"
        f" {say_count(evidence.bandwidth_samples or 0)} samples): the mean hides fast and slow stretches.",
        {"bandwidth_variation": variation, "most_variation": MOST_BANDWIDTH_VARIATION},
    )


def _judge_samples(evidence: ValidityInputs) -> Badge | None:
    samples = evidence.samples
    few = [percent for percent in evidence.percents if is_too_few(samples, percent)]
    if samples is None or not few:
        return None
    names = ", ".join(f"p{percent:g}" for percent in few)
    said = f"at most {say_count(samples)}" if evidence.is_sample_limit else say_count(samples)
    return Badge(
        "few-samples",
        f"Fewer than {LEAST_BEYOND} of {said} samples lie beyond {names}: hidden, as chance decides it.",
        {"samples": samples} | {f"beyond_p{percent:g}": count_beyond(samples, percent) for percent in few},
    )


def _judge_raid(evidence: ValidityInputs) -> Badge | None:
    parts = []
    if evidence.members_missing:
        parts.append(f"{evidence.members_missing} of its members missing")
    if evidence.sync_action:
        parts.append(f"{evidence.sync_action} going on")
    if evidence.raid_state:
        parts.append(f"its state “{evidence.raid_state}”")
    if not parts:
        return None
    numbers = {"members_missing": evidence.members_missing} if evidence.members_missing else {}
    return Badge("degraded-raid", f"The RAID array was measured with {' and '.join(parts)}.", numbers)


_OF_ANY_JOB: Final = (_judge_raid, _judge_samples)
_OF_A_WHOLE_JOB: Final = (
    _judge_flight,
    _judge_cache,
    _judge_duration,
    _judge_steadiness,
    _judge_cpu,
    _judge_stalls,
)
