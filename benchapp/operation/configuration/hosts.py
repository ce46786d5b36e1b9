"""The pools of hosts. A host is never created, retired or deleted by a configuration file."""

from collections.abc import Sequence
from typing import Final

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Host, User
from benchapp.operation.configuration.section import ConfigurationSection, Member, StoredEntry, Values
from benchapp.storage.actions import set_pool

POOL_MAXIMUM: Final = 100


def read_pool(text: str) -> str:
    """Return the name of a pool without spaces around it. Raises BadValue."""
    pool = text.strip()
    if len(pool) > POOL_MAXIMUM or "\x00" in pool:
        raise BadValue("pool", f"at most {POOL_MAXIMUM} characters, without NUL")
    return pool


def _normalize(values: Values) -> Values:
    return {"name": values["name"].lower(), "pool": read_pool(values["pool"])}


def _list_stored() -> Sequence[StoredEntry]:
    """Return all hosts; those without a pool, and retired ones, are not exported."""
    return [
        StoredEntry(host, {"name": host.name, "pool": host.pool}, bool(host.pool) and host.retired_at is None)
        for host in Host.objects.order_by("name")
    ]


def _create(values: Values, by: User | None) -> None:
    raise BadValue("name", f"host {values['name']} does not exist: enroll it first")


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    set_pool(stored.row.name, values["pool"], by=by)


def _remove(stored: StoredEntry, by: User | None) -> None:
    set_pool(stored.row.name, "", by=by)


HOSTS: Final = ConfigurationSection(
    name="hosts",
    noun="pool of host",
    members={"name": Member(str, is_required=True), "pool": Member(str, is_required=True)},
    identify=lambda values: values["name"],
    title=lambda values: str(values["name"]),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=_remove,
    is_unique=True,
)
