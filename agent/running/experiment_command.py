"""The command `experiment`: measure two arms in ABBA order, and report the address of the result."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Mapping
from urllib.parse import urlencode

from agent.console import Console, SweepProgress, is_confirmed
from agent.exit_codes import AgentError, CannotMeasure, ConfigurationError, ExitCode, worst
from agent.files import read_json
from agent.job_state import ExperimentState, StateDirectory
from agent.quantities import format_duration
from agent.running import PAIRS_MAXIMUM
from agent.running.measure import RunRequest, measure
from agent.running.resumable_job import ResultSender, abandon_job, describe_job, refuse_options, report_ended
from agent.running.run_command import find_client, read_run_request
from agent.running.session import Session
from agent.storage.sysfs import read_line

# What is stored for --resume: all that determines a run, and how the host becomes an arm.
STORED_OPTIONS: Mapping[str, Any] = {
    **dict.fromkeys(("profile", "jobfile", "file", "file_size", "directory", "device", "destructive")),
    **dict.fromkeys(("target_name", "time_limit", "switch_command", "check_command")),
    **dict.fromkeys(("allow_outside", "trust_directory", "cloud", "serials", "logs", "reboots"), False),
    "set": [],
    "target": [],
    "label": [],
    "arm_label": "arm",
    "arms": "a,b",
}
# What defines a new experiment.
NEW_OPTIONS: Mapping[str, Any] = {**STORED_OPTIONS, "pairs": None, "plan": None, "dry_run": False}
EXPERIMENT_LABEL = "experiment"
_PLAN_MAXIMUM_BYTES = 10**6
_ORDER = re.compile(r"(?:ab|ba){1,%d}" % PAIRS_MAXIMUM)
# Values of terms in a filter.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
# A reinstallation of a package takes minutes.
_COMMAND_MAXIMUM_S = 3600
_CHECK_MAXIMUM_S = 60
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class ArmSwitch:
    """How the host becomes an arm. Commands come from the operator's command line only, never from the server.

    command, check: shell commands with the arm in BENCH_AGENT_ARM, "" without one; the check succeeds if the host is
    the arm. reboots: the command ends before the host has become the arm, by a reboot.
    """

    command: str
    check: str
    reboots: bool

    def is_arm(self, arm: str) -> bool | None:
        """Return whether the host is an arm; None without a check."""
        if not self.check:
            return None
        return self._run(self.check, arm, "--check-command", maximum_s=_CHECK_MAXIMUM_S) == 0

    def switch(self, arm: str, console: Console) -> None:
        """Make the host an arm, or wait until the operator has. Raises CannotMeasure, ConfigurationError."""
        if self.command:
            console.note(f"arm {arm}: running --switch-command")
            status = self._run(self.command, arm, "--switch-command", maximum_s=_COMMAND_MAXIMUM_S)
            if status != 0:
                raise CannotMeasure(f"arm {arm}: --switch-command failed with exit status {status}")
        else:
            _ask(arm)

    def _run(self, command: str, arm: str, option: str, *, maximum_s: float) -> int:
        try:
            return subprocess.run(
                ["/bin/sh", "-c", command],
                env={**os.environ, "BENCH_AGENT_ARM": arm},
                stdin=subprocess.DEVNULL,
                # Standard output is for the result.
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
                timeout=maximum_s,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise CannotMeasure(f"arm {arm}: {option} was killed after {maximum_s:.0f} s") from None
        except OSError as error:
            raise CannotMeasure(f"arm {arm}: {option}: {error}") from None


def run_experiment(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Run a new or resumed experiment, or abandon one."""
    session.open_log(arguments.log)
    states = StateDirectory(ExperimentState, session.spool.directory)
    if arguments.abandon:
        return _abandon(arguments, states, session)
    states.report_damaged(session.console.warn, named=arguments.resume)
    if arguments.resume:
        refuse_options(arguments, NEW_OPTIONS, reason="--resume continues as planned")
        state = states.load_continued(arguments.resume)
        if state.is_finished:
            return report_ended(state, session)
        stored = argparse.Namespace(**{**vars(arguments), **_read_stored(state)})
        requests = _read_requests(stored, session, experiment_id=state.id)
        if not set(state.arms) <= set(requests):
            raise ConfigurationError(_describe_bad_request(state, "an arm of a run is not one of --arms"))
        # Another process may have continued or abandoned it while this one waited for the lock.
        open_state = partial(states.load_continued, state.id)
    else:
        stored = arguments
        order, experiment_id = _read_order(arguments), str(uuid.uuid4())
        requests = _read_requests(arguments, session, experiment_id=experiment_id)
        names = _read_arms(arguments)
        if arguments.dry_run:
            return _show(order, requests, session)
        if not arguments.switch_command:
            require_terminal(names[order[0]])
        request = {name: getattr(arguments, name) for name in STORED_OPTIONS}
        for name in ("jobfile", "file", "directory"):
            # --resume may start in another directory.
            request[name] = request[name] and os.path.abspath(request[name])
        # Not before the lock is owned: an experiment that could not begin is none that is left.
        open_state = partial(
            states.create,
            experiment_id,
            request=request,
            steps=[{"arm": names[letter]} for letter in order],
            arm=None,
            switching=None,
        )
    switch = ArmSwitch(stored.switch_command or "", stored.check_command or "", stored.reboots)
    client = None if arguments.no_send else find_client(session)
    with session.spool.lock():
        state = open_state()
        run = _ExperimentRun(state, requests, switch, session, ResultSender(session, client))
        session.console.note(f"experiment {state.id}: {len(state.arms)} runs")
        run.sender.recover(state)
        try:
            is_paused = run.run()
        except AgentError:
            session.console.note(f"continue with: bench-agent experiment --resume {state.id}")
            raise
        code = run.sender.deliver_all(budget_s=arguments.budget)
    return _report(run, session, code=code, is_paused=is_paused)


