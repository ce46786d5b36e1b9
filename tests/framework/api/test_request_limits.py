"""Limits of requests, CORS, deprecation: what every answer of the API says about them."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, override_settings

from benchapp.accounts.write import throttle
from benchapp.accounts.write.throttle import WindowQuota
from benchapp.framework.api import view
from benchapp.framework.api.responses import COMPLETENESS, LEFT_OUT, name_header
from benchapp.framework.api.view import Deprecation
from benchapp.models import Role, Scope
from benchapp.overview.api.fleet import Index
from tests.factories import make_token
from tests.pages import Page
from tests.visitors import sign_in

ROOT = Path(__file__).parents[3]
# The twelfth second of a minute.
NOW = 60 * 29_000_000 + 12.0


@pytest.fixture
def quota(monkeypatch: pytest.MonkeyPatch) -> WindowQuota:
    """Give an empty count, and a clock that stands still."""
    fresh = WindowQuota(window_s=60, keys_maximum=10_000)
    monkeypatch.setattr(view, "_QUOTA", fresh)
    monkeypatch.setattr(throttle.time, "time", lambda: NOW)
    return fresh


def bearer(scope: Scope = Scope.READ) -> Client:
    return Client(headers={"Authorization": f"Bearer {make_token(scope)[1]}"})


def test_requests_above_the_limit_of_a_token_are_refused(db: Any, quota: WindowQuota) -> None:
    client, other = bearer(), bearer()

    with override_settings(REQUESTS_PER_MINUTE=2):
        answers = [client.get("/api/v1/hosts") for _ in range(3)]
        unaffected = other.get("/api/v1/hosts")

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer["RateLimit"] for answer in answers] == [f'"requests";r={left};t=48' for left in (1, 0, 0)]
    assert answers[0]["RateLimit-Policy"] == '"requests";q=2;w=60'
    assert (answers[2]["Retry-After"], answers[2].json()["code"]) == ("48", "quota-exceeded")
    assert unaffected.status_code == 200


def test_requests_without_a_token_are_counted_by_network(quota: WindowQuota) -> None:
    with override_settings(REQUESTS_PER_MINUTE=1):
        statuses = [
            Client(REMOTE_ADDR=address).get("/api/v1/").status_code
            for address in (
                *("192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"),
                # Of a socket for IPv4 and IPv6.
                *("::ffff:192.0.2.1", "::ffff:192.0.2.3"),
            )
        ]

    assert statuses == [200, 429, 200, 200, 429, 429, 200]


@override_settings(PUBLIC_READ=False)
def test_refused_requests_are_counted(db: Any, quota: WindowQuota) -> None:
    wrong = Client(headers={"Authorization": f"Bearer {make_token(Scope.READ)[1][:-6]}wrong1"})
    host, reader = bearer(Scope.INGEST), bearer()

    with override_settings(REQUESTS_PER_MINUTE=1):
        # A token that is not valid, then no token: both count for the address.
        unknown = [client.get("/api/v1/hosts") for client in (wrong, Client(), wrong)]
        forbidden = [host.get("/api/v1/tokens") for _ in range(2)]
        unaffected = reader.get("/api/v1/hosts")

    assert [answer.status_code for answer in unknown] == [401, 429, 429]
    assert [answer.status_code for answer in forbidden] == [403, 429]
    assert {answer["RateLimit"] for answer in (*unknown, *forbidden)} == {'"requests";r=0;t=48'}
    assert unknown[0]["WWW-Authenticate"] == "Bearer"
    assert unaffected.status_code == 200


def test_pages_and_api_requests_of_a_person_count_together(db: Any, quota: WindowQuota) -> None:
    person, other = sign_in(Role.VIEWER), sign_in(Role.VIEWER)

    with override_settings(REQUESTS_PER_MINUTE=2):
        answers = [
            person.get(address) for address in ("/hosts/", "/api/v1/hosts", "/hosts/", "/api/v1/hosts")
        ]
        unaffected = other.get("/hosts/")

    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    page = Page(answers[2])
    assert (answers[2]["Retry-After"], answers[2]["Cache-Control"]) == ("48", "no-store")
    assert (
        "Too many requests: wait 48 s Your account sent more than 2 requests within a minute." in page.words
    )
    assert unaffected.status_code == 200


@override_settings(PUBLIC_READ=True)
def test_pages_without_an_account_are_counted_by_network(db: Any, quota: WindowQuota) -> None:
    def ask(address: str, path: str = "/hosts/") -> int:
        return Client(REMOTE_ADDR=address).get(path).status_code

    with override_settings(REQUESTS_PER_MINUTE=1):
        statuses = [ask(address) for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2")]
        uncounted = [
            ask("192.0.2.1", path) for path in ("/healthz", "/agent/bench-agent.pyz", "/no/such/page")
        ]

    assert statuses == [200, 429, 200]
    assert uncounted == [200, 200, 404]


def test_limit_is_on_by_default() -> None:
    script = "import django; django.setup(); print(django.conf.settings.REQUESTS_PER_MINUTE)"
    env = {name: value for name, value in os.environ.items() if name != "BENCHAPP_REQUESTS_PER_MINUTE"}

    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**env, "DJANGO_SETTINGS_MODULE": "benchapp.settings"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.split()[-1] == "6000"


@override_settings(REQUESTS_PER_MINUTE=0)
def test_without_the_setting_nothing_is_counted(quota: WindowQuota) -> None:
    answer = Client().get("/api/v1/")

    assert not answer.has_header("RateLimit")
    assert quota.count("x").count == 1


def test_deprecated_resource_announces_its_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    deprecation = Deprecation(
        since=datetime(2027, 1, 1, tzinfo=UTC),
        removed_at=datetime(2028, 1, 1, tzinfo=UTC),
        link="/docs/api#versions",
    )
    monkeypatch.setattr(Index, "deprecation", deprecation)

    answer = Client().get("/api/v1/")

    assert answer["Deprecation"] == "@1798761600"
    assert answer["Sunset"] == "Sat, 01 Jan 2028 00:00:00 GMT"
    assert answer["Link"] == '</docs/api#versions>; rel="deprecation"'


# Settings are read at the start of a process.
CORS_SCRIPT = """
import json, django
django.setup()
from django.test import Client
def ask(method, path, origin, **headers):
    answer = Client(headers={"origin": origin, **headers}).generic(method, path)
    return {name.lower(): value for name, value in answer.items() if name.lower().startswith("access-control")}
