"""The requested workload, typed and canonical: the part of a series' identity that fio reports.

Further options define another workload: all except those known not to affect measurements. An unknown option
splits a series, which is visible; ignoring it would mix values that must not be compared.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from benchapp.fio.numbers import BIGINT_MAXIMUM, INTEGER_MAXIMUM
from benchapp.fio.redaction import is_secret_name, remove_secrets
from benchapp.fio.report import Group

_SIZE: Final = re.compile(r"(?:0x([0-9a-f]{1,16})|(\d{1,19})(?:([kmgtp])(i?)b?|b)?)", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,15})(d|h|m|s|sec|ms|msec|us|usec)?", re.ASCII)
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SECONDS: Final = {
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "sec": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
}


def parse_size(text: str, *, kb_base: int = 1024) -> int | None:
    """Return the bytes of "4k", "1GiB" or "0x1000"; None for per cent, expressions and anything else.

    On purpose, fio reverses the prefixes under its default kb_base=1024: 4k, 4KB and 4Ki are 4096, and 4KiB is
    4000. Under kb_base=1000 it is the other way round.
    """
    cleaned = text.strip().lower()
    match = _SIZE.fullmatch(cleaned)
    if match is None:
        return None
    hexadecimal, digits, prefix, binary = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    else:
        base = kb_base
        if binary and cleaned.endswith("b"):
            base = 1000 if kb_base == 1024 else 1024
        value = int(digits) * (base ** _POWERS[prefix] if prefix else 1)
    return value if value <= BIGINT_MAXIMUM else None


def parse_duration_s(text: str, *, unit: str = "s") -> float | None:
    """Return the seconds of "60", "1m" or "500ms"; a bare number counts in `unit`. None for anything else."""
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        return None
    digits, suffix = match.groups()
    return int(digits) * _SECONDS[suffix or unit]


_DIRECTIONS_ASKED: Final = {
    "read": ("read",),
    "randread": ("read",),
    "write": ("write",),
    "randwrite": ("write",),
    "trim": ("trim",),
    "randtrim": ("trim",),
    "rw": ("read", "write"),
    "readwrite": ("read", "write"),
    "randrw": ("read", "write"),
    "trimwrite": ("write", "trim"),
    "randtrimwrite": ("write", "trim"),
}

# The name of the entry in which fio adds up those of all servers.
AGGREGATE: Final = "All clients"


def overlay_options(of_all: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the effective options: the job's own win."""
    return {**of_all, **own} if of_all else own


