"""The state of a sweep on disk, saved before and after every step, so that it can be resumed."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Mapping, Sequence

from agent.exit_codes import ConfigurationError
from agent.files import write_durably
from agent.quantities import format_time
from agent.results.result_row import ResultRow, load_row

_SCHEMA = "bench-agent-sweep/1"
# Number of finished sweeps whose state is stored, newest first.
_FINISHED_MAXIMUM = 20


class SweepState:
    """The state file of one sweep. Changes are written durably and atomically before they take effect."""

    def __init__(self, path: str, document: dict[str, Any]) -> None:
        self._path = path
        self._document = document

    @property
    def id(self) -> str:
        return str(self._document["id"])

    @property
    def request(self) -> Mapping[str, Any]:
        return dict(self._document["request"])

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

    @property
    def is_finished(self) -> bool:
        return self._document["finished_at"] is not None

    def labels(self) -> list[str]:
        """Return the label of every step, to detect a changed plan."""
        return [str(step["label"]) for step in self._document["steps"]]

    def is_over(self, number: int) -> bool:
        """Return whether a step, from 1, is done or failed."""
        return self._step(number)["state"] in ("done", "failed")

    def running(self) -> tuple[int, str] | None:
        """Return number and run id of the step at which the sweep was killed, or None."""
        for number, step in enumerate(self._document["steps"], 1):
            if step["state"] == "running":
                return number, str(step["run_id"])
        return None

    def steps(self) -> list[dict[str, Any]]:
        """Return every step as JSON: number, label, state, run_id, failure, and results once it is over."""
        return [{"number": number, **step} for number, step in enumerate(self._document["steps"], 1)]

    def list_results(self, number: int) -> tuple[ResultRow, ...]:
        """Return fio's numbers of a step, from 1; () if it is not over, or was killed after its result was stored."""
        return tuple(load_row(row) for row in self._step(number).get("results", ()))

    def record_wiped(self, accepted: Mapping[str, str]) -> None:
        """Record that the devices are wiped; accepted: digests of their contents by device."""
        self._save(approved_contents={}, accepted={**self._document.get("accepted", {}), **accepted})

    def begin_round(self, number: int) -> None:
        """Record that the devices may contain a stripe from now on."""
        self._save(round=number)

    def end_round(self, left: Mapping[str, str]) -> None:
        """Record that the stripe is removed; left: digests of the devices' contents."""
        self._save(round=None, left={**self.left, **left})

    def begin_step(self, number: int, run_id: str) -> None:
        """Record which run is about to start."""
        self._save_step(number, state="running", run_id=run_id)

    def end_step(
        self, number: int, *, failure: str | None, is_spooled: bool, results: Sequence[ResultRow] = ()
    ) -> None:
        """Record how a step ended; without a result, run_id is None. results: fio's numbers, for the table."""
        run_id = self._step(number)["run_id"] if is_spooled else None
        self._save_step(
            number,
            state="failed" if failure else "done",
            run_id=run_id,
            failure=failure,
            results=[row.dump() for row in results],
        )

    def reset_step(self, number: int) -> None:
        """Record that a step must be repeated."""
        self._save_step(number, state="waiting", run_id=None)

    def finish(self) -> None:
        """Record that the sweep is finished."""
        self._save(finished_at=format_time(time.time()))

    def _step(self, number: int) -> dict[str, Any]:
        step: dict[str, Any] = self._document["steps"][number - 1]
        return step

    def _save_step(self, number: int, **changes: Any) -> None:
        steps = list(self._document["steps"])
        steps[number - 1] = {**steps[number - 1], **changes}
        self._save(steps=steps)

    def _save(self, **changes: Any) -> None:
        document = {**self._document, **changes}
        write_durably(self._path, json.dumps(document, indent=1).encode())
        self._document = document


def create_state(
    directory: str,
    sweep_id: str,
    *,
    request: Mapping[str, Any],
    labels: Sequence[str],
    sizes: Mapping[str, int],
    approved_contents: Mapping[str, Sequence[str]],
    accepted: Mapping[str, str],
) -> SweepState:
    """Write the state of a new sweep and remove the oldest finished ones.

    accepted: digests of contents left by earlier sweeps, by device.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    _remove_old_finished(directory)
    path = os.path.join(directory, f"{sweep_id}.json")
    document = {
        "schema": _SCHEMA,
        "id": sweep_id,
        "created_at": format_time(time.time()),
        "finished_at": None,
        "request": request,
        "sizes": sizes,
        "approved_contents": approved_contents,
        "accepted": accepted,
        "left": {},
        "round": None,
        "steps": [{"label": each, "state": "waiting", "run_id": None, "failure": None} for each in labels],
    }
    write_durably(path, json.dumps(document, indent=1).encode())
    return SweepState(path, document)


def load_state(directory: str, name: str) -> SweepState:
    """Return the sweep of that id, or the newest that is not finished for "last"."""
    states = _load_all(directory)
    if name == "last":
        unfinished = [state for _, state in states if not state.is_finished]
        if not unfinished:
            raise ConfigurationError("no unfinished sweep to resume")
        return unfinished[-1]
    for _, state in states:
        if state.id == name:
            return state
    known = ", ".join(state.id for _, state in states[-5:]) or "none"
    raise ConfigurationError(f"--resume {name}: unknown sweep; available: {known}")


def load_left(directory: str) -> frozenset[str]:
    """Return the digests of contents that all sweeps left on their devices."""
    return frozenset(digest for _, state in _load_all(directory) for digest in state.left.values())


def list_interrupted(directory: str) -> list[SweepState]:
    """Return the sweeps that are not finished, the oldest first."""
    return [state for _, state in _load_all(directory) if not state.is_finished]


def find_unfinished(directory: str) -> SweepState | None:
    """Return the newest sweep whose stripe may still exist."""
    states = [state for _, state in _load_all(directory) if state.round_number is not None]
    return states[-1] if states else None


def _load_all(directory: str) -> list[tuple[str, SweepState]]:
    """Return path and state of every sweep, the oldest first."""
    found = []
    for name in _list_files(directory):
        path = os.path.join(directory, name)
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            if document["schema"] != _SCHEMA:
                raise ValueError(f"its schema is {document['schema']!r}")
            found.append((str(document["created_at"]), path, SweepState(path, document)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"cannot read the sweep state {path}: {error}") from None
    return [(path, state) for _, path, state in sorted(found, key=lambda each: each[:2])]


def _remove_old_finished(directory: str) -> None:
    finished = [path for path, state in _load_all(directory) if state.is_finished]
    for path in finished[:-_FINISHED_MAXIMUM]:
        os.unlink(path)


def _list_files(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name.endswith(".json") and name[0] != ".")
    except OSError:
        return []
