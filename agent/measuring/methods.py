"""How a profile is measured: one execution of fio, or a method.

Methods: saturation, steady state, small files, and sequential read with the fragmentation of the file.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, Mapping, Sequence

from agent.exit_codes import CannotMeasure
from agent.measuring.fio import Fio, FioResult, StopSignals, build_argv, run_fio
from agent.measuring.fio_reports import find_job_problem, join_jobfiles, join_results, read_figures
from agent.measuring.jobfile import check_by_fio
from agent.measuring.workspace import Workspace
from agent.profiles.profile import Plan
from agent.profiles.shipped import SMALL_FILES, list_saturation_steps
from agent.programs import query_tool
from agent.quantities import format_value
from agent.redaction import remove_from_document
from agent.storage.mounts import find_mount

# filefrag may read the map of a file of terabytes. xfs_db may read the map of a whole filesystem.
_MAP_TIMEOUT_S = 30.0
_BLOCK_SIZE = re.compile(r"\bblocks? of (\d{1,9}) bytes\b")
_FILEFRAG_LINE = re.compile(r"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*(\d+):\s*(\d+):")
_XFS_BMAP_LINE = re.compile(r"\s*\d+: \[(\d+)\.\.(\d+)\]:\s+(?:(hole|delalloc)|(\d+)\.\.(\d+)\s.*)")
_XFS_SECTOR_BYTES = 512
_XFS_FACTOR = re.compile(r"fragmentation factor (\d{1,3}(?:\.\d{1,4})?)%")
# Two steps double the I/Os in flight twice; a smaller gain means saturation.
_GAIN_MINIMUM = 1.05
# A link in the workspace: the file's own path may contain characters special to job files.
_FILE_LINK = "bench-agent.file"
_DROP_CACHES = "/proc/sys/vm/drop_caches"
# The commands of the benchmark; the server reads direction and number of files from them.
_WRITE_FILES = """for i in {0..1000}; do echo 'test' > "test${i}.txt"; done"""
_READ_FILES = """for i in {0..1000}; do cat "test${i}.txt" > /dev/null; done"""
_FILE_CONTENT = b"test\n"
_READ_BYTES = 128 * 1024
# SNIA PTS 2.0: over five rounds, values within 20 % of their average, and their linear fit within 10 %.
_ROUNDS = 5
_EXCURSION_MAXIMUM = 0.20
_SLOPE_MAXIMUM = 0.10
# Its workload-independent preconditioning: twice the capacity, sequential, 128 KiB blocks.
_PRECONDITION = """\
[global]
filename=bench-agent.test
size={size}
ioengine={engine}
direct={direct}

[precondition]
rw=write
bs=128k
iodepth={iodepth}
loops=2
"""
JOBFILE = "bench-agent.fio"


@dataclass(frozen=True)
class MethodResult:
    """The result of a measuring method.

    facts: additional observations by name; finding: conclusion as text or ""; is_complete: whether there is a report to
    store.
    """

    result: FioResult
    jobfile: str
    is_complete: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    finding: str = ""


@dataclass(frozen=True)
class MethodContext:
    """The context of a method; started: by time.monotonic(); fio: None if the method needs none."""

    plan: Plan
    workspace: Workspace
    fio: Fio | None
    engine: str
    is_direct: bool
    stop: StopSignals
    started: float
    time_limit_s: float
    scratch_directory: str
    tick: Callable[[], None]
    options: Sequence[str] = ()

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.started + self.time_limit_s

    def write_jobfile(self, **places: Any) -> str:
        """Return the plan's job file for the selected engine."""
        return self.plan.write_jobfile(engine=self.engine, is_direct=self.is_direct, **places)

    def execute(self, jobfile: str, *, options: Sequence[str] = ()) -> FioResult:
        """Run fio once within the remaining time."""
        assert self.fio is not None
        self.workspace.write_file(JOBFILE, jobfile)
        if self.plan.device and not self.plan.is_destructive:
            options = (*options, "--readonly")
        result = run_fio(
            build_argv(self.fio, JOBFILE, options=(*self.options, *options)),
            directory=self.workspace.descriptor,
            scratch_directory=self.scratch_directory,
            time_limit_s=self.time_limit_s,
            spent_s=time.monotonic() - self.started,
            stop=self.stop,
            tick=self.tick,
        )
        problem = find_job_problem(result.stdout, result.stderr, jobfile=jobfile)
        stderr, stdout, _ = remove_from_document([result.stderr, result.stdout, jobfile])
        return replace(result, stdout=stdout, stderr=stderr, job_problem=problem)


