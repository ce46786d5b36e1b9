"""Collect the inputs of the validity rules from the fio report and its context.

Facts of the environment that senders can provide:
- `md`: {`degraded`: number of missing members, `sync_action`: of the md array, as in sysfs}
- `memory_filesystem`: tmpfs, ramfs or a RAM disk that holds the files, also below an overlay or loop device
- `raid_state`: state reported by btrfs, ZFS or a hardware controller: "optimal", or one of RAID_TROUBLES
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from benchapp.catalog.metrics import PERCENTILES
from benchapp.fio.merging.directions import did_io, is_saturated
from benchapp.fio.report import Direction, Document, Group, Job, Latency, Samples, SteadyState
from benchapp.fio.workload import WorkloadSpec, parse_size
from benchapp.framework.read.limits import read_known_limits
from benchapp.series.validity.rules import RunFailure, Steadiness, SustainedRate, ValidityInputs, format_size


def _split(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_NONE: Final[Mapping[str, Any]] = {}
# Values of sync_action of an md array that is busy; the others are "idle" and "frozen".
_SYNC_ACTIONS: Final = frozenset({"resync", "recover", "reshape", "check", "repair"})
RAID_TROUBLES: Final = frozenset(
    {"degraded", "partially degraded", "rebuilding", "recovering"}
    | {"resyncing", "reshaping", "failed", "offline"}
)
_NETWORK_FILESYSTEMS: Final = frozenset(
    _split(
        "nfs nfs4 cifs smb3 9p virtiofs ceph glusterfs lustre gpfs beegfs afs gfs2 ocfs2"
        " fuse.glusterfs fuse.sshfs fuse.s3fs fuse.ceph fuse.juicefs fuse.mfs"
    )
)
_MEMORY_FILESYSTEMS: Final = frozenset({"tmpfs", "ramfs"})
# What answers direct I/O may be the cache of another process or of the host of a virtual machine.
_CACHED_FILESYSTEMS: Final = frozenset({"9p", "virtiofs", "fuse", "fuseblk"})
# OpenZFS, release notes of 2.3.0: until then O_DIRECT is accepted and ignored.
_ZFS_DIRECT: Final = (2, 3)
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})")
_RAM_DISK: Final = re.compile(r"z?ram\d{1,4}")
# Prefixes of volume types that are attached over a network.
_NETWORK_VOLUMES: Final = _split(
    "gp2 gp3 io1 io2 st1 sc1 ebs pd- hyperdisk premium_ premiumv2 standard_ standardssd ultrassd"
    " nfs efs iscsi rbd ceph cinder longhorn nvme-of nvmeof"
)
_MEMORY_VOLUMES: Final = _split("pmem ram nvdimm tmpfs")


@dataclass(frozen=True, slots=True)
class RunContext:
    """Inputs that all measurements of one run share.

    jobs: by index in the document. has_precise_values: False if the format rounds. failure: of the run, if it failed.
    targets: those of one measurement or series, if several; stated_name: that the sender gave to all of them.
    """

    format: str
    has_precise_values: bool
    jobs: Mapping[int, Job]
    memory_bytes: int | None
    storage: Literal["network", "memory"] | None
    members_missing: int | None
    sync_action: str
    raid_state: str
    memory_filesystem: str
    cached_by: str
    load: float | None
    cpu_count: int | None
    other_io_percent: float | None
    sustained: tuple[SustainedRate, ...]
    failure: RunFailure | None = None
    targets: tuple[str, ...] = ()
    stated_name: str = ""
    target_name: str | None = None


def read_run_context(
    document: Document,
    *,
    environment: Mapping[str, Any],
    target: Mapping[str, Any],
    conditions: Mapping[str, Any] = _NONE,
    failure: RunFailure | None = None,
) -> RunContext:
    """Return the shared inputs of a run; environment, target and conditions as sent."""
    facts = environment.get("facts") or {}
    md = _read_facts(facts, "md")
    missing, action = str(md.get("degraded") or ""), str(md.get("sync_action") or "").lower()
    state = str(facts.get("raid_state") or "").strip().lower()
    return RunContext(
        format=document.format,
        has_precise_values=document.has_precise_values,
        jobs={job.index: job for job in document.jobs},
        memory_bytes=environment.get("memory_bytes"),
        storage=_find_storage(environment, target),
        members_missing=int(missing)
        if missing.isascii() and missing.isdigit() and len(missing) < 6
        else None,
        sync_action=action if action in _SYNC_ACTIONS else "",
        raid_state=state if state in RAID_TROUBLES else "",
        memory_filesystem=_find_memory_filesystem(facts, target),
        cached_by=_find_cache(facts, target),
        load=_read_number(conditions.get("load_before")),
        cpu_count=environment.get("cpu_count"),
        other_io_percent=_read_number(_read_facts(conditions, "other_io_before").get("busy_percent")),
        sustained=tuple(_list_sustained(environment, target)),
        failure=failure,
    )


def describe_other(
    context: RunContext,
    environment: Mapping[str, Any],
    *,
    target: Mapping[str, Any],
    entry: Mapping[str, Any],
) -> RunContext:
    """Return the context of a target that the facts of the environment are not about; entry: what the agent sent."""
    facts = {"memory_filesystem": entry["memory_filesystem"]}
    own = {**environment, "device_model": (entry["device"] or {}).get("model"), "facts": facts}
    return replace(
        context,
        storage=_find_storage(own, target),
        members_missing=None,
        sync_action="",
        raid_state="",
        memory_filesystem=_find_memory_filesystem(facts, target),
        cached_by=_find_cache(facts, target),
        sustained=tuple(_list_sustained(own, target)),
    )


def _list_sustained(environment: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[SustainedRate]:
    """Yield what volumes and instance sustain without burst credits, as far as it is published."""
    known = read_known_limits()
    is_array = target.get("raid_level") or target.get("stripe_count")
    size, count = target.get("volume_size_bytes"), target.get("volume_count") or (0 if is_array else 1)
    volume = known.get((False, (target.get("volume_type") or "").lower()))
    if volume and volume.depends_on_size and size and count:
        each = volume.at_size(size)
        rates = (each.iops, each.bandwidth_bytes_per_s)
        name = f"{volume.name} of {format_size(size)}{f' × {count}' if count > 1 else ''}"
        yield SustainedRate(name, *(None if rate is None else rate * count for rate in rates))
    instance = known.get((True, (target.get("instance_type") or "").lower()))
    if instance and instance.sustained_iops and (volume or _is_block_store(environment)):
        yield SustainedRate(instance.name, instance.sustained_iops, instance.sustained_bandwidth_bytes_per_s)


def _is_block_store(environment: Mapping[str, Any]) -> bool:
    return "elastic block store" in (environment.get("device_model") or "").lower()


def _add_rates(group: Group) -> dict[str, Any]:
    parts = _list_parts(group.directions)
    iops = [part.iops for part in parts if part.iops is not None]
    bandwidths = [part.bandwidth_bytes_per_s for part in parts if part.bandwidth_bytes_per_s is not None]
    return {"all_iops": sum(iops), "all_bytes_per_s": sum(bandwidths)}


def _find_memory_filesystem(facts: Mapping[str, Any], target: Mapping[str, Any]) -> str:
    for name in (target.get("filesystem"), facts.get("memory_filesystem")):
        text = str(name or "").lower()
        if text in _MEMORY_FILESYSTEMS or _RAM_DISK.fullmatch(text):
            return text
    return ""


def _read_number(value: object) -> float | None:
    text = str(value)
    return float(text) if _NUMBER.fullmatch(text) else None


def _find_cache(facts: Mapping[str, Any], target: Mapping[str, Any]) -> str:
    """Return what caches direct I/O: a filesystem or a loop device; "" if nothing does."""
    filesystem = (target.get("filesystem") or "").lower()
    if filesystem == "zfs":
        version = _VERSION.match(str(_read_facts(facts, "zfs").get("version") or ""))
        honors_direct = version is not None and (int(version[1]), int(version[2])) >= _ZFS_DIRECT
        return "" if honors_direct else "ZFS (before 2.3)"
    if filesystem in _CACHED_FILESYSTEMS or filesystem.startswith("fuse."):
        return filesystem
    loops = (loop for loop in _read_facts(facts, "loop").values() if isinstance(loop, Mapping))
    return "a loop device" if any(str(loop.get("direct_io")) == "0" for loop in loops) else ""


def _read_facts(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {}


def _find_storage(
    environment: Mapping[str, Any], target: Mapping[str, Any]
) -> Literal["network", "memory"] | None:
    filesystem = (target.get("filesystem") or "").lower()
    volume = (target.get("volume_type") or "").lower()
    mount_options = (target.get("mount_options") or "").lower().split(",")
    if filesystem in _MEMORY_FILESYSTEMS or volume.startswith(_MEMORY_VOLUMES) or "dax" in mount_options:
        return "memory"
    if (
        _is_block_store(environment)
        or filesystem in _NETWORK_FILESYSTEMS
        or volume.startswith(_NETWORK_VOLUMES)
    ):
        return "network"
    return None


# Options that keep fio from filling its queue, by the canonical names of WorkloadSpec.extra.
_THROTTLES: Final = frozenset(
    {"rate", "rate_iops", "rate_process", "thinktime", "thinkcycles", "latency_target", "flow", "read_iolog"}
    | {"iodepth_batch", "iodepth_batch_complete_min", "iodepth_batch_complete_max", "iodepth_low"}
    | {"serialize_overlap", "fsync", "fdatasync", "sync_file_range", "max_open_zones"}
)
_QUEUED: Final = ("read", "write", "trim", "mixed")
_FLUSHES: Final = frozenset({"sync", "fsync", "fdatasync", "sync_file_range"})
_POLLS: Final = frozenset({"hipri", "hipri_percentage", "sqthread_poll", "thinktime_spin"})
_POLLING_ENGINES: Final = frozenset({"spdk", "spdk_bdev", "libblkio", "cpuio", "dev-dax", "libpmem"})
# Engines that poll if an option asks for it.
_ENGINES_THAT_MAY_POLL: Final = frozenset({"io_uring", "io_uring_cmd", "pvsync2"})


def collect_validity_inputs(
    context: RunContext,
    group: Group,
    direction: Direction,
    *,
    spec: WorkloadSpec,
    latency: Latency | None,
    steadiness: Steadiness | None = None,
) -> ValidityInputs:
    """Return the inputs for one direction of a group; None is unknown.

    latency: the distribution of the metrics; steadiness: of the direction's log, if any.
    """
    failure = None if group.error else context.failure
    if context.format == "time":
        # The shell's time has only a duration: no queue, device or samples.
        return ValidityInputs(error=group.error, failure=failure, memory_filesystem=context.memory_filesystem)
    jobs = [context.jobs[index] for index in group.jobs if index in context.jobs]
    is_read = direction.name == "read"
    return ValidityInputs(
        error=group.error,
        failure=failure,
        did_io=did_io(direction),
        target_name=context.target_name,
        iops=direction.iops,
        bandwidth_bytes_per_s=direction.bandwidth_bytes_per_s,
        runtime_s=direction.runtime_s,
        engine=spec.engine if group.options else "",
        storage=context.storage,
        is_direct=spec.is_direct,
        is_random=spec.rw.startswith("rand") if group.options else None,
        waits_for_media=_waits_for_media(direction, spec),
        file_bytes=None if _may_hide_jobs(jobs) else _count_file_bytes(group, spec),
        reads_each_byte_once=_reads_each_byte_once(direction, spec, has_all_options=group.has_all_options),
        memory_bytes=context.memory_bytes,
        read_mean_ns=_find_total_mean(direction) if is_read else None,
        read_p50_ns=_find_total_median(direction) if is_read else None,
        steadiness=steadiness,
        numjobs=group.numjobs,
        cpu_percent=_average_cpu(jobs),
        is_polling=_is_polling(group, spec),
        members_missing=context.members_missing,
        sync_action=context.sync_action,
        raid_state=context.raid_state,
        memory_filesystem=context.memory_filesystem,
        cached_by=context.cached_by,
        load=context.load,
        cpu_count=context.cpu_count,
        other_io_percent=context.other_io_percent,
        sustained=context.sustained,
        targets=context.targets,
        stated_name=context.stated_name,
        **_add_rates(group),
        **_describe_queue(group, jobs, spec),
        **_describe_steady_state(jobs),
        **_describe_samples(context, direction, latency),
    )


def _describe_queue(group: Group, jobs: Sequence[Job], spec: WorkloadSpec) -> dict[str, Any]:
    is_known = not _may_hide_jobs(jobs) and (group.iodepth or _reports(group, "iodepth"))
    slots = (spec.iodepth or 0) * spec.numjobs if is_known and spec.numjobs else None
    ios = [part.total_ios for part in _list_parts(group.directions) if part.total_ios]
    return {
        "in_flight": _count_in_flight(group, jobs),
        "slots": slots,
        "ios_per_slot": sum(ios) / slots if slots and ios else None,
        "is_throttled": _is_throttled(group, jobs, spec),
    }


def _is_throttled(group: Group, jobs: Iterable[Job], spec: WorkloadSpec) -> bool | None:
    if not _THROTTLES.isdisjoint(spec.extra):
        return True
    # fio divides sums by the longest runtime: clones that ended earlier did not use their slots until then.
    may_end_apart = not spec.is_time_based and any(job.clones > 1 for job in jobs)
    # The header of a text report does not list all options: an omitted one may be a limit.
    return False if group.has_all_options and not may_end_apart else None


def _describe_steady_state(jobs: Iterable[Job]) -> dict[str, Any]:
    found: list[SteadyState] = [job.steady_state for job in jobs if job.steady_state]
    if not found:
        return {}
    worst = min(found, key=lambda state: state.is_attained)
    return {
        "is_steady": worst.is_attained,
        "steady_criterion": worst.criterion,
        "steady_deviation": worst.deviation,
    }


def _describe_samples(context: RunContext, direction: Direction, latency: Latency | None) -> dict[str, Any]:
    percentiles = dict(latency.percentiles) if latency else {}
    samples: Samples | None = direction.bandwidth_samples
    count = samples.count if samples else None
    counted = _count_samples(direction, latency)
    most = None if counted is not None or latency is None else _limit_samples(context, direction)
    return {
        "samples": most if counted is None else counted,
        "is_sample_limit": most is not None,
        "percents": tuple(percent for percent in PERCENTILES.values() if percent in percentiles),
        "mean_ns": latency.mean_ns if latency else None,
        "minimum_ns": latency.minimum_ns if latency else None,
        "maximum_ns": latency.maximum_ns if latency else None,
        "percentiles": tuple(percentiles.items()) if context.has_precise_values else (),
        "saturated": next((pair for pair in percentiles.items() if is_saturated(pair[1])), None),
        "p99_99_ns": percentiles.get(99.99),
        "bandwidth_variation": samples.stddev / samples.mean if samples and samples.mean > 0 else None,
        "bandwidth_samples": count,
        "ios_per_sample": direction.total_ios / count if count and direction.total_ios else None,
    }


def _count_samples(direction: Direction, latency: Latency | None) -> int | None:
    """Return the sample count of a distribution; the I/Os if an old fio version does not print it."""
    if latency is None:
        return None
    return direction.total_ios if latency.count is None else latency.count


def _limit_samples(context: RunContext, direction: Direction) -> int | None:
    """Return the maximum number of I/Os: without a count, fio truncates IOPS to a whole number."""
    # Less than one per second is truncated to nothing; text reports round to a few digits.
    iops = 0.0 if direction.missing.get("iops") == "not-in-format" else direction.iops
    if iops is None or not direction.runtime_s or not context.has_precise_values:
        return None
    return int((iops + 1) * direction.runtime_s)


def _may_hide_jobs(jobs: Iterable[Job]) -> bool:
    return any(job.may_hide_jobs for job in jobs)


def _waits_for_media(direction: Direction, spec: WorkloadSpec) -> bool:
    """Return whether the page cache cannot complete the I/O: trims, flushes, and writes that are flushed."""
    if direction.name in ("write", "mixed"):
        return not _FLUSHES.isdisjoint(spec.extra)
    return direction.name != "read"


def _is_polling(group: Group, spec: WorkloadSpec) -> bool | None:
    if spec.engine in _POLLING_ENGINES or not _POLLS.isdisjoint(spec.extra):
        return True
    return None if not group.has_all_options and spec.engine in _ENGINES_THAT_MAY_POLL else False


def _reports(group: Group, *options: str) -> bool:
    """Return whether the report would list one of these options if it was set."""
    if not group.options:
        return False
    return group.has_all_options or any(name in group.options for name in options)


def _count_file_bytes(group: Group, spec: WorkloadSpec) -> int | None:
    """Return the size of all files of the group: each clone has its own files, unless a filename is set."""
    size = spec.file_size_bytes
    if not size:
        return None
    of_one_file = parse_size(group.options.get("filesize", ""))
    files = parse_size(group.options.get("nrfiles", "")) or 1
    if of_one_file and group.options.get("size"):
        size = min(size, of_one_file * files)
    if group.options.get("filename"):
        return size
    return size * spec.numjobs if spec.numjobs else None


def _reads_each_byte_once(direction: Direction, spec: WorkloadSpec, *, has_all_options: bool) -> bool:
    """Return whether a job read its file once, after fio dropped it from the page cache (invalidate=1, the default)."""
    is_one_pass = spec.rw == "read" and spec.numjobs == 1 and not spec.is_time_based and has_all_options
    if not is_one_pass or "invalidate" in spec.extra or "loops" in spec.extra:
        return False
    return 0 < (direction.io_bytes or 0) <= (spec.file_size_bytes or 0)


def _list_parts(directions: Iterable[Direction]) -> list[Direction]:
    """Return the directions that share the queue, each I/O once: "mixed" contains read and write."""
    active = [part for part in directions if part.name in _QUEUED and part.total_ios]
    return [part for part in active if part.name == "mixed"] or active


def _count_in_flight(group: Group, jobs: Sequence[Job]) -> float | None:
    """Return the sum of IOPS × mean latency over entries, whose runtimes differ."""
    # Unknown if clones of the group are missing from the report.
    if len(jobs) < len(group.jobs) or not _list_parts(group.directions):
        return None
    in_flight = 0.0
    for part in [part for job in jobs for part in _list_parts(job.directions)]:
        mean_ns = _find_total_mean(part)
        if part.iops is None or mean_ns is None:
            return None
        in_flight += part.iops * mean_ns / 1e9
    return in_flight or None


def _find_total_mean(direction: Direction) -> float | None:
    """Return the mean latency from submission to completion: buffered I/O waits at submission."""
    if direction.total is not None:
        return direction.total.mean_ns
    return _add_submission(direction, direction.completion.mean_ns if direction.completion else None)


def _find_total_median(direction: Direction) -> float | None:
    if direction.total is not None and direction.total.percentiles:
        return dict(direction.total.percentiles).get(50.0)
    completion = direction.completion
    return _add_submission(direction, dict(completion.percentiles).get(50.0) if completion else None)


def _add_submission(direction: Direction, completion_ns: float | None) -> float | None:
    submission = direction.submission
    if completion_ns is None or submission is None:
        return completion_ns
    return completion_ns + (submission.mean_ns or 0.0)


def _average_cpu(jobs: Sequence[Job]) -> float | None:
    """Return user and system time of one job in percent: fio prints the average over the clones of an entry.

    None for several entries if one may hide jobs, because their weights are unknown.
    """
    if len(jobs) > 1 and _may_hide_jobs(jobs):
        return None
    total, clones = 0.0, 0
    for job in jobs:
        if job.cpu_user_percent is None or job.cpu_system_percent is None:
            return None
        total += (job.cpu_user_percent + job.cpu_system_percent) * job.clones
        clones += job.clones
    return total / clones if clones else None
