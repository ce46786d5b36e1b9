"""Which further options define another workload: all except those known not to affect measurements.

An unknown option splits a series, which is visible; ignoring it would mix values that must not be compared.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from benchapp.fio.redaction import is_secret_name, remove_secrets
from benchapp.fio.workload.sizes import parse_duration_s, parse_size


def _split(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ALIASES: Final = {
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
_SIZES: Final = _split(
    "rate rate_min io_size offset offset_increment offset_align zonesize zonerange zoneskip zonecapacity blockalign"
    " filesize buffer_compress_chunk verify_interval verify_offset verify_pattern_interval verify_backlog"
    " number_ios fsync fdatasync"
)
# Option → the unit of a bare number.
_TIMES: Final = {
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
_NONE: Final = {"sync": {"none": "0", "sync": "1"}, "verify": {"0": "none"}}


def list_further_options(options: Mapping[str, str], *, kb_base: int) -> dict[str, str]:
    """Return the options beyond the typed ones that make another workload, name and value canonical."""
    further = {}
    for given, text in options.items():
        name = _ALIASES.get(given, given)
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
    if name in _TIMES:
        seconds = parse_duration_s(text, unit=_TIMES[name])
        return text if seconds is None else f"{seconds:.9f}".rstrip("0").rstrip(".")
    if name in _SIZES:
        return ",".join(_write_size(part, kb_base) for part in text.split(","))
    number = text.lstrip("0") or "0"
    value = number if text.isdecimal() and text.isascii() else text
    return _NONE.get(name, {}).get(value, value)


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
