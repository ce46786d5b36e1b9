"""Where a sweep is, on disk before and after every step, so that another process can go on with it."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Mapping, Sequence

from agent.exit_codes import ConfigurationError
from agent.files import write_durably
from agent.quantities import format_time

_SCHEMA = "bench-agent-sweep/1"
# Finished ones are kept to be looked at, the newest first.
_FINISHED_KEPT = 20


class SweepState:
    """One sweep's file. Every change is on disk before it takes effect; a torn file is never seen."""

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
        """Return the bytes of each device as the sweep first saw it."""
        return dict(self._document["sizes"])

    @property
    def condemned(self) -> Mapping[str, list[str]]:
        """Return by device what --wipe condemned, in words; {} once it is wiped."""
        return dict(self._document["condemned"])

    @property
    def left(self) -> Mapping[str, str]:
        """Return by device the digest of what the sweep left on it after its last round."""
        return dict(self._document.get("left", {}))

    @property
    def overwritable(self) -> frozenset[str]:
        """Return the digests of contents that this sweep may overwrite: left by it, or agreed to be lost."""
        return frozenset((*self.left.values(), *self._document.get("accepted", {}).values()))

    @property
    def round_number(self) -> int | None:
        """Return the round, from 0, whose stripe is made or being made; None where all devices are bare."""
        number = self._document["round"]
        return None if number is None else int(number)

    @property
    def is_finished(self) -> bool:
        return self._document["finished_at"] is not None

    def words(self) -> list[str]:
        """Return the words of every step, to tell whether they are still planned so."""
        return [str(step["words"]) for step in self._document["steps"]]

    def is_over(self, number: int) -> bool:
        """Say whether a step, from 1, was done, well or not."""
        return self._step(number)["state"] in ("done", "failed")

    def running(self) -> tuple[int, str] | None:
        """Return number and run id of the step that a killed sweep was at; None where it was at none."""
        for number, step in enumerate(self._document["steps"], 1):
            if step["state"] == "running":
                return number, str(step["run_id"])
        return None

    def outcomes(self) -> list[dict[str, Any]]:
        """Return every step as JSON tells it: number, words, state, run_id, failure."""
        return [{"number": number, **step} for number, step in enumerate(self._document["steps"], 1)]

    def note_wiped(self, accepted: Mapping[str, str]) -> None:
        """Record that the devices have no foreign signature; accepted: digests of their contents by device."""
        self._save(condemned={}, accepted={**self._document.get("accepted", {}), **accepted})

    def begin_round(self, number: int) -> None:
        """Say that from now on the devices may hold what the sweep writes."""
        self._save(round=number)

    def end_round(self, left: Mapping[str, str]) -> None:
        """Record that the devices are bare again; left: digests of their contents by device."""
        self._save(round=None, left={**self.left, **left})

    def begin_step(self, number: int, run_id: str) -> None:
        """Say which run is under way, before it is."""
        self._save_step(number, state="running", run_id=run_id)

    def end_step(self, number: int, *, failure: str | None, is_kept: bool) -> None:
        """Say how a step ended; a run that left no result has no id."""
        run_id = self._step(number)["run_id"] if is_kept else None
        self._save_step(number, state="failed" if failure else "done", run_id=run_id, failure=failure)

    def put_back(self, number: int) -> None:
        """Say that a step is to be done again."""
        self._save_step(number, state="waiting", run_id=None)

    def finish(self) -> None:
        """Say that nothing is left to do."""
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
    words: Sequence[str],
    sizes: Mapping[str, int],
    condemned: Mapping[str, Sequence[str]],
    accepted: Mapping[str, str],
) -> SweepState:
    """Write the file of a new sweep and forget the oldest finished ones.

    accepted: by device the digest of its contents where an earlier sweep left them.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    _forget_finished(directory)
    path = os.path.join(directory, f"{sweep_id}.json")
    document = {
        "schema": _SCHEMA,
        "id": sweep_id,
        "created_at": format_time(time.time()),
        "finished_at": None,
        "request": request,
        "sizes": sizes,
        "condemned": condemned,
        "accepted": accepted,
        "left": {},
        "round": None,
        "steps": [{"words": each, "state": "waiting", "run_id": None, "failure": None} for each in words],
    }
    write_durably(path, json.dumps(document, indent=1).encode())
    return SweepState(path, document)


def load_state(directory: str, name: str) -> SweepState:
    """Return the sweep of that id, or the newest that is not finished for "last"."""
    states = _load_all(directory)
    if name == "last":
        unfinished = [state for _, state in states if not state.is_finished]
        if not unfinished:
            raise ConfigurationError("no sweep is unfinished: there is nothing to resume")
        return unfinished[-1]
    for _, state in states:
        if state.id == name:
            return state
    known = ", ".join(state.id for _, state in states[-5:]) or "none"
    raise ConfigurationError(f"--resume {name}: there is no such sweep; there are: {known}")


def load_left(directory: str) -> frozenset[str]:
    """Return the digests of what all sweeps left on their devices."""
    return frozenset(digest for _, state in _load_all(directory) for digest in state.left.values())


def find_unfinished(directory: str) -> SweepState | None:
    """Return the newest sweep whose stripe may still be there."""
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
            raise ConfigurationError(f"the state of a sweep, {path}, cannot be read: {error}") from None
    return [(path, state) for _, path, state in sorted(found, key=lambda each: each[:2])]


def _forget_finished(directory: str) -> None:
    finished = [path for path, state in _load_all(directory) if state.is_finished]
    for path in finished[:-_FINISHED_KEPT]:
        os.unlink(path)


def _list_files(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if name.endswith(".json") and name[0] != ".")
    except OSError:
        return []
