"""Read the body of a POST of results: envelope, published document, or fio output with its layout."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl
from uuid import UUID

from benchapp.framework.api.problems import Problem, bad_parameter
from benchapp.intake.api.body import Body, Wire
from benchapp.intake.api.hints import SUBMISSIONS, refuse_wrapped, suggest_address
from benchapp.intake.posts.envelope import (
    BadEnvelope,
    is_attempt,
    load_document,
    type_attempt,
    type_envelope,
)
from benchapp.intake.posts.format_check import Fault, check_format_quickly
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.published_document import is_reported, read_reported
from benchapp.intake.posts.query_parameters import BadParameter, read_parameters
from benchapp.intake.posts.submissions import IncomingSubmission
from benchapp.models import Attempt, Kind

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


@dataclass(frozen=True, slots=True)
class ReadPost:
    """What a POST asks for. is_validated: tell what it would become, and store nothing; its format is not checked."""

    submission: IncomingSubmission
    is_validated: bool


def read_post(post: Post, body: Body, host_id: int) -> ReadPost | Attempt:
    """Return the submission of one POST, or a run without a result; raises Problem 400, 415 or 422."""
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
    return ReadPost(submission, is_validated)


def refuse_fault(fault: Fault | None) -> None:
    """Raise Problem 422 if a text is not the output of fio."""
    if fault is not None:
        raise Problem(422, fault.code, "No fio output", fault.detail)


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
    target_name = values.pop("target_name") or ""
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
