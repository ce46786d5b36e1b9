"""Disks of an environment by wwn or serial number: the kernel names them in the order in which it finds them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

# Facts with names of disks and mappings, which follow if a disk is replaced.
_NAMING: Final = frozenset(
    {"mount_source", "devices", "chain", "loop", "bcache", "md", "lvm", "zfs", "btrfs"}
)
_FOLLOWING: Final = _NAMING | {"queue", "disks", "device_model", "device_firmware", "device_class"}
_WORD: Final = re.compile(r"[\w-]+")
_PARTITION: Final = re.compile(r"(.*\d)(p\d+)|(.*\D)(\d+)")
_MAPPING: Final = re.compile(r"(dm-\d+) \w+ (\S.*)")


def identify_disks(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts with disks by wwn or serial number, so that other names by the kernel are no difference.

    "disks" has model and number by number; "disk NUMBER" the properties of one. A disk without a number keeps its name.
    """
    disks = facts.get("disk")
    if not isinstance(disks, Mapping) or not all(isinstance(disk, Mapping) for disk in disks.values()):
        return dict(facts)
    numbers = {name: str(disk.get("wwn") or disk.get("serial") or name) for name, disk in disks.items()}
    counts = Counter(numbers.values())
    numbers = {name: number if counts[number] == 1 else name for name, number in numbers.items()}
    chain = facts.get("chain")
    mappings = [_MAPPING.fullmatch(str(layer)) for layer in (chain if isinstance(chain, list) else ())]
    names = numbers | {found[1]: found[2] for found in mappings if found}
    found = {
        name: _rename(value, names) if name in _NAMING else value
        for name, value in facts.items()
        if name not in ("disk", "disks")
    }
    found["disks"] = {
        numbers[name]: f"{disk.get('model') or 'disk'} {numbers[name]}" for name, disk in disks.items()
    }
    for name, disk in disks.items():
        found[f"disk {numbers[name]}"] = {
            key: _forget_paths(value) if key == "path_states" else value
            for key, value in disk.items()
            if key not in ("wwn", "serial")
        }
    return found


def join_disk_changes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two environments to compare, where other disks are one fact: `disk_replaced`, or the number of `disks`.

    Both have facts of `identify_disks` by name, or by path with dots. Properties of disks of both sides stay.
    """
    old, new = _list_disks(before), _list_disks(after)
    gone, added = old.keys() - new.keys(), new.keys() - old.keys()
    if not (old and new and (gone or added)):
        return dict(before), dict(after)
    if len(gone) == len(added):
        name, was, now = (
            "disk_replaced",
            _join(old[each] for each in gone),
            _join(new[each] for each in added),
        )
    else:
        name, was, now = "disks", str(len(old)), str(len(new))
    others = tuple(f"disk {number}" for number in gone | added)
    return _drop_following(before, others) | {name: was}, _drop_following(after, others) | {name: now}


def _join(labels: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, labels)))


def _drop_following(facts: Mapping[str, Any], others: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: value
        for name, value in facts.items()
        if name.partition(".")[0] not in _FOLLOWING
        and not any(name == other or name.startswith(f"{other}.") for other in others)
    }


def _list_disks(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = facts.get("disks")
    if isinstance(nested, Mapping):
        return nested
    return {name.removeprefix("disks."): value for name, value in facts.items() if name.startswith("disks.")}


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with other names; of nvme0n1p1 and sda1 the number of the partition stays."""
    if isinstance(value, Mapping):
        return {_rename(name, names): _rename(part, names) for name, part in value.items()}
    if isinstance(value, list):
        # Members of an array are listed in the order of their names.
        return sorted(str(_rename(part, names)) for part in value)
    return _WORD.sub(lambda word: _rename_word(word[0], names), value) if isinstance(value, str) else value


def _rename_word(word: str, names: Mapping[str, str]) -> str:
    part = _PARTITION.fullmatch(word)
    disk, number = (part[1] or part[3], part[2] or part[4]) if part else (word, "")
    return names[word] if word in names else names[disk] + number if disk in names else word


def _forget_paths(value: Any) -> Any:
    """Return the states of the paths to a multipath disk, without the names of the paths."""
    return sorted(str(state).rpartition(" ")[2] for state in value) if isinstance(value, list) else value
