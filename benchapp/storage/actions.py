"""Move results between series: all of a host belong to the series of its pool, or of the host itself without one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, models, transaction
from django.utils import timezone

from benchapp.framework.write.conflicts import lock_incidents, retry_conflicts
from benchapp.incidents.write.incidents import Events, refresh_incidents
from benchapp.intake.normalize.batch import IMPORT_LOCK
from benchapp.intake.normalize.store import recalculate_series
from benchapp.models import (
    TARGET_FIELDS,
    UNRESOLVED,
    WORKLOAD_FIELDS,
    Change,
    ChangeState,
    DetectionResult,
    Host,
    Incident,
    Level,
    NewestValues,
    Series,
    ThresholdViolation,
    User,
    follow_name,
)
from benchapp.series.write import continue_series
from benchapp.storage.read.hosts import list_mappings
from benchapp.storage.target_mappings import request_reread
from benchapp.storage.write.hosts import SERIES_KEY_VERSION, note_change, series_key

_COUNT_OWN: Final = (
    "SELECT measurement.series_id, count(*) FROM benchapp_run run"
    " JOIN benchapp_measurement measurement ON measurement.run_id = run.id"
    " WHERE run.host_id = %(host)s AND (%(runs)s::bigint[] IS NULL OR run.id = ANY(%(runs)s))"
    " GROUP BY measurement.series_id"
)
_MOVE_MEASUREMENTS: Final = (
    "UPDATE benchapp_measurement AS measurement SET series_id = moved.to_id"
    " FROM unnest(%(from)s::bigint[], %(to)s::bigint[]) AS moved(from_id, to_id), benchapp_run run"
    " WHERE measurement.series_id = moved.from_id AND run.id = measurement.run_id AND run.host_id = %(host)s"
    " AND (%(runs)s::bigint[] IS NULL OR run.id = ANY(%(runs)s))"
)
# Of a series that other hosts share, the changes that began with a run of the host. A change that is found in both
# series stays behind.
_MOVE_CHANGES: Final = (
    "UPDATE benchapp_change AS change SET series_id = moved.to_id"
    " FROM unnest(%(from)s::bigint[], %(to)s::bigint[], %(whole)s::bool[]) AS moved(from_id, to_id, is_whole)"
    " WHERE change.series_id = moved.from_id AND (moved.is_whole OR EXISTS ("
    "  SELECT FROM benchapp_run run WHERE run.id = change.run_id AND run.host_id = %(host)s"
    "  AND (%(runs)s::bigint[] IS NULL OR run.id = ANY(%(runs)s))))"
    " AND NOT EXISTS (SELECT FROM benchapp_change twin WHERE twin.series_id = moved.to_id"
    "  AND twin.metric = change.metric AND twin.started_at = change.started_at)"
)
# The other change takes the incident if it has none; else the two incidents are merged.
_JOIN_INCIDENTS: Final = (
    "WITH pairs AS MATERIALIZED (SELECT DISTINCT ON (twin.id) change.incident_id AS from_id, twin.id AS twin_id,"
    "  twin.incident_id AS to_id"
    "  FROM unnest(%(from)s::bigint[], %(to)s::bigint[], %(whole)s::bool[]) AS moved(from_id, to_id, is_whole)"
    "  JOIN benchapp_change change ON change.series_id = moved.from_id AND change.incident_id IS NOT NULL"
    "  JOIN benchapp_change twin ON twin.series_id = moved.to_id AND twin.metric = change.metric"
    "   AND twin.started_at = change.started_at WHERE moved.is_whole ORDER BY twin.id, change.id),"
    " taken AS (UPDATE benchapp_change twin SET incident_id = pairs.from_id FROM pairs"
    "  WHERE twin.id = pairs.twin_id AND pairs.to_id IS NULL)"
    " UPDATE benchapp_incident incident SET merged_into_id = pairs.to_id FROM pairs WHERE incident.id = pairs.from_id"
    " AND pairs.to_id <> pairs.from_id AND incident.merged_into_id IS NULL"
    " AND NOT EXISTS (SELECT FROM benchapp_change own WHERE own.incident_id = incident.id"
    "  AND own.series_id <> ALL(%(from)s::bigint[]))"
)


@dataclass(frozen=True, slots=True)
class PoolMove:
    """What moves with results of a host to another scope. from_scope, to_scope: pool:NAME or host:NAME.

    series: those with the results. joined_pairs: each series that joins one of the new scope, with that series.
    shared: series that also keep other results.
    incidents: (id, title) of unresolved ones, newest first. more: series than before, negative for fewer.
    """

    from_scope: str
    to_scope: str
    series: int
    joined_pairs: tuple[tuple[int, int], ...]
    shared: int
    measurements: int
    incidents: tuple[tuple[int, str], ...]
    more: int = 0

    @property
    def joined(self) -> int:
        """Return how many series join results of other hosts."""
        return len(self.joined_pairs)


@dataclass(frozen=True, slots=True)
class _MovingSeries:
    """A series with results of the host. goal: the series of the new scope that it joins; None if there is none yet."""

    series: Series
    own_count: int
    goal: Series | None

    @property
    def is_shared(self) -> bool:
        return self.series.measurement_count > self.own_count


def preview_pool(host: Host, pool: str) -> PoolMove:
    """Return what `set_pool` would move; changes nothing, five queries."""
    return preview_move(host, Host(name=host.name, pool=follow_name("pool", pool)))


def preview_move(host: Host, goal: Host, runs: Sequence[int] | None = None) -> PoolMove:
    """Return what `move_results` would move; changes nothing, four queries."""
    return _describe(host, goal, _list_sources(host, goal, runs))


@retry_conflicts
@transaction.atomic
def set_pool(name: str, pool: str, *, by: User | None = None, via: str = "") -> PoolMove | None:
    """Set the pool of a host ("" for none), and move its results to the series of the pool; None if it is unknown.

    A series that only this host measures keeps its id, if the pool has none like it. Incidents follow their changes.
    Setting the former pool undoes it. A former name of a pool is that pool.
    """
    wait_for_results()
    host, pool = Host.objects.filter(name=name).first(), follow_name("pool", pool)
    if host is None:
        return None
    text = f"with {host.name} from {_name_pool(host.pool)} to {_name_pool(pool)}"
    move = move_results(host, Host(name=host.name, pool=pool, pk=host.pk), text=text)
    Host.objects.filter(pk=host.pk).update(pool=pool)
    note_change("pool_set", name, {"pool": host.pool}, {"pool": pool}, by=by, via=via)
    return move


def wait_for_results() -> None:
    """Wait for results that are being stored; those that come later are stored after this transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [IMPORT_LOCK])


