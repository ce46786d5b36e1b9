"""Environment, labels and conditions of a run as flat text by name, and the differences of two runs."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import F, QuerySet

from benchapp.catalog.metrics import cut_text
from benchapp.incidents.rules.suspects import FactDifference
from benchapp.models import ENVIRONMENT_FIELDS, RECENTLY_REPORTED, Environment, Run

_TEXT_MAXIMUM: Final = 80
_DEPTH_MAXIMUM: Final = 4
_NUMBER: Final = re.compile(r"-?\d{1,18}(\.\d{1,9})?")
# Conditions of a run (load, free memory) always vary: a difference starts at 20 %.
_CONDITION_STEP: Final = 0.2
# Facts without influence on performance.
_IRRELEVANT: Final = frozenset({"time_zone"})


@dataclass(frozen=True, slots=True)
class RunFacts:
    """lasting: environment and labels by name; conditions: state at the time of the run."""

    lasting: Mapping[str, str]
    conditions: Mapping[str, str]


_flat: dict[bytes, Mapping[str, str]] = {}
# Environments are few and never change: a host has the same for months.
_CACHED_MAXIMUM: Final = 2000


def with_facts(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Select environment and conditions of runs, without their long columns."""
    return (
        runs.select_related("environment", "host")
        .defer("warnings", "command")
        .annotate(conditions=F("command__conditions"))
    )


def read_facts_of(run: Run) -> RunFacts:
    """Return the facts of a run from `with_facts`."""
    labels = {f"label {name}": _write(value) for name, value in (run.labels or {}).items()}
    conditions = getattr(run, "conditions", None)
    return RunFacts(
        {**flatten_environment(run.environment), **labels},
        dict(_flatten(conditions, "")) if isinstance(conditions, dict) else {},
    )


def compare_facts(before: RunFacts, after: RunFacts) -> tuple[FactDifference, ...]:
    """Return the differences by name. A condition of only one of the runs is not a difference."""
    names = sorted(before.lasting.keys() | after.lasting.keys())
    found = [
        FactDifference(name, before.lasting.get(name), after.lasting.get(name))
        for name in names
        if before.lasting.get(name) != after.lasting.get(name)
        and not (name in RECENTLY_REPORTED and None in (before.lasting.get(name), after.lasting.get(name)))
    ]
    for name in sorted(before.conditions.keys() & after.conditions.keys()):
        old, new = before.conditions[name], after.conditions[name]
        if _has_changed(old, new):
            found.append(FactDifference(name, old, new))
    return tuple(found)


def flatten_environment(environment: Environment) -> Mapping[str, str]:
    """Return an environment as flat text by name, without irrelevant facts."""
    key = bytes(environment.key)
    if key not in _flat:
        if len(_flat) >= _CACHED_MAXIMUM:
            _flat.clear()
        plain = {
            name: _write(value)
            for name in ENVIRONMENT_FIELDS
            if name != "facts" and (value := getattr(environment, name)) not in (None, "")
        }
        facts = {name: value for name, value in (environment.facts or {}).items() if name not in _IRRELEVANT}
        _flat[key] = {**dict(_flatten(facts, "")), **plain}
    return _flat[key]


def _flatten(facts: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and path.count(".") < _DEPTH_MAXIMUM:
            yield from _flatten(value, f"{path}.")
        elif value is not None and value != "":
            yield path, _write(value)


def _write(value: Any) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    )
    return cut_text(text, _TEXT_MAXIMUM)


def _has_changed(before: str, after: str) -> bool:
    if not (_NUMBER.fullmatch(before) and _NUMBER.fullmatch(after)):
        return before != after
    old, new = float(before), float(after)
    return abs(new - old) > _CONDITION_STEP * max(abs(old), abs(new))
