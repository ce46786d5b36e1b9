"""The state of an experiment on disk, saved before and after every run, so that it can be resumed."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Mapping, Sequence

from agent.exit_codes import ConfigurationError
from agent.files import write_durably
from agent.quantities import format_time

_SCHEMA = "bench-agent-experiment/1"
# Number of finished experiments whose state is stored, newest first.
_FINISHED_MAXIMUM = 20


class ExperimentState:
    """The state file of one experiment. Changes are written durably and atomically before they take effect."""

    def __init__(self, path: str, document: dict[str, Any]) -> None:
        self._path = path
        self._document = document

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
    def arms(self) -> list[str]:
        """Return the arm of every run, in order."""
        return [str(run["arm"]) for run in self._document["runs"]]

    @property
    def arm(self) -> str | None:
        """Return the arm that the host is; None if unknown."""
        arm = self._document["arm"]
        return None if arm is None else str(arm)

    @property
    def is_finished(self) -> bool:
        return self._document["finished_at"] is not None

    def list_waiting(self) -> list[int]:
        """Return the numbers, from 1, of the runs that are not over."""
        return [
            number
            for number, run in enumerate(self._document["runs"], 1)
            if run["state"] not in ("done", "failed")
        ]

    def running(self) -> tuple[int, str] | None:
        """Return number and run id of the run at which the experiment was killed, or None."""
        for number, run in enumerate(self._document["runs"], 1):
            if run["state"] == "running":
                return number, str(run["run_id"])
        return None

    def runs(self) -> list[dict[str, Any]]:
        """Return every run as JSON: number, arm, state, run_id, failure."""
        return [{"number": number, **run} for number, run in enumerate(self._document["runs"], 1)]

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

    def begin_run(self, number: int, run_id: str) -> None:
        """Record which run is about to start."""
        self._save_run(number, state="running", run_id=run_id)

    def end_run(self, number: int, *, failure: str | None, is_spooled: bool) -> None:
        """Record how a run ended; without a result, run_id is None."""
        run_id = self._document["runs"][number - 1]["run_id"] if is_spooled else None
        self._save_run(number, state="failed" if failure else "done", run_id=run_id, failure=failure)

    def reset_run(self, number: int) -> None:
        """Record that a run must be repeated."""
        self._save_run(number, state="waiting", run_id=None)

    def finish(self) -> None:
        """Record that the experiment is finished."""
        self._save(finished_at=format_time(time.time()))

    def _save_run(self, number: int, **changes: Any) -> None:
        runs = list(self._document["runs"])
        runs[number - 1] = {**runs[number - 1], **changes}
        self._save(runs=runs)

    def _save(self, **changes: Any) -> None:
        document = {**self._document, **changes}
        write_durably(self._path, json.dumps(document, indent=1).encode())
        self._document = document


def create_state(
    directory: str, experiment_id: str, *, request: Mapping[str, Any], arms: Sequence[str]
) -> ExperimentState:
    """Write the state of a new experiment and remove the oldest finished ones."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    finished = [path for path, state in _load_all(directory) if state.is_finished]
    for path in finished[:-_FINISHED_MAXIMUM]:
        os.unlink(path)
    path = os.path.join(directory, f"{experiment_id}.json")
    document = {
        "schema": _SCHEMA,
        "id": experiment_id,
        "created_at": format_time(time.time()),
        "finished_at": None,
        "request": dict(request),
        "arm": None,
        "switching": None,
        "runs": [{"arm": arm, "state": "waiting", "run_id": None, "failure": None} for arm in arms],
    }
    write_durably(path, json.dumps(document, indent=1).encode())
    return ExperimentState(path, document)


def load_state(directory: str, name: str) -> ExperimentState:
    """Return the experiment of that id, or the newest that is not finished for "last"."""
    states = [state for _, state in _load_all(directory)]
    if name == "last":
        unfinished = [state for state in states if not state.is_finished]
        if not unfinished:
            raise ConfigurationError("no unfinished experiment to resume")
        return unfinished[-1]
    for state in states:
        if state.id == name:
            return state
    known = ", ".join(state.id for state in states[-5:]) or "none"
    raise ConfigurationError(f"--resume {name}: unknown experiment; available: {known}")


def list_interrupted(directory: str) -> list[ExperimentState]:
    """Return the experiments that are not finished, the oldest first."""
    return [state for _, state in _load_all(directory) if not state.is_finished]


def _load_all(directory: str) -> list[tuple[str, ExperimentState]]:
    """Return path and state of every experiment, the oldest first."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json") and name[0] != ".")
    except OSError:
        return []
    found = []
    for name in names:
        path = os.path.join(directory, name)
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            if document["schema"] != _SCHEMA:
                raise ValueError(f"its schema is {document['schema']!r}")
            found.append((str(document["created_at"]), path, ExperimentState(path, document)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"cannot read the experiment state {path}: {error}") from None
    return [(path, state) for _, path, state in sorted(found, key=lambda each: each[:2])]
