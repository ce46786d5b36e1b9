"""The OpenAPI document: types of answers, formats, tokens. `posting/operations.py` adds the POST of results."""

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

from benchapp.api.framework.answers import ApiAnswer, ChosenColumns
from benchapp.api.framework.json import dump_json

Json = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
# RFC 6750.
TOKEN_SCHEME: Final[Json] = {"type": "http", "scheme": "bearer", "bearerFormat": "bench_…"}


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
        return dict(TOKEN_SCHEME)


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
