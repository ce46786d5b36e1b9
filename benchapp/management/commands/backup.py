"""Back up the database to a file: `manage.py backup FILE`."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, transaction

from benchapp.framework.write.audit import record_write, write_from_command
from benchapp.management.progress import add_data_directory, use_database
from benchapp.models import AuditKind
from benchapp.operation.embedded.backup import BackupFailed, collect_settings, find_home, write_backup


class Command(BaseCommand):
    """Back up the database of DATABASE_URL, else the embedded one."""

    help = (
        "Back up the database (submissions, runs, accounts) and the settings to a file; the stack may be running or"
        " stopped."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("file", type=Path, help="output file; an existing one is replaced")
        add_data_directory(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the backup and print its size."""
        file: Path = options["file"].absolute()
        try:
            with use_database(options["data_dir"]) as opened:
                settings = collect_settings(find_home(options["data_dir"]), os.environ)
                size = write_backup(opened, file, settings)
                self._record(file, size)
        except (BackupFailed, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{file} ({size / 1e6:.1f} MB). Restore with: manage.py restore {file}")

    def _record(self, file: Path, size: int) -> None:
        """Let the page Status know of the backup."""
        try:
            with transaction.atomic(), write_from_command("backup"):
                record_write(AuditKind.BACKUP, "written", name=file.name, after={"bytes": size})
        except DatabaseError as error:
            self.stderr.write(f"The backup is complete, but not in the audit record: {error}")
