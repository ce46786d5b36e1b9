"""What was wanted and adopted last, on disk: for `status`, and so that a report is repeated until it arrives."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from agent.exit_codes import CannotMeasure
from agent.files import read_json, write_durably
from agent.scheduling.timetable import Schedule

if TYPE_CHECKING:
    from agent.running.session import Session

_NAME = "adoption.json"


@dataclass(frozen=True)
class Adoption:
    """The last adoption. is_allowed: [schedule] from_server at that time; wanted: lines as the server sent them.

    refused: [{profile, reason}]; problem: why nothing was installed, "" without one. previous: marks of the adopted
    schedules before the last change, replaced_at: when that was, by this host's clock. changed_at: when schedules were
    installed within 24 hours, one for each. is_changing: schedules are being changed; after a kill the next adoption
    starts the timers that were written, and reports what is installed.
    """

    is_allowed: bool = False
    version: str = ""
    wanted: Sequence[Mapping[str, Any]] = ()
    refused: Sequence[Mapping[str, str]] = ()
    problem: str = ""
    previous: Sequence[str] = field(default_factory=tuple)
    replaced_at: float | None = None
    changed_at: Sequence[float] = field(default_factory=tuple)
    is_changing: bool = False

    def is_valid(self) -> bool:
        """Return whether all members have their types, as in a file that the agent wrote."""
        return (
            isinstance(self.version, str)
            and isinstance(self.problem, str)
            and _holds(self.wanted, dict)
            and _holds(self.refused, dict)
            and _holds(self.previous, str)
            and _holds(self.changed_at, (int, float))
        )


def _holds(values: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(value, kind) for value in values)


class AdoptionStore:
    """The file in a spool; writing requires its lock."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, _NAME)

    def read(self) -> Adoption | None:
        """Return the last adoption; None before the first, and if the file is not valid."""
        try:
            last = Adoption(**read_json(self._path))
        except (OSError, ValueError, TypeError):
            return None
        return last if last.is_valid() else None

    def write(self, adoption: Adoption) -> None:
        """Store an adoption durably."""
        try:
            write_durably(self._path, json.dumps(asdict(adoption)).encode())
        except OSError as error:
            raise CannotMeasure(f"cannot write {self._path}: {error}") from None


def describe_adoption(session: Session) -> tuple[list[str], dict[str, Any] | None]:
    """Return wanted and refused schedules of the last adoption as lines and for --json; nothing before the first."""
    last = AdoptionStore(session.spool.directory).read()
    if last is None:
        return [], None
    adopts = session.config.adopts_schedules
    lines = [f"wanted   {_describe_row(row)}" for row in last.wanted]
    lines += [f"refused  {row.get('profile')}: {row.get('reason')}" for row in last.refused]
    if last.problem:
        lines.append(f"problem  {last.problem}")
    if not adopts:
        lines.append("schedules of the server are not adopted any more, see [schedule] from_server")
    document = {
        "is_adopting": adopts,
        "wanted": list(last.wanted),
        "refused": list(last.refused),
        "problem": last.problem or None,
        "previous": list(last.previous),
    }
    return lines, document


def _describe_row(row: Mapping[str, Any]) -> str:
    try:
        schedule = Schedule(row["profile"], row["directory"], row["every_s"], at_minute=row["at_minute"])
    except (KeyError, TypeError):
        return str(row)  # not written by the agent
    return f"{schedule.describe()}, at {schedule.at_minute // 60:02}:{schedule.at_minute % 60:02}"
