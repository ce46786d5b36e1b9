"""`manage.py export_config`: write the configuration to a YAML file."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import InterfaceError, OperationalError

from benchapp.configuration.apply import export_configuration
from benchapp.embedded.backup import BackupFailed
from benchapp.embedded.command import default_data_directory
from benchapp.embedded.postgres import NoBinaries
from benchapp.management.database import use_database


class Command(BaseCommand):
    """Write the file, which apply_config reads; it has no secrets."""

    help = "Export pools of hosts, detection policies, planned events, prices, subscriptions and studies as YAML."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("file", metavar="FILE", help="file to write; - for standard output")
        parser.add_argument(
            "--data-dir",
            type=Path,
            default=default_data_directory(os.environ),
            help="data directory of `up`, without DATABASE_URL (default: var)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Export; an existing file is replaced once the new one is complete."""
        try:
            with use_database(options["data_dir"]):
                text = export_configuration()
            if options["file"] == "-":
                self.stdout.write(text, ending="")
                return
            file = Path(options["file"])
            unfinished = file.with_name(f".{file.name}.part")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(file)
        except (BackupFailed, NoBinaries, OSError) as error:
            raise CommandError(str(error)) from error
        except (OperationalError, InterfaceError) as error:
            raise CommandError(f"the database does not respond: {error}") from error
