"""The named sets of fio jobs that the agent ships, and their parameters."""

from __future__ import annotations

import pkgutil
import re
import string
from dataclasses import dataclass
from typing import Callable, Mapping

from agent.outcome import ConfigurationError
from agent.quantities import parse_count, parse_size

_SECTION = re.compile(r"^\[([^\]]+)\]", re.MULTILINE)
# fio's own time around each job: start, laying out the file, reaping. Measured with fio 3.33 on a slow disk.
_STEP_OVERHEAD_S = 0.5


@dataclass(frozen=True)
class Parameter:
    """One thing that `--set` adjusts; read turns text into the value or raises ValueError."""

    name: str
    default: int
    unit: str
    explanation: str
    read: Callable[[str], int]


@dataclass(frozen=True)
class Profile:
    """A shipped job file. template: its text with ${PLACES}; summary: one line for `bench-agent profiles`."""

    name: str
    summary: str
    template: str
    parameters: tuple[Parameter, ...]

    @property
    def steps(self) -> tuple[str, ...]:
        """Name the jobs in the order in which they run, one after the other."""
        return tuple(name for name in _SECTION.findall(self.template) if name != "global")


@dataclass(frozen=True)
class Plan:
    """A profile with its parameters set. file_size_bytes: what it needs on disk; duration_s: what it takes."""

    profile: Profile
    values: Mapping[str, int]

    @property
    def file_size_bytes(self) -> int:
        return self.values["size"]

    @property
    def duration_s(self) -> float:
        return len(self.profile.steps) * (self.values["runtime"] + _STEP_OVERHEAD_S)

    def write_jobfile(self, *, engine: str, is_direct: bool) -> str:
        """Return the job file as fio reads it; a synchronous engine has no queue to fill."""
        values = {name.upper(): str(value) for name, value in self.values.items()}
        if engine == "psync":
            values.update({name: "1" for name in values if name.startswith("IODEPTH")})
        values.update(IOENGINE=engine, DIRECT="1" if is_direct else "0")
        return string.Template(self.profile.template).substitute(values)


def _read_positive(text: str) -> int:
    value = parse_count(text)
    if value < 1:
        raise ValueError("at least 1 is wanted")
    return value


def _read_file_size(text: str) -> int:
    size_bytes = parse_size(text)
    # The largest block of a shipped profile is 1 MiB, and O_DIRECT wants whole blocks.
    if size_bytes < 2**20 or size_bytes % 2**20:
        raise ValueError("whole MiB are wanted, at least 1m")
    return size_bytes


_SUMMARIES = {
    "quick": "four short looks: 4 KiB random read and write, 1 MiB sequential read and write",
}
_PARAMETERS = {
    "quick": (
        Parameter("runtime", 4, "s", "how long each of the jobs runs", _read_positive),
        Parameter("size", 64 * 2**20, "bytes", "size of the test file", _read_file_size),
        Parameter("iodepth", 16, "", "I/Os in flight, random jobs", _read_positive),
        Parameter("iodepth_sequential", 4, "", "I/Os in flight, sequential jobs", _read_positive),
    ),
}


def list_profiles() -> list[Profile]:
    """Return every shipped profile."""
    return [load_profile(name) for name in sorted(_SUMMARIES)]


def load_profile(name: str) -> Profile:
    """Return one profile; its job file is read from beside this module, also inside a zip."""
    if name not in _SUMMARIES:
        raise ConfigurationError(f"there is no profile {name!r}; there are: {', '.join(sorted(_SUMMARIES))}")
    template = pkgutil.get_data("agent", f"jobs/{name}.fio")
    if template is None:
        raise ConfigurationError(f"the job file of profile {name!r} is missing from this copy of the agent")
    return Profile(name, _SUMMARIES[name], template.decode(), _PARAMETERS[name])


def make_plan(profile: Profile, adjustments: Mapping[str, str]) -> Plan:
    """Return the profile with defaults, adjusted; an unknown name or a value that cannot be is refused."""
    parameters = {parameter.name: parameter for parameter in profile.parameters}
    values = {parameter.name: parameter.default for parameter in profile.parameters}
    for name, text in adjustments.items():
        if name not in parameters:
            raise ConfigurationError(
                f"profile {profile.name} has no parameter {name!r}; there are: {', '.join(parameters)}"
            )
        try:
            values[name] = parameters[name].read(text)
        except ValueError as error:
            raise ConfigurationError(f"--set {name}={text}: {error}") from None
    return Plan(profile, values)
