"""The command `sweep`: plan, confirm, measure step by step, report with a table of scaling, abandon."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import uuid
from dataclasses import dataclass
from typing import Any, Mapping, Sequence
from urllib.parse import urlencode

from agent.console import is_confirmed
from agent.exit_codes import ConfigurationError, ExitCode, Interrupted, worst
from agent.job_state import StateDirectory, SweepState, find_unfinished, load_left
from agent.measuring.fio import StopSignals, find_fio
from agent.measuring.workspace import check_path_trusted, check_resources
from agent.profiles.profile import load_profile
from agent.programs import find_program
from agent.results import METRICS, ResultRow, align, format_cell, list_metrics
from agent.running.resumable_job import ResultSender, abandon_job, describe_job, refuse_options, report_ended
from agent.running.run_command import find_client
from agent.running.session import Session
from agent.storage.device_checks import Device, DeviceCheck, check_devices, inspect_device
from agent.sweeping.stripe_commands import list_tools
from agent.sweeping.sweep_plan import (
    SweepPlan,
    describe_plan,
    dump_request,
    list_commands,
    load_request,
    plan_sweep,
    read_sweep_request,
    render_commands,
)
from agent.sweeping.sweep_run import SweepRun, describe_refusal

# What defines a new sweep.
NEW_OPTIONS: Mapping[str, Any] = {
    **dict.fromkeys(
        ("devices", "directories", "stripes", "file_sizes", "profile", "raid", "fs", "chunk", "wipe")
    ),
    "set": [],
    "label": [],
    "target": [],
    "trust_directory": False,
}
_PACKAGES = {
    "mdadm": "mdadm",
    "mkfs.xfs": "xfsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    **dict.fromkeys(("pvcreate", "vgcreate", "lvcreate", "vgremove", "pvremove", "vgs"), "lvm2"),
}


@dataclass(frozen=True)
class _PlannedSweep:
    """A plan and the state of its devices, () for a sweep over directories."""

    plan: SweepPlan
    devices: tuple[Device, ...]
    check: DeviceCheck


def run_sweep(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Run a new or resumed sweep, or abandon one."""
    states = _find_states(session)
    if arguments.abandon:
        return _abandon(arguments, states, session)
    states.report_damaged(session.console.warn, named=arguments.resume)
    if arguments.resume:
        return _resume(arguments, session)
    planned = _plan_new(arguments, session)
    if arguments.dry_run:
        return _show(planned, session)
    _check_machine(planned.plan, session)
    if planned.check.objections:
        raise ConfigurationError(describe_refusal(planned.check.objections))
    _confirm(planned, arguments, session)
    client = None if arguments.no_send else find_client(session)
    with session.spool.lock():
        state = states.create(
            str(uuid.uuid4()),
            request=dump_request(planned.plan.request),
            steps=[{"label": step.label} for step in planned.plan.steps],
            sizes={device.path: device.size_bytes for device in planned.devices},
            approved_contents={
                device.path: device.list_contents()
                for device in planned.devices
                if device.path in planned.plan.request.wiped and device.list_contents()
            },
            accepted={
                device.path: device.content.digest
                for device in planned.devices
                if device.path not in planned.plan.request.wiped and device.list_contents()
            },
            left={},
            round=None,
        )
        return _work(planned.plan, state, arguments, ResultSender(session, client))


def _resume(arguments: argparse.Namespace, session: Session) -> ExitCode:
    refuse_options(arguments, NEW_OPTIONS, reason="--resume continues as planned")
    states = _find_states(session)
    state = states.load_continued(arguments.resume)
    request = load_request(state)
    plan = plan_sweep(request, load_profile(request.profile), mount_point=_mount_point(session))
    if arguments.dry_run:
        devices = tuple(inspect_device(path) for path in state.approved_contents)
        return _show(_PlannedSweep(plan, devices, DeviceCheck((), ())), session, state=state)
    if state.is_finished:
        return report_ended(state, session)
    _check_machine(plan, session)
    client = None if arguments.no_send else find_client(session)
    with session.spool.lock():
        # Another process may have continued or abandoned it while this one waited for the lock.
        state = states.load_continued(state.id)
        return _work(plan, state, arguments, ResultSender(session, client))


def _work(
    plan: SweepPlan, state: SweepState, arguments: argparse.Namespace, sender: ResultSender
) -> ExitCode:
    session = sender.session
    session.console.note(f"sweep {state.id}")
    with StopSignals() as stop:
        run = SweepRun(plan, state, session, sender, stop, is_stopped_by_errors=arguments.stop_on_error)
        try:
            run.recover()
            if [step.label for step in plan.steps] != state.labels():
                raise ConfigurationError(
                    f"sweep {state.id} was planned by another version of bench-agent; start a new sweep"
                )
            run.prepare_devices()
            run.run()
        except Interrupted as error:
            raise Interrupted(
                f"{error}; the devices are cleaned up; continue with: bench-agent sweep --resume {state.id}",
                error.signal_number,
            ) from None
    code = sender.deliver_all(budget_s=arguments.budget)
    return _report(plan, state, sender, code=code)