def move_results(host: Host, goal: Host, *, text: str, runs: Sequence[int] | None = None) -> PoolMove:
    """Move results of a host, of these runs or of all, to the series of another scope; call inside a transaction.

    text: of the event of incidents that follow. Names of targets are read again where they may differ.
    """
    sources = _list_sources(host, goal, runs)
    move = _describe(host, goal, sources)
    if sources:
        _move_all(host, goal, sources, text=text, runs=runs)
    # In a pool a raw device has another name: the next result would continue one series under it, not join several.
    names = {source.series.target_name or "/" for source in sources}
    is_renamed = bool(goal.pool and not host.pool) and not all("/" in name for name in names)
    if is_renamed or list_mappings([host.scope, move.to_scope]):
        request_reread(Host.objects.filter(pk=host.pk))
    return move


def _name_pool(pool: str) -> str:
    return f"pool {pool}" if pool else "no pool"


def _list_sources(host: Host, goal: Host, runs: Sequence[int] | None) -> list[_MovingSeries]:
    scope = goal.scope
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_OWN, {"host": host.pk, "runs": None if runs is None else list(runs)})
        counts = dict(cursor.fetchall())
    rows = Series.objects.filter(pk__in=counts).exclude(scope=scope).select_related("target", "workload")
    found = list(rows.order_by("pk"))
    alike = Series.objects.filter(scope=scope, target__in={series.target_id for series in found})
    goals = {_identify(series): series for series in alike}
    return [_MovingSeries(series, counts[series.pk], goals.get(_identify(series))) for series in found]


def _identify(series: Series) -> tuple[int, int, str]:
    """Return what identifies a series within its scope."""
    return series.target_id, series.workload_id, series.direction


