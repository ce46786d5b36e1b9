"""One shape for every error."""

import ast
import re
from functools import partial
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404
from django.test import Client
from msgspec import to_builtins
from psycopg_pool import PoolTimeout
from rest_framework import exceptions

from benchapp.framework.api.problems import (
    PROBLEMS,
    Problem,
    answer_exception,
    bad_parameter,
    bad_value,
    describe_problem,
    find_problem,
    map_errors,
    not_found,
    state_differs,
)
from benchapp.framework.read.pagination import BadCursor
from benchapp.framework.write.conflicts import BadValue
from benchapp.overview.pages.docs.pages import render_sentence

ROOT = Path(__file__).parents[3]
# What raises a problem of the API, or is turned into one by its code.
RAISERS = {
    "Problem",
    "try_later",
    "_refuse",
    "TokenRefused",
    "BadEnvelope",
    "BadParameter",
    "EnrollmentRefused",
}


def test_problem_has_the_members_of_rfc_9457_and_ours():
    problem = Problem(
        422, "envelope-invalid", "Bad envelope", "volume_count is 'four'", pointer="/target/volume_count"
    )

    assert to_builtins(describe_problem(problem)) == {
        "type": "/docs/errors#envelope-invalid",
        "title": "Bad envelope",
        "status": 422,
        "code": "envelope-invalid",
        "detail": "volume_count is 'four'",
        "pointer": "/target/volume_count",
    }


def test_problem_without_a_pointer_has_none():
    assert "pointer" not in to_builtins(describe_problem(Problem(404, "not-found", "Not found", "nothing")))


@pytest.mark.parametrize(
    ("exception", "status", "code"),
    [
        (Http404("no such run"), 404, "not-found"),
        (PermissionDenied("viewers may not"), 403, "forbidden"),
        (BadCursor("no cursor"), 400, "cursor-invalid"),
        (OperationalError("connection refused"), 503, "database-away"),
        (PoolTimeout("no connection after 2 s"), 503, "database-away"),
        (exceptions.NotAuthenticated(), 401, "token-missing"),
        (exceptions.PermissionDenied(), 403, "forbidden"),
        (exceptions.ParseError("not JSON"), 400, "body-not-json"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method-not-allowed"),
        (exceptions.UnsupportedMediaType("text/html"), 415, "media-type-unsupported"),
        (exceptions.Throttled(wait=7), 429, "quota-exceeded"),
        (exceptions.ValidationError({"label": ["too long"]}), 400, "value-invalid"),
        (exceptions.APIException("odd"), 500, "request-invalid"),
    ],
)
def test_exception_becomes_the_problem_that_it_is(exception, status, code):
    problem = find_problem(exception)

    assert (problem.status, problem.code) == (status, code)


class BadSize(BadValue):
    pass


@pytest.mark.parametrize(
    ("error", "title", "pointer"),
    [
        (KeyError("run 3"), "No such run", None),
        (BadSize("size", "too large"), "Bad value", "/size"),
        (BadSize("panels/0/query", "too long"), "Bad value", "/panels/0/query"),
        (BadSize("", "too many"), "Bad value", None),
        (BlockingIOError("it has ended"), "Not in this state", None),
    ],
)
def test_errors_of_a_view_become_their_problems(error, title, pointer):
    problems = {KeyError: partial(not_found, "run"), BadValue: bad_value, BlockingIOError: state_differs}

    with pytest.raises(Problem) as caught, map_errors(problems):
        raise error

    problem = caught.value
    assert (problem.title, problem.detail, problem.pointer) == (title, str(error), pointer)
    assert problem.__cause__ is error


def test_errors_that_a_view_does_not_map_are_raised():
    with pytest.raises(ZeroDivisionError), map_errors({KeyError: partial(not_found, "run")}):
        raise ZeroDivisionError


def test_parameter_that_is_not_valid_is_named():
    problem = bad_parameter("limit", "must be 1 or more")

    assert (problem.status, problem.code, problem.pointer) == (400, "parameter-invalid", "limit")
    assert problem.detail == "limit: must be 1 or more"


def test_fault_of_ours_is_logged_and_answered_as_a_problem(caplog):
    try:
        raise ZeroDivisionError("by zero")
    except ZeroDivisionError as fault:
        response = answer_exception(fault, {})

    assert (response.status_code, response.data.code) == (500, "fault")
    assert "by zero" not in str(response.data)
    assert "by zero" in caplog.text


def test_first_of_several_nested_errors_is_named():
    problem = find_problem(exceptions.ValidationError({"a": {"b": ["is bad"]}, "c": ["too"]}))

    assert (problem.pointer, problem.detail) == ("/a/b", "/a/b: is bad")


def test_retry_after_is_said_where_it_is_known():
    assert find_problem(OperationalError()).headers == {"Retry-After": "15"}
    assert find_problem(exceptions.Throttled(wait=7)).headers == {"Retry-After": "7"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", "/api/v1/nonsense", 404, "not-found"),
        ("get", "/api/v1/runs/", 404, "not-found"),
        ("get", "/api/v1/runs/%0A1/traces", 404, "not-found"),
        ("post", "/api/v1/nonsense", 404, "not-found"),
        ("get", "/api/v2/runs", 404, "not-found"),
        ("get", f"/api/v1/runs/{'9' * 5000}", 404, "not-found"),
        ("get", "/api/v1/runs", 401, "token-missing"),
        ("put", "/api/v1/", 405, "method-not-allowed"),
        ("get", "/api/v1/fio", 405, "method-not-allowed"),
        ("get", "/api/v1/enrollments", 401, "token-missing"),
        ("patch", "/api/v1/", 405, "method-not-allowed"),
    ],
)
def test_every_error_of_the_api_is_a_problem(client, method, path, status, code):
    response = getattr(client, method)(path)

    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == code
    assert response.json()["status"] == status


