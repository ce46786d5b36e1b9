"""Write and read small files like the shell loops of GitLab's file system benchmark; does not use fio."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Callable

from agent.exit_codes import CannotMeasure
from agent.measuring.fio import FioResult
from agent.methods.method_context import MethodContext, MethodResult
from agent.profiles.shipped import SMALL_FILES

# The commands of the benchmark; the server reads direction and number of files from them.
_WRITE = """for i in {0..1000}; do echo 'test' > "test${i}.txt"; done"""
_READ = """for i in {0..1000}; do cat "test${i}.txt" > /dev/null; done"""
_CONTENT = b"test\n"
_READ_BYTES = 128 * 1024


@dataclass(frozen=True)
class Timing:
    """Duration of one loop, s."""

    real_s: float
    user_s: float
    system_s: float


class _Stopped(Exception):
    """Stopped by a signal or the time limit."""


def write_and_read(context: MethodContext) -> MethodResult:
    """Time both loops in the workspace, without its removal."""
    started_at, stopped_because, parts, problem = time.time(), None, [], ""
    try:
        os.mkdir("files", dir_fd=context.workspace.descriptor)
        directory = os.open("files", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=context.workspace.descriptor)
        try:
            for command, do in ((_WRITE, write_file), (_READ, read_file)):
                timing = _time_loop(context, directory, do)
                parts.append(f"$ time {command}\n\n{format_timing(timing)}\n")
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
        os.write(descriptor, _CONTENT)
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


def format_timing(timing: Timing) -> str:
    """Return the three lines of bash's `time`, with microseconds."""
    named = (("real", timing.real_s), ("user", timing.user_s), ("sys", timing.system_s))
    return "".join(f"{name}\t{int(value // 60)}m{value % 60:.6f}s\n" for name, value in named)


def _time_loop(context: MethodContext, directory: int, do: Callable[[str, int], None]) -> Timing:
    started, used = time.perf_counter(), os.times()
    for number in range(SMALL_FILES):
        do(f"test{number}.txt", directory)
        if context.stop.received is not None:
            raise _Stopped("stopped by a signal")
        if context.is_over:
            raise _Stopped(f"stopped after the time limit of {context.time_limit_s:.0f} s")
        context.tick()
    ended = os.times()
    return Timing(time.perf_counter() - started, ended.user - used.user, ended.system - used.system)
