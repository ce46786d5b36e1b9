"""The database of a command."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from benchapp.embedded.backup import open_embedded
from benchapp.embedded.home import Home


@contextmanager
def use_database(data_directory: Path) -> Iterator[None]:
    """Use the database of DATABASE_URL, else the embedded one, whether its stack is running or not."""
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