class _ExperimentRun:
    """A running experiment; its methods require the spool's lock."""

    def __init__(
        self,
        state: ExperimentState,
        requests: Mapping[str, RunRequest],
        switch: ArmSwitch,
        session: Session,
        sender: ResultSender,
    ) -> None:
        self.state, self.sender = state, sender
        self._requests, self._switch, self._session = requests, switch, session
        self._progress = SweepProgress(
            [f"arm {arm}" for arm in state.arms],
            durations_s=[requests[arm].plan.duration_s for arm in state.arms],
            is_quiet=session.console.is_quiet,
            name="experiment",
        )

    def run(self) -> bool:
        """Measure all runs that are left; return whether the experiment waits for a reboot."""
        self._check_arm()
        arms = self.state.arms
        for number in self.state.list_waiting():
            if not self._become(arms[number - 1]):
                return True
            self._measure(number, arms[number - 1])
            self.sender.deliver()
        self.state.finish()
        return False

    def _check_arm(self) -> None:
        """Forget the arm that the host was when the experiment was stopped if it may be another one since."""
        arm = self.state.arm
        if arm is None:
            return
        is_arm = self._switch.is_arm(arm)
        if is_arm is None:
            is_arm = self.state.is_arm_of_boot(read_boot_id())
        if not is_arm:
            self.state.forget_arm()

    def _become(self, arm: str) -> bool:
        """Make the host an arm unless it is; return False if that needs a reboot first."""
        state, switch = self.state, self._switch
        if state.arm == arm:
            return True
        self._progress.finish()
        is_arm = switch.is_arm(arm)
        boot_id = read_boot_id()
        has_booted = switch.reboots and state.is_switched_by_reboot(arm, boot_id)
        if is_arm or (is_arm is None and has_booted):
            state.end_switch(arm, boot_id)
            return True
        if has_booted:
            # Not switched again: with --resume at each boot the host would reboot without end.
            state.forget_arm()
            raise CannotMeasure(
                f"arm {arm}: --check-command failed after the reboot: the host is not this arm"
            )
        state.begin_switch(arm, boot_id)
        switch.switch(arm, self._session.console)
        if switch.reboots and switch.command:
            return False
        if switch.is_arm(arm) is False:
            raise CannotMeasure(
                f"arm {arm}: --check-command failed after the switch: the host is not this arm"
            )
        state.end_switch(arm, boot_id)
        return True

    def _measure(self, number: int, arm: str) -> None:
        run_id = str(uuid.uuid4())
        self.state.begin_step(number, run_id)
        self._progress.begin_step(number)
        request = self._requests[arm]
        try:
            run = measure(replace(request, run_id=run_id, progress=self._progress), self._session)
        except CannotMeasure as error:
            self._fail(number, str(error), is_spooled=False)
            return
        except BaseException:
            # Stopped, or the host is too busy: the run is repeated by --resume, unless its result was stored.
            self.state.end_interrupted(number, is_spooled=self.sender.is_spooled(run_id))
            raise
        self._progress.end_step()
        if run.failure:
            self._fail(number, run.failure, is_spooled=True)
        else:
            self.state.end_step(number, failure=None, is_spooled=True)

    def _fail(self, number: int, reason: str, *, is_spooled: bool) -> None:
        self.state.end_step(number, failure=reason, is_spooled=is_spooled)
        self._session.console.warn(f"run {number} of {len(self.state.arms)}: {reason}")