def describe_test_file(context: MethodContext) -> dict[str, Any]:
    """Return extent facts of fio's largest file; {} without a file or tool."""
    descriptor = context.workspace.descriptor
    with os.scandir(descriptor) as entries:
        largest = max(entries, key=_find_size, default=None)
    if largest is None or not _find_size(largest):
        return {}
    # Not by path, which another user may replace; the tools exist on Linux only.
    return describe_extents(f"/proc/{os.getpid()}/fd/{descriptor}/{largest.name}")


def _find_size(entry: os.DirEntry[str]) -> int:
    """Return the size of a test file, 0 for links, logs and the job file."""
    is_test_file = entry.is_file(follow_symlinks=False) and not entry.name.endswith((".log", ".fio"))
    return entry.stat(follow_symlinks=False).st_size if is_test_file else 0


@dataclass(frozen=True)
class Extent:
    """A contiguous part of a file on the disk, in bytes."""

    logical_bytes: int
    physical_bytes: int
    length_bytes: int


def parse_filefrag(text: str) -> list[Extent] | None:
    """Return the extents that `filefrag -v` lists; None for other output."""
    block = _BLOCK_SIZE.search(text)
    if block is None:
        return None
    size_bytes = int(block.group(1))
    return [
        Extent(int(logical) * size_bytes, int(physical) * size_bytes, int(length) * size_bytes)
        for logical, _, physical, _, length in _FILEFRAG_LINE.findall(text)
    ]


def parse_xfs_bmap(text: str) -> list[Extent] | None:
    """Return the extents that `xfs_bmap -v` lists, without holes; None for other output."""
    if "EXT: FILE-OFFSET" not in text:
        return None
    extents = []
    for first, last, absent, physical, _ in _XFS_BMAP_LINE.findall(text):
        if not absent:
            sectors = int(last) - int(first) + 1
            extents.append(
                Extent(*(count * _XFS_SECTOR_BYTES for count in (int(first), int(physical), sectors)))
            )
    return extents


def parse_xfs_fragmentation(text: str) -> float | None:
    """Return percent from the output of `xfs_db -c frag`; None for other output."""
    match = _XFS_FACTOR.search(text)
    return float(match.group(1)) if match else None


def describe_fragmentation(extents: Sequence[Extent]) -> dict[str, Any]:
    """Return extent facts; extents that are adjacent on the disk count as one. {} without extents."""
    lengths = list(_join_lengths(extents))
    if not lengths:
        return {}
    return {
        "extents": len(lengths),
        "extent_mean_bytes": round(sum(lengths) / len(lengths)),
        "extent_largest_bytes": max(lengths),
        "contiguous_share_percent": round(max(lengths) / sum(lengths) * 100, 2),
    }


def describe_extents(path: str) -> dict[str, Any]:
    """Return extent facts of a file; {} without a tool."""
    extents = parse_filefrag(_query_map("filefrag", "-v", path))
    if extents is None:
        extents = parse_xfs_bmap(_query_map("xfs_bmap", "-v", path))
    return describe_fragmentation(extents or ())


def describe_filesystem_fragmentation(path: str) -> dict[str, Any]:
    """Return the fragmentation of the whole filesystem; XFS and root only."""
    mount = find_mount(os.path.realpath(path))
    if mount is None or mount.filesystem != "xfs" or os.geteuid() != 0:
        return {}
    factor = parse_xfs_fragmentation(_query_map("xfs_db", "-r", "-c", "frag", mount.source))
    return {} if factor is None else {"filesystem_fragmentation_percent": factor}


def _join_lengths(extents: Iterable[Extent]) -> Iterable[int]:
    """Yield the length of each sequence of extents that are adjacent in the file and on the disk."""
    length, expected = 0, (-1, -1)
    for extent in extents:
        if length and (extent.logical_bytes, extent.physical_bytes) != expected:
            yield length
            length = 0
        length += extent.length_bytes
        expected = (extent.logical_bytes + extent.length_bytes, extent.physical_bytes + extent.length_bytes)
    if length:
        yield length


