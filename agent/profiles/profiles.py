"""The named sets of jobs that the agent ships, their parameters, and what a run of them needs."""

from __future__ import annotations

import pkgutil
import re
import string
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from agent.exit_codes import ConfigurationError
from agent.profiles.needs import Needs
from agent.profiles.parameters import Parameter

_SECTION = re.compile(r"^\[([^\]]+)\]", re.MULTILINE)
# fio on a hung device never ends by itself; three times its time and two minutes is no usual delay.
_TIME_LIMIT_FACTOR = 3.0
_TIME_LIMIT_EXTRA_S = 120.0
# What must be written or read however long it takes; a storage slower than this does not answer.
_SLOWEST_BYTES_PER_S = 10 * 10**6
_ALIASES = {"file_size": "size"}


@dataclass(frozen=True)
class Profile:
    """Something that can be measured.

    summary: one line; purpose: what it is good for; template: a job file with ${PLACES}, "" where no fio runs; method:
    how it is run, see agent.methods.registry; engine: None for the best that fio has; complete: fills in what follows
    from other values; is_own: a job file of the operator's, which is run as it is.
    """

    name: str
    summary: str
    purpose: str
    template: str
    parameters: tuple[Parameter, ...]
    need: Callable[[Mapping[str, Any]], Needs]
    method: str = "jobs"
    engine: str | None = None
    complete: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    is_own: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """Name the jobs in the order in which they run, one after the other."""
        names = tuple(
            name for name in _SECTION.findall(self.template) if name != "global" and not name.startswith("$")
        )
        return names or (self.name,)

    @property
    def has_fio(self) -> bool:
        return self.method != "smallfiles"

    @property
    def is_read_only(self) -> bool:
        return self.method == "seqread"

    @property
    def is_sweep(self) -> bool:
        """Say whether one run of it varies the workload, step by step."""
        return self.method == "saturation"

    @property
    def is_bounded(self) -> bool:
        """Say whether it may well end before its time: when all is done, steady or full."""
        return self.method in ("saturation", "steady") or self.name == "gitlab-randrw"

    @property
    def wants_direct(self) -> bool:
        return "${DIRECT}" in self.template and not self.is_own


@dataclass(frozen=True)
class Plan:
    """A profile with its parameters set."""

    profile: Profile
    values: Mapping[str, Any]

    @property
    def needs(self) -> Needs:
        return self.profile.need(self.values)

    @property
    def file_size_bytes(self) -> int:
        """Return what it needs on disk."""
        return self.needs.space_bytes

    @property
    def duration_s(self) -> float:
        return self.needs.duration_s

    @property
    def time_limit_s(self) -> float:
        """Return after how long a run hangs, surely."""
        needs = self.needs
        moving_s = needs.moved_bytes / _SLOWEST_BYTES_PER_S
        return needs.duration_s * _TIME_LIMIT_FACTOR + _TIME_LIMIT_EXTRA_S + moving_s

    def write_jobfile(self, *, engine: str, is_direct: bool, **places: Any) -> str:
        """Return the job file as fio reads it; a synchronous engine has no queue to fill.

        places: what varies from step to step, before the values of the same name.
        """
        if self.profile.is_own:
            return self.profile.template
        values = {name.upper(): str(value) for name, value in {**self.values, **places}.items()}
        if engine == "psync":
            values.update({name: "1" for name in values if name.startswith("IODEPTH")})
        values.update(IOENGINE=engine, DIRECT="1" if is_direct else "0")
        text = string.Template(self.profile.template).substitute(values)
        # fio on Windows has no processes of its own.
        return text.replace("[global]\n", "[global]\nthread=1\n", 1) if engine == "windowsaio" else text


def list_profiles() -> list[Profile]:
    """Return every shipped profile."""
    return [load_profile(name) for name in list_names()]


def list_names() -> list[str]:
    """Return the names of the shipped profiles."""
    from agent.profiles.shipped import PROFILES

    return sorted(PROFILES)


def load_profile(name: str) -> Profile:
    """Return one profile; its job file is read from beside this module, also inside a zip."""
    from agent.profiles.shipped import PROFILES

    if name not in PROFILES:
        raise ConfigurationError(f"there is no profile {name!r}; there are: {', '.join(sorted(PROFILES))}")
    details = PROFILES[name]
    if details.get("method") == "smallfiles":
        return Profile(name, template="", **details)
    template = pkgutil.get_data("agent", f"jobs/{name}.fio")
    if template is None:
        raise ConfigurationError(f"the job file of profile {name!r} is missing from this copy of the agent")
    return Profile(name, template=template.decode(), **details)


def make_plan(profile: Profile, adjustments: Mapping[str, str]) -> Plan:
    """Return the profile with defaults, adjusted; an unknown name or a value that cannot be is refused."""
    parameters = {parameter.name: parameter for parameter in profile.parameters}
    values = {parameter.name: parameter.default for parameter in profile.parameters}
    for given, text in adjustments.items():
        name = _ALIASES.get(given, given)
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise ConfigurationError(f"profile {profile.name} has no parameter {given!r}; there are: {known}")
        try:
            values[name] = parameters[name].read(text)
        except ValueError as error:
            raise ConfigurationError(f"--set {given}={text}: {error}") from None
    block_bytes, size_bytes = values.get("bs"), values.get("size")
    if block_bytes and size_bytes and size_bytes % block_bytes:
        raise ConfigurationError(
            f"--set bs={block_bytes}: the file of {size_bytes} bytes is no whole number of blocks"
        )
    return Plan(profile, profile.complete(values))
