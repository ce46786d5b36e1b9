"""What a body is that cannot be taken as it was posted, and what to post where."""

import re
from typing import Any, Final

import orjson

from benchapp.framework.api.problems import Problem
from benchapp.intake.posts.format_check import check_format_quickly, is_document

SUBMISSIONS: Final = "/api/v1/submissions"
FIO: Final = "/api/v1/fio"
BATCH: Final = "/api/v1/submissions/batch"
PATHS: Final = (SUBMISSIONS, FIO, BATCH)

_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
_MULTIPART: Final = re.compile(rb"\s*--[^\r\n]*\r?\ncontent-(?:disposition|type):", re.IGNORECASE)
# fio's output has a character before the first "=" that no name of a field has, or a space behind it.
_FORM: Final = re.compile(rb"\s*[\w.%+-]+=\S*\s*")
_AS_BODY: Final = "send the file alone as the body (curl --data-binary @FILE)"
_LAYOUT: Final = "the layout as query parameters"


def refuse_wrapped(path: str, body: bytes) -> None:
    """Raise Problem 415 for a compressed body without the header, and for a form.

    fio's output is found in a form, but a layout in its other fields would be lost.
    """
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
