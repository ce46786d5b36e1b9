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
from benchapp.pipeline.intake.envelope import describe_envelope
from benchapp.pipeline.intake.metadata import TARGET

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
        **describe_answers([ProblemAnswer, ReceiptAnswer]), Envelope=describe_envelope()
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


def _query(name: str, description: str) -> Json:
    return {"in": "query", "name": name, "schema": {"type": "string"}, "description": description}


_TOKEN: Final[Json] = {"type": "http", "scheme": "bearer", "bearerFormat": "bench_…"}
_TEXT: Final[Json] = {"type": "string"}

_ERROR: Final[Json] = {
    "description": "a problem; 429 and 503 have Retry-After",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}},
}


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
        *(_query(name, "of the target; sizes also as 500GiB") for name in TARGET),
    ],
)
