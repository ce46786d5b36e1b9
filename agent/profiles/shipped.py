"""The shipped profiles, one entry each: parameters, and what follows from them. Their job files lie in jobs/."""

from __future__ import annotations

import os
from typing import Any, Mapping

from agent.profiles.needs import Needs
from agent.profiles.parameters import (
    Parameter,
    read_block_size,
    read_direction,
    read_existing_file,
    read_file_size,
    read_flag,
    read_latency,
    read_positive,
)
from agent.quantities import parse_count

# fio's own time around each job: start, laying out the file, reaping. Measured with fio 3.33 on a slow disk.
_STEP_OVERHEAD_S = 0.5
# A job process of fio 3.33 takes about 1.6 MiB beside its buffers: 100 MiB for 64 of them.
JOB_MEMORY_BYTES = 2 * 2**20
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
# File size and runtime of the published series of 2013; between them it grows in a straight line.
_EBS_RUNTIMES = ((5 * _GIB, 16), (15 * _GIB, 32), (50 * _GIB, 64), (100 * _GIB, 128))
_EBS_LARGE_BLOCK_BYTES = 32 * _MIB
# 2 000 reads and 700 writes of GitLab's known bad system; and how much slower than in order a slow disk may be.
_SPINNING_IOPS = 2700
_RANDOM_SLOWNESS = 10
_SYNCHRONOUS_JOBS_MAXIMUM = 64
SMALL_FILES = 1001
# Each takes a block of the filesystem.
_SMALL_FILE_BYTES = 4 * _KIB
# A disk that reads in order; only to tell how long it may take.
_READ_BYTES_PER_S = 100 * 10**6


def find_ebs_runtime(size_bytes: int) -> int:
    """Return the seconds that the series takes for a file size: 16 up to 5 GiB, 128 from 100 GiB on."""
    if size_bytes <= _EBS_RUNTIMES[0][0]:
        return _EBS_RUNTIMES[0][1]
    lower, shorter_s = _EBS_RUNTIMES[0]
    for upper, longer_s in _EBS_RUNTIMES[1:]:
        if size_bytes <= upper:
            return round(shorter_s + (longer_s - shorter_s) * (size_bytes - lower) / (upper - lower))
        lower, shorter_s = upper, longer_s
    return _EBS_RUNTIMES[-1][1]


def _complete_ebs(values: Mapping[str, Any]) -> dict[str, Any]:
    runtime_s = values["runtime"] or find_ebs_runtime(values["size"])
    return {**values, "runtime": runtime_s, "large_block": min(_EBS_LARGE_BLOCK_BYTES, values["size"])}


def _need_quick(values: Mapping[str, Any]) -> Needs:
    depth_bytes = max(values["iodepth"] * 4 * _KIB, values["iodepth_sequential"] * _MIB)
    return Needs(
        values["size"],
        4 * (values["runtime"] + _STEP_OVERHEAD_S),
        JOB_MEMORY_BYTES + depth_bytes,
        values["size"],
    )


def _need_ebs(values: Mapping[str, Any]) -> Needs:
    small_bytes = values["jobs"] * (JOB_MEMORY_BYTES + 4 * _KIB)
    large_bytes = values["jobs_large"] * (JOB_MEMORY_BYTES + values["large_block"])
    return Needs(
        values["size"],
        6 * (values["runtime"] + _STEP_OVERHEAD_S),
        max(small_bytes, large_bytes),
        values["size"],
    )


def _need_netapp(values: Mapping[str, Any]) -> Needs:
    """Every job has a file of its own, as in the published commands."""
    jobs = values["jobs"]
    space_bytes = jobs * values["size"]
    return Needs(
        space_bytes,
        values["ramp"] + values["runtime"] + _STEP_OVERHEAD_S,
        jobs * (JOB_MEMORY_BYTES + values["iodepth"] * values["bs"]),
        space_bytes,
        files=jobs,
    )


def _need_randrw(values: Mapping[str, Any]) -> Needs:
    """No runtime ends it, as in the classic command: it takes as long as a spinning disk needs, or less."""
    memory_bytes = JOB_MEMORY_BYTES + values["iodepth"] * 4 * _KIB
    duration_s = values["size"] / (4 * _KIB) / _SPINNING_IOPS + _STEP_OVERHEAD_S
    return Needs(values["size"], duration_s, memory_bytes, _RANDOM_SLOWNESS * values["size"])


