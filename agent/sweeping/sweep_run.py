"""The steps of a sweep, one after the other, with everything put back whatever happens."""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Mapping, Sequence

from agent.console import SweepProgress
from agent.exit_codes import CannotMeasure, ConfigurationError, ExitCode, Interrupted
from agent.measuring.fio import StopSignals
from agent.measuring.workspace import clean_leftovers
from agent.running.measure import Request, measure
from agent.running.session import Session
from agent.sweeping.signatures import read_content
from agent.sweeping.stripe_work import raise_stripe, run_tool, take_down
from agent.sweeping.stripes import Stripe, wipe_commands
from agent.sweeping.sweep_devices import DATA, Device, inspect_device, judge_devices
from agent.sweeping.sweep_plan import Round, SweepPlan, SweepStep
from agent.sweeping.sweep_state import SweepState

if TYPE_CHECKING:
    from agent.delivery.client import Client

# A server that is away costs a sweep one short attempt in so long, not one a step.
_DELIVERY_PAUSE_S = 600.0


class StripeRemains(ConfigurationError):
    """What the sweep made could not be taken away: a person must."""


@dataclass
class Courier:
    """Delivers between steps, never while one runs, and without waiting for a server that is away."""

    session: Session
    client: Client | None
    urls: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    _not_before: float = float("-inf")

    def deliver(self) -> None:
        """Post what waits, once each, and drop what the spool may not hold any longer."""
        if self.client is not None and time.monotonic() >= self._not_before:
            self._post(self.client)
        self.session.trim()

    def _post(self, client: Client) -> None:
        from agent.delivery.delivery import deliver

        delivery = deliver(self.session.spool, client, console=self.session.console, budget_s=0.0)
        self.urls.update(delivery.urls)
        self.rejected.update(delivery.rejected)
        if delivery.remaining:
            self._not_before = time.monotonic() + _DELIVERY_PAUSE_S
            self.session.console.note(f"{delivery.problem}; the results wait, the sweep goes on")

    def deliver_all(self, *, budget_s: float) -> ExitCode:
        """Post what waits until all of it is there or the budget is spent; return how that went."""
        if self.client is None:
            return ExitCode.OK
        delivery = self.session.deliver(self.client, budget_s=budget_s)
        self.urls.update(delivery.urls)
        self.rejected.update(delivery.rejected)
        return delivery.exit_code

    def is_kept(self, run_id: str) -> bool:
        """Say whether a result got as far as the spool."""
        spool = self.session.spool
        entries = [*spool.pending(), *(refused.entry for refused in spool.rejected())]
        return any(entry.id == run_id for entry in entries)

    def is_known(self, run_id: str) -> bool:
        """Say whether a result got as far as the spool, or from there to the server: cron may have flushed it."""
        if self.is_kept(run_id) or self.client is None:
            return self.is_kept(run_id)
        answer = self.client.request("GET", f"/api/v1/submissions/{run_id}")
        return answer.status == 200 and (answer.body or {}).get("id") == run_id


