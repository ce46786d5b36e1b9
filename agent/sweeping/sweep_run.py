"""Run the steps of a sweep, build the stripes, and always remove them afterwards.

The state of stripes is read from the system, so that cleanup after a kill needs no special case.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from typing import Callable, Iterable, Mapping, Sequence

from agent.console import SweepProgress
from agent.exit_codes import CannotMeasure, ConfigurationError, Interrupted
from agent.job_state import SweepState
from agent.measuring.fio import StopSignals, make_environment, make_parent_death_hook
from agent.programs import find_program
from agent.running.measure import RunRequest, measure
from agent.running.resumable_job import ResultSender
from agent.running.session import Session
from agent.storage.device_checks import DATA, Device, check_devices, inspect_device
from agent.storage.mounts import find_mount
from agent.storage.signatures import Signature, read_content, read_signatures
from agent.storage.sysfs import list_directory
from agent.sweeping.stripe_commands import (
    NAME,
    VOLUME,
    Stripe,
    StripeState,
    build_commands,
    is_ours,
    undo_commands,
    wipe_commands,
)
from agent.sweeping.sweep_plan import Round, SweepPlan, SweepStep

_POLL_INTERVAL_S = 0.05
_TERMINATION_S = 10.0
_OUTPUT_MAXIMUM = 4000
# udev opens a device after it was closed, which keeps it busy for a moment.
_BUSY_S = 10.0
_BUSY_PAUSE_S = 0.2
# udev also creates the links to arrays. mdadm waits 5 s for it; `udevadm settle` would wait 120 s.
_NAMED_S = 120.0


class ToolFailed(CannotMeasure):
    """A system command failed."""


@dataclass(frozen=True)
class CleanupResult:
    """The result of a cleanup; both empty on success.

    problems: what remains, and why; manual_commands: those that would have removed it, () for data of others.
    """

    problems: tuple[str, ...] = ()
    manual_commands: tuple[tuple[str, ...], ...] = ()

    def describe(self) -> str:
        """Return it as text, one command per line."""
        text = f"cleanup is incomplete: {'; '.join(self.problems)}"
        if not self.manual_commands:
            return f"{text}\nthe sweep does not remove this; check these devices"
        return "\n".join(
            (f"{text}\nrun manually:", *(f"  {shlex.join(argv)}" for argv in self.manual_commands))
        )


def run_tool(argv: Sequence[str], *, stop: StopSignals | None, tick: Callable[[], None]) -> str:
    """Run a command and return its output; ToolFailed on failure.

    A signal in stop terminates it and raises Interrupted; without stop it is not interrupted.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                executable=find_program(argv[0]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=make_environment(),
                start_new_session=True,
                preexec_fn=make_parent_death_hook(),
            )
        except OSError as error:
            raise ToolFailed(f"cannot start {argv[0]}: {error}") from None
        _wait_for(process, stop, tick)
        output.seek(0)
        text = output.read(_OUTPUT_MAXIMUM).decode("utf-8", "replace").strip()
    if stop is not None and stop.received is not None:
        raise Interrupted(f"stopped at {shlex.join(argv)}", stop.received)
    if process.returncode != 0:
        raise ToolFailed(f"{shlex.join(argv)} ended with status {process.returncode}: {text or 'no output'}")
    return text


def build_stripe(stripe: Stripe, *, stop: StopSignals, tick: Callable[[], None]) -> None:
    """Build and mount the stripe over empty devices; CannotMeasure on failure, without cleanup."""
    wait_until_free(stripe.devices)
    os.makedirs(stripe.mount_point, mode=0o700, exist_ok=True)
    for argv in build_commands(stripe):
        if argv[0].startswith("mkfs"):
            wait_until_named(stripe.volume, stop=stop, tick=tick)
        run_tool(argv, stop=stop, tick=tick)


