"""The OpenAPI document is valid for linters, and generated clients can call every operation."""

import importlib
import inspect
import io
import json
import keyword
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import httpx
import pytest
import yaml
from django.db import transaction
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

from benchapp.api.framework.json import dump_json
from benchapp.api.ingest import app as intake
from benchapp.api.ingest.app import Answer, answer_post
from benchapp.api.ingest.body import Wire
from benchapp.api.ingest.documents import Post
from benchapp.api.ingest.limits import Limits
from benchapp.api.posting.validation import describe_validation
from tests.api.framework.test_openapi import (
    EXAMPLES_OF_ANSWERS,
    INTAKE,
    OF_A_HOST,
    REQUEST_OF_HOST,
    Rows,
    fill,
    find_path,
    rows,  # noqa: F401
)
from tests.envelopes import make_envelope, pack_envelope, read_fio

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "openapi.yaml"
CLIENTS = ROOT / "tests" / "clients"
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (CLIENTS / "node_modules" / ".installed").exists(),
    reason="node, or what `make test` installs with npm, is missing",
)


def run_node(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of a locked package, without npm, which would look for updates."""
    return subprocess.run(
        ["node", str(CLIENTS / "node_modules" / program), *arguments],
        cwd=CLIENTS,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"},
    )


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    # The loader in C takes a quarter of the time.
    return dict(yaml.load(DOCUMENT.read_text(), yaml.CSafeLoader))


def test_document_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


@needs_node
def test_document_passes_the_linter() -> None:
    ended = run_node("@redocly/cli/bin/cli.js", "lint", str(DOCUMENT), "--config", "redocly.yaml")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "warning" not in ended.stdout + ended.stderr.lower().replace("deprecation warning", "")


@needs_node
def test_typescript_client_is_generated_and_compiles(document: dict[str, Any], tmp_path: Path) -> None:
    types = tmp_path / "api.d.ts"
    ended = run_node("openapi-typescript/bin/cli.js", str(DOCUMENT), "--output", str(types))
    assert ended.returncode == 0, ended.stderr

    ended = run_node("typescript/bin/tsc", "--noEmit", "--strict", "--lib", "es2022", str(types))

    assert (ended.returncode, ended.stdout) == (0, "")
    operations = {
        each["operationId"] for operations in document["paths"].values() for each in operations.values()
    }
    text = types.read_text()
    assert [name for name in operations if f"    {name}: {{" not in text] == []


def test_every_operation_has_a_summary_and_every_body_an_example(document: dict[str, Any]) -> None:
    operations = [each for path in document["paths"].values() for each in path.values()]

    assert document["servers"] == [{"url": "/", "description": "this server"}]
    assert [each["operationId"] for each in operations if not 3 < len(each["summary"]) < 120] == []
    assert [each["operationId"] for each in operations if "security" not in each] == []
    contents = [
        (each["operationId"], kind, content)
        for each in operations
        for kind, content in each.get("requestBody", {}).get("content", {}).items()
    ]
    assert [
        name
        for name, kind, content in contents
        if kind != "application/octet-stream" and "example" not in content
    ] == []
    texts = {
        parameter["name"]
        for each in operations
        for parameter in each.get("parameters", ())
        if parameter["in"] == "query"
        and parameter["schema"].get("type") == "string"
        and not {"enum", "format", "example"} & (parameter["schema"].keys() | parameter.keys())
    }
    # A cursor is copied from an answer; the columns of `fields` are in its description.
    assert texts - {"cursor", "fields"} == set(), "add an example to benchapp/api/framework/openapi.py"


def test_closed_vocabularies_are_enumerations(document: dict[str, Any]) -> None:
    closed = {"metric", "unit", "better", "direction", "state", "severity", "outcome", "verdict"}

    texts = {
        f"{component}.{name}"
        for component, schema in document["components"]["schemas"].items()
        for name, member in schema.get("properties", {}).items()
        if name in closed and member.get("type") in ("string", ["string", "null"]) and "enum" not in member
    }

    assert texts == set()


class InProcess(httpx.BaseTransport):
    """Answers the requests of an HTTP client with the application in this process."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path, _, query = request.url.raw_path.decode().partition("?")
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        if (request.method, path) in INTAKE:
            wire = Wire(request.read(), False)
            answer: Answer = answer_post(Post(path, query, headers, wire), validate=describe_validation)
            return httpx.Response(
                answer.status, headers={"Content-Type": "application/json"}, content=dump_json(answer.body)
            )
        response = Client(headers=headers).generic(
            request.method, request.url.raw_path.decode(), request.read(), headers.get("content-type", "")
        )
        content = response.getvalue() if response.streaming else response.content
        return httpx.Response(response.status_code, headers=dict(response.headers), content=content)


@pytest.fixture(scope="module")
def generated(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A Python client, generated from the committed document; a warning is an error."""
    folder = tmp_path_factory.mktemp("clients")
    # The generator reads YAML in Python alone, in half of its time.
    (folder / "openapi.json").write_text(json.dumps(document))
    command = [
        sys.executable,
        "-m",
        "openapi_python_client",
        "generate",
        "--fail-on-warning",
        "--meta",
        "none",
    ]
    ended = subprocess.run(
        [
            *(*command, "--path", folder / "openapi.json", "--config", CLIENTS / "python.yaml"),
            *("--output-path", folder / "made"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("made")
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == "made"]:
            del sys.modules[name]


def make_client(generated: ModuleType, headers: dict[str, str]) -> Any:
    token = headers["Authorization"].removeprefix("Bearer ")
    return generated.AuthenticatedClient(
        base_url="http://testserver", token=token, httpx_args={"transport": InProcess()}
    )


def call(generated: ModuleType, client: Any, operation: dict[str, Any], values: dict[str, Any]) -> Any:
    """Call an operation of the client; values: of path and query parameters, and the body."""
    module = importlib.import_module(
        f"made.api.{operation['tags'][0].replace('-', '_')}.{operation['operationId']}"
    )
    if "body" in values:
        values = {**values, "body": make_body(generated, module, values["body"])}
    # The client appends a line to names that are words of Python.
    values = {f"{name}_" if keyword.iskeyword(name) else name: value for name, value in values.items()}
    return module.sync_detailed(client=client, **values)


def make_body(generated: ModuleType, module: ModuleType, body: Any) -> Any:
    if isinstance(body, bytes):
        return generated.types.File(payload=io.BytesIO(body))
    annotation = inspect.signature(module.sync_detailed).parameters["body"].annotation
    (kind,) = [each for each in get_args(annotation) or (annotation,) if hasattr(each, "from_dict")]
    return kind.from_dict(body)


@pytest.mark.django_db
def test_python_client_calls_every_operation(
    generated: ModuleType,
    document: dict[str, Any],
    rows: Rows,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "_LIMITS", Limits())
    admin, host = make_client(generated, rows.bearer), make_client(generated, rows.bearer_of_host)
    posts = {
        "/api/v1/submissions": make_envelope(),
        "/api/v1/submissions/batch": pack_envelope(),
        "/api/v1/fio": read_fio("07_json.out").encode(),
    }
    examples = [(admin, *each) for each in EXAMPLES_OF_ANSWERS]
    examples += [(host, *each) for each in OF_A_HOST]
    examples += [(host, "POST", path, {}, body) for path, body in posts.items()]
    called, wrong = set(), {}

    for client, method, template, query, body in examples:
        path = find_path(template)
        operation = document["paths"][path][method.lower()]
        if operation["operationId"] in called:
            continue
        called.add(operation["operationId"])
        names, own = (re.findall(r"{(\w+)}", each) for each in (path, template))
        known = rows.things | ({"request_id": str(REQUEST_OF_HOST)} if client is host else {})
        given = {name: fill(value, known) for name, value in query.items()}
        values = {name: known[key] for name, key in zip(names, own, strict=True)} | given
        if body is not None:
            values["body"] = body
        # Each finds the rows as they were made: some take away what another needs.
        before = transaction.savepoint()
        answer = call(generated, client, operation, values)
        transaction.savepoint_rollback(before)
        has_json = "application/json" in operation["responses"].get(str(int(answer.status_code)), {}).get(
            "content", {}
        )
        is_problem = type(answer.parsed).__name__ == "ProblemAnswer"
        if answer.status_code >= 300 or is_problem or (has_json and answer.parsed is None):
            wrong[operation["operationId"]] = (answer.status_code, answer.content[:300])

    assert wrong == {}
    assert called == {
        each["operationId"] for operations in document["paths"].values() for each in operations.values()
    }
