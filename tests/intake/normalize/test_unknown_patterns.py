"""A result of fio without its options: whether its I/O was random or sequential is unknown, everywhere."""

from collections.abc import Callable
from importlib import import_module
from unittest import mock

import pytest
from django.db import connection
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.test import Client

from benchapp.accounts.write.tokens import issue_token
from benchapp.fio import workload
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.models import Host, Role, Scope, Series, Workload
from tests.envelopes import read_fio
from tests.factories import calculate_levels, make_host, make_series, make_workload
from tests.intake.api.test_posts import post
from tests.pages import Page
from tests.visitors import sign_in

pytestmark = pytest.mark.django_db
migration = import_module("benchapp.migrations.0065_unknown_patterns")
# A line of random reads and writes, which does not say so; here without its writes.
MIXED = read_fio("04_terse_v4.out")
TERSE = ";".join([*MIXED.split(";")[:46], "0", "0", "0", "0", *MIXED.split(";")[50:]])


def send(text: str, host: str = "db-04") -> None:
    token = issue_token(scope=Scope.INGEST, host=Host.objects.filter(name=host).first() or make_host(host))[1]
    post(text.encode(), token, "/api/v1/fio")
    assert normalize_batch().claimed == 1


@pytest.fixture
def viewer() -> Client:
    return sign_in(Role.VIEWER)


def list_found(viewer: Client, term: str) -> set[str]:
    rows = viewer.get("/api/v1/series", {"q": term}).json()["series"]
    return {row["scope"] for row in rows}


def test_filter_finds_what_is_unknown_apart_from_sequential_and_random(viewer: Client) -> None:
    send(TERSE)
    make_series([1000.0], workload=make_workload(rw="read"), host=make_host("db-23"))

    for term in ("pattern:read", "pattern:write", "rw:read,write", "sequential", "sequential read", "random"):
        assert "host:db-04" not in list_found(viewer, term), term
    assert list_found(viewer, "sequential read") == {"host:db-23"}
    for term in (
        "pattern:unknown-read",
        "rw:unknown-*",
        "-pattern:read,write",
        'pattern:"read, sequential or random"',
    ):
        assert list_found(viewer, term) == {"host:db-04"}, term


def test_pages_say_that_the_pattern_is_unknown(viewer: Client) -> None:
    send(TERSE)
    calculate_levels()

    assert set(Series.objects.values_list("rw", "direction")) == {("unknown-read", "read")}
    for path in (
        "/",
        "/series/",
        "/matrix/",
        "/scaling/?x=host",
        "/history/",
        "/layouts/?iops=1&pattern=unknown-read",
    ):
        words = Page(viewer.get(path)).words
        assert "sequential read" not in words
        assert "ead, sequential or random" in words or path == "/", path
    ranked = viewer.get("/api/v1/layouts", {"iops": 1, "pattern": "read"}).json()["layouts"]
    assert ranked == []


def test_series_of_before_continue_and_can_be_renamed_back() -> None:
    with mock.patch.object(workload, "UNKNOWN_ORDER", ""):
        send(TERSE)
    before = read_keys()

    run(migration.name_unknown)
    send(TERSE.replace(";126536;", ";126544;"))

    assert set(Series.objects.values_list("rw", "measurement_count")) == {("unknown-read", 2)}
    run(migration.forget_unknown)
    assert read_keys() == before


def run(operation: Callable[[None, BaseDatabaseSchemaEditor], None]) -> None:
    with connection.schema_editor() as editor:
        operation(None, editor)


def read_keys() -> list[tuple[str, bytes]]:
    rows = [*Workload.objects.values_list("rw", "key"), *Series.objects.values_list("rw", "key")]
    return [(rw, bytes(key)) for rw, key in rows]
