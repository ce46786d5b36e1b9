"""The API reference: pages of operations and types from the document that the API serves.

`/docs/api/reference` lists all operations, `/docs/api/reference/TAG` describes those of one resource, and
`/docs/api/reference/types` the types of bodies. Anchors are operation ids and names of types, and so stable.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from drf_spectacular.generators import SchemaGenerator

from benchapp.overview.pages.docs.pages import (
    API_REFERENCE_PATH,
    DocumentationPage,
    make_page,
    render_sentence,
    write_code_block,
)

Json = Mapping[str, Any]
TYPES_NAME: Final = "types"
_METHODS: Final = ("get", "post", "put", "patch", "delete")
# How the document marks the parameters that are terms of the filter language: forty of each list.
_TERM_MARK: Final = "a term of `q`"
# The lines that drf-spectacular adds to a parameter with an enumeration, which its type repeats.
_ENUM_LINE: Final = re.compile(r"^\* `.*$", re.MULTILINE)
_SAMPLES: Final = {
    "date-time": "2026-11-21T12:00:00Z",
    "date": "2026-11-21",
    "uuid": "6f1cbb2e-9d3e-4a55-8d0a-111111111111",
    "uri": "https://bench.example.com",
    "email": "anna@example.org",
}
_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("exclusiveMinimum", "above {}"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "pattern {}"),
)


@dataclass(frozen=True, slots=True)
class ReferenceField:
    """A parameter, or a member of a type. place: path, query or header; "" for a member."""

    name: str
    place: str
    type: SafeString
    is_required: bool
    description: SafeString
    example: str


@dataclass(frozen=True, slots=True)
class ReferenceOperation:
    """An operation.

    terms: parameters that are terms of the filter language; description: "" if the summary has all of it.
    """

    id: str
    tag: str
    method: str
    path: str
    summary: str
    summary_html: SafeString
    description: SafeString
    needs_token: bool
    curl: SafeString
    parameters: tuple[ReferenceField, ...]
    terms: tuple[ReferenceField, ...]
    bodies: tuple[dict[str, Any], ...]
    responses: tuple[dict[str, Any], ...]

    @property
    def url(self) -> str:
        """Return the URL of its description."""
        return f"{API_REFERENCE_PATH}/{self.tag}#{self.id}"


@cache
def read_reference() -> dict[str, DocumentationPage]:
    """Return the pages of the OpenAPI document by the last part of their URL, "" for the list of all operations."""
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    operations = list_operations(document)
    tags = {
        tag: [each for each in operations if each.tag == tag] for tag in {each.tag for each in operations}
    }
    pages = {
        "": _make("", "API reference", "_api_index.html", {"tags": sorted(tags.items())}),
        TYPES_NAME: _make(TYPES_NAME, "API types", "_api_types.html", {"types": list_types(document)}),
    }
    for tag, described in sorted(tags.items()):
        pages[tag] = _make(tag, f"API: {tag}", "_api_operations.html", {"operations": described})
    return pages


def _make(name: str, title: str, template: str, context: dict[str, Any]) -> DocumentationPage:
    url = f"{API_REFERENCE_PATH}/{name}" if name else API_REFERENCE_PATH
    context |= {"reference_url": API_REFERENCE_PATH, "types_name": TYPES_NAME}
    # Templates escape.
    return make_page(url, title, mark_safe(render_to_string(f"overview/docs/{template}", context)))  # noqa: S308


def list_operations(document: Json) -> tuple[ReferenceOperation, ...]:
    """Return all operations in the order of paths and methods."""
    return tuple(
        _describe_operation(document, path, method, operation=operations[method])
        for path, operations in document["paths"].items()
        for method in _METHODS
        if method in operations
    )


def list_types(document: Json) -> tuple[tuple[str, SafeString, tuple[ReferenceField, ...]], ...]:
    """Return name, description and members of all types, by name. A type without members has what it is made of."""
    schemas: Json = document["components"]["schemas"]
    return tuple(
        (
            name,
            render_sentence(schemas[name].get("description", ""))
            if "properties" in schemas[name]
            else format_type(schemas[name]),
            _list_members(schemas[name]),
        )
        for name in sorted(schemas)
    )


def _list_members(schema: Json) -> tuple[ReferenceField, ...]:
    required = schema.get("required", ())
    return tuple(
        ReferenceField(
            name,
            "",
            format_type(member),
            name in required,
            render_sentence(member.get("description", "")),
            _format_value(member["example"]) if "example" in member else "",
        )
        for name, member in schema.get("properties", {}).items()
    )


def _describe_operation(document: Json, path: str, method: str, *, operation: Json) -> ReferenceOperation:
    parameters = [_describe_parameter(each) for each in operation.get("parameters", ())]
    described = [each.get("description", "") for each in operation.get("parameters", ())]
    description = operation.get("description", "")
    content = operation.get("requestBody", {}).get("content", {})
    return ReferenceOperation(
        id=operation["operationId"],
        tag=operation["tags"][0],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        summary_html=render_sentence(operation["summary"]),
        description=render_sentence("" if description.rstrip(".") == operation["summary"] else description),
        needs_token=bool(operation.get("security")),
        curl=write_code_block(
            make_curl_command(document, path, method, operation=operation),
            code_id=f"curl-{operation['operationId']}",
        ),
        parameters=tuple(
            each for each, text in zip(parameters, described, strict=True) if _TERM_MARK not in text
        ),
        terms=tuple(each for each, text in zip(parameters, described, strict=True) if _TERM_MARK in text),
        bodies=_list_bodies(document, content, f"body-{operation['operationId']}"),
        responses=tuple(
            {
                "status": str(status),
                "description": render_sentence(response.get("description", "")),
                "bodies": _list_bodies(
                    document, response.get("content", {}), f"{operation['operationId']}-{status}"
                ),
            }
            for status, response in operation["responses"].items()
        ),
    )


def _describe_parameter(parameter: Json) -> ReferenceField:
    text = parameter.get("description", "")
    if "enum" in parameter["schema"]:
        text = _ENUM_LINE.sub("", text)
    return ReferenceField(
        parameter["name"],
        parameter["in"],
        format_type(parameter["schema"]),
        parameter.get("required", False),
        render_sentence(text.strip()),
        _format_value(parameter["example"]) if "example" in parameter else "",
    )


def _list_bodies(document: Json, content: Json, place: str) -> tuple[dict[str, Any], ...]:
    found = []
    for number, (media_type, described) in enumerate(content.items()):
        example: SafeString | str = ""
        if media_type.endswith("json") and described.get("schema", {}).get("type") != "string":
            sample = find_sample(document, described)
            example = write_code_block(
                json.dumps(sample, indent=2, ensure_ascii=False), code_id=f"{place}-{number}"
            )
        found.append(
            {"media_type": media_type, "type": format_type(described.get("schema", {})), "example": example}
        )
    return tuple(found)


def make_curl_command(document: Json, path: str, method: str, *, operation: Json) -> str:
    """Return a curl command: required parameters with their examples, ids as variables of the shell."""
    query = "&".join(
        f"{each['name']}={_format_value(each['example'])}"
        for each in operation.get("parameters", ())
        if each["in"] == "query" and each.get("required") and "example" in each
    )
    url = "$BENCHAPP_URL" + re.sub(r"{(\w+)}", lambda found: f"${found[1].upper()}", path)
    parts = ["curl -fsS"]
    if operation.get("security"):
        parts.append('-H "Authorization: Bearer $BENCHAPP_TOKEN"')
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        body = json.dumps(find_sample(document, content["application/json"]), ensure_ascii=False)
        parts.append(f"--json {shlex.quote(body)}")
    elif content:
        parts.append(f'-H "Content-Type: {next(iter(content))}" --data-binary @FILE')
    # Both options of a body make it a POST.
    if method.upper() != ("POST" if content else "GET"):
        parts.append(f"-X {method.upper()}")
    parts.append(f'"{url}{"?" if query else ""}{query}"')
    return " ".join(parts)


def find_sample(document: Json, content: Json) -> Any:
    """Return the example of a body: that of the document, else one made from its type."""
    return content["example"] if "example" in content else make_sample(document, content.get("schema", {}))


def make_sample(document: Json, schema: Json, *, parents: Sequence[str] = ()) -> Any:
    """Return a value of a type, with all members; the first of several values or types. parents: types around it."""
    for key in ("example", "const", "default"):
        if key in schema:
            return schema[key]
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        # A type within itself ends here: empty is valid in a list and in an object without required members.
        return (
            {}
            if name in parents
            else make_sample(document, document["components"]["schemas"][name], parents=(*parents, name))
        )
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return make_sample(document, schema[key][0], parents=parents)
    if "allOf" in schema:
        return {
            name: value
            for part in schema["allOf"]
            for name, value in make_sample(document, part, parents=parents).items()
        }
    kinds = schema.get("type", "object")
    kind = kinds if isinstance(kinds, str) else next((each for each in kinds if each != "null"), "null")
    if kind == "object":
        members = {
            name: make_sample(document, member, parents=parents)
            for name, member in schema.get("properties", {}).items()
        }
        rest = schema.get("additionalProperties")
        if not members and isinstance(rest, Mapping):
            members["name"] = make_sample(document, rest, parents=parents)
        return members
    if kind == "array":
        parts = schema.get("prefixItems") or [schema.get("items", {})]
        return [make_sample(document, part, parents=parents) for part in parts]
    return _make_scalar(kind, schema)


def _make_scalar(kind: str, schema: Json) -> Any:
    if kind == "string":
        return _SAMPLES.get(schema.get("format", ""), "string")
    if kind in ("integer", "number"):
        return schema.get("minimum", 1 if kind == "integer" else 1.0)
    return False if kind == "boolean" else None


def format_type(schema: Json) -> SafeString:
    """Return a type in words, with its values, bounds and default, and links to the types that it is made of."""
    text = _name_type(schema)
    notes = [wording.format(schema[key]) for key, wording in _BOUNDS if key in schema]
    # drf-spectacular states it of enumerations, too.
    if "minLength" in schema and "enum" not in schema:
        notes.insert(
            0, "not empty" if schema["minLength"] == 1 else f"at least {schema['minLength']} characters"
        )
    if schema.get("default", "") != "":
        notes.append(f"default {_format_value(schema['default'])}")
    return format_html("{}; {}", text, ", ".join(notes)) if notes else text


def _name_type(schema: Json) -> SafeString:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return format_html('<a href="{}/{}#{}">{}</a>', API_REFERENCE_PATH, TYPES_NAME, name, name)
    for key, word in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if key in schema:
            return format_html_join(mark_safe(word), "{}", ((format_type(part),) for part in schema[key]))  # noqa: S308
    if "enum" in schema:
        return format_html_join(
            ", ", "<code>{}</code>", ((_format_value(value),) for value in schema["enum"])
        )
    if "const" in schema:
        return format_html("<code>{}</code>", _format_value(schema["const"]))
    kinds = schema.get("type", "any value")
    return format_html_join(
        " or ", "{}", ((_name_kind(kind, schema),) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    )


def _name_kind(kind: str, schema: Json) -> SafeString:
    if kind == "array" and "prefixItems" in schema:
        return format_html(
            "array of {}",
            format_html_join(", ", "{}", ((format_type(each),) for each in schema["prefixItems"])),
        )
    if kind == "array":
        return format_html("array of {}", format_type(schema.get("items", {})))
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return format_html("object of {}", format_type(schema["additionalProperties"]))
    if kind == "string" and "format" in schema:
        return format_html("string ({})", schema["format"])
    return format_html("{}", kind)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
