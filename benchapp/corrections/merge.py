"""Merge two hosts that are one machine; split what another machine measured off a host, which also undoes a merge."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
import structlog
from django.db import connection, transaction
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.corrections.rename import add_former_name, read_new_name, refuse_sample, replace_stored
from benchapp.corrections.write import RUNS_MAXIMUM
from benchapp.framework.read.pagination import match_times
from benchapp.framework.write.audit import record_write
from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.models import (
    ApiToken,
    Attempt,
    AuditKind,
    FormerName,
    Host,
    PooledEvaluation,
    Run,
    RunRequest,
    Series,
    Submission,
    TargetMapping,
    User,
    follow_name,
)
from benchapp.models.filtering import follow_names, match_runs
from benchapp.storage.actions import PoolMove, move_results, preview_move, wait_for_results
from benchapp.storage.target_mappings import request_reread

log = structlog.get_logger(__name__)

# What is removed with a host, without what follows to the other one.
_OF_HOST: Final = ("benchapp_wantedschedule", "benchapp_requestpolicy", "benchapp_scheduleadoption")
_ROWS_OF_HOST: Final = ", ".join(
    f"'{table}', (SELECT jsonb_agg(to_jsonb(own)) FROM {table} own WHERE own.host_id = host.id)"  # noqa: S608
    for table in _OF_HOST
)
# Names of our own tables.
_REMEMBER: Final = (
    "SELECT jsonb_build_object('host', to_jsonb(host),"  # noqa: S608
    " 'submissions', ARRAY(SELECT id FROM benchapp_submission WHERE host_id = host.id),"
    " 'tokens', ARRAY(SELECT id FROM benchapp_apitoken WHERE host_id = host.id),"
    " 'aliases', ARRAY(SELECT scope FROM benchapp_formername WHERE present = 'host:' || host.name),"
    " 'benchapp_targetmapping', (SELECT jsonb_agg(to_jsonb(own)) FROM benchapp_targetmapping own"
    f"  WHERE own.scope = 'host:' || host.name), {_ROWS_OF_HOST}) FROM benchapp_host host WHERE id = %s"
)
_BRING_BACK: Final = (
    "INSERT INTO benchapp_host SELECT (jsonb_populate_record(NULL::benchapp_host, %s::jsonb)).*"
)
# The account of who created it may be gone.
_BRING_ROWS_BACK: Final = (
    "INSERT INTO {0} SELECT (jsonb_populate_record(NULL::{0}, row || CASE WHEN row ? 'created_by_id' THEN"
    " jsonb_build_object('created_by_id', (SELECT id FROM benchapp_user WHERE id = (row->>'created_by_id')::bigint))"
    " ELSE '{{}}' END)).* FROM jsonb_array_elements(%s::jsonb) AS listed(row) ON CONFLICT DO NOTHING"
)
_REASSIGN_DELETED: Final = (
    "UPDATE benchapp_deletedrun SET row = row || jsonb_build_object('host_id', %s::bigint)"
    " WHERE submission_id = ANY(%s) AND row ? 'host_id'"
)


@dataclass(frozen=True, slots=True)
class HostMove:
    """Runs that go from one host to another. series_before, series_after: with results, of both, or of their pools."""

    from_host: str
    to_host: str
    runs: int
    series_before: int
    series_after: int
    move: PoolMove


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """Which runs are split off: those of a filter in a time range, from inclusive, to exclusive."""

    filter: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether it selects nothing."""
        return not (self.filter.strip() or self.from_at or self.to_at)


def preview_merge(name: str, into: str) -> HostMove:
    """Return what `merge` would move; changes nothing. Raises BadValue."""
    host, goal = _find_host("scope", name), _find_host("name", into)
    if host == goal:
        raise BadValue("name", f"it is {host.name} itself")
    if goal.retired_at is not None:
        raise BadValue("name", f"{goal.name} is retired: reactivate it first")
    if Submission.objects.filter(host=host)[: RUNS_MAXIMUM + 1].count() > RUNS_MAXIMUM:
        text = f"{host.name} has more than {RUNS_MAXIMUM} results, too many for one merge"
        raise BadValue("scope", f"{text}: merge {goal.name} into it and rename it, or delete old runs first")
    return _describe(host, goal, None)


