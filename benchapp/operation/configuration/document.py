"""Read and write the YAML of a configuration file; every value keeps its line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import yaml
from django.utils import timezone

from benchapp.framework.read.days import is_relative_moment, parse_moment

VERSION: Final = 1
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9]+")
_TRUE: Final = frozenset({"true", "yes", "on"})
# Deeper than any value of a file.
_DEPTH_MAXIMUM: Final = 10
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class ConfigurationFault:
    """What is wrong in a file. line: from 1, 0 if unknown; path: as subscriptions/0/filter, "" for the file."""

    line: int
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(
            part for part in (f"line {self.line}" if self.line else "", self.path, self.message) if part
        )


class BadConfiguration(Exception):
    """A file that cannot be applied. faults: all that were found, at least one."""

    def __init__(self, faults: Sequence[ConfigurationFault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class GivenEntry:
    """An entry of a list of the file. values: plain; path: as subscriptions/0; lines: by pointer below the entry."""

    path: str
    line: int
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def make_fault(self, pointer: str, message: str) -> ConfigurationFault:
        """Return a fault at a JSON pointer below the entry, on the line of the nearest value that is given."""
        known = pointer
        while known and known not in self.lines:
            known = known.rpartition("/")[0]
        return ConfigurationFault(self.lines.get(known, self.line), f"{self.path}{pointer}", message)


@dataclass(slots=True)
class _Reader:
    """Makes plain values of nodes; lines of the values by path, faults as they are found."""

    lines: dict[str, int] = field(default_factory=dict)
    faults: list[ConfigurationFault] = field(default_factory=list)

    def read(self, node: yaml.Node, path: str) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(child, f"{path}/{place}") for place, child in enumerate(node.value)]
        try:
            return _read_scalar(node)
        except ValueError as error:
            self._refuse(node, path, str(error))
            return None

    def _read_mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, child in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not name or key.tag != f"{_TAG}str":
                self._refuse(
                    key, path, f"{name or 'a list or mapping'!s} is not a valid name: put it in quotes"
                )
                continue
            if name in values:
                first = self.lines[f"{path}/{name}"]
                self._refuse(key, f"{path}/{name}", f"given twice, first on line {first}")
                continue
            self.lines[f"{path}/{name}"] = key.start_mark.line + 1
            values[name] = self.read(child, f"{path}/{name}")
        return values

    def _refuse(self, node: yaml.Node, path: str, message: str) -> None:
        self.faults.append(ConfigurationFault(node.start_mark.line + 1, path.lstrip("/"), message))


def _read_scalar(node: yaml.Node) -> Any:
    """Return text, number, boolean, None, or the text of a time. Raises ValueError."""
    text, kind = node.value, node.tag.removeprefix(_TAG)
    if "\x00" in text:
        raise ValueError("the text has a NUL character; remove it")
    match kind:
        case "str" | "timestamp":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() in _TRUE
        case "int" if _INTEGER.fullmatch(text):
            return int(text)
        case "float" if _DECIMAL.fullmatch(text):
            return float(text)
        case "int" | "float":
            # YAML 1.1 reads 0755 as octal and 12:30 as 750.
            raise ValueError(f"{text} is not a decimal number: for text, put it in quotes")
    raise ValueError(f"the tag {node.tag} is not accepted")


def read_document(text: str, members: Mapping[str, Sequence[str]]) -> dict[str, list[GivenEntry]]:
    """Return the entries of each list that the file has; members: those of an entry by the name of its list.

    Raises BadConfiguration.
    """
    node = _compose(text)
    reader = _Reader()
    values = reader.read(node, "")
    if not isinstance(values, dict):
        raise BadConfiguration(
            [ConfigurationFault(1, "", "the file must be a mapping that begins with version: 1")]
        )
    found: dict[str, list[GivenEntry]] = {}
    for name, value in values.items():
        if name == "version":
            continue
        if name not in members:
            known = ", ".join(("version", *members))
            message = f"unknown name. Valid names: {known}"
            reader.faults.append(ConfigurationFault(reader.lines[f"/{name}"], name, message))
            continue
        found[name] = list(_read_entries(name, value, reader, members[name]))
    if values.get("version") != VERSION or values.get("version") is True:
        line = reader.lines.get("/version", 1)
        reader.faults.append(ConfigurationFault(line, "version", f"version: {VERSION} is required"))
    if reader.faults:
        raise BadConfiguration(sorted(reader.faults, key=lambda fault: fault.line))
    return found


def _compose(text: str) -> yaml.Node:
    """Return the root node. Aliases are refused: few of them can stand for millions of values."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            message = ""
            if isinstance(event, yaml.AliasEvent):
                message = "an alias is not accepted: repeat the value"
            elif depth > _DEPTH_MAXIMUM:
                message = "nested too deeply"
            if message:
                raise BadConfiguration([ConfigurationFault(_line_of(event.start_mark), "", message)])
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        message = ", ".join(part for part in (error.context, error.problem) if part)
        fault = ConfigurationFault(_line_of(error.problem_mark), "", f"not valid YAML: {message}")
        raise BadConfiguration([fault]) from error
    except yaml.YAMLError as error:
        raise BadConfiguration([ConfigurationFault(0, "", f"not valid YAML: {error}")]) from error
    if node is None:
        raise BadConfiguration(
            [ConfigurationFault(0, "", f"the file is empty: version: {VERSION} is required")]
        )
    return node