def _query_map(tool: str, *arguments: str) -> str:
    return query_tool(tool, *arguments, timeout_s=_MAP_TIMEOUT_S)


@dataclass(frozen=True)
class Step:
    """One execution: I/Os in flight and results; p95_ns: None if fio did not report it."""

    iodepth: int
    jobs: int
    iops: float
    p95_ns: float | None


def find_knee(steps: Sequence[Step], *, limit_ns: int) -> Step | None:
    """Return the step with the most IOPS whose p95 is within the limit; None without one."""
    within = [step for step in steps if step.p95_ns is not None and step.p95_ns <= limit_ns]
    return max(within, key=lambda step: step.iops, default=None)


def find_end(steps: Sequence[Step], *, limit_ns: int) -> str | None:
    """Return the reason to stop, None to continue."""
    last = steps[-1]
    if last.p95_ns is None:
        return "fio reported no latency"
    if last.p95_ns > limit_ns:
        return f"p95 exceeded {format_value(limit_ns, 'ns')}"
    if len(steps) > 2:
        before, after = (max(step.iops for step in part) for part in (steps[:-2], steps[-2:]))
        if after < before * _GAIN_MINIMUM:
            return "two steps gained less than 5 %"
    return None


def describe_knee(knee: Step | None, steps: Sequence[Step], *, limit_ns: int, end: str | None) -> str:
    """Return the finding as text."""
    if not steps:
        return "no knee: the first step failed"
    reason = end or "all steps completed"
    if knee is None:
        first = steps[0].p95_ns
        found = "unknown" if first is None else format_value(first, "ns")
        return f"no knee: p95 is {found} at the first step, limit {format_value(limit_ns, 'ns')}"
    assert knee.p95_ns is not None
    jobs = "1 job" if knee.jobs == 1 else f"{knee.jobs} jobs"
    return (
        f"knee: {knee.iops:.0f} IOPS at p95 {format_value(knee.p95_ns, 'ns')}, iodepth {knee.iodepth}, {jobs}; "
        f"stopped after {len(steps)} step{'' if len(steps) == 1 else 's'}: {reason}"
    )


def find_saturation(context: MethodContext) -> MethodResult:
    """Run the steps; each is one JSON document of the submission."""
    values = context.plan.values
    limit_ns = values["limit"]
    ladder = list_saturation_steps(
        values["iodepth_maximum"], values["jobs_maximum"], is_synchronous=context.engine == "psync"
    )
    steps: list[Step] = []
    results, jobfiles, end = [], [], None
    for iodepth, jobs in ladder:
        jobfiles.append(
            context.write_jobfile(step=f"iodepth-{iodepth}-jobs-{jobs}", iodepth=iodepth, jobs=jobs)
        )
        results.append(context.execute(jobfiles[-1]))
        figures = read_figures(results[-1])
        if figures is None:
            end = "a step failed"
            break
        steps.append(Step(iodepth, jobs, figures.iops, figures.p95_ns))
        end = find_end(steps, limit_ns=limit_ns)
        if end:
            break
    knee = find_knee(steps, limit_ns=limit_ns)
    result = join_results(results)
    facts = {
        "saturation_limit_ns": limit_ns,
        "saturation_steps": len(steps),
        "saturation_end": end or "all steps completed",
        "knee_iops": round(knee.iops, 1) if knee else None,
        "knee_p95_ns": knee.p95_ns if knee else None,
        "knee_iodepth": knee.iodepth if knee else None,
        "knee_jobs": knee.jobs if knee else None,
        **describe_test_file(context),
    }
    finding = describe_knee(knee, steps, limit_ns=limit_ns, end=end)
    return MethodResult(result, join_jobfiles(jobfiles), result.has_report, facts, finding)


def read_in_order(context: MethodContext) -> MethodResult:
    """Drop the file from the page cache, read it once, and count its extents."""
    path = context.plan.values["file"]
    cache = _make_cold(path, drops_all=context.plan.values["drop_caches"] == "yes")
    os.symlink(path, _FILE_LINK, dir_fd=context.workspace.descriptor)
    jobfile = context.write_jobfile()
    result = context.execute(jobfile, options=("--readonly",))
    # Afterwards: the tools read the filesystem's maps into memory.
    facts: dict[str, Any] = {
        "file": path,
        "cache": cache,
        **describe_extents(path),
        **describe_filesystem_fragmentation(path),
    }
    return MethodResult(result, jobfile, result.has_report, facts)


