"""Arrays: md from sysfs, and the target fields of several layers together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from agent.storage.devices import Layer
from agent.storage.sysfs import list_directory, read_line, read_number

_MD_FACTS = (
    "degraded",
    "sync_action",
    "metadata_version",
    "raid_disks",
    "layout",
    "consistency_policy",
    "stripe_cache_size",
    "group_thread_cnt",
)
_STRIPED_LEVELS = ("raid0", "raid4", "raid5", "raid6", "raid10")
# Which of these is reported depends on writes within the last 200 ms.
_WORKING_STATES = ("clean", "active", "active-idle", "write-pending")


@dataclass(frozen=True)
class Array:
    """A layer that distributes data over several devices.

    kind: md, lvm, btrfs or zfs; level: in the terms of that software, "raid0" for striping; None if unknown.
    members: number of devices including missing ones; found: number of present ones.
    trouble: a state of validity.md, such as degraded.
    """

    kind: str
    name: str
    level: str | None = None
    stripe_count: int | None = None
    chunk_size_bytes: int | None = None
    members: int | None = None
    found: int | None = None
    trouble: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_md(layer: Layer) -> Array:
    """Return an md array from its directory in sysfs."""
    level = read_line(layer.path, "md/level")
    members = read_number(layer.path, "md/raid_disks")
    is_striped = level in _STRIPED_LEVELS
    return Array(
        kind="md",
        name=layer.name,
        level=level,
        # Only in RAID0 every member is a stripe; in other levels it depends on the layout.
        stripe_count=members if level == "raid0" else None,
        chunk_size_bytes=(read_number(layer.path, "md/chunk_size") or None) if is_striped else None,
        members=members or None,
        found=len(layer.below),
        facts=_collect_md_facts(layer),
    )


def describe_target(arrays: Sequence[Array]) -> dict[str, Any]:
    """Return the target fields of a single array; {} for arrays on arrays, which have no single level."""
    array = arrays[0] if len(arrays) == 1 else Array("", "")
    return {
        "raid_level": array.level,
        "stripe_count": array.stripe_count,
        "chunk_size_bytes": array.chunk_size_bytes,
    }


def count_volumes(arrays: Sequence[Array], found: int) -> int | None:
    """Return the number of volumes of the storage; found: number of disks.

    A missing member of an array counts, a spare does not.
    """
    array = arrays[0] if len(arrays) == 1 else None
    if array and array.members and found and array.found == found:
        return array.members
    return found or None


def describe_arrays(arrays: Sequence[Array]) -> dict[str, Any]:
    """Return facts of arrays; several of one kind are listed by name."""
    facts: dict[str, Any] = {}
    for kind in dict.fromkeys(array.kind for array in arrays):
        alike = [array for array in arrays if array.kind == kind]
        if len(alike) == 1:
            facts[kind] = dict(alike[0].facts)
        else:
            facts[kind] = {**_sum_up(alike), **{array.name: _describe(array) for array in alike}}
    trouble = next((array.trouble for array in arrays if array.trouble), None)
    if trouble:
        facts["raid_state"] = trouble
    return facts


def _describe(array: Array) -> dict[str, Any]:
    facts = {
        "level": array.level,
        "stripe_count": array.stripe_count,
        "chunk_size_bytes": array.chunk_size_bytes,
        "members": array.members,
    }
    return {**{name: value for name, value in facts.items() if value is not None}, **array.facts}


def _sum_up(arrays: Sequence[Array]) -> dict[str, Any]:
    """Return the common state of md arrays: the sum of missing members, and the first action that is not idle."""
    missing = [int(array.facts["degraded"]) for array in arrays if _is_number(array.facts.get("degraded"))]
    actions = [array.facts["sync_action"] for array in arrays if "sync_action" in array.facts]
    facts: dict[str, Any] = {"degraded": str(sum(missing))} if missing else {}
    if actions:
        facts["sync_action"] = next((action for action in actions if action != "idle"), "idle")
    return facts


def _collect_md_facts(layer: Layer) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    state = read_line(layer.path, "md/array_state")
    action = read_line(layer.path, "md/sync_action")
    if state is not None:
        is_restless = action is not None and state in _WORKING_STATES
        facts["array_state"] = "active" if is_restless else state
    facts.update(
        (name, value) for name in _MD_FACTS if (value := read_line(layer.path, "md", name)) is not None
    )
    others = [f"{name[4:]} {state}" for name, state in _read_members(layer) if "in_sync" not in state]
    if others:
        facts["not_in_sync"] = others
    return facts


def _read_members(layer: Layer) -> list[tuple[str, str]]:
    names = [name for name in list_directory(layer.path, "md") if name.startswith("dev-")]
    states = [(name, read_line(layer.path, "md", name, "state")) for name in names]
    return [(name, state) for name, state in states if state is not None]


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit()
