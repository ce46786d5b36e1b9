"""Add and remove mappings of names of targets; history of their hosts is read again, as a preview shows."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connection, models, transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.intake.normalize.batch import BATCH_BYTES, IMPORT_LOCK, exclude_imports
from benchapp.intake.normalize.preview import plan_all_in_process
from benchapp.intake.normalize.reparse import renormalize_batch
from benchapp.models import REREAD, AuditKind, Host, State, Submission, TargetMapping, User, follow_name
from benchapp.storage.read.hosts import list_mappings

# Reading as many results, the newest ones, takes 2 s (measured), in which others of the series wait.
PREVIEW_MAXIMUM: Final = 500
# Each name is compared with all patterns.
_MAPPINGS_MAXIMUM: Final = 100
_LENGTH_MAXIMUM: Final = 200


class UnknownMapping(Exception):
    """A mapping that does not exist, or is removed already."""


@dataclass(frozen=True, slots=True)
class NameChange:
    """Series of one target name, and the name of their measurements after a change. None: unknown."""

    before: str | None
    after: str | None
    series: int
    measurements: int


@dataclass(frozen=True, slots=True)
class MappingEffect:
    """What reading history again would do. series_before, series_after: of the results that were looked at.

    renamed: series that only get another name; joined: those that become one with others; split: those that become
    several. looked_at: results, the newest; not_looked_at: older ones; unreadable: those without stored output, or
    that cannot be parsed any more, which keep their series.
    """

    names: tuple[NameChange, ...]
    series_before: int
    series_after: int
    renamed: int
    joined: int
    split: int
    looked_at: int
    not_looked_at: int
    unreadable: int


def add_mapping(mapping: TargetMapping, *, by: User | None) -> TargetMapping:
    """Save a mapping, and have history read again by workers. Raises BadValue."""
    return _apply(lambda: _add(mapping, by=by))


def remove_mapping(mapping_id: int, *, by: User | None) -> TargetMapping:
    """Remove a mapping, which undoes it: history is read again. Raises UnknownMapping."""
    return _apply(lambda: _remove(mapping_id, by=by))


def preview_adding(mapping: TargetMapping) -> MappingEffect:
    """Return what `add_mapping` would do; stores nothing. Raises BadValue, ImportRunning."""
    return _preview(lambda: _add(mapping, by=None))


def preview_removal(mapping_id: int) -> MappingEffect:
    """Return what `remove_mapping` would do; stores nothing. Raises UnknownMapping, ImportRunning."""
    return _preview(lambda: _remove(mapping_id, by=None))


def request_reread(hosts: models.QuerySet[Host]) -> int:
    """Have workers read the stored results of hosts again; return their number. Call inside a transaction."""
    return _list_results(hosts).exclude(parser_version=REREAD).update(parser_version=REREAD)


def count_rereads(scope: str) -> int:
    """Return how many results of a host or pool wait to be read again."""
    return _list_results(_list_hosts(scope)).filter(parser_version=REREAD).count()


@retry_conflicts
@transaction.atomic
def _apply(change: Callable[[], TargetMapping]) -> TargetMapping:
    # Waits for results that are being stored by the mappings of before.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [IMPORT_LOCK])
    mapping = change()
    request_reread(_list_hosts(mapping.scope))
    return mapping


@retry_conflicts
@transaction.atomic
def _preview(change: Callable[[], TargetMapping]) -> MappingEffect:
    exclude_imports()
    mapping = change()
    rows = _list_results(_list_hosts(mapping.scope)).order_by("-received_at", "-id")
    chosen: list[UUID] = []
    size = 0
    for submission_id, body_bytes in rows.values_list("id", "body_bytes")[:PREVIEW_MAXIMUM]:
        size += body_bytes
        if chosen and size > BATCH_BYTES:
            break
        chosen.append(submission_id)
    outcome = renormalize_batch(chosen, plan_all=plan_all_in_process)
    effect = _describe(
        outcome.moves,
        looked_at=outcome.read - len(outcome.rejected),
        not_looked_at=rows.count() - outcome.read,
        unreadable=len(outcome.rejected)
        + Submission.objects.filter(
            host__in=_list_hosts(mapping.scope), state=State.STORED, body__isnull=True
        ).count(),
    )
    transaction.set_rollback(True)
    return effect


def _describe(
    moves: Counter[tuple[int, str | None, int, str | None]],
    *,
    looked_at: int,
    not_looked_at: int,
    unreadable: int,
) -> MappingEffect:
    goals: dict[int, set[int]] = defaultdict(set)
    sources: dict[int, set[int]] = defaultdict(set)
    renamed_ids: set[int] = set()
    series: dict[tuple[str | None, str | None], set[int]] = defaultdict(set)
    measurements: Counter[tuple[str | None, str | None]] = Counter()
    for (old_id, old_name, new_id, new_name), count in moves.items():
        goals[old_id].add(new_id)
        sources[new_id].add(old_id)
        if old_name != new_name:
            renamed_ids.add(old_id)
            series[old_name, new_name].add(old_id)
            measurements[old_name, new_name] += count
    split = {each for each, found in goals.items() if len(found) > 1}
    joined = {each for found in sources.values() if len(found) > 1 for each in found}
    return MappingEffect(
        names=tuple(
            NameChange(*names, len(ids), measurements[names])
            for names, ids in sorted(series.items(), key=lambda each: str(each[0]))
        ),
        series_before=len(goals),
        series_after=len(sources),
        renamed=len(renamed_ids - split - joined),
        joined=len(joined),
        split=len(split),
        looked_at=looked_at,
        not_looked_at=not_looked_at,
        unreadable=unreadable,
    )


def _list_hosts(scope: str) -> models.QuerySet[Host]:
    kind, _, name = scope.partition(":")
    return Host.objects.filter(**({"pool": name} if kind == "pool" else {"name": name}))


def _list_results(hosts: models.QuerySet[Host]) -> models.QuerySet[Submission]:
    return Submission.objects.filter(host__in=hosts, state=State.STORED, body__isnull=False)


def check_mapping(mapping: TargetMapping) -> None:
    """Write the given values of a new mapping in their canonical form. Raises BadValue."""
    for name in TargetMapping.given:
        text = getattr(mapping, name).strip()
        if not text.isprintable() or not text:
            raise BadValue(name, "use printable characters" if text else "is required")
        if name != "scope" and len(text) > _LENGTH_MAXIMUM:
            raise BadValue(name, f"at most {_LENGTH_MAXIMUM} characters; this has {len(text)}")
        setattr(mapping, name, text)
    kind, _, name = mapping.scope.partition(":")
    if kind not in ("host", "pool") or not name:
        raise BadValue("scope", f"{mapping.scope[:80]!r} is not host:NAME or pool:NAME")
    mapping.scope = f"{kind}:{follow_name(kind, name)}"


def _add(mapping: TargetMapping, *, by: User | None) -> TargetMapping:
    check_mapping(mapping)
    if not _list_hosts(mapping.scope).exists():
        raise BadValue("scope", f"{mapping.place[:80]} does not exist, or has no hosts")
    known = list_mappings([mapping.scope])
    if any(each.pattern == mapping.pattern for each in known):
        raise BadValue("pattern", f"{mapping.pattern} has a target name already; remove it first")
    if len(known) >= _MAPPINGS_MAXIMUM:
        raise BadValue("pattern", f"at most {_MAPPINGS_MAXIMUM} patterns of a host or pool")
    mapping.created_by = by
    mapping.save(force_insert=True)
    _record(mapping, "added", after=snapshot(mapping, *TargetMapping.given), by=by)
    return mapping


def _remove(mapping_id: int, *, by: User | None) -> TargetMapping:
    mapping = TargetMapping.objects.filter(pk=mapping_id, removed_at__isnull=True).first()
    if mapping is None:
        raise UnknownMapping(f"target mapping {mapping_id} does not exist")
    mapping.removed_at = timezone.now()
    mapping.save(update_fields=["removed_at"])
    _record(mapping, "removed", before=snapshot(mapping, *TargetMapping.given), by=by)
    return mapping


def _record(mapping: TargetMapping, action: str, *, by: User | None, **values: dict[str, Any]) -> None:
    kind, name = AuditKind.TARGET_MAPPING, str(mapping)
    record_write(kind, action, object_id=mapping.pk, name=name, by=by, **values)