def _report(plan: SweepPlan, state: SweepState, sender: ResultSender, *, code: ExitCode) -> ExitCode:
    session = sender.session
    rows = list_scaling_rows(plan, state)
    chart = _find_chart(state, session)
    if session.console.is_terminal:
        for line in format_scaling(rows):
            session.console.report(line)
        if chart:
            session.console.report(f"chart: {chart}")
    text, document, measured = describe_job(state, sender)
    left = f", {document['waiting']} left: --resume {state.id}" if document["waiting"] else ""
    session.console.report(f"{text}{left}")
    document = {**document, "scaling": [row.dump() for row in rows], "chart": chart}
    return session.finish(worst(code, measured), document)


def _find_chart(state: SweepState, session: Session) -> str | None:
    """Return the chart of the sweep's series; None without a server."""
    url = session.config.url
    return f"{url}/scaling/?{urlencode({'q': f'sweep:{state.id}'})}" if url else None


def _plan_new(arguments: argparse.Namespace, session: Session) -> _PlannedSweep:
    request = read_sweep_request(arguments, session.config)
    plan = plan_sweep(request, load_profile(request.profile), mount_point=_mount_point(session))
    for each in plan.rounds:
        # A stripe is mounted below the spool, whose path is always checked.
        if not (each.stripe or request.trusts_directory):
            check_path_trusted(each.directory)
        for step in each.steps if each.stripe is None else ():
            check_resources(each.directory, step.plan.needs, reserve_bytes=session.config.reserve_bytes)
    devices = tuple(inspect_device(path) for path in request.devices)
    check = check_devices(
        devices,
        wiped=request.wiped,
        needed_bytes=plan.needed_bytes,
        left=load_left(_find_states(session)) if devices else (),
    )
    return _PlannedSweep(plan, devices, check)


def _show(planned: _PlannedSweep, session: Session, *, state: SweepState | None = None) -> ExitCode:
    """Print the exact commands of unfinished steps without running them."""
    sizes = state.sizes.values() if state else [device.size_bytes for device in planned.devices]
    wiped = planned.plan.request.wiped
    signatures = [(device.path, device.signatures) for device in planned.devices if device.path in wiped]
    over = [step.number for step in planned.plan.steps if state and state.is_over(step.number)]
    sections = list(
        list_commands(planned.plan, size_bytes=min(sizes, default=0), signatures=signatures, over=over)
    )
    for line in render_commands(sections):
        session.console.report(line)
    for problem in (*planned.check.objections, *planned.check.warnings):
        session.console.warn(problem)
    code = ExitCode.CONFIGURATION if planned.check.objections else ExitCode.OK
    document = {
        "id": state.id if state else None,
        "steps": len(planned.plan.steps),
        "duration_s": planned.plan.duration_s,
        "needed_bytes": planned.plan.needed_bytes,
        "commands": [
            {"title": title, "argv": [list(argv) for argv in commands]} for title, commands in sections
        ],
        "objections": list(planned.check.objections),
        "warnings": list(planned.check.warnings),
    }
    return session.finish(code, document)


def _check_machine(plan: SweepPlan, session: Session) -> None:
    """Check requirements before the devices are written."""
    if plan.steps[0].plan.profile.uses_fio:
        find_fio(session.config.fio)
    _check_tools(plan)


def _check_tools(plan: SweepPlan) -> None:
    """Check that this user can create and remove stripes, if there are any."""
    stripes = [each.stripe for each in plan.rounds if each.stripe]
    if not stripes:
        return
    if os.geteuid() != 0:
        raise ConfigurationError("a sweep over devices creates and mounts filesystems; run it as root")
    tools = dict.fromkeys(tool for stripe in stripes for tool in list_tools(stripe))
    missing = [tool for tool in tools if find_program(tool) is None]
    if missing:
        packages = sorted({_PACKAGES.get(tool, "util-linux") for tool in missing})
        raise ConfigurationError(
            f"missing: {', '.join(missing)}; install for example with apt install {shlex.join(packages)}"
        )


def _confirm(planned: _PlannedSweep, arguments: argparse.Namespace, session: Session) -> None:
    """Show the plan and ask for confirmation if data are destroyed."""
    mount_point = _mount_point(session)
    if planned.devices and os.path.ismount(mount_point):
        unfinished = find_unfinished(_find_states(session))
        if unfinished:
            raise ConfigurationError(
                f"sweep {unfinished.id} was killed and is still mounted; run bench-agent sweep --resume {unfinished.id}"
            )
        raise ConfigurationError(
            f"{mount_point} is mounted, by a sweep whose state is damaged or was removed; unmount it, and remove its "
            "array or volume group"
        )
    for warning in planned.check.warnings:
        session.console.warn(warning)
    session.console.note(describe_plan(planned.plan))
    if not planned.devices or arguments.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "a sweep destroys all data on its devices; confirm with --yes if there is no terminal"
        )
    if session.console.is_quiet:
        session.console.warn(describe_plan(planned.plan))
    paths = ", ".join(device.path for device in planned.devices)
    if not is_confirmed(f"all data on {paths} will be destroyed; type yes to start:"):
        raise ConfigurationError("not confirmed; nothing was written")