def _read_stored(state: ExperimentState) -> Mapping[str, Any]:
    """Return the options of the command that started an experiment; ConfigurationError if they are not valid."""
    request = state.request
    for name, default in STORED_OPTIONS.items():
        value = request.get(name, default)
        is_valid = isinstance(value, str) if default is None else type(value) is type(default)
        if isinstance(value, list):
            is_valid = is_valid and all(isinstance(item, str) for item in value)
        if not is_valid and value != default:
            raise ConfigurationError(_describe_bad_request(state, f"{name} is of a wrong type"))
    unknown = sorted(set(request) - set(STORED_OPTIONS))
    if unknown:
        raise ConfigurationError(_describe_bad_request(state, f"{unknown[0][:80]!r} is unknown"))
    return {**STORED_OPTIONS, **request}


def _describe_bad_request(state: ExperimentState, reason: str) -> str:
    return (
        f"the request of the experiment state {state.path} is not valid: {reason}; start a new experiment, and end "
        f"this one with bench-agent experiment --abandon {state.id}"
    )


def _read_requests(
    arguments: argparse.Namespace, session: Session, *, experiment_id: str
) -> dict[str, RunRequest]:
    """Return the parameters of the runs of each arm; ConfigurationError if they are not valid."""
    if arguments.reboots and not arguments.switch_command:
        raise ConfigurationError(
            "--reboots needs --switch-command; without one, reboot when you are asked to set up an arm,"
            " and resume afterwards"
        )
    arms = _read_arms(arguments)
    own = {arguments.arm_label, EXPERIMENT_LABEL}
    # A busy host ends the experiment only by the limits of the configuration.
    given = argparse.Namespace(**{**vars(arguments), "max_load": None, "skip_if_busy": None})
    request = read_run_request(given, session)
    taken = sorted(own & set(request.labels))
    if taken:
        raise ConfigurationError(f"--label {taken[0]}=…: this label is set by the experiment")
    return {
        arm: replace(
            request, labels={**request.labels, EXPERIMENT_LABEL: experiment_id, arguments.arm_label: arm}
        )
        for arm in arms.values()
    }


