"""Profiles: named sets of fio jobs, their parameters and needs."""

from __future__ import annotations

import os
import pkgutil
import re
import string
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping

from agent.exit_codes import ConfigurationError
from agent.profiles.parameters import Needs, Parameter

_SECTION = re.compile(r"^\[([^\]]+)\]", re.MULTILINE)
# fio on a hung device never exits; three times the duration plus two minutes is not a normal delay.
_TIME_LIMIT_FACTOR = 3.0
_TIME_LIMIT_EXTRA_S = 120.0
# For I/O without a runtime limit: slower storage is treated as unresponsive.
_SLOWEST_BYTES_PER_S = 10 * 10**6
_ALIASES = {"file_size": "size"}


@dataclass(frozen=True)
class Profile:
    """A named set of jobs.

    summary: one line; purpose: intended use; template: a job file with ${PLACEHOLDERS}, "" without fio; method: see
    agent.running.measure; engine: None for the platform's asynchronous one; complete: adds derived values; is_own: a
    custom job file, which is run unchanged.
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
        """Return the names of the jobs in the order of execution."""
        names = tuple(
            name for name in _SECTION.findall(self.template) if name != "global" and not name.startswith("$")
        )
        return names or (self.name,)

    @property
    def uses_fio(self) -> bool:
        return self.method != "smallfiles"

    @property
    def is_read_only(self) -> bool:
        return self.method == "seqread"

    @property
    def is_sweep(self) -> bool:
        """Return whether one run varies the workload step by step."""
        return self.method == "saturation"

    @property
    def is_bounded(self) -> bool:
        """Return whether it may end before its maximum duration."""
        return self.method in ("saturation", "steady") or self.name == "gitlab-randrw"

    @property
    def wants_direct(self) -> bool:
        return "${DIRECT}" in self.template and not self.is_own


@dataclass(frozen=True)
class Plan:
    """A profile with its parameters set. given: those that differ from their default.

    device: path of the block device that is measured instead of a file, "" for none; is_destructive: it may be written.
    """

    profile: Profile
    values: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    device: str = ""
    is_destructive: bool = False

    @property
    def needs(self) -> Needs:
        """Return the needs; a device needs no space for a file."""
        needs = self.profile.need(self.values)
        return replace(needs, space_bytes=0) if self.device else needs

    @property
    def writes(self) -> bool:
        """Return whether a shipped profile writes with these parameters."""
        found = re.findall(r"^rw=(.+)$", self.profile.template, re.MULTILINE)
        patterns = {self.values["rw"] if each == "${RW}" else each for each in found}
        return self.values.get("precondition") == "yes" or not patterns <= {"read", "randread"}

    @property
    def duration_s(self) -> float:
        return self.needs.duration_s

    @property
    def time_limit_s(self) -> float:
        """Return the time after which a run is treated as hung."""
        needs = self.needs
        transfer_s = needs.transferred_bytes / _SLOWEST_BYTES_PER_S
        return needs.duration_s * _TIME_LIMIT_FACTOR + _TIME_LIMIT_EXTRA_S + transfer_s

    def write_jobfile(self, *, engine: str, is_direct: bool, **places: Any) -> str:
        """Return the job file with values inserted; iodepth is 1 for a synchronous engine.

        places: values of this step, which override the parameters.
        """
        if self.profile.is_own:
            return self.profile.template
        values = {name.upper(): str(value) for name, value in {**self.values, **places}.items()}
        if engine == "psync":
            values.update({name: "1" for name in values if name.startswith("IODEPTH")})
        values.update(IOENGINE=engine, DIRECT="1" if is_direct else "0")
        text = self.open_device(string.Template(self.profile.template).substitute(values))
        # fio on Windows has no job processes.
        return text.replace("[global]\n", "[global]\nthread=1\n", 1) if engine == "windowsaio" else text

    def open_device(self, jobfile: str) -> str:
        """Return a job file that opens the device instead of test files."""
        name = "filename=" + self.device.replace(":", "\\:")
        if not self.device:
            return jobfile
        if "\nfilename=" in jobfile:
            return re.sub(r"^filename=.*$", lambda _: name, jobfile, flags=re.MULTILINE)
        # Jobs with a file each have a part of the device each.
        part = f"offset_increment={self.values['size']}"
        return jobfile.replace("[global]\n", f"[global]\n{name}\n{part}\n", 1)


def list_profiles() -> list[Profile]:
    """Return every shipped profile."""
    return [load_profile(name) for name in list_names()]


def list_names() -> list[str]:
    """Return the names of the shipped profiles."""
    from agent.profiles.shipped import PROFILES

    return sorted(PROFILES)


def load_profile(name: str) -> Profile:
    """Return one profile with its job file, which is package data (also in a zip)."""
    from agent.profiles.shipped import PROFILES

    if name not in PROFILES:
        raise ConfigurationError(f"unknown profile {name!r}; available: {', '.join(sorted(PROFILES))}")
    details = PROFILES[name]
    if details.get("method") == "smallfiles":
        return Profile(name, template="", **details)
    template = pkgutil.get_data("agent", f"jobs/{name}.fio")
    if template is None:
        raise ConfigurationError(f"the job file of profile {name!r} is missing from this copy of the agent")
    return Profile(name, template=template.decode(), **details)


def make_plan(profile: Profile, adjustments: Mapping[str, str]) -> Plan:
    """Return the profile with parameters set; ConfigurationError for unknown names and invalid values."""
    parameters = {parameter.name: parameter for parameter in profile.parameters}
    values = {parameter.name: parameter.default for parameter in profile.parameters}
    for given, text in adjustments.items():
        name = _ALIASES.get(given, given)
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise ConfigurationError(
                f"unknown parameter {given!r} of profile {profile.name}; available: {known}"
            )
        try:
            values[name] = parameters[name].read(text)
        except ValueError as error:
            raise ConfigurationError(f"--set {given}={text}: {error}") from None
    block_bytes, size_bytes = values.get("bs"), values.get("size")
    if block_bytes and size_bytes and size_bytes % block_bytes:
        raise ConfigurationError(
            f"--set bs={block_bytes}: the file size of {size_bytes} bytes is not a multiple of the block size"
        )
    changed = {name: value for name, value in values.items() if value != parameters[name].default}
    return Plan(profile, profile.complete(values), changed)


def check_plan(plan: Plan) -> None:
    """Raise ConfigurationError if the file to read is missing or too small, or this user may not drop caches."""
    if not plan.profile.is_read_only:
        return
    path = plan.values["file"]
    if path is None:
        raise ConfigurationError("no file given; set --file")
    if not plan.values["size"]:
        raise ConfigurationError(f"--file {path}: smaller than one block of {plan.values['bs']} bytes")
    if plan.values["drop_caches"] == "yes" and os.geteuid() != 0:
        raise ConfigurationError("--set drop_caches=yes: requires root")
