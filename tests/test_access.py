"""Every address × every kind of asker, from the resolver."""

import re
from collections.abc import Iterator

import pytest
from django.db import transaction
from django.http.response import HttpResponseBase
from django.test import Client, override_settings
from django.urls import URLPattern, URLResolver, get_resolver

from benchapp.models import Role, Scope, Study
from tests.access_table import ACTORS, TABLE, Row
from tests.factories import (
    make_expectation,
    make_host,
    make_incident,
    make_measurement,
    make_run,
    make_series,
    make_token,
    make_user,
)
from tests.notices import make_subscription

CASES = [
    pytest.param(route, row, id=f"{row.method} /{route}") for route, rows in TABLE.items() for row in rows
]
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}


def list_routes(patterns=None, prefix="") -> Iterator[str]:
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from list_routes(pattern.url_patterns, route)
        else:
            assert isinstance(pattern, URLPattern)
            yield route


@pytest.fixture
def address_of(db):
    """Give a function that fills a route with what there is."""
    host = make_host("db-7")
    series = make_series([1.0], host=host)
    run = make_run(host)
    make_measurement(run, series, iops=1.0)
    panel = {"kind": "scaling", "query": "", "title": "", "words": ""}
    study = Study.objects.create(title="Disks", share_token="s" * 43, panels=[panel])
    parts = {
        "name": host.name,
        "dimension_name": "host",
        "run_id": run.id,
        "series_id": series.id,
        "submission_id": run.submission_id,
        "public_id": make_token(host=host)[0].public_id,
        "user_id": make_user().id,
        "secret": "no-such-secret",
        "path": "no/such/path",
        "study_id": study.pk,
        "incident_id": make_incident().pk,
        "expectation_id": make_expectation().pk,
        "act": "acknowledge",
        "subscription_id": make_subscription().pk,
        "token": study.share_token,
        "place": 1,
    }
    return lambda route: "/" + re.sub(r"<\w+:(\w+)>", lambda match: str(parts[match[1]]), route)


@pytest.fixture
def clients(db):
    """Give a client for every actor."""
    scopes = {
        "ingest token": Scope.INGEST,
        "read token": Scope.READ,
        "admin token": Scope.ADMIN,
        "enrol token": Scope.ENROLL,
    }
    clients = {"anonymous": Client()}
    for role in Role:
        clients[role.value] = Client()
        clients[role.value].force_login(make_user(role))
    for actor, scope in scopes.items():
        clients[actor] = Client(headers={"Authorization": f"Bearer {make_token(scope)[1]}"})
    return {actor: clients[actor] for actor in ACTORS}


def judge(response: HttpResponseBase) -> str:
    """Return the table's letter for an answer; its status where it has none."""
    if response.status_code == 401 or response.headers.get("Location", "").startswith("/sign-in/"):
        return "s"
    letters = {403: "-", 404: ".", 410: "."}
    # A form that was filled in badly was still let in; 405 and a fault never are.
    is_let_in = response.status_code < 500 and response.status_code != 405
    return letters.get(response.status_code, "+" if is_let_in else str(response.status_code))


def ask_all(clients: dict[str, Client], method: str, address: str) -> str:
    """Ask as every actor, each as if the others had not; return their letters."""
    letters = ""
    for client in clients.values():
        with transaction.atomic():
            letters += judge(client.generic(method, address, "{}", content_type="application/json"))
            transaction.set_rollback(True)
    return letters


def test_every_address_has_a_row_and_every_row_an_address():
    assert sorted(set(list_routes()) ^ set(TABLE)) == []


@pytest.mark.django_db
@pytest.mark.parametrize(("route", "row"), CASES)
def test_only_those_are_let_in_who_may(route, row: Row, clients, address_of):
    assert ask_all(clients, row.method, address_of(route)) == row.cells
    with override_settings(PUBLIC_READ=True):
        assert ask_all(clients, row.method, address_of(route)) == (row.public or row.cells)


@pytest.mark.django_db
@pytest.mark.parametrize("route", TABLE)
def test_method_without_a_row_is_let_in_nowhere(route, address_of):
    admin = Client()
    admin.force_login(make_user(Role.ADMIN))
    token = Client(headers={"Authorization": f"Bearer {make_token(Scope.ADMIN)[1]}"})

    for method in sorted(METHODS - {row.method for row in TABLE[route]}):
        assert "+" not in ask_all({"admin": admin, "admin token": token}, method, address_of(route)), method
