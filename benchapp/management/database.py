"""The database of a command."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management.base import CommandError, CommandParser
from django.db import InterfaceError, OperationalError, connection

from benchapp.operation.embedded.backup import BackupFailed, open_embedded
from benchapp.operation.embedded.command import default_data_directory
from benchapp.operation.embedded.home import Home
from benchapp.operation.embedded.servers import NoBinaries


def add_data_directory(parser: CommandParser) -> None:
    """Add the option --data-dir, for `use_database`."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=default_data_directory(os.environ),
        help="data directory of `up`, without DATABASE_URL (default: var)",
    )


@contextmanager
def use_database(data_directory: Path, *, failed: str = "run the command again later") -> Iterator[None]:
    """Use the database of DATABASE_URL, else the embedded one, whether its stack is running or not.

    Raises CommandError if there is none, or if it fails while it is used. failed: what the user needs to know then.
    """
    try:
        with _open_database(data_directory):
            yield
    except (BackupFailed, NoBinaries) as error:
        raise CommandError(str(error)) from error
    except (OperationalError, InterfaceError) as error:
        raise CommandError(f"database error: {error}; {failed}") from error


@contextmanager
def _open_database(data_directory: Path) -> Iterator[None]:
    if os.environ.get("DATABASE_URL", "").strip():
        yield
        return
    with open_embedded(Home(data_directory.expanduser().absolute())) as embedded:
        known = embedded.environment
        connection.close()
        connection.settings_dict.update(HOST=known["PGHOST"], USER=known["PGUSER"], NAME=known["PGDATABASE"])
        connection.settings_dict["PORT"] = ""
        yield
        connection.close()
