"""The database of backup and restore: that of DATABASE_URL, else the embedded one."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchapp.operation.embedded.backup import Connection, open_embedded
from benchapp.operation.embedded.home import Home

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
    url = os.environ.get("DATABASE_URL", "").strip()
    if url:
        yield Connection(url, read_connection_variables(database))
        return
    with open_embedded(Home(data_directory.expanduser().absolute()), creates=creates) as connection:
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
