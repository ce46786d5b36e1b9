"""Hosts with their state: open incidents, last run, environment and its changes, schedule, series that a pool joins."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from django.db import connection
from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet, Sum
from django.utils import timezone
from msgspec import Meta
from psycopg import sql

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import BadCursor, Page, match_times
from benchapp.incidents.read.series_status import (
    LIVE,
    REGRESSED_SCOPES,
    ScopeMark,
    list_open_incidents,
    read_scope_marks,
    read_series_marks,
)
from benchapp.models import (
    SAMPLE_HOST,
    Host,
    Incident,
    Notice,
    NoticeState,
    Run,
    Series,
    Severity,
    State,
    Submission,
    TargetMapping,
)
from benchapp.models.coverage import match_hosts
from benchapp.requests.read.failing import FailedRuns, list_failing, read_all_failed, read_failed
from benchapp.requests.read.schedules import HostSchedule, find_different_hosts, list_known, read_schedules
from benchapp.series.read.environment_changes import (
    EnvironmentChange,
    FieldChange,
    compare_environments,
    read_environments,
)
from benchapp.series.read.selected_levels import NOW, LevelRange, read_main_levels, read_relative_levels
from benchapp.series.read.titles import describe_target, describe_workload, join_titles
from benchapp.storage.rules.target_name import NameMapping


def is_outdated(version: str, shipped: str) -> bool:
    """Return whether a version of numbers and dots is older than the one that the server ships; False for others."""
    try:
        return [int(part) for part in version.split(".")] < [int(part) for part in shipped.split(".")]
    except ValueError:
        return False


_CURSOR_MARK: Final = "after-"
# Per host or pool, most recently measured first: a sweep has 320 series.
HISTORY_SERIES_MAXIMUM: Final = 400


@dataclass(frozen=True, slots=True)
class HostFilter:
    """Which hosts to list; None: no restriction.

    match: as in `match_hosts`; text: part of the name or pool; is_agent_outdated: older than shipped_version.
    is_schedule_different: does not run what the server wants. is_failing: a profile is failing.
    from_at inclusive, to_at exclusive: a run began then.
    """

    match: Filter = field(default_factory=Filter)
    text: str | None = None
    is_retired: bool | None = None
    is_agent_outdated: bool | None = None
    is_schedule_different: bool | None = None
    is_failing: bool | None = None
    shipped_version: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run of a host, with its labels and kernel; kernel: None if unknown."""

    id: int
    profile: str
    started_at: datetime
    error: int
    labels: Mapping[str, str]
    kernel: str | None


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host.

    last_seen_at: the server's clock; dropped_count, dropped_at: results that the full spool of its agent dropped, and
    when the last one by the host's clock; clock_offset_s: ahead if positive, None up to 90 s; run_count: all its runs;
    new_series_today: how many series its results added since midnight UTC, of HOST_NEW_SERIES_PER_DAY. schedule: None
    if not reported. failing: its profiles that give no valid values, for longest first. mark: the open regressions of
    its series, which are those of its pool if it has one.
    """

    id: int
    name: str
    pool: str
    created_at: datetime
    last_seen_at: datetime | None
    agent_version: str
    agent_installation: str
    dropped_count: int
    dropped_at: datetime | None
    clock_offset_s: int | None
    retired_at: datetime | None
    run_count: int
    new_series_today: int
    last_run: LastRun | None
    schedule: HostSchedule | None
    failing: tuple[FailedRuns, ...]
    mark: ScopeMark | None

    @property
    def scope(self) -> str:
        """Return the scope of its series: pool:NAME or host:NAME."""
        return _name_scope(self.name, self.pool)

    @property
    def is_sample(self) -> bool:
        """Return whether it is the host of the sample data, which counts of hosts leave out."""
        return self.name == SAMPLE_HOST

    @property
    def silent_since(self) -> datetime | None:
        """Return since when it is silent, None if it is not or has no schedule."""
        return self.schedule.silent_since if self.schedule else None

    @property
    def failing_since(self) -> datetime | None:
        """Return when the first result without a valid value came, None if no profile is failing."""
        return self.failing[0].since_at if self.failing else None

    @property
    def kernel(self) -> str | None:
        """Return the kernel of its newest run."""
        return self.last_run.kernel if self.last_run else None

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of its newest run."""
        return self.last_run.labels if self.last_run else {}


