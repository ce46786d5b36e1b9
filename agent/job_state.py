"""State files of sweeps and experiments, saved before and after every step, so that these can be resumed."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Generic, Iterable, Mapping, Sequence, TypeVar

from agent.exit_codes import CannotMeasure, ConfigurationError
from agent.files import read_json, write_durably
from agent.quantities import format_time
from agent.results import ResultRow, load_row

# Number of finished jobs of a kind whose state is stored, newest first.
_FINISHED_MAXIMUM = 20
_OVER = ("done", "failed")
_STATES = ("waiting", "running", *_OVER)
_NONE = type(None)
_MEMBERS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "created_at": (str,),
    "finished_at": (str, _NONE),
    "request": (dict,),
}
_TEXT = (str, type(None))


class JobState:
    """The state file of one sweep or experiment. Changes are written durably and atomically before they take effect.

    kind: name of the command; directory: below the spool; steps_member: of the document; remedy: for a damaged file.
    """

    kind = ""
    directory = ""
    schema = ""
    steps_member = "steps"
    remedy = ""

    def __init__(self, path: str, document: dict[str, Any]) -> None:
        self.path = path
        self._document = document

    @classmethod
    def check_members(cls, document: Mapping[str, Any]) -> None:
        """Raise ValueError, KeyError or TypeError if the members of this kind are not valid."""

    @property
    def id(self) -> str:
        return str(self._document["id"])

    @property
    def created_at(self) -> str:
        return str(self._document["created_at"])

    @property
    def request(self) -> Mapping[str, Any]:
        """Return the arguments of the command that started it."""
        return dict(self._document["request"])

    @property
    def is_finished(self) -> bool:
        """Return whether it has ended: with all steps over, or abandoned."""
        return self._document["finished_at"] is not None

    @property
    def is_abandoned(self) -> bool:
        return self._document.get("is_abandoned") is True

    def steps(self) -> list[dict[str, Any]]:
        """Return every step as JSON: number, state, run_id, failure, and members of the kind."""
        return [{"number": number, **step} for number, step in enumerate(self._list_steps(), 1)]

    def is_over(self, number: int) -> bool:
        """Return whether a step, from 1, is done or failed."""
        return self._list_steps()[number - 1]["state"] in _OVER

    def list_waiting(self) -> list[int]:
        """Return the numbers, from 1, of the steps that are not over."""
        return [step["number"] for step in self.steps() if step["state"] not in _OVER]

    def count_steps(self, state: str) -> int:
        """Return how many steps are in a state: waiting, running, done or failed."""
        return sum(step["state"] == state for step in self._list_steps())

    def running(self) -> tuple[int, str] | None:
        """Return number and run id of the step at which the job was killed, or None."""
        for step in self.steps():
            if step["state"] == "running":
                return step["number"], str(step["run_id"])
        return None

    def begin_step(self, number: int, run_id: str) -> None:
        """Record which run is about to start."""
        self._save_step(number, state="running", run_id=run_id)

    def end_step(self, number: int, *, failure: str | None, is_spooled: bool, **members: Any) -> None:
        """Record how a step ended; without a result, run_id is None."""
        run_id = self._list_steps()[number - 1]["run_id"] if is_spooled else None
        self._save_step(
            number, state="failed" if failure else "done", run_id=run_id, failure=failure, **members
        )

    def end_interrupted(self, number: int, *, is_spooled: bool) -> None:
        """Record a step that was stopped or killed: it is over if its result was stored, else to be repeated."""
        if is_spooled:
            self.end_step(number, failure=None, is_spooled=True)
        else:
            self._save_step(number, state="waiting", run_id=None)

    def finish(self) -> None:
        """Record that the job is finished."""
        self._save(finished_at=format_time(time.time()))

    def abandon(self) -> None:
        """Record that the job has ended, and is never continued."""
        self._save(finished_at=format_time(time.time()), is_abandoned=True)

    def _list_steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = self._document[self.steps_member]
        return steps

    def _save_step(self, number: int, **changes: Any) -> None:
        steps = list(self._list_steps())
        steps[number - 1] = {**steps[number - 1], **changes}
        self._save(**{self.steps_member: steps})

    def _save(self, **changes: Any) -> None:
        document = {**self._document, **changes}
        _write(self.path, document)
        self._document = document


@dataclass(frozen=True)
class DamagedState:
    """A state file that cannot be read. job: "sweep" or "experiment"."""

    job: str
    path: str
    reason: str
    remedy: str

    def describe(self) -> str:
        """Return path, reason and remedy."""
        return f"cannot read the {self.job} state {self.path}: {self.reason}; {self.remedy}"


State = TypeVar("State", bound=JobState)


@dataclass(frozen=True)
class StoredStates(Generic[State]):
    """The jobs of one kind, oldest first, and the state files that are damaged."""

    states: Sequence[State]
    damaged: Sequence[DamagedState]

    def list_unfinished(self) -> list[State]:
        """Return the jobs that are not finished, oldest first."""
        return [state for state in self.states if not state.is_finished]


class StateDirectory(Generic[State]):
    """The state files of one kind of job in a spool; writing requires its lock."""

    def __init__(self, kind: type[State], spool_directory: str) -> None:
        self.path = os.path.join(spool_directory, kind.directory)
        self._kind = kind

    def create(
        self, job_id: str, *, request: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], **members: Any
    ) -> State:
        """Write the state of a new job and remove the oldest finished ones."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            for state in [state for state in self.read().states if state.is_finished][:-_FINISHED_MAXIMUM]:
                os.unlink(state.path)
        except OSError as error:
            raise ConfigurationError(f"cannot use {self.path}: {error}") from None
        path = self._find_path(job_id)
        document = {
            "schema": self._kind.schema,
            "id": job_id,
            "created_at": format_time(time.time()),
            "finished_at": None,
            "request": dict(request),
            **members,
            self._kind.steps_member: [
                {**step, "state": "waiting", "run_id": None, "failure": None} for step in steps
            ],
        }
        _write(path, document)
        return self._kind(path, document)

    def load(self, name: str, *, option: str) -> State:
        """Return the job of that id, or the newest that is not finished for "last"; option: that names it."""
        found = self.read()
        if name == "last":
            unfinished = found.list_unfinished()
            if not unfinished:
                raise ConfigurationError(f"no unfinished {self._kind.kind} to {option.strip('-')}")
            return unfinished[-1]
        for state in found.states:
            if state.id == name:
                return state
        for damaged in found.damaged:
            if damaged.path == self._find_path(name):
                raise ConfigurationError(damaged.describe())
        known = ", ".join(state.id for state in found.states[-5:]) or "none"
        raise ConfigurationError(f"{option} {name}: unknown {self._kind.kind}; available: {known}")

    def load_continued(self, name: str) -> State:
        """Return the job that --resume names; ConfigurationError also if it was abandoned."""
        state = self.load(name, option="--resume")
        if state.is_abandoned:
            kind = self._kind.kind
            raise ConfigurationError(f"{kind} {state.id} was abandoned; start a new {kind}")
        return state

    def report_damaged(self, warn: Callable[[str], None], *, named: str | None = None) -> None:
        """Warn of each state file that is damaged, except that of the job which is loaded by its id."""
        for damaged in self.read().damaged:
            if damaged.path != self._find_path(named or ""):
                warn(damaged.describe())

    def read(self) -> StoredStates[State]:
        """Return all jobs; a damaged file hides no other one."""
        try:
            names = sorted(
                name for name in os.listdir(self.path) if name.endswith(".json") and name[0] != "."
            )
        except FileNotFoundError:
            return StoredStates((), ())
        except OSError as error:
            return StoredStates((), (self._describe_damage(self.path, error),))
        states, damaged = [], []
        for name in names:
            path = os.path.join(self.path, name)
            try:
                states.append(self._kind(path, self._read_document(path)))
            except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
                damaged.append(self._describe_damage(path, error))
        return StoredStates(sorted(states, key=lambda state: (state.created_at, state.path)), damaged)

    def _find_path(self, job_id: str) -> str:
        return os.path.join(self.path, f"{job_id}.json")

    def _read_document(self, path: str) -> dict[str, Any]:
        document = read_json(path)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        if document.get("schema") != self._kind.schema:
            raise ValueError(f"its schema is {str(document.get('schema'))[:80]!r}")
        check_types(document, _MEMBERS)
        if f"{document['id']}.json" != os.path.basename(path):
            raise ValueError("its id is not its file name")
        check_types(document, {self._kind.steps_member: (list,)})
        for step in document[self._kind.steps_member]:
            check_types(step, {"state": (str,), "run_id": (str, _NONE), "failure": (str, _NONE)})
            if step["state"] not in _STATES:
                raise ValueError(f"a step has the state {step['state'][:80]!r}")
        self._kind.check_members(document)
        return document

    def _describe_damage(self, path: str, error: Exception) -> DamagedState:
        reason = str(error)
        if isinstance(error, OSError):
            reason = error.strerror or reason
        elif not isinstance(error, ValueError):
            reason = f"a member is missing or of a wrong type: {reason}"
        return DamagedState(self._kind.kind, path, reason, self._kind.remedy)


