"""The state of a sweep: its devices, what it left on them, and its steps."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from agent.job_state import JobState, StateDirectory, check_types
from agent.results.result_row import ResultRow, load_row

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