def list_directions_asked(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directions that rw asks for; empty without rw, as in reports before 2.3."""
    # unified_rw_reporting prints "mixed" alone.
    if options.get("unified_rw_reporting") in ("1", "mixed"):
        return ("mixed",)
    rw = options.get("rw", "")
    return _DIRECTIONS_ASKED.get(rw) or _DIRECTIONS_ASKED.get(rw.partition(":")[0], ())


def count_jobs_asked(options: Mapping[str, str]) -> int | None:
    """Return numjobs; None if the options have none, as those of the global section before 3.4."""
    text = options.get("numjobs")
    count = parse_size(text) if text else None
    return count if count and count <= INTEGER_MAXIMUM else None


def is_set(options: Mapping[str, str], name: str) -> bool:
    """Return whether a flag is given and not switched off; from 3.39 a bare flag is listed with an empty value."""
    return options.get(name, "0").strip().lower() not in ("0", "false", "no")


_DEFAULT: Final = "4096"
# Places in "reads,writes,trims" that a kind of I/O uses.
_READ, _WRITE, _TRIM = 0, 1, 2
_PLACES: Final = {
    "read": (_READ,),
    "randread": (_READ,),
    "write": (_WRITE,),
    "randwrite": (_WRITE,),
    "trim": (_TRIM,),
    "randtrim": (_TRIM,),
    "trimwrite": (_WRITE, _TRIM),
    "randtrimwrite": (_WRITE, _TRIM),
}


@dataclass(frozen=True, slots=True)
class BlockSize:
    """size_bytes: where there is one size; text: canonical, for several sizes or anything that is not a size."""

    size_bytes: int | None
    text: str = ""


def read_block_size(options: Mapping[str, str], rw: str, *, kb_base: int) -> BlockSize:
    """Return the block size that counts for this kind of I/O: of bssplit, else bsrange, else bs, else 4 KiB."""

    def write_size(text: str) -> str:
        size = parse_size(text, kb_base=kb_base)
        return text.strip().lower() if size is None else str(size)

    def write_range(text: str) -> str:
        low, _, high = text.replace(":", "-").partition("-")
        ends = write_size(low), write_size(high or low)
        return ends[0] if ends[0] == ends[1] else "-".join(ends)

    def write_split(text: str) -> str:
        shares = []
        for part in text.split(":"):
            size, _, share = part.partition("/")
            shares.append(f"{write_size(size)}/{share.strip()}" if share.strip() else write_size(size))
        return ":".join(shares)

    for name, write in (("bssplit", write_split), ("bsrange", write_range), ("bs", write_size)):
        if options.get(name):
            return _combine(_spread(options[name], write), rw)
    # A timed shell loop writes files of any length, in no blocks of fio's.
    return BlockSize(None) if options.get("ioengine") == "shell" else BlockSize(int(_DEFAULT))


def _spread(text: str, write: Callable[[str], str]) -> list[str]:
    """Return the values for reads, writes and trims: the last one counts for the rest, unless a comma ends it."""
    parts = text.split(",")[:3]
    filler = parts[-1]
    parts += [filler] * (3 - len(parts))
    return [write(part) if part.strip() else _DEFAULT for part in parts]


def _combine(values: list[str], rw: str) -> BlockSize:
    used = [values[place] for place in _PLACES.get(rw, (_READ, _WRITE))]
    text = used[0] if len(set(used)) == 1 else ",".join(used)
    return BlockSize(int(text)) if text.isdecimal() and text.isascii() else BlockSize(None, text)


def _split(names: str) -> frozenset[str]:
    return frozenset(names.split())


_OTHER_NAMES: Final = {
    "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min",
    "io_limit": "io_size",
    "ba": "blockalign",
    "mem": "iomem",
    "zone_size": "zonesize",
    "zone_range": "zonerange",
    "zone_skip": "zoneskip",
    "ss": "steadystate",
    "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
    "ratemin": "rate_min",
    "ratecycle": "rate_cycle",
    "compress_percentage": "buffer_compress_percentage",
    "dedup_percentage": "dedupe_percentage",
    "file_service": "file_service_type",
}

# Fields of WorkloadSpec.
_TYPED: Final = _split(
    "rw bs bsrange bssplit iodepth numjobs size direct buffered ioengine rwmixread rwmixwrite runtime time_based"
    " kb_base"
)
# Names, paths and places; how it is reported, logged, started and cleaned up; who is logged in where.
_IRRELEVANT: Final = _split("""
    name description filename filename_format directory opendir unique_filename uid gid
    group_reporting new_group stonewall wait_for wait_for_previous exitall exitall_on_error exit_what thread
    startdelay per_job_logs unified_rw_reporting clat_percentiles lat_percentiles slat_percentiles percentile_list
    significant_figures unit_base disable_lat disable_clat disable_slat disable_bw disable_bw_measurement
    bwavgtime iopsavgtime bw_avg_time iops_avg_time stats disk_util status_interval profile error_dump ignore_error
    continue_on_error allow_file_create allow_mounted_write create_serialize create_fsync create_on_open unlink
    unlink_each_loop randseed merge_blktrace_file merge_blktrace_scalars replay_redirect cgroup_nodelete
    verify_state_save verify_state_load verify_dump verify_fatal exec_prerun exec_postrun
    hostname port user username password pool rbdname clustername clientname namenode brick volume
    nfs_url uri servername interface netmask chunk_id
    """)
_IRRELEVANT_PATTERN: Final = re.compile(
    r"write_(?:\w+_log|iolog)|log_\w+|http_\w+|s3_\w+|\w*(?:secret|token|key)"
)
# For these only whether a path is set matters, not the path.
_PATHS: Final = frozenset({"read_iolog", "cgroup", "aux_path", "zone_file"})
# Stored in bytes.
SIZE_OPTIONS: Final = _split(
    "rate rate_min io_size offset offset_increment offset_align zonesize zonerange zoneskip zonecapacity blockalign"
    " filesize buffer_compress_chunk verify_interval verify_offset verify_pattern_interval"
)
# Counts that fio reads as it reads sizes.
_SIZES: Final = SIZE_OPTIONS | _split("verify_backlog number_ios fsync fdatasync")
# Option → the unit of a bare number; stored in seconds.
TIME_OPTIONS: Final = {
    "ramp_time": "s",
    "thinktime": "us",
    "thinktime_spin": "us",
    "thinkcycles": "us",
    "latency_target": "us",
    "latency_window": "us",
    "max_latency": "us",
    "rate_cycle": "ms",
    "steadystate_duration": "s",
    "steadystate_ramp_time": "s",
}
# What counts as not given: fio's own defaults.
_DEFAULTS: Final = {
    **dict.fromkeys(
        _split("""
        sync fsync fdatasync end_fsync fsync_on_close allrandrepeat norandommap softrandommap rate rate_min rate_iops
        rate_iops_min thinktime thinktime_spin refill_buffers zero_buffers buffer_compress_percentage
        dedupe_percentage pre_read overwrite ramp_time offset offset_increment bs_unaligned hipri fixedbufs
        registerfiles sqthread_poll nonvectored gtod_reduce fill_device create_only latency_target latency_window
        cmdprio_percentage verify_only verify_backlog number_ios hugepage atomic nowait
        """),
        "0",
    ),
    **dict.fromkeys(
        _split(
            "randrepeat scramble_buffers invalidate nrfiles loops iodepth_batch iodepth_batch_complete_min"
            " do_verify"
        ),
        "1",
    ),
    "percentage_random": "100",
    "latency_percentile": "100",
    "random_distribution": "random",
    "zonemode": "none",
    "verify": "none",
    "iomem": "malloc",
    "file_service_type": "roundrobin",
    "rate_process": "linear",
}
_OTHER_VALUES: Final = {"sync": {"none": "0", "sync": "1"}, "verify": {"0": "none"}}


def list_further_options(options: Mapping[str, str], *, kb_base: int) -> dict[str, str]:
    """Return the options beyond the typed ones that make another workload, name and value canonical."""
    further = {}
    for given, text in options.items():
        name = _OTHER_NAMES.get(given, given)
        if (
            name in _TYPED
            or name in _IRRELEVANT
            or _IRRELEVANT_PATTERN.fullmatch(name)
            or is_secret_name(name)
        ):
            continue
        if name == "filesize" and not options.get("size"):
            continue  # it is used as size
        value = _write_value(name, remove_secrets(text.strip()), kb_base=kb_base)
        if value != _DEFAULTS.get(name):
            further[name] = value
    return further | _list_unreadable(options)


def _write_value(name: str, text: str, *, kb_base: int) -> str:
    if name in _PATHS:
        return "1"
    if not text:
        return "1"  # a bare flag
    if name in TIME_OPTIONS:
        seconds = parse_duration_s(text, unit=TIME_OPTIONS[name])
        return text if seconds is None else f"{seconds:.9f}".rstrip("0").rstrip(".")
    if name in _SIZES:
        return ",".join(_write_size(part, kb_base) for part in text.split(","))
    number = text.lstrip("0") or "0"
    value = number if text.isdecimal() and text.isascii() else text
    return _OTHER_VALUES.get(name, {}).get(value, value)


def _write_size(text: str, kb_base: int) -> str:
    size = parse_size(text, kb_base=kb_base)
    return text.strip().lower() if size is None else str(size)


def _list_unreadable(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that should have been typed fields, but are expressions or what fio reads otherwise."""
    checks: dict[str, Callable[[str], float | None]] = {
        "runtime": parse_duration_s,
        "iodepth": parse_size,
        "rwmixread": parse_size,
        "rwmixwrite": parse_size,
    }
    return {
        name: options[name].strip()
        for name, parse in checks.items()
        if options.get(name) and parse(options[name]) is None
    }


_ALIASES: Final = {"readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "timeout": "runtime"}
_SHARES: Final = {"read": 100, "randread": 100, "rw": None, "randrw": None}
_DEFAULT_SHARE: Final = 50
# Before the directions of a job whose options are unknown: it may be random or sequential.
UNKNOWN_ORDER: Final = "unknown-"
# fio 2.3 and later, which print options, have it on all systems but Windows.
_DEFAULT_ENGINE: Final = "psync"
# A run that ends at its runtime stops within a few ms of it; one that ends earlier is rarely this close.
_CUT_SHARE: Final = 0.98
# Longest texts that a column for one keeps.
_RW_LENGTH: Final = 20
_ENGINE_LENGTH: Final = 50
_BLOCK_SIZE_LENGTH: Final = 200
_FILE_SIZE_LENGTH: Final = 100
# Workloads that are kept, and the length of their options: most runs of a host repeat a few jobs.
_KEPT_MAXIMUM: Final = 1024
_KEPT_LENGTH_MAXIMUM: Final = 4096


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One workload, in canonical form.

    rw: fio's canonical name (readwrite is rw); without options "unknown-read", "unknown-rw"… of what it did, or "".
    block_size_bytes: None for ranges and splits, which are in block_size_text ("4096-16384",
      "4096/60:65536/40", "4096,8192" for reads and writes).
    file_size_bytes: of `size`, else `filesize`; None for a percentage (then file_size_text has it, "100%") and
      if not set.
    iodepth, is_direct: None if fio did not print these options. numjobs: None if unknown, as in Group.
    read_share_percent: 100 for reads, 0 for writes and trims, rwmixread for mixed ones; None if not known.
    is_time_based: as configured; inferred for fio before 3.39, which does not print the option without a value.
    extra: further options that change what is measured, canonical; without paths, names and reporting options.
    """

    rw: str
    block_size_bytes: int | None
    block_size_text: str
    iodepth: int | None
    numjobs: int | None
    file_size_bytes: int | None
    file_size_text: str
    is_direct: bool | None
    engine: str
    read_share_percent: int | None
    runtime_s: float | None
    is_time_based: bool
    extra: Mapping[str, str]


class _RequestedWorkload(NamedTuple):
    """What a workload depends on, without the results. name: only where some options are not printed."""

    options: tuple[tuple[str, str], ...]
    has_all_options: bool
    name: str
    numjobs: int | None
    iodepth: int | None

    @property
    def is_short(self) -> bool:
        """Return whether the workload can be kept: options are texts of any length."""
        return len(self.name) + sum(map(len, chain.from_iterable(self.options))) <= _KEPT_LENGTH_MAXIMUM


def read_workload(group: Group) -> WorkloadSpec:
    """Return the workload of a group from its effective options and, where it has none, from what it did."""
    if not group.options:
        return _read_without_options(group)
    name = "" if group.has_all_options else group.name
    asked = _RequestedWorkload(
        tuple(group.options.items()), group.has_all_options, name, group.numjobs, iodepth=group.iodepth
    )
    spec = _read_kept(asked) if asked.is_short else _read_requested(asked)
    if not spec.is_time_based and _was_cut(group, spec.runtime_s):
        return replace(spec, is_time_based=True)
    return spec


def _read_requested(asked: _RequestedWorkload) -> WorkloadSpec:
    options = {_ALIASES.get(name, name): value for name, value in asked.options}
    kb_base = 1000 if options.get("kb_base") == "1000" else 1024
    extra = list_further_options(options, kb_base=kb_base)
    if not asked.has_all_options:
        extra |= {"options": "not-reported", "job": asked.name}
    rw, modifier = _read_rw(options)
    if modifier:
        extra["rw_modifier"] = modifier
    block_size = read_block_size(options, rw, kb_base=kb_base)
    size_text = options.get("size") or options.get("filesize") or ""
    size_bytes = parse_size(size_text, kb_base=kb_base)
    return WorkloadSpec(
        rw=fit_text(rw, _RW_LENGTH),
        block_size_bytes=block_size.size_bytes,
        block_size_text=fit_text(block_size.text, _BLOCK_SIZE_LENGTH),
        iodepth=_read_iodepth(options, asked.iodepth),
        numjobs=asked.numjobs,
        file_size_bytes=size_bytes,
        file_size_text=""
        if size_bytes is not None
        else fit_text(size_text.strip().lower(), _FILE_SIZE_LENGTH),
        is_direct=_is_direct(options, has_all=asked.has_all_options),
        engine=fit_text(options.get("ioengine", "").strip() or _DEFAULT_ENGINE, _ENGINE_LENGTH),
        read_share_percent=_read_share(options, rw, has_all=asked.has_all_options),
        runtime_s=parse_duration_s(options.get("runtime", "")) or None,
        is_time_based=is_set(options, "time_based"),
        extra=dict(sorted(extra.items())),
    )


_read_kept = lru_cache(maxsize=_KEPT_MAXIMUM)(_read_requested)


def _read_rw(options: Mapping[str, str]) -> tuple[str, str]:
    """Return kind and modifier of "randrw:8", which does 8 I/Os before it seeks."""
    kind, _, modifier = options.get("rw", "read").strip().lower().partition(":")
    kind = {"readwrite": "rw", "": "read"}.get(kind, kind)
    return kind, modifier


def _read_iodepth(options: Mapping[str, str], in_effect: int | None) -> int:
    depth = parse_size(options.get("iodepth", "")) or in_effect or 1
    return min(depth, INTEGER_MAXIMUM)


def _is_direct(options: Mapping[str, str], *, has_all: bool) -> bool | None:
    if not has_all and not options.keys() & {"direct", "buffered"}:
        return None
    return is_set(options, "direct") or options.get("buffered", "").strip() == "0"


def _read_share(options: Mapping[str, str], rw: str, *, has_all: bool) -> int | None:
    share = _SHARES.get(rw, 0)
    if share is not None:
        return share
    reads, writes = parse_size(options.get("rwmixread", "")), parse_size(options.get("rwmixwrite", ""))
    if reads is None and writes is not None:
        reads = 100 - writes
    if reads is None:
        return _DEFAULT_SHARE if has_all else None
    return reads if 0 <= reads <= 100 else None


def _was_cut(group: Group, runtime_s: float | None) -> bool:
    if not runtime_s:
        return False
    return any((direction.runtime_s or 0) >= runtime_s * _CUT_SHARE for direction in group.directions)


def fit_text(text: str, length: int) -> str:
    """Return a text of at most `length` characters; of a longer one its beginning and a digest: still unique."""
    if len(text) <= length:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: length - len(digest) - 1]}…{digest}"


def _read_without_options(group: Group) -> WorkloadSpec:
    """Return what can be seen of a job whose options fio did not print; its name keeps it apart from others."""
    done = {
        direction.name: direction
        for direction in group.directions
        if direction.name in ("read", "write", "trim", "mixed") and direction.io_bytes
    }
    rw = "rw" if len(done) > 1 or "mixed" in done else next(iter(done), "")
    sizes = {
        direction.io_bytes / direction.total_ios
        for direction in done.values()
        if direction.io_bytes and direction.total_ios
    }
    size = sizes.pop() if len(sizes) == 1 else 0.0
    return WorkloadSpec(
        rw=f"{UNKNOWN_ORDER}{rw}" if rw else "",
        block_size_bytes=int(size) if size and size.is_integer() else None,
        block_size_text="",
        iodepth=None if group.iodepth is None else min(group.iodepth, INTEGER_MAXIMUM),
        numjobs=group.numjobs,
        file_size_bytes=None,
        file_size_text="",
        is_direct=None,
        engine="",
        read_share_percent=_SHARES.get(rw, 0) if rw else None,
        runtime_s=None,
        is_time_based=False,
        extra={"options": "not-reported", "job": group.name},
    )
