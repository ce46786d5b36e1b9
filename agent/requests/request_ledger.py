"""The requests that were started within 24 hours, on disk: the quota holds over kills and restarts."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from typing import Any, Sequence

from agent.exit_codes import CannotMeasure
from agent.files import read_json, write_durably

_NAME = "requests.json"
_DAY_S = 86400.0


@dataclass(frozen=True)
class StartedRequest:
    """A start of a request; at: seconds since the epoch, by this host's clock. has_ended: with or without a result."""

    id: str
    at: float
    has_ended: bool = False


class RequestLedger:
    """The starts of requests in a spool; requires its lock."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, _NAME)

    @property
    def exists(self) -> bool:
        """Return whether this host reported to the server that it allows requests."""
        return os.path.exists(self._path)

    def list_started(self, now: float) -> list[StartedRequest]:
        """Return the starts within 24 hours, oldest first.

        One that is further in the future is from a clock that was wrong.
        """
        try:
            rows = read_json(self._path)["started"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        found = [_read_row(row) for row in rows] if isinstance(rows, list) else []
        return sorted((row for row in found if row and abs(now - row.at) < _DAY_S), key=lambda row: row.at)

    def find_quota_end(self, now: float, *, per_day: int) -> float | None:
        """Return when the next run is allowed; None if it is now."""
        started = self.list_started(now)
        return started[-per_day].at + _DAY_S if len(started) >= per_day else None

    def count_starts(self, request_id: str, now: float) -> int:
        """Return how often a request was started."""
        return sum(row.id == request_id for row in self.list_started(now))

    def is_interrupted(self, request_id: str, now: float) -> bool:
        """Return whether a request was started and did not end: its agent was stopped."""
        starts = [row for row in self.list_started(now) if row.id == request_id]
        return bool(starts) and not any(row.has_ended for row in starts)

    def end(self, request_id: str, now: float) -> None:
        """Store that a started request has ended: it is not started again beyond the quota."""
        started = self.list_started(now)
        try:
            self._write([replace(row, has_ended=row.has_ended or row.id == request_id) for row in started])
        except CannotMeasure:
            # On a full disk it counts as interrupted, and the number of its starts is limited nevertheless.
            return

    def add(self, request_id: str, now: float) -> None:
        """Store a start durably, before it happens: one that is killed counts."""
        self._write([*self.list_started(now), StartedRequest(request_id, now)])

    def remove_last(self, request_id: str, now: float) -> None:
        """Remove the last start of a request that did not begin to measure."""
        started = self.list_started(now)
        for index in reversed(range(len(started))):
            if started[index].id == request_id:
                del started[index]
                break
        self._write(started)

    def create(self) -> None:
        """Create the file, whose existence means that a policy was reported."""
        if not self.exists:
            self._write([])

    def remove(self) -> None:
        """Remove the file after the report that nothing is allowed."""
        if self.exists:
            os.unlink(self._path)

    def _write(self, started: Sequence[StartedRequest]) -> None:
        rows = [{"id": row.id, "at": row.at, "has_ended": row.has_ended} for row in started]
        try:
            write_durably(self._path, json.dumps({"started": rows}).encode())
        except OSError as error:
            raise CannotMeasure(f"cannot write {self._path}: {error}") from None


def _read_row(row: Any) -> StartedRequest | None:
    if not isinstance(row, dict) or not isinstance(row.get("at"), (int, float)):
        return None
    return StartedRequest(
        re.sub(r"[^0-9a-f-]", "", str(row.get("id"))), float(row["at"]), row.get("has_ended") is True
    )
