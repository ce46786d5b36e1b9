"""Add and remove mappings of names of targets; history of their hosts is read again, as a preview shows."""

from collections.abc import Callable
from typing import Any, Final

from django.db import connection, models, transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.intake.normalize.batch import IMPORT_LOCK, exclude_imports
from benchapp.intake.normalize.effect import RereadEffect, find_reread_effect
from benchapp.models import REREAD, AuditKind, Host, State, Submission, TargetMapping, User, follow_name
from benchapp.storage.read.hosts import list_mappings

# Each name is compared with all patterns.
_MAPPINGS_MAXIMUM: Final = 100
_LENGTH_MAXIMUM: Final = 200


class UnknownMapping(Exception):
    """A mapping that does not exist, or is removed already."""


def add_mapping(mapping: TargetMapping, *, by: User | None) -> TargetMapping:
    """Save a mapping, and have history read again by workers. Raises BadValue."""
    return _apply(lambda: _add(mapping, by=by))


def remove_mapping(mapping_id: int, *, by: User | None) -> TargetMapping:
    """Remove a mapping, which undoes it: history is read again. Raises UnknownMapping."""
    return _apply(lambda: _remove(mapping_id, by=by))


def preview_adding(mapping: TargetMapping) -> RereadEffect:
    """Return what `add_mapping` would do; stores nothing. Raises BadValue, ImportRunning."""
    return _preview(lambda: _add(mapping, by=None))


def preview_removal(mapping_id: int) -> RereadEffect:
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
def _preview(change: Callable[[], TargetMapping]) -> RereadEffect:
    exclude_imports()
    mapping = change()
    rows = Submission.objects.filter(host__in=_list_hosts(mapping.scope), state=State.STORED)
    effect = find_reread_effect(rows, lambda series: series.target_name)
    transaction.set_rollback(True)
    return effect


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