def _make_cold(path: str, *, drops_all: bool) -> str:
    """Drop the file from the page cache; return how."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMeasure(f"cannot read {path}: {error}") from None
    try:
        # Dirty pages cannot be dropped; this writes those of other programs to disk.
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass  # not supported by all filesystems; fio invalidates, too
    finally:
        os.close(descriptor)
    if not drops_all:
        return "this file's pages dropped"
    try:
        with open(_DROP_CACHES, "w", encoding="ascii") as file:
            file.write("3\n")
    except OSError as error:
        raise CannotMeasure(f"cannot write {_DROP_CACHES}: {error}; remove drop_caches=yes") from None
    return "all of the kernel's caches dropped"


class _Stopped(Exception):
    """Stopped by a signal or the time limit."""


def write_and_read(context: MethodContext) -> MethodResult:
    """Time two loops like those of GitLab's file system benchmark, without fio and without the removal of the files."""
    started_at, stopped_because, parts, problem = time.time(), None, [], ""
    try:
        os.mkdir("files", dir_fd=context.workspace.descriptor)
        directory = os.open("files", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=context.workspace.descriptor)
        try:
            for command, do in ((_WRITE_FILES, write_file), (_READ_FILES, read_file)):
                parts.append(f"$ time {command}\n\n{_time_loop(context, directory, do)}\n")
        finally:
            os.close(directory)
    except _Stopped as error:
        stopped_because = str(error)
    except OSError as error:
        problem = f"small files: {error}\n"
    if problem and not parts:
        raise CannotMeasure(problem.strip())
    result = FioResult(
        argv=(),
        exit_status=1 if problem else 0,
        signal=None,
        stdout="".join(parts),
        stderr=problem or (f"bench-agent: {stopped_because}\n" if stopped_because else ""),
        started_at=started_at,
        finished_at=time.time(),
        stopped_because=stopped_because,
    )
    return MethodResult(result, "", bool(parts))


def write_file(name: str, directory: int) -> None:
    """Write a file like `echo 'test' > FILE`: open, truncate, write, close."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o644, dir_fd=directory)
    try:
        os.write(descriptor, _FILE_CONTENT)
    finally:
        os.close(descriptor)


def read_file(name: str, directory: int) -> None:
    """Read a file like `cat FILE`: open, read to the end, close."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        while os.read(descriptor, _READ_BYTES):
            pass
    finally:
        os.close(descriptor)


def format_timing(**seconds: float) -> str:
    """Return the lines of bash's `time`, with microseconds; seconds: real, user, sys."""
    return "".join(f"{name}\t{int(value // 60)}m{value % 60:.6f}s\n" for name, value in seconds.items())


def _time_loop(context: MethodContext, directory: int, do: Callable[[str, int], None]) -> str:
    started, used = time.perf_counter(), os.times()
    for number in range(SMALL_FILES):
        do(f"test{number}.txt", directory)
        if context.stop.received is not None:
            raise _Stopped("stopped by a signal")
        if context.is_over:
            raise _Stopped(f"stopped after the time limit of {context.time_limit_s:.0f} s")
        context.tick()
    ended = os.times()
    return format_timing(
        real=time.perf_counter() - started, user=ended.user - used.user, sys=ended.system - used.system
    )


@dataclass(frozen=True)
class SteadyState:
    """Steadiness of the last five rounds.

    mean: IOPS; excursion: maximum − minimum, slope: maximum − minimum of the linear fit, both relative to the mean.
    """

    is_steady: bool
    mean: float
    excursion: float
    slope: float


