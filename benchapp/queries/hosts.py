"""Hosts by name, with what they last did and the tokens that they hold.

What hosts are expected to run by themselves, when it last ran, and which of them are silent.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.analysis.detection.silence import expect_run
from benchapp.models import ApiToken, Host
from benchapp.models.last_runs import read_last_runs
from benchapp.queries.pagination import BadCursor, Page


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    """The schedule columns of a host: entries as reported, [{profile, every_s, splay_s, directory}]."""

    host_id: int
    entries: Sequence[Mapping[str, Any]]
    since_at: datetime
    reported_by: str
    is_retired: bool


@dataclass(frozen=True, slots=True)
class ScheduledProfile:
    """A scheduled profile of a host.

    last_at: its newest run since the schedule is known. expected_at: the next; None of a retired host. silent_at: from
    when on it was missed, or will be; is_silent: it is.
    """

    profile: str
    directory: str
    every_s: int
    splay_s: int
    last_at: datetime | None
    expected_at: datetime | None
    silent_at: datetime | None
    is_silent: bool


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


def read_schedules(known: Sequence[KnownSchedule], *, now: datetime | None = None) -> dict[int, HostSchedule]:
    """Return the schedule of each host; one query, or none without schedules."""
    moment = now or timezone.now()
    last = _read_last_runs(known)
    return {
        each.host_id: HostSchedule(
            each.since_at,
            each.reported_by,
            tuple(
                _judge(each, entry, last.get((each.host_id, entry["profile"])), now=moment)
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
        profile=entry["profile"],
        directory=entry["directory"],
        every_s=entry["every_s"],
        splay_s=entry["splay_s"],
        last_at=last_at,
        expected_at=None if known.is_retired else expected.expected_at,
        silent_at=None if known.is_retired else expected.silent_at,
        is_silent=not known.is_retired and expected.is_silent(now),
    )


def _read_last_runs(known: Sequence[KnownSchedule]) -> dict[tuple[int, str], datetime]:
    """Return the newest run of each scheduled profile, by host.

    What ran before the schedule was known is not looked at: it would have the same next moment.
    """
    wanted = [(each.host_id, entry["profile"], each.since_at) for each in known for entry in each.entries]
    return read_last_runs(wanted)


_CURSOR_MARK: Final = "after-"


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Which hosts to list; None: no restriction. text: part of the name or pool."""

    pool: str | None = None
    text: str | None = None
    is_retired: bool | None = None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its digest."""

    public_id: str
    label: str
    created_at: datetime
    created_by: str | None
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run of a host."""

    id: int
    profile: str
    started_at: datetime
    error: int


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host. last_seen_at: the server's clock; run_count: all its runs; schedule: None if not reported."""

    id: int
    name: str
    pool: str
    created_at: datetime
    last_seen_at: datetime | None
    agent_version: str
    retired_at: datetime | None
    run_count: int
    last_run: LastRun | None
    tokens: tuple[TokenRow, ...]
    schedule: HostSchedule | None

    @property
    def scope(self) -> str:
        """Return the scope of its series: pool:NAME or host:NAME."""
        return f"pool:{self.pool}" if self.pool else f"host:{self.name}"


def page_hosts(filters: HostFilter, *, after: str | None = None, limit: int = 100) -> Page[HostRow]:
    """Return a page of hosts by name; three queries, and one for schedules. Raises BadCursor."""
    hosts = _filter_hosts(filters)
    if after is not None:
        hosts = hosts.filter(name__gt=_decode(after))
    rows = _make_rows(hosts[: limit + 1])
    has_more = len(rows) > limit
    return Page(tuple(rows[:limit]), _encode(rows[limit - 1].name) if has_more else None)


def read_host(name: str) -> HostRow | None:
    """Return one host or None; queries as for page_hosts."""
    return next(iter(_make_rows(Host.objects.filter(name=name))), None)


_COLUMNS: Final = ("id", "name", "pool", "created_at", "last_seen_at", "agent_version", "retired_at")
_SCHEDULE_COLUMNS: Final = ("schedule", "schedule_since_at", "schedule_reported_by")


def _filter_hosts(filters: HostFilter) -> QuerySet[Host]:
    hosts = Host.objects.order_by("name")
    if filters.pool is not None:
        hosts = hosts.filter(pool=filters.pool)
    if filters.is_retired is not None:
        hosts = hosts.filter(retired_at__isnull=not filters.is_retired)
    if filters.text:
        text = filters.text.replace("\x00", "").strip()
        hosts = hosts.filter(Q(name__icontains=text) | Q(pool__icontains=text))
    return hosts


def _make_rows(hosts: QuerySet[Host]) -> list[HostRow]:
    found: list[dict[str, Any]] = list(hosts.values(*_COLUMNS, *_SCHEDULE_COLUMNS))
    ids = [row["id"] for row in found]
    schedules = read_schedules(list_known(found))
    activity = _read_activity(ids)
    tokens = _read_tokens(ids)
    return [
        HostRow(
            **{column: row[column] for column in _COLUMNS},
            run_count=activity[row["id"]].run_count,
            last_run=activity[row["id"]].last_run,
            tokens=tuple(tokens[row["id"]]),
            schedule=schedules.get(row["id"]),
        )
        for row in found
    ]


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


@dataclass(frozen=True, slots=True)
class _Activity:
    run_count: int
    last_run: LastRun | None


def _read_activity(ids: Sequence[int]) -> dict[int, _Activity]:
    """Return the number of runs and the newest run of each host: both from the index run_by_host."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT wanted.id, (SELECT count(*) FROM benchapp_run WHERE host_id = wanted.id), last.*"
            " FROM unnest(%s::bigint[]) AS wanted(id) LEFT JOIN LATERAL ("
            " SELECT id, profile, started_at, error FROM benchapp_run WHERE host_id = wanted.id"
            " ORDER BY started_at DESC, id DESC LIMIT 1) AS last ON true",
            [list(ids)],
        )
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return {
        host_id: _Activity(count, LastRun(*last) if last[0] is not None else None)
        for host_id, count, *last in rows
    }


def _read_tokens(ids: Iterable[int]) -> dict[int, list[TokenRow]]:
    tokens: dict[int, list[TokenRow]] = defaultdict(list)
    rows: Iterable[tuple[Any, ...]] = (
        ApiToken.objects.filter(host_id__in=list(ids))
        .order_by("host_id", "-created_at", "-id")
        .values_list(
            "host_id",
            "public_id",
            "label",
            "created_at",
            "created_by__username",
            "last_used_at",
            "expires_at",
            "revoked_at",
        )
    )
    for row in rows:
        tokens[row[0]].append(TokenRow(*row[1:]))
    return tokens


def _encode(name: str) -> str:
    # Names are unique and safe in a URL (ensured by enrollment), so that the last one is the cursor.
    return _CURSOR_MARK + name


def _decode(cursor: str) -> str:
    if not cursor.startswith(_CURSOR_MARK) or "\x00" in cursor:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list: take `next` from its answer")
    return cursor.removeprefix(_CURSOR_MARK)
