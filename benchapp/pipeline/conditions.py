"""Tell what lasts of an environment from what held at one run only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# What the agent sees of the host's load and of others' I/O, just before fio starts and when it has ended.
PASSING_FACTS: Final = ("load_before", "load_after", "other_io_before", "other_io_after")


@dataclass(frozen=True, slots=True)
class PartedEnvironment:
    """lasting: the environment that many runs share as one row; conditions: facts of this run alone."""

    lasting: dict[str, Any]
    conditions: dict[str, Any]


def part_environment(environment: Mapping[str, Any]) -> PartedEnvironment:
    """Take the passing facts out: left in, every run would have an environment of its own."""
    facts = environment.get("facts") or {}
    conditions = {name: facts[name] for name in PASSING_FACTS if name in facts}
    if not conditions:
        return PartedEnvironment(dict(environment), {})
    kept = {name: value for name, value in facts.items() if name not in conditions}
    return PartedEnvironment({**environment, "facts": kept}, conditions)