def _need_smallfiles(values: Mapping[str, Any]) -> Needs:
    return Needs(SMALL_FILES * _SMALL_FILE_BYTES, 10.0, 0, files=SMALL_FILES)


def _need_saturation(values: Mapping[str, Any]) -> Needs:
    jobs, depth = values["jobs_maximum"], values["iodepth_maximum"]
    # Without an asynchronous engine all that is in flight are jobs.
    alone_bytes = min(depth * jobs, _SYNCHRONOUS_JOBS_MAXIMUM) * (JOB_MEMORY_BYTES + values["bs"])
    memory_bytes = max(jobs * (JOB_MEMORY_BYTES + depth * values["bs"]), alone_bytes)
    steps = len(list_saturation_steps(depth, jobs))
    return Needs(values["size"], steps * (values["runtime"] + _STEP_OVERHEAD_S), memory_bytes, values["size"])


def list_saturation_steps(
    iodepth_maximum: int, jobs_maximum: int, *, is_synchronous: bool = False
) -> list[tuple[int, int]]:
    """Return (iodepth, jobs): the depth doubles up to its maximum, then the jobs do.

    A synchronous engine has no depth: there the jobs alone double, up to as many as would be in flight otherwise, but
    no more than 64, which are processes.
    """
    if is_synchronous:
        return [(1, jobs) for jobs in _double(min(iodepth_maximum * jobs_maximum, _SYNCHRONOUS_JOBS_MAXIMUM))]
    depths = [(depth, 1) for depth in _double(iodepth_maximum)]
    return [*depths, *((iodepth_maximum, jobs) for jobs in _double(jobs_maximum)[1:])]


def _double(maximum: int) -> list[int]:
    powers = [1 << exponent for exponent in range(maximum.bit_length()) if 1 << exponent < maximum]
    return [*powers, maximum]


def _need_steady(values: Mapping[str, Any]) -> Needs:
    memory_bytes = values["jobs"] * (JOB_MEMORY_BYTES + values["iodepth"] * 4 * _KIB) + 4 * _MIB
    written = 3 if values["precondition"] == "yes" else 1
    return Needs(
        values["size"],
        values["rounds"] * (values["runtime"] + _STEP_OVERHEAD_S),
        memory_bytes,
        written * values["size"],
    )


def _complete_seqread(values: Mapping[str, Any]) -> dict[str, Any]:
    """Add the size in whole blocks: what is read of the file."""
    size_bytes = os.path.getsize(values["file"]) if values["file"] else 0
    return {**values, "size": size_bytes - size_bytes % values["bs"]}


def _need_seqread(values: Mapping[str, Any]) -> Needs:
    duration_s = values["size"] / _READ_BYTES_PER_S + _STEP_OVERHEAD_S
    return Needs(0, duration_s, JOB_MEMORY_BYTES + values["bs"], values["size"])


def _runtime(default_s: int, explanation: str) -> Parameter:
    return Parameter("runtime", default_s, "s", explanation, read_positive)


def _size(default_bytes: int, explanation: str = "size of the test file") -> Parameter:
    return Parameter("size", default_bytes, "bytes", explanation, read_file_size)


def _rw(default: str) -> Parameter:
    return Parameter("rw", default, "", "read, write, randread, randwrite, rw or randrw", read_direction)


def _bs(default_bytes: int) -> Parameter:
    return Parameter("bs", default_bytes, "bytes", "size of a block", read_block_size)


def _count(name: str, default: int, explanation: str) -> Parameter:
    return Parameter(name, default, "", explanation, read_positive)


def _netapp(
    summary: str, purpose: str, *, rw: str, block_bytes: int, iodepth: int, jobs: int
) -> dict[str, Any]:
    return {
        "summary": summary,
        "purpose": purpose,
        "need": _need_netapp,
        "parameters": (
            _rw(rw),
            _bs(block_bytes),
            _count("iodepth", iodepth, "I/Os in flight, each job"),
            _count("jobs", jobs, "jobs, each with a file of its own"),
            _size(10 * _GIB, "size of each job's file"),
            _runtime(60, "how long it runs"),
            Parameter("ramp", 5, "s", "how long it runs before it counts", parse_count),
        ),
    }


