"""The context in which a measuring method runs, and its result."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping, Sequence

from agent.measuring.fio import Fio, FioResult, StopSignals, build_argv, run_fio
from agent.measuring.fio_reports import find_job_problem
from agent.measuring.workspace import Workspace
from agent.methods.fragmentation import describe_extents
from agent.profiles.profile import Plan
from agent.redaction import remove_from_document

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
