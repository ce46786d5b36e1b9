"""Rename hosts and pools, with all that names them; the former name stays as an alias."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.db import connection, models, transaction
from django.db.models import Q, Sum, Value
from django.db.models.functions import Concat, Substr
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter, write_filter
from benchapp.framework.write.audit import record_write
from benchapp.framework.write.conflicts import BadValue, lock_incidents, retry_conflicts
from benchapp.incidents.write.incidents import Events, refresh_incidents
from benchapp.intake.normalize.batch import IMPORT_LOCK
from benchapp.models import (
    SAMPLE_HOST,
    UNRESOLVED,
    ApiToken,
    AuditKind,
    Change,
    ConfirmationPolicy,
    Correction,
    DetectionDryRun,
    DetectionPolicy,
    FormerName,
    Host,
    Incident,
    Invitation,
    PinnedChart,
    PlannedEvent,
    PooledEvaluation,
    SavedView,
    Series,
    Study,
    StudySnapshot,
    Subscription,
    TargetMapping,
    User,
    WantedSchedule,
    read_present_scopes,
)
from benchapp.models.filtering import replace_in_query, replace_scopes
from benchapp.storage.write.hosts import EnrollmentRefused, read_host_name, series_key

log = structlog.get_logger(__name__)

POOL_MAXIMUM: Final = 100
_SERIES_AT_ONCE: Final = 5000


@dataclass(frozen=True, slots=True)
class RenameEffect:
    """What a new name changes. from_scope, to_scope: host:NAME or pool:NAME.

    hosts: one, or those of the pool. series: with this scope; of a host in a pool none. incidents: (id, title) of
    unresolved ones with changes in them, newest first. saved: what is stored and names it, (noun, number).
    """

    from_scope: str
    to_scope: str
    hosts: int
    runs: int
    series: int
    incidents: tuple[tuple[int, str], ...]
    saved: tuple[tuple[str, int], ...]


def preview_rename(scope: str, name: str) -> RenameEffect:
    """Return what `rename` would change; changes nothing. Raises BadValue."""
    scope, goal = _check(scope, name)
    return _describe(scope, goal)


@retry_conflicts
@transaction.atomic
def rename(scope: str, name: str, *, by: User | None = None, via: str = "") -> RenameEffect:
    """Give a host or pool (host:NAME, pool:NAME) another name. Raises BadValue.

    Series keep their ids, changes and incidents. Renaming it back undoes it.
    """
    # Waits for results that are being stored; those that come later have the new name.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [IMPORT_LOCK])
    scope, goal = _check(scope, name)
    effect = _describe(scope, goal)
    kind, old = scope.split(":", 1)
    new = goal.partition(":")[2]
    Host.objects.filter(**{_COLUMN[kind]: old}).update(**{_COLUMN[kind]: new})
    add_former_name(scope, goal)
    _rekey_series(scope, goal)
    PooledEvaluation.objects.filter(scope=goal).delete()
    PooledEvaluation.objects.filter(scope=scope).update(scope=goal)
    TargetMapping.objects.filter(scope=scope).update(scope=goal)
    if kind == "pool":
        WantedSchedule.objects.filter(pool=old).update(pool=new)
        ConfirmationPolicy.objects.filter(pool=old).update(pool=new)
    replace_stored(scope, goal)
    _rename_incidents(scope, goal)
    audit_kind = AuditKind.HOST if kind == "host" else AuditKind.POOL
    record_write(
        audit_kind, "renamed", object_id=new, name=new, before={"name": old}, after={"name": new}, by=by
    )
    log.info(f"{kind}.renamed", before=old, after=new, by=by.username if by else "", via=via)
    return effect


def add_former_name(scope: str, goal: str, *, undo: dict[str, Any] | None = None) -> None:
    """Make a scope an alias of another one, and so its own aliases. undo: as in FormerName."""
    FormerName.objects.filter(scope=goal).delete()
    FormerName.objects.filter(present=scope).update(present=goal)
    FormerName.objects.create(scope=scope, present=goal, renamed_at=timezone.now(), undo=undo)


def replace_stored(scope: str, goal: str, *, is_merge: bool = False) -> None:
    """Write another name into all that is stored and names a host or pool. Raises BadValue.

    is_merge: corrections keep the name, as they would match the runs of the other host when they are repeated.
    """
    for noun, row, column, value in _list_stored(scope, goal):
        if is_merge and isinstance(row, Correction):
            continue
        unchanged = type(row)._default_manager.filter(pk=row.pk, **{column: getattr(row, column)})
        if not unchanged.update(**{column: value}):
            raise BadValue("", f"{noun} {row.pk} was changed at the same time: try again")


_COLUMN: Final = {"host": "name", "pool": "pool"}


def _check(scope: str, name: str) -> tuple[str, str]:
    """Return both scopes, in their canonical form."""
    kind, _, old = scope.partition(":")
    if kind not in _COLUMN or not old:
        raise BadValue("scope", f"{scope[:80]!r} is not host:NAME or pool:NAME")
    scope = f"{kind}:{old.lower() if kind == 'host' else old}"
    scope = read_present_scopes([scope]).get(scope.lower(), scope)
    old = scope.partition(":")[2]
    refuse_sample(scope)
    if not Host.objects.filter(**{_COLUMN[kind]: old}).exists():
        more = "" if kind == "host" else ", or has no hosts"
        raise BadValue("scope", f"{kind} {old[:100]} does not exist{more}")
    goal = f"{kind}:{read_new_name(kind, scope, name)}"
    return scope, goal


def refuse_sample(scope: str) -> None:
    """Raise BadValue for the host of the sample data, which counts leave out by its name."""
    if scope == f"host:{SAMPLE_HOST}":
        raise BadValue("scope", f"{SAMPLE_HOST} is the host of the sample data, and keeps its name")


def read_new_name(kind: str, scope: str, name: str) -> str:
    """Return a new name of a host or pool, or of a host that is split off it, in canonical form. Raises BadValue."""
    goal = f"{kind}:{_read_name(kind, name)}"
    if goal == scope:
        raise BadValue("name", "it has this name")
    _refuse_taken(kind, scope, goal)
    return goal.partition(":")[2]


def _read_name(kind: str, name: str) -> str:
    if kind == "host":
        try:
            return read_host_name(name.strip())
        except EnrollmentRefused as error:
            raise BadValue("name", str(error)) from error
    pool = name.strip()
    if not pool or len(pool) > POOL_MAXIMUM or not pool.isprintable():
        raise BadValue("name", f"use 1 to {POOL_MAXIMUM} printable characters")
    return pool


def _refuse_taken(kind: str, scope: str, goal: str) -> None:
    new = goal.partition(":")[2]
    owner = read_present_scopes([goal]).get(goal.lower(), scope)
    if owner != scope:
        raise BadValue("name", f"{new} is a former name of {owner.replace(':', ' ', 1)}")
    if FormerName.objects.filter(scope=goal, undo__isnull=False).exists():
        raise BadValue("name", f"{new} was merged into this host: split it off first, without a filter")
    if Host.objects.filter(**{_COLUMN[kind]: new}).exists():
        more = "" if kind == "host" else ": move its hosts there instead"
        raise BadValue("name", f"there is a {kind} {new} already{more}")
    stored = [Series.objects.filter(scope=goal), TargetMapping.objects.filter(scope=goal)]
    if kind == "pool":
        stored += [model._default_manager.filter(pool=new) for model in (WantedSchedule, ConfirmationPolicy)]
    for rows in stored:
        if rows.exists():
            raise BadValue(
                "name", f"{goal.replace(':', ' ', 1)} still has {rows.model._meta.verbose_name_plural}"
            )


def _describe(scope: str, goal: str) -> RenameEffect:
    kind, old = scope.split(":", 1)
    hosts = Host.objects.filter(**{_COLUMN[kind]: old})
    incidents = Incident.objects.filter(pk__in=_list_incident_ids(scope), state__in=UNRESOLVED)
    saved = Counter(noun for noun, *_ in _list_stored(scope, goal))
    saved["target name"] += TargetMapping.objects.filter(scope=scope, removed_at=None).count()
    if kind == "pool":
        saved["wanted schedule"] += WantedSchedule.objects.filter(pool=old).count()
        saved["confirmation policy"] += ConfirmationPolicy.objects.filter(pool=old).count()
    return RenameEffect(
        from_scope=scope,
        to_scope=goal,
        hosts=hosts.count(),
        runs=hosts.aggregate(runs=Sum("run_count"))["runs"] or 0,
        series=Series.objects.filter(scope=scope, measurement_count__gt=0).count(),
        incidents=tuple(incidents.order_by("-started_at", "-id").values_list("id", "title")),
        saved=tuple(sorted((+saved).items())),
    )


def _rekey_series(scope: str, goal: str) -> None:
    rows = Series.objects.filter(scope=scope).order_by("pk")
    columns = rows.select_for_update(of=("self",)).values_list(
        "pk", "target__key", "workload__key", "direction"
    )
    keys = [
        (
            pk,
            series_key(
                scope=goal, target_key=bytes(target), workload_key=bytes(workload), direction=direction
            ),
        )
        for pk, target, workload, direction in columns.iterator(chunk_size=_SERIES_AT_ONCE)
    ]
    with connection.cursor() as cursor:
        for start in range(0, len(keys), _SERIES_AT_ONCE):
            ids, fresh = zip(*keys[start : start + _SERIES_AT_ONCE], strict=True)
            cursor.execute(
                "UPDATE benchapp_series AS series SET scope = %s, key = fresh.key"
                " FROM unnest(%s::bigint[], %s::bytea[]) AS fresh(id, key) WHERE series.id = fresh.id",
                [goal, list(ids), list(fresh)],
            )


def _replace_in_filter(text: str, present: Mapping[str, str]) -> str:
    with suppress(BadFilter):
        filter = parse_filter(text)
        if (replaced := replace_scopes(filter, present)) != filter:
            return write_filter(replaced)
    return text


def _replace_in_panels(panels: list[dict[str, Any]], present: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{**panel, "query": replace_in_query(panel["query"], present)} for panel in panels]


def _replace_in_pools(pools: list[str], names: Mapping[str, str]) -> list[str]:
    return [names.get(f"pool:{pool}".lower(), f"pool:{pool}").partition(":")[2] for pool in pools]


# Noun, column and how names in it are replaced.
_Stored = tuple[str, type[models.Model], str, Callable[[Any, Mapping[str, str]], Any]]
_STORED: Final[tuple[_Stored, ...]] = (
    ("detection policy", DetectionPolicy, "filter", _replace_in_filter),
    ("dry run", DetectionDryRun, "filter", _replace_in_filter),
    ("planned event", PlannedEvent, "filter", _replace_in_filter),
    ("subscription", Subscription, "filter", _replace_in_filter),
    ("layout question", Subscription, "layout_question", replace_in_query),
    ("correction", Correction, "filter", _replace_in_filter),
    ("default filter", User, "default_filter", _replace_in_filter),
    *(("limit", model, "pools", _replace_in_pools) for model in (User, ApiToken, Invitation)),
    ("saved view", SavedView, "query", replace_in_query),
    ("pinned chart", PinnedChart, "query", replace_in_query),
    ("report", Study, "panels", _replace_in_panels),
    ("snapshot", StudySnapshot, "panels", _replace_in_panels),
)


def _list_stored(scope: str, goal: str) -> Iterator[tuple[str, models.Model, str, Any]]:
    """Yield noun, row, column and new value of what is stored and names a host or pool. Raises BadValue."""
    for noun, model, column, replace_names in _STORED:
        maximum = model._meta.get_field(column).max_length  # type: ignore[union-attr]
        for row in model._default_manager.only("pk", column).order_by("pk").iterator():
            before = getattr(row, column)
            after = replace_names(before, {scope.lower(): goal})
            if after == before:
                continue
            if maximum and len(after) > maximum:
                raise BadValue(
                    "name",
                    f"{noun} {row.pk} would have more than {maximum} characters: shorten its filter first",
                )
            yield noun, row, column, after


def _list_incident_ids(scope: str) -> models.QuerySet[Change, Any]:
    return (
        Change.objects.filter(series__scope=scope)
        .exclude(incident=None)
        .order_by()
        .values("incident")
        .distinct()
    )


# pooled_levels names scopes, and so does what undo restores.
_RENAME_LEVELS: Final = (
    "UPDATE benchapp_incident SET pooled_levels = (SELECT jsonb_agg(CASE WHEN one->>'scope' = %(scope)s"
    "  THEN one || jsonb_build_object('scope', %(goal)s::text) ELSE one END ORDER BY place)"
    "  FROM jsonb_array_elements(pooled_levels) WITH ORDINALITY AS listed(one, place))"
    " WHERE pooled_levels @> jsonb_build_array(jsonb_build_object('scope', %(scope)s::text))"
)
_RENAME_EVENTS: Final = (
    "UPDATE benchapp_incidentevent SET before = before || jsonb_build_object('scope', %(goal)s::text)"
    " WHERE before->>'scope' = %(scope)s"
)


def _rename_incidents(scope: str, goal: str) -> None:
    """Give incidents the new scope and title; those of several scopes, and unresolved ones, are described again."""
    lock_incidents()
    old, new = (each.partition(":")[2] for each in (scope, goal))
    own = Incident.objects.filter(scope=scope)
    own.filter(Q(title__startswith=f"{old}:") | Q(title__startswith=f"{old},")).update(
        title=Substr(Concat(Value(new), Substr("title", len(old) + 1)), 1, 300)
    )
    own.update(scope=goal)
    with connection.cursor() as cursor:
        for statement in (_RENAME_LEVELS, _RENAME_EVENTS):
            cursor.execute(statement, {"scope": scope, "goal": goal})
    described = Incident.objects.filter(
        Q(state__in=UNRESOLVED) | ~Q(scope=goal), pk__in=_list_incident_ids(goal)
    )
    refresh_incidents(list(described.values_list("pk", flat=True)), Events(timezone.now()))
