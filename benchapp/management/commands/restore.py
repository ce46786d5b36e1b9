"""Restore the database from a file: `manage.py restore FILE`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.operation.embedded.backup import (
    BackupFailed,
    Connection,
    check_file,
    find_home,
    open_database,
    restore_backup,
    restore_settings,
)
from benchapp.operation.embedded.child import PROJECT, NoAccount
from benchapp.operation.embedded.command import default_data_directory
from benchapp.operation.embedded.servers import NoBinaries


class Command(BaseCommand):
    """Restore the database of DATABASE_URL, else the embedded one."""

    help = (
        "Replace the database (submissions, runs, accounts) by a backup; the stack may be running or stopped."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("file", type=Path, help="backup file")
        parser.add_argument("--force", action="store_true", help="replace existing runs and accounts")
        parser.add_argument(
            "--data-dir",
            type=Path,
            default=default_data_directory(os.environ),
            help="data directory of `up` (default: var); created if missing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Restore the backup and migrate its tables."""
        file: Path = options["file"].absolute()
        try:
            check_file(file)
            with open_database(
                options["data_dir"], settings.DATABASES["default"], creates=True
            ) as connection:
                restore_backup(connection, file, is_forced=options["force"])
                migrate(connection)
                home = find_home(options["data_dir"])
                settings_file, is_key_kept = restore_settings(file, home, is_forced=options["force"])
        except (BackupFailed, NoAccount, NoBinaries, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Restored {file}.")
        if is_key_kept:
            self.stdout.write(
                "The data directory keeps its own secret key: sessions, links and signing secrets of the backup are not"
                " valid. --force takes the key of the backup."
            )
        if settings_file is not None:
            self.stdout.write(f"Its settings, with secrets, are in {settings_file}: set what you need.")


def migrate(connection: Connection) -> None:
    """Migrate the tables of the restored backup, in a process with that database in its settings."""
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--no-input", "--skip-checks", "--verbosity", "0"],
        cwd=PROJECT,
        env={**os.environ, "DATABASE_URL": connection.url},
        check=False,
    )
    if done.returncode != 0:
        raise CommandError("the backup is restored, but its migration failed; see above")
