"""A database of their own for benchmarks that run the pipeline in their process, or in workers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Before NumPy is imported: threads of its libraries would be measured with the one that calls them.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from tests.servers import Servers  # noqa: E402


@contextmanager
def open_database(directory: Path | None = None) -> Iterator[None]:
    """Start PostgreSQL, create the tables, and set up Django for it in this process; stop PostgreSQL at the end.

    directory: where the database is kept for another run; None for one that is deleted.
    """
    servers = Servers(directory=directory) if directory else Servers()
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        os.environ.update(servers.env("command"))
        set_up_django()
        yield
    finally:
        servers.stop(keeps_directory=directory is not None)


def set_up_django() -> None:
    """Set up Django for the database of the environment; also the initializer of worker processes."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchapp.settings"
    import django

    django.setup()
