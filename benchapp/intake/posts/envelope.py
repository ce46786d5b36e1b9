"""Parse the envelope that the agent posts, and the query parameters of a bare fio output."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID
from zoneinfo import available_timezones

import orjson

from benchapp.catalog.dimensions import LABEL_PREFIX
from benchapp.fio.logs import split_log_name
from benchapp.fio.redaction import remove_secrets
from benchapp.intake.posts.metadata import (
    ENVIRONMENT,
    ENVIRONMENT_SCHEMA,
    LABELS_SCHEMA,
    TARGET,
    TARGET_SCHEMA,
    BadLayout,
    Field,
    check_part,
    describe_object,
    excerpt,
    read_environment,
    read_facts,
    read_labels,
    read_members,
    read_target,
    read_text,
)

SCHEMA: Final = "benchapp-envelope/1"
_PROFILE_MAXIMUM: Final = 100
_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_STATUS_MAXIMUM: Final = 2**31
_ARGV_MAXIMUM: Final = 200
_OUTPUT_EXCERPT: Final = 64 * 1024
_LOGS_MAXIMUM: Final = 200
_PARAMETERS_MAXIMUM: Final = 50
_PARAMETER_MAXIMUM: Final = 4096
_TARGETS_MAXIMUM: Final = 64
_PATH_MAXIMUM: Final = 4096
_CODE: Final = re.compile(r"[a-z][a-z0-9-]{0,49}")
_REASON_MAXIMUM: Final = 500
_DEVICE_CLASSES: Final = ("nvme", "ssd", "hdd", "network", "memory")


class BadEnvelope(Exception):
    """An invalid envelope. code: stable; pointer: JSON pointer of the error, if any."""

    def __init__(self, code: str, message: str, pointer: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class SendingAgent:
    """The agent that sent a result; "" for what is unknown. installation: deb, container, …

    dropped_count: results that its full spool dropped so far; dropped_at: the last time, by the clock of the host.
    """

    version: str = ""
    installation: str = ""
    dropped_count: int = 0
    dropped_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """Context of the fio output as sent; times are aware UTC by the host's clock.

    conditions: facts that differ from run to run (load, extents of the file), unlike the environment.
    logs: fio logs by file name ("NAME_bw.1.log"). parameters: of the profile, in base units, those that differ from
    their default; None if the agent did not report them. targets: what fio opened, each with a value or None for the
    members of `TARGETS`.
    """

    id: UUID
    agent: SendingAgent
    profile: str
    parameters: dict[str, int | str] | None
    started_at: datetime | None
    finished_at: datetime | None
    command: dict[str, Any]
    fio_output: str
    target: dict[str, Any]
    targets: tuple[dict[str, Any], ...]
    labels: dict[str, str]
    environment: dict[str, Any]
    conditions: dict[str, Any]
    sweep_id: UUID | None
    logs: dict[str, str]


def read_envelope(body: bytes) -> Envelope:
    """Return the typed envelope; BadEnvelope names the first error and its position."""
    return type_envelope(load_document(body))


def type_envelope(document: Mapping[str, Any]) -> Envelope:
    """Return the envelope of a parsed document, as `read_envelope` does."""
    if document.get("schema") != SCHEMA:
        raise BadEnvelope(
            "envelope-schema", f"schema is {excerpt(document.get('schema'))}, not {SCHEMA!r}", "/schema"
        )
    if document.get("kind") != "fio":
        raise BadEnvelope(
            "envelope-kind",
            f"kind is {excerpt(document.get('kind'))}. Valid kinds: 'fio', 'reported', 'attempt'",
            "/kind",
        )
    output = document.get("fio_output")
    if not isinstance(output, str):
        raise BadEnvelope(
            "envelope-invalid", "fio_output must be text, exactly as fio printed it", "/fio_output"
        )
    try:
        values = {name: field.read(document.get(name), f"/{name}") for name, field in _FIELDS.items()}
    except BadLayout as error:
        raise BadEnvelope("envelope-invalid", str(error), error.pointer) from error
    return Envelope(sweep_id=values.pop("sweep"), fio_output=output, **values)


def is_attempt(document: Mapping[str, Any]) -> bool:
    """Return whether a document reports a run without a result."""
    return document.get("schema") == SCHEMA and document.get("kind") == "attempt"


def type_attempt(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed members of an attempt; BadEnvelope names the first error and its position."""
    try:
        return {name: field.read(document.get(name), f"/{name}") for name, field in _ATTEMPT.items()}
    except BadLayout as error:
        raise BadEnvelope("envelope-invalid", str(error), error.pointer) from error


