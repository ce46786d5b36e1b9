"""Pytest plugin: a test that connects to another machine, or looks up its name, fails by its name.

The connection is refused before the system is asked (tests/loopback/loopback_only.py), here and in every Python that
is started with the environment of the tests; a refusal fails the test that runs at the time, also where the code
under test caught the error. PYTHONPATH carries the guard to other processes: a test that sets it keeps what it has.

pytest-socket would not do: it sees neither other processes nor errors that the code under test catches.
"""

import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import loopback_only

GUARD = Path(loopback_only.__file__).parent
# Beside the directory of tests.stack, which only one account may enter: servers of the tests may run as another.
DIRECTORY = Path(tempfile.mkdtemp(prefix="bn-"))
RECORD = DIRECTORY / "refused"


def _prepare() -> None:
    DIRECTORY.chmod(0o711)
    RECORD.touch()
    RECORD.chmod(0o666)
    os.environ[loopback_only.RECORD] = str(RECORD)
    there = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if str(GUARD) not in there:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(GUARD), *there])
    loopback_only.install(str(RECORD))


_prepare()
_read_bytes = 0


def take_refusals() -> list[str]:
    """Return the refusals that were not taken yet."""
    global _read_bytes
    with RECORD.open("rb") as record:
        record.seek(_read_bytes)
        written = record.read()
    _read_bytes += len(written)
    return written.decode().splitlines()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail the phase of a test in which a connection was refused."""
    report = yield
    refused = take_refusals()
    if refused:
        report.sections.append(("refused connections", "\n".join(refused)))
        if not report.failed:
            report.outcome = "failed"
            report.longrepr = "\n".join(["tests connect to loopback addresses only:", *refused])
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for what was refused after its last test."""
    refused = take_refusals()
    if refused:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.config.stash[_AFTER] = refused


_AFTER = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write what was refused outside of the tests."""
    for line in config.stash.get(_AFTER, []):
        terminalreporter.write_line(f"refused outside of the tests: {line}", red=True)


def pytest_unconfigure() -> None:
    """Remove the record."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
