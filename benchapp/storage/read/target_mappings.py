"""Mappings of names of targets."""

from collections.abc import Collection, Iterable, Sequence

from benchapp.models import Host, TargetMapping
from benchapp.storage.rules.target_name import NameMapping


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
