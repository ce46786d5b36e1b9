"""The envelope: the JSON document that is posted; its bytes never change once created."""

from __future__ import annotations

import gzip
import json
import sys
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

from agent import __version__
from agent.exit_codes import AgentError, ConfigurationError
from agent.programs import find_installation, find_own_command
from agent.quantities import format_time, parse_count, parse_size
from agent.redaction import remove_from_document

if TYPE_CHECKING:
    from agent.delivery.spool import DroppedResults
    from agent.measuring.fio import FioResult

SCHEMA = "benchapp-envelope/1"
# Fields of the target with the maximum length of text; None for numbers.
TARGET_FIELDS: Mapping[str, Optional[int]] = {
    "name": 200,
    "volume_type": 100,
    "volume_size_bytes": None,
    "volume_count": None,
    "provisioned_iops": None,
    "raid_level": 20,
    "stripe_count": None,
    "chunk_size_bytes": None,
    "filesystem": 50,
    "mount_options": 1000,
    "instance_type": 100,
}
_ALIASES = {"volume_size": "volume_size_bytes", "chunk_size": "chunk_size_bytes"}
_REASON_MAXIMUM = 500
_LABEL_COUNT_MAXIMUM = 50
_LABEL_NAME_MAXIMUM = 100
_LABEL_MAXIMUM = 500


def make_envelope(
    envelope_id: str,
    result: FioResult,
    *,
    profile: str,
    jobfile: str,
    target: Mapping[str, Any],
    targets: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
    environment: Mapping[str, Any],
    conditions: Mapping[str, Any] | None = None,
    logs: Mapping[str, str] | None = None,
    sweep: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    failure: str | None = None,
    dropped: DroppedResults | None = None,
) -> dict[str, Any]:
    """Return the envelope as documented in the API, without secrets; unknown values are null, logs are optional.

    targets: what fio opened, with the storage under each. environment: facts that many runs share; conditions:
    observations of this run only. parameters: of the profile, those that differ from their default, in base units; None
    for a custom job file. failure: why the run failed. dropped: from the spool.
    """
    container = environment.get("facts", {}).get("container")
    envelope = {
        "schema": SCHEMA,
        "id": envelope_id,
        "kind": "fio",
        "agent": {
            "version": __version__,
            "python": python_version(),
            "installation": find_installation(find_own_command(), container=container),
            "dropped_results": dropped.count if dropped else 0,
            "last_dropped_at": dropped.last_at if dropped else None,
        },
        "profile": profile,
        "parameters": None if parameters is None else dict(parameters),
        "started_at": format_time(result.started_at),
        "finished_at": format_time(result.finished_at),
        "command": {
            "argv": list(result.argv),
            "exit_status": result.exit_status,
            "signal": result.signal,
            "failure": failure,
            "stderr": result.stderr,
            "jobfile": jobfile,
        },
        "fio_output": result.stdout,
        "target": {name: target.get(name) for name in TARGET_FIELDS},
        "targets": [dict(each) for each in targets],
        "labels": dict(labels),
        "environment": dict(environment),
        "conditions": dict(conditions or {}),
        "sweep": sweep,
    }
    if logs:
        envelope["logs"] = dict(logs)
    cleaned: dict[str, Any] = remove_from_document(envelope)
    return cleaned


def make_attempt(attempt_id: str, reason: AgentError, *, started_at: float, **names: str) -> dict[str, Any]:
    """Return the envelope of a run that could not start or was skipped; names: profile, target_name, kernel_name."""
    attempt: dict[str, Any] = remove_from_document(
        {
            "schema": SCHEMA,
            "kind": "attempt",
            "id": attempt_id,
            "agent": {"version": __version__},
            "started_at": format_time(started_at),
            "reason_code": reason.reason_code,
            "reason": str(reason)[:_REASON_MAXIMUM],
            **names,
        }
    )
    return attempt


def python_version() -> str:
    """Return the version of the interpreter: 3.11.7."""
    return ".".join(str(part) for part in sys.version_info[:3])


def pack_envelope(envelope: Mapping[str, Any]) -> bytes:
    """Return gzip of UTF-8 JSON; the same envelope gives the same bytes.

    Bytes of a path that are not valid UTF-8 become "?": JSON parsers reject lone surrogates.
    """
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)


def read_target(given: Mapping[str, str]) -> dict[str, Any]:
    """Return typed fields of the target; an empty value means unknown.

    Invalid values are rejected here, before hours of measuring, not later by the server.
    """
    target: dict[str, Any] = {}
    for name, text in given.items():
        field = _ALIASES.get(name, name)
        if field not in TARGET_FIELDS:
            raise ConfigurationError(
                f"unknown target field {name!r}; available: {', '.join(TARGET_FIELDS)}; use --label for others"
            )
        try:
            target[field] = _read_field(field, text.strip()) if text.strip() else None
        except ValueError as error:
            raise ConfigurationError(f"target {name}={text}: {error}") from None
    return target


def check_labels(given: Mapping[str, str]) -> dict[str, str]:
    """Return the labels, or raise ConfigurationError if the server would reject them."""
    if len(given) > _LABEL_COUNT_MAXIMUM:
        raise ConfigurationError(f"{len(given)} labels exceed the maximum of {_LABEL_COUNT_MAXIMUM}")
    for name, value in given.items():
        if not 0 < len(name) <= _LABEL_NAME_MAXIMUM:
            raise ConfigurationError(f"label {name[:80]!r}: a name has 1 to {_LABEL_NAME_MAXIMUM} characters")
        if len(value) > _LABEL_MAXIMUM:
            raise ConfigurationError(
                f"label {name}: {len(value)} characters exceed the maximum of {_LABEL_MAXIMUM}"
            )
    return dict(given)


def _read_field(field: str, text: str) -> Any:
    maximum = TARGET_FIELDS[field]
    if maximum is not None:
        if len(text) > maximum:
            raise ValueError(f"{len(text)} characters exceed the maximum of {maximum}")
        return text
    return parse_size(text) if field.endswith("_bytes") else parse_count(text)
