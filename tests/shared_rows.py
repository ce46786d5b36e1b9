"""Pytest plugin: rows that several tests read are made once.

    @shared_rows
    def hosts() -> list[Host]:
        return [make_host("db-1"), make_host("db-2")]

`hosts` is a fixture of this module. The tests of the module that ask for it run one after another in one transaction,
each in a savepoint: what one of them writes, the next does not see. A test that does not ask for it does not see these
rows. Each test gets a copy of what the function returned, as it may change fields in memory.

`@shared_rows_of(one, other)` makes the rows of each argument: the tests that ask for them run once with each.

now() of PostgreSQL is the time when the rows were made. A test with `transaction=True` cannot share rows: it fails.
"""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

# The functions that make rows by what a test is named after, by the id of their fixture.
_makers: Final[dict[int, Mapping[Any, Callable[[], Any]]]] = {}


def shared_rows(make: Callable[[], Any]) -> Any:
    """Return a fixture of a function that makes rows: what it returned, for all tests of the module that ask for it."""
    return _make_fixture(make, {pytest.HIDDEN_PARAM: make})


def shared_rows_of(*arguments: Any) -> Callable[[Callable[[Any], Any]], Any]:
    """Return a decorator as `shared_rows`, of a function that makes the rows of one argument; str() names the test."""
    return lambda make: _make_fixture(make, {str(each): functools.partial(make, each) for each in arguments})


def _make_fixture(make: Callable[..., Any], makers: Mapping[Any, Callable[[], Any]]) -> Any:
    def read_rows(_open_rows: Any, db: None) -> Any:
        assert _open_rows is not None, f"{make.__name__} is not in the module of the test"
        return copy.deepcopy(_open_rows.rows)

    read_rows.__doc__ = make.__doc__
    fixture = pytest.fixture(read_rows)
    _makers[id(fixture)] = makers
    return fixture


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tell `_open_rows` what each test of a module with shared rows asks for: pytest groups the tests by it.

    Raises UsageError for a test that asks for two kinds of rows, or that cannot run in a transaction.
    """
    makers = {
        name: _makers[id(value)] for name, value in vars(metafunc.module).items() if id(value) in _makers
    }
    if not makers:
        return
    names = [name for name in metafunc.fixturenames if name in makers]
    if len(names) > 1:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} asks for shared rows of {' and '.join(sorted(names))}"
        )
    if names and _commits(metafunc):
        raise pytest.UsageError(f"{metafunc.definition.nodeid} commits: it cannot share rows ({names[0]})")
    made = makers[names[0]] if names else {pytest.HIDDEN_PARAM: None}
    metafunc.parametrize("_open_rows", list(made.values()), ids=list(made), indirect=True, scope="module")


def _commits(metafunc: pytest.Metafunc) -> bool:
    marker = metafunc.definition.get_closest_marker("django_db")
    return bool(
        (marker and (marker.args or marker.kwargs.get("transaction") or marker.kwargs.get("reset_sequences")))
        or {"transactional_db", "live_server", "django_db_reset_sequences"} & set(metafunc.fixturenames)
    )


@pytest.fixture(scope="module", autouse=True)
def _open_rows(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Hold the transaction with the rows that a test asks for open until the next test asks for others, or for none."""
    make = getattr(request, "param", None)
    if make is None:
        yield None
        return
    from django.db import connection
    from django.test import TestCase

    class Rows(TestCase):
        """Opens the transaction in `setUpClass`, as Django does for the tests of a class."""

        rows: Any

        @classmethod
        def setUpTestData(cls) -> None:
            cls.rows = make()
            # Here, and not in the savepoint of each test.
            connection.check_constraints()

    request.getfixturevalue("django_db_setup")
    blocker = request.getfixturevalue("django_db_blocker")
    try:
        with blocker.unblock():
            Rows.setUpClass()
        yield Rows
        with blocker.unblock():
            Rows.tearDownClass()
    finally:
        Rows.doClassCleanups()
