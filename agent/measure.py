"""One run: look around, run fio, put away what it made, and keep what it printed."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import Any, Mapping

from agent.config import Config
from agent.console import Progress
from agent.envelope import check_labels, make_envelope, pack_envelope, read_target
from agent.environment import describe_environment, find_instance_type
from agent.fio import Fio, FioResult, StopSignals, build_argv, choose_engine, find_fio, run_fio
from agent.layout import describe_storage
from agent.outcome import CannotMeasure, Interrupted
from agent.profiles import Plan
from agent.session import Session
from agent.spool import Entry, Spool
from agent.workspace import Workspace, check_free_space, clean_leftovers

_JOBFILE = "bench-agent.fio"
# fio on a hung device never ends by itself; three times its time and two minutes is no usual delay.
_TIME_LIMIT_FACTOR = 3.0
_TIME_LIMIT_EXTRA_S = 120.0


@dataclass(frozen=True)
class Request:
    """What was asked for. target, labels: as written; time_limit_s: None for one that fits the plan."""

    plan: Plan
    directory: str
    target: Mapping[str, str]
    labels: Mapping[str, str]
    time_limit_s: float | None


@dataclass(frozen=True)
class SpooledRun:
    """A run that is in the spool; failure says what went wrong with fio, None if nothing did."""

    entry: Entry
    exit_status: int | None
    failure: str | None


@dataclass(frozen=True)
class _Setting:
    """What was found out before fio starts."""

    fio: Fio
    target: Mapping[str, Any]
    labels: Mapping[str, str]
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class _Ran:
    """What fio left, the job file that it ran, and labels for what had to be done otherwise than usual."""

    result: FioResult
    jobfile: str
    fallbacks: Mapping[str, str]


def measure(request: Request, session: Session) -> SpooledRun:
    """Run the plan and keep its result in the spool; call it under the spool's lock.

    Raises CannotMeasure where there is nothing to keep, and Interrupted where a signal ended it: half a run
    is no result.
    """
    setting = _look_around(request, session.config)
    for leftover in clean_leftovers(session.spool.directory):
        session.console.note(f"removed {leftover}, which a killed run had left")
    reserve_bytes = session.config.reserve_bytes
    check_free_space(request.directory, request.plan.file_size_bytes, reserve_bytes=reserve_bytes)
    run_id = str(uuid.uuid4())
    with StopSignals() as stop:
        try:
            ran = _run_in_workspace(run_id, request, setting=setting, session=session, stop=stop)
        except OSError as error:
            raise CannotMeasure(f"the run failed: {error}") from error
        if ran.result.stopped_because and stop.received is not None:
            raise Interrupted(
                "stopped: fio was ended, its files are removed, nothing was kept", stop.received
            )
        failure = _describe_failure(ran.result)
        if failure and not ran.result.has_report:
            raise CannotMeasure(failure)
        packed = pack_envelope(_fill_envelope(run_id, request, setting=setting, ran=ran))
        entry = _keep(session.spool, run_id, packed=packed)
        if stop.received is not None:
            raise Interrupted(
                f"stopped: result {run_id} is kept in the spool for the next flush", stop.received
            )
    return SpooledRun(entry, ran.result.exit_status, failure)


def _look_around(request: Request, config: Config) -> _Setting:
    directory = os.path.realpath(request.directory)
    if not os.path.isdir(directory):
        raise CannotMeasure(f"{request.directory} is no directory: name an existing one with --directory")
    told = {**read_target(config.target), **read_target(request.target)}
    labels = check_labels({**config.labels, **request.labels})
    storage = describe_storage(directory)
    return _Setting(
        fio=find_fio(config.fio),
        # What the operator says outweighs what was found.
        target={**storage.target, "instance_type": find_instance_type(), **told},
        labels=labels,
        environment=describe_environment(storage, directory=directory),
    )


def _run_in_workspace(
    run_id: str, request: Request, *, setting: _Setting, session: Session, stop: StopSignals
) -> _Ran:
    workspace = Workspace(request.directory, session.spool.directory, run_id=run_id)
    with workspace:
        engine, is_direct, fallbacks = _choose_means(setting.fio, workspace)
        for label in fallbacks.values():
            session.console.warn(f"{label}; such numbers compare only with their like")
        jobfile = request.plan.write_jobfile(engine=engine, is_direct=is_direct)
        workspace.write_file(_JOBFILE, jobfile)
        result = _run_with_progress(workspace, request, fio=setting.fio, session=session, stop=stop)
    if not workspace.is_removed:
        session.console.warn(f"{workspace.directory} could not be removed; the next run tries again")
    return _Ran(result, jobfile, fallbacks)


def _choose_means(fio: Fio, workspace: Workspace) -> tuple[str, bool, dict[str, str]]:
    """Return engine, whether direct, and labels that say what had to be done otherwise than usual."""
    engine = choose_engine(fio)
    is_direct = workspace.has_direct_io()
    fallbacks = {}
    if engine == "psync":
        fallbacks["fallback.ioengine"] = "psync: this fio has no libaio"
    if not is_direct:
        fallbacks["fallback.direct"] = "direct=0: the filesystem refuses O_DIRECT"
    return engine, is_direct, fallbacks


def _run_with_progress(
    workspace: Workspace, request: Request, *, fio: Fio, session: Session, stop: StopSignals
) -> FioResult:
    plan = request.plan
    progress = Progress(
        plan.profile.name,
        request.directory,
        steps=plan.profile.steps,
        total_s=plan.duration_s,
        is_quiet=session.console.is_quiet,
    )
    progress.start()
    try:
        return run_fio(
            build_argv(fio, _JOBFILE),
            directory=workspace.directory,
            scratch_directory=session.spool.directory,
            time_limit_s=request.time_limit_s or plan.duration_s * _TIME_LIMIT_FACTOR + _TIME_LIMIT_EXTRA_S,
            stop=stop,
            tick=progress.tick,
        )
    finally:
        progress.finish()


def _fill_envelope(run_id: str, request: Request, *, setting: _Setting, ran: _Ran) -> dict[str, Any]:
    return make_envelope(
        run_id,
        ran.result,
        profile=request.plan.profile.name,
        jobfile=ran.jobfile,
        target=setting.target,
        labels={**setting.labels, **ran.fallbacks},
        environment=setting.environment,
    )


def _describe_failure(result: FioResult) -> str | None:
    if result.is_success and result.has_report:
        return None
    if result.stopped_because:
        how = f"fio was {result.stopped_because}"
    elif result.signal is not None:
        how = f"fio was killed by signal {result.signal}"
    elif result.is_success:
        how = "fio ended well but printed no report"
    else:
        how = f"fio failed with status {result.exit_status}"
    said = " | ".join(_complaints(result)[:3])
    return f"{how}: {said}" if said else how


def _complaints(result: FioResult) -> list[str]:
    """Return the lines in which fio complains; it does so on both outputs."""
    before_report = result.stdout.partition("{")[0]
    lines = [line.strip() for line in (result.stderr + before_report).splitlines()]
    return [line for line in dict.fromkeys(lines) if line and not line.startswith("bench-agent:")]


def _keep(spool: Spool, run_id: str, *, packed: bytes) -> Entry:
    try:
        return spool.add(run_id, packed)
    except OSError as error:
        raise CannotMeasure(f"the result cannot be kept in {spool.directory}: {error}") from None
