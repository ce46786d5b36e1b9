"""Back up and restore the database with pg_dump and pg_restore, whether the stack is running or not."""

import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchapp.operation.embedded.child import choose_account, stop, write_private_file
from benchapp.operation.embedded.home import (
    AlreadyRunning,
    Home,
    create_socket_directory,
    remove_socket_directory,
)
from benchapp.operation.embedded.preflight import (
    PreflightFailed,
    check_disk,
    check_writable,
    read_caller_environment,
)
from benchapp.operation.embedded.servers import (
    DATABASE,
    USER,
    NoBinaries,
    Postgres,
    choose_directory,
    find_installation,
    make_url,
)

# Drops tables, views and own functions only: the schema may be owned by an administrator.
_EMPTY_SQL: Final = b"""\
SET client_min_messages = warning;
DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT c.oid::regclass::text FROM pg_class c
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('v', 'm') LOOP
    EXECUTE 'DROP VIEW IF EXISTS ' || name || ' CASCADE';
  END LOOP;
  FOR name IN SELECT c.oid::regclass::text FROM pg_class c
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') LOOP
    EXECUTE 'DROP TABLE IF EXISTS ' || name || ' CASCADE';
  END LOOP;
  FOR name IN SELECT p.oid::regprocedure::text FROM pg_proc p
      WHERE p.pronamespace = current_schema()::regnamespace AND p.proname LIKE 'benchapp\\_%' LOOP
    EXECUTE 'DROP FUNCTION IF EXISTS ' || name || ' CASCADE';
  END LOOP;
END $$;
"""
# The bundled pg_restore writes this, and an external server may be older.
_UNKNOWN_BEFORE_17: Final = b"SET transaction_timeout = 0;\n"
_PREAMBLE_LINES: Final = 40
# A database with rows in one of these is not empty.
_HISTORY: Final = {
    "benchapp_submission": "SELECT EXISTS (SELECT FROM benchapp_submission)",
    "benchapp_run": "SELECT EXISTS (SELECT FROM benchapp_run)",
    "benchapp_user": "SELECT EXISTS (SELECT FROM benchapp_user)",
}
_SETTINGS_NAME: Final = "settings.json"
# Each can be in a file, which NAME_FILE names.
_SECRETS: Final = ("BENCHAPP_SECRET_KEY", "BENCHAPP_EMAIL_URL", "BENCHAPP_OIDC_CLIENT_SECRET")
# Places of this machine, and what clients of the API use.
_LEFT_OUT: Final = frozenset(
    f"BENCHAPP_{name}"
    for name in ("DATA_DIR", "STATIC_ROOT", "INSTANCE_ID", "ROLE", "HEARTBEAT_FILE", "TOKEN", "URL")
)


class BackupFailed(Exception):
    """A backup or restore failed; the database is unchanged."""


@dataclass(frozen=True)
class Connection:
    """Connection parameters for Django (url) and for PostgreSQL's tools (environment)."""

    url: str
    environment: Mapping[str, str]


@contextlib.contextmanager
def open_embedded(home: Home, *, creates: bool = False) -> Iterator[Connection]:
    """Yield a connection to the embedded database: of the running stack, or started temporarily.

    A missing database is created if `creates`, else BackupFailed.
    """
    if not (home.path / "postgresql").exists():
        if not creates:
            raise BackupFailed(f"no database in {home.path}; `up` has not been started there")
        _prepare_home(home)
    try:
        with home.lock(), _serve_alone(home) as sockets:
            yield _embedded_connection(sockets)
    except AlreadyRunning as running:
        state = home.read_state()
        if state is None or not (Path(state.socket_directory) / ".s.PGSQL.5432").exists():
            raise BackupFailed(str(running)) from None
        yield _embedded_connection(Path(state.socket_directory))


