"""What a host allows the server to request, as its agent reported it. The agent decides again by the same rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

ParameterValue = int | str

REFUSALS: Final[Mapping[str, str]] = {
    "host-retired": "the host is retired",
    "policy-unknown": "the host allows no requests: set [requests] allow in the configuration of its agent",
    "parameters-unknown": "the run was not sent by an agent that reports its profile, parameters and directory",
    "profile-not-allowed": "the host does not allow this profile",
    "parameter-not-allowed": "the host does not allow to set one of these parameters",
    "value-not-allowed": "the host does not allow the value of one of these parameters",
    "directory-not-allowed": "the host does not allow this directory",
    "quota-reached": "the host allows no more runs within 24 hours",
}
"""Why a run cannot be requested, by code."""

# Parameters in bytes.
_SIZES: Final = frozenset({"size", "bs"})
# For display, in powers of 1024.
_SUFFIXES: Final = {"t": 2**40, "g": 2**30, "m": 2**20, "k": 2**10}
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
# The grammar of `parse_size` of the agent, which the server does not import.
_SIZE: Final = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)([kmgtp]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE_MAXIMUM: Final = 2**62


@dataclass(frozen=True, slots=True)
class RunSpecification:
    """What a request names. parameters: in base units, those that differ from the defaults of the profile."""

    profile: str
    parameters: Mapping[str, ParameterValue]
    directory: str


def find_refusal(policy: Mapping[str, Any], wanted: RunSpecification) -> str | None:
    """Return the code of the reason why a policy does not allow a run; None if it does.

    policy: {profiles: [{profile, parameters: {name: {values} or {minimum, maximum}}}], directories, …}.
    """
    allowed = [each for each in policy["profiles"] if each["profile"] == wanted.profile]
    if not allowed:
        return "profile-not-allowed"
    refusals = [_find_parameter_refusal(each["parameters"], wanted.parameters) for each in allowed]
    if None not in refusals:
        return refusals[0]
    return None if wanted.directory in policy["directories"] else "directory-not-allowed"


def read_specification(
    profile: str, command: Mapping[str, Any], facts: Mapping[str, Any]
) -> RunSpecification | None:
    """Return what repeats a run; None if its agent did not report it.

    command, facts: those of the run and of its environment.
    """
    parameters, directory = command.get("parameters"), facts.get("directory")
    if not profile or not isinstance(parameters, Mapping) or not isinstance(directory, str):
        return None
    return RunSpecification(profile, dict(parameters), directory)


def describe_parameters(parameters: Mapping[str, ParameterValue]) -> str:
    """Return "runtime=10 size=64m", "" without parameters; `parse_parameter` reads the values."""
    return " ".join(f"{name}={_describe_value(name, value)}" for name, value in parameters.items())


def parse_parameter(name: str, text: str) -> ParameterValue:
    """Return the value of a parameter: of a size in bytes, digits are a number, other text stays.

    ValueError for a size that agents do not accept.
    """
    if name in _SIZES:
        return _parse_size(text)
    return int(text) if _NUMBER.fullmatch(text) else text


def is_size(name: str) -> bool:
    """Return whether the value of a parameter is in bytes."""
    return name in _SIZES


def describe_allowed(profiles: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the allowed profiles as the configuration writes them: "quick runtime=4..30 bs=4k,16k"."""
    return [
        " ".join(
            [
                each["profile"],
                *(f"{name}={_describe_values(name, v)}" for name, v in each["parameters"].items()),
            ]
        )
        for each in profiles
    ]


def _parse_size(text: str) -> int:
    """Return bytes: 64m, 64M and 64MiB are ×1024², 64MB is ×1000², as agents read them."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text[:80]!r} is not a valid size; use bytes (4096) or a unit (64m, 64MiB, 64MB, 1.5g)"
        )
    number, unit, binary, byte = match.groups()
    factor = (1000 if unit and byte and not binary else 1024) ** _POWERS[unit.lower()]
    size_bytes = int(float(number) * factor) if "." in number else int(number) * factor
    if size_bytes > _SIZE_MAXIMUM:
        raise ValueError(f"{text[:80]!r} is too large; the maximum is 4 EiB")
    return size_bytes


def _describe_values(name: str, values: Mapping[str, Any]) -> str:
    if "values" in values:
        return ",".join(_describe_value(name, value) for value in values["values"])
    return "..".join(_describe_value(name, values[end]) for end in ("minimum", "maximum"))


def _describe_value(name: str, value: ParameterValue) -> str:
    """Return a value as text; bytes exactly, with the largest suffix that divides them."""
    if name in _SIZES and type(value) is int and value > 0:
        for suffix, unit_bytes in _SUFFIXES.items():
            if value % unit_bytes == 0:
                return f"{value // unit_bytes}{suffix}"
    return str(value)


def _find_parameter_refusal(
    allowed: Mapping[str, Mapping[str, Any]], parameters: Mapping[str, ParameterValue]
) -> str | None:
    for name, value in parameters.items():
        if name not in allowed:
            return "parameter-not-allowed"
        if not _is_allowed(value, allowed[name]):
            return "value-not-allowed"
    return None


def _is_allowed(value: ParameterValue, values: Mapping[str, Any]) -> bool:
    """Return whether a value is allowed; "4" is not 4, and true is not 1."""
    if "values" in values:
        return any(value == allowed and type(value) is type(allowed) for allowed in values["values"])
    return type(value) is int and values["minimum"] <= value <= values["maximum"]