def _line_of(mark: Any) -> int:
    return mark.line + 1 if mark else 0


def _read_entries(name: str, value: Any, reader: _Reader, members: Sequence[str]) -> Iterator[GivenEntry]:
    if not isinstance(value, list):
        line = reader.lines[f"/{name}"]
        reader.faults.append(ConfigurationFault(line, name, "must be a list; [] for an empty one"))
        return
    lines_of: dict[str, dict[str, int]] = {str(place): {} for place in range(len(value))}
    for path, line in reader.lines.items():
        parts = path.split("/", 3)
        if len(parts) == 4 and parts[1] == name and parts[2] in lines_of:
            lines_of[parts[2]][f"/{parts[3]}"] = line
    for place, values in enumerate(value):
        path = f"{name}/{place}"
        line = reader.lines[f"/{path}"]
        if not isinstance(values, dict):
            reader.faults.append(ConfigurationFault(line, path, f"must have members: {', '.join(members)}"))
            continue
        entry = GivenEntry(path, line, values, lines_of[str(place)])
        reader.faults += [
            entry.make_fault(f"/{member}", f"unknown member. Valid members: {', '.join(members)}")
            for member in values
            if member not in members
        ]
        yield entry


def read_moment(text: str) -> datetime:
    """Return an absolute time; ISO 8601 without offset is UTC. Raises ValueError."""
    if is_relative_moment(text) or text.isdigit():
        raise ValueError(f"{text[:40]!r} is not a valid time: write it as 2026-12-31T22:00:00Z")
    return parse_moment(text, now=timezone.now())


class _Writer(yaml.SafeDumper):
    """Writes lists indented below their name, texts of several lines as blocks, times in UTC as ISO 8601."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def _write_text(writer: _Writer, text: str) -> yaml.Node:
    return writer.represent_scalar(f"{_TAG}str", text, style="|" if "\n" in text else None)


def _write_moment(writer: _Writer, moment: datetime) -> yaml.Node:
    return writer.represent_scalar(f"{_TAG}timestamp", moment.isoformat().replace("+00:00", "Z"))


_Writer.add_representer(str, _write_text)
_Writer.add_representer(datetime, _write_moment)


def write_document(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the text of a file with these lists, of plain values and aware times."""
    parts = [f"version: {VERSION}\n"]
    for name, entries in lists.items():
        text = yaml.dump(
            {name: list(entries)}, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110
        )
        parts.append(text)
    return "\n".join(parts)