@dataclass
class SweepRun:
    """A sweep at work; call its methods under the spool's lock."""

    plan: SweepPlan
    state: SweepState
    session: Session
    courier: Courier
    stop: StopSignals
    is_stopped_by_errors: bool = False

    def __post_init__(self) -> None:
        self._progress = SweepProgress(
            [step.words for step in self.plan.steps],
            durations_s=[step.plan.duration_s for step in self.plan.steps],
            is_quiet=self.session.console.is_quiet,
        )

    def put_right(self) -> None:
        """Take away what a killed sweep left, and find out whether its last run was kept."""
        for note in clean_leftovers(self.session.spool.directory):
            self.session.console.note(note)
        number = self.state.round_number
        if number is not None:
            stripe = self.plan.rounds[number].stripe
            if stripe:
                self._put_back(stripe)
        running = self.state.running()
        if running:
            number, run_id = running
            self._settle(number, is_kept=self.courier.is_known(run_id))

    def prepare_devices(self) -> None:
        """Look once more whether the devices may be written, and take off what --wipe condemned."""
        if not self.plan.request.devices:
            return
        devices = self._inspect(self.state.condemned)
        if self.state.condemned:
            for argv in wipe_commands([(device.path, device.signatures) for device in devices]):
                run_tool(argv, stop=self.stop, tick=_do_nothing)
            # Signatures are wiped, other data are overwritten by the rounds.
            data = {path: [DATA] for path in self.state.condemned}
            devices = self._inspect(data, heading="the devices were wiped, and yet")
            self.state.note_wiped(
                {device.path: device.content.digest for device in devices if device.path in data}
            )

    def run(self) -> None:
        """Make every step that is not over yet; raises Interrupted, with all put back, where a signal came."""
        for number, each in enumerate(self.plan.rounds):
            left = [step for step in each.steps if not self.state.is_over(step.number)]
            if not left:
                continue
            is_well = self._run_on_stripe(number, each, left) if each.stripe else self._run_steps(each, left)
            if not is_well and self.is_stopped_by_errors:
                return
        self.state.finish()

    def _run_on_stripe(self, number: int, each: Round, steps: Sequence[SweepStep]) -> bool:
        stripe = each.stripe
        assert stripe is not None
        self.state.begin_round(number)
        self._progress.begin_step(steps[0].number)
        try:
            raise_stripe(stripe, stop=self.stop, tick=self._progress.tick)
            return self._run_steps(each, steps)
        except CannotMeasure as error:
            for step in steps:
                if not self.state.is_over(step.number):
                    self._fail(step, str(error), is_kept=False)
            return False
        finally:
            self._progress.finish()
            self._put_back(stripe)

    def _run_steps(self, each: Round, steps: Sequence[SweepStep]) -> bool:
        """Return whether all went well; after an error that shall stop the sweep the rest is left."""
        is_well = True
        for step in steps:
            is_well = self._run_step(each, step) and is_well
            self.courier.deliver()
            if self.stop.received is not None:
                raise Interrupted("stopped between two steps", self.stop.received)
            if not is_well and self.is_stopped_by_errors:
                break
        return is_well

    def _run_step(self, each: Round, step: SweepStep) -> bool:
        run_id = str(uuid.uuid4())
        self.state.begin_step(step.number, run_id)
        self._progress.begin_step(step.number)
        try:
            run = measure(self._make_request(each, step, run_id), self.session)
        except Interrupted:
            self._settle(step.number, is_kept=self.courier.is_kept(run_id))
            raise
        except CannotMeasure as error:
            self._fail(step, str(error), is_kept=False)
            return False
        self._progress.end_step()
        if run.words:
            self.session.console.note(f"{step.words}: {run.words}")
        if run.failure:
            self._fail(step, run.failure, is_kept=True)
            return False
        self.state.end_step(step.number, failure=None, is_kept=True)
        return True

    def _make_request(self, each: Round, step: SweepStep, run_id: str) -> Request:
        request = self.plan.request
        return Request(
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

    def _fail(self, step: SweepStep, why: str, *, is_kept: bool) -> None:
        self.state.end_step(step.number, failure=why, is_kept=is_kept)
        self.session.console.warn(f"step {step.number} of {len(self.plan.steps)}, {step.words}: {why}")

    def _settle(self, number: int, *, is_kept: bool) -> None:
        """Note what became of a run that was under way when the sweep ended."""
        if is_kept:
            self.state.end_step(number, failure=None, is_kept=True)
        else:
            self.state.put_back(number)

    def _put_back(self, stripe: Stripe) -> None:
        remains = take_down(stripe, tick=_do_nothing)
        if remains.problems:
            raise StripeRemains(f"{remains.describe()}\nthen: bench-agent sweep --resume {self.state.id}")
        self.state.end_round(read_digests(stripe.devices))

    def _inspect(
        self, condemned: Mapping[str, Sequence[str]], *, heading: str = "nothing was written"
    ) -> list[Device]:
        """Return the devices as they are now; ConfigurationError where one may not be written."""
        devices = [inspect_device(path) for path in self.plan.request.devices]
        wiped = [device.path for device in devices if is_condemned(device, condemned.get(device.path, ()))]
        verdict = judge_devices(
            devices, wiped=wiped, needed_bytes=self.plan.needed_bytes, left=self.state.overwritable
        )
        changed = [
            f"{device.path} has {device.size_bytes} bytes, not {self.state.sizes[device.path]} as when the sweep began"
            for device in devices
            if device.size_bytes != self.state.sizes[device.path]
        ]
        objections = [*verdict.objections, *changed]
        if any("--wipe" in objection for objection in objections):
            objections.append(f"sweep {self.state.id} takes no further --wipe: start a new sweep with it")
        if objections:
            raise ConfigurationError(describe_refusal(objections, heading=heading))
        return devices


def is_condemned(device: Device, condemned: Sequence[str]) -> bool:
    """Say whether all that a device holds was agreed to be lost."""
    contents = device.list_contents()
    return bool(contents) and set(contents) <= set(condemned)


def read_digests(devices: Sequence[str]) -> dict[str, str]:
    """Return the digest of what is on each device; a device that cannot be read is left out."""
    digests = {}
    for device in devices:
        with contextlib.suppress(OSError):
            digests[device] = read_content(device).digest
    return digests


def describe_refusal(objections: Sequence[str], *, heading: str = "nothing was written") -> str:
    """Return all objections in words, a line each."""
    return f"{heading}:\n" + "\n".join(f"  {objection}" for objection in objections)


def _do_nothing() -> None:
    return
