"""`manage.py export_config`: write the configuration to a YAML file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.management.progress import add_data_directory, use_database
from benchapp.operation.configuration.plan import export_configuration


class Command(BaseCommand):
    """Write the file, which apply_config reads; it has no secrets."""

    help = "Export pools of hosts, detection policies, planned events, prices, subscriptions and studies as YAML."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the arguments."""
        parser.add_argument("file", metavar="FILE", help="file to write; - for standard output")
        add_data_directory(parser)

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
        except OSError as error:
            raise CommandError(str(error)) from error