def describe_envelope() -> dict[str, Any]:
    """Return the JSON Schema of an envelope, from the fields that `type_envelope` reads."""
    checked_first = {
        "schema": {"type": "string", "enum": [SCHEMA]},
        "kind": {"type": "string", "enum": ["fio"]},
        "fio_output": {"type": "string", "description": "exact standard output of fio"},
    }
    schema = describe_object(_FIELDS, required=["schema", "id", "kind", "fio_output"])
    return schema | {"properties": checked_first | schema["properties"]}


def describe_attempt() -> dict[str, Any]:
    """Return the JSON Schema of an attempt, from the fields that `type_attempt` reads, with an example."""
    checked_first = {
        "schema": {"type": "string", "enum": [SCHEMA]},
        "kind": {"type": "string", "enum": ["attempt"]},
    }
    schema = describe_object(_ATTEMPT, required=["schema", "kind", "id", "started_at", "reason_code"])
    example = {
        "schema": SCHEMA,
        "kind": "attempt",
        "id": "6f1cbb2e-9d3e-4a55-8d0a-222222222222",
        "profile": "quick",
        "target_name": "/data",
        "started_at": "2026-11-21T10:00:00Z",
        "reason_code": "no-space",
        "reason": "/data has 1.2 GiB free; the profile needs 4 GiB",
    }
    return schema | {"properties": checked_first | schema["properties"], "example": example}


def read_profile(value: Any, pointer: str) -> str:
    """Return the profile name, "" without one."""
    text = read_text(value, pointer, maximum=_PROFILE_MAXIMUM) or ""
    if text and not _PROFILE.fullmatch(text):
        raise BadLayout(
            pointer,
            f"{text!r} is not a valid profile name: use letters, digits, dots, hyphens and underscores",
        )
    return text


def read_time(value: Any, pointer: str) -> datetime | None:
    """Return an aware UTC time from RFC 3339 text; a time without a zone is rejected."""
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise BadLayout(pointer, f"{excerpt(value)} is not a valid time: use 2026-11-21T10:00:00Z") from None
    if moment.tzinfo is None:
        raise BadLayout(pointer, f"{value[:80]!r} has no time zone: add Z or an offset")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise BadLayout(pointer, f"{value[:80]!r} is outside of the calendar") from None


