"""The operations of the OpenAPI document that post results: their views are not of DRF."""

import json
from typing import Any, Final

from benchapp.framework.api.answers import ReceiptAnswer
from benchapp.framework.api.openapi import TOKEN_SCHEME, Json, describe_answers
from benchapp.framework.api.problems import ProblemAnswer
from benchapp.intake.api.batch import BatchAnswer, RefusedBatchAnswer
from benchapp.intake.api.posting.validation import ValidationAnswer
from benchapp.intake.posts.envelope import describe_envelope
from benchapp.intake.posts.metadata import TARGET


def add_intake_paths(result: Json, **kwargs: Any) -> Json:
    """Add the POST of results, and the format of all errors."""
    components = result.setdefault("components", {})
    components.setdefault("securitySchemes", {})["token"] = TOKEN_SCHEME
    components.setdefault("schemas", {}).update(
        **describe_answers([ProblemAnswer, ReceiptAnswer, BatchAnswer, RefusedBatchAnswer, ValidationAnswer]),
        ReceiptOrValidation={
            "oneOf": [
                {"$ref": f"#/components/schemas/{kind.__name__}"}
                for kind in (ReceiptAnswer, ValidationAnswer)
            ]
        },
        Envelope=describe_envelope(),
    )
    paths = result["paths"]
    paths.setdefault("/api/v1/submissions", {})["post"] = _POST_SUBMISSION
    paths.setdefault("/api/v1/submissions/batch", {})["post"] = _POST_BATCH
    paths.setdefault("/api/v1/fio", {})["post"] = _POST_FIO
    return result


def _query(name: str, description: str) -> Json:
    return {"in": "query", "name": name, "schema": {"type": "string"}, "description": description}


_BYTES: Final[Json] = {"type": "string", "format": "binary"}


def _refer(name: str) -> Json:
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}


def _post(
    operation_id: str,
    summary: str,
    description: str,
    *,
    content: Json,
    parameters: list[Json],
    responses: Json,
) -> Json:
    return {
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
        "security": [{"token": []}],
        "responses": responses,
    }


_KEY: Final[Json] = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "format": "uuid"},
}
_VALIDATE: Final[Json] = {
    "in": "query",
    "name": "validate",
    "schema": {"type": "string", "enum": ["1"]},
    "description": "tell which series the result would join, with its badges; nothing is stored;"
    " up to 2 MiB, uncompressed",
}
_RESPONSES: Final[Json] = {
    "202": {"description": "committed; Location is the URL of its state", **_refer("ReceiptAnswer")},
    "200": {
        "description": "received before: Idempotency-Replayed is true; or the answer to validate=1",
        **_refer("ReceiptOrValidation"),
    },
}
_ENVELOPE: Final[Json] = {
    "schema": "benchapp-envelope/1",
    "id": "6f1cbb2e-9d3e-4a55-8d0a-111111111111",
    "kind": "fio",
    "profile": "quick",
    "started_at": "2026-11-21T10:00:00Z",
    "fio_output": '{"fio version": "fio-3.33", "jobs": []}',
    "target": {"volume_type": "gp3", "volume_count": 4, "filesystem": "xfs"},
    "labels": {"branch": "main"},
}
_POST_SUBMISSION: Final = _post(
    "create_submission",
    "Post what an agent measured",
    "By a host's own token; Content-Encoding gzip is taken. Same id and body again: 200. Same id, other body: 409."
    " A run without a result has kind `attempt`, id, profile, target_name, started_at, reason_code and reason.",
    content={"application/json": {"schema": {"$ref": "#/components/schemas/Envelope"}, "example": _ENVELOPE}},
    parameters=[_KEY, _VALIDATE],
    responses=_RESPONSES,
)
_POST_BATCH: Final = _post(
    "create_submissions",
    "Post up to 200 results",
    "A document per line (NDJSON), each as for POST /submissions and stored byte for byte. By a host's own token;"
    " Content-Encoding gzip is taken. A refused line does not prevent the others.",
    content={"application/x-ndjson": {"schema": _BYTES, "example": f"{json.dumps(_ENVELOPE)}\n"}},
    parameters=[],
    responses={
        "200": {"description": "all are committed, now or before", **_refer("BatchAnswer")},
        "207": {"description": "some lines are refused; the others are committed", **_refer("BatchAnswer")},
        "422": {
            "description": "no line was taken: `items` has the reason of each",
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/RefusedBatchAnswer"}}
            },
        },
    },
)
_POST_FIO: Final = _post(
    "create_submission_of_fio",
    "Post what fio printed",
    "`fio --output-format=json+ job.fio | curl --data-binary @- …`; text and terse, of any version, as well, and what"
    " the shell's `time` says of the small-files test. Labels are parameters of the form label.NAME.",
    content={"application/octet-stream": {"schema": _BYTES}},
    parameters=[
        _KEY,
        _VALIDATE,
        _query("profile", "name of the job set"),
        _query("started_at", "RFC 3339; where the output does not say it"),
        _query(
            "time_zone", "of the dates in text output, such as Europe/Berlin; UTC without it, with a warning"
        ),
        *(_query(name, "of the target; sizes also as 500GiB") for name in TARGET),
    ],
    responses=_RESPONSES,
)
