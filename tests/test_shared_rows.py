"""Rows that several tests share: made once, and the same for each test whatever the others wrote."""

import itertools
from typing import Any

import pytest
from django.db import connection, transaction
from django.urls import reverse

from benchapp.models import Host
from tests.factories import make_host
from tests.shared_rows import shared_rows, shared_rows_of
from tests.visitors import SharedClient, sign_in

pytestmark = pytest.mark.django_db
made: list[str] = []


@shared_rows
def one_host() -> Host:
    """Make db-1, in a block that must be outermost."""
    made.append("db-1")
    with transaction.atomic(durable=True):
        host = make_host("db-1")
        transaction.on_commit(lambda: made.append("on_commit"))
    return host


@shared_rows
def visited_host() -> dict[str, Any]:
    """Make db-2, and somebody who reads it."""
    make_host("db-2")
    return {"client": sign_in(), "names": ["db-2"]}


@shared_rows_of("db-3", "db-4")
def either_host(name: str) -> str:
    make_host(name)
    return name


def list_names() -> list[str]:
    return sorted(Host.objects.values_list("name", flat=True))


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_rows_are_made_once_and_no_test_sees_what_another_wrote(one_host: Host, attempt: int) -> None:
    assert made.count("db-1") == 1
    assert (one_host.name, one_host.pool, list_names()) == ("db-1", "", ["db-1"])

    one_host.pool = "blue"
    one_host.save()
    make_host(f"db-1-{attempt}")

    assert list_names() == ["db-1", f"db-1-{attempt}"]


def test_test_between_them_does_not_see_the_rows() -> None:
    assert list_names() == []


@pytest.mark.parametrize("attempt", [1, 2])
def test_error_of_the_database_ends_with_its_test(one_host: Host, attempt: int) -> None:
    assert list_names() == ["db-1"]

    with pytest.raises(Exception, match="division by zero"), connection.cursor() as cursor:
        cursor.execute("SELECT 1/0")


@pytest.mark.parametrize("attempt", [1, 2])
def test_test_captures_its_own_callbacks_and_begins_outermost_blocks(
    one_host: Host, attempt: int, django_capture_on_commit_callbacks: Any
) -> None:
    done: list[int] = []

    with django_capture_on_commit_callbacks(execute=True) as callbacks, transaction.atomic(durable=True):
        transaction.on_commit(lambda: done.append(attempt))

    assert (len(callbacks), done) == (1, [attempt])
    assert "on_commit" not in made


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_test_gets_a_copy_of_the_client_that_is_signed_in(
    visited_host: dict[str, Any], attempt: int
) -> None:
    client: SharedClient = visited_host["client"]
    assert client.get(reverse("hosts")).status_code == 200
    assert visited_host["names"] == ["db-2"]
    assert list_names() == ["db-2"]

    visited_host["names"].append("db-3")
    client.logout()

    assert client.get(reverse("hosts")).status_code == 302


def test_tests_that_share_rows_run_next_to_each_other(request: pytest.FixtureRequest) -> None:
    asked = [
        next((name for name in ("one_host", "visited_host", "either_host") if name in item.fixturenames), "")
        for item in request.session.items
        if item.path == request.path and isinstance(item, pytest.Function)
    ]

    groups = [name for name, _ in itertools.groupby(asked)]
    assert sorted(groups) == sorted(set(asked))


def test_rows_of_several_arguments_are_made_one_after_another(either_host: str) -> None:
    assert list_names() == [either_host]