def check_types(document: Any, types: Mapping[str, tuple[type, ...]]) -> None:
    """Raise ValueError that names the first member which is missing, or of another type."""
    if not isinstance(document, dict):
        raise ValueError("a part of it is not a JSON object")
    for name, allowed in types.items():
        if name not in document:
            raise ValueError(f"{name} is missing")
        if not isinstance(document[name], allowed):
            raise ValueError(f"{name} is of a wrong type")


def _write(path: str, document: Mapping[str, Any]) -> None:
    try:
        write_durably(path, json.dumps(document, indent=1).encode())
    except OSError as error:
        raise CannotMeasure(f"cannot write {path}: {error}") from None


class ExperimentState(JobState):
    """The state file of one experiment; its steps are runs."""

    kind = "experiment"
    directory = "experiments"
    schema = "bench-agent-experiment/1"
    steps_member = "runs"
    remedy = "the experiment cannot be continued; remove the file. Its results are not lost"

    @classmethod
    def check_members(cls, document: Mapping[str, Any]) -> None:
        """Raise ValueError if arms or the switch are not valid."""
        check_types(document, {"arm": _TEXT, "switching": (dict, type(None))})
        check_types({"arm_boot_id": None, **document}, {"arm_boot_id": _TEXT})
        if document["switching"] is not None:
            check_types(document["switching"], {"arm": (str,), "boot_id": _TEXT})
        for run in document[cls.steps_member]:
            check_types(run, {"arm": (str,)})

    @property
    def arms(self) -> list[str]:
        """Return the arm of every run, in order."""
        return [str(run["arm"]) for run in self.steps()]

    @property
    def arm(self) -> str | None:
        """Return the arm that the host is; None if unknown."""
        arm = self._document["arm"]
        return None if arm is None else str(arm)

    def is_switched_by_reboot(self, arm: str, boot_id: str | None) -> bool:
        """Return whether the host was switched to an arm, and has booted since."""
        switching = self._document["switching"]
        if not switching or switching["arm"] != arm or boot_id is None:
            return False
        return switching["boot_id"] not in (None, boot_id)

    def begin_switch(self, arm: str, boot_id: str | None) -> None:
        """Record that the host is about to become an arm; until then its arm is unknown."""
        self._save(arm=None, switching={"arm": arm, "boot_id": boot_id})

    def end_switch(self, arm: str, boot_id: str | None) -> None:
        """Record that the host is an arm, in this boot."""
        self._save(arm=arm, arm_boot_id=boot_id, switching=None)

    def is_arm_of_boot(self, boot_id: str | None) -> bool:
        """Return whether the host became its arm in this boot: an arm need not last beyond it."""
        return boot_id is not None and self._document.get("arm_boot_id") == boot_id

    def forget_arm(self) -> None:
        """Record that the arm of the host is unknown, also if it was switched."""
        self._save(arm=None, switching=None)