def _find_states(session: Session) -> StateDirectory[SweepState]:
    return StateDirectory(SweepState, session.spool.directory)


def _mount_point(session: Session) -> str:
    """Return the mount point of all sweeps; constant, because it is part of a run's environment.

    Without links, as in mountinfo: otherwise a mounted stripe would not be recognized.
    """
    return os.path.realpath(os.path.join(_find_states(session).path, "mount"))


def _abandon(arguments: argparse.Namespace, states: StateDirectory[SweepState], session: Session) -> ExitCode:
    """Remove the stripe of a sweep, and record that it is not continued; its results stay."""
    refuse_options(arguments, {**NEW_OPTIONS, "dry_run": False}, reason="--abandon measures nothing")
    return report_ended(abandon_job(states, arguments.abandon, session=session, clean_up=_clean_up), session)


def _clean_up(state: SweepState, sender: ResultSender) -> None:
    """Remove the stripe that a killed sweep left."""
    if state.round_number is None:
        sender.recover(state)
        return
    request = load_request(state)
    plan = plan_sweep(request, load_profile(request.profile), mount_point=_mount_point(sender.session))
    _check_tools(plan)
    with StopSignals() as stop:
        SweepRun(plan, state, sender.session, sender, stop, option="--abandon").recover()


@dataclass(frozen=True)
class ScalingRow:
    """A result of one step. settings: what the step varies, by name; stripes: None for a sweep over directories.

    efficiency: IOPS / (stripes / fewest × IOPS with the fewest stripes), for the same workload and settings; None for a
    sweep over directories, or without IOPS of both.
    """

    result: ResultRow
    settings: Mapping[str, str]
    stripes: int | None
    efficiency: float | None

    def dump(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "workload": self.result.workload,
            "settings": dict(self.settings),
            "stripes": self.stripes,
            **{metric: self.result.values.get(metric) for metric in METRICS},
            "efficiency": None if self.efficiency is None else round(self.efficiency, 4),
        }


def list_scaling_rows(plan: SweepPlan, state: SweepState) -> list[ScalingRow]:
    """Return a row for each workload of each completed step, by workload, settings and stripes."""
    varied = [name for name, values in plan.request.parameters.items() if len(values) > 1]
    has_directories = len(plan.request.directories) > 1
    found: dict[tuple[str, tuple[str, ...]], list[ScalingRow]] = {}
    for each in plan.rounds:
        stripes = len(each.stripe.devices) if each.stripe else None
        for step in each.steps:
            settings = {name: step.settings[name] for name in varied}
            if has_directories:
                settings = {"directory": each.directory, **settings}
            for result in state.list_results(step.number):
                group = found.setdefault((result.workload, tuple(settings.values())), [])
                group.append(ScalingRow(result, settings, stripes, _find_efficiency(result, stripes, group)))
    order = {workload: place for place, workload in enumerate(dict.fromkeys(key[0] for key in found))}
    return [row for key in sorted(found, key=lambda key: order[key[0]]) for row in found[key]]


def _find_efficiency(result: ResultRow, stripes: int | None, group: Sequence[ScalingRow]) -> float | None:
    """Return the share of linear scaling from the first row of the group, which has the fewest stripes."""
    first = group[0] if group else None
    iops, before = result.values.get("iops"), (first.result if first else result).values.get("iops")
    if stripes is None or iops is None or not before:
        return None
    fewest = first.stripes if first and first.stripes else stripes
    return iops / (before * stripes / fewest)


def format_scaling(rows: Sequence[ScalingRow]) -> list[str]:
    """Return the lines of the table; [] without rows."""
    if not rows:
        return []
    metrics = list_metrics([row.result for row in rows])
    names = list(rows[0].settings)
    has_stripes = rows[0].stripes is not None
    stripes_heading, efficiency_heading = (["stripes"], ["efficiency"]) if has_stripes else ([], [])
    headings = [METRICS[metric][0] for metric in metrics]
    lines = [["workload", *names, *stripes_heading, *headings, *efficiency_heading]]
    for row in rows:
        efficiency = "–" if row.efficiency is None else f"{row.efficiency * 100:.0f} %"
        lines.append(
            [
                row.result.workload,
                *row.settings.values(),
                *([str(row.stripes)] if has_stripes else []),
                *(format_cell(row.result, metric) for metric in metrics),
                *([efficiency] if has_stripes else []),
            ]
        )
    return align(lines)