def list_hosts(filters: HostFilter, *, with_last_runs: bool = True) -> list[HostRow]:
    """Return all hosts of a filter by name; six queries, and one if its terms are not only names of hosts and pools.

    The cost depends on the number of hosts, not of runs. 500 hosts: about 25 ms. with_last_runs: half of the cost; for
    those of a page `add_last_runs` does it.
    """
    return _make_rows(list(filter_hosts(filters).values(*_READ)), with_last_runs=with_last_runs)


def add_last_runs(hosts: Sequence[HostRow]) -> list[HostRow]:
    """Return hosts that were read without their last runs, with them; one query."""
    last_runs = _read_last_runs([host.id for host in hosts])
    return [replace(host, last_run=last_runs.get(host.id)) for host in hosts]


def list_urgent_hosts(
    *, without: str, limit: int, ids: list[int] | None = None, failing: Sequence[int] = ()
) -> list[HostRow]:
    """Return at most `limit` active hosts by name, the most urgent ones; queries as for list_hosts.

    Urgent are hosts with an open regression, those of `failing`, then those seen least recently. without: the name of a
    host to leave out. ids: only these; None for all.
    """
    rows = fetch_rows(
        f"SELECT {', '.join(_READ)} FROM benchapp_host"  # noqa: S608
        " WHERE retired_at IS NULL AND name <> %s AND (%s::bigint[] IS NULL OR id = ANY(%s))"
        " ORDER BY (CASE pool WHEN '' THEN 'host:' || name ELSE 'pool:' || pool END"
        f" NOT IN ({REGRESSED_SCOPES}) AND id <> ALL(%s)), last_seen_at NULLS LAST LIMIT %s",
        [without, ids, ids, LIVE, list(failing), limit],
    )
    hosts = _make_rows([dict(zip(_READ, row, strict=True)) for row in rows])
    return sorted(hosts, key=lambda host: host.name)


def find_failing_hosts(*, now: datetime | None = None) -> list[int]:
    """Return the active hosts with a failing profile; two queries."""
    return [host_id for host_id, failed in read_all_failed(now=now).items() if list_failing(failed)]


def find_silent_hosts() -> list[int]:
    """Return the active hosts that missed a scheduled run; two queries."""
    hosts = Host.objects.active().filter(schedule__isnull=False)
    rows = hosts.values("id", "retired_at", "schedule", "schedule_since_at", "schedule_reported_by")
    schedules = read_schedules(list_known(list(rows)))
    return [host_id for host_id, schedule in schedules.items() if schedule.silent_since is not None]


def page_hosts(
    filters: HostFilter, *, after: str | None = None, limit: int = 100, is_descending: bool = False
) -> Page[HostRow]:
    """Return a page of the hosts of `list_hosts`, by name; the same queries. Raises BadCursor."""
    hosts = filter_hosts(filters).order_by("-name" if is_descending else "name")
    if after is not None:
        hosts = hosts.filter(**{"name__lt" if is_descending else "name__gt": _decode(after)})
    rows = _make_rows(list(hosts.values(*_READ)[: limit + 1]))
    has_more = len(rows) > limit
    return Page(tuple(rows[:limit]), _encode(rows[limit - 1].name) if has_more else None)


def read_host(name: str) -> HostRow | None:
    """Return one host or None; queries as for list_hosts."""
    return next(iter(_make_rows(list(Host.objects.filter(name=name).values(*_READ)))), None)


def read_host_histories(hosts: Iterable[HostRow]) -> dict[str, tuple[float | None, ...]]:
    """Return the history of each scope of these hosts, relative to its own levels 90 days ago.

    Of the series of a scope, at most 400: as of `read_relative_levels`, with its queries. Scopes without levels have no
    history.
    """
    scopes = sorted({host.scope for host in hosts})
    if not scopes:
        return {}
    histories = read_relative_levels(_NEWEST_SERIES, {"scopes": scopes, "most": HISTORY_SERIES_MAXIMUM})
    return {scopes[place]: history for place, history in histories.items()}


