"""Parse the envelope that the agent posts: command, fio output, target and environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson

from benchapp.fio.logs import split_log_name
from benchapp.pipeline.intake.metadata import (
    BadLayout,
    excerpt,
    read_environment,
    read_facts,
    read_labels,
    read_target,
    read_text,
)

SCHEMA: Final = "benchapp-envelope/1"
_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ARGV_MAXIMUM: Final = 200
_OUTPUT_EXCERPT: Final = 64 * 1024
_LOGS_MAXIMUM: Final = 200


class BadEnvelope(Exception):
    """An invalid envelope. code: stable; pointer: JSON pointer of the error, if any."""

    def __init__(self, code: str, message: str, pointer: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class Envelope:
    """Context of the fio output as sent; times are aware UTC by the host's clock.

    conditions: facts that differ from run to run (load, extents of the file), unlike the environment.
    logs: fio logs by file name ("NAME_bw.1.log").
    """

    id: UUID
    agent_version: str
    profile: str
    started_at: datetime | None
    finished_at: datetime | None
    command: dict[str, Any]
    fio_output: str
    target: dict[str, Any]
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
            f"kind is {excerpt(document.get('kind'))}. Valid kinds: 'fio', 'reported'",
            "/kind",
        )
    output = document.get("fio_output")
    if not isinstance(output, str):
        raise BadEnvelope(
            "envelope-invalid", "fio_output must be text, exactly as fio printed it", "/fio_output"
        )
    try:
        return Envelope(
            id=_read_uuid(document.get("id"), "/id"),
            agent_version=_read_agent_version(document.get("agent")),
            profile=read_profile(document.get("profile"), "/profile"),
            started_at=read_time(document.get("started_at"), "/started_at"),
            finished_at=read_time(document.get("finished_at"), "/finished_at"),
            command=_read_command(_read_object(document, "command")),
            fio_output=output,
            target=read_target(_read_object(document, "target")),
            labels=read_labels(_read_object(document, "labels")),
            environment=read_environment(_read_object(document, "environment")),
            conditions=read_facts(_read_object(document, "conditions"), "/conditions"),
            sweep_id=_read_uuid(sweep, "/sweep") if (sweep := document.get("sweep")) is not None else None,
            logs=_read_logs(_read_object(document, "logs")),
        )
    except BadLayout as error:
        raise BadEnvelope("envelope-invalid", str(error), error.pointer) from error


def read_profile(value: Any, pointer: str) -> str:
    """Return the profile name, "" without one."""
    text = read_text(value, pointer, maximum=100) or ""
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


def _read_object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadLayout(f"/{name}", f"{name} must be an object")
    return value


def _read_uuid(value: Any, pointer: str) -> UUID:
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise BadLayout(pointer, f"{excerpt(value)} is not a valid UUID") from None


def _read_agent_version(value: Any) -> str:
    version = value.get("version") if isinstance(value, dict) else None
    return (read_text(version, "/agent/version", maximum=1000) or "")[:50]


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


def _read_command(given: Mapping[str, Any]) -> dict[str, Any]:
    argv = given.get("argv") or []
    if not isinstance(argv, list) or len(argv) > _ARGV_MAXIMUM:
        raise BadLayout("/command/argv", f"argv must be a list of at most {_ARGV_MAXIMUM} texts")
    return {
        "argv": [_keep(part) for part in argv],
        "exit_status": _read_status(given.get("exit_status"), "/command/exit_status"),
        "signal": _read_status(given.get("signal"), "/command/signal"),
        "stderr": _keep(given.get("stderr")),
        "jobfile": _keep(given.get("jobfile")),
    }


def _read_status(value: Any, pointer: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**31:
        raise BadLayout(pointer, f"expected a whole number, not {excerpt(value)}")
    return value


def _keep(value: Any) -> str:
    """Return untrusted text, truncated and without NUL characters, which PostgreSQL cannot store."""
    text = value if isinstance(value, str) else "" if value is None else excerpt(value)
    return text.replace("\x00", "\ufffd")[:_OUTPUT_EXCERPT]
