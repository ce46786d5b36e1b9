"""The API reference against the OpenAPI document."""

import json
import re
import shlex
from typing import Any

import pytest
from django.test import Client
from jsonschema import Draft202012Validator

from benchapp.framework.api.openapi import make_schema
from benchapp.overview.pages.docs.api_reference import (
    format_type,
    list_operations,
    make_curl_command,
    make_sample,
)
from benchapp.overview.pages.docs.views import read_reference_page
from tests.pages import Page


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return make_schema()[0]


def list_described(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return path, method and description of all operations."""
    return [
        (path, method, each)
        for path, operations in document["paths"].items()
        for method, each in operations.items()
    ]


def test_every_operation_has_an_anchor_in_the_list_of_its_tag(document) -> None:
    index = read_reference_page("")
    operations = list_operations(document)

    assert len(operations) == len(list_described(document))
    assert index is not None
    for operation in operations:
        page = read_reference_page(operation.tag)
        assert page is not None
        assert operation.id in page.anchors
        assert operation.url in index.html


def test_every_type_has_an_anchor_and_every_link_to_a_type_leads_to_one(document) -> None:
    types = read_reference_page("types")
    assert types is not None
    links = {
        anchor
        for tag in {each.tag for each in list_operations(document)} | {"types"}
        for anchor in re.findall(r'href="/docs/api/reference/types#(\w+)"', read_reference_page(tag).html)
    }

    assert types.anchors == set(document["components"]["schemas"])
    assert links <= types.anchors


def test_curl_commands_are_lines_of_the_shell_with_the_method_and_address_of_the_operation(document) -> None:
    for path, method, operation in list_described(document):
        words = shlex.split(make_curl_command(document, path, method, operation=operation))
        sends = {"--json", "--data-binary"} & set(words)
        sent = words[words.index("-X") + 1] if "-X" in words else "POST" if sends else "GET"

        assert words[0] == "curl"
        assert sent == method.upper()
        assert re.sub(
            r"\$[A-Z_]+", "{}", words[-1].partition("?")[0].removeprefix("$BENCHAPP_URL")
        ) == re.sub(r"{\w+}", "{}", path)
        assert ("Authorization: Bearer $BENCHAPP_TOKEN" in words) == bool(operation.get("security"))
        if "--json" in words:
            json.loads(words[words.index("--json") + 1])


def test_examples_of_bodies_are_valid(document) -> None:
    for name, schema in document["components"]["schemas"].items():
        sample = make_sample(document, schema)
        validator = Draft202012Validator({**schema, "components": document["components"]})

        assert [f"{name}: {error.message}" for error in validator.iter_errors(sample)] == []


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
            "integer; at least 1, at most 5, default 2",
        ),
        ({"type": ["string", "null"], "format": "date-time"}, "string (date-time) or null"),
        ({"enum": ["a<b", None]}, "<code>a&lt;b</code>, <code>null</code>"),
        (
            {"type": "array", "items": {"$ref": "#/components/schemas/X"}},
            'array of <a href="/docs/api/reference/types#X">X</a>',
        ),
        (
            {"type": "string", "minLength": 1, "maxLength": 9, "default": ""},
            "string; not empty, at most 9 characters",
        ),
        ({"type": "string", "minLength": 1, "enum": ["a"], "default": "a"}, "<code>a</code>; default a"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
    ],
)
def test_types_are_in_words(schema: dict[str, Any], text: str) -> None:
    assert format_type(schema) == text


@pytest.mark.django_db
def test_reference_is_plain_html_for_everybody(client: Client) -> None:
    page = Page(client.get("/docs/api/reference/hosts"))

    assert "List hosts by name" in page.words
    assert "/docs/api/reference/types#HostPage" in page.links
    assert not [
        tag for name, tag in page.tags if (tag.get("src") or tag.get("href") or "").startswith("http")
    ]
    assert client.get("/docs/api/reference/nothing").status_code == 404