def load_document(body: bytes) -> dict[str, Any]:
    """Return the body as a JSON object. Raises BadEnvelope."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadEnvelope(
            "envelope-not-json",
            f"the body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}",
        ) from error
    if not isinstance(document, dict):
        raise BadEnvelope("envelope-invalid", "the body must be one JSON object, an envelope", "")
    return document


def _part(read: Callable[[Mapping[str, Any]], Any], schema: Mapping[str, Any]) -> Field:
    """Return a field whose value is an object; omitted or null it is an empty one."""

    def read_part(value: Any, pointer: str) -> Any:
        if value is not None and not isinstance(value, dict):
            raise BadLayout(pointer, f"{pointer.removeprefix('/')} must be an object")
        return read(value or {})

    return Field(read_part, {**schema, "type": ["object", "null"]})


def _read_uuid(value: Any, pointer: str) -> UUID:
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise BadLayout(pointer, f"{excerpt(value)} is not a valid UUID") from None


def _read_sweep(value: Any, pointer: str) -> UUID | None:
    return None if value is None else _read_uuid(value, pointer)


def _read_agent(value: Any, pointer: str) -> SendingAgent:
    given = value if isinstance(value, dict) else {}
    version, installation = (
        read_text(given.get(name), f"{pointer}/{name}", maximum=1000) or ""
        for name in ("version", "installation")
    )
    dropped = _read_status(given.get("dropped_results"), f"{pointer}/dropped_results") or 0
    return SendingAgent(
        version=version[:50],
        installation=installation[:20],
        dropped_count=max(dropped, 0),
        dropped_at=read_time(given.get("last_dropped_at"), f"{pointer}/last_dropped_at"),
    )


def _read_logs(given: Mapping[str, Any]) -> dict[str, str]:
    if len(given) > _LOGS_MAXIMUM:
        raise BadLayout("/logs", f"{len(given)} logs exceed the maximum of {_LOGS_MAXIMUM}")
    for name, text in given.items():
        pointer = f"/logs/{name[:200].replace('~', '~0').replace('/', '~1')}"
        if split_log_name(name) is None:
            raise BadLayout(
                pointer,
                f"{excerpt(name)} is not a valid name of a fio log: use NAME_bw.1.log, _iops, _lat, _clat or _slat",
            )
        if not isinstance(text, str):
            raise BadLayout(pointer, f"log {name} must be text, exactly as fio wrote it")
    return dict(given)


def _read_parameters(value: Any, pointer: str) -> dict[str, int | str] | None:
    """Return the parameters of a profile: whole numbers and text by name."""
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > _PARAMETERS_MAXIMUM:
        raise BadLayout(pointer, f"expected an object with at most {_PARAMETERS_MAXIMUM} members")
    for name, each in value.items():
        where = f"{pointer}/{name[:80].replace('~', '~0').replace('/', '~1')}"
        read_text(name, where, maximum=_PARAMETER_MAXIMUM)
        if isinstance(each, bool) or not isinstance(each, int | str):
            raise BadLayout(where, f"expected a whole number or text, not {excerpt(each)}")
        read_text(each, where, maximum=_PARAMETER_MAXIMUM)
    check_part(value, pointer)
    return dict(value)


def _read_targets(value: Any, pointer: str) -> tuple[dict[str, Any], ...]:
    entries = [] if value is None else value
    if not isinstance(entries, list) or len(entries) > _TARGETS_MAXIMUM:
        raise BadLayout(pointer, f"targets must be a list of at most {_TARGETS_MAXIMUM} objects")
    targets = tuple(read_members(entry, TARGETS, f"{pointer}/{index}") for index, entry in enumerate(entries))
    check_part(targets, pointer)
    return targets


def _read_path(value: Any, pointer: str) -> str:
    path = read_text(value, pointer, maximum=_PATH_MAXIMUM) or ""
    if not path.startswith("/"):
        raise BadLayout(pointer, f"{path[:80]!r} is not an absolute path")
    return path


def _read_device(value: Any, pointer: str) -> dict[str, Any] | None:
    return None if value is None else read_members(value, _DEVICE, pointer)


def _read_device_class(value: Any, pointer: str) -> str | None:
    if value is None or value in _DEVICE_CLASSES:
        return value and str(value)
    raise BadLayout(
        pointer, f"{excerpt(value)} is not a valid device class. Available: {', '.join(_DEVICE_CLASSES)}"
    )


def _read_start(value: Any, pointer: str) -> datetime:
    moment = read_time(value, pointer)
    if moment is None:
        raise BadLayout(pointer, "started_at is required: use 2026-11-21T10:00:00Z")
    return moment


def _read_code(value: Any, pointer: str) -> str:
    if not isinstance(value, str) or not _CODE.fullmatch(value):
        raise BadLayout(pointer, f"{excerpt(value)} is not a valid code: use lowercase letters and hyphens")
    return value


def _read_reason(value: Any, pointer: str) -> str:
    return remove_secrets(read_text(value, pointer, maximum=_REASON_MAXIMUM) or "")


def _read_command(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: field.read(given.get(name), f"/command/{name}") for name, field in _COMMAND.items()}


def _read_argv(value: Any, pointer: str) -> list[str]:
    argv = value or []
    if not isinstance(argv, list) or len(argv) > _ARGV_MAXIMUM:
        raise BadLayout(pointer, f"argv must be a list of at most {_ARGV_MAXIMUM} texts")
    kept = [_keep(part) for part in argv]
    check_part(kept, pointer)
    return kept


def _read_conditions(given: Mapping[str, Any]) -> dict[str, Any]:
    conditions = read_facts(given, "/conditions")
    check_part(conditions, "/conditions")
    return conditions


def _read_status(value: Any, pointer: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _STATUS_MAXIMUM:
        raise BadLayout(pointer, f"expected a whole number, not {excerpt(value)}")
    return value


def _keep(value: Any) -> str:
    """Return untrusted text, truncated and without NUL characters, which PostgreSQL cannot store."""
    text = value if isinstance(value, str) else "" if value is None else excerpt(value)
    return text.replace("\x00", "\ufffd")[:_OUTPUT_EXCERPT]


def _text(maximum: int, **more: str) -> Field:
    return Field(
        lambda value, pointer: read_text(value, pointer, maximum=maximum),
        {"type": ["string", "null"], "maxLength": maximum, **more},
    )


_TIME: Final = {"type": ["string", "null"], "format": "date-time"}
_STATUS: Final = Field(
    _read_status, {"type": ["integer", "null"], "minimum": -_STATUS_MAXIMUM, "maximum": _STATUS_MAXIMUM}
)
_TRUNCATED: Final = Field(lambda value, pointer: _keep(value), {"type": ["string", "null"]})
_COMMAND: Final[Mapping[str, Field]] = {
    "argv": Field(
        _read_argv,
        {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": _ARGV_MAXIMUM},
    ),
    "exit_status": _STATUS,
    "signal": _STATUS,
    "failure": Field(
        lambda value, pointer: _keep(value),
        {"type": ["string", "null"], "description": "why the run failed; null: it did not"},
    ),
    "stderr": _TRUNCATED,
    "jobfile": _TRUNCATED,
}
_LAYOUT: Final = {name: field for name, field in TARGET.items() if name not in ("name", "instance_type")}
_DEVICE: Final[Mapping[str, Field]] = {
    "kernel_name": _text(100),
    "identifier": _text(200),
    "model": _text(200),
    "class": Field(_read_device_class, {"enum": [*_DEVICE_CLASSES, None]}),
}
# The members of an entry of `targets`.
TARGETS: Final[Mapping[str, Field]] = {
    "path": Field(
        _read_path, {"type": "string", "pattern": "^/", "maxLength": _PATH_MAXIMUM, "example": "/data/file"}
    ),
    "mount_point": _text(_PATH_MAXIMUM),
    "device": Field(
        _read_device,
        {
            **describe_object(_DEVICE, additionalProperties=False),
            "type": ["object", "null"],
            "description": "identifier: by-id or wwn name, or a hash of the serial; stable across restarts",
        },
    ),
    "layout": Field(
        lambda value, pointer: read_members({} if value is None else value, _LAYOUT, pointer),
        {**describe_object(_LAYOUT, additionalProperties=False), "type": ["object", "null"]},
    ),
    "memory_filesystem": _text(50),
}
# Besides schema, kind and fio_output, which have separate error codes.
_FIELDS: Final[Mapping[str, Field]] = {
    "id": Field(
        _read_uuid,
        {"type": "string", "format": "uuid", "description": "created once; the same on every retry"},
    ),
    "agent": Field(
        _read_agent,
        {
            "type": "object",
            "properties": {
                "version": {"type": "string"},
                "python": {"type": "string"},
                "installation": {
                    "type": ["string", "null"],
                    "description": "checkout, container, deb, rpm, wheel or zipapp; chooses the update command",
                },
                "dropped_results": {
                    "type": ["integer", "null"],
                    "minimum": 0,
                    "maximum": _STATUS_MAXIMUM,
                    "description": "that the full spool of the host dropped so far",
                },
                "last_dropped_at": _TIME,
            },
        },
    ),
    "profile": Field(
        read_profile,
        {
            "type": ["string", "null"],
            "maxLength": _PROFILE_MAXIMUM,
            "pattern": f"^({_PROFILE.pattern})?$",
        },
    ),
    "parameters": Field(
        _read_parameters,
        {
            "type": ["object", "null"],
            "additionalProperties": {"type": ["integer", "string"]},
            "maxProperties": _PARAMETERS_MAXIMUM,
            "description": "of the profile, in base units, if they differ from their default",
        },
    ),
    "started_at": Field(read_time, _TIME),
    "finished_at": Field(read_time, _TIME),
    "command": _part(_read_command, describe_object(_COMMAND)),
    "target": _part(read_target, TARGET_SCHEMA),
    "targets": Field(
        _read_targets,
        {
            "type": ["array", "null"],
            "items": describe_object(TARGETS, required=["path"], additionalProperties=False),
            "maxItems": _TARGETS_MAXIMUM,
            "description": "files, directories and devices that fio opened, with the storage under each",
        },
    ),
    "labels": _part(read_labels, LABELS_SCHEMA),
    "environment": _part(read_environment, ENVIRONMENT_SCHEMA),
    "conditions": _part(
        _read_conditions,
        {"description": "facts of this run only, by name: load_before, extents, knee_iops, …"},
    ),
    "sweep": Field(_read_sweep, {"type": ["string", "null"], "format": "uuid"}),
    "logs": _part(
        _read_logs,
        {
            "additionalProperties": {"type": "string"},
            "maxProperties": _LOGS_MAXIMUM,
            "description": "fio's logs by file name: NAME_bw.1.log, _iops, _lat, _clat, _slat",
        },
    ),
}
_ATTEMPT: Final[Mapping[str, Field]] = {
    "id": _FIELDS["id"],
    "profile": _FIELDS["profile"],
    "target_name": _text(200),
    "kernel_name": _text(200, description="of a raw device, which has this name in a pool"),
    "started_at": Field(_read_start, {"type": "string", "format": "date-time"}),
    "reason_code": Field(_read_code, {"type": "string", "pattern": f"^{_CODE.pattern}$"}),
    "reason": Field(_read_reason, {"type": ["string", "null"], "maxLength": _REASON_MAXIMUM}),
}


_ENVIRONMENT_NAMES: Final = (
    "kernel",
    "scheduler",
    "device_model",
    "device_firmware",
    "device_driver",
    "device_class",
    "governor",
)
RELABELED: Final = (*TARGET, *_ENVIRONMENT_NAMES, "profile")
"""The parameters of a post that a relabeling corrects, besides labels."""


class BadParameter(Exception):
    """A query parameter that is unknown or given twice; `code` is stable."""

    def __init__(self, code: str, parameter: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.parameter = parameter


def read_parameters(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return {target, labels, environment, profile, started_at, time_zone} as plain values to store.

    Raises BadParameter, or BadLayout for an invalid value.
    """
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise BadParameter("parameter-repeated", name, f"parameter {name[:80]!r} is given twice")
        given[name] = value
    refuse_unknown_names(given)
    started_at = read_time(given.get("started_at"), "started_at")
    return {
        "target": read_target({name: given[name] for name in TARGET if name in given}, pointer=""),
        "labels": read_labels(
            {
                name.removeprefix(LABEL_PREFIX): value
                for name, value in given.items()
                if name.startswith(LABEL_PREFIX)
            },
            pointer="",
        ),
        "environment": read_environment(
            {name: given[name] for name in _ENVIRONMENT_NAMES if name in given}, pointer=""
        ),
        "profile": read_profile(given.get("profile"), "profile"),
        "started_at": started_at.isoformat() if started_at else None,
        "time_zone": _read_time_zone(given.get("time_zone", "")),
    }