def _read_arms(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the names of the arms by letter."""
    names = [name.strip() for name in arguments.arms.split(",")]
    if len(names) != 2 or names[0] == names[1] or not all(_NAME.fullmatch(name) for name in names):
        raise ConfigurationError(
            f"--arms {arguments.arms}: expected two different names of letters, digits, '.', '_' and '-': a,b"
        )
    if not _NAME.fullmatch(arguments.arm_label) or arguments.arm_label == EXPERIMENT_LABEL:
        raise ConfigurationError(
            f"--arm-label {arguments.arm_label}: expected letters, digits, '.', '_' and '-'"
        )
    return dict(zip("ab", names))


def _read_order(arguments: argparse.Namespace) -> str:
    """Return the order of the arms, "abba…": of so many pairs, or of a plan. ConfigurationError without one."""
    if bool(arguments.pairs) == bool(arguments.plan):
        raise ConfigurationError("give either --pairs or --plan")
    if arguments.pairs:
        return order_arms(arguments.pairs)
    return _read_plan(arguments.plan)


def order_arms(pairs: int) -> str:
    """Return the arms of so many pairs in ABBA order, so that a linear drift cancels over two pairs."""
    return "".join("ba" if place % 2 else "ab" for place in range(pairs))


def _read_plan(path: str) -> str:
    """Return the order of a plan: the answer of GET /api/v1/experiment. Only the order is read."""
    try:
        document = read_json(path, maximum_bytes=_PLAN_MAXIMUM_BYTES)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--plan {path}: {error}") from None
    plan = document.get("plan") if isinstance(document, dict) else None
    order = plan.get("order") if isinstance(plan, dict) else None
    if not isinstance(order, str) or not _ORDER.fullmatch(order):
        raise ConfigurationError(
            f"--plan {path}: no plan with an order of at most {PAIRS_MAXIMUM} pairs of a and b; save the answer of"
            " GET /api/v1/experiment"
        )
    return order


def _show(order: str, requests: Mapping[str, RunRequest], session: Session) -> ExitCode:
    """Print the plan without running it."""
    names = list(requests)
    arms = [names["ab".index(letter)] for letter in order]
    duration_s = sum(requests[arm].plan.duration_s for arm in arms)
    session.console.report(f"runs      {len(arms)}, about {format_duration(duration_s)} without the switches")
    session.console.report(f"order     {' '.join(arms)}")
    session.console.report(f"switches  {sum(1 for _ in groupby(arms))}")
    return session.finish(ExitCode.OK, {"order": arms, "duration_s": duration_s})


def _report(run: _ExperimentRun, session: Session, *, code: ExitCode, is_paused: bool) -> ExitCode:
    text, document, measured = describe_job(run.state, run.sender)
    result = _find_result(run.state, session)
    session.console.report(text)
    if result:
        session.console.report(f"result: {result}")
    if is_paused:
        session.console.report(f"after the reboot: bench-agent experiment --resume {run.state.id}")
    document = {**document, "is_waiting_for_reboot": is_paused, "result": result}
    return session.finish(worst(code, measured), document)


def _find_result(state: ExperimentState, session: Session) -> str | None:
    """Return the page of the result; None without a server."""
    url = session.config.url
    if not url:
        return None
    label = state.request["arm_label"]
    a, b = str(state.request["arms"]).split(",")
    query = {
        "q": f"label.{EXPERIMENT_LABEL}:{state.id}",
        "a": f"label.{label}:{a.strip()}",
        "b": f"label.{label}:{b.strip()}",
        "from": state.created_at,
    }
    return f"{url}/experiment/?{urlencode(query, safe=':')}"


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, AttributeError, ValueError):
        return False
    return True


def require_terminal(arm: str) -> None:
    """Raise ConfigurationError if nobody can confirm that the host is an arm."""
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"arm {arm}: there is no terminal to confirm it; give --switch-command, or run the command on a terminal"
        )


def _ask(arm: str) -> None:
    require_terminal(arm)
    if not is_confirmed(f"set up arm {arm}, then type yes:"):
        raise ConfigurationError(f"arm {arm}: not confirmed")


def read_boot_id() -> str | None:
    """Return the id of this boot of the host; None if the system has none."""
    return read_line(_BOOT_ID)


def _abandon(
    arguments: argparse.Namespace, states: StateDirectory[ExperimentState], session: Session
) -> ExitCode:
    """Record that an experiment is not continued; its results stay."""
    refuse_options(arguments, NEW_OPTIONS, reason="--abandon measures nothing")
    state = abandon_job(
        states, arguments.abandon, session=session, clean_up=lambda left, sender: sender.recover(left)
    )
    if state.is_abandoned and state.arm:
        session.console.note(f"the host is left as arm {state.arm}")
    return report_ended(state, session)
