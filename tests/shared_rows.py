"""Pytest plugin: rows that several tests read are made once.

    @shared_rows
    def hosts() -> list[Host]:
        return [make_host("db-1"), make_host("db-2")]

`hosts` is a fixture. The tests of a file that ask for it run one after another in one transaction, each in a savepoint:
what one of them writes, the next does not see. A test that does not ask for it does not see these rows. Each test gets
a copy of what the function returned, as it may change fields in memory.

now() of PostgreSQL is the time when the rows were made. A test with `transaction=True` cannot share rows: it fails.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

# Values by the version of a series: tests that share the series, and write other rows, have the same versions.
CACHES: Final = (
    ("benchapp.queries.charts.environment_changes", "_KEPT"),
    ("benchapp.queries.charts.small_steps", "_CACHE"),
    ("benchapp.queries.overview.fleet", "_CACHE"),
)


@dataclass(frozen=True)
class _Open:
    """The transaction of shared rows."""

    make: Callable[[], Any]
    rows: Any
    atomic: Any
    blocker: Any


# None or one.
_open: list[_Open] = []


def shared_rows(make: Callable[[], Any]) -> Any:
    """Return a fixture with the name of a function that makes rows: what it returned, for all tests that ask for it."""

    def read_rows(db: None) -> Any:
        assert _open and _open[0].make is make, "shared rows were not made before the transaction of the test"
        return copy.deepcopy(_open[0].rows)

    read_rows.__doc__, read_rows.make = make.__doc__, make  # type: ignore[attr-defined]
    return pytest.fixture(read_rows, name=make.__name__)


def find_maker(item: Any) -> Callable[[], Any] | None:
    """Return the function that makes the rows that a test shares, None if it shares none.

    Raises UsageError for a test that asks for two kinds of rows, or that cannot run in a transaction.
    """
    fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    makers = {
        make.__name__: make
        for definitions in fixtures.values()
        if (make := getattr(definitions[-1].func, "make", None)) is not None
    }
    if not makers:
        return None
    if len(makers) > 1:
        raise pytest.UsageError(f"{item.nodeid} asks for shared rows of {' and '.join(sorted(makers))}")
    marker = item.get_closest_marker("django_db")
    options = marker.kwargs if marker else {}
    if (
        (marker and marker.args)
        or options.get("transaction")
        or options.get("reset_sequences")
        or {"transactional_db", "live_server", "django_db_reset_sequences"} & set(item.fixturenames)
    ):
        raise pytest.UsageError(f"{item.nodeid} commits: it cannot share rows ({', '.join(makers)})")
    return next(iter(makers.values()))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of a file that share rows next to the first of them."""
    places: dict[Any, int] = {}
    keys = []
    for place, item in enumerate(items):
        maker = find_maker(item)
        keys.append(place if maker is None else places.setdefault((item.path, maker), place))
    items[:] = [item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: pair[0])]


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> None:
    """Make the rows that a test shares before pytest-django opens the transaction of the test."""
    if fixturedef.argname != "_django_db_helper":
        return
    maker = find_maker(request.node)
    if _open and _open[0].make is not maker:
        _roll_back()
    if maker is None:
        return
    blocker = request.getfixturevalue("django_db_blocker")
    with blocker.unblock():
        if not _open:
            _make(maker, blocker)
        _clear_caches()


def _make(maker: Callable[[], Any], blocker: Any) -> None:
    from django.db import connection, transaction

    atomic = transaction.atomic()
    # As the transaction of a test: blocks that must be outermost may begin in it.
    atomic._from_testcase = True
    atomic.__enter__()
    try:
        rows = maker()
        # Here, and not in the savepoint of each test.
        connection.check_constraints()
    except BaseException:
        transaction.set_rollback(True)
        atomic.__exit__(None, None, None)
        raise
    _open.append(_Open(maker, rows, atomic, blocker))


def _roll_back() -> None:
    from django.db import transaction

    shared = _open.pop()
    with shared.blocker.unblock():
        transaction.set_rollback(True)
        shared.atomic.__exit__(None, None, None)
        _clear_caches()


def _clear_caches() -> None:
    for module, name in CACHES:
        if module in sys.modules:
            getattr(sys.modules[module], name)._kept.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Any:
    """Roll the rows back after the last test that shares them."""
    try:
        return (yield)
    finally:
        if _open and (nextitem is None or find_maker(nextitem) is not _open[0].make):
            _roll_back()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Roll the rows back after a run that ends at a failure."""
    if _open:
        _roll_back()
