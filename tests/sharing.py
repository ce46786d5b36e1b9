"""Pytest plugin: how a run with several processes shares the tests among them: the slowest units first.

A unit is what one process runs in one go: a file, a test of a file whose tests need nothing of each other, or files
whose tests share servers. Seconds are of a machine of two cores; only the order depends on them.
"""

import contextlib
import importlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

# Units that take more than five seconds; every other is thought to take one.
SECONDS = {
    "tests/browser (pages and charts)": 75,
    "tests/browser": 74,
    "tests/chaos/test_faults.py": 60,
    "tests/embedded/test_up.py": 35,
    "tests/test_access.py": 25,
    "tests/test_ci_gate.py": 20,
    "tests/agent/delivery/test_torture.py": 20,
    "tests/test_wide.py": 14,
    "tests/archive/test_round_trip.py": 14,
    "tests/chaos/test_chaos.py": 12,
    "tests/test_fleet.py": 12,
    "tests/api/ingest/test_wire.py": 11,
    "tests/agent/sweeping/test_sweep_loops.py": 9,
    "tests/pipeline/detection/test_levels_any_order.py": 9,
    "tests/agent/profiles/test_real_profiles.py": 8,
    "tests/pipeline/detection/test_concurrent_detection.py": 8,
    "tests/embedded/test_postgres.py": 7,
    "tests/pipeline/detection/test_detect.py": 7,
    "tests/pipeline/incidents/test_grouping.py": 7,
    "tests/test_packaging.py": 7,
    "tests/web/studies/test_sample.py": 7,
    "tests/agent/running/test_run_command.py": 6,
    "tests/test_migrations.py": 6,
}
# Two units for the folder: a Chromium and a web process serve all of each. One would end minutes after the others.
BROWSER = "tests/browser"
BROWSER_PAGES = "tests/browser (pages and charts)"
BROWSER_PAGES_FILES = tuple(
    f"tests/browser/test_{name}.py" for name in ("every_page", "charts", "history", "scaling")
)
# What `--fast` leaves out besides the units above: tests that start processes, use a server, a browser or a real fio.
SLOW_FOLDERS = ("tests/agent/", "tests/chaos/", "tests/embedded/")
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


def order_units(units: Iterable[str]) -> list[str]:
    """Return the units, slowest first; those that take as long keep their order."""
    return sorted(
        dict.fromkeys(units), key=lambda unit: -SECONDS.get(unit, SECONDS.get(unit.split("::")[0], 1))
    )


def find_repeated(nodeids: Iterable[str]) -> list[str]:
    """Return the ids that several tests have: a run with several processes would run one of them."""
    return [nodeid for nodeid, count in Counter(nodeids).items() if count > 1]


def is_slow(nodeid: str, *, markers: Iterable[str], fixtures: Iterable[str]) -> bool:
    """Return whether `--fast` leaves a test out: a slow unit, a browser, a killed server, a real fio, a database."""
    unit = find_unit(nodeid)
    return (
        unit in SECONDS
        or unit.split("::")[0] in SECONDS
        or nodeid.startswith(SLOW_FOLDERS)
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
    """Put the slowest units first in every process of a shared run; one process alone keeps the order of the files.

    Raises UsageError for tests with the same id.
    """
    if repeated := find_repeated(item.nodeid for item in items):
        raise pytest.UsageError(f"several tests have the same id: {', '.join(repeated)}")
    if config.getoption("fast"):
        _leave_out_slow(items, config)
    if not hasattr(config, "workerinput"):
        return
    units = order_units(find_unit(item.nodeid) for item in items)
    places = {unit: place for place, unit in enumerate(units)}
    items.sort(key=lambda item: places[find_unit(item.nodeid)])


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