# From the index series_by_scope.
_NEWEST_SERIES: Final = sql.SQL(
    "SELECT newest.id, (wanted.number - 1)::integer, newest.last_at FROM unnest(%(scopes)s::text[])"
    " WITH ORDINALITY AS wanted(scope, number) CROSS JOIN LATERAL (SELECT id, last_at FROM benchapp_series"
    "  WHERE scope = wanted.scope AND last_at IS NOT NULL ORDER BY last_at DESC, id DESC LIMIT %(most)s) AS newest"
)
_COLUMNS: Final = (
    *(
        "id",
        "name",
        "pool",
        "created_at",
        "last_seen_at",
        "agent_version",
        "agent_installation",
        "retired_at",
    ),
    *("dropped_count", "dropped_at", "clock_offset_s", "run_count"),
)
_READ: Final = (
    *_COLUMNS,
    "new_series_on",
    "new_series_count",
    "schedule",
    "schedule_since_at",
    "schedule_reported_by",
)


def _name_scope(name: str, pool: str) -> str:
    return f"pool:{pool}" if pool else f"host:{name}"


def filter_hosts(filters: HostFilter) -> QuerySet[Host]:
    """Return the hosts of a filter, by name; two queries with terms or words, one with is_agent_outdated, two with
    is_schedule_different, three with is_failing.
    """
    hosts = Host.objects.order_by("name")
    if filters.is_retired is not None:
        hosts = hosts.filter(retired_at__isnull=not filters.is_retired)
    if filters.is_agent_outdated is not None:
        versions = Host.objects.order_by().values_list("agent_version", flat=True).distinct()
        older = [version for version in versions if is_outdated(version, filters.shipped_version)]
        hosts = (hosts.filter if filters.is_agent_outdated else hosts.exclude)(agent_version__in=older)
    if filters.is_schedule_different is not None:
        different = find_different_hosts()
        hosts = (hosts.filter if filters.is_schedule_different else hosts.exclude)(pk__in=different)
    if filters.is_failing is not None:
        hosts = (hosts.filter if filters.is_failing else hosts.exclude)(pk__in=find_failing_hosts())
    if in_range := match_times("started_at", filters.from_at, filters.to_at):
        hosts = hosts.filter(Exists(Run.objects.filter(in_range, host=OuterRef("pk"))))
    if filters.text:
        text = filters.text.replace("\x00", "").strip()
        hosts = hosts.filter(Q(name__icontains=text) | Q(pool__icontains=text))
    if filters.match.terms or filters.match.words:
        hosts = hosts.filter(pk__in=_match_words(filters.match, list(hosts.only("name", "pool"))))
    return hosts


def _match_words(match: Filter, hosts: Sequence[Host]) -> set[int]:
    """Return the hosts that match; words also match the name and the pool of a host without series."""
    found = match_hosts(match, hosts)
    words = [word.casefold() for word in match.words]
    if words:
        named = [
            host for host in hosts if all(word in f"{host.name} {host.pool}".casefold() for word in words)
        ]
        found |= match_hosts(Filter(match.terms), named)
    return found


def _make_rows(found: Sequence[dict[str, Any]], *, with_last_runs: bool = True) -> list[HostRow]:
    today = datetime.now(UTC).date()
    schedules = read_schedules(list_known(found))
    failed = read_failed(found)
    last_runs = _read_last_runs([row["id"] for row in found]) if with_last_runs else {}
    marks = read_scope_marks(sorted({_name_scope(row["name"], row["pool"]) for row in found}))
    return [
        HostRow(
            **{column: row[column] for column in _COLUMNS},
            new_series_today=row["new_series_count"] if row["new_series_on"] == today else 0,
            last_run=last_runs.get(row["id"]),
            schedule=schedules.get(row["id"]),
            failing=list_failing(failed.get(row["id"], ())),
            mark=marks.get(_name_scope(row["name"], row["pool"])),
        )
        for row in found
    ]


def _read_last_runs(ids: Sequence[int]) -> dict[int, LastRun]:
    """Return the newest run of each host that has one: one entry of the index run_by_host each."""
    rows = fetch_rows(
        "SELECT wanted.id, last.id, last.profile, last.started_at, last.error, last.labels,"
        " environment.kernel FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
        " SELECT id, profile, started_at, error, labels, environment_id FROM benchapp_run"
        " WHERE host_id = wanted.id ORDER BY started_at DESC, id DESC LIMIT 1) AS last"
        " JOIN benchapp_environment environment ON environment.id = last.environment_id",
        [list(ids)],
    )
    return {
        host_id: LastRun(run_id, profile, started_at, error, labels, kernel or None)
        for host_id, run_id, profile, started_at, error, labels, kernel in rows
    }


