"""Places and servers for the tests of the embedded stack."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchapp.operation.embedded.child import SystemAccount, choose_account
from benchapp.operation.embedded.servers import Postgres
from tests.clusters import make_place


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a directory with a short path that the servers' account may walk through, unlike tmp_path."""
    directory = make_place("bt-")
    directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def account() -> SystemAccount | None:
    return choose_account()


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """Return a cluster that was just made; copying it is ten times as fast as making another."""
    directory = make_place("bt-")
    directory.chmod(0o711)
    make_cluster(directory, choose_account()).initialize()
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def postgres(place: Path, account: SystemAccount | None, template: Path) -> Iterator[Postgres]:
    """Return a cluster that exists and does not run; whatever runs in it at the end is stopped."""
    subprocess.run(["cp", "-a", template / "postgresql", place], check=True)
    cluster = make_cluster(place, account)
    yield cluster
    pid = cluster.find_server()
    if pid is not None:
        os.kill(pid, signal.SIGQUIT)


def make_cluster(place: Path, account: SystemAccount | None, **settings: str) -> Postgres:
    """Describe a cluster under this directory."""
    return Postgres(
        directory=place / "postgresql" / "18",
        socket_directory=place / "run",
        log=place / "postgresql.log",
        account=account,
        settings={"fsync": "off", **settings},
    )
