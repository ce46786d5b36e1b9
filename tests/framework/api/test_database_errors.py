import json

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import RequestFactory
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg_pool import PoolTimeout

from benchapp.framework.api.problems import answer_database_away, find_problem


@pytest.mark.parametrize("exception", [OperationalError("refused"), PoolTimeout("no connection")])
def test_api_says_503_and_when_to_come_back(exception):
    response = answer_database_away(RequestFactory().get("/api/v1/runs"), exception)

    assert response.status_code == 503
    assert response.headers["Retry-After"] == "15"
    assert response.headers["Content-Type"] == "application/problem+json"


def test_page_names_the_problem():
    response = answer_database_away(RequestFactory().get("/runs/"), OperationalError("refused"))

    assert response.status_code == 503
    assert response.headers["Retry-After"] == "15"
    assert b"Database unavailable" in response.content


@pytest.mark.parametrize("cause", [DeadlockDetected(), SerializationFailure()])
def test_conflict_of_transactions_is_busy_and_not_away(cause, monkeypatch):
    monkeypatch.setattr(
        "benchapp.framework.api.problems.refresh_connections", lambda: pytest.fail("it answers")
    )
    conflict = OperationalError("deadlock detected")
    conflict.__cause__ = cause

    answer = answer_database_away(RequestFactory().delete("/api/v1/subscriptions/1"), conflict)
    page = answer_database_away(RequestFactory().post("/subscriptions/1/remove"), conflict)

    assert (answer.status_code, json.loads(answer.content)["code"]) == (503, "busy")
    assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
    assert b"not available" not in page.content
    assert find_problem(conflict).code == "busy"


def test_other_faults_are_left_to_django():
    assert answer_database_away(RequestFactory().get("/runs/"), ZeroDivisionError()) is None


def test_an_exception_passes_no_other_middleware_first():
    assert settings.MIDDLEWARE[-1] == "benchapp.framework.api.problems.answer_unavailable_database"


@pytest.mark.parametrize("requests_per_minute", [0, 100])
def test_page_whose_database_is_away_answers_503(client, monkeypatch, settings, requests_per_minute):
    settings.REQUESTS_PER_MINUTE = requests_per_minute
    client.cookies["sessionid"] = "some-session-of-before"

    def refuse(*args, **kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr("django.db.backends.base.base.BaseDatabaseWrapper.ensure_connection", refuse)

    client.raise_request_exception = False
    page, answer, unknown = (client.get(path) for path in ("/runs/", "/api/v1/runs", "/nowhere/"))

    assert (page.status_code, answer.status_code, unknown.status_code) == (503, 503, 503)
    assert answer.json()["code"] == "database-away"
    assert page.headers["Content-Type"].startswith("text/html")
