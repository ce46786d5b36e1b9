"""One run: look around, run fio, put away what it made, and keep what it printed."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from agent.config import Config
from agent.console import Progress
from agent.delivery.envelope import check_labels, make_envelope, pack_envelope, read_target
from agent.delivery.spool import Entry, Spool
from agent.environment.cloud import find_instance
from agent.environment.environment import describe_environment, find_instance_type
from agent.environment.time_zone import find_process_zone
from agent.exit_codes import CannotMeasure, Interrupted
from agent.measuring.fio import Fio, FioResult, StopSignals, choose_engine, find_fio, prefer_engine
from agent.measuring.fio_logs import list_log_options, read_logs
from agent.measuring.load import BusyLimits, Observation, check_load, observe
from agent.measuring.resources import check_resources
from agent.measuring.workspace import Workspace, clean_leftovers
from agent.methods.bench import Bench, Outcome
from agent.methods.registry import carry_out, check_plan
from agent.profiles.profiles import Plan, Profile
from agent.quantities import format_duration
from agent.running.session import Session
from agent.storage.layout import describe_storage
from agent.storage.roundtrip import describe_round_trip


@dataclass(frozen=True)
class Request:
    """What was asked for.

    target, labels: as written; time_limit_s: None for one that fits the plan; has_logs: keep fio's logs, too.
    A sweep says more: known: fields of the target that hold where nothing was found; run_id: of this run; progress:
    its own display. limits: when to put it off. asks_cloud, shows_serials, trusts_directory: as the configuration has
    them, or more.
    """

    plan: Plan
    directory: str
    target: Mapping[str, str]
    labels: Mapping[str, str]
    time_limit_s: float | None
    has_logs: bool = False
    known: Mapping[str, Any] = field(default_factory=dict)
    sweep_id: str | None = None
    run_id: str | None = None
    progress: Progress | None = None
    limits: BusyLimits = field(default_factory=BusyLimits)
    asks_cloud: bool = False
    shows_serials: bool = False
    trusts_directory: bool = False


@dataclass(frozen=True)
class SpooledRun:
    """A run that is in the spool.

    failure: what went wrong with fio, None if nothing did; facts, words: what the profile found besides fio's numbers.
    """

    entry: Entry
    exit_status: int | None
    failure: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""


@dataclass(frozen=True)
class _Setting:
    """What was found out before fio starts; fio is None where the profile needs none.

    environment: what many runs share; conditions: what holds at this run alone.
    """

    fio: Fio | None
    target: Mapping[str, Any]
    labels: Mapping[str, str]
    environment: Mapping[str, Any]
    conditions: Mapping[str, Any]

    @property
    def disks(self) -> Sequence[str]:
        disks: Sequence[str] = self.environment["facts"].get("disks", ())
        return disks


@dataclass(frozen=True)
class _Ran:
    """What the profile left.

    fallbacks: labels for what had to be done otherwise than usual; after: what was seen when it had ended.
    """

    outcome: Outcome
    fallbacks: Mapping[str, str]
    logs: Mapping[str, str]
    after: Observation

    @property
    def result(self) -> FioResult:
        return self.outcome.result


def measure(request: Request, session: Session) -> SpooledRun:
    """Run the plan and keep its result in the spool; call it under the spool's lock.

    Raises CannotMeasure where there is nothing to keep, and Interrupted where a signal ended it: half a run
    is no result.
    """
    check_plan(request.plan)
    session.spool.check_room()
    setting = _look_around(request, session.config)
    for note in clean_leftovers(session.spool.directory):
        session.console.note(note)
    reserve_bytes = session.config.reserve_bytes
    check_resources(request.directory, request.plan.needs, reserve_bytes=reserve_bytes)
    before = observe(setting.disks)
    check_load(request.limits, before)
    run_id = request.run_id or str(uuid.uuid4())
    with StopSignals() as stop:
        try:
            ran = _run_in_workspace(run_id, request, setting=setting, session=session, stop=stop)
        except OSError as error:
            raise CannotMeasure(f"the run failed: {error}") from error
        if ran.result.stopped_because and stop.received is not None:
            raise Interrupted(
                "stopped: fio was ended, its files are removed, nothing was kept", stop.received
            )
        failure = _describe_failure(ran.outcome, "fio" if setting.fio else request.plan.profile.name)
        if failure and not ran.outcome.is_complete:
            raise CannotMeasure(failure)
        packed = pack_envelope(_fill_envelope(run_id, request, setting=setting, before=before, ran=ran))
        entry = _keep(session.spool, run_id, packed=packed)
        if stop.received is not None:
            raise Interrupted(
                f"stopped: result {run_id} is kept in the spool for the next flush", stop.received
            )
    return SpooledRun(entry, ran.result.exit_status, failure, ran.outcome.facts, ran.outcome.words)


def _look_around(request: Request, config: Config) -> _Setting:
    directory = os.path.realpath(request.directory)
    if not os.path.isdir(directory):
        raise CannotMeasure(f"{request.directory} is no directory: name an existing one with --directory")
    configured = read_target(config.target)
    # The configuration speaks of the usual place, not of what a sweep has just made.
    usual = {name: value for name, value in configured.items() if name not in request.known}
    told = {**usual, **read_target(request.target)}
    labels = check_labels({**config.labels, **request.labels})
    shows_serials = request.shows_serials or config.shows_serials
    storage = describe_storage(directory, shows_serials=shows_serials)
    environment = describe_environment(
        storage,
        directory=directory,
        shows_serials=shows_serials,
        process_zone=find_process_zone(os.environ, time.tzname),
    )
    instance = find_instance() if request.asks_cloud or config.asks_cloud else None
    if instance:
        environment["facts"]["cloud"] = instance.as_facts()
    instance_type = instance.instance_type if instance else find_instance_type()
    found = {name: value for name, value in storage.target.items() if value is not None}
    return _Setting(
        fio=find_fio(config.fio) if request.plan.profile.has_fio else None,
        # What the operator says outweighs what was found.
        target={**request.known, **found, "instance_type": instance_type, **told},
        labels=labels,
        environment=environment,
        conditions=describe_round_trip(directory),
    )


def _run_in_workspace(
    run_id: str, request: Request, *, setting: _Setting, session: Session, stop: StopSignals
) -> _Ran:
    profile = request.plan.profile
    # What only reads leaves nothing on the storage under test.
    parent = session.spool.directory if profile.is_read_only else request.directory
    trusts_parent = request.trusts_directory or session.config.trusts_directory
    workspace = Workspace(parent, session.spool.directory, run_id=run_id, trusts_parent=trusts_parent)
    with workspace:
        engine, is_direct, fallbacks = _choose_means(profile, setting.fio, workspace=workspace)
        for label in fallbacks.values():
            session.console.warn(f"{label}; such numbers compare only with their like")
        bench = partial(Bench, workspace=workspace, engine=engine, is_direct=is_direct, stop=stop)
        outcome = _run_with_progress(bench, request, fio=setting.fio, session=session)
        logs = _collect_logs(workspace, session) if request.has_logs else {}
        # Before the test file goes: to remove it is I/O of our own.
        after = observe(() if stop.received else setting.disks)
    if not workspace.is_removed:
        session.console.warn(f"{workspace.directory} could not be removed; the next run tries again")
    return _Ran(outcome, fallbacks, logs, after)


def _collect_logs(workspace: Workspace, session: Session) -> dict[str, str]:
    """Return fio's logs; a run without them is still a run."""
    found = read_logs(workspace.descriptor)
    if found.problem:
        session.console.warn(f"{found.problem}; the result comes without logs")
    return found.logs


