"""The parts of the OpenAPI document that are not derived from views: intake (outside Django), tokens, errors."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Any, Final

from django.db import models
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from msgspec.json import schema_components

from benchapp.api.framework.answers import ApiAnswer, ChosenColumns, ReceiptAnswer
from benchapp.api.framework.json import dump_json
from benchapp.api.framework.problems import ProblemAnswer
from benchapp.models import ENVIRONMENT_FIELDS, TARGET_FIELDS

Json = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """The document and its version."""

    body: dict[str, object]
    etag: str


@cache
def make_schema() -> SchemaDocument:
    """Generate the OpenAPI document, once: it takes as long as a hundred other requests."""
    body = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return SchemaDocument(body, f'W/"{hashlib.sha256(dump_json(body)).hexdigest()[:24]}"')


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Bearer tokens in the document."""

    target_class = "benchapp.api.framework.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> Json:
        """Return the scheme of RFC 6750."""
        return _TOKEN


class AnswerExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Types of answers in the document."""

    target_class = ApiAnswer
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: Any) -> str:
        """Return the name of the component."""
        return str(self.target.__name__)

    def get_identity(self, auto_schema: AutoSchema, direction: Any) -> str:
        """Return what all components of the type have in common: names are unique."""
        return str(self.target.__name__)

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Json:
        """Return the schema of a type; register those of the types in it."""
        components = describe_answers([self.target])
        own = components.pop(self.target.__name__)
        for name, schema in components.items():
            component = ResolvedComponent(  # type: ignore[no-untyped-call]
                name=name, type=ResolvedComponent.SCHEMA, object=name, schema=schema
            )
            auto_schema.registry.register_on_missing(component)
        return own


def describe_answers(kinds: Sequence[type]) -> dict[str, Json]:
    """Return the schemas of types and of all types in them, by name."""
    _, components = schema_components(kinds, schema_hook=_describe_choices, ref_template=_REF)
    for kind in _list_subclasses(ChosenColumns):
        components.get(kind.__name__, {}).pop("required", None)
    return {name: _simplify(schema) for name, schema in components.items()}


def in_formats(page: Any, lines: str) -> dict[tuple[int, str], Any]:
    """Return the responses of a list with the parameter `format`; lines: what CSV and NDJSON have."""
    text = OpenApiResponse(OpenApiTypes.STR, lines)
    return {
        (200, "application/json"): page,
        (200, "text/csv"): text,
        (200, "application/x-ndjson"): text,
    }


def _describe_choices(kind: type) -> Json:
    if issubclass(kind, models.TextChoices):
        return {"type": "string", "enum": list(kind.values)}
    raise NotImplementedError(f"{kind} has no schema")


def _list_subclasses(kind: type[ApiAnswer]) -> Iterator[type[ApiAnswer]]:
    for each in kind.__subclasses__():
        yield each
        yield from _list_subclasses(each)


def _simplify(schema: Any) -> Any:
    """Write null into the type and the enumeration of a schema, descriptions as lines, and leave out titles."""
    if isinstance(schema, list):
        return [_simplify(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: _simplify(part) for name, part in schema.items() if name != "title" or isinstance(part, dict)
    }
    if "description" in found and isinstance(found["description"], str):
        found["description"] = cleandoc(found["description"])
    kinds = found.get("anyOf", [])
    if len(kinds) == 2 and kinds[1] == {"type": "null"} and isinstance(kinds[0].get("type"), str):
        del found["anyOf"]
        found |= kinds[0] | {"type": [kinds[0]["type"], "null"]}
        if "enum" in found:
            found["enum"] = [*found["enum"], None]
    return found


def add_intake_paths(result: Json, **kwargs: Any) -> Json:
    """Add POST /api/v1/submissions and POST /api/v1/fio, and the format of all errors."""
    components = result.setdefault("components", {})
    components.setdefault("securitySchemes", {})["token"] = _TOKEN
    components.setdefault("schemas", {}).update(
        **describe_answers([ProblemAnswer, ReceiptAnswer]), Envelope=_ENVELOPE
    )
    paths = result["paths"]
    paths.setdefault("/api/v1/submissions", {})["post"] = _POST_SUBMISSION
    paths.setdefault("/api/v1/fio", {})["post"] = _POST_FIO
    for path, operations in paths.items():
        for operation in operations.values():
            operation["responses"].setdefault("default", _ERROR)
            operation["tags"] = [path.removeprefix("/api/v1/").partition("/")[0] or "index"]
    result["paths"] = dict(sorted(paths.items()))
    return result


def _nullable(kind: str, **more: Any) -> Json:
    return {"type": [kind, "null"], **more}


def _object(properties: Json, *, required: tuple[str, ...] = (), **more: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
        **more,
    }


def _query(name: str, description: str) -> Json:
    return {"in": "query", "name": name, "schema": {"type": "string"}, "description": description}


_TOKEN: Final[Json] = {"type": "http", "scheme": "bearer", "bearerFormat": "bench_…"}
_TEXT: Final[Json] = {"type": "string"}

_ERROR: Final[Json] = {
    "description": "a problem; 429 and 503 have Retry-After",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}},
}
_TARGET_KINDS: Final = {"volume_count": "integer", "provisioned_iops": "integer", "stripe_count": "integer"}
_TARGET: Final = _object(
    {
        ("name" if field == "target_name" else field): _nullable(
            "integer" if field.endswith("_bytes") else _TARGET_KINDS.get(field, "string")
        )
        for field in TARGET_FIELDS
    },
    description="the storage under test; null or omitted if unknown, never guessed",
    additionalProperties=False,
)
_ENVELOPE: Final = _object(
    {
        "schema": {"type": "string", "enum": ["benchapp-envelope/1"]},
        "id": {"type": "string", "format": "uuid", "description": "created once; the same on every retry"},
        "kind": {"type": "string", "enum": ["fio"]},
        "agent": _object({"version": _TEXT, "python": _TEXT}),
        "profile": _nullable("string", maxLength=100),
        "started_at": _nullable("string", format="date-time"),
        "finished_at": _nullable("string", format="date-time"),
        "command": _object(
            {
                "argv": {"type": "array", "items": _TEXT},
                "exit_status": _nullable("integer"),
                "signal": _nullable("integer"),
                "stderr": _nullable("string"),
                "jobfile": _nullable("string"),
            }
        ),
        "fio_output": {"type": "string", "description": "exact standard output of fio"},
        "target": _TARGET,
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "environment": _object({name: {} for name in ENVIRONMENT_FIELDS if name != "fio_version"}),
        "conditions": {
            "type": "object",
            "description": "facts of this run only, by name: load_before, extents, knee_iops, …",
        },
        "sweep": _nullable("string", format="uuid"),
        "logs": {
            "type": "object",
            "additionalProperties": _TEXT,
            "maxProperties": 200,
            "description": "fio's logs by file name: NAME_bw.1.log, _iops, _lat, _clat, _slat",
        },
    },
    required=("schema", "id", "kind", "fio_output"),
)


def _post(
    operation_id: str, summary: str, description: str, *, content: Json, parameters: list[Json]
) -> Json:
    receipt = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ReceiptAnswer"}}}}
    key = {"in": "header", "name": "Idempotency-Key", "schema": {"type": "string", "format": "uuid"}}
    return {
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "parameters": [key, *parameters],
        "requestBody": {"required": True, "content": content},
        "security": [{"token": []}],
        "responses": {
            "202": {"description": "committed; Location is the URL of its state", **receipt},
            "200": {"description": "received before: Idempotency-Replayed is true", **receipt},
        },
    }


_POST_SUBMISSION: Final = _post(
    "create_submission",
    "Post what an agent measured.",
    "By a host's own token; Content-Encoding gzip is taken. Same id and body again: 200. Same id, other body: 409.",
    content={"application/json": {"schema": {"$ref": "#/components/schemas/Envelope"}}},
    parameters=[],
)
_POST_FIO: Final = _post(
    "create_submission_of_fio",
    "Post what fio printed.",
    "`fio --output-format=json+ job.fio | curl --data-binary @- …`; text and terse, of any version, as well, and what"
    " the shell's `time` says of the small-files test. Labels are parameters of the form label.NAME.",
    content={"application/json": {"schema": {}}, "text/plain": {"schema": _TEXT}},
    parameters=[
        _query("profile", "name of the job set"),
        _query("started_at", "RFC 3339; where the output does not say it"),
        *(
            _query("name" if field == "target_name" else field, "of the target; sizes also as 500GiB")
            for field in TARGET_FIELDS
        ),
    ],
)
