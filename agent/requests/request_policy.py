"""What a host allows the server to request: profiles, values of their parameters, directories, quota, quiet hours.

The section [requests] of the configuration. A request outside of it is declined, whatever the server checked before.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Mapping, Sequence, Union

from agent.exit_codes import ConfigurationError
from agent.profiles.parameters import Parameter
from agent.profiles.profile import Plan, Profile, load_profile, make_plan
from agent.quantities import parse_count

Value = Union[int, str]

PER_DAY_DEFAULT = 4
PER_DAY_MAXIMUM = 48
# More would not be a list that somebody reads before allowing it.
_ENTRIES_MAXIMUM = 20
_VALUES_MAXIMUM = 50
_DIRECTORIES_MAXIMUM = 50
_DAY_MINUTES = 24 * 60
_WINDOW = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_REFUSALS = {
    "profile-not-allowed": "the profile is not in [{section}] allow",
    "parameter-not-allowed": "a parameter is not in [{section}] allow",
    "value-not-allowed": "the value of a parameter is not in [{section}] allow",
    "directory-not-allowed": "the directory is not in [{section}] directories",
}
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class AllowedValues:
    """The allowed values of a parameter, in base units. values: a list; () for minimum to maximum, both inclusive."""

    values: tuple[Value, ...] = ()
    minimum: int = 0
    maximum: int = 0

    def allows(self, value: Value) -> bool:
        """Return whether a value is allowed; "4" is not 4."""
        if self.values:
            return any(value == allowed and type(value) is type(allowed) for allowed in self.values)
        return type(value) is int and self.minimum <= value <= self.maximum

    def dump(self) -> dict[str, Any]:
        """Return the values for the server."""
        if self.values:
            return {"values": list(self.values)}
        return {"minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True)
class AllowedProfile:
    """An allowed profile. parameters: those that a request may set; others have their default."""

    profile: str
    parameters: Mapping[str, AllowedValues] = field(default_factory=dict)


@dataclass(frozen=True)
class QuietHours:
    """A daily window without requested runs, in minutes after local midnight; end is exclusive.

    end <= start: it ends on the next day.
    """

    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """Return start and end, which is that of the next day if it is not after the start."""
        return self.start, self.start + (self.end - self.start) % _DAY_MINUTES

    def describe(self) -> str:
        """Return 08:00-18:00."""
        return "-".join(f"{minutes // 60:02}:{minutes % 60:02}" for minutes in (self.start, self.end))


@dataclass(frozen=True)
class RequestPolicy:
    """What this host allows. profiles: () if nothing; per_day: runs within 24 hours.

    directories: without symbolic links.
    """

    profiles: tuple[AllowedProfile, ...] = ()
    directories: tuple[str, ...] = ()
    per_day: int = PER_DAY_DEFAULT
    quiet_hours: tuple[QuietHours, ...] = ()

    def dump(self) -> dict[str, Any]:
        """Return the policy for the server."""
        return {
            "profiles": [
                {
                    "profile": allowed.profile,
                    "parameters": {name: values.dump() for name, values in allowed.parameters.items()},
                }
                for allowed in self.profiles
            ],
            "directories": list(self.directories),
            "per_day": self.per_day,
            "quiet_hours": [window.describe() for window in self.quiet_hours],
        }

    def describe(self, *, section: str) -> str:
        """Return profiles, directories and quota, for `check`; ConfigurationError without a directory."""
        if not self.directories:
            raise ConfigurationError(
                f"[{section}] allow requires a directory: set directories, or directory in [run]"
            )
        names = ", ".join(dict.fromkeys(allowed.profile for allowed in self.profiles))
        return f"{names} in {', '.join(self.directories)}; at most {self.per_day}"

    def find_quiet_end(self, now: datetime, *, duration_s: float = 0.0) -> datetime | None:
        """Return the end of the quiet hours that a run from now on would touch; None if it touches none.

        now: local time.
        """
        ends = [
            end
            for window in self.quiet_hours
            for start, end in _list_windows(window, now)
            if start <= now + timedelta(seconds=duration_s) and now < end
        ]
        return max(ends, default=None)

    def find_quiet_start(self, now: datetime) -> datetime | None:
        """Return when the next quiet hours begin; None without any. now: local time."""
        starts = [start for window in self.quiet_hours for start, _ in _list_windows(window, now)]
        return min((start for start in starts if start > now), default=None)

    def has_time_for(self, duration_s: float) -> bool:
        """Return whether a run can ever start and end between quiet hours."""
        if not self.quiet_hours:
            return True
        quiet = {minute % _DAY_MINUTES for window in self.quiet_hours for minute in range(*window.span)}
        # Two days: the longest gap may include midnight.
        days = "".join(" " if minute % _DAY_MINUTES in quiet else "x" for minute in range(2 * _DAY_MINUTES))
        return duration_s < 60 * max(map(len, days.split()), default=0)


@dataclass(frozen=True)
class RequestedRun:
    """A run that the server requests; id: of the request and of its result. Nothing of it is trusted."""

    id: str
    profile: str
    parameters: Mapping[str, Value]
    directory: str

    def make_plan(self) -> Plan:
        """Return the plan; ConfigurationError for unknown names and values that the profile does not accept."""
        return make_plan(load_profile(self.profile), self.write_parameters())

    def write_parameters(self) -> dict[str, str]:
        """Return the parameters as `--set` reads them; ConfigurationError for an unknown profile."""
        known = {parameter.name: parameter for parameter in load_profile(self.profile).parameters}
        return {name: _write_value(known.get(name), value) for name, value in self.parameters.items()}


def read_request_policy(
    settings: Mapping[str, str],
    *,
    directory: str | None,
    section: str = "requests",
    per_day_default: int = PER_DAY_DEFAULT,
    per_day_maximum: int = PER_DAY_MAXIMUM,
) -> RequestPolicy:
    """Return the policy of a section; ConfigurationError names the key.

    directory: of [run], the default of `directories`. section: another one than [requests] has the same keys.
    """
    allow = settings.get("allow", "")
    try:
        profiles = parse_allowed(allow)
    except ValueError as error:
        raise ConfigurationError(f"[{section}] allow: {error}") from None
    try:
        return RequestPolicy(
            profiles=profiles,
            directories=_parse_directories(settings.get("directories") or directory or ""),
            per_day=_parse_per_day(settings.get("per_day") or str(per_day_default), maximum=per_day_maximum),
            quiet_hours=_parse_quiet_hours(settings.get("quiet_hours") or ""),
        )
    except ValueError as error:
        raise ConfigurationError(f"[{section}] {error}") from None


def parse_allowed(text: str) -> tuple[AllowedProfile, ...]:
    """Return the allowed profiles of `quick; saturation runtime=5..30 bs=4k,16k`; ValueError describes the error."""
    entries = [entry.split() for entry in re.split(r"[;\n]", text) if entry.strip()]
    if len(entries) > _ENTRIES_MAXIMUM:
        raise ValueError(f"{len(entries)} entries exceed the maximum of {_ENTRIES_MAXIMUM}")
    return tuple(_parse_entry(words) for words in entries)


def find_refusal(policy: RequestPolicy, requested: RequestedRun) -> str | None:
    """Return why a request is declined: a code that the server uses, too; None if it is allowed."""
    allowed = [each for each in policy.profiles if each.profile == requested.profile]
    if not allowed:
        return "profile-not-allowed"
    refusals = [_find_parameter_refusal(each, requested.parameters) for each in allowed]
    if None not in refusals:
        return refusals[0]
    return None if requested.directory in policy.directories else "directory-not-allowed"


def describe_refusal(code: str, *, section: str) -> str:
    """Return the reason of a code of `find_refusal` in words. section: of the configuration, with the lists."""
    return _REFUSALS[code].format(section=section)


def read_requested_run(document: Any) -> RequestedRun | None:
    """Return the request in an answer of the server; None if it is not one."""
    if not isinstance(document, dict):
        return None
    parameters = document.get("parameters")
    texts = [document.get(name) for name in ("id", "profile", "directory")]
    if not isinstance(parameters, dict) or not all(isinstance(text, str) for text in texts):
        return None
    if not _ID.fullmatch(str(texts[0])) or not all(
        type(value) in (int, str) for value in parameters.values()
    ):
        return None
    return RequestedRun(str(texts[0]), str(texts[1]), parameters, str(texts[2]))


def _find_parameter_refusal(allowed: AllowedProfile, parameters: Mapping[str, Value]) -> str | None:
    for name, value in parameters.items():
        values = allowed.parameters.get(name)
        if values is None:
            return "parameter-not-allowed"
        if not values.allows(value):
            return "value-not-allowed"
    return None


def _parse_entry(words: Sequence[str]) -> AllowedProfile:
    try:
        profile = load_profile(words[0])
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    if profile.is_read_only:
        raise ValueError(f"{profile.name} reads a file, and a request names none")
    parameters: dict[str, AllowedValues] = {}
    for word in words[1:]:
        name, separator, text = word.partition("=")
        if not separator or not text:
            raise ValueError(f"{word!r} is not NAME=VALUES")
        if name in parameters:
            raise ValueError(f"{profile.name} has {name} twice")
        parameters[name] = _parse_values(_find_parameter(profile, name), text)
    return AllowedProfile(profile.name, parameters)


def _find_parameter(profile: Profile, name: str) -> Parameter:
    for parameter in profile.parameters:
        if parameter.name == name:
            return parameter
    known = ", ".join(parameter.name for parameter in profile.parameters) or "none"
    raise ValueError(f"unknown parameter {name!r} of profile {profile.name}; available: {known}")


def _parse_values(parameter: Parameter, text: str) -> AllowedValues:
    """Return the values of `4k,16k` or `5..30`."""
    lowest, is_range, highest = text.partition("..")
    if not is_range:
        values = tuple(_read_value(parameter, part) for part in text.split(","))
        if len(values) > _VALUES_MAXIMUM:
            raise ValueError(
                f"{parameter.name}: {len(values)} values exceed the maximum of {_VALUES_MAXIMUM}"
            )
        return AllowedValues(values)
    minimum, maximum = _read_value(parameter, lowest), _read_value(parameter, highest)
    if not isinstance(minimum, int) or not isinstance(maximum, int):
        raise ValueError(f"{parameter.name}={text}: this parameter has no ranges; list its values")
    if minimum > maximum:
        raise ValueError(f"{parameter.name}={text}: the minimum exceeds the maximum")
    return AllowedValues(minimum=minimum, maximum=maximum)


def _read_value(parameter: Parameter, text: str) -> Value:
    try:
        value: Value = parameter.read(text.strip())
    except ValueError as error:
        raise ValueError(f"{parameter.name}={text}: {error}") from None
    return value


def _write_value(parameter: Parameter | None, value: Value) -> str:
    """Return a value in base units as `--set` reads it."""
    if parameter is not None and parameter.unit == "ns" and isinstance(value, int):
        return f"{value // 1000}.{value % 1000:03}us"
    return str(value)


def _parse_directories(text: str) -> tuple[str, ...]:
    named = [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    for directory in named:
        if not os.path.isabs(directory):
            raise ValueError(f"directories: {directory} is not an absolute path")
    # As runs report it: otherwise none of them could be repeated.
    directories = tuple(dict.fromkeys(map(os.path.realpath, named)))
    if len(directories) > _DIRECTORIES_MAXIMUM:
        raise ValueError(f"directories: {len(directories)} exceed the maximum of {_DIRECTORIES_MAXIMUM}")
    return directories


def _parse_per_day(text: str, *, maximum: int) -> int:
    try:
        per_day = parse_count(text)
    except ValueError as error:
        raise ValueError(f"per_day: {error}") from None
    if not 1 <= per_day <= maximum:
        raise ValueError(f"per_day: {per_day} is not a number from 1 to {maximum}")
    return per_day


def _parse_quiet_hours(text: str) -> tuple[QuietHours, ...]:
    windows = []
    for part in filter(None, (part.strip() for part in re.split(r"[,\n]", text))):
        match = _WINDOW.fullmatch(part)
        if match is None:
            raise ValueError(f"quiet_hours: {part!r} is not HH:MM-HH:MM, such as 08:00-18:00")
        hours = [int(group) for group in match.groups()]
        start, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
        if start == end:
            raise ValueError(f"quiet_hours: {part} begins and ends at the same time")
        windows.append(QuietHours(start, end))
    return tuple(windows)


def _list_windows(window: QuietHours, now: datetime) -> list[tuple[datetime, datetime]]:
    """Return start and end of a window that began yesterday, today, or begins tomorrow."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = [midnight + timedelta(days=offset) for offset in (-1, 0, 1)]
    start, end = window.span
    return [(day + timedelta(minutes=start), day + timedelta(minutes=end)) for day in days]
