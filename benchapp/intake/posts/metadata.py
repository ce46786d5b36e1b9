"""Parse layout, labels and environment of a submission: typed, bounded, never guessed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from benchapp.catalog.dimensions import DIMENSIONS, normalize_value
from benchapp.models import ENVIRONMENT_FIELDS, TARGET_FIELDS, Environment

_INTEGER_MAXIMUM: Final = 2**31 - 1
_SIZE_MAXIMUM: Final = 2**62
_TEXT_MAXIMUM: Final = {"target_name": 200, "volume_type": 100, "raid_level": 20, "filesystem": 50} | {
    "mount_options": 1000,
    "instance_type": 100,
}
_LABEL_COUNT_MAXIMUM: Final = 50
_LABEL_NAME_MAXIMUM: Final = 100
_LABEL_LENGTH_MAXIMUM: Final = 500
_FACT_NAME_MAXIMUM: Final = 200
_FACT_MAXIMUM: Final = 10_000
# Of free facts, parameters or arguments together, which runs, exports and lists of changes repeat. An agent on a host
# with 100 disks sends 20 KB.
_PART_BYTES_MAXIMUM: Final = 64 * 1024
_SIZE: Final = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)\s*([kKmMgGtTpP]?)(i?)([bB]?)", re.ASCII)
_ENVIRONMENT_WIDTHS: Final = {
    field.name: field.max_length for field in Environment._meta.local_fields if field.max_length
}
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


class BadLayout(Exception):
    """An invalid value; `pointer` is its JSON pointer."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a document.

    read: returns its value from what was sent and its JSON pointer, or raises BadLayout. schema: JSON Schema of what to
    send; `read` accepts more, such as numbers and flags as text.
    """

    read: Callable[[Any, str], Any]
    schema: Mapping[str, Any]


def describe_object(fields: Mapping[str, Field], **more: Any) -> dict[str, Any]:
    """Return the JSON Schema of an object with these fields."""
    properties = {name: dict(field.schema) for name, field in fields.items()}
    return {"type": "object", "properties": properties, **more}


def read_target(given: Mapping[str, Any], *, pointer: str = "/target") -> dict[str, Any]:
    """Return a value or None for every target field; an unknown name is rejected, as it would create a new series."""
    values = read_members(given, TARGET, pointer)
    return {"target_name" if name == "name" else name: value for name, value in values.items()}


def read_members(given: Any, fields: Mapping[str, Field], pointer: str) -> dict[str, Any]:
    """Return the value of every field of an object, as if null where omitted; an unknown member is rejected."""
    if not isinstance(given, Mapping):
        raise BadLayout(pointer, f"expected an object, not {_name_type(given)}")
    for name in given:
        if name not in fields:
            raise BadLayout(
                f"{pointer}/{name}", f"{name[:80]!r} is not a member of it. Available: {', '.join(fields)}"
            )
    return {name: field.read(given.get(name), f"{pointer}/{name}") for name, field in fields.items()}


def read_labels(given: Mapping[str, Any], *, pointer: str = "/labels") -> dict[str, str]:
    """Return the labels as text; at most 50, each value at most 500 characters."""
    if len(given) > _LABEL_COUNT_MAXIMUM:
        raise BadLayout(pointer, f"{len(given)} labels exceed the maximum of {_LABEL_COUNT_MAXIMUM}")
    labels = {}
    for name, value in given.items():
        where = f"{pointer}/{name[:80]}"
        if not name or len(name) > _LABEL_NAME_MAXIMUM or "\x00" in name:
            raise BadLayout(where, f"a label name must have 1 to {_LABEL_NAME_MAXIMUM} characters")
        text = read_text(value if value is not None else "", where, maximum=_LABEL_LENGTH_MAXIMUM)
        labels[name] = text or ""
    return labels


def read_environment(given: Mapping[str, Any], *, pointer: str = "/environment") -> dict[str, Any]:
    """Return a value or None for every environment field; all others go to `facts`."""
    values: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for name, value in given.items():
        if name == "facts":
            facts.update(read_facts(value, f"{pointer}/facts"))
        elif name in ENVIRONMENT:
            values[name] = ENVIRONMENT[name].read(value, f"{pointer}/{name}")
        else:
            facts.update(read_facts({name: value}, pointer))
    check_part(facts, f"{pointer}/facts")
    return {name: values.get(name) for name in ENVIRONMENT if name != "facts"} | {"facts": facts}


def read_text(value: Any, pointer: str, *, maximum: int) -> str | None:
    """Return text without surrounding space, None for null or nothing; numbers and flags become text."""
    if value is None:
        return None
    if isinstance(value, bool):
        value = "1" if value else "0"
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise BadLayout(pointer, f"expected text, not {_name_type(value)}")
    if "\x00" in value:
        raise BadLayout(pointer, "the text has a NUL character, which cannot be stored: remove it")
    text = value.strip()
    if len(text) > maximum:
        raise BadLayout(pointer, f"{len(text)} characters exceed the maximum of {maximum}")
    return text or None


def read_size(value: Any, pointer: str) -> int | None:
    """Return bytes from a whole number or text: 500GiB, 500G and 500g are ×1024³, 500GB is ×1000³."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadLayout(pointer, f"expected a size in bytes (4096, 4k, 500GiB), not {_name_type(value)}")
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise BadLayout(
            pointer, f"{str(value)[:80]!r} is not a valid size: use bytes (4096) or a unit (4k, 500GiB)"
        )
    number, unit, binary, byte = match.groups()
    base = 1000 if unit and byte and not binary else 1024
    size = (
        float(number) * base ** _POWERS[unit.lower()]
        if "." in number
        else int(number) * base ** _POWERS[unit.lower()]
    )
    if size > _SIZE_MAXIMUM:
        raise BadLayout(pointer, f"{str(value)[:80]} exceeds the maximum of 4 EiB")
    return int(size)


