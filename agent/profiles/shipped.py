"""The shipped profiles: parameters, and needs that follow from them. Their job files are in jobs/."""

from __future__ import annotations

import os
from typing import Any, Mapping

from agent.profiles.parameters import (
    Needs,
    Parameter,
    read_block_size,
    read_direction,
    read_existing_file,
    read_file_size,
    read_flag,
    read_latency,
    read_positive,
    read_ramp,
    read_runtime,
)

# fio's overhead per job: start, file layout, reaping. Measured with fio 3.33 on a slow disk.
_STEP_OVERHEAD_S = 0.5
# A job process of fio 3.33 takes about 1.6 MiB without buffers: 100 MiB for 64 of them.
JOB_MEMORY_BYTES = 2 * 2**20
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
# File size and runtime of the published series of 2013; linear in between.
_EBS_RUNTIMES = ((5 * _GIB, 16), (15 * _GIB, 32), (50 * _GIB, 64), (100 * _GIB, 128))
_EBS_LARGE_BLOCK_BYTES = 32 * _MIB
# 2 000 reads and 700 writes of GitLab's known bad system; random I/O of a slow disk relative to sequential.
_SPINNING_IOPS = 2700
_RANDOM_SLOWNESS = 10
_SYNCHRONOUS_JOBS_MAXIMUM = 64
SMALL_FILES = 1001
# Each occupies one block of the filesystem.
_SMALL_FILE_BYTES = 4 * _KIB
# Sequential read of a disk, for the estimated duration.
_READ_BYTES_PER_S = 100 * 10**6


def find_ebs_runtime(size_bytes: int) -> int:
    """Return the runtime for a file size, s: 16 up to 5 GiB, 128 from 100 GiB."""
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
    """Every job has its own file, as in the published commands."""
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
    """Without a runtime, as in the original command: at most the time that a spinning disk needs."""
    memory_bytes = JOB_MEMORY_BYTES + values["iodepth"] * 4 * _KIB
    duration_s = values["size"] / (4 * _KIB) / _SPINNING_IOPS + _STEP_OVERHEAD_S
    return Needs(values["size"], duration_s, memory_bytes, _RANDOM_SLOWNESS * values["size"])


def _need_smallfiles(values: Mapping[str, Any]) -> Needs:
    return Needs(SMALL_FILES * _SMALL_FILE_BYTES, 10.0, 0, files=SMALL_FILES)


def _need_saturation(values: Mapping[str, Any]) -> Needs:
    jobs, depth = values["jobs_maximum"], values["iodepth_maximum"]
    # Without an asynchronous engine, I/Os in flight equal jobs.
    alone_bytes = min(depth * jobs, _SYNCHRONOUS_JOBS_MAXIMUM) * (JOB_MEMORY_BYTES + values["bs"])
    memory_bytes = max(jobs * (JOB_MEMORY_BYTES + depth * values["bs"]), alone_bytes)
    steps = len(list_saturation_steps(depth, jobs))
    return Needs(values["size"], steps * (values["runtime"] + _STEP_OVERHEAD_S), memory_bytes, values["size"])