def _choose_means(
    profile: Profile, fio: Fio | None, *, workspace: Workspace
) -> tuple[str, bool, dict[str, str]]:
    """Return engine, whether direct, and labels that say what had to be done otherwise than usual."""
    fallbacks: dict[str, str] = {}
    engine = profile.engine
    if engine is None:
        assert fio is not None
        engine = choose_engine(fio)
        if engine == "psync":
            fallbacks["fallback.ioengine"] = f"psync: this fio has no {prefer_engine()}"
    if not profile.wants_direct:
        return engine, False, fallbacks
    is_direct = workspace.has_direct_io()
    if not is_direct:
        fallbacks["fallback.direct"] = "direct=0: the filesystem refuses O_DIRECT"
    return engine, is_direct, fallbacks


def _run_with_progress(
    make_bench: Callable[..., Bench], request: Request, *, fio: Fio | None, session: Session
) -> Outcome:
    plan = request.plan
    options = list_log_options(fio.version) if fio and request.has_logs else ()
    progress = request.progress or Progress(
        plan.profile.name,
        request.directory,
        steps=plan.profile.steps,
        total_s=plan.duration_s,
        is_quiet=session.console.is_quiet or session.console.is_unattended,
    )
    session.console.record(
        f"{plan.profile.name} in {request.directory}: takes about {format_duration(plan.duration_s)}"
    )
    progress.start()
    try:
        return carry_out(
            make_bench(
                plan=plan,
                fio=fio,
                started=time.monotonic(),
                time_limit_s=request.time_limit_s or plan.time_limit_s,
                scratch_directory=session.spool.directory,
                tick=progress.tick,
                options=options,
            )
        )
    finally:
        progress.finish()


def _fill_envelope(
    run_id: str, request: Request, *, setting: _Setting, before: Observation, ran: _Ran
) -> dict[str, Any]:
    conditions = {
        **setting.conditions,
        **before.as_facts("before"),
        **ran.after.as_facts("after"),
        **ran.outcome.facts,
    }
    return make_envelope(
        run_id,
        ran.result,
        profile=request.plan.profile.name,
        jobfile=ran.outcome.jobfile,
        target=setting.target,
        labels={**setting.labels, **ran.fallbacks},
        environment=setting.environment,
        conditions=conditions,
        logs=ran.logs,
        sweep=request.sweep_id or (str(uuid.uuid4()) if request.plan.profile.is_sweep else None),
    )


def _describe_failure(outcome: Outcome, program: str) -> str | None:
    result = outcome.result
    if result.is_success and outcome.is_complete:
        return None
    if result.stopped_because:
        how = f"{program} was {result.stopped_because}"
    elif result.signal is not None:
        how = f"{program} was killed by signal {result.signal}"
    elif result.is_success:
        how = f"{program} ended well but printed no report"
    else:
        how = f"{program} failed with status {result.exit_status}"
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
