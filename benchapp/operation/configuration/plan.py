"""What a configuration file changes in the database; export and apply it, in one transaction."""

import difflib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.db import connection, transaction

from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.models import User
from benchapp.operation.configuration.document import (
    BadConfiguration,
    ConfigurationFault,
    GivenEntry,
    read_document,
    write_document,
)
from benchapp.operation.configuration.section import (
    ConfigurationSection,
    StoredEntry,
    Values,
    normalize_stored,
    read_values,
)
from benchapp.operation.configuration.sections import (
    CONFIRMATION_POLICIES,
    DETECTION_POLICIES,
    HOSTS,
    PLANNED_EVENTS,
    PRICES,
    SCHEDULES,
    STUDIES,
    SUBSCRIPTIONS,
    TARGET_MAPPINGS,
)

# In this order: a filter may name a pool.
SECTIONS: Final = (
    HOSTS,
    TARGET_MAPPINGS,
    DETECTION_POLICIES,
    CONFIRMATION_POLICIES,
    SCHEDULES,
    PLANNED_EVENTS,
    PRICES,
    SUBSCRIPTIONS,
    STUDIES,
)


class StepAction(StrEnum):
    """What happens to an entry. KEPT: it is stored, not listed, and not removed."""

    REMOVED = "removed"
    CHANGED = "changed"
    CREATED = "created"
    UNCHANGED = "unchanged"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Step:
    """One entry. given, after: of the file; stored, before: of the database; None where there is nothing."""

    section: ConfigurationSection
    action: StepAction
    given: GivenEntry | None = None
    after: Values | None = None
    stored: StoredEntry | None = None
    before: Values | None = None


def make_plan(text: str, *, prune: bool) -> list[Step]:
    """Return the steps that make the database equal to a file, in the order in which they are applied.

    prune: remove what a list of the file does not have; a list that is absent changes nothing. Raises BadConfiguration.
    """
    document = read_document(text, {section.name: tuple(section.members) for section in SECTIONS})
    faults: list[ConfigurationFault] = []
    steps: list[Step] = []
    for section in SECTIONS:
        if section.name in document:
            given = list(_read_given(section, document[section.name], faults))
            steps += _match(section, given, prune=prune)
    if faults:
        raise BadConfiguration(sorted(faults, key=lambda fault: fault.line))
    order = list(StepAction)
    places = {section.name: place for place, section in enumerate(SECTIONS)}
    return sorted(steps, key=lambda step: (places[step.section.name], order.index(step.action)))


def _read_given(
    section: ConfigurationSection, entries: Sequence[GivenEntry], faults: list[ConfigurationFault]
) -> Iterator[tuple[GivenEntry, Values]]:
    first_lines: dict[Hashable, int] = {}
    for entry in entries:
        values = read_values(section, entry)
        if isinstance(values, list):
            faults += values
            continue
        first = first_lines.setdefault(section.identify(values), entry.line)
        if section.is_unique and first != entry.line:
            faults.append(entry.make_fault("", f"{section.noun} listed twice, first on line {first}"))
            continue
        yield entry, values


def _match(
    section: ConfigurationSection, given: Sequence[tuple[GivenEntry, Values]], *, prune: bool
) -> Iterator[Step]:
    """Yield a step for each entry of file and database. Equal ones are matched first, then those of one key."""
    # Entries that are not managed come last: an event that has ended is found if no other is the same.
    stored = sorted(section.list_stored(), key=lambda each: not each.is_managed)
    before = {place: normalize_stored(section, each.values) for place, each in enumerate(stored)}
    by_key: dict[Hashable, list[int]] = {}
    for place, values in before.items():
        by_key.setdefault(section.identify(values), []).append(place)
    waiting = []
    for entry, after in given:
        places = by_key.get(section.identify(after), [])
        equal = next((place for place in places if before[place] == after), None)
        if equal is None:
            waiting.append((entry, after))
            continue
        places.remove(equal)
        yield Step(section, StepAction.UNCHANGED, entry, after, stored[equal], before[equal])
    for entry, after in waiting:
        places = by_key.get(section.identify(after), [])
        if not places:
            yield Step(section, StepAction.CREATED, entry, after)
            continue
        place = places.pop(0)
        yield Step(section, StepAction.CHANGED, entry, after, stored[place], before[place])
    for place in sorted(place for places in by_key.values() for place in places):
        if stored[place].is_managed:
            action = StepAction.REMOVED if prune else StepAction.KEPT
            yield Step(section, action, stored=stored[place], before=before[place])