def remove_stripe(stripe: Stripe, *, tick: Callable[[], None]) -> CleanupResult:
    """Remove all parts of the stripe in reverse order, and nothing that a sweep did not write.

    Not interrupted by signals. Failed commands are retried: a device may be busy for a moment after it was closed.
    """
    tried: tuple[tuple[str, ...], ...] = ()
    problem: str | None = None
    deadline = 0.0
    while True:
        commands = undo_commands(stripe, inspect_stripe(stripe))
        if not commands:
            return CleanupResult(tuple(find_foreign(stripe)))
        if commands != tried:
            tried, deadline = commands, time.monotonic() + _BUSY_S
        elif time.monotonic() > deadline:
            return CleanupResult((problem or "it reappears after each removal",), commands)
        problem = _run_all(commands, tick)
        if problem:
            time.sleep(_BUSY_PAUSE_S)


def inspect_stripe(stripe: Stripe) -> StripeState:
    """Return the existing parts of a sweep's stripe, without devices that also have other signatures."""
    read = {device: _read(device) for device in stripe.devices}
    own = [(device, found) for device, found in read.items() if found and all(map(is_ours, found))]
    members = [device for device, found in own if any(each.name.startswith("md ") for each in found)]
    arrays = find_arrays(members)
    has_group = stripe.layer == "lvm" and _has_group()
    volumes = (*arrays, *([VOLUME] if has_group else []))
    mount = find_mount(stripe.mount_point)
    return StripeState(
        is_mounted=mount is not None and mount.mount_point == stripe.mount_point,
        volumes=tuple(volume for volume in volumes if _read(volume)),
        arrays=arrays,
        has_group=has_group,
        signatures=tuple(own),
    )


def find_foreign(stripe: Stripe) -> list[str]:
    """Return messages about signatures that no sweep wrote, and devices that cannot be read."""
    foreign = []
    for device in stripe.devices:
        try:
            found = read_signatures(device)
        except OSError as error:
            foreign.append(f"cannot read {device}: {error.strerror}")
            continue
        foreign.extend(
            f"{device} contains {signature.describe()}, which was not written by the sweep"
            for signature in found
            if not is_ours(signature)
        )
    return foreign


def find_arrays(members: Iterable[str], *, root: str = "/") -> tuple[str, ...]:
    """Return the md arrays that consist of these devices only, with any number."""
    blocks = os.path.join(root, "sys/class/block")
    names = {os.path.basename(os.path.realpath(member)) for member in members}
    holders = {holder for name in names for holder in list_directory(os.path.join(blocks, name, "holders"))}
    return tuple(
        f"/dev/{holder}"
        for holder in sorted(holders)
        # Not by level, which is unset while udev assembles an array from part of its members.
        if os.path.isdir(os.path.join(blocks, holder, "md"))
        and names.issuperset(list_directory(os.path.join(blocks, holder, "slaves")))
    )


def wait_until_free(devices: Iterable[str]) -> None:
    """Wait until each device can be opened exclusively; CannotMeasure after a timeout."""
    deadline = time.monotonic() + _BUSY_S
    for device in devices:
        while True:
            try:
                os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise CannotMeasure(
                        f"{device} is in use: {error.strerror}; `fuser -v {device}` lists its users"
                    ) from None
            time.sleep(_BUSY_PAUSE_S)


def wait_until_named(volume: str, *, stop: StopSignals, tick: Callable[[], None]) -> None:
    """Wait until udev has created the device link; CannotMeasure after a timeout, Interrupted at a signal."""
    deadline = time.monotonic() + _NAMED_S
    while not os.path.exists(volume):
        if stop.received is not None:
            raise Interrupted(f"stopped before {volume} existed", stop.received)
        if time.monotonic() > deadline:
            raise CannotMeasure(f"{volume} was created but does not exist; is udev running?")
        tick()
        time.sleep(_POLL_INTERVAL_S)


def _wait_for(process: subprocess.Popen[bytes], stop: StopSignals | None, tick: Callable[[], None]) -> None:
    pause_s = _POLL_INTERVAL_S / 16
    while process.poll() is None:
        if stop is not None and stop.received is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_TERMINATION_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return
        tick()
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_INTERVAL_S)