def _read_time_zone(name: str) -> str | None:
    """Return the name of a time zone of IANA, in which text output prints its dates; None without one."""
    if not name:
        return None
    if name not in available_timezones():
        raise BadParameter(
            "time-zone-unknown",
            "time_zone",
            f"time_zone {name[:80]!r} is unknown: write it as Europe/Berlin or UTC",
        )
    return name


def read_changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a relabeling by parameter, as a post would state them; None: not stated.

    Raises BadParameter, or BadLayout for an invalid value.
    """
    refuse_unknown_names(given, known=RELABELED)
    return {name: _read_change(name, value) for name, value in given.items()}


def _read_change(name: str, value: Any) -> Any:
    part, member = locate_parameter(name)
    try:
        if part == "labels":
            return None if value is None else read_labels({member: value})[member]
        return (
            read_profile(value, name) if part == "run" else {**ENVIRONMENT, **TARGET}[name].read(value, name)
        )
    except BadLayout as error:
        raise BadLayout(name, f"{name}: {error}") from error


def locate_parameter(name: str) -> tuple[str, str]:
    """Return the part of a result that a parameter states, and its member: ("target", "volume_type")."""
    if name.startswith(LABEL_PREFIX):
        return "labels", name.removeprefix(LABEL_PREFIX)
    if name in TARGET:
        return "target", "target_name" if name == "name" else name
    return ("environment" if name in ENVIRONMENT else "run"), name


def refuse_unknown_names(
    names: Iterable[str],
    *,
    known: Collection[str] = (*RELABELED, "started_at", "time_zone"),
    skipped: Collection[str] = (),
) -> None:
    """Raise BadParameter for a name that is neither known nor label.NAME; skipped: valid without effect."""
    known = {*known, *skipped}
    for name in names:
        if name not in known and not name.startswith(LABEL_PREFIX):
            raise BadParameter(
                "parameter-unknown",
                name,
                f"parameter {name[:80]!r} is unknown. Available: {', '.join(sorted(known))} and label.NAME",
            )
