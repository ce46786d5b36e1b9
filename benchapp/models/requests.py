"""Run requests, and what a host allows the server to request."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from django.db import models
from django.utils import timezone

from benchapp.models.account import User, name_person
from benchapp.models.change import Change
from benchapp.models.host import Host
from benchapp.models.incident import Incident
from benchapp.models.measurement import Run
from benchapp.models.series import Series

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
# The grammars of the agent (agent/quantities.py, agent/profiles/parameters.py), which the server does not import.
_SIZE: Final = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)\s*([kmgtp]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE_MAXIMUM: Final = 2**62
_DURATION: Final = re.compile(r"(\d{1,9})\s*([smhd]?)", re.IGNORECASE | re.ASCII)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_LATENCY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(us|ms|s)", re.IGNORECASE | re.ASCII)
_LATENCY_NS: Final = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_COUNT: Final = re.compile(r"(\d{1,10})([km]?)", re.IGNORECASE | re.ASCII)
_COUNTS: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_NUMBER_MAXIMUM: Final = 2**31 - 1


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
    """Return the value of a parameter: a size, time, latency or count in its base unit; digits of another are a number.

    ValueError for what agents do not accept; other text stays.
    """
    value = read_value(name, text)
    return int(text) if value is text and _NUMBER.fullmatch(text) else value


def read_value(name: str, value: ParameterValue) -> ParameterValue:
    """Return a value in its base unit: text of a size, time, latency or count is read as by `parse_parameter`.

    ValueError for what agents do not accept.
    """
    return _READERS[name](value.strip()) if isinstance(value, str) and name in _READERS else value


def is_number(name: str) -> bool:
    """Return whether the value of a parameter is a size, time, latency or count."""
    return name in _READERS


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


def _parse_duration(text: str) -> int:
    """Return seconds: 90, 90s, 15m, 6h or 1d."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not a valid duration; use seconds (90) or a unit (90s, 15m, 6h)")
    return _limit(text, int(match[1]) * _SECONDS[match[2].lower()])


def _parse_runtime(text: str) -> int:
    seconds = _parse_duration(text)
    if seconds < 1:
        raise ValueError(f"{text[:80]!r} is too short; the minimum is 1 s")
    return seconds


def _parse_latency(text: str) -> int:
    """Return nanoseconds: 500us, 10ms, 1.5s, or digits."""
    if text.isascii() and text.isdigit() and len(text) <= 18 and int(text):
        return int(text)
    match = _LATENCY.fullmatch(text)
    if match is None or float(match[1]) <= 0:
        raise ValueError(
            f"{text[:80]!r} is not a valid latency; use nanoseconds or a unit (500us, 10ms, 1.5s)"
        )
    return round(float(match[1]) * _LATENCY_NS[match[2].lower()])


def _parse_count(text: str) -> int:
    """Return a whole number, at least 1; k and m are ×1000 and ×1 000 000."""
    match = _COUNT.fullmatch(text)
    number = int(match[1]) * _COUNTS[match[2].lower()] if match else 0
    if number < 1:
        raise ValueError(f"{text[:80]!r} is not a whole number, at least 1")
    return _limit(text, number)


def _limit(text: str, number: int) -> int:
    if number > _NUMBER_MAXIMUM:
        raise ValueError(f"{text[:80]!r} is too large; the maximum is {_NUMBER_MAXIMUM}")
    return number


# By parameter, of all profiles that agents ship.
_READERS: Final[Mapping[str, Callable[[str], int]]] = {
    **dict.fromkeys(_SIZES, _parse_size),
    "runtime": _parse_runtime,
    "ramp": _parse_duration,
    "limit": _parse_latency,
    **dict.fromkeys(("iodepth", "iodepth_maximum", "iodepth_sequential"), _parse_count),
    **dict.fromkeys(("jobs", "jobs_large", "jobs_maximum", "rounds"), _parse_count),
}


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


MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60, 3600, 86400, 7 * 86400
DAY_MINUTES: Final = 24 * 60
# As in agent/scheduling/timetable.py: divisors of an hour or a day.
INTERVALS: Final = {
    **{f"{minutes}m": minutes * MINUTE_S for minutes in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)},
    **{f"{hours}h": hours * HOUR_S for hours in (1, 2, 3, 4, 6, 8, 12)},
    "1d": DAY_S,
    "7d": WEEK_S,
}
"""Seconds by text; 7d is on Sundays."""
_TEXTS: Final = {seconds: text for text, seconds in INTERVALS.items()}
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


def write_interval(seconds: int) -> str:
    """Return 6h; the number of seconds for an interval that is not one of INTERVALS."""
    return _TEXTS.get(seconds, f"{seconds}s")


def read_clock(text: str) -> int:
    """Return minutes after midnight of 02:30. Raises ValueError."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:20]!r} is not a time of day from 00:00 to 23:59, such as 02:30")
    return int(match.group(1)) * 60 + int(match.group(2))


def write_clock(minute: int) -> str:
    """Return 02:30 for 150."""
    return f"{minute // 60:02}:{minute % 60:02}"


def spread_minute(at_minute: int, splay_s: int, *, host: str, profile: str) -> int:
    """Return the start of one host: at_minute and a delay of less than splay_s that is constant for the host.

    Decided here instead of on the host, so that the start is known before it happens.
    """
    digest = hashlib.sha256(f"{host}\n{profile}".encode()).digest()
    delay = int.from_bytes(digest[:7], "big") * (splay_s // MINUTE_S) // 2**56
    return (at_minute + delay) % DAY_MINUTES


def find_first_minute(every_s: int, at_minute: int) -> int:
    """Return the first start of a day in minutes after midnight: 02:30 every hour is 00:30."""
    return at_minute % min(every_s // MINUTE_S, DAY_MINUTES)


def list_next_starts(
    every_s: int, at_minute: int, *, zone: tzinfo, after: datetime, count: int
) -> list[datetime]:
    """Return the next starts in UTC. zone: of the host, in whose local time at_minute is; after: aware.

    A local time that does not exist on a day is that of the next hour, as for systemd.
    """
    starts: list[datetime] = []
    for start in _list_local_starts(every_s, at_minute, after.astimezone(zone)):
        moment = start.replace(tzinfo=zone).astimezone(UTC)
        if moment > after and moment not in starts:
            starts.append(moment)
        if len(starts) == count:
            break
    return starts


def _list_local_starts(every_s: int, at_minute: int, after: datetime) -> Iterator[datetime]:
    midnight = after.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    step = min(every_s // MINUTE_S, DAY_MINUTES)
    # 50 weeks: more than any list of starts that is shown.
    for offset in range(350):
        day = midnight + timedelta(days=offset)
        if every_s == WEEK_S and day.isoweekday() != 7:
            continue
        for minute in range(find_first_minute(every_s, at_minute), DAY_MINUTES, step):
            yield day + timedelta(minutes=minute)


class RunRequestState(models.TextChoices):
    """State of a request."""

    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    DECLINED = "declined", "Declined by the host"
    EXPIRED = "expired", "Expired"
    CANCELED = "canceled", "Canceled"


OPEN_REQUEST_STATES = (RunRequestState.PENDING, RunRequestState.RUNNING)


class RunRequest(models.Model):
    """One requested run of one host.

    id: also that of the submission of its result, so that a repeated delivery is stored once.
    parameters: of the profile, in base units; others have their default. reason: why it waits, failed or was declined.
    repeats: the run that it repeats; series, incident: where it was requested. change: that it is to confirm, of an
    automatic request. starts: reported by the agent; a request whose agent was killed is offered again.
    started_at, duration_s: of the newest start; the duration is the profile's.
    """

    id = models.UUIDField(primary_key=True)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="run_requests", db_index=False)
    profile = models.CharField(max_length=100)
    parameters = models.JSONField(default=dict)
    directory = models.CharField(max_length=4096)
    state = models.CharField(max_length=8, choices=RunRequestState, default=RunRequestState.PENDING)
    reason = models.CharField(max_length=1000, blank=True, default="")
    repeats = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    series = models.ForeignKey(Series, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    incident = models.ForeignKey(Incident, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    change = models.ForeignKey(Change, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    via = models.CharField(max_length=60, blank=True, default="")
    created_at = models.DateTimeField(help_text="server's clock")
    expires_at = models.DateTimeField()
    starts = models.PositiveSmallIntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True, help_text="server's clock")
    duration_s = models.FloatField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # Annotated by requests.read.run_requests: the result, once it is stored.
    run_id: int | None

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=RunRequestState.values), name="run_request_state_is_known"
            ),
        )
        indexes = (
            # requests.read.run_requests.page_run_requests: of a host, newest first.
            models.Index(fields=["host", "-created_at", "-id"], name="run_request_by_host"),
            # requests.write: offers, expiry; small, without settled rows.
            models.Index(
                fields=["host", "created_at"],
                name="run_request_open",
                condition=models.Q(state__in=OPEN_REQUEST_STATES),
            ),
        )

    def __str__(self) -> str:
        return f"request {self.pk} of {self.profile} ({self.state})"

    @property
    def is_automatic(self) -> bool:
        """Return whether the server requested it to confirm a change."""
        return self.change_id is not None

    @property
    def created_by_name(self) -> str:
        """Return who requested it, as the reader sees it; "" without a person."""
        return name_person(self.created_by)

    @property
    def remaining_s(self) -> float | None:
        """Return the part of the duration that is left, negative if it takes longer; None unless it is running."""
        if self.state != RunRequestState.RUNNING or self.started_at is None or not self.duration_s:
            return None
        return self.duration_s - (timezone.now() - self.started_at).total_seconds()

    @property
    def progress(self) -> float | None:
        """Return the share of the duration that has passed, 0 to 0.99; None unless it is running."""
        remaining_s = self.remaining_s
        if remaining_s is None or not self.duration_s:
            return None
        return min(max(1 - remaining_s / self.duration_s, 0.0), 0.99)


class RequestPolicy(models.Model):
    """What a host allows, as its agent reported it at its newest poll.

    policy: {profiles, directories, per_day, quiet_hours}. waits_for: "quota" or "quiet-hours" while the host starts
    nothing, until waits_until; else "".
    """

    host = models.OneToOneField(
        Host, on_delete=models.CASCADE, primary_key=True, related_name="request_policy"
    )
    policy = models.JSONField()
    polled_at = models.DateTimeField(help_text="server's clock")
    waits_for = models.CharField(max_length=20, blank=True, default="")
    waits_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "request policies"

    def __str__(self) -> str:
        return f"request policy of host {self.host_id}"


CONFIRMATION_RUNS_MAXIMUM = 3
# More would be another schedule rather than a confirmation.
DAILY_SHARE_MAXIMUM = 0.25
DAILY_SHARE_DEFAULT = 0.05


class ConfirmationPolicy(models.Model):
    """Additional runs of the hosts of a pool that confirm a suspected or provisional regression, or dismiss it.

    pool: "" for hosts without a pool. runs: at most, for each change. daily_share: of 24 hours that the additional runs
    of one host may take, 0.05 is 72 minutes.
    """

    pool = models.CharField(max_length=100, blank=True, unique=True)
    runs = models.PositiveSmallIntegerField(default=CONFIRMATION_RUNS_MAXIMUM)
    daily_share = models.FloatField(default=DAILY_SHARE_DEFAULT)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "confirmation policies"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(runs__gte=1, runs__lte=CONFIRMATION_RUNS_MAXIMUM),
                name="confirmation_runs_are_in_range",
            ),
            models.CheckConstraint(
                condition=models.Q(daily_share__gt=0, daily_share__lte=DAILY_SHARE_MAXIMUM),
                name="confirmation_share_is_in_range",
            ),
        )

    def __str__(self) -> str:
        return f"confirmation of {self.pool or 'hosts without a pool'}: {self.runs} runs"