def _encode(name: str) -> str:
    # Names are unique and safe in a URL (ensured by enrollment), so that the last one is the cursor.
    return _CURSOR_MARK + name


def _decode(cursor: str) -> str:
    if not cursor.startswith(_CURSOR_MARK) or "\x00" in cursor:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list: take `next` from its answer")
    return cursor.removeprefix(_CURSOR_MARK)


# Newest runs that are searched: ten weeks of a sweep of 17 layouts, four times a day.
RUNS_MAXIMUM: Final = 5000
# Runs in another environment than the run before on the same target: a device is a fact of the target.
_CHANGED: Final = (
    "SELECT id, started_at, environment_id, before FROM (SELECT id, started_at, environment_id,"
    " lag(environment_id) OVER (PARTITION BY target_id ORDER BY started_at, id) AS before FROM ("
    "  SELECT id, started_at, target_id, environment_id FROM benchapp_run WHERE host_id = %s"
    "  AND (%s::timestamptz IS NULL OR started_at < %s)"
    "  ORDER BY started_at DESC, id DESC LIMIT %s) AS newest) AS runs"
    " WHERE before <> environment_id ORDER BY started_at, id"
)
_Found = tuple[int, datetime, int, int]


def list_host_environment_changes(host: HostRow, *, span: LevelRange = NOW) -> list[EnvironmentChange]:
    """Return the 8 newest environment changes in a time range, newest first; two queries.

    Among the newest 5 000 runs of the host until the end of the range. A change is listed once, with the first run on
    any target that has it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED, [host.id, span.to_at, span.to_at, RUNS_MAXIMUM])
        found: list[_Found] = cursor.fetchall()
    if not found:
        return []
    environments = read_environments(each for row in found for each in row[2:])
    changes = list(_merge_changes(host.name, found, environments))[::-1]
    return [change for change in changes if span.from_at is None or change.at >= span.from_at][:8]


def _merge_changes(
    host_name: str, found: Sequence[_Found], environments: Mapping[int, Mapping[str, Any]]
) -> Iterator[EnvironmentChange]:
    """Yield the changes without fields that another target has reported since they changed last."""
    latest: dict[str, FieldChange] = {}
    for run_id, at, after, before in found:
        changed = compare_environments(environments[before], environments[after])
        fields = tuple(field for field in changed if latest.get(field.name) != field)
        latest |= {field.name: field for field in fields}
        if fields:
            yield EnvironmentChange(at, run_id, host_name, fields)


@dataclass(frozen=True, slots=True)
class SeriesJoin:
    """A series and the one that it joins, with the medians of their current levels in the base unit of the metric.

    is_apart: one series of both would have a change at each switch between the hosts.
    """

    series: int
    other_series: Annotated[int, Meta(description="of the new scope, which it joins")]
    title: str
    metric: Annotated[str, Meta(description="empty: no level of the same metric")]
    median: Annotated[float | None, Meta(description="of the current level, in the base unit")]
    other_median: float | None
    relative: Annotated[float | None, Meta(description="median / other_median − 1")]
    is_apart: Annotated[bool, Meta(description="by the smallest change of the metric or more")]
    incidents: Annotated[tuple[int, ...], Meta(description="open ones of the series, newest first")]
    other_incidents: tuple[int, ...]


def list_joins(pairs: Sequence[tuple[int, int]]) -> tuple[SeriesJoin, ...]:
    """Return what joins, the largest difference first; a few queries.

    pairs: ids of a series, and of the one that it joins.
    """
    if not pairs:
        return ()
    ids = sorted({each for pair in pairs for each in pair})
    levels, marks = read_main_levels(ids), read_series_marks(ids, metric="iops")
    series = Series.objects.in_bulk([own for own, _ in pairs])

    def make(own: int, other: int) -> SeriesJoin:
        mine, theirs = levels.get(own), levels.get(other)
        row, is_same = series[own], mine is not None and theirs is not None and mine.metric == theirs.metric
        median = mine.level.median if mine is not None and is_same else None
        other_median = theirs.level.median if theirs is not None and is_same else None
        metric = mine.metric.name if mine is not None and is_same else ""
        relative = median / other_median - 1 if median is not None and other_median else None
        return SeriesJoin(
            own,
            other,
            join_titles(describe_workload(row, direction=row.direction), describe_target(row)),
            metric,
            median,
            other_median,
            relative,
            relative is not None and abs(relative) >= SMALLEST_CHANGES.get(metric, 0.0),
            list_open_incidents([own], marks),
            list_open_incidents([other], marks),
        )

    return tuple(
        sorted(
            (make(own, other) for own, other in pairs),
            key=lambda each: (-abs(each.relative or 0.0), each.series),
        )
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts. submissions, notices: by state, with all states; open_incidents: of regressions, by severity, with all.

    to_evaluate: series with measurements since their last evaluation. hosts: not retired, without that of the sample
    data; silent_hosts, failing_hosts: of them.
    """

    submissions: Mapping[str, int]
    oldest_received_age_s: float
    runs: int
    series: int
    hosts: int
    silent_hosts: int
    failing_hosts: int
    to_evaluate: int
    notices: Mapping[str, int]
    oldest_notice_age_s: float
    open_incidents: Mapping[str, int]