def _run_all(commands: Sequence[Sequence[str]], tick: Callable[[], None]) -> str | None:
    """Run commands until one fails and return its error; later ones depend on it."""
    for argv in commands:
        try:
            run_tool(argv, stop=None, tick=tick)
        except ToolFailed as error:
            return str(error)
    return None


def _read(device: str) -> tuple[Signature, ...]:
    """Return the signatures of a device; () for a failed one, so that the layers above can still be removed."""
    try:
        return read_signatures(device)
    except OSError:
        return ()


def _has_group() -> bool:
    try:
        run_tool(("vgs", "--noheadings", NAME), stop=None, tick=lambda: None)
    except ToolFailed:
        return False
    return True


@dataclass
class SweepRun:
    """A running sweep; its methods require the spool's lock. option: --resume or --abandon, to continue with."""

    plan: SweepPlan
    state: SweepState
    session: Session
    sender: ResultSender
    stop: StopSignals
    is_stopped_by_errors: bool = False
    option: str = "--resume"

    def __post_init__(self) -> None:
        self._progress = SweepProgress(
            [step.label for step in self.plan.steps],
            durations_s=[step.plan.duration_s for step in self.plan.steps],
            is_quiet=self.session.console.is_quiet,
        )

    def recover(self) -> None:
        """Remove the stripe of a killed sweep, and find out whether its last result was stored."""
        self.sender.recover(self.state)
        number = self.state.round_number
        if number is not None:
            rounds = self.plan.rounds
            stripe = rounds[number].stripe if 0 <= number < len(rounds) else None
            if stripe is None:
                raise ConfigurationError(
                    f"the sweep state {self.state.path} has no stripe in round {number}; {self.state.remedy}"
                )
            self._remove_stripe(stripe)

    def prepare_devices(self) -> None:
        """Check the devices again, and wipe those of --wipe."""
        if not self.plan.request.devices:
            return
        devices = self._inspect(self.state.approved_contents)
        if self.state.approved_contents:
            for argv in wipe_commands([(device.path, device.signatures) for device in devices]):
                run_tool(argv, stop=self.stop, tick=lambda: None)
            # Signatures are wiped, other data is overwritten by the rounds.
            data = {path: [DATA] for path in self.state.approved_contents}
            devices = self._inspect(data, heading="problems remain after the devices were wiped")
            self.state.record_wiped(
                {device.path: device.content.digest for device in devices if device.path in data}
            )

    def run(self) -> None:
        """Run all unfinished steps; a signal raises Interrupted after cleanup."""
        for number, each in enumerate(self.plan.rounds):
            left = [step for step in each.steps if not self.state.is_over(step.number)]
            if not left:
                continue
            is_success = (
                self._run_on_stripe(number, each, left) if each.stripe else self._run_steps(each, left)
            )
            if not is_success and self.is_stopped_by_errors:
                return
        self.state.finish()

    def _run_on_stripe(self, number: int, each: Round, steps: Sequence[SweepStep]) -> bool:
        stripe = each.stripe
        assert stripe is not None
        self.state.begin_round(number)
        self._progress.begin_step(steps[0].number)
        try:
            build_stripe(stripe, stop=self.stop, tick=self._progress.tick)
            return self._run_steps(each, steps)
        except CannotMeasure as error:
            for step in steps:
                if not self.state.is_over(step.number):
                    self._fail(step, str(error), is_spooled=False)
            return False
        finally:
            self._progress.finish()
            self._remove_stripe(stripe)

    def _run_steps(self, each: Round, steps: Sequence[SweepStep]) -> bool:
        """Return whether all steps succeeded; with --stop-on-error, the rest is skipped after a failure."""
        is_success = True
        for step in steps:
            is_success = self._run_step(each, step) and is_success
            self.sender.deliver()
            if self.stop.received is not None:
                raise Interrupted("stopped between two steps", self.stop.received)
            if not is_success and self.is_stopped_by_errors:
                break
        return is_success

    def _run_step(self, each: Round, step: SweepStep) -> bool:
        run_id = str(uuid.uuid4())
        self.state.begin_step(step.number, run_id)
        self._progress.begin_step(step.number)
        try:
            run = measure(self._make_request(each, step, run_id), self.session)
        except Interrupted:
            self.state.end_interrupted(step.number, is_spooled=self.sender.is_spooled(run_id))
            raise
        except CannotMeasure as error:
            self._fail(step, str(error), is_spooled=False)
            return False
        self._progress.end_step()
        if run.finding:
            self.session.console.note(f"{step.label}: {run.finding}")
        if run.failure:
            self._fail(step, run.failure, is_spooled=True)
            return False
        results = [row.dump() for row in run.results]
        self.state.end_step(step.number, failure=None, is_spooled=True, results=results)
        return True

    def _make_request(self, each: Round, step: SweepStep, run_id: str) -> RunRequest:
        request = self.plan.request
        return RunRequest(
            plan=step.plan,
            directory=each.directory,
            target=request.target,
            labels=request.labels,
            time_limit_s=None,
            known=each.stripe.list_facts() if each.stripe else {},
            sweep_id=self.state.id,
            conditions={
                "sweep_step": step.number,
                "sweep_steps": len(self.plan.steps),
                "sweep_left_s": round(self._progress.estimate_left(step.number)),
            },
            run_id=run_id,
            progress=self._progress,
            trusts_directory=request.trusts_directory,
        )

    def _fail(self, step: SweepStep, reason: str, *, is_spooled: bool) -> None:
        self.state.end_step(step.number, failure=reason, is_spooled=is_spooled)
        self.session.console.warn(f"step {step.number} of {len(self.plan.steps)}, {step.label}: {reason}")

    def _remove_stripe(self, stripe: Stripe) -> None:
        remains = remove_stripe(stripe, tick=lambda: None)
        if remains.problems:
            raise ConfigurationError(
                f"{remains.describe()}\nthen: bench-agent sweep {self.option} {self.state.id}"
            )
        self.state.end_round(read_digests(stripe.devices))

    def _inspect(
        self, approved_contents: Mapping[str, Sequence[str]], *, heading: str = "nothing was written"
    ) -> list[Device]:
        """Return the current state of the devices; ConfigurationError if one must not be written."""
        devices = [inspect_device(path) for path in self.plan.request.devices]
        wiped = [
            device.path
            for device in devices
            if is_wipe_approved(device, approved_contents.get(device.path, ()))
        ]
        verdict = check_devices(
            devices, wiped=wiped, needed_bytes=self.plan.needed_bytes, left=self.state.overwritable
        )
        changed = [
            f"{device.path} has {device.size_bytes} bytes, {self.state.sizes[device.path]} at the start of the sweep"
            for device in devices
            if device.size_bytes != self.state.sizes[device.path]
        ]
        objections = [*verdict.objections, *changed]
        if any("--wipe" in objection for objection in objections):
            objections.append(f"--wipe cannot be added to sweep {self.state.id}; start a new sweep")
        if objections:
            raise ConfigurationError(describe_refusal(objections, heading=heading))
        return devices


def is_wipe_approved(device: Device, approved_contents: Sequence[str]) -> bool:
    """Return whether all data on a device is approved to be lost."""
    contents = device.list_contents()
    return bool(contents) and set(contents) <= set(approved_contents)


def read_digests(devices: Sequence[str]) -> dict[str, str]:
    """Return the digest of each device's content, without unreadable devices."""
    digests = {}
    for device in devices:
        with contextlib.suppress(OSError):
            digests[device] = read_content(device).digest
    return digests


def describe_refusal(objections: Sequence[str], *, heading: str = "nothing was written") -> str:
    """Return all objections as text, one per line."""
    return f"{heading}:\n" + "\n".join(f"  {objection}" for objection in objections)
