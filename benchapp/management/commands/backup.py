"""Back up the database to a file: `manage.py backup FILE`."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.operation.embedded.backup import BackupFailed, open_database, write_backup
from benchapp.operation.embedded.child import NoAccount
from benchapp.operation.embedded.command import default_data_directory
from benchapp.operation.embedded.servers import NoBinaries


class Command(BaseCommand):
    """Back up the database of DATABASE_URL, else the embedded one."""

    help = (
        "Back up the database (submissions, runs, accounts) to a file; the stack may be running or stopped."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("file", type=Path, help="output file; an existing one is replaced")
        parser.add_argument(
            "--data-dir",
            type=Path,
            default=default_data_directory(os.environ),
            help="data directory of `up` (default: var)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the backup and print its size."""
        file: Path = options["file"].absolute()
        try:
            with open_database(options["data_dir"], settings.DATABASES["default"]) as connection:
                size = write_backup(connection, file)
        except (BackupFailed, NoAccount, NoBinaries, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{file} ({size / 1e6:.1f} MB). Restore with: manage.py restore {file}")
