"""In what the environments of two groups of runs differ."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchapp.models import ENVIRONMENT_FIELDS, Environment

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """One field in which the environments of the sides differ; values as text, the commonest first."""

    name: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def compare_environments(a: Mapping[int, int], b: Mapping[int, int]) -> tuple[EnvironmentDifference, ...]:
    """Return the fields in which two groups differ; each group: environments by id, with how many runs had them."""
    rows = {
        row["id"]: row
        for row in Environment.objects.filter(pk__in={*a, *b}).values("id", *ENVIRONMENT_FIELDS)
    }
    differences = []
    for name in _list_environment_names(rows.values()):
        first, second = (_count_values(rows, runs, name) for runs in (a, b))
        # A host was in its zone before an agent that tells it came.
        is_new = name == "time_zone" and ("unknown",) in (first, second)
        if set(first) != set(second) and not is_new:
            differences.append(EnvironmentDifference(name, first, second))
    return tuple(differences)


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
