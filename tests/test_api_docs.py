"""Every operation, parameter and field that docs/api.md names is one of the OpenAPI document."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.openapi import make_schema
from benchapp.framework.api.problems import PROBLEMS
from benchapp.intake.posts.published_document import read_reported
from benchapp.models import Scope

TEXT = (Path(__file__).parent.parent / "docs" / "api.md").read_text()
# Published numbers are no part of the OpenAPI document: they are read by a parser of their own.
PUBLISHED = re.search(r"\n## Published numbers\n.*?(?=\n## )", TEXT, re.DOTALL)[0]
CHECKED = TEXT.replace(PUBLISHED, "")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", CHECKED, re.DOTALL)
SPANS = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", CHECKED, flags=re.DOTALL))
# Words that are none of the API: of fio, of JSON, a value of `facet`, a reserved name of a host, a time.
# "attempt": a kind of envelope, which is described in words.
OTHER_WORDS = {"log_unix_epoch", "null", "none", "me", "now", "attempt"}
# Further columns of CSV, which has no schema; tests/framework/api/test_csv_exports.py reads them.
OTHER_WORDS |= {
    *("level_unit", "x_dimension", "color_dimension", "facet_dimension", "condition_name", "condition_unit"),
    *("range", "bucket", "from_ns", "to_ns", "operations"),
    *("omitted_rows", "omitted_columns", "omitted_panels"),
}
# Ends of file names of logs; other words that begin so are ends of columns.
LOGS = {"_bw", "_iops", "_lat", "_clat", "_slat"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(make_schema()[0])


def list_members(value: Any, name: str) -> Iterator[Any]:
    """Yield the values of every member of this name, however deep."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from list_members(part, name)


def list_parameters(document: dict[str, Any]) -> set[str]:
    """Return the names of all parameters."""
    return {
        each["name"]
        for found in list_members(document["paths"], "parameters")
        # Examples of bodies have members of this name, too.
        if isinstance(found, list)
        for each in found
    }


def list_properties(document: dict[str, Any]) -> set[str]:
    """Return the names of all members of bodies."""
    return {name for found in list_members(document, "properties") for name in found}


def list_values(document: dict[str, Any]) -> set[str]:
    """Return all values of enumerations."""
    return {value for found in list_members(document, "enum") for value in found if isinstance(value, str)}


def hide_names(path: str) -> str:
    """Return a path without the names of its parameters, which are short in the text."""
    return re.sub(r"{\w+}", "{}", path)


def test_operations_that_are_named_are_in_the_document(document):
    """That every operation is on the pages of the reference: tests/overview/pages/docs/test_api_reference.py."""
    described = {
        (method.upper(), hide_names(path))
        for path, operations in document["paths"].items()
        for method in operations
    }

    named = {
        (method, hide_names(f"/api/v1{path}"))
        for span in SPANS
        for methods, path in re.findall(r"^((?:[A-Z]+,? )+)(/[^ ?]*)", span)
        for method in methods.replace(",", "").split()
    }

    assert len(named) > 40
    assert sorted(named - described) == []


def test_words_are_names_or_values_of_the_document(document):
    known = list_parameters(document) | list_properties(document) | list_values(document)
    known |= set(PROBLEMS) | set(Scope.values) | OTHER_WORDS

    words = {span for span in SPANS if re.fullmatch(r"[a-z][a-z0-9_]*", span)}

    assert len(words) > 80
    assert sorted(words - known) == []


def test_ends_of_columns_are_those_of_metrics(document):
    ends = {span for span in SPANS if re.fullmatch(r"_[a-z0-9_]+", span)} - LOGS

    assert {"_minimum_run", "_p90"} <= ends
    assert {f"{metric}{end}" for metric in CATALOG for end in ends} <= list_properties(document)


def test_parameters_with_a_value_are_in_the_document(document):
    names = {name for span in SPANS for name in re.findall(r"^([a-z_]+)=", span)}

    assert len(names) > 10
    assert sorted(names - list_parameters(document)) == []


def list_addresses() -> list[tuple[str, str]]:
    """Return path and query of all addresses with a query."""
    texts = [text for _, text in BLOCKS] + SPANS
    return [
        (path.removeprefix("/api/v1"), query)
        for text in texts
        for path, query in re.findall(r"((?:/[a-z][a-z0-9-]*|/\d+|/{\w+})+)\?([^`\"]+)", text)
    ]


@pytest.mark.parametrize(("path", "query"), list_addresses())
def test_parameters_of_an_address_are_its_own(path, query, document):
    described = {hide_names(each): operations for each, operations in document["paths"].items()}
    operations = described[hide_names(re.sub(r"/\d+", "/{}", f"/api/v1{path}"))]

    names = {name for name, _ in parse_qsl(query, strict_parsing=True) if not name.startswith("label.")}

    assert names <= list_parameters({"paths": operations})


def test_there_are_addresses_with_parameters():
    assert len(list_addresses()) > 4


def test_members_of_examples_are_in_the_document(document):
    names = {name for _, text in BLOCKS for name in re.findall(r'"([^"]+)":', text)}

    # A file name; what the scheme of the header has.
    assert sorted(name for name in names - list_properties(document) if not name.endswith(".log")) == [
        "Authorization"
    ]


def test_example_of_published_numbers_is_read():
    example = re.search(r"```json\n(.*?)```", PUBLISHED, re.DOTALL)[1]

    assert len(read_reported(json.loads(example)).runs) == 1