def read_count(value: Any, pointer: str) -> int | None:
    """Return a whole number from 0 to 2³¹ − 1, also written as text ("8") or with k or M (×1000: IOPS)."""
    if value is None or value == "":
        return None
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    digits = text[:-1] if factor > 1 else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadLayout(pointer, f"expected a whole number, not {excerpt(value)}")
    if len(digits) > 10 or int(digits) * factor > _INTEGER_MAXIMUM:
        raise BadLayout(pointer, f"{text[:80]} exceeds the maximum of {_INTEGER_MAXIMUM}")
    return int(digits) * factor


def read_facts(given: Any, pointer: str, depth: int = 0) -> dict[str, Any]:
    """Return free facts as text and lists of text by name, at most 5 levels deep; raises BadLayout."""
    if not isinstance(given, Mapping):
        raise BadLayout(pointer, f"expected an object, not {_name_type(given)}")
    if depth > 4 or len(given) > 500:
        raise BadLayout(pointer, "facts exceed 5 levels or 500 entries")
    facts: dict[str, Any] = {}
    for name, value in given.items():
        where = f"{pointer}/{name[:80]}"
        if "\x00" in name or len(name) > _FACT_NAME_MAXIMUM:
            raise BadLayout(
                where, f"a name must have at most {_FACT_NAME_MAXIMUM} characters, and no NUL character"
            )
        if isinstance(value, Mapping):
            facts[name] = read_facts(value, where, depth + 1)
        elif isinstance(value, list):
            facts[name] = [read_text(part, where, maximum=_FACT_MAXIMUM) for part in value[:500]]
        else:
            facts[name] = read_text(value, where, maximum=_FACT_MAXIMUM)
    return facts


def check_part(value: Any, pointer: str) -> None:
    """Raise BadLayout if a value has more than 64 KiB as JSON."""
    size = len(orjson.dumps(value))
    if size > _PART_BYTES_MAXIMUM:
        raise BadLayout(pointer, f"{size} bytes of JSON exceed the maximum of {_PART_BYTES_MAXIMUM}")


def _describe_text(maximum: int) -> dict[str, Any]:
    return {"type": ["string", "null"], "maxLength": maximum}


def _make_target_text(field: str) -> Field:
    maximum, dimension = _TEXT_MAXIMUM[field], DIMENSIONS[field]

    def read(value: Any, pointer: str) -> str | None:
        text = read_text(value, pointer, maximum=maximum)
        return text and normalize_value(dimension, text)

    return Field(read, _describe_text(maximum))


def _make_environment_text(name: str) -> Field:
    def read(value: Any, pointer: str) -> str | None:
        return _cut(read_text(value, pointer, maximum=_FACT_MAXIMUM), _ENVIRONMENT_WIDTHS[name])

    return Field(read, _describe_text(_FACT_MAXIMUM))


_SIZE_FIELD: Final = Field(
    read_size,
    {
        "type": ["integer", "string", "null"],
        "minimum": 0,
        "maximum": _SIZE_MAXIMUM,
        "description": "bytes; as text also with a unit: 500GiB",
    },
)
_COUNT_FIELD: Final = Field(
    read_count,
    {
        "type": ["integer", "string", "null"],
        "minimum": 0,
        "maximum": _INTEGER_MAXIMUM,
        "description": "a number; as text also with k or M: 16k",
    },
)
# The fields of a target by their names in documents: that of `target_name` is "name".
TARGET: Final[Mapping[str, Field]] = {
    "name" if field == "target_name" else field: _SIZE_FIELD
    if field.endswith("_bytes")
    else _make_target_text(field)
    if field in _TEXT_MAXIMUM
    else _COUNT_FIELD
    for field in TARGET_FIELDS
}
TARGET_SCHEMA: Final = describe_object(
    TARGET,
    description="the storage under test; null or omitted if unknown, never guessed",
    additionalProperties=False,
)
LABELS_SCHEMA: Final = {
    "type": "object",
    "propertyNames": {"minLength": 1, "maxLength": _LABEL_NAME_MAXIMUM},
    "additionalProperties": {"type": "string", "maxLength": _LABEL_LENGTH_MAXIMUM},
    "maxProperties": _LABEL_COUNT_MAXIMUM,
}


ENVIRONMENT: Final[Mapping[str, Field]] = {
    name: Field(read_facts, {"type": "object", "description": "other facts, by name"})
    if name == "facts"
    else _SIZE_FIELD
    if name == "memory_bytes"
    else _COUNT_FIELD
    if name == "cpu_count"
    else _make_environment_text(name)
    for name in ENVIRONMENT_FIELDS
}
ENVIRONMENT_SCHEMA: Final = describe_object(ENVIRONMENT)


def _cut(text: str | None, width: int) -> str | None:
    return text[:width] if text else None


def excerpt(value: Any) -> str:
    """Return untrusted input for a message: at most 80 characters, never the content of nested values."""
    return repr(value)[:80] if value is None or isinstance(value, str | int | float) else _name_type(value)


def _name_type(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "a flag",
        float: "a fraction",
        int: "a number",
    }
    return names.get(type(value), "null")
