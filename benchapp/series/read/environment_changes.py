"""Environment changes of a series between consecutive runs of the same host."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlencode

from django.db import connection
from msgspec import Meta

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import Filter, write_filter
from benchapp.catalog.metrics import cut_text
from benchapp.framework.read.binary_columns import read_versioned
from benchapp.models import RECENTLY_REPORTED, Environment, SeriesEnvironment
from benchapp.series.read.shapes import EnvironmentRow, names_of

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


# More marks would cover the axis; the newest are shown.
CHANGES_MAXIMUM: Final = 200
_FIELDS_MAXIMUM: Final = 12
_TEXT_MAXIMUM: Final = 80
_ZONE: Final = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
LABELS: Final = {
    "host": "host",
    "kernel": "kernel",
    "os": "operating system",
    "fio_version": "fio version",
    "cpu_model": "CPU",
    "cpu_count": "CPUs",
    "memory_bytes": "memory",
    "scheduler": "I/O scheduler",
    "device_model": "device",
    "device_firmware": "firmware",
    "device_driver": "driver",
    "device_class": "device class",
    "governor": "CPU governor",
    "virtualization": "virtualization",
    "agent_version": "agent",
}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One thing that changed. name: of the environment's field, or a fact's name; None is unknown.

    compare: address of the page that compares the runs with both values on all hosts; None for a fact that filters do
    not have.
    """

    name: str
    label: str
    before: str | None
    after: str | None
    compare: str | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """The first run in a changed environment."""

    at: Annotated[datetime, Meta(tz=True)]
    run: Annotated[int, Meta(description="first run in the new environment")]
    host: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class EnvironmentHistory:
    """The changes of one series by time; left_out: number of older ones that were omitted."""

    changes: tuple[EnvironmentChange, ...]
    left_out: int = 0


def read_environment_changes(versions: Mapping[int, str]) -> dict[int, EnvironmentHistory]:
    """Return what changed between consecutive runs of one host, by series; two queries, none if cached.

    versions: from `read_series_versions`. The series of a pool also have the first runs of its hosts.
    """
    return read_versioned("environment changes", versions, load=partial(_read_changes, list(versions)))


# Of a series, the newest: each upgrade adds one.
_ENVIRONMENTS_MAXIMUM: Final = 200


def list_alternating_disks(series_id: int) -> list[str]:
    """Return the disks of a host's series between which its runs go back and forth, by name; one query.

    None where disks were replaced once: the runs on one end before those on the other begin.
    """
    rows = SeriesEnvironment.objects.filter(series=series_id, series__scope__startswith="host:")
    newest = rows.order_by("-last_at").values_list("environment__facts", "first_at", "last_at")
    spans: dict[frozenset[str], tuple[datetime, datetime]] = {}
    for facts, first_at, last_at in newest[:_ENVIRONMENTS_MAXIMUM]:
        disks = frozenset(map(str, _list_disks(identify_disks(facts)).values()))
        known_first, known_last = spans.get(disks, (first_at, last_at))
        spans[disks] = min(known_first, first_at), max(known_last, last_at)
    found: set[str] = set()
    for (some, (some_from, some_to)), (others, (others_from, others_to)) in combinations(spans.items(), 2):
        if some and others and some_from < others_to and others_from < some_to:
            found |= some ^ others
    return sorted(found)


def read_time_zone(run_id: int) -> str:
    """Return the IANA name of the zone that a run's host reported, "" if it reported none; one query."""
    named = Environment.objects.filter(runs__id=run_id).values_list("facts__time_zone", flat=True).first()
    return named if isinstance(named, str) and _ZONE.fullmatch(named) else ""


