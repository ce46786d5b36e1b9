"""Schedules as hosts report them and as they are wanted."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.detection.rules.levels import expect_run
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import BadCursor, Page
from benchapp.models import Host, InstalledSchedule, ScheduleAdoption, WantedSchedule
from benchapp.models.measurement import read_last_receipts
from benchapp.models.requests import (
    REFUSALS,
    ParameterValue,
    RunSpecification,
    find_first_minute,
    find_refusal,
    list_next_starts,
    spread_minute,
)


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    """The schedule columns of a host: entries as reported, [{profile, every_s, splay_s, directory}]."""

    host_id: int
    entries: Sequence[Mapping[str, Any]]
    since_at: datetime
    reported_by: str
    is_retired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledProfile(InstalledSchedule):
    """A scheduled profile of a host, and its runs.

    last_at: receipt of its newest run or attempt since the schedule is known. expected_at: the next; None of a retired
    host. silent_at: from when on it was missed, or will be; is_silent: it is.
    """

    last_at: datetime | None
    expected_at: datetime | None
    silent_at: datetime | None
    is_silent: bool

    @property
    def name(self) -> str:
        """Return "quick in /data"."""
        return f"{self.profile} in {self.directory}"


@dataclass(frozen=True, slots=True)
class HostSchedule:
    """The schedule of a host; entries is empty if nothing is scheduled."""

    since_at: datetime
    reported_by: str
    entries: tuple[ScheduledProfile, ...]

    @property
    def expected_at(self) -> datetime | None:
        """Return the next expected run of the profiles that are not silent."""
        return min(
            (each.expected_at for each in self.entries if each.expected_at and not each.is_silent),
            default=None,
        )

    @property
    def silent_since(self) -> datetime | None:
        """Return when the first missed run became overdue, or None."""
        return min(
            (each.silent_at for each in self.entries if each.silent_at and each.is_silent), default=None
        )


def list_known(rows: Iterable[Mapping[str, Any]]) -> list[KnownSchedule]:
    """Return the schedules of hosts; rows: with id, retired_at and the three columns of the schedule."""
    return [
        KnownSchedule(
            host_id=row["id"],
            entries=row["schedule"],
            since_at=row["schedule_since_at"],
            reported_by=row["schedule_reported_by"],
            is_retired=row["retired_at"] is not None,
        )
        for row in rows
        if row["schedule"] is not None
    ]


def read_installed(entry: Mapping[str, Any]) -> InstalledSchedule:
    """Return an entry of the column `schedule` of a host."""
    return InstalledSchedule(**_read_fields(entry))


def _read_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "profile": entry["profile"],
        "directory": entry["directory"],
        "every_s": entry["every_s"],
        "splay_s": entry["splay_s"],
        "at_minute": entry.get("at_minute"),
        "parameters": entry.get("parameters"),
        "is_from_server": entry.get("is_from_server", False),
    }


def read_schedules(known: Sequence[KnownSchedule], *, now: datetime | None = None) -> dict[int, HostSchedule]:
    """Return the schedule of each host; two queries at most, none without schedules."""
    moment = now or timezone.now()
    # What came before the schedule was known is not looked at: it would have the same next moment.
    last = read_last_receipts(
        [
            (each.host_id, entry["profile"], entry["directory"], each.since_at)
            for each in known
            for entry in each.entries
        ]
    )
    return {
        each.host_id: HostSchedule(
            each.since_at,
            each.reported_by,
            tuple(
                _judge(
                    each, entry, last.get((each.host_id, entry["profile"], entry["directory"])), now=moment
                )
                for entry in each.entries
            ),
        )
        for each in known
    }


def _judge(
    known: KnownSchedule, entry: Mapping[str, Any], last_at: datetime | None, *, now: datetime
) -> ScheduledProfile:
    expected = expect_run(
        last_at, since_at=known.since_at, every_s=entry["every_s"], splay_s=entry["splay_s"], now=now
    )
    return ScheduledProfile(
        **_read_fields(entry),
        last_at=last_at,
        expected_at=None if known.is_retired else expected.expected_at,
        silent_at=None if known.is_retired else expected.silent_at,
        is_silent=not known.is_retired and expected.is_silent(now),
    )


STARTS_SHOWN: Final = 5
_CURSOR_MARK: Final = "after-"


@dataclass(frozen=True, slots=True)
class HostWanted:
    """What one host shall run. at_minute: of this host, after its splay. wanted_id: the row; is_own: of the host."""

    profile: str
    parameters: Mapping[str, ParameterValue]
    directory: str
    every_s: int
    at_minute: int
    wanted_id: int
    is_own: bool


class LineState(StrEnum):
    """How a wanted schedule and that of the host relate.

    OWN: set on the host, and not wanted. OBSOLETE: adopted, and not wanted any more.
    """

    INSTALLED = "installed"
    MISSING = "missing"
    DIFFERENT = "different"
    REFUSED = "refused"
    OBSOLETE = "obsolete"
    OWN = "own"


DIFFERENCES: Final = frozenset(
    {LineState.MISSING, LineState.DIFFERENT, LineState.REFUSED, LineState.OBSOLETE}
)


@dataclass(frozen=True, slots=True)
class ComparedSchedule:
    """A profile of a host. wanted, installed: None if it is not. reason: of the host, why it is refused.

    starts_at: of the wanted schedule, the next five.
    """

    profile: str
    state: LineState
    wanted: HostWanted | None
    installed: InstalledSchedule | None
    reason: str = ""
    starts_at: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """Wanted and installed schedules of a host. adoption: None if its agent never asked for a schedule.

    version: of what is wanted; time_zone: IANA name, "" if the host reported none, then its times count as UTC.
    """

    lines: tuple[ComparedSchedule, ...]
    adoption: ScheduleAdoption | None
    version: str
    time_zone: str
    is_retired: bool

    @property
    def is_different(self) -> bool:
        """Return whether the host does not run what is wanted."""
        return not self.is_retired and any(line.state in DIFFERENCES for line in self.lines)

    @property
    def is_current(self) -> bool:
        """Return whether the host handled this version."""
        return self.adoption is not None and self.adoption.version == self.version


@dataclass(frozen=True, slots=True)
class ScheduledHost:
    """What of a host its schedules depend on. installed: () if it reported none."""

    id: int
    name: str
    pool: str
    is_retired: bool
    installed: Sequence[InstalledSchedule]


def list_wanted_rows(*, pool: str | None = None, host_name: str | None = None) -> list[WantedSchedule]:
    """Return the wanted schedules of a pool, of a host, or all: by pool, then host, then profile; one query."""
    return sorted(
        _filter_rows(pool, host_name),
        key=lambda row: (bool(row.host_name), row.pool, row.host_name, row.profile),
    )


def page_wanted_rows(
    *, pool: str | None = None, host_name: str | None = None, after: str | None = None, limit: int = 100
) -> Page[WantedSchedule]:
    """Return a page of `list_wanted_rows`, by id; one query. Raises BadCursor."""
    rows = _filter_rows(pool, host_name).order_by("pk")
    if after is not None:
        rows = rows.filter(pk__gt=_decode(after))
    found = list(rows[: limit + 1])
    return Page(tuple(found[:limit]), f"{_CURSOR_MARK}{found[limit - 1].pk}" if len(found) > limit else None)


def read_wanted_row(wanted_id: int) -> WantedSchedule | None:
    """Return one wanted schedule or None; one query."""
    return _filter_rows(None, None).filter(pk=wanted_id).first()


def resolve_wanted(host_name: str, rows: Iterable[WantedSchedule]) -> list[HostWanted]:
    """Return what a host shall run, by profile. rows: of its pool and of itself, which come first."""
    chosen: dict[str, WantedSchedule] = {}
    for row in sorted(rows, key=lambda row: bool(row.host_name)):
        chosen[row.profile] = row
    return [
        HostWanted(
            profile=row.profile,
            parameters=row.parameters,
            directory=row.directory,
            every_s=row.every_s,
            at_minute=spread_minute(row.at_minute, row.splay_s, host=host_name, profile=row.profile),
            wanted_id=row.pk,
            is_own=bool(row.host_name),
        )
        for _, row in sorted(chosen.items())
        if row.every_s is not None
    ]


def make_version(wanted: Sequence[HostWanted]) -> str:
    """Return a name of what a host shall run: equal if and only if it is the same."""
    lines = [
        [line.profile, sorted(line.parameters.items()), line.directory, line.every_s, line.at_minute]
        for line in wanted
    ]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:32]


def compare_schedules(
    wanted: Sequence[HostWanted],
    installed: Sequence[InstalledSchedule],
    *,
    refusals: Mapping[str, str],
) -> list[ComparedSchedule]:
    """Return a line for each wanted or installed schedule, by profile. refusals: reasons of the host by profile.

    A host may have schedules of a wanted profile in other directories, too. What an agent does not report, the time or
    parameters, counts as equal.
    """
    lines = []
    found: dict[str, list[InstalledSchedule]] = defaultdict(list)
    for each in installed:
        found[each.profile].append(each)
    for line in wanted:
        entries = found[line.profile]
        equal = next((entry for entry in entries if _is_equal(line, entry)), None)
        entry = equal or next(
            (each for each in entries if each.is_from_server or each.directory == line.directory), None
        )
        if entry:
            entries.remove(entry)
        if equal:
            state = LineState.INSTALLED
        elif line.profile in refusals:
            state = LineState.REFUSED
        else:
            state = LineState.DIFFERENT if entry else LineState.MISSING
        reason = refusals.get(line.profile, "") if state == LineState.REFUSED else ""
        lines.append(ComparedSchedule(line.profile, state, line, entry, reason))
    for profile, entries in found.items():
        for other in entries:
            state = LineState.OBSOLETE if other.is_from_server else LineState.OWN
            lines.append(ComparedSchedule(profile, state, None, other))
    return sorted(lines, key=lambda line: line.profile)


def read_statuses(hosts: Sequence[ScheduledHost], *, now: datetime) -> dict[int, ScheduleStatus]:
    """Return wanted and installed schedules of hosts by id; three queries."""
    ids = [host.id for host in hosts]
    rows = _read_rows(hosts)
    adoptions = {row.pk: row for row in ScheduleAdoption.objects.filter(pk__in=ids)}
    zones = _read_time_zones(ids)
    return {
        host.id: _make_status(
            host, rows[host.id], adoptions.get(host.id), zone_name=zones.get(host.id, ""), now=now
        )
        for host in hosts
    }


def preview_statuses(
    hosts: Sequence[ScheduledHost], rows: Sequence[WantedSchedule], *, now: datetime
) -> dict[int, ScheduleStatus]:
    """Return the statuses of hosts as if these rows, of one pool or host, replaced the stored ones of that scope."""
    ids = [host.id for host in hosts]
    scopes = {(row.pool, row.host_name) for row in rows}
    stored = _read_rows(hosts)
    adoptions = {row.pk: row for row in ScheduleAdoption.objects.filter(pk__in=ids)}
    zones = _read_time_zones(ids)
    return {
        host.id: _make_status(
            host,
            [
                *(row for row in stored[host.id] if (row.pool, row.host_name) not in scopes),
                *(row for row in rows if _is_row_of(row, host)),
            ],
            adoptions.get(host.id),
            zone_name=zones.get(host.id, ""),
            now=now,
        )
        for host in hosts
    }


def predict_refusal(line: ComparedSchedule, adoption: ScheduleAdoption | None) -> str:
    """Return why a host will not adopt a line, by what it reported that it allows; "" if it will, or is not wanted."""
    if line.wanted is None:
        return ""
    if adoption is None or not adoption.is_allowed:
        return "the host does not adopt schedules of the server"
    wanted = RunSpecification(line.wanted.profile, line.wanted.parameters, line.wanted.directory)
    refusal = find_refusal(adoption.policy, wanted)
    return REFUSALS[refusal] if refusal else ""


def find_different_hosts() -> list[int]:
    """Return the ids of active hosts that do not run what is wanted; two queries."""
    rows = list_wanted_rows()
    by_pool: dict[str, list[WantedSchedule]] = defaultdict(list)
    by_host: dict[str, list[WantedSchedule]] = defaultdict(list)
    for row in rows:
        if row.host_name:
            by_host[row.host_name].append(row)
        else:
            by_pool[row.pool].append(row)
    hosts = Host.objects.active().values_list("pk", "name", "pool", "schedule")
    different = []
    for pk, name, pool, schedule in hosts:
        wanted = resolve_wanted(name, [*by_pool.get(pool, ()), *by_host.get(name, ())])
        lines = compare_schedules(wanted, list(map(read_installed, schedule or ())), refusals={})
        if any(line.state in DIFFERENCES for line in lines):
            different.append(pk)
    return different


def list_scheduled_hosts(
    *, pool: str | None = None, host_name: str | None = None, limit: int
) -> list[ScheduledHost]:
    """Return the active hosts of a pool, or one host, by name; one query."""
    hosts = Host.objects.active().order_by("name")
    if pool is not None:
        hosts = hosts.filter(pool=pool)
    if host_name is not None:
        hosts = Host.objects.filter(name=host_name)
    return [
        ScheduledHost(
            id=row["pk"],
            name=row["name"],
            pool=row["pool"],
            is_retired=row["retired_at"] is not None,
            installed=tuple(map(read_installed, row["schedule"] or ())),
        )
        for row in hosts.values("pk", "name", "pool", "retired_at", "schedule")[:limit]
    ]


def list_schedule_scopes() -> list[dict[str, Any]]:
    """Return all pools by name ("" for hosts without one), then hosts with an exception; five queries.

    adopting, different: numbers of hosts.
    """
    rows = list_wanted_rows()
    hosts = list(Host.objects.active().values_list("pk", "name", "pool"))
    adopting = set(ScheduleAdoption.objects.filter(is_allowed=True).values_list("host_id", flat=True))
    different = set(find_different_hosts())
    members: dict[tuple[str, str], set[int]] = defaultdict(set)
    profiles: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        profiles[row.pool, row.host_name].append(row.profile)
    for pk, name, pool in hosts:
        members[pool, ""].add(pk)
        if ("", name) in profiles:
            members["", name].add(pk)
    return [
        {
            "pool": pool,
            "host_name": host_name,
            "hosts": len(members[pool, host_name]),
            "profiles": tuple(sorted(profiles[pool, host_name])),
            "adopting": len(members[pool, host_name] & adopting),
            "different": len(members[pool, host_name] & different),
        }
        for pool, host_name in sorted({*members, *profiles}, key=lambda scope: (bool(scope[1]), scope))
    ]


def list_known_profiles() -> list[str]:
    """Return the profiles that hosts adopt or that are wanted, by name; two queries."""
    wanted = set(WantedSchedule.objects.values_list("profile", flat=True).distinct())
    policies = ScheduleAdoption.objects.filter(is_allowed=True).values_list("policy", flat=True)
    allowed = {each["profile"] for policy in policies for each in policy["profiles"]}
    return sorted(wanted | allowed)


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name; UTC for "" and for names that this machine does not know."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC


def _filter_rows(pool: str | None, host_name: str | None) -> QuerySet[WantedSchedule]:
    rows = WantedSchedule.objects.select_related("host", "updated_by")
    if pool is not None:
        rows = rows.filter(host=None, pool=pool)
    if host_name is not None:
        rows = rows.filter(host__name=host_name)
    return rows


def _decode(cursor: str) -> int:
    text = cursor.removeprefix(_CURSOR_MARK)
    if text == cursor or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list: take `next` from its answer")
    return int(text)


def _make_status(
    host: ScheduledHost,
    rows: Sequence[WantedSchedule],
    adoption: ScheduleAdoption | None,
    *,
    zone_name: str,
    now: datetime,
) -> ScheduleStatus:
    wanted = resolve_wanted(host.name, rows)
    version = make_version(wanted)
    is_current = adoption is not None and adoption.version == version
    refusals = (
        {each["profile"]: each["reason"] for each in adoption.refused} if adoption and is_current else {}
    )
    lines = compare_schedules(wanted, host.installed, refusals=refusals)
    zone = find_zone(zone_name)
    return ScheduleStatus(
        lines=tuple(_add_starts(line, zone, now) for line in lines),
        adoption=adoption,
        version=version,
        time_zone=zone_name if zone is not UTC else "",
        is_retired=host.is_retired,
    )


def _add_starts(line: ComparedSchedule, zone: tzinfo, now: datetime) -> ComparedSchedule:
    if line.wanted is None:
        return line
    starts = list_next_starts(
        line.wanted.every_s, line.wanted.at_minute, zone=zone, after=now, count=STARTS_SHOWN
    )
    return ComparedSchedule(
        line.profile, line.state, line.wanted, line.installed, reason=line.reason, starts_at=tuple(starts)
    )


def _is_equal(wanted: HostWanted, entry: InstalledSchedule) -> bool:
    is_in_time = entry.at_minute is None or find_first_minute(
        entry.every_s, entry.at_minute
    ) == find_first_minute(wanted.every_s, wanted.at_minute)
    return (
        (entry.every_s, entry.directory) == (wanted.every_s, wanted.directory)
        and is_in_time
        and (entry.splay_s == 0 or entry.at_minute is None)
        and (entry.parameters is None or dict(entry.parameters) == dict(wanted.parameters))
    )


def _read_rows(hosts: Sequence[ScheduledHost]) -> dict[int, list[WantedSchedule]]:
    pools = {host.pool for host in hosts}
    found = WantedSchedule.objects.filter(
        Q(host=None, pool__in=pools) | Q(host__in=[host.id for host in hosts])
    )
    rows = list(found.select_related("host"))
    return {host.id: [row for row in rows if _is_row_of(row, host)] for host in hosts}


def _is_row_of(row: WantedSchedule, host: ScheduledHost) -> bool:
    return row.host_name == host.name if row.host_name else row.pool == host.pool


def _read_time_zones(ids: Sequence[int]) -> dict[int, str]:
    """Return the time zones of the newest runs of hosts: one entry of the index run_by_host each."""
    rows = fetch_rows(
        "SELECT wanted.id, environment.facts->>'time_zone' FROM unnest(%s::bigint[]) AS wanted(id)"
        " CROSS JOIN LATERAL (SELECT environment_id FROM benchapp_run WHERE host_id = wanted.id"
        " ORDER BY started_at DESC, id DESC LIMIT 1) AS last"
        " JOIN benchapp_environment environment ON environment.id = last.environment_id",
        [list(ids)],
    )
    return {host_id: zone for host_id, zone in rows if zone}