def write_backup(connection: Connection, file: Path, settings: Mapping[str, str]) -> int:
    """Write a backup atomically with mode 0600; return its size in bytes.

    The settings are a zip archive behind the dump, which pg_restore does not read.
    """
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as output:
            dump = subprocess.run(
                [_tool("pg_dump"), "--format=custom", "--no-owner", "--no-privileges"],
                env=_environment(connection),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                check=False,
            )
            if dump.returncode != 0:
                raise BackupFailed(f"pg_dump failed: {_describe_stderr(dump.stderr)}")
        with partial.open("r+b") as output:
            with zipfile.ZipFile(output, "a") as archive:
                archive.writestr(_SETTINGS_NAME, json.dumps(settings))
            output.flush()
            os.fsync(output.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return file.stat().st_size


def collect_settings(home: Home | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with their secrets: of the running stack or this command, without places of this machine.

    home: None for a database of DATABASE_URL.
    """
    base = (home and read_caller_environment(home)) or environ
    found = {
        name: text for name, text in base.items() if name.startswith("BENCHAPP_") and name not in _LEFT_OUT
    }
    for name in _SECRETS:
        if path := found.pop(f"{name}_FILE", ""):
            found[name] = Path(path).read_text(encoding="utf-8").strip()
    if key := home and home.read_secret("secret-key"):
        found.setdefault("BENCHAPP_SECRET_KEY", key)
    return found


def restore_settings(file: Path, home: Home | None, *, is_forced: bool) -> tuple[Path | None, bool]:
    """Put the secret key of a backup into a data directory without one; return a new file with its other settings.

    None if it has no others; and whether another key stays. is_forced: replace the key. home: None for a database of
    DATABASE_URL, which gets all settings in a file beside the backup.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            found: dict[str, str] = json.loads(archive.read(_SETTINGS_NAME))
    except (zipfile.BadZipFile, KeyError):
        return None, False
    key = found.pop("BENCHAPP_SECRET_KEY", "") if home else ""
    own = home.read_secret("secret-key") if home else None
    is_kept = bool(own and key and own != key and not is_forced)
    if home and key and not is_kept:
        home.write_secret("secret-key", key)
    if not found:
        return None, is_kept
    path = home.path / "settings.env" if home else file.with_name(f"{file.name}.env")
    write_private_file(path, "".join(f"{name}={shlex.quote(text)}\n" for name, text in sorted(found.items())))
    return path, is_kept


def find_home(data_directory: Path) -> Home | None:
    """Return the stack with the database; None if DATABASE_URL names another one."""
    if os.environ.get("DATABASE_URL", "").strip():
        return None
    return Home(data_directory.expanduser().absolute())


def check_file(file: Path) -> None:
    """Raise BackupFailed for a missing file, before a database is created for it."""
    if not file.is_file():
        raise BackupFailed(f"file not found: {file}")


def restore_backup(connection: Connection, file: Path, *, is_forced: bool = False) -> None:
    """Replace the database by a backup in one transaction."""
    check_file(file)
    if not is_forced and not is_empty(connection):
        raise BackupFailed(
            "the database contains runs or accounts, which a restore would replace; back it up first, "
            "then restore with --force"
        )
    with _read_script(file) as script:
        load = subprocess.run(
            [
                _tool("psql"),
                "-X",
                "--quiet",
                "--single-transaction",
                "-v",
                "ON_ERROR_STOP=1",
                "-f",
                str(script),
            ],
            env=_environment(connection),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    if load.returncode != 0:
        raise BackupFailed(f"the restore failed, the database is unchanged: {_describe_stderr(load.stderr)}")


def is_empty(connection: Connection) -> bool:
    """Return whether the database has no submissions, runs and accounts."""
    names = _ask(
        connection, "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
    )
    return all(_ask(connection, query) == "f" for table, query in _HISTORY.items() if table in names.split())


def _prepare_home(home: Home) -> None:
    try:
        check_writable(home.path)
        home.create(is_root=os.geteuid() == 0)
        check_disk(home.path)
    except PreflightFailed as failed:
        raise BackupFailed(str(failed)) from None


@contextlib.contextmanager
def _serve_alone(home: Home) -> Iterator[Path]:
    account = choose_account()
    sockets = create_socket_directory(home, account)
    try:
        postgres = Postgres(
            directory=choose_directory(home.path, account),
            socket_directory=sockets,
            log=home.logs / "postgresql.log",
            account=account,
        )
        postgres.initialize()
        postgres.wait_for_predecessor()
        process = postgres.start()
        try:
            yield sockets
        finally:
            stop(process, ask=signal.SIGINT, patience_s=60, kill_signal=signal.SIGQUIT)
    finally:
        remove_socket_directory(sockets)


@contextlib.contextmanager
def _read_script(file: Path) -> Iterator[Path]:
    """Yield the backup as SQL that first drops existing tables."""
    script = file.with_name(f".{file.name}.{os.getpid()}.sql")
    descriptor = os.open(script, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as output, tempfile.TemporaryFile() as errors:
            output.write(_EMPTY_SQL)
            with subprocess.Popen(
                [_tool("pg_restore"), "--no-owner", "--no-privileges", "--file=-", str(file)],
                env=_tool_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            ) as read:
                assert read.stdout is not None
                for line in itertools.islice(read.stdout, _PREAMBLE_LINES):
                    if line != _UNKNOWN_BEFORE_17:
                        output.write(line)
                shutil.copyfileobj(read.stdout, output, 2**20)
            errors.seek(0)
            error_text = errors.read()
        if read.returncode != 0:
            raise BackupFailed(f"{file} is not a valid backup: {_describe_stderr(error_text)}")
        yield script
    finally:
        script.unlink(missing_ok=True)


def _ask(connection: Connection, query: str) -> str:
    found = subprocess.run(
        [_tool("psql"), "-XAtq", "-c", query],
        env=_environment(connection),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if found.returncode != 0:
        raise BackupFailed(f"the database does not respond: {_describe_stderr(found.stderr)}")
    return found.stdout.decode().strip()


def _embedded_connection(sockets: Path) -> Connection:
    return Connection(make_url(sockets), {"PGHOST": str(sockets), "PGUSER": USER, "PGDATABASE": DATABASE})


def _tool(name: str) -> str:
    try:
        return str(find_installation() / "bin" / name)
    except NoBinaries:
        raise BackupFailed(
            f"{name} is not installed here: run the one of your PostgreSQL server (docs/operations.md, Docker Compose)"
        ) from None


def _environment(connection: Connection) -> dict[str, str]:
    return {**_tool_environment(), **connection.environment}


def _tool_environment() -> dict[str, str]:
    # PG* variables of the caller must not redirect a restore to another database.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**inherited, "LC_ALL": "C", "TZ": "UTC"}


def _describe_stderr(stderr: bytes) -> str:
    lines = [
        line
        for line in stderr.decode(errors="replace").splitlines()
        if line.strip() and "NOTICE:" not in line
    ]
    return " / ".join(lines[-3:]) if lines else "no error message"


# libpq variables for query parameters of DATABASE_URL.
_OPTIONS: Final = {
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "options": "PGOPTIONS",
}


@contextlib.contextmanager
def open_database(
    data_directory: Path, database: Mapping[str, Any], *, creates: bool = False
) -> Iterator[Connection]:
    """Yield a connection to the database of DATABASE_URL (as Django reads it), else to the embedded one."""
    home = find_home(data_directory)
    if home is None:
        yield Connection(os.environ["DATABASE_URL"].strip(), read_connection_variables(database))
        return
    with open_embedded(home, creates=creates) as connection:
        yield connection


def read_connection_variables(database: Mapping[str, Any]) -> dict[str, str]:
    """Return libpq's variables for a database of Django's settings."""
    named = {
        "PGHOST": database["HOST"],
        "PGPORT": database["PORT"],
        "PGUSER": database["USER"],
        "PGPASSWORD": database["PASSWORD"],
        "PGDATABASE": database["NAME"],
    }
    options = {
        _OPTIONS[name]: value for name, value in database.get("OPTIONS", {}).items() if name in _OPTIONS
    }
    return {name: str(value) for name, value in {**named, **options}.items() if value}
