"""One run: collect the environment, run fio, clean up, and store the result in the spool."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from agent.console import Progress
from agent.delivery.envelope import check_labels, make_envelope, pack_envelope, read_target
from agent.delivery.spool import Entry
from agent.environment.host_facts import (
    describe_environment,
    find_instance,
    find_instance_type,
    find_process_zone,
)
from agent.environment.machine_state import describe_interference, list_interference, read_machine_state
from agent.exit_codes import CannotMeasure, Interrupted
from agent.measuring.fio import (
    Fio,
    FioResult,
    StopSignals,
    choose_engine,
    find_fio,
    list_log_options,
    prefer_engine,
    read_logs,
)
from agent.measuring.fio_reports import list_fio_results
from agent.measuring.jobfile import list_opened
from agent.measuring.load import BusyLimits, Observation, check_load, observe
from agent.measuring.methods import MethodContext, MethodResult, run_plan
from agent.measuring.workspace import Workspace, check_resources, clean_leftovers
from agent.profiles.profile import Plan, check_plan
from agent.quantities import format_duration, format_place
from agent.results import ResultRow
from agent.running.session import Session
from agent.storage.device_checks import Device, check_raw_device, hold_device
from agent.storage.layout import Storage, describe_storage
from agent.storage.network_storage import describe_round_trip
from agent.storage.sysfs import keep_known

# The server accepts as many.
_OPENED_MAXIMUM = 64


@dataclass(frozen=True)
class RunRequest:
    """The parameters of a run.

    target, labels: as given; time_limit_s: None for the plan's; latest_end: in seconds since the epoch, when the run is
    stopped even earlier, as after its time limit; has_logs: include fio's logs; limits: when to skip it.
    For sweeps: known: fields of the target to use if not detected; run_id; progress: display of the sweep; conditions:
    how far it is, as the server shows it.
    uses_cloud_metadata, sends_serials, trusts_directory: enabled here or in the configuration.
    """

    plan: Plan
    directory: str
    target: Mapping[str, str]
    labels: Mapping[str, str]
    time_limit_s: float | None
    has_logs: bool = False
    known: Mapping[str, Any] = field(default_factory=dict)
    sweep_id: str | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    run_id: str | None = None
    latest_end: float | None = None
    progress: Progress | None = None
    limits: BusyLimits = field(default_factory=BusyLimits)
    uses_cloud_metadata: bool = False
    sends_serials: bool = False
    trusts_directory: bool = False


@dataclass(frozen=True)
class SpooledRun:
    """A run in the spool.

    failure: error of fio, None on success; results: fio's numbers; facts, finding: results of the profile besides them.
    """

    entry: Entry
    exit_status: int | None
    failure: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    finding: str = ""
    results: Sequence[ResultRow] = ()


@dataclass(frozen=True)
class _RunSetup:
    """What is known before fio starts; fio: None if the profile needs none.

    targets: what fio opens; target: the layout of the first. environment: facts that many runs share; conditions:
    observations of this run only. disks: kernel names.
    """

    fio: Fio | None
    target: Mapping[str, Any]
    targets: Sequence[Mapping[str, Any]]
    labels: Mapping[str, str]
    environment: Mapping[str, Any]
    conditions: Mapping[str, Any]
    disks: Sequence[str]


@dataclass(frozen=True)
class _CompletedRun:
    """The result of the profile.

    fallbacks: labels for deviations from the profile; after: load and I/O after the run; interference: what slowed the
    machine down during it.
    """

    method_result: MethodResult
    fallbacks: Mapping[str, str]
    logs: Mapping[str, str]
    after: Observation
    interference: Mapping[str, Any]

    @property
    def result(self) -> FioResult:
        return self.method_result.result


def measure(request: RunRequest, session: Session) -> SpooledRun:
    """Run the plan and store its result in the spool; requires the spool's lock.

    Raises CannotMeasure without a report, and Interrupted after a signal: incomplete runs are not stored.
    """
    check_plan(request.plan)
    if request.plan.device:
        # Only now: a link may lead to another disk after a wait.
        plan = replace(request.plan, device=os.path.realpath(request.plan.device))
        request = replace(request, plan=plan)
    session.spool.check_room()
    setup = _prepare_setup(request, session)
    for note in clean_leftovers(session.spool.directory):
        session.console.note(note)
    reserve_bytes = session.config.reserve_bytes
    check_resources(request.directory, request.plan.needs, reserve_bytes=reserve_bytes)
    before = observe(setup.disks)
    check_load(request.limits, before)
    run_id = request.run_id or str(uuid.uuid4())
    with StopSignals() as stop, hold_device(request.plan.device):
        try:
            completed = _run_in_workspace(run_id, request, setup=setup, session=session, stop=stop)
        except OSError as error:
            raise CannotMeasure(f"the run failed: {error}") from error
        if completed.result.stopped_because and stop.received is not None:
            raise Interrupted(
                "stopped: fio was terminated, its files are removed, no result was stored", stop.received
            )
        profile = request.plan.profile
        failure = _describe_failure(completed.method_result, "fio" if setup.fio else profile.name)
        if failure and not completed.method_result.is_complete:
            raise CannotMeasure(failure)
        envelope = make_envelope(
            run_id,
            completed.result,
            profile=profile.name,
            parameters=None if profile.is_own else request.plan.given,
            jobfile=completed.method_result.jobfile,
            target=setup.target,
            targets=setup.targets,
            labels={**setup.labels, **completed.fallbacks},
            environment=setup.environment,
            conditions={
                **setup.conditions,
                **request.conditions,
                **before.as_facts("before"),
                **completed.after.as_facts("after"),
                **completed.interference,
                **completed.method_result.facts,
            },
            logs=completed.logs,
            sweep=request.sweep_id or (str(uuid.uuid4()) if profile.is_sweep else None),
            failure=failure,
            dropped=session.spool.read_dropped(),
        )
        try:
            entry = session.spool.add(run_id, pack_envelope(envelope))
        except OSError as error:
            raise CannotMeasure(f"cannot store the result in {session.spool.directory}: {error}") from None
        if stop.received is not None:
            raise Interrupted(
                f"stopped: result {run_id} is in the spool for the next delivery", stop.received
            )
    return SpooledRun(
        entry,
        completed.result.exit_status,
        failure,
        completed.method_result.facts,
        completed.method_result.finding,
        list_fio_results(completed.result.stdout),
    )


def _prepare_setup(request: RunRequest, session: Session) -> _RunSetup:
    config = session.config
    plan = request.plan
    directory = os.path.realpath(request.directory)
    if plan.device:
        check_device(plan, session)
    elif not os.path.isdir(directory):
        raise CannotMeasure(f"{request.directory} is not a directory; set --directory to an existing one")
    configured = read_target(config.target)
    # The configuration describes the default directory, not the stripe of a sweep.
    usual = {name: value for name, value in configured.items() if name not in request.known}
    given = {**usual, **read_target(request.target)}
    labels = check_labels({**config.labels, **request.labels})
    sends_serials = request.sends_serials or config.sends_serials
    opened = _describe_opened(plan, directory, session, sends_serials=sends_serials)
    storage = next(iter(opened.values()), Storage({}, {}, {}))
    environment = describe_environment(
        storage,
        directory="" if plan.device else directory,
        sends_serials=sends_serials,
        process_zone=find_process_zone(os.environ, time.tzname),
    )
    instance = find_instance() if request.uses_cloud_metadata or config.uses_cloud_metadata else None
    if instance:
        environment["facts"]["cloud"] = instance.as_facts()
    instance_type = instance.instance_type if instance else find_instance_type()
    # Values given by the operator override detected ones.
    layouts = [{**request.known, **keep_known(**each.target), **given} for each in opened.values()]
    return _RunSetup(
        fio=find_fio(config.fio) if plan.profile.uses_fio else None,
        target={"instance_type": instance_type, **(layouts[0] if layouts else given)},
        targets=[each.describe_opened(path, layout) for (path, each), layout in zip(opened.items(), layouts)],
        labels=labels,
        environment=environment,
        conditions=describe_round_trip(next(iter(opened), directory)),
        disks=list(dict.fromkeys(disk for each in opened.values() for disk in each.facts.get("disks", ()))),
    )


def check_device(plan: Plan, session: Session) -> Device:
    """Return the device of a plan; CannotMeasure if it must not be measured. Warns of data that a run destroys."""
    needed_bytes = plan.profile.need(plan.values).space_bytes
    device = check_raw_device(plan.device, needed_bytes=needed_bytes, is_destructive=plan.is_destructive)
    if plan.writes:
        for content in device.list_contents():
            session.console.warn(f"{plan.device}: destroys {content}")
    return device


def _describe_opened(
    plan: Plan, directory: str, session: Session, *, sends_serials: bool
) -> dict[str, Storage]:
    """Return the storage under what fio opens, by absolute path."""
    paths = [plan.values.get("file") or plan.device or directory]
    if plan.profile.is_own:
        paths = list_opened(plan.profile.template, directory)
    if len(paths) > _OPENED_MAXIMUM:
        session.console.warn(
            f"the job file opens {len(paths)} paths; the first {_OPENED_MAXIMUM} are described"
        )
    return {
        path: describe_storage(os.path.realpath(path), sends_serials=sends_serials)
        for path in paths[:_OPENED_MAXIMUM]
    }


def _run_in_workspace(
    run_id: str, request: RunRequest, *, setup: _RunSetup, session: Session, stop: StopSignals
) -> _CompletedRun:
    profile = request.plan.profile
    # A read-only profile writes nothing to the storage under test; a device has no directory.
    is_elsewhere = profile.is_read_only or request.plan.device
    parent = session.spool.directory if is_elsewhere else request.directory
    trusts_parent = request.trusts_directory or session.config.trusts_directory
    workspace = Workspace(parent, session.spool.directory, run_id=run_id, trusts_parent=trusts_parent)
    with workspace:
        engine, is_direct, fallbacks = _choose_engine(request.plan, setup.fio, workspace=workspace)
        for label in fallbacks.values():
            session.console.warn(f"{label}; results are comparable only with runs under the same fallback")
        make_context = partial(
            MethodContext, workspace=workspace, engine=engine, is_direct=is_direct, stop=stop
        )
        state = read_machine_state()
        method_result = _run_with_progress(make_context, request, fio=setup.fio, session=session)
        interference = describe_interference(state, read_machine_state())
        logs = _collect_logs(workspace, session) if request.has_logs else {}
        # Before the test file is removed, which is I/O of the agent.
        after = observe(() if stop.received else setup.disks)
    if not workspace.is_removed:
        session.console.warn(f"cannot remove {workspace.directory}; the next run tries again")
    for text in list_interference(interference):
        session.console.note(text)
    return _CompletedRun(method_result, fallbacks, logs, after, interference)


def _collect_logs(workspace: Workspace, session: Session) -> dict[str, str]:
    """Return fio's logs; a run without logs is still valid."""
    try:
        return read_logs(workspace.descriptor)
    except CannotMeasure as error:
        session.console.warn(f"{error}; the result has no logs")
        return {}


