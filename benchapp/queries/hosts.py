"""Hosts by name, with what they last did and the tokens that they hold."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Q, QuerySet

from benchapp.models import ApiToken, Host
from benchapp.queries.page import BadCursor, Page

_CURSOR_MARK: Final = "after-"


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Which hosts to list; None leaves out nothing. text: part of the name or pool."""

    pool: str | None = None
    text: str | None = None
    is_retired: bool | None = None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What may be told of a token; its secret is not kept, and its digest stays inside."""

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
    """One host. last_seen_at: the server's clock; run_count: all its runs."""

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


def list_hosts(filters: HostFilter | None = None) -> list[HostRow]:
    """Return all hosts by name; three queries."""
    return _make_rows(_filter_hosts(filters or HostFilter()))


def page_hosts(filters: HostFilter, *, after: str | None = None, limit: int = 100) -> Page[HostRow]:
    """Return hosts by name, behind the cursor; three queries. Raises BadCursor."""
    hosts = _filter_hosts(filters)
    if after is not None:
        hosts = hosts.filter(name__gt=_decode(after))
    rows = _make_rows(hosts[: limit + 1])
    has_more = len(rows) > limit
    return Page(tuple(rows[:limit]), _encode(rows[limit - 1].name) if has_more else None)


def read_host(name: str) -> HostRow | None:
    """Return one host, None where there is none; three queries."""
    return next(iter(_make_rows(Host.objects.filter(name=name))), None)


_COLUMNS: Final = ("id", "name", "pool", "created_at", "last_seen_at", "agent_version", "retired_at")


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
    rows: list[tuple[Any, ...]] = list(hosts.values_list(*_COLUMNS))
    ids = [row[0] for row in rows]
    activity = _read_activity(ids)
    tokens = _read_tokens(ids)
    return [
        HostRow(*[*row, activity[row[0]].run_count, activity[row[0]].last_run, tuple(tokens[row[0]])])
        for row in rows
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
    # Names are unique and safe in a URL (enrolment sees to both): the last one seen is the place.
    return _CURSOR_MARK + name


def _decode(cursor: str) -> str:
    if not cursor.startswith(_CURSOR_MARK) or "\x00" in cursor:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list: take `next` from its answer")
    return cursor.removeprefix(_CURSOR_MARK)