def compare_environments(
    before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> tuple[FieldChange, ...]:
    """Return what differs between two environments, the fields first, then their facts one level deep.

    Disks are compared by wwn or serial number; a replaced one is one difference.
    """
    if before is None:
        return ()
    old, new = join_disk_changes(
        *(
            {**identify_disks(side.get("facts") or {}), **{name: side.get(name) for name in LABELS}}
            for side in (before, after)
        )
    )
    facts = sorted((old.keys() | new.keys()) - LABELS.keys())
    return tuple(_compare(old, new, [*(name for name in LABELS if name != "host"), *facts]))[:_FIELDS_MAXIMUM]


def _compare(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str]
) -> Iterator[FieldChange]:
    for name in names:
        if name in RECENTLY_REPORTED and None in (before.get(name), after.get(name)):
            continue
        if before.get(name) != after.get(name):
            label = LABELS.get(name, name.replace("_", " "))
            yield FieldChange(
                name,
                label,
                _format_value(name, before.get(name)),
                _format_value(name, after.get(name)),
                link_comparison(name, before.get(name), after.get(name)),
            )


def link_comparison(name: str, before: Any, after: Any) -> str | None:
    """Return the address of the page that compares the runs with both values of a fact; None if no filter has it."""
    if name not in DIMENSIONS or not DIMENSIONS[name].is_environment:
        return None
    sides = {
        side: write_filter(Filter().with_value(name, None if value == "" else value))
        for side, value in (("a", before), ("b", after))
    }
    return f"/compare/?{urlencode(sides, safe=':,/')}"


def _format_value(name: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if name == "memory_bytes":
        return f"{value / 2**30:.3g} GiB"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return cut_text(text, _TEXT_MAXIMUM)


def _read_changes(series_ids: Sequence[int]) -> dict[int, EnvironmentHistory]:
    places: dict[int, list[_Place]] = {series_id: [] for series_id in series_ids}
    for place in _find_places(series_ids):
        places[place.series_id].append(place)
    kept = {series_id: rows[-CHANGES_MAXIMUM:] for series_id, rows in places.items()}
    environments = read_environments(
        each for rows in kept.values() for row in rows for each in (row.environment_id, row.before_id)
    )
    return {
        series_id: EnvironmentHistory(
            tuple(change for row in rows if (change := _make_change(row, environments)).fields),
            len(places[series_id]) - len(rows),
        )
        for series_id, rows in kept.items()
    }


class _Place(NamedTuple):
    """A run that differs from its host's run before; before_id: None where it is the host's first."""

    series_id: int
    at: datetime
    run_id: int
    host_name: str
    environment_id: int
    before_id: int | None


def _make_change(place: _Place, environments: Mapping[int, Mapping[str, Any]]) -> EnvironmentChange:
    if place.before_id is None:
        changed: tuple[FieldChange, ...] = (FieldChange("host", LABELS["host"], None, place.host_name),)
    else:
        changed = compare_environments(environments[place.before_id], environments[place.environment_id])
    return EnvironmentChange(place.at, place.run_id, place.host_name, changed)


def read_environments(ids: Iterable[int | None]) -> dict[int, dict[str, Any]]:
    """Return environments by id, without None; one query."""
    wanted = {each for each in ids if each is not None}
    names = names_of(EnvironmentRow)
    rows = Environment.objects.filter(pk__in=wanted).values_list("id", *names)
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def _find_places(series_ids: Sequence[int]) -> list[_Place]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT series_id, started_at, run_id, host.name, environment_id, before FROM ("
            " SELECT m.series_id, m.started_at, m.id, m.run_id, run.host_id, run.environment_id,"
            " lag(run.environment_id) OVER (PARTITION BY m.series_id, run.host_id ORDER BY m.started_at, m.id)"
            " AS before, row_number() OVER (PARTITION BY m.series_id ORDER BY m.started_at, m.id) AS place"
            " FROM benchapp_measurement m JOIN benchapp_run run ON run.id = m.run_id"
            " WHERE m.series_id = ANY(%s)) AS runs JOIN benchapp_host host ON host.id = runs.host_id"
            " WHERE before IS DISTINCT FROM environment_id AND place > 1 ORDER BY started_at, runs.id",
            [list(series_ids)],
        )
        return [_Place(*row) for row in cursor.fetchall()]