def _choose_engine(plan: Plan, fio: Fio | None, *, workspace: Workspace) -> tuple[str, bool, dict[str, str]]:
    """Return engine, whether O_DIRECT is used, and labels for fallbacks."""
    profile = plan.profile
    fallbacks: dict[str, str] = {}
    engine = profile.engine
    if engine is None:
        assert fio is not None
        engine = choose_engine(fio)
        if engine == "psync":
            fallbacks["fallback.ioengine"] = f"psync: {prefer_engine()} is not available in this fio"
    if not profile.wants_direct:
        return engine, False, fallbacks
    is_direct = bool(plan.device) or workspace.has_direct_io()
    if not is_direct:
        fallbacks["fallback.direct"] = "direct=0: the filesystem does not support O_DIRECT"
    return engine, is_direct, fallbacks


def _run_with_progress(
    make_context: Callable[..., MethodContext], request: RunRequest, *, fio: Fio | None, session: Session
) -> MethodResult:
    plan = request.plan
    time_limit_s = request.time_limit_s or plan.time_limit_s
    if request.latest_end is not None:
        time_limit_s = min(time_limit_s, max(request.latest_end - time.time(), 0.0))
    options = list_log_options(fio.version) if fio and request.has_logs else ()
    progress = request.progress or Progress(
        plan.profile.name,
        request.directory,
        steps=plan.profile.steps,
        total_s=plan.duration_s,
        is_quiet=session.console.is_quiet or session.console.is_unattended,
    )
    session.console.record(
        f"{plan.profile.name} {format_place(request.directory)}: takes about {format_duration(plan.duration_s)}"
    )
    progress.start()
    try:
        return run_plan(
            make_context(
                plan=plan,
                fio=fio,
                started=time.monotonic(),
                time_limit_s=time_limit_s,
                scratch_directory=session.spool.directory,
                tick=progress.tick,
                options=options,
            )
        )
    finally:
        progress.finish()


def _describe_failure(method_result: MethodResult, program: str) -> str | None:
    result = method_result.result
    failure = result.failure
    if not method_result.is_complete and (failure is None or failure == result.job_problem):
        failure = "exited with status 0 without a report"
    if failure is None:
        return None
    how = f"{program} {failure}"
    errors = " | ".join(_list_error_lines(result)[:3])
    return f"{how}: {errors}" if errors else how


def _list_error_lines(result: FioResult) -> list[str]:
    """Return the lines with fio's errors, from both outputs."""
    before_report = result.stdout.partition("{")[0]
    lines = [line.strip() for line in (result.stderr + before_report).splitlines()]
    return [line for line in dict.fromkeys(lines) if line and not line.startswith("bench-agent:")]