_SIGNS: Final = {
    StepAction.REMOVED: "-",
    StepAction.CHANGED: "~",
    StepAction.CREATED: "+",
    StepAction.KEPT: "not in the file:",
}


def describe_step(step: Step) -> list[str]:
    """Return the lines of a step: its entry, and the values that are created or changed; none if nothing changes."""
    if step.action == StepAction.UNCHANGED:
        return []
    values = step.after or step.before or {}
    head = f"{_SIGNS[step.action]} {step.section.noun} {step.section.title(values)}"
    if step.after is None:
        return [head]
    before = _flatten(step.section.export(step.before)) if step.before else {}
    after = _flatten(step.section.export(step.after))
    lines = [head]
    for name in [*after, *(name for name in before if name not in after)]:
        old, new = before.get(name), after.get(name)
        is_empty = step.before is None and new in (None, "")
        if old != new and not is_empty:
            lines += [f"    {line}" for line in _describe_value(name, old, new, is_new=step.before is None)]
    return lines


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return the plain values of nested ones, by path."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(str(place), each) for place, each in enumerate(value)]
    else:
        return {path: value}
    return {
        name: each
        for key, child in pairs
        for name, each in _flatten(child, f"{path}/{key}" if path else key).items()
    }


def _describe_value(name: str, old: Any, new: Any, *, is_new: bool) -> list[str]:
    if isinstance(new, str) and ("\n" in new or "\n" in str(old)):
        lines = difflib.unified_diff(str(old or "").splitlines(), new.splitlines(), n=1, lineterm="")
        return [f"{name}:", *(f"  {line}" for line in list(lines)[2:] if not line.startswith("@@"))]
    if is_new:
        return [f"{name}: {_format(new)}"]
    return [f"{name}: {_format(old)} -> {_format(new)}"]


def _format(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if value == "" else str(value)


_LOCK: Final = 0x636F6E66  # pg_advisory lock: "conf"; two files are applied one after the other


def export_configuration() -> str:
    """Return the file of the current configuration, without secrets."""
    return write_document(
        {
            section.name: [section.export(each.values) for each in section.list_stored() if each.is_managed]
            for section in SECTIONS
        }
    )


@retry_conflicts
def apply_configuration(text: str, *, prune: bool, dry_run: bool, author: User | None) -> list[Step]:
    """Make the database equal to a file, and return what was done; nothing of it remains after a dry run.

    prune: as in `make_plan`. author: of the changes. A dry run writes and rolls back: it fails where applying would.
    Raises BadConfiguration.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        steps = make_plan(text, prune=prune)
        # All removals first: the prices of a region have one currency, and limits count what is stored.
        for step in steps:
            if step.stored and _is_removal(step):
                step.section.remove(step.stored, author)
        faults = [fault for step in steps if (fault := _take(step, author)) is not None]
        if faults:
            raise BadConfiguration(faults)
        if dry_run:
            transaction.set_rollback(True)
    return steps


def count_steps(steps: Sequence[Step]) -> dict[StepAction, int]:
    """Return the number of steps by action."""
    return {action: sum(step.action == action for step in steps) for action in StepAction}


def _is_removal(step: Step) -> bool:
    """Return whether a stored entry is removed, also one that is created again."""
    return step.action == StepAction.REMOVED or (
        step.action == StepAction.CHANGED and step.section.change is None
    )


def _take(step: Step, author: User | None) -> ConfigurationFault | None:
    """Change or create an entry; return why it cannot be written."""
    if (
        step.given is None
        or step.after is None
        or step.action not in (StepAction.CHANGED, StepAction.CREATED)
    ):
        return None
    try:
        if step.action == StepAction.CHANGED and step.section.change and step.stored:
            step.section.change(step.stored, step.after, author)
        else:
            step.section.create(step.after, author)
    except BadValue as error:
        return step.given.make_fault(error.pointer, str(error))
    return None