def _describe(host: Host, goal: Host, sources: Sequence[_MovingSeries]) -> PoolMove:
    incidents = Incident.objects.filter(
        pk__in=_list_changes([source.series.pk for source in sources]).values("incident"),
        state__in=UNRESOLVED,
    )
    return PoolMove(
        from_scope=host.scope,
        to_scope=goal.scope,
        series=len(sources),
        joined_pairs=tuple(
            (source.series.pk, source.goal.pk)
            for source in sources
            if source.goal and source.goal.measurement_count
        ),
        shared=sum(source.is_shared for source in sources),
        more=sum(
            source.is_shared - bool(source.goal and source.goal.measurement_count) for source in sources
        ),
        measurements=sum(source.own_count for source in sources),
        incidents=tuple(incidents.order_by("-started_at", "-id").values_list("id", "title")),
    )


def _list_changes(series_ids: Collection[int]) -> models.QuerySet[Change]:
    return Change.objects.exclude(state=ChangeState.WITHDRAWN).filter(series__in=series_ids)


def _move_all(
    host: Host, to: Host, sources: Sequence[_MovingSeries], *, text: str, runs: Sequence[int] | None
) -> None:
    known = {source.series.pk for source in sources} | {source.goal.pk for source in sources if source.goal}
    # Locked in the order of ids, as by detection.
    list(Series.objects.select_for_update().filter(pk__in=known).order_by("pk").values_list("pk"))
    goals: dict[tuple[int, int, str], Series] = {}
    moved: list[tuple[_MovingSeries, int]] = []
    for source in sources:
        goal = source.goal or goals.get(_identify(source.series))
        if goal is None:
            goal = _make_goal(source.series, to, is_new=source.is_shared)
            goals[_identify(source.series)] = goal
        if goal.pk != source.series.pk:
            moved.append((source, goal.pk))
    known |= {goal.pk for goal in goals.values()}
    if moved:
        _move_rows(host, moved, runs)
    recalculate_series(sorted(known))
    continue_series({source.series.pk: goal_id for source, goal_id in moved if not source.is_shared})
    emptied = [source.series.pk for source, _ in moved if not source.is_shared]
    for model in (Level, NewestValues, DetectionResult, ThresholdViolation):
        model._default_manager.filter(series__in=emptied).delete()
    _follow(known, text=text)


def _make_goal(series: Series, to: Host, *, is_new: bool) -> Series:
    """Return the series of the scope of a host: this one with another identity, or a new one like it."""
    scope = to.scope
    key = series_key(
        scope=scope,
        target_key=bytes(series.target.key),
        workload_key=bytes(series.workload.key),
        direction=series.direction,
    )
    owner = to if scope.startswith("host:") else None
    if not is_new:
        Series.objects.filter(pk=series.pk).update(
            key=key, key_version=SERIES_KEY_VERSION, scope=scope, host=owner
        )
        return series
    return Series.objects.create(
        key=key,
        key_version=SERIES_KEY_VERSION,
        scope=scope,
        host=owner,
        target=series.target,
        workload=series.workload,
        direction=series.direction,
        former_targets=series.former_targets,
        **{name: getattr(series, name) for name in (*TARGET_FIELDS, *WORKLOAD_FIELDS)},
    )


def _move_rows(host: Host, moved: Sequence[tuple[_MovingSeries, int]], runs: Sequence[int] | None) -> None:
    """Move the measurements of the host, and the changes that they began, to other series."""
    values: dict[str, Any] = {
        "host": host.pk,
        "runs": runs,
        "from": [source.series.pk for source, _ in moved],
        "to": [goal_id for _, goal_id in moved],
        "whole": [not source.is_shared for source, _ in moved],
    }
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_MEASUREMENTS, values)
        lock_incidents()
        cursor.execute(_MOVE_CHANGES, values)
        cursor.execute(_JOIN_INCIDENTS, values)


def _follow(series_ids: Collection[int], *, text: str) -> None:
    """Set the scope of the incidents with changes in these series, with an event where it differs."""
    lock_incidents()
    events, changed = Events(timezone.now()), []
    ids = set(_list_changes(series_ids).exclude(incident=None).values_list("incident_id", flat=True))
    for incident in Incident.objects.select_for_update().filter(pk__in=ids).order_by("pk"):
        scopes = set(
            Change.objects.exclude(state=ChangeState.WITHDRAWN)
            .filter(incident=incident)
            .values_list("series__scope", flat=True)
        )
        scope = scopes.pop() if len(scopes) == 1 else ""
        if scope != incident.scope:
            incident.scope = scope
            incident.save(update_fields=["scope"])
            events.add(incident, "moved", text=text)
            changed.append(incident.pk)
    refresh_incidents(changed, events)