@pytest.mark.django_db
def test_who_brings_nothing_is_asked_for_a_bearer_token(client):
    assert client.get("/api/v1/runs").headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.django_db
def test_method_that_is_not_taken_names_those_that_are(client):
    assert client.get("/api/v1/fio").headers["Allow"] == "OPTIONS, POST"


def test_every_code_that_is_raised_is_explained():
    raised = set()
    for path in sorted(path for path in (ROOT / "benchapp").rglob("*.py") if "migrations" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in RAISERS:
                raised |= {
                    arg.value for arg in node.args if isinstance(arg, ast.Constant) and _is_code(arg.value)
                }

    assert raised - set(PROBLEMS) == set()
    assert len(raised) > 30


def _is_code(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z]+(-[a-z]+)+", value) is not None


def test_page_that_problems_point_to_has_every_code_with_its_meaning():
    page = (ROOT / "templates/overview/docs/_error_codes.html").read_text()

    rows = [
        f'<div id="{code}"><dt><code>{code}</code></dt><dd>{render_sentence(words)}</dd></div>'
        for code, words in PROBLEMS.items()
    ]
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:x", "a" * 5_000, "a\\b", "\xff"])
@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/nowhere", "/", "/sign-in/", "/nowhere/"])
def test_unknown_host_header_is_a_400_and_one_line_in_the_log(path, host, caplog):
    response = Client(headers={"Host": host}).get(path)

    (record,) = caplog.records
    assert record.exc_info is None
    assert len(record.getMessage()) < 800
    assert response.status_code == 400
    if path.startswith("/api/"):
        assert response["Content-Type"] == "application/problem+json"
        assert (response.json()["code"], response.json()["status"]) == ("request-invalid", 400)
        assert "BENCHAPP_ALLOWED_HOSTS" in response.json()["detail"]
    else:
        assert response["Content-Type"].startswith("text/html")
        assert b"BENCHAPP_ALLOWED_HOSTS" in response.content
