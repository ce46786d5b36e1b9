"""What is recorded around a run, as flat text by name, and in what two runs differ."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import F, QuerySet

from benchapp.analysis.incidents.suspects import FactDifference
from benchapp.models import ENVIRONMENT_FIELDS, Environment, Run

_TEXT_MAXIMUM: Final = 80
_DEPTH_MAXIMUM: Final = 4
_NUMBER: Final = re.compile(r"-?\d{1,18}(\.\d{1,9})?")
# A condition of one run (load, free memory) is never twice the same: it moved where it did by a fifth.
_CONDITION_STEP: Final = 0.2
# What no speed depends on: in which zone a host tells its time.
_HARMLESS: Final = frozenset({"time_zone"})


@dataclass(frozen=True, slots=True)
class RunFacts:
    """lasting: what holds from run to run, by name; conditions: what held at this run alone."""

    lasting: Mapping[str, str]
    conditions: Mapping[str, str]


_flat: dict[bytes, Mapping[str, str]] = {}
# Environments are few and never change: a host has the same for months.
_KEPT_MAXIMUM: Final = 2000


def with_facts(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Read runs with their environment and conditions, and without what else they hold, which may be long."""
    return (
        runs.select_related("environment", "host")
        .defer("warnings", "command")
        .annotate(conditions=F("command__conditions"))
    )


def read_facts_of(run: Run) -> RunFacts:
    """Return what is recorded around a run, as `with_facts` reads it."""
    labels = {f"label {name}": _write(value) for name, value in (run.labels or {}).items()}
    conditions = getattr(run, "conditions", None)
    return RunFacts(
        {**flatten_environment(run.environment), **labels},
        dict(_flatten(conditions, "")) if isinstance(conditions, dict) else {},
    )


def compare_facts(before: RunFacts, after: RunFacts) -> tuple[FactDifference, ...]:
    """Return what differs, by name. A condition that only one of both runs knows is no difference."""
    names = sorted(before.lasting.keys() | after.lasting.keys())
    found = [
        FactDifference(name, before.lasting.get(name), after.lasting.get(name))
        for name in names
        if before.lasting.get(name) != after.lasting.get(name)
    ]
    for name in sorted(before.conditions.keys() & after.conditions.keys()):
        old, new = before.conditions[name], after.conditions[name]
        if _has_moved(old, new):
            found.append(FactDifference(name, old, new))
    return tuple(found)


def flatten_environment(environment: Environment) -> Mapping[str, str]:
    """Return what an environment says as flat text by name; what no speed depends on is left out."""
    key = bytes(environment.key)
    if key not in _flat:
        if len(_flat) >= _KEPT_MAXIMUM:
            _flat.clear()
        plain = {
            name: _write(value)
            for name in ENVIRONMENT_FIELDS
            if name != "facts" and (value := getattr(environment, name)) not in (None, "")
        }
        facts = {name: value for name, value in (environment.facts or {}).items() if name not in _HARMLESS}
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
    return text if len(text) <= _TEXT_MAXIMUM else f"{text[: _TEXT_MAXIMUM - 1]}…"


def _has_moved(before: str, after: str) -> bool:
    if not (_NUMBER.fullmatch(before) and _NUMBER.fullmatch(after)):
        return before != after
    old, new = float(before), float(after)
    return abs(new - old) > _CONDITION_STEP * max(abs(old), abs(new))