class SweepState(JobState):
    """The state file of one sweep."""

    kind = "sweep"
    directory = "sweeps"
    schema = "bench-agent-sweep/1"
    remedy = (
        "the sweep cannot be continued; remove the file when no array, volume group or filesystem named bench-agent is"
        " left, see lsblk"
    )

    @classmethod
    def check_members(cls, document: Mapping[str, Any]) -> None:
        """Raise ValueError, KeyError or TypeError if devices or results are not valid."""
        check_types(document, {"sizes": (dict,), "approved_contents": (dict,), "round": (int, type(None))})
        _check_values(document["sizes"].values(), int)
        for contents in document["approved_contents"].values():
            _check_values(contents, str)
        for name in ("left", "accepted"):
            _check_values(dict(document.get(name, {})).values(), str)
        for step in document[cls.steps_member]:
            check_types(step, {"label": (str,)})
            for row in step.get("results", ()):
                load_row(row)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the size of each device at the start of the sweep."""
        return dict(self._document["sizes"])

    @property
    def approved_contents(self) -> Mapping[str, list[str]]:
        """Return the data approved by --wipe to be lost, by device; {} after the wipe."""
        return dict(self._document["approved_contents"])

    @property
    def left(self) -> Mapping[str, str]:
        """Return the digest of each device's content after the last round, by device."""
        return dict(self._document.get("left", {}))

    @property
    def overwritable(self) -> frozenset[str]:
        """Return the digests of contents that this sweep may overwrite: left by it, or approved to be lost."""
        return frozenset((*self.left.values(), *self._document.get("accepted", {}).values()))

    @property
    def round_number(self) -> int | None:
        """Return the round, from 0, whose stripe may exist; None if all devices are empty."""
        number = self._document["round"]
        return None if number is None else int(number)

    def labels(self) -> list[str]:
        """Return the label of every step, to detect a changed plan."""
        return [str(step["label"]) for step in self.steps()]

    def list_results(self, number: int) -> tuple[ResultRow, ...]:
        """Return fio's numbers of a step, from 1; () if it is not over, or was killed after its result was stored."""
        return tuple(load_row(row) for row in self.steps()[number - 1].get("results", ()))

    def record_wiped(self, accepted: Mapping[str, str]) -> None:
        """Record that the devices are wiped; accepted: digests of their contents by device."""
        self._save(approved_contents={}, accepted={**self._document.get("accepted", {}), **accepted})

    def begin_round(self, number: int) -> None:
        """Record that the devices may contain a stripe from now on."""
        self._save(round=number)

    def end_round(self, left: Mapping[str, str]) -> None:
        """Record that the stripe is removed; left: digests of the devices' contents."""
        self._save(round=None, left={**self.left, **left})


def load_left(states: StateDirectory[SweepState]) -> frozenset[str]:
    """Return the digests of contents that all sweeps left on their devices."""
    return frozenset(digest for state in states.read().states for digest in state.left.values())


def find_unfinished(states: StateDirectory[SweepState]) -> SweepState | None:
    """Return the newest sweep whose stripe may still exist."""
    found = [state for state in states.read().states if state.round_number is not None]
    return found[-1] if found else None


def _check_values(values: Iterable[Any], kind: type) -> None:
    if not all(isinstance(value, kind) for value in values):
        raise ValueError(f"a value is not {kind.__name__}")
