"""Read the body of a POST of results: envelope, published document, or fio output with its layout."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import UUID

import orjson

from benchapp.framework.api.problems import Problem, bad_parameter
from benchapp.intake.api.body import Body, Wire
from benchapp.intake.importing.discovery import is_archive
from benchapp.intake.posts.envelope import (
    BadEnvelope,
    BadParameter,
    is_attempt,
    load_document,
    read_parameters,
    type_attempt,
    type_envelope,
)
from benchapp.intake.posts.format_check import Fault, check_format_quickly, is_document
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.published_document import is_reported, read_reported
from benchapp.intake.posts.submissions import IncomingSubmission
from benchapp.models import Attempt, Host, Kind

SUBMISSIONS: Final = "/api/v1/submissions"
FIO: Final = "/api/v1/fio"
BATCH: Final = "/api/v1/submissions/batch"
PATHS: Final = (SUBMISSIONS, FIO, BATCH)

_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
}
_MULTIPART: Final = re.compile(rb"\s*--[^\r\n]*\r?\ncontent-(?:disposition|type):", re.IGNORECASE)
# fio's output has a character before the first "=" that no name of a field has, or a space behind it.
_FORM: Final = re.compile(rb"\s*[\w.%+-]+=\S*\s*")
_AS_BODY: Final = "send the file alone as the body (curl --data-binary @FILE)"
_LAYOUT: Final = "the layout as query parameters"


def refuse_wrapped(path: str, body: bytes) -> None:
    """Raise Problem 415 for a compressed body without the header, an archive, and a form.

    fio's output is found in the last two, but folders and the layout in other fields would be lost.
    """
    if is_archive(body):
        raise _wrap(
            "the body is an archive: post each file alone, or use manage.py import or the page Uploads"
        )
    for magic, name in _PACKED.items():
        if body.startswith(magic):
            remedy = (
                "send the header Content-Encoding: gzip" if name == "gzip" else "send it plain or as gzip"
            )
            raise _wrap(f"the body is {name}: {remedy}")
    if _MULTIPART.match(body) or _FORM.fullmatch(body):
        target = f", and {_LAYOUT}" if path == FIO else ""
        raise _wrap(f"the body is a form: {_AS_BODY}{target}")


def suggest_address(body: bytes) -> str:
    """Return what to do with a body that is no document, to append to the reason; "" if that is not known."""
    content = _load(body)
    if isinstance(content, list):
        return f"; send one document, or up to 200, one per line, to {BATCH}"
    if is_document(body):
        has_lines = content is None and _load(body.lstrip().partition(b"\n")[0]) is not None
        return f"; send several documents, one per line, to {BATCH}" if has_lines else ""
    if isinstance(content, dict):
        is_output = not content.keys().isdisjoint(("fio version", "jobs", "client_stats"))
    else:
        is_output = check_format_quickly(body) is None
    return f"; this is the output of fio: post it to {FIO}, {_LAYOUT}" if is_output else ""


def suggest_lines(body: bytes) -> str:
    """Return what to do with a batch whose lines are no documents; "" if that is not known."""
    content = _load(body)
    if isinstance(content, list):
        return "; the body is a JSON list: send its documents one per line (jq -c '.[]')"
    if is_document(body):
        is_one = isinstance(content, dict) and b"\n" in body.strip()
        return (
            f"; the body is one document: post it to {SUBMISSIONS}, or as one line (jq -c .)"
            if is_one
            else ""
        )
    return suggest_address(body)


def _wrap(detail: str) -> Problem:
    return Problem(415, "body-wrapped", "Wrong kind of body", f"{detail}; nothing was stored")


def _load(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


_VALIDATE: Final = "validate"
# Results are larger: their JSON is not parsed twice.
_ATTEMPT_BYTES_MAXIMUM: Final = 8 * 1024
_NO_DOCUMENT: Final = ("envelope-not-json", "envelope-invalid", "envelope-schema")


@dataclass(frozen=True, slots=True)
class Post:
    """One request with its complete body."""

    path: str
    query: str
    headers: Mapping[str, str]
    wire: Wire


def read_post(post: Post, body: Body, host_id: int) -> tuple[IncomingSubmission, bool] | Attempt:
    """Return the submission of one POST, or a run without a result; raises Problem 400, 415 or 422.

    And whether it is validated: tell what it would become, and store nothing; then its format is not checked.
    """
    if not body.unpacked.strip():
        raise Problem(
            400,
            "body-empty",
            "Empty body",
            "the body is empty: was the file written, did fio print anything?",
        )
    refuse_wrapped(post.path, body.unpacked)
    key = _read_idempotency_key(post.headers.get("idempotency-key"))
    pairs = parse_qsl(post.query, keep_blank_values=True)
    is_validated = any(name == _VALIDATE for name, _ in pairs)
    if is_validated:
        _check_validate([value for name, value in pairs if name == _VALIDATE])
        pairs = [pair for pair in pairs if pair[0] != _VALIDATE]
    if post.path == SUBMISSIONS:
        refuse_query_parameters(pairs, valid=(_VALIDATE,))
        attempt = None if is_validated else _read_attempt(body.unpacked, host_id)
        if attempt is not None:
            return attempt
        kind, document_id = read_document(body.unpacked, key)
        submission = IncomingSubmission(host_id, kind, body.unpacked, document_id, body.packed)
    else:
        submission = _read_output(pairs, body, host_id, key=key)
    if submission.kind == Kind.FIO and not is_validated:
        refuse_fault(check_format_quickly(body.unpacked))
    return submission, is_validated


def refuse_fault(fault: Fault | None) -> None:
    """Raise Problem 422 if a text is not the output of fio."""
    if fault is not None:
        raise Problem(422, fault.code, fault.title, fault.detail)


def refuse_query_parameters(pairs: list[tuple[str, str]], *, valid: tuple[str, ...] = ()) -> None:
    """Refuse query parameters: a sender that expects one to have an effect would store what it did not mean to."""
    for name, _ in pairs:
        known = f"the valid parameter is {valid[0]}" if valid else "this resource has no parameters"
        raise Problem(
            400,
            "parameter-unknown",
            "Unknown query parameter",
            f"unknown parameter {name[:80]!r}; {known}; nothing was stored",
            pointer=name[:80],
            valid=valid,
        )


def read_document(body: bytes, key: UUID | None) -> tuple[Kind, UUID]:
    """Return kind and id of a document: agent envelope or published results; raises Problem 400 or 422."""
    try:
        document = load_document(body)
        if is_reported(document):
            kind, document_id = Kind.REPORTED, read_reported(document).id
        else:
            kind, document_id = Kind.ENVELOPE, type_envelope(document).id
    except BadEnvelope as error:
        raise _refuse_document(error, body) from error
    if key is not None and key != document_id:
        raise Problem(
            422,
            "idempotency-key-differs",
            "Two ids",
            f"Idempotency-Key {key} and document id {document_id} differ: they must be equal",
            pointer="/id",
        )
    return kind, document_id


def _refuse_document(error: BadEnvelope, body: bytes) -> Problem:
    status = 400 if error.code == "envelope-not-json" else 422
    # A document that declares its schema is meant to be one.
    hint = suggest_address(body) if error.code in _NO_DOCUMENT else ""
    return Problem(status, error.code, "Bad document", f"{error}{hint}", pointer=error.pointer)


def _read_attempt(body: bytes, host_id: int) -> Attempt | None:
    """Return a run without a result, not saved; None for other bodies."""
    if len(body) > _ATTEMPT_BYTES_MAXIMUM or b"attempt" not in body:
        return None
    try:
        document = load_document(body)
        if not is_attempt(document):
            return None
        values = type_attempt(document)
    except BadEnvelope as error:
        raise _refuse_document(error, body) from error
    target_name, kernel_name = values.pop("target_name") or "", values.pop("kernel_name")
    # As runs are named.
    if kernel_name and Host.objects.filter(pk=host_id).exclude(pool="").exists():
        target_name = kernel_name
    return Attempt(sender_id=values.pop("id"), host_id=host_id, target_name=target_name, **values)


def _check_validate(values: list[str]) -> None:
    if len(values) > 1:
        raise Problem(
            400,
            "parameter-repeated",
            "Bad query parameter",
            "parameter 'validate' is given twice",
            pointer=_VALIDATE,
        )
    if values[0] != "1":
        raise bad_parameter(
            _VALIDATE, f"{values[0][:80]!r} is not valid: use validate=1, or leave it out to store the result"
        )


def _read_output(
    pairs: list[tuple[str, str]], body: Body, host_id: int, *, key: UUID | None
) -> IncomingSubmission:
    try:
        parameters = read_parameters(pairs)
    except BadParameter as error:
        raise Problem(400, error.code, "Bad query parameter", str(error), pointer=error.parameter) from error
    except BadLayout as error:
        raise Problem(
            400, "parameter-invalid", "Bad query parameter", str(error), pointer=error.pointer
        ) from error
    return IncomingSubmission(host_id, Kind.FIO, body.unpacked, key, body.packed, parameters)


def _read_idempotency_key(value: str | None) -> UUID | None:
    if value is None:
        return None
    try:
        return UUID(value.strip().strip('"'))
    except ValueError:
        raise Problem(
            400,
            "idempotency-key-invalid",
            "Bad Idempotency-Key",
            f"Idempotency-Key {value[:80]!r} is not a valid UUID",
        ) from None