wanted = {"access-control-request-method": "GET", "access-control-request-headers": "authorization"}
print(json.dumps([
    ask("OPTIONS", "/api/v1/hosts", "https://grafana.example", **wanted),
    *(
        ask("OPTIONS", path, "https://grafana.example", **wanted | {"access-control-request-method": method})
        for method, path in (("POST", "/api/v1/submissions"), ("PATCH", "/api/v1/hosts/a"))
    ),
    ask("GET", "/api/v1/", "https://grafana.example"),
    ask("GET", "/api/v1/", "https://evil.example"),
    ask("GET", "/healthz", "https://grafana.example"),
]))
"""


def test_listed_origin_alone_may_read_the_api_and_only_with_a_token() -> None:
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "benchapp.settings",
        "BENCHAPP_CORS_ORIGINS": "https://grafana.example",
        "BENCHAPP_ALLOWED_HOSTS": "testserver",
    }

    run = subprocess.run(
        [sys.executable, "-c", CORS_SCRIPT], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )

    preflight, post, patch, listed, other, page = json.loads(run.stdout.splitlines()[-1])
    assert preflight["access-control-allow-origin"] == "https://grafana.example"
    assert "authorization" in preflight["access-control-allow-headers"]
    assert preflight["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    # A browser sends POST after any preflight that succeeds, whatever methods are listed.
    assert (post, patch) == ({}, {})
    assert listed["access-control-allow-origin"] == "https://grafana.example"
    exposed = listed["access-control-expose-headers"].split(", ")
    assert {"Link", *map(name_header, (*COMPLETENESS, *LEFT_OUT))} <= set(exposed)
    assert "access-control-allow-credentials" not in {**preflight, **listed}
    assert other == {}
    assert page == {}