def check_steady_state(values: Sequence[float]) -> SteadyState | None:
    """Check the last five values according to SNIA PTS; None before five values, or if their mean is 0."""
    window = values[-_ROUNDS:]
    mean = sum(window) / _ROUNDS
    if len(window) < _ROUNDS or mean <= 0:
        return None
    excursion = (max(window) - min(window)) / mean
    center = (_ROUNDS - 1) / 2
    spread = sum((place - center) ** 2 for place in range(_ROUNDS))
    per_round = sum((place - center) * value for place, value in enumerate(window)) / spread
    slope = abs(per_round) * (_ROUNDS - 1) / mean
    # Values at the limit are within it, despite rounding errors of binary fractions.
    is_steady = round(excursion, 9) <= _EXCURSION_MAXIMUM and round(slope, 9) <= _SLOPE_MAXIMUM
    return SteadyState(is_steady, mean, excursion, slope)


def describe_steadiness(state: SteadyState | None, rounds: int) -> str:
    """Return the finding as text."""
    if state is None:
        noun = "round" if rounds == 1 else "rounds"
        return f"not steady: {rounds} {noun}, at least {_ROUNDS} are required"
    numbers = (
        f"{state.mean:.0f} IOPS over the last {_ROUNDS} rounds, excursion {state.excursion * 100:.1f} % "
        f"(max. 20 %), slope {state.slope * 100:.1f} % (max. 10 %)"
    )
    return f"steady after {rounds} rounds: {numbers}" if state.is_steady else f"not steady: {numbers}"


def write_until_steady(context: MethodContext) -> MethodResult:
    """Run rounds until they are steady; each is one JSON document of the submission, without preconditioning.

    As SNIA's Solid State Storage Performance Test Specification (PTS) describes.
    """
    values = context.plan.values
    results: list[FioResult] = []
    jobfiles: list[str] = []
    iops: list[float] = []
    state = None
    if values["precondition"] == "yes":
        jobfile = _write_precondition(context)
        prepared = context.execute(jobfile)
        if prepared.failure:
            return MethodResult(prepared, jobfile, prepared.has_report)
    while len(iops) < values["rounds"] and not (state and state.is_steady):
        # Unique names: reports of equal jobs could be read as snapshots of one execution.
        jobfiles.append(context.write_jobfile(round=f"round-{len(iops) + 1}"))
        results.append(context.execute(jobfiles[-1]))
        figures = read_figures(results[-1])
        if figures is None:
            break
        iops.append(figures.iops)
        state = check_steady_state(iops)
    result = join_results(results)
    facts = {
        **_list_steady_facts(state, iops),
        "preconditioned": values["precondition"],
        **describe_test_file(context),
    }
    finding = describe_steadiness(state, len(iops))
    return MethodResult(result, join_jobfiles(jobfiles), result.has_report, facts, finding)


def _write_precondition(context: MethodContext) -> str:
    """Return the job file that writes the test file twice sequentially."""
    iodepth = 1 if context.engine == "psync" else context.plan.values["iodepth"]
    jobfile = _PRECONDITION.format(
        size=context.plan.values["size"],
        engine=context.engine,
        direct=int(context.is_direct),
        iodepth=iodepth,
    )
    return context.plan.open_device(jobfile)


def _list_steady_facts(state: SteadyState | None, iops: Sequence[float]) -> dict[str, Any]:
    return {
        "steady_attained": "yes" if state and state.is_steady else "no",
        "steady_round": len(iops),
        "steady_iops": round(state.mean, 1) if state else None,
        "steady_excursion_percent": round(state.excursion * 100, 3) if state else None,
        "steady_slope_percent": round(state.slope * 100, 3) if state else None,
    }


def run_plan(context: MethodContext) -> MethodResult:
    """Run the plan with its method."""
    methods: Mapping[str, Callable[[MethodContext], MethodResult]] = {
        "jobs": _run_jobs,
        "saturation": find_saturation,
        "seqread": read_in_order,
        "smallfiles": write_and_read,
        "steady": write_until_steady,
    }
    return methods[context.plan.profile.method](context)


def _run_jobs(context: MethodContext) -> MethodResult:
    jobfile = context.write_jobfile()
    if context.plan.profile.is_own:
        _check_own(context, jobfile)
    result = context.execute(jobfile)
    return MethodResult(result, jobfile, result.has_report, describe_test_file(context))


def _check_own(context: MethodContext, jobfile: str) -> None:
    assert context.fio is not None
    context.workspace.write_file(JOBFILE, jobfile)
    check_by_fio(context.fio.path, JOBFILE, context.workspace.descriptor)
