"""Run the steps of a sweep; stripes are always removed afterwards."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from typing import Mapping, Sequence

from agent.console import SweepProgress
from agent.exit_codes import CannotMeasure, ConfigurationError, Interrupted
from agent.job_state import SweepState
from agent.measuring.fio import StopSignals
from agent.running.measure import RunRequest, measure
from agent.running.resumable_job import ResultSender
from agent.running.session import Session
from agent.storage.device_checks import DATA, Device, check_devices, inspect_device
from agent.storage.signatures import read_content
from agent.sweeping.stripe_commands import Stripe, wipe_commands
from agent.sweeping.stripe_operations import build_stripe, remove_stripe, run_tool
from agent.sweeping.sweep_plan import Round, SweepPlan, SweepStep


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
                run_tool(argv, stop=self.stop, tick=_do_nothing)
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
            run_id=run_id,
            progress=self._progress,
            trusts_directory=request.trusts_directory,
        )

    def _fail(self, step: SweepStep, reason: str, *, is_spooled: bool) -> None:
        self.state.end_step(step.number, failure=reason, is_spooled=is_spooled)
        self.session.console.warn(f"step {step.number} of {len(self.plan.steps)}, {step.label}: {reason}")

    def _remove_stripe(self, stripe: Stripe) -> None:
        remains = remove_stripe(stripe, tick=_do_nothing)
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


def _do_nothing() -> None:
    return
