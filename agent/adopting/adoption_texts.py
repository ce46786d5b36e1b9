"""The last adoption as text, for `status` and `schedule show`, which must start fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from agent.adopting.adoption_store import AdoptionStore
from agent.scheduling.timetable import Schedule

if TYPE_CHECKING:
    from agent.running.session import Session


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