PROFILES: Mapping[str, Mapping[str, Any]] = {
    "quick": {
        "summary": "four short looks: 4 KiB random read and write, 1 MiB sequential read and write",
        "purpose": "the pulse of a host, from cron: comparable with itself, gentle on what else runs",
        "need": _need_quick,
        "parameters": (
            _runtime(4, "how long each of the jobs runs"),
            _size(64 * _MIB),
            _count("iodepth", 16, "I/Os in flight, random jobs"),
            _count("iodepth_sequential", 4, "I/Os in flight, sequential jobs"),
        ),
    },
    "ebs-series": {
        "summary": "4 KiB read, write, randread, randwrite by 64 jobs, 32 MiB read and write by 8",
        "purpose": "how IOPS and bandwidth grow with volumes, stripes and file size; where a cache ends",
        "need": _need_ebs,
        "engine": "psync",
        "complete": _complete_ebs,
        "parameters": (
            _size(5 * _GIB, "size of the one file that all jobs share: 5G, 15G, 50G, 100G"),
            Parameter(
                "runtime",
                None,
                "s",
                "how long each of the jobs runs",
                read_positive,
                "16, 32, 64, 128 s for 5G, 15G, 50G, 100G",
            ),
            _count("jobs", 64, "jobs with 4 KiB blocks"),
            _count("jobs_large", 8, "jobs with 32 MiB blocks"),
        ),
    },
    "netapp-latency": _netapp(
        "4 KiB random writes, one at a time, for a minute",
        "the base latency of a network filesystem or volume, beside the round trip to its server",
        rw="randwrite",
        block_bytes=4 * _KIB,
        iodepth=1,
        jobs=1,
    ),
    "netapp-iops": _netapp(
        "4 KiB random reads, 32 in flight",
        "how many small reads one client gets from a network filesystem or volume",
        rw="randread",
        block_bytes=4 * _KIB,
        iodepth=32,
        jobs=1,
    ),
    "netapp-throughput": _netapp(
        "64 KiB sequential reads by 16 jobs, 32 in flight each",
        "how many bytes one client gets from a network filesystem or volume",
        rw="read",
        block_bytes=64 * _KIB,
        iodepth=32,
        jobs=16,
    ),
    "gitlab-randrw": {
        "summary": "4 KiB random reads and writes, 75 to 25, 64 in flight, once over 4 GiB",
        "purpose": "is it fit for Git repositories: known good and bad systems are drawn beside it",
        "need": _need_randrw,
        "parameters": (
            _size(4 * _GIB),
            _count("iodepth", 64, "I/Os in flight"),
        ),
    },
    "gitlab-smallfiles": {
        "summary": "1001 small files written, then read; needs no fio",
        "purpose": "is it fit for Git repositories: good is under 10 s; what creating and opening files costs",
        "need": _need_smallfiles,
        "method": "smallfiles",
        "engine": "shell",
        "parameters": (),
    },
    "saturation": {
        "summary": "raises iodepth, then jobs, until p95 latency passes a limit or IOPS gain no more",
        "purpose": "the knee: how much is in flight where IOPS are most and latency is still good",
        "need": _need_saturation,
        "method": "saturation",
        "parameters": (
            _rw("randread"),
            _bs(4 * _KIB),
            _size(_GIB),
            _runtime(10, "how long each step runs"),
            Parameter("limit", 10_000_000, "ns", "p95 completion latency to stop at", read_latency, "10ms"),
            _count("iodepth_maximum", 64, "deepest queue of a job"),
            _count("jobs_maximum", 16, "most jobs at once"),
        ),
    },
    "snia-steady": {
        "summary": "rounds of 4 KiB random writes until five in a row are steady, at most 25",
        "purpose": "what an SSD holds when its caches and spare blocks are used up",
        "need": _need_steady,
        "method": "steady",
        "parameters": (
            _size(8 * _GIB, "size of the test file; the larger a share of the device, the truer"),
            _runtime(60, "how long each round runs"),
            _count("rounds", 25, "most rounds"),
            _count("iodepth", 32, "I/Os in flight, each job"),
            _count("jobs", 1, "jobs"),
            Parameter("precondition", "no", "", "yes: write the file twice in order before", read_flag),
        ),
    },
    "seqread-fragmentation": {
        "summary": "reads one file of yours in order from a cold cache, and counts its extents",
        "purpose": "what fragmentation costs; the file is never written to",
        "need": _need_seqread,
        "method": "seqread",
        "engine": "psync",
        "complete": _complete_seqread,
        "parameters": (
            Parameter("file", None, "", "the file to read; --file says the same", read_existing_file, "none"),
            _bs(_MIB),
            Parameter(
                "drop_caches", "no", "", "yes: drop the kernel's whole cache before; as root", read_flag
            ),
        ),
    },
}
