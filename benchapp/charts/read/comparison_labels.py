"""Titles of compared series, and the environment differences of two groups of runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import cut_text
from benchapp.charts.read.comparison_sides import SideRow
from benchapp.models import ENVIRONMENT_FIELDS, RECENTLY_REPORTED, Environment
from benchapp.series.read.shapes import TargetRow, WorkloadRow, names_of
from benchapp.series.read.titles import describe_setting, describe_target, describe_workload, name_scope

# The value of a compared column of a workload; None for the others.
_BLANK: Final = {"rw": "", "block_size_text": "", "file_size_text": "", "engine": "", "numjobs": 0}
_TARGET: Final = names_of(TargetRow)
_WORKLOAD: Final = names_of(WorkloadRow)


class Titles:
    """Makes titles without the compared columns (free); each layout and workload is formatted once."""

    def __init__(self, free: frozenset[str]) -> None:
        self._free = free
        self._blank = {name: _BLANK.get(name) for name in free}
        self._targets: dict[int, str] = {}
        self._workloads: dict[tuple[int, str], str] = {}

    def describe(self, row: SideRow) -> str:
        """Return workload, layout and scope."""
        parts = (self._describe_workload(row), self._describe_target(row))
        scope = "" if "scope" in self._free else name_scope(row["scope"])
        return " · ".join(part for part in (*parts, scope) if part)

    def _describe_target(self, row: SideRow) -> str:
        key = row["target_id"]
        if key not in self._targets:
            target = TargetRow(**{name: None if name in self._free else row[name] for name in _TARGET})
            self._targets[key] = describe_target(target) if target.known() else ""
        return self._targets[key]

    def _describe_workload(self, row: SideRow) -> str:
        direction = "" if "direction" in self._free else str(row["direction"])
        key = row["workload_id"], direction
        if key not in self._workloads:
            asked: SideRow = {name: self._blank.get(name, row[name]) for name in _WORKLOAD}
            self._workloads[key] = describe_workload(WorkloadRow(**asked), direction=direction)
        return self._workloads[key]


# Of a side's label: further differences are in the table of differences.
_NAMED_MAXIMUM: Final = 3


def name_series_sides(one: SideRow, other: SideRow, differing: frozenset[str]) -> tuple[str, str]:
    """Return a label of each of two series by what they differ in: "db-01, 4 volumes".

    differing: columns. Without a difference "series 5 (db-01)".
    """
    names = [name for name in DIMENSIONS if name in differing][:_NAMED_MAXIMUM]
    labels = []
    for row in (one, other):
        parts = [name_scope(row["scope"])] if "scope" in differing or not names else []
        parts += [describe_setting(name, row[name]) for name in names]
        labels.append(", ".join(parts) if differing else f"series {row['id']} ({parts[0]})")
    return labels[0], labels[1]


_Row = dict[str, Any]


# Of the environments of two sides: every run of a host may report other facts.
_DIFFERENCES_MAXIMUM: Final = 200
_VALUES_MAXIMUM: Final = 20
_VALUE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """One field in which the environments of the sides differ; values as text, the commonest first.

    Of more than 20 values the last entry counts the others; so does the last of more than 200 fields.
    """

    name: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def list_environment_differences(
    a: Mapping[int, int], b: Mapping[int, int]
) -> tuple[EnvironmentDifference, ...]:
    """Return the fields in which two groups differ; each group: environments by id, with how many runs had them."""
    rows = {
        row["id"]: row
        for row in Environment.objects.filter(pk__in={*a, *b}).values("id", *ENVIRONMENT_FIELDS)
    }
    differences: list[EnvironmentDifference] = []
    omitted_count = 0
    for name in _list_environment_names(rows.values()):
        first, second = (_count_values(rows, runs, name) for runs in (a, b))
        is_new = name in RECENTLY_REPORTED and ("unknown",) in (first, second)
        if set(first) == set(second) or is_new:
            continue
        if len(differences) < _DIFFERENCES_MAXIMUM:
            differences.append(EnvironmentDifference(name, _shorten(first), _shorten(second)))
        else:
            omitted_count += 1
    if omitted_count:
        differences.append(EnvironmentDifference(f"… and {omitted_count} more", (), ()))
    return tuple(differences)


def _shorten(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commonest values, each cut, and how many others there are."""
    shown = tuple(cut_text(value, _VALUE_LENGTH) for value in values[:_VALUES_MAXIMUM])
    omitted_count = len(values) - len(shown)
    return (*shown, f"… and {omitted_count} more") if omitted_count else shown


def _list_environment_names(rows: Iterable[_Row]) -> list[str]:
    plain = [name for name in ENVIRONMENT_FIELDS if name != "facts"]
    return [*plain, *sorted({name for row in rows for name in row["facts"]})]


def _count_values(rows: Mapping[int, _Row], runs: Mapping[int, int], name: str) -> tuple[str, ...]:
    counts: dict[str, int] = defaultdict(int)
    for environment_id, count in runs.items():
        row = rows[environment_id]
        value = row[name] if name in row else row["facts"].get(name)
        counts["unknown" if value is None else str(value)] += count
    return tuple(sorted(counts, key=lambda value: (-counts[value], value)))