@retry_conflicts
@transaction.atomic
def merge(name: str, into: str, *, by: User | None = None, via: str = "") -> HostMove:
    """Give all that a host has to another one, which gets its name as an alias. Raises BadValue.

    Its tokens post for the other one. `split` undoes it for 30 days; stored filters keep the name of the other one.
    """
    wait_for_results()
    effect = preview_merge(name, into)
    # Results that are being accepted wait, or have been waited for.
    names = (effect.from_host, effect.to_host)
    locked = {
        each.name: each for each in Host.objects.select_for_update().filter(name__in=names).order_by("pk")
    }
    host, goal = (locked[each] for each in names)
    with connection.cursor() as cursor:
        cursor.execute(_REMEMBER, [host.pk])
        row = cursor.fetchone()[0]
    undo = orjson.loads(row) if isinstance(row, str | bytes) else row
    move_results(host, goal, text=f"with {host.name}, merged into {goal.name}")
    _reassign(host, goal, undo["submissions"])
    tokens = ApiToken.objects.filter(host=host)
    if host.retired_at is not None:
        tokens.filter(revoked_at=None).update(revoked_at=timezone.now())
    tokens.update(host=goal)
    Attempt.objects.filter(host=host).update(host=goal)
    RunRequest.objects.filter(host=host).update(host=goal)
    scope, to_scope = f"host:{host.name}", f"host:{goal.name}"
    _merge_mappings(scope, to_scope, goal)
    replace_stored(scope, to_scope, is_merge=True)
    add_former_name(scope, to_scope, undo=undo)
    PooledEvaluation.objects.filter(scope=scope).delete()
    Series.objects.filter(host=host).delete()
    host.delete()
    _record("merged", host, goal, by=by, via=via)
    return effect


def preview_split(name: str, new: str, selection: SplitChoice) -> HostMove:
    """Return what `split` would move; changes nothing. Raises BadValue."""
    host = _find_host("host", name)
    goal, submissions = _choose(host, new, selection)
    return _describe(host, goal, _list_runs(host, submissions))


@retry_conflicts
@transaction.atomic
def split(name: str, new: str, selection: SplitChoice, *, by: User | None = None, via: str = "") -> HostMove:
    """Give results of a host to a new host in the same pool; `merge` undoes it. Raises BadValue.

    A name that was merged into the host, without a selection, gets back what it had.
    """
    wait_for_results()
    host = _find_host("host", name)
    goal, submissions = _choose(host, new, selection)
    runs = _list_runs(host, submissions)
    effect = _describe(host, goal, runs)
    if selection.is_empty:
        goal = _bring_back(host, goal.name)
    else:
        # A former name of the host itself.
        FormerName.objects.filter(scope=f"host:{goal.name}").delete()
        goal.save(force_insert=True)
    move_results(host, goal, text=f"with {goal.name}, split off {host.name}", runs=runs)
    _reassign(host, goal, submissions)
    _record("split", host, goal, by=by, via=via)
    return effect


def _find_host(field: str, name: str) -> Host:
    host = Host.objects.filter(name=follow_name("host", name.strip().lower())).first()
    if host is None:
        raise BadValue(field, f"host {name[:100]} does not exist")
    refuse_sample(f"host:{host.name}")
    return host


def _describe(host: Host, goal: Host, runs: Sequence[int] | None) -> HostMove:
    move = preview_move(host, goal, runs)
    scopes = {move.from_scope, move.to_scope}
    before = Series.objects.filter(scope__in=scopes, measurement_count__gt=0).count()
    return HostMove(
        from_host=host.name,
        to_host=goal.name,
        runs=host.run_count if runs is None else len(runs),
        series_before=before,
        series_after=before + move.more,
        move=move,
    )


