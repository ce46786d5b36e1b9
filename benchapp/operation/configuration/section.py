"""A list of the configuration file: its members, and how its entries are compared with the database and applied."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import EntryList
from benchapp.models import User
from benchapp.models.list_entry import Resource, find_column_type
from benchapp.operation.configuration.document import ConfigurationFault, GivenEntry, read_moment

Values = Mapping[str, Any]
_TYPES: Final = {
    str: "text: put it in quotes",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    datetime: "a time: 2026-12-31T22:00:00Z",
    list: "a list",
}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an entry. kind: type of its value; default: of one that is absent. An optional one may be null."""

    kind: type
    default: Any = None
    is_required: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """What the database has. row: the model's; is_managed: whether it is exported, and removed if it is not listed."""

    row: Any
    values: Values
    is_managed: bool = True


@dataclass(frozen=True, slots=True)
class ConfigurationSection:
    """A list of the file.

    name: in the file; noun: of one entry. identify: what makes two entries the same one; is_unique: whether a file may
    list it once only. normalize: validates values with all members, raises BadValue. create, change and remove write,
    and raise BadValue; their last argument is the author. change: None if an entry is removed and created again.
    export replaces secrets by references; resolve does the opposite, and raises BadValue.
    """

    name: str
    noun: str
    members: Mapping[str, Member]
    identify: Callable[[Values], Hashable]
    title: Callable[[Values], str]
    normalize: Callable[[Values], Values]
    list_stored: Callable[[], Sequence[StoredEntry]]
    create: Callable[[Values, User | None], object]
    remove: Callable[[StoredEntry, User | None], object]
    change: Callable[[StoredEntry, Values, User | None], None] | None = None
    is_unique: bool = False
    export: Callable[[Values], Values] = dict
    resolve: Callable[[Values], Values] = dict


def list_members(model: type[Resource], *, last: Sequence[str] = ()) -> dict[str, Member]:
    """Return the members of an entry: the given columns, except ids of other rows, which differ elsewhere.

    last: columns that follow the others.
    """
    given = [field for field in model.list_fields() if not field.is_relation]
    return {
        field.name: Member(
            find_column_type(field),
            default=None if field.null else field.get_default(),
            is_required=not (field.blank or field.has_default()),
            is_optional=field.null,
        )
        for field in sorted(given, key=lambda field: field.name in last)
    }


def normalize_entry(entries: EntryList[Any], values: Values) -> Values:
    """Return the values of an entry as they are stored. Raises BadValue."""
    entry = entries.model(**values)
    entries.check(entry)
    return {name: getattr(entry, name) for name in values}


def read_values(section: ConfigurationSection, entry: GivenEntry) -> Values | list[ConfigurationFault]:
    """Return the validated values of an entry with its defaults, or everything that is wrong with it."""
    values, faults = {}, []
    for name, member in section.members.items():
        if name not in entry.values:
            if member.is_required:
                faults.append(entry.make_fault("", f"{name} is required"))
            values[name] = member.default
            continue
        try:
            values[name] = _read_member(member, entry.values[name])
        except ValueError as error:
            faults.append(entry.make_fault(f"/{name}", str(error)))
    if faults:
        return faults
    try:
        return section.normalize(section.resolve(values))
    except BadValue as error:
        return [entry.make_fault(error.pointer, str(error))]


def normalize_stored(section: ConfigurationSection, values: Values) -> Values:
    """Return stored values as `read_values` returns those of their export; unchanged if they are not valid today."""
    try:
        return section.normalize(values)
    except BadValue:
        return values


def _read_member(member: Member, value: Any) -> Any:
    if value is None and member.is_optional:
        return None
    if member.kind is datetime and isinstance(value, str):
        return read_moment(value)
    is_right = isinstance(value, member.kind) and (member.kind is bool or not isinstance(value, bool))
    if member.kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not is_right:
        raise ValueError(f"must be {_TYPES[member.kind]}")
    return value
