"""Pytest plugin: how a run with several processes shares the tests among them.

A unit is what one process runs in one go: a file, a test of a file whose tests need nothing of each other, or files
whose tests share servers. Units keep the order of the collection, in which the long ones are not the last.
"""

import contextlib
import importlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

# Two units for the folder: a Chromium and a web process serve all of each. One would end minutes after the others.
BROWSER = "tests/browser"
BROWSER_PAGES = "tests/browser (pages and charts)"
BROWSER_PAGES_FILES = tuple(
    f"tests/browser/test_{name}.py" for name in ("every_page", "charts", "history", "scaling")
)
# What `--fast` leaves out: tests that start processes, use a server, a browser or a real fio.
SLOW_PATHS = (
    f"{BROWSER}/",
    "tests/agent/",
    "tests/chaos/",
    "tests/operation/embedded/",
    "tests/test_ci_gate.py",
    "tests/test_packaging.py",
)
SLOW_MARKERS = ("browser", "chaos", "corpus", "django_db", "fio")
SERVERS = ("db", "transactional_db", "postgres_server", "migrated_cluster", "valkey_server")
# A unit for each test.
DIVIDED = ("tests/agent/sweeping/test_sweep_loops.py",)


def find_unit(nodeid: str) -> str:
    """Return the unit that a test belongs to."""
    file = nodeid.split("::", 1)[0]
    if file.startswith(f"{BROWSER}/"):
        return BROWSER_PAGES if file in BROWSER_PAGES_FILES else BROWSER
    return nodeid if file in DIVIDED else file


def find_repeated(nodeids: Iterable[str]) -> list[str]:
    """Return the ids that several tests have: a run with several processes would run one of them."""
    return [nodeid for nodeid, count in Counter(nodeids).items() if count > 1]


def is_slow(nodeid: str, *, markers: Iterable[str], fixtures: Iterable[str]) -> bool:
    """Return whether `--fast` leaves a test out: processes, a browser, a killed server, a real fio, a database."""
    return (
        nodeid.startswith(SLOW_PATHS)
        or not set(markers).isdisjoint(SLOW_MARKERS)
        or not set(fixtures).isdisjoint(SERVERS)
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fast`."""
    parser.addoption(
        "--fast", action="store_true", help="leave out slow files, servers, browsers and real fio"
    )


def _leave_out_slow(items: list[pytest.Item], config: pytest.Config) -> None:
    slow = {
        item
        for item in items
        if is_slow(
            item.nodeid,
            markers=(mark.name for mark in item.iter_markers()),
            fixtures=getattr(item, "fixturenames", ()),
        )
    }
    config.hook.pytest_deselected(items=[item for item in items if item in slow])
    items[:] = [item for item in items if item not in slow]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave slow tests out with `--fast`. Raises UsageError for tests with the same id."""
    if repeated := find_repeated(item.nodeid for item in items):
        raise pytest.UsageError(f"several tests have the same id: {', '.join(repeated)}")
    if config.getoption("fast"):
        _leave_out_slow(items, config)


def list_test_files(arguments: Iterable[str], root: Path) -> list[Path]:
    """Return the test files of arguments of pytest (folders, files, ids of tests), sorted."""
    named = [root / argument.split("::", 1)[0] for argument in arguments]
    return sorted({file for path in named for file in (path.rglob("test_*.py") if path.is_dir() else [path])})


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the test files first, in a process of a shared run.

    Where none has run before, pytest compiles each with its assertions rewritten, in 5 s of CPU: every process would do
    all of it, at the same time. This way each finds most of them as the others have written them.
    """
    config = session.config
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        return
    files = list_test_files(config.args, config.rootpath)
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        # The collection reports what cannot be imported.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out units in the order of the collection; `--dist` of another kind than loadfile is left alone."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class UnitScheduling(LoadFileScheduling):
        """Hands a process the next unit when it is about to finish its own."""

        def _split_scope(self, nodeid: str) -> str:
            return find_unit(nodeid)

    config.option.loadscopereorder = False
    return UnitScheduling(config, log)