def list_saturation_steps(
    iodepth_maximum: int, jobs_maximum: int, *, is_synchronous: bool = False
) -> list[tuple[int, int]]:
    """Return (iodepth, jobs): iodepth doubles up to its maximum, then the number of jobs.

    A synchronous engine has iodepth 1: the number of jobs doubles up to the same I/Os in flight, at most 64.
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
    """Add the size to read in whole blocks."""
    size_bytes = os.path.getsize(values["file"]) if values["file"] else 0
    return {**values, "size": size_bytes - size_bytes % values["bs"]}


def _need_seqread(values: Mapping[str, Any]) -> Needs:
    duration_s = values["size"] / _READ_BYTES_PER_S + _STEP_OVERHEAD_S
    return Needs(0, duration_s, JOB_MEMORY_BYTES + values["bs"], values["size"])


def _runtime(default_s: int, description: str) -> Parameter:
    return Parameter("runtime", default_s, "s", description, read_runtime)


def _size(default_bytes: int, description: str = "size of the test file") -> Parameter:
    return Parameter("size", default_bytes, "bytes", description, read_file_size)


def _rw(default: str) -> Parameter:
    return Parameter("rw", default, "", "read, write, randread, randwrite, rw or randrw", read_direction)


def _bs(default_bytes: int) -> Parameter:
    return Parameter("bs", default_bytes, "bytes", "block size", read_block_size)


def _count(name: str, default: int, description: str) -> Parameter:
    return Parameter(name, default, "", description, read_positive)


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
            _count("iodepth", iodepth, "I/Os in flight per job"),
            _count("jobs", jobs, "number of jobs, each with its own file"),
            _size(10 * _GIB, "file size per job"),
            _runtime(60, "runtime"),
            Parameter("ramp", 5, "s", "ramp-up time that is not measured", read_ramp),
        ),
    }


PROFILES: Mapping[str, Mapping[str, Any]] = {
    "quick": {
        "summary": "4 KiB random read and write, 1 MiB sequential read and write, 4 s each",
        "purpose": "frequent scheduled runs with low impact on other workloads",
        "need": _need_quick,
        "parameters": (
            _runtime(4, "runtime of each job"),
            _size(64 * _MIB),
            _count("iodepth", 16, "I/Os in flight, random jobs"),
            _count("iodepth_sequential", 4, "I/Os in flight, sequential jobs"),
        ),
    },
    "ebs-series": {
        "summary": "4 KiB read, write, randread, randwrite by 64 jobs, 32 MiB read and write by 8",
        "purpose": "scaling of IOPS and bandwidth over volumes, stripes and file size; size of a cache",
        "need": _need_ebs,
        "engine": "psync",
        "complete": _complete_ebs,
        "parameters": (
            _size(5 * _GIB, "size of the file that all jobs share: 5G, 15G, 50G, 100G"),
            Parameter(
                "runtime",
                None,
                "s",
                "runtime of each job",
                read_runtime,
                "16, 32, 64, 128 s for 5G, 15G, 50G, 100G",
            ),
            _count("jobs", 64, "jobs with 4 KiB blocks"),
            _count("jobs_large", 8, "jobs with 32 MiB blocks"),
        ),
    },
    "netapp-latency": _netapp(
        "4 KiB random writes, one at a time, for a minute",
        "base latency of a network filesystem or volume, compared with the network round trip",
        rw="randwrite",
        block_bytes=4 * _KIB,
        iodepth=1,
        jobs=1,
    ),
    "netapp-iops": _netapp(
        "4 KiB random reads, 32 in flight",
        "small random reads of one client from a network filesystem or volume",
        rw="randread",
        block_bytes=4 * _KIB,
        iodepth=32,
        jobs=1,
    ),
    "netapp-throughput": _netapp(
        "64 KiB sequential reads by 16 jobs, 32 in flight each",
        "bandwidth of one client from a network filesystem or volume",
        rw="read",
        block_bytes=64 * _KIB,
        iodepth=32,
        jobs=16,
    ),
    "gitlab-randrw": {
        "summary": "4 KiB random I/O, 75 % reads, 64 in flight, once over 4 GiB",
        "purpose": "suitability for Git repositories, compared with known good and bad systems",
        "need": _need_randrw,
        "parameters": (_size(4 * _GIB), _count("iodepth", 64, "I/Os in flight")),
    },
    "gitlab-smallfiles": {
        "summary": "writes, then reads 1001 small files; does not need fio",
        "purpose": "suitability for Git repositories (good: under 10 s); cost of creating and opening files",
        "need": _need_smallfiles,
        "method": "smallfiles",
        "engine": "shell",
        "parameters": (),
    },
    "saturation": {
        "summary": "increases iodepth, then jobs, until p95 latency exceeds a limit or IOPS level off",
        "purpose": "the knee: maximum IOPS within a latency limit",
        "need": _need_saturation,
        "method": "saturation",
        "parameters": (
            _rw("randread"),
            _bs(4 * _KIB),
            _size(_GIB),
            _runtime(10, "runtime of each step"),
            Parameter("limit", 10_000_000, "ns", "maximum p95 completion latency", read_latency, "10ms"),
            _count("iodepth_maximum", 64, "maximum iodepth per job"),
            _count("jobs_maximum", 16, "maximum number of jobs"),
        ),
    },
    "snia-steady": {
        "summary": "rounds of 4 KiB random writes until five consecutive ones are steady, at most 25",
        "purpose": "sustained performance of an SSD after its caches and spare blocks are exhausted",
        "need": _need_steady,
        "method": "steady",
        "parameters": (
            _size(8 * _GIB, "size of the test file; should be a large share of the device"),
            _runtime(60, "runtime of each round"),
            _count("rounds", 25, "maximum number of rounds"),
            _count("iodepth", 32, "I/Os in flight per job"),
            _count("jobs", 1, "number of jobs"),
            Parameter("precondition", "no", "", "yes: first write the file twice sequentially", read_flag),
        ),
    },
    "seqread-fragmentation": {
        "summary": "reads an existing file sequentially from a cold cache, and counts its extents",
        "purpose": "cost of fragmentation; the file is never written",
        "need": _need_seqread,
        "method": "seqread",
        "engine": "psync",
        "complete": _complete_seqread,
        "parameters": (
            Parameter("file", None, "", "file to read, same as --file", read_existing_file, "none"),
            _bs(_MIB),
            Parameter(
                "drop_caches", "no", "", "yes: drop all kernel caches before; requires root", read_flag
            ),
        ),
    },
}