def _choose(host: Host, new: str, selection: SplitChoice) -> tuple[Host, list[UUID]]:
    """Return the new host, not saved, and the submissions that it gets: those with a run that matches."""
    if selection.is_empty:
        merged = _find_merged(host, new.strip().lower())
        if merged is None:
            raise BadValue("filter", "say which runs: a filter or a time range")
        own = Submission.objects.filter(host=host, pk__in=merged.undo["submissions"])
        pool = follow_name("pool", merged.undo["host"]["pool"])
        return Host(name=merged.name, pool=pool), list(own.values_list("pk", flat=True))
    try:
        matched = match_runs(follow_names(parse_filter(selection.filter)))
    except BadFilter as error:
        raise BadValue("filter", str(error)) from error
    goal = Host(name=read_new_name("host", f"host:{host.name}", new), pool=host.pool)
    in_range = match_times("started_at", selection.from_at, selection.to_at)
    runs = Run.objects.filter(matched, in_range, host=host).order_by()
    submissions = list(runs.values_list("submission_id", flat=True).distinct()[: RUNS_MAXIMUM + 1])
    if not submissions:
        raise BadValue("filter", f"no run of {host.name} matches")
    if len(submissions) > RUNS_MAXIMUM:
        raise BadValue("filter", f"more than {RUNS_MAXIMUM} results match: narrow the time range")
    if not Run.objects.filter(host=host).exclude(submission__in=submissions).exists():
        raise BadValue("filter", f"all runs of {host.name} match: rename it instead")
    return goal, submissions


def _find_merged(host: Host, name: str) -> Any:
    rows = FormerName.objects.filter(scope=f"host:{name}", present=f"host:{host.name}", undo__isnull=False)
    return rows.first()


def _bring_back(host: Host, name: str) -> Host:
    """Create a host that was merged into this one again, with its tokens and aliases."""
    merged = _find_merged(host, name)
    undo = merged.undo
    with connection.cursor() as cursor:
        row = {**undo["host"], "run_count": 0, "pool": follow_name("pool", undo["host"]["pool"])}
        cursor.execute(_BRING_BACK, [orjson.dumps(row).decode()])
    goal = Host.objects.get(name=name)
    ApiToken.objects.filter(host=host, pk__in=undo["tokens"]).update(host=goal)
    # Those that the other host has now; others were dropped.
    mappings = [row["id"] for row in undo.get("benchapp_targetmapping") or ()]
    TargetMapping.objects.filter(pk__in=mappings).update(scope=merged.scope)
    for table in ("benchapp_targetmapping", *_OF_HOST):
        with connection.cursor() as cursor:
            cursor.execute(_BRING_ROWS_BACK.format(table), [orjson.dumps(undo.get(table) or []).decode()])
    if mappings:
        request_reread(Host.objects.filter(pk__in=(host.pk, goal.pk)))
    FormerName.objects.filter(scope__in=undo["aliases"], present=f"host:{host.name}").update(
        present=merged.scope
    )
    merged.delete()
    return goal


def _list_runs(host: Host, submissions: Sequence[UUID]) -> list[int]:
    return list(Run.objects.filter(host=host, submission__in=submissions).values_list("pk", flat=True))


def _reassign(host: Host, goal: Host, submissions: Sequence[Any]) -> None:
    """Give results with their runs, also deleted ones, to another host."""
    Submission.objects.filter(pk__in=submissions).update(host=goal)
    Run.objects.filter(submission__in=submissions).update(host=goal)
    with connection.cursor() as cursor:
        cursor.execute(_REASSIGN_DELETED, [goal.pk, [str(each) for each in submissions]])
    for each in (host, goal):
        Host.objects.filter(pk=each.pk).update(run_count=Run.objects.filter(host=each).count())


def _merge_mappings(scope: str, to_scope: str, goal: Host) -> None:
    """Give the names of targets of a host to another one, which keeps its own."""
    own = TargetMapping.objects.filter(scope=to_scope, removed_at=None)
    rows = TargetMapping.objects.filter(scope=scope)
    rows.filter(pattern__in=list(own.values_list("pattern", flat=True))).delete()
    if rows.update(scope=to_scope) or own.exists():
        request_reread(Host.objects.filter(pk=goal.pk))


def _record(action: str, host: Host, goal: Host, *, by: User | None, via: str) -> None:
    before, after = {"host": host.name}, {"host": goal.name}
    record_write(
        AuditKind.HOST, action, object_id=goal.name, name=goal.name, before=before, after=after, by=by
    )
    log.info(f"host.{action}", host=host.name, other=goal.name, by=by.username if by else "", via=via)