def count_totals(*, now: datetime | None = None) -> Totals:
    """Return the totals; thirteen queries at most."""
    moment = now or timezone.now()
    due = Notice.objects.filter(state=NoticeState.WAITING, not_before_at__lte=moment)
    regressions = Incident.objects.filter(is_regression=True, is_open=True)
    return Totals(
        submissions=_count(Submission.objects.all(), "state", State.values),
        oldest_received_age_s=_measure_age(
            Submission.objects.waiting().aggregate(oldest=Min("received_at"))["oldest"], moment
        ),
        # Counted with each run: to count rows takes longer with each run.
        runs=Host.objects.aggregate(runs=Sum("run_count"))["runs"] or 0,
        series=Series.objects.filter(last_at__isnull=False).count(),
        hosts=Host.objects.active().exclude(name=SAMPLE_HOST).count(),
        silent_hosts=len(find_silent_hosts()),
        failing_hosts=len(find_failing_hosts(now=moment)),
        to_evaluate=Series.objects.filter(judging_is_due=True).count(),
        notices=_count(Notice.objects.all(), "state", NoticeState.values),
        oldest_notice_age_s=_measure_age(due.aggregate(oldest=Min("not_before_at"))["oldest"], moment),
        open_incidents=_count(regressions, "severity", Severity.values),
    )


def _count(rows: Any, column: str, values: Sequence[str]) -> dict[str, int]:
    counted = rows.order_by().values(column).annotate(count=Count("id")).values_list(column, "count")
    return dict.fromkeys(values, 0) | dict(counted)


def _measure_age(oldest: datetime | None, now: datetime) -> float:
    return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0


def list_host_scopes(name: str, pool: str) -> list[str]:
    """Return the scopes whose mappings apply to a host: its own, then its pool."""
    return list(dict.fromkeys((Host(name=name).scope, Host(name=name, pool=pool).scope)))


def list_mappings(scopes: Collection[str] | None = None) -> list[TargetMapping]:
    """Return the mappings of these hosts and pools, None: of all; by scope and pattern; one query."""
    rows = TargetMapping.objects.filter(removed_at__isnull=True).select_related("created_by")
    if scopes is not None:
        rows = rows.filter(scope__in=scopes)
    return list(rows.order_by("scope", "pattern"))


def read_name_mappings(hosts: Iterable[Host]) -> dict[int, Sequence[NameMapping]]:
    """Return what names the targets of each host, by id: its own mappings, then those of its pool; one query."""
    scopes = {host.pk: list_host_scopes(host.name, host.pool) for host in hosts}
    found: dict[str, list[NameMapping]] = {}
    rows = TargetMapping.objects.filter(scope__in={each for own in scopes.values() for each in own})
    columns = ("scope", "pattern", "target_name", "removed_at")
    for scope, pattern, target_name, removed_at in rows.order_by("-pk").values_list(*columns):
        mapping = NameMapping(pattern, target_name, is_removed=removed_at is not None)
        found.setdefault(scope, []).append(mapping)
    return {pk: [each for scope in own for each in found.get(scope, ())] for pk, own in scopes.items()}
