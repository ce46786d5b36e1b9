"""What the two sides of a pair share, in one line."""

from typing import Final

from benchapp.queries.rows import TargetRow, WorkloadRow, names_of
from benchapp.queries.sides import SideRow
from benchapp.queries.titles import describe_target, describe_workload, name_scope

# What stands for a workload's column that is not the same on both sides; None for the others.
_BLANK: Final = {"rw": "", "block_size_text": "", "file_size_text": "", "engine": "", "numjobs": 0}
_TARGET: Final = names_of(TargetRow)
_WORKLOAD: Final = names_of(WorkloadRow)


class Titles:
    """Says series without what is under comparison (free); each layout and each workload is worded once."""

    def __init__(self, free: frozenset[str]) -> None:
        self._free = free
        self._blank = {name: _BLANK.get(name) for name in free}
        self._targets: dict[int, str] = {}
        self._workloads: dict[tuple[int, str], str] = {}

    def describe(self, row: SideRow) -> str:
        """Say workload, layout and scope."""
        parts = (self._say_workload(row), self._say_target(row))
        scope = "" if "scope" in self._free else name_scope(row["scope"])
        return " · ".join(part for part in (*parts, scope) if part)

    def _say_target(self, row: SideRow) -> str:
        key = row["target_id"]
        if key not in self._targets:
            target = TargetRow(**{name: None if name in self._free else row[name] for name in _TARGET})
            self._targets[key] = describe_target(target) if target.known() else ""
        return self._targets[key]

    def _say_workload(self, row: SideRow) -> str:
        direction = "" if "direction" in self._free else str(row["direction"])
        key = row["workload_id"], direction
        if key not in self._workloads:
            asked: SideRow = {name: self._blank.get(name, row[name]) for name in _WORKLOAD}
            self._workloads[key] = describe_workload(WorkloadRow(**asked), direction=direction)
        return self._workloads[key]
