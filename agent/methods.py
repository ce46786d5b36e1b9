"""How a plan is carried out: one execution of fio, many, or none; and what each leaves."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from agent.extents import describe_extents
from agent.fio import Fio, FioResult, StopSignals, build_argv, make_environment, run_fio
from agent.profiles import Plan
from agent.workspace import Workspace

JOBFILE = "bench-agent.fio"


@dataclass(frozen=True)
class Outcome:
    """What was measured.

    facts: what was seen beside it, by name; words: what it comes to, "" where the numbers say all; is_complete:
    whether there is something to store.
    """

    result: FioResult
    jobfile: str
    is_complete: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""


@dataclass(frozen=True)
class Bench:
    """What a method works with; started: by time.monotonic(); fio: None where the method needs none."""

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
        """Return the plan's job file for the engine that there is."""
        return self.plan.write_jobfile(engine=self.engine, is_direct=self.is_direct, **places)

    def execute(self, jobfile: str, *, options: Sequence[str] = ()) -> FioResult:
        """Run fio once, for as long as is left of the time."""
        assert self.fio is not None
        self.workspace.write_file(JOBFILE, jobfile)
        return run_fio(
            build_argv(self.fio, JOBFILE, options=(*self.options, *options)),
            directory=self.workspace.descriptor,
            scratch_directory=self.scratch_directory,
            time_limit_s=self.time_limit_s,
            spent_s=time.monotonic() - self.started,
            stop=self.stop,
            tick=self.tick,
        )


def check_plan(plan: Plan) -> None:
    """Raise ConfigurationError where a plan lacks something that no default can be given for."""
    from agent.seqread import check_file

    if plan.profile.method == "seqread":
        check_file(plan)


def carry_out(bench: Bench) -> Outcome:
    """Do what the plan says."""
    from agent.saturation import find_saturation
    from agent.seqread import read_in_order
    from agent.smallfiles import write_and_read
    from agent.steady import write_until_steady

    methods: Mapping[str, Callable[[Bench], Outcome]] = {
        "jobs": _run_jobs,
        "saturation": find_saturation,
        "seqread": read_in_order,
        "smallfiles": write_and_read,
        "steady": write_until_steady,
    }
    return methods[bench.plan.profile.method](bench)


def describe_test_file(bench: Bench) -> dict[str, Any]:
    """Return the extents of the largest file that fio made; nothing where there is none or no tool tells."""
    descriptor = bench.workspace.descriptor
    with os.scandir(descriptor) as entries:
        largest = max(entries, key=_find_size, default=None)
    if largest is None or not _find_size(largest):
        return {}
    # Not by the directory's path, which another user may lead elsewhere; a tool that is asked runs on Linux only.
    return describe_extents(f"/proc/{os.getpid()}/fd/{descriptor}/{largest.name}")


def _run_jobs(bench: Bench) -> Outcome:
    if bench.plan.profile.is_own:
        return _run_own(bench)
    jobfile = bench.write_jobfile()
    result = bench.execute(jobfile)
    return Outcome(result, jobfile, result.has_report, describe_test_file(bench))


def _run_own(bench: Bench) -> Outcome:
    """Run the operator's own job file; what is told of it holds none of its passwords."""
    from agent.jobfile import hide_secrets

    jobfile = bench.write_jobfile()
    _check_own(bench, jobfile)
    result = bench.execute(jobfile)
    hide = partial(hide_secrets, jobfile=jobfile, environ=make_environment())
    result = replace(result, stdout=hide(result.stdout), stderr=hide(result.stderr))
    return Outcome(result, hide(jobfile), result.has_report, describe_test_file(bench))


def _check_own(bench: Bench, jobfile: str) -> None:
    from agent.jobfile import check_by_fio

    assert bench.fio is not None
    bench.workspace.write_file(JOBFILE, jobfile)
    check_by_fio(bench.fio.path, JOBFILE, bench.workspace.descriptor)


def _find_size(entry: os.DirEntry[str]) -> int:
    """Return 0 for what is no test file: a link, a log, the job file itself."""
    is_test_file = entry.is_file(follow_symlinks=False) and not entry.name.endswith((".log", ".fio"))
    return entry.stat(follow_symlinks=False).st_size if is_test_file else 0
